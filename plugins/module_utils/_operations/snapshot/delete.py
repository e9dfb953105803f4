# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots go.

libvirt merges the files of an external snapshot into those below, disk by disk. Where that ends half-way, it refuses to
go on once a disk is on the file below again (11.3: «snapshot VM disk source and parent disk source are not the same»).
And a daemon that is killed as QEMU goes over to the file below does not know of it afterwards: the machine writes to
one file, and libvirt says that it is on the other. Both are finished here. For a machine that is off, libvirt starts a
QEMU that merges, and that anybody can let run on when its daemon was killed; so the files of such a machine are merged
here in the first place, by qemu-img, where that can be.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..._base.errors import ConflictError, HostError, VirtError
from ..._base.qemu_img import run_qemu_img
from ..._base.xml import attribute, etree
from ..._host.connection import VirConnect, libvirt, suppress_codes, translate_errors
from ..._host.info.job_progress import look_at_merges
from ..._host.machines.domains import whole_definition
from ..._host.machines.redefine import redefine, redefine_disks
from ..._host.machines.snapshots import CEPH, EXTERNAL, INTERNAL, KnownSnapshot
from ..._host.machines.start_watch import is_off_since, last_start
from ..._host.progress import HowFar
from ..._host.storage.cluster import snapshots as in_cluster
from ..._host.storage.disk_lock import DiskLock, has_newer_below, is_open_in_qemu
from ..._host.storage.full_disk import free_in
from ..._host.storage.transfer.rebase import header_of
from ..._model.attachments import disk_source, written_disks, written_places
from ..._model.metadata.snapshots import SnapshotWork, read_work
from ..._model.spec.fields.units import format_size
from ..._model.xml.disk_source import QCOW2
from ..plan import Step
from .clustered import forget, name_in_cluster, note_begin, uuid_of, volumes_of_snapshot
from .files import delete_created, require_unused_files, stamps
from .readonly import put_source_back
from .tracking import require_deletable, require_gone, require_one
from .view import SnapshotView, is_here, view

_MERGE_SECONDS = 6 * 3600


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
    if snapshot.facts.kind != EXTERNAL:
        if snapshot.facts.kind == INTERNAL:
            require_deletable(machine, snapshot.facts)
            require_one(conn, machine, name, "deleted")
        return Step(deletion_words(machine.name, name), lambda: _delete_internal(conn, machine.name, name))
    _require_finishable(conn, machine, snapshot)
    at: list[HowFar] = []

    def look() -> HowFar | None:
        targets = [target for target, _path in snapshot.facts.disks]
        return at[-1] if at else look_at_merges(machine.power.handle, targets)

    return Step(deletion_words(machine.name, name), lambda: _delete_external(conn, machine.name, name, at), look=look)


def deletion_begun(machine: SnapshotView) -> str | None:
    """The snapshot whose files a run has begun to merge, and has not told to be whole; its name."""
    work = read_work(machine.defined)
    return work.snapshot if work is not None and work.deleting else None


def _delete_external(conn: VirConnect, machine_name: str, name: str, at: list[HowFar]) -> None:
    """Merge the files of a snapshot, and delete it. at: gets what is under way, where libvirt does not tell it."""
    # Those of a later one may just have gone, and somebody may have started the machine, or stopped it.
    machine = view(conn, machine_name, "")
    snapshot = machine.find(name)
    if snapshot is None:
        return
    merges = _merges(machine, snapshot) if is_here(conn) else {}
    _require_finishable(conn, machine, snapshot)
    work = read_work(machine.defined)
    if not machine.active and not (work is not None and is_off_since(work, machine_name)):
        for one in merges.values():
            if one.to_do:
                _require_not_newer(one, begun=deletion_begun(machine) == name)
    before = stamps(_files_below(snapshot))
    try:
        if not machine.active and merges and all(_is_for_qemu_img(one) for one in merges.values()):
            _merge_files(conn, machine, snapshot, merges, at)
        else:
            note_begin(machine.power.handle, SnapshotWork(name, deleting=True), live=True)
            _delete(machine, snapshot)
    except VirtError:
        # Where it was refused, and no run before has begun it, nothing has been merged.
        if deletion_begun(machine) != name and before is not None and stamps(_files_below(snapshot)) == before:
            forget(machine.power.handle, live=True)
        raise
    forget(machine.power.handle, live=True)


