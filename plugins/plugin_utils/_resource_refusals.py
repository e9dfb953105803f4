# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hypervisor would refuse of pools, networks, volumes and secrets, by the variables that they are in."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ansible.errors import AnsibleFilterError

from ..module_utils._model.spec.resources.pool import ACTIVE
from ..module_utils._model.spec.seed import DEFAULT_POOL

_ENDING = re.compile(r"_(pools|networks|volumes|secrets)\Z")


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
