# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory with the backups of one machine: ``DEST/MACHINE``, in it a directory for each backup.

A backup is written into a directory with another name and a marker in it, and is renamed when all of it is on the disk.
So what has the name of a backup is whole, and what a killed run has left is known by its name and its marker.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import typing as t
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ..._base.errors import ConflictError, HostError, InputError, NotFoundError, VirtError
from ..._base.files import LockTimeout, allocated_bytes, file_errors, locked_file, root_hint, sync_folder, write_whole
from ..._model.backup.damage import DAMAGED, Damage, read_damage
from ..._model.backup.damage import MOST_BYTES as MOST_DAMAGE_BYTES
from ..._model.backup.manifest import MANIFEST, MOST_BYTES, Manifest, ManifestError, is_backup_id
from ..._model.backup.manifest_text import manifest_to_text, read_manifest
from .trust import require_own, require_trusted

MARKER = ".brine-backup-unfinished"
_PARTIAL = ".unfinished-"
_MERGED = "merged-"
_LOCK = ".lock"
# Of a directory that can only be read, or whose file system has no locks.
_NO_LOCK = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOLCK, errno.EOPNOTSUPP)
# QEMU, which is another user, opens its files in there by their paths; nobody lists it.
_MODE = 0o711


@dataclass
class Backups:
    """What there is in the directory of a machine.

    by_id: the backups that can be read. broken: for the others, by the name of their directories, what is wrong.
    unfinished: the names of the directories that a killed run has left, and that nothing needs. damaged: of the backups
    that can be read, by their ids, what is known to be wrong with their files. owner: as of list_backups.
    """

    path: str
    by_id: dict[str, Manifest] = field(default_factory=dict)
    broken: dict[str, VirtError] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)
    owner: int | None = None

    def path_of(self, name: str) -> str:
        """The directory of a backup."""
        return f"{self.path}/{name}"

    @property
    def unfinished_bytes(self) -> int:
        """What is free again when that is removed."""
        total = 0
        for folder in map(self.path_of, self.unfinished):
            # It may go at any time for who does not hold the lock.
            with contextlib.suppress(OSError):
                total += sum(allocated_bytes(f"{folder}/{file}") for file in os.listdir(folder))
        return total

    @property
    def names(self) -> list[str]:
        """Of all that is called like a backup."""
        return [*self.by_id, *self.broken]

    @property
    def merging(self) -> list[Manifest]:
        """Those whose merge was interrupted, or is under way."""
        return [manifest for manifest in self.newest_first() if manifest.merging]

    def newest_first(self) -> list[Manifest]:
        """The backups that can be read."""
        return [self.by_id[name] for name in sorted(self.by_id, reverse=True)]

    def damage_of(self, name: str) -> str:
        """Why a backup cannot be restored as far as is known: for itself, or for what it is built on. Empty for no
        reason."""
        at: str | None = name
        while at in self.by_id:
            if at in self.damaged:
                return self.damaged[at] if at == name else f"it is built on {at}, which is damaged: {self.damaged[at]}"
            at = self.by_id[at].parent
        if at is None or at == name:
            return ""
        return f"it is built on {at}, which {'cannot be read' if at in self.broken else 'is not there'}"

    def chain(self, name: str) -> list[Manifest]:
        """A backup and those that it needs, itself first. Raises NotFoundError, InputError, HostError."""
        found: list[Manifest] = []
        at: str | None = name
        while at is not None:
            if at in self.broken:
                raise self.broken[at]
            if at not in self.by_id:
                needs = f"backup {name} needs {at}, which is not in {self.path}"
                raise NotFoundError(needs if found else f"there is no backup {at} in {self.path}")
            # A parent is earlier than its child, so that this ends.
            found.append(self.by_id[at])
            at = self.by_id[at].parent
        if len({manifest.uuid for manifest in found}) > 1:
            raise InputError(f"backup {name} in {self.path} is built on one of another machine")
        self._require_disks_below(found)
        return found

    def _require_disks_below(self, chain: t.Sequence[Manifest]) -> None:
        """Raise InputError for a disk that is built on what is no disk of this chain, and is in no manifest of it."""
        known = {(one.id, disk.file) for one in chain for disk in one.disks}
        for manifest in chain:
            for disk in manifest.disks:
                for backing in disk.backings:
                    if backing is not None and (backing, disk.file) not in known:
                        raise InputError(
                            f"disk {disk.target} of backup {manifest.id} in {self.path} is built on {disk.file} of "
                            f"{backing}, which that one does not have, or which {manifest.id} is not built on"
                        )