def _delete_internal(conn: VirConnect, machine_name: str, name: str) -> None:
    # Somebody may have started the machine since the plan was made.
    machine = view(conn, machine_name, "")
    snapshot = machine.find(name)
    if snapshot is None:
        return
    if snapshot.facts.kind == INTERNAL:
        require_deletable(machine, snapshot.facts)
    _delete(machine, snapshot)
    if snapshot.facts.kind == INTERNAL:
        require_gone(conn, machine, name)


def _delete(machine: SnapshotView, snapshot: KnownSnapshot, flags: int = 0) -> None:
    what = f"cannot delete snapshot {snapshot.facts.name} of machine {machine.name}"
    with translate_errors(what), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT):
        snapshot.handle.delete(flags)


@dataclass(frozen=True)
class _Merge:
    """A disk whose file is merged into the one below. now: where its permanent definition has it. then: its element as
    of the snapshot."""

    file: str
    below: str
    now: str | None
    then: etree._Element

    @property
    def to_do(self) -> bool:
        """Whether there is still a file to be merged. libvirt deletes it when it is."""
        return self.now == self.file and os.path.exists(self.file)


def _merges(machine: SnapshotView, snapshot: KnownSnapshot) -> dict[str, _Merge]:
    """Those of a snapshot's disks, by target; none where one is on neither file, but on that of a later snapshot."""
    if snapshot.facts.domain is None or machine.children_of(snapshot.facts.name):
        return {}
    places, then = written_places(machine.defined), written_disks(snapshot.facts.domain)
    found = {}
    for target, file in snapshot.facts.disks:
        disk = then.get(target)
        below = None if disk is None else disk_source(disk)
        if disk is None or below is None or not file or places.get(target) not in (file, below):
            return {}
        found[target] = _Merge(file, below, places.get(target), disk)
    return found


def merged_unseen(conn: VirConnect, machine: SnapshotView) -> dict[str, _Merge]:
    """The disks of a running machine, by target, whose file QEMU has merged and closed, and libvirt says that they are
    on it. Of devices and of what is on the network nobody can tell it."""
    name = deletion_begun(machine)
    snapshot = None if name is None else machine.find(name)
    if snapshot is None or not machine.active or not is_here(conn):
        return {}
    return {
        target: one
        for target, one in _merges(machine, snapshot).items()
        if one.now == one.file and not is_open_in_qemu(one.file) and is_open_in_qemu(one.below)
    }


def note_merged(conn: VirConnect, machine: SnapshotView, merged: Mapping[str, _Merge]) -> None:
    """Have disks of a machine that runs be on the file below from the next start on."""
    redefine(conn, _merged_xml(machine, merged), uuid_of(machine), machine.name)


def _merged_xml(machine: SnapshotView, merged: Mapping[str, _Merge]) -> str:
    """The permanent definition with these disks on the file below."""
    root = whole_definition(machine.power.handle)
    for target, disk in written_disks(root).items():
        if target in merged:
            put_source_back(disk, merged[target].then)
    return etree.tostring(root, encoding="unicode")


