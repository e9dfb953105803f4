# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of external snapshots: who else uses them, and whose they are.

libvirt creates, merges and deletes them itself. What it has created for a machine becomes the machine's own, as its
volumes are: a mark on the file, and the same word in the machine's metadata, so that virt_purge knows them.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import shlex
import stat
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..._base.errors import ConflictError, HostError
from ..._host.connection import VirConnect, is_local, libvirt, translate_errors
from ..._host.machines.domains import write_notes
from ..._host.machines.snapshots import EXTERNAL
from ..._host.storage.disk_lock import is_open_in_qemu
from ..._host.storage.pools import Pool, Pools
from ..._host.storage.usage import Usage, delete_unused
from ..._model.attachments import written_disks, written_places
from ..._model.metadata.machine import MachineNotes, VolumeNote
from ..._model.xml.disk_source import FILE, QCOW2, RAW
from .method import MEMORY_SUFFIX
from .view import SnapshotView

_ATTRIBUTE = "user.brine.build"


def require_free_places(conn: VirConnect, paths: Sequence[str]) -> None:
    """Raise ConflictError when there is something at a place where libvirt is to create a file."""
    with translate_errors("cannot ask libvirt for its URI"):
        local = is_local(conn.getURI())
    for path in paths:
        if local and os.path.lexists(path):
            raise ConflictError(
                f"there is a file {path} already, which the snapshot would need",
                hint="Check whose it is, and choose another name for the snapshot",
            )


def require_present(conn: VirConnect, machine: SnapshotView) -> None:
    """Raise HostError when a file of the machine's disks is away, as of a file system that was unmounted under a QEMU
    that has it open: a new file beside it would be on another one, and hidden as soon as that is back."""
    with translate_errors("cannot ask libvirt for its URI"):
        local = is_local(conn.getURI())
    for target, path in written_places(machine.xml, "file").items():
        if local and _is_away(path):
            raise HostError(
                f"{path}, the file of its disk {target}, is not there",
                hint="Check whether its file system is mounted"
                + (". Until it is, do not shut the machine down" if machine.active else ""),
            )


def require_closed(conn: VirConnect, machine: SnapshotView) -> None:
    """Raise ConflictError when a QEMU has a disk of a machine that is off, as that of a copy of it on the same disks
    has: nothing else can write a snapshot into it."""
    with translate_errors("cannot ask libvirt for its URI"):
        local = is_local(conn.getURI())
    opened = None
    # What root cannot read, as on NFS, libvirt may.
    with contextlib.suppress(HostError):
        opened = next(filter(is_open_in_qemu, written_places(machine.xml, "file").values() if local else ()), None)
    if opened is None:
        return
    usage = Usage(conn)
    others = sorted({user.words for user in usage.users_at(opened) if user.machine != machine.name})
    raise ConflictError(
        f"{opened}, a disk of it, is open in QEMU, though the machine is off",
        hint=f"It is used by {', '.join(others)}: shut down what runs, or take a snapshot of that"
        if others
        else f"fuser {shlex.quote(opened)} shows the program, unless it is on another hypervisor",
    )


def _is_away(path: str) -> bool:
    """What root may not look at, as in a folder of an NFS server that is QEMU's alone, may well be there."""
    try:
        os.lstat(path)
    except PermissionError:
        return False
    except OSError:
        return True
    return False


def files_of(machine: SnapshotView) -> list[str]:
    """All files of a machine's external snapshots, and those that its disks write to now."""
    found = [
        path for one in machine.snapshots if one.facts.kind == EXTERNAL for _target, path in one.facts.disks if path
    ]
    found += [one.facts.memory_file for one in machine.snapshots if one.facts.memory_file]
    for domain in (machine.xml, machine.defined):
        found += written_places(domain, "file", "block", "network").values()
    return list(dict.fromkeys(found))


def require_unused_files(conn: VirConnect, machine: SnapshotView, what: str) -> None:
    """Raise ConflictError when anything but the machine itself uses a file that libvirt would delete or write to.

    what: what is to be done, in words that follow «cannot be».
    """
    usage = Usage(conn)
    paths = [*files_of(machine), *_below(machine), *_volumes(machine, usage)]
    own = {usage.identity_at(path) for path in paths}
    for path in paths:
        for user in usage.users_at(path):
            if user.machine == machine.name:
                continue
            if user.volume is not None and usage.identity_at(usage.collected.paths.get(user.volume, "/")) in own:
                continue
            raise ConflictError(
                f"it cannot be {what}, as {path}, which libvirt would write to or delete, is used by {user.words}"
            )
    unknown = [one.words for one in usage.unknown if one.machine != machine.name]
    if unknown:
        raise ConflictError(
            f"it cannot be {what}, as it cannot be determined whether something else uses its files: "
            f"{'; '.join(unknown)}"
        )


def _volumes(machine: SnapshotView, usage: Usage) -> list[str]:
    """Where the disks are that the machine's description names by pool and volume."""
    sources = [
        disk.find("source")
        for domain in (machine.xml, machine.defined)
        for disk in written_disks(domain).values()
        if disk.get("type") == "volume"
    ]
    names = [(source.get("pool", ""), source.get("volume", "")) for source in sources if source is not None]
    return [usage.collected.paths[name] for name in names if name in usage.collected.paths]


