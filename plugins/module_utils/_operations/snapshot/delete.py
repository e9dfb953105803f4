# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots go."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    VirConnect,
    libvirt,
    suppress_codes,
    translate_errors,
)
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import EXTERNAL, KnownSnapshot
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.files import require_unused_files
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import SnapshotView


def steps_to_delete(conn: VirConnect, machine: SnapshotView, going: Sequence[KnownSnapshot]) -> list[Step]:
    """The steps that delete snapshots, each before the one that it follows; what the machine is now stays.

    Raises ConflictError when something else uses a file that libvirt would merge or delete.
    """
    if any(one.facts.kind == EXTERNAL for one in going):
        require_unused_files(conn, machine, "deleted")
    order = [one.facts.name for one in machine.snapshots]
    ordered = sorted(going, key=lambda one: order.index(one.facts.name), reverse=True)
    return [_step(machine, one) for one in ordered]


def deletion_words(machine: str, name: str) -> str:
    """How the step that deletes a snapshot is described."""
    return f"delete snapshot {name} of {machine}"


def _step(machine: SnapshotView, snapshot: KnownSnapshot) -> Step:
    name = snapshot.facts.name
    return Step(deletion_words(machine.name, name), lambda: _delete(machine, snapshot))


def _delete(machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    what = f"cannot delete snapshot {snapshot.facts.name} of machine {machine.name}"
    with translate_errors(what), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT):
        snapshot.handle.delete(0)