def _require_finishable(conn: VirConnect, machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    """Raise ConflictError for a deletion that libvirt does not finish, while the machine runs."""
    name = snapshot.facts.name
    if not machine.active or deletion_begun(machine) != name or not is_here(conn):
        return
    done = [target for target, one in _merges(machine, snapshot).items() if not one.to_do]
    if done:
        raise ConflictError(
            f"the deletion of snapshot {name} was interrupted when the file of {', '.join(done)} was merged, and "
            "libvirt does not finish that",
            hint="Shut the machine down, and run it again, which finishes it",
        )


def _is_for_qemu_img(one: _Merge) -> bool:
    """Whether qemu-img can merge a file: it has no key, and no way around a server that refuses root.

    Nor is it to go by the content of what is below, which a guest may have written: as a qcow2 image with any file of
    this host for its data. libvirt knows the format itself.
    """
    encrypted = one.then.find("encryption") is not None or one.then.find("source/encryption") is not None
    if encrypted or not one.to_do:
        return not encrypted
    return all(os.access(path, os.W_OK) for path in (one.file, one.below)) and bool(header_of(one.file).backing_format)


def _merge_files(
    conn: VirConnect,
    machine: SnapshotView,
    snapshot: KnownSnapshot,
    merges: Mapping[str, _Merge],
    at: list[HowFar],
) -> None:
    """As libvirt does it, of a machine that is off. Killed before the snapshot is gone, it begins anew with what is
    left; after that, a file is left that the machine's notes have as its own."""
    work = SnapshotWork(snapshot.facts.name, deleting=True, off=True, started=last_start(machine.name))
    note_begin(machine.power.handle, work)
    to_do = {target: one for target, one in merges.items() if one.to_do}
    with contextlib.ExitStack() as held:
        for number, (target, one) in enumerate(to_do.items(), 1):
            phase = f"merge of disk {target}" + (f", {number} of {len(to_do)}" if len(to_do) > 1 else "")
            _merge(one, phase, at)
            lock = DiskLock(one.file)
            held.callback(lock.release)
            lock.hold()
        # Somebody may have started it before all were held, and stopped it again. What it has written to these files is
        # not merged then, and it has to stay on them.
        with translate_errors(f"cannot inspect machine {machine.name}"):
            active = machine.power.handle.isActive()
        if active or not is_off_since(work, machine.name):
            raise ConflictError(
                f"machine {machine.name} was started while the files of its snapshot were merged",
                hint="Shut it down, leave it off, and run it again",
            )
        xml = _merged_xml(machine, {target: one for target, one in merges.items() if one.now == one.file})
        what = "the files of its snapshot were merged"
        redefine_disks(conn, xml, uuid_of(machine), machine.name, what, held=True)
    _delete(machine, snapshot, libvirt.VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY)
    memory = snapshot.facts.memory_file
    delete_created(conn, [*(one.file for one in merges.values()), *([memory] if memory else [])], machine.name)


def _merge(one: _Merge, phase: str, at: list[HowFar]) -> None:
    backing = header_of(one.file).backing_file
    place = os.path.join(os.path.dirname(one.file), backing or "")
    if backing is None or os.path.realpath(place) != os.path.realpath(one.below):
        raise ConflictError(f"{one.file} is backed by {backing}, and not by {one.below}, so it is not merged")

    def merged(percent: float) -> None:
        at[:] = [HowFar(phase, percent=percent)]

    # Not emptied: whoever is killed here merges the same once more.
    answer = run_qemu_img("commit", QCOW2, "-d", one.file, timeout_seconds=_MERGE_SECONDS, on_percent=merged)
    answer.require(f"cannot merge {one.file} into {one.below}")


def _require_not_newer(one: _Merge, *, begun: bool) -> None:
    """Raise ConflictError where the machine may have been on the file below, unseen, and stopped since: merged over it,
    what it has written there would be lost. begun: somebody has begun to merge it."""
    below_format = attribute(one.then, "driver", "type") or QCOW2
    try:
        # The times of a device tell nothing of its content.
        if not has_newer_below(one.file, one.below, below_format, devices=begun):
            return
    except OSError as exc:
        raise HostError(f"cannot read {exc.filename}: {exc.strerror}") from exc
    raise ConflictError(
        f"{one.below} was written to after {one.file}, and they differ, so it cannot be told which of the two has the "
        "latest data",
        hint=f"Nothing was merged. Look at both. If {one.file} has the latest data: touch it, and run it again. If "
        f"{one.below} has: move {one.file} out of the pool, and run it again",
    )


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
    in_cluster.require_no_clones(volumes_of_snapshot(conn, snapshot), name_in_cluster(machine, snapshot.facts.name))


def _delete_in_cluster(conn: VirConnect, machine: SnapshotView, snapshot: KnownSnapshot) -> None:
    """Delete a snapshot; what is gone already is no error."""
    name = snapshot.facts.name
    in_cluster.remove(volumes_of_snapshot(conn, snapshot), name_in_cluster(machine, name))
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
