# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes in pools, networks, volumes, secrets and bridges that can be seen without the hypervisor."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ansible.errors import AnsibleFilterError

from ..module_utils._base.errors import VirtError
from ..module_utils._model.spec.fields.given import GivenOptions
from ..module_utils._model.spec.fields.table import rules_beside
from ..module_utils._model.spec.resources.network.spec import NETWORK_RULES
from ..module_utils._model.spec.resources.network.table import NETWORK
from ..module_utils._model.spec.resources.pool import read_pool
from ..module_utils._model.spec.resources.secret import read_secret
from ..module_utils._model.spec.resources.volume import read_volume_spec
from ..module_utils._network.spec import read_bridges


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