def closed_above(path: str) -> str | None:
    """The first directory on the way to a path, or itself, that users like QEMU's cannot enter by its mode; or None."""
    steps = [path, *map(str, PurePosixPath(path).parents)]
    for step in reversed(steps):
        with contextlib.suppress(OSError):
            if not os.stat(step).st_mode & stat.S_IXOTH:
                return step
    return None


def require_destination(path: str, where: str, *, mounted: str | None = None) -> None:
    """Check the directory that all machines' backups are in. mounted: what has to be a mount point, on another file
    system than ``/``: a directory above it, or, where this is empty, itself; None where nothing has to be.

    Raises InputError, NotFoundError, ConflictError.
    """
    if not os.path.isabs(path):
        raise InputError(f"{path!r} is not an absolute path", where=where)
    try:
        found = os.stat(path)
    except OSError as exc:
        hint = "Look whether the path is right, and whether it is mounted there"
        if where.startswith("dest"):
            hint = "Create it, or mount it: it is not created here, so that a mistyped path fills no disk"
        raise NotFoundError(f"{path}: {exc.strerror}", where=where, hint=hint) from exc
    if not stat.S_ISDIR(found.st_mode):
        raise InputError(f"{path} is not a directory", where=where)
    if mounted is not None:
        _require_mounted(path, mounted or path, where)


def _require_mounted(path: str, expected: str, where: str) -> None:
    """Raise an error where a directory that is a path, or above it, is no mount point: it may be on a disk of the
    hypervisor then, which need not be that of ``/``."""
    real, above = os.path.realpath(path), os.path.realpath(expected)
    if os.path.commonpath([real, above]) != above:
        raise InputError(f"{path} is not in {expected}", where="must_be_mounted", hint="Name a directory above it")
    at = above
    while not os.path.ismount(at):
        at = os.path.dirname(at)
    leave = "leave out must_be_mounted (virt_backup_must_be_mounted in the playbook)"
    if at != above:
        below = f", or, if {at} is what has to be mounted, set must_be_mounted: {at}," if at != "/" else ""
        raise ConflictError(
            f"{expected} is no mount point, and is on the file system of {at}",
            where=where,
            hint=f"Mount it{below} or {leave}",
        )
    if os.stat(at).st_dev == os.stat("/").st_dev:
        raise ConflictError(
            f"{expected} is on the file system of /", where=where, hint=f"Mount a share there, or {leave}"
        )


def list_backups(destination: str, machine: str, owner: int | None = None) -> Backups:
    """What there is of a machine. Nothing is changed. owner: the number of the user who may own it besides root.

    Raises HostError for a directory that cannot be used, or that somebody else could change.
    """
    path = os.path.join(destination, machine)
    found = Backups(path, owner=owner)
    try:
        require_trusted(destination, owner)
        _require_own(path, owner)
        names = os.listdir(path)
    except FileNotFoundError:
        return found
    except OSError as exc:
        raise HostError(f"cannot read {path}: {exc.strerror}", hint=root_hint(exc)) from exc
    for name in sorted(names):
        if name.startswith(_PARTIAL) and _is_marked(f"{path}/{name}"):
            found.unfinished.append(name)
        elif is_backup_id(name):
            try:
                found.by_id[name] = load_manifest(path, name, owner)
                noted = _noted_damage(f"{path}/{name}")
                if noted is not None:
                    found.damaged[name] = noted.words
            except VirtError as exc:
                # Whoever lists them without the lock sees them go.
                if os.path.lexists(f"{path}/{name}"):
                    found.broken[name] = exc
    # In there is what the end of a merge needs; and of one that cannot be read nobody knows whether there is one.
    needed = {merge_folder(name) for name in (*(one.id for one in found.merging), *found.broken)}
    found.unfinished = [name for name in found.unfinished if name not in needed]
    return found