def _below(machine: SnapshotView) -> list[str]:
    """The files that the machine's disks had when its external snapshots were taken."""
    domains = [one.facts.domain for one in machine.snapshots if one.facts.kind == EXTERNAL]
    return [path for domain in domains if domain is not None for path in written_places(domain, "file").values()]


def _created(machine: SnapshotView) -> list[str]:
    """The files that libvirt has created for snapshots that this collection has taken. A revert replaces the one of its
    snapshot."""
    own = [one.facts for one in machine.snapshots if one.facts.own and one.facts.kind == EXTERNAL]
    found = [path for facts in own for _target, path in facts.disks if path]
    return list(dict.fromkeys([*found, *(facts.memory_file for facts in own if facts.memory_file)]))


def notes_with_files(machine: SnapshotView, pools: Sequence[Pool]) -> tuple[MachineNotes | None, dict[str, str]]:
    """The machine's notes with the files that libvirt has created for its snapshots, and without those that are gone;
    and the mark that each new one is to get. The notes are None where nothing is to be written."""
    notes = machine.notes
    if notes is None:
        return None, {}
    by_path = {pool.path: pool for pool in pools if pool.local and pool.source_type == FILE}
    known = {(volume.pool, volume.name) for volume in notes.volumes}
    created, marks = [], {}
    for path in _created(machine):
        folder, name = posixpath.split(path)
        pool = by_path.get(folder)
        if pool is None or (pool.name, name) in known or not os.path.isfile(path):
            continue
        marks[path] = uuid.uuid4().hex
        image_format = RAW if path.endswith(MEMORY_SUFFIX) else QCOW2
        created.append(VolumeNote(pool.name, name, "disk", format=image_format, identity=marks[path]))
    gone = _gone(machine, notes, {pool.name: pool.path for pool in by_path.values()})
    if not created and not gone:
        return None, {}
    return replace(notes, volumes=(*(one for one in notes.volumes if one not in gone), *created)), marks


def _gone(machine: SnapshotView, notes: MachineNotes, folders: Mapping[str, str]) -> list[VolumeNote]:
    """The volumes that libvirt has deleted with a snapshot. folders: of the pools.

    Where nothing of the machine is left in a pool, its file system may only be missing, and all notes stay.
    """
    needed = {*files_of(machine), *_below(machine)}
    missing, present = [], set()
    for volume in notes.volumes:
        if volume.pool not in folders:
            continue
        path = f"{folders[volume.pool]}/{volume.name}"
        if os.path.lexists(path):
            present.add(volume.pool)
        elif path not in needed and not volume.building:
            missing.append(volume)
    return [volume for volume in missing if volume.pool in present]


def has_new_files(conn: VirConnect, machine: SnapshotView) -> bool:
    """Whether a run was killed before it could note what libvirt has created."""
    external = any(one.facts.own and one.facts.kind == EXTERNAL for one in machine.snapshots)
    return external and bool(notes_with_files(machine, Pools(conn).all())[1])


def note_files(machine: SnapshotView, pools: Sequence[Pool]) -> None:
    """Bring the machine's metadata up to what there is of its snapshots' files. pools: all of the hypervisor."""
    notes, marks = notes_with_files(machine, pools)
    for path, mark in marks.items():
        # A file system without such attributes: purge keeps the file then, unless it is a disk.
        with contextlib.suppress(OSError):
            os.setxattr(path, _ATTRIBUTE, mark.encode(), follow_symlinks=False)
    if notes is not None:
        write_notes(machine.power.handle, notes)


def show_files(machine: SnapshotView, pools: Sequence[Pool]) -> None:
    """Have libvirt look into the pools that have files of snapshots which it does not list, as it has created them past
    its pools. Where one is busy, its next refresh shows them. pools: all of the hypervisor."""
    places = [posixpath.split(path) for path in files_of(machine)]
    for pool in (pool for pool in pools if pool.local and pool.source_type == FILE):
        with contextlib.suppress(libvirt.libvirtError):
            known = pool.handle.listVolumes()
            if any(folder == pool.path and name not in known for folder, name in places):
                pool.handle.refresh(0)


def stamps(paths: Iterable[str]) -> list[tuple[int, ...]] | None:
    """What changes with files; None where nobody can see that here: of a device nothing changes."""
    try:
        found = [os.stat(path) for path in paths]
    except OSError:
        return None
    if not found or not all(stat.S_ISREG(one.st_mode) for one in found):
        return None
    return [(one.st_ino, one.st_size, one.st_mtime_ns) for one in found]


def delete_created(conn: VirConnect, paths: Iterable[str], owner: str) -> None:
    """Delete files that libvirt has created for a snapshot. Raises VirtError; one that anything uses stays."""
    pools = {pool.path: pool.name for pool in Pools(conn).all() if pool.source_type == FILE}
    for path in paths:
        folder, volume = posixpath.split(path)
        if folder in pools:
            delete_unused(conn, [(Pools(conn).get(pools[folder]), volume)], owner=owner, fresh=True)
        elif os.path.isfile(path) and not os.path.islink(path):
            usage = Usage(conn)
            words = [*(user.words for user in usage.users_at(path)), *(one.words for one in usage.unknown)]
            if words or is_open_in_qemu(path):
                raise ConflictError(f"{path} is kept: {'; '.join(words) or 'a QEMU has it open'}")
            os.unlink(path)
