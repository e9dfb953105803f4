# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    VirConnect,
    libvirt,
    suppress_codes,
    translate_errors,
)
from ansible_collections.brine.virt.plugins.module_utils._host.info.job_progress import look_at_merges
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import CEPH, EXTERNAL, KnownSnapshot
from ansible_collections.brine.virt.plugins.module_utils._host.storage.cluster import snapshots as in_cluster
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.clustered import (
    cluster_volumes,
    name_in_cluster,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.files import require_unused_files
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import SnapshotView


def steps_to_delete(conn: VirConnect, machine: SnapshotView, going: Sequence[KnownSnapshot]) -> list[Step]:
    """The steps that delete snapshots, each before the one that it follows; what the machine is now stays.

    Raises ConflictError when something else uses a file that libvirt would merge or delete, or what a cluster would.
    """
    for one in going:
        if one.facts.kind == CEPH:
            require_no_clones(conn, machine, one)
    if any(one.facts.kind == EXTERNAL for one in going):
        require_unused_files(conn, machine, "deleted")
    order = [one.facts.name for one in machine.snapshots]
    ordered = sorted(going, key=lambda one: order.index(one.facts.name), reverse=True)
    return [_step(conn, machine, one) for one in ordered]


def deletion_words(machine: str, name: str) -> str:
    """How the step that deletes a snapshot is described."""
    return f"delete snapshot {name} of {machine}"


def _step(conn: VirConnect, machine: SnapshotView, snapshot: KnownSnapshot) -> Step:
    name = snapshot.facts.name
    if snapshot.facts.kind == CEPH:
        return Step(deletion_words(machine.name, name), lambda: _delete_in_cluster(conn, machine, snapshot))
    look = None
    if snapshot.facts.kind == EXTERNAL:
        # QEMU merges the files, also of a machine that is off: libvirt starts one for that.
        look = partial(look_at_merges, machine.power.handle, [target for target, _path in snapshot.facts.disks])
    return Step(deletion_words(machine.name, name), lambda: _delete(machine, snapshot), look=look)


def _delete(machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    what = f"cannot delete snapshot {snapshot.facts.name} of machine {machine.name}"
    with translate_errors(what), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT):
        snapshot.handle.delete(0)


def require_no_clones(conn: VirConnect, machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    """Raise ConflictError when a snapshot has clones."""
    in_cluster.require_no_clones(_volumes(conn, snapshot), name_in_cluster(machine, snapshot.facts.name))


def _delete_in_cluster(conn: VirConnect, machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    """Delete a snapshot; what is gone already is no error."""
    name = snapshot.facts.name
    in_cluster.remove(_volumes(conn, snapshot), name_in_cluster(machine, name))
    what = f"cannot delete snapshot {name} of machine {machine.name}"
    with translate_errors(what):
        try:
            snapshot.handle.delete(libvirt.VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY)
        except libvirt.libvirtError:
            # libvirt 9.0 corrects the disks of those that follow, and reports an error when one has another disk by
            # then; it is deleted all the same (qemuSnapshotDiscardMetadata in src/qemu/qemu_snapshot.c).
            if name in {one.getName() for one in machine.power.handle.listAllSnapshots(0)}:
                raise


def step_to_delete_undescribed(
    machine: SnapshotView, name: str, volumes: list[in_cluster.PoolVolume], words: str
) -> Step:
    """The step that deletes what libvirt knows nothing of. words: how it is described. Raises ConflictError when it has
    clones."""
    kept = name_in_cluster(machine, name)
    in_cluster.require_no_clones(volumes, kept)
    return Step(words, lambda: in_cluster.remove(volumes, kept))


def _volumes(conn: VirConnect, snapshot: KnownSnapshot) -> list[in_cluster.PoolVolume]:
    return [] if snapshot.facts.domain is None else cluster_volumes(conn, snapshot.facts.domain)
