# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes in pools, networks, volumes, secrets and bridges, by the variables that they are in: those that can be seen
without the hypervisor, and what it would refuse. And variables of roles that are no list or mapping."""

from __future__ import annotations

import contextlib
import re
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ansible.errors import AnsibleError, AnsibleFilterError
from jinja2.exceptions import UndefinedError

from ..module_utils._base.errors import VirtError
from ..module_utils._model.spec.fields.given import GivenOptions
from ..module_utils._model.spec.fields.table import rules_beside
from ..module_utils._model.spec.resources.network.spec import NETWORK_RULES
from ..module_utils._model.spec.resources.network.table import NETWORK
from ..module_utils._model.spec.resources.pool import ACTIVE, read_pool
from ..module_utils._model.spec.resources.secret import read_secret
from ..module_utils._model.spec.resources.volume import read_volume_spec
from ..module_utils._model.spec.seed import DEFAULT_POOL
from ..module_utils._network.spec import read_bridges

_ENDING = re.compile(r"_(pools|networks|volumes|secrets)\Z")


def _read_network(given: GivenOptions) -> None:
    given.check_words(rules_beside(NETWORK_RULES, NETWORK, None))


_READERS: dict[str, Callable[[GivenOptions], t.Any]] = {
    "_pools": read_pool,
    "_networks": _read_network,
    "_volumes": read_volume_spec,
    "_secrets": read_secret,
}
_NO_ITEM = "an item is a mapping, such as {name: NAME}"
# One of several that stand in a text, whether or not it looks like a list.
_WORD = re.compile(r"""[^][{}",\s']+""")
# Read as a whole: two of them may not be on one interface.
_BRIDGES = "_bridges"


def type_mistakes(values: t.Any, options: t.Any) -> dict[str, list[str]]:
    """By the names of the variables that are not the list or the mapping that they should be, what is wrong.

    values: variables by name, others too. options: those of an argument specification.
    """
    for given in (values, options):
        if not isinstance(given, Mapping):
            raise AnsibleFilterError("brine.virt.type_mistakes: the input or its argument is not a mapping")
    readers = {"list": _not_a_list, "dict": _not_a_mapping}
    found: dict[str, list[str]] = {}
    for name, option in options.items():
        if option.get("type") in readers and name in values:
            # One that is made of the host's facts has no value before these are there.
            with contextlib.suppress(AnsibleError, UndefinedError):
                found[name] = readers[option["type"]](values[name], name, option.get("elements"))
    return {name: sentences for name, sentences in found.items() if sentences}


def _not_a_list(value: t.Any, name: str, elements: str | None) -> list[str]:
    of_mappings = elements == "dict"
    if not isinstance(value, Sequence) or isinstance(value, str):
        text = ", ".join(map(str, value)) if isinstance(value, Mapping) else str(value or "")
        # The name of a certificate has commas in it. What may be a secret is not repeated: those are mappings.
        words = [f'"{text}"'] if "=" in text else _WORD.findall(text)
        right = "{name: NAME}" if of_mappings and value else ", ".join(words)
        return [f"{name}: this is not a list; write it as a list: [{right}]"]
    return [
        f"{name}[{index}]: {_NO_ITEM}"
        for index, item in enumerate(value)
        if of_mappings and not isinstance(item, Mapping)
    ]


def _not_a_mapping(value: t.Any, name: str, _elements: str | None) -> list[str]:
    if isinstance(value, Mapping):
        return []
    return [f"{name}: this is not a mapping; write it as a mapping: {{{'NAME: VALUE' if value else ''}}}"]


def resource_mistakes(lists: t.Any) -> list[str]:
    """A sentence for each mistake, in the order of the lists. lists: the items by the name of their variable."""
    if not isinstance(lists, Mapping):
        raise AnsibleFilterError("brine.virt.resource_mistakes: the input is not a mapping")
    sentences: list[str] = []
    for variable, items in lists.items():
        if str(variable).endswith(_BRIDGES):
            sentences += _sentences(partial(read_bridges, items, variable))
            continue
        reader = next((one for ending, one in _READERS.items() if str(variable).endswith(ending)), None)
        if reader is None:
            raise AnsibleFilterError(
                f"brine.virt.resource_mistakes: {variable} ends with none of {', '.join([*_READERS, _BRIDGES])}"
            )
        if not isinstance(items, Sequence) or isinstance(items, str):
            sentences += _not_a_list(items, str(variable), "dict")
            continue
        for index, item in enumerate(items):
            sentences += _of_item(item, f"{variable}[{index}]", reader)
        sentences += _twice(str(variable), items)
    return list(dict.fromkeys(sentences))


def _of_item(item: t.Any, place: str, reader: Callable[[GivenOptions], t.Any]) -> list[str]:
    if not isinstance(item, Mapping):
        return [f"{place}: {_NO_ITEM}"]
    return _sentences(lambda: reader(GivenOptions.of(item, place)))


def _twice(variable: str, items: Sequence[t.Any]) -> list[str]:
    """A sentence for each pool or network with the name of one before it, which the module would refuse."""
    if not variable.endswith(("_pools", "_networks")):
        return []
    names = [item.get("name") if isinstance(item, Mapping) else None for item in items]
    return [
        f"{variable}[{index}].name: has the same name as {variable}[{names.index(name)}].name"
        for index, name in enumerate(names)
        if name is not None and name in names[:index]
    ]


def _sentences(read: Callable[[], t.Any]) -> list[str]:
    try:
        read()
    except VirtError as exc:
        return str(exc).splitlines()
    return []


def resource_refusals(answers: t.Any, lists: t.Any) -> list[str]:
    """A sentence for each mistake, in the order of the answers.

    answers: what the module of each list answered in check mode, by the name of the variable. lists: all lists.
    """
    for given in (answers, lists):
        if not isinstance(given, Mapping):
            raise AnsibleFilterError("brine.virt.resource_refusals: the input or its argument is not a mapping")
    waiting = set(_waiting(lists))
    sentences: list[str] = []
    for variable, answer in answers.items():
        ending = _ENDING.search(str(variable))
        if ending is None:
            raise AnsibleFilterError(
                f"brine.virt.resource_refusals: {variable} ends with none of _pools, _networks, _volumes, _secrets"
            )
        place = re.compile(rf"(?<![\w.]){ending[1]}\[(?=\d+\])")
        lines = str(answer.get("msg") or "").splitlines()
        # An error without a place is none of the variable: libvirt is not started yet, for example.
        found = [place.sub(f"{variable}[", line) for line in lines if place.search(line)]
        sentences += [line for line in found if line.partition(":")[0] not in waiting]
    return sentences


def _waiting(lists: Mapping[str, t.Any]) -> Iterator[str]:
    """The places of volumes that may lack what a pool of the lists will bring: itself, or a file in it."""
    pools = [pool for pool in _of(lists, "pools") if pool.get("state", ACTIVE) == ACTIVE]
    names = {pool.get("name") for pool in pools}
    folders = tuple(f"{str(pool['path']).rstrip('/')}/" for pool in pools if pool.get("path"))
    for variable in lists:
        if str(variable).endswith("_volumes"):
            for index, volume in enumerate(_of({variable: lists[variable]}, "volumes")):
                if volume.get("pool", DEFAULT_POOL) in names:
                    yield f"{variable}[{index}].pool"
                if folders and str(volume.get("path") or "").startswith(folders):
                    yield f"{variable}[{index}].path"


def _of(lists: Mapping[str, t.Any], kind: str) -> Sequence[Mapping[str, t.Any]]:
    return [item for variable, items in lists.items() if str(variable).endswith(f"_{kind}") for item in items]