def load_manifest(path: str, name: str, owner: int | None = None) -> Manifest:
    """The manifest of one backup. owner: as of list_backups. Raises VirtError."""
    file = f"{path}/{name}/{MANIFEST}"
    try:
        if not stat.S_ISDIR(require_own(f"{path}/{name}", owner).st_mode):
            raise ManifestError(f"{path}/{name} is not a directory")
        for entry in os.listdir(f"{path}/{name}"):
            # A note is written and removed without the lock.
            with contextlib.suppress(FileNotFoundError):
                require_own(f"{path}/{name}/{entry}", owner)
        with open_inside(f"{path}/{name}", MANIFEST) as descriptor:
            content = os.read(descriptor, MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ManifestError("it is too long")
        return read_manifest(content.decode("utf-8"), name)
    except OSError as exc:
        raise HostError(f"cannot read {file}: {exc.strerror}", hint=root_hint(exc)) from exc
    except (UnicodeDecodeError, ManifestError) as exc:
        what = exc.what if isinstance(exc, ManifestError) else "it is not UTF-8"
        hint = exc.hint if isinstance(exc, ManifestError) else None
        raise ManifestError(f"{file} is not the manifest of a backup: {what}", hint=hint) from exc


def _noted_damage(directory: str) -> Damage | None:
    """What was noted in a backup that was found damaged; None where nothing is. It counts where it cannot be read."""
    try:
        with open_inside(directory, DAMAGED) as descriptor:
            return read_damage(os.read(descriptor, MOST_DAMAGE_BYTES))
    except FileNotFoundError:
        return None
    except OSError:
        return Damage()


@contextlib.contextmanager
def open_inside(directory: str, name: str) -> t.Iterator[int]:
    """A regular file of a directory, open for reading; through no link, and nothing that waits. Raises OSError."""
    descriptor = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(destination: str, machine: str, wait_seconds: float, owner: int | None = None) -> t.Iterator[None]:
    """Hold the machine's directory for the block; it is made where it is missing. Of several hypervisors that see it,
    one writes at a time. owner: as of list_backups. Raises ConflictError, HostError."""
    path = os.path.join(destination, machine)
    with contextlib.ExitStack() as held:
        try:
            require_trusted(destination, owner)
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, _MODE)
                os.chmod(path, _MODE)
            _require_own(path, owner)
            held.enter_context(locked_file(f"{path}/{_LOCK}", wait_seconds))
        except LockTimeout as exc:
            raise _busy(path, wait_seconds) from exc
        except OSError as exc:
            raise _not_written(path, exc) from exc
        yield


def require_writable(destination: str, machine: str) -> None:
    """Raise HostError, as ``locked`` does, where nothing can be written, as on a share that is mounted read-only. It is
    only asked."""
    path = os.path.join(destination, machine)
    at = path if os.path.isdir(path) else destination
    if not os.access(at, os.W_OK | os.X_OK):
        read_only = os.statvfs(at).f_flag & os.ST_RDONLY
        number = errno.EROFS if read_only else errno.EACCES
        raise _not_written(path, OSError(number, os.strerror(number)))


def _not_written(path: str, exc: OSError) -> HostError:
    return HostError(f"cannot write to {path}: {exc.strerror}", hint=root_hint(exc))


@contextlib.contextmanager
def locked_to_read(destination: str, machine: str, wait_seconds: float, owner: int | None = None) -> t.Iterator[None]:
    """Keep writers out of the machine's directory for the block, and nobody who reads.

    Where nothing can be written or locked, such as on a share that is mounted read-only, there is no lock: whoever
    reads has to notice what changes meanwhile. Raises ConflictError, HostError.
    """
    path = os.path.join(destination, machine)
    with contextlib.ExitStack() as held:
        with file_errors(f"cannot read {path}"):
            require_trusted(destination, owner)
            _require_own(path, owner)
        try:
            held.enter_context(locked_file(f"{path}/{_LOCK}", wait_seconds, shared=True))
        except LockTimeout as exc:
            raise _busy(path, wait_seconds) from exc
        except OSError as exc:
            if exc.errno not in _NO_LOCK:
                raise HostError(f"cannot lock {path}: {exc.strerror}", hint=root_hint(exc)) from exc
        yield


def _busy(path: str, wait_seconds: float) -> ConflictError:
    return ConflictError(
        f"another run has been working on the backups in {path} for more than {wait_seconds:g} s",
        hint=f"Wait for it to end; fuser {path}/{_LOCK} shows its process",
    )


