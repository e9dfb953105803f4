# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots go."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import partial

from ..._base.errors import HostError, VirtError
from ..._host.connection import VirConnect, libvirt, suppress_codes, translate_errors
from ..._host.info.job_progress import look_at_merges
from ..._host.machines.snapshots import CEPH, EXTERNAL, KnownSnapshot
from ..._host.storage.cluster import snapshots as in_cluster
from ..._host.storage.full_disk import free_in
from ..._model.attachments import written_places
from ..._model.metadata.snapshots import SnapshotWork, read_work
from ..._model.spec.fields.units import format_size
from ..plan import Step
from .clustered import cluster_volumes, forget, name_in_cluster, note_begin
from .files import require_unused_files, stamps
from .view import SnapshotView


def steps_to_delete(conn: VirConnect, machine: SnapshotView, going: Sequence[KnownSnapshot]) -> list[Step]:
    """The steps that delete snapshots, each before the one that it follows; what the machine is now stays.

    Raises ConflictError when something else uses a file that libvirt would merge or delete, or what a cluster would.
    """
    for one in going:
        if one.facts.kind == CEPH:
            require_no_clones(conn, machine, one)
    if any(one.facts.kind == EXTERNAL for one in going):
        require_unused_files(conn, machine, "deleted")
        for one in going:
            _require_room(machine, one)
    order = [one.facts.name for one in machine.snapshots]
    ordered = sorted(going, key=lambda one: order.index(one.facts.name), reverse=True)
    # What was before it in the run that began it has gone, or stays.
    ordered.sort(key=lambda one: one.facts.name != deletion_begun(machine))
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


def deletion_begun(machine: SnapshotView) -> str | None:
    """The snapshot whose files a run has begun to merge, and has not told to be whole; its name."""
    work = read_work(machine.defined)
    return work.snapshot if work is not None and work.deleting else None


def _delete(machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    name = snapshot.facts.name
    what = f"cannot delete snapshot {name} of machine {machine.name}"
    merges = snapshot.facts.kind == EXTERNAL
    below = stamps(_files_below(snapshot))
    if merges:
        note_begin(machine.power.handle, SnapshotWork(name, deleting=True))
    try:
        with translate_errors(what), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT):
            snapshot.handle.delete(0)
    except VirtError:
        # Where libvirt has refused it, and no run before has begun it, nothing has been merged.
        if merges and deletion_begun(machine) != name and below is not None and stamps(_files_below(snapshot)) == below:
            forget(machine.power.handle)
        raise
    if merges:
        forget(machine.power.handle)


def _files_below(snapshot: KnownSnapshot) -> list[str]:
    targets = {target for target, _path in snapshot.facts.disks}
    domain = snapshot.facts.domain
    places = {} if domain is None else written_places(domain)
    return [place for target, place in places.items() if place and target in targets]


def _require_room(machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    """Raise HostError when the files that a snapshot has begun may not fit where they are merged into; they are deleted
    only afterwards. A file system that is full pauses each machine that writes there."""
    needed: dict[str, int] = {}
    places = {} if snapshot.facts.domain is None else written_places(snapshot.facts.domain)
    for target, path in snapshot.facts.disks:
        below = places.get(target)
        # What nobody can see here, QEMU says when it is there.
        with contextlib.suppress(OSError, libvirt.libvirtError):
            # A device has its room already.
            if path and below and os.path.isfile(below):
                written, there = (os.stat(one).st_blocks * 512 for one in (path, below))
                left = machine.power.handle.blockInfo(target)[0] - there
                folder = os.path.dirname(os.path.realpath(below))
                needed[folder] = needed.get(folder, 0) + min(written, max(0, left))
    for folder, size in needed.items():
        free = free_in(folder)
        if size > free:
            raise HostError(
                f"snapshot {snapshot.facts.name} is not deleted: what has been written since it was taken may take "
                f"{format_size(size)} more in {folder} before its own file goes, and {format_size(free)} are free",
                hint="Free some space there first, or add some",
            )


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
