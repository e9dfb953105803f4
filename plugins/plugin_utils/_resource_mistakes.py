# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes in pools, networks, volumes, secrets and bridges, by the variables that they are in: those that can be seen
without the hypervisor, and what it would refuse."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ansible.errors import AnsibleFilterError

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
# Read as a whole: two of them may not be on one interface.
_BRIDGES = "_bridges"


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
            sentences.append(f"{variable}: {type(items).__name__} is not a list")
            continue
        for index, item in enumerate(items):
            sentences += _of_item(item, f"{variable}[{index}]", reader)
    return list(dict.fromkeys(sentences))


def _of_item(item: t.Any, place: str, reader: Callable[[GivenOptions], t.Any]) -> list[str]:
    if not isinstance(item, Mapping):
        return [f"{place}: an item is a mapping, such as {{name: NAME}}, and not a {type(item).__name__}"]
    return _sentences(lambda: reader(GivenOptions.of(item, place)))


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