def merge_folder(name: str) -> str:
    """The name of the directory for the new files of a backup that is being merged."""
    return f"{_PARTIAL}{_MERGED}{name}"


def begin_merge(path: str, name: str) -> str:
    """That directory, made; its path. name: of the backup. Raises OSError."""
    return begin(path, f"{_MERGED}{name}")


def begin(path: str, name: str) -> str:
    """A new directory for a backup that is to be written; its path. Raises OSError."""
    partial = f"{path}/{_PARTIAL}{name}"
    os.mkdir(partial, _MODE)
    os.chmod(partial, _MODE)
    write_whole(f"{partial}/{MARKER}", json.dumps({"backup": name}).encode(), 0o600)
    return partial


def complete(path: str, partial: str, manifest: Manifest) -> None:
    """Have a backup whose files are all on the disk become one. Raises OSError, and HostError for one that nobody could
    read."""
    text = manifest_to_text(manifest)
    try:
        read_manifest(text, manifest.id)
    except ManifestError as exc:
        raise HostError(f"the backup {manifest.id} could not be read again: {exc.what}") from exc
    write_whole(f"{partial}/{MANIFEST}", text.encode(), 0o600)
    os.unlink(f"{partial}/{MARKER}")
    sync_folder(partial)
    os.rename(partial, f"{path}/{manifest.id}")
    sync_folder(path)


def foreign_in(directory: str, files: t.Container[str] | None = None) -> str | None:
    """What is in the directory of a backup, in words, that is not of the backup; None where nothing is.

    It is somebody's, and would go as well. files: as of remove. Raises OSError.
    """
    folders = [entry.name for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False)]
    if folders:
        return f"it has a directory {folders[0]} in it, which is of no backup"
    # With a dot begin drafts, the marker, and what NFS keeps of an open file.
    others = [one for one in os.listdir(directory) if one != MANIFEST and not one.startswith(".")]
    strange = sorted(one for one in others if files is not None and one not in files)
    return f"it has a file {strange[0]} in it, which is not of the backup" if strange else None


def remove(path: str, name: str, files: t.Container[str] | None = None) -> None:
    """Delete a backup. Killed at any time, it leaves the backup whole, or what is known as unfinished.

    files: the names of those that it has, None for whatever is there. Raises HostError, also for a directory with
    something in it that is not of the backup.
    """
    directory = f"{path}/{name}"
    doomed = directory if name.startswith(_PARTIAL) else f"{path}/{_PARTIAL}{name}"
    with file_errors(f"cannot remove {directory}"):
        why = foreign_in(directory, files)
        if why is not None:
            raise HostError(f"{directory} is kept: {why}", hint="Move it elsewhere, or remove it")
        if doomed != directory:
            # Where there is no room left nothing can be written, and this is what makes room.
            if not os.path.lexists(f"{directory}/{MANIFEST}"):
                write_whole(f"{directory}/{MARKER}", b"{}", 0o600)
            os.rename(directory, doomed)
            sync_folder(path)
        # What is left of it by a kill is known by these: they go last.
        for file in sorted(os.listdir(doomed), key=lambda file: file in (MANIFEST, MARKER)):
            os.unlink(f"{doomed}/{file}")
        os.rmdir(doomed)
        sync_folder(path)


def _is_marked(directory: str) -> bool:
    """Whether a directory is one that a run of ours has begun and not ended.

    One with nothing in it is what a run has left that was killed before it could mark it, or after the marker went.
    """
    try:
        if not stat.S_ISDIR(os.lstat(directory).st_mode):
            return False
        names = os.listdir(directory)
    except OSError:
        return False
    # The marker goes just before the directory gets its name, when the manifest is there. It begins as a draft, alone.
    return MARKER in names or MANIFEST in names or all(name.startswith(f".{MARKER}.") for name in names)


def _require_own(path: str, owner: int | None) -> None:
    """Raise HostError for a directory that leads elsewhere, or that somebody else can change. Raises OSError."""
    if not stat.S_ISDIR(require_own(path, owner).st_mode):
        # In a storage pool it may be a disk of the machine.
        raise HostError(f"{path} is not a directory, so there are no backups in it", hint="Choose another directory")
