# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files: read, written whole or not at all, and locked with a limit to the waiting; settings in those of libvirt.

And the file systems that they are on.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import posixpath
import re
import tempfile
import time
import typing as t

from .errors import HostError, UnsupportedError

_POLL_SECONDS = 0.1
# What st_blocks counts, whatever the file system has: stat(2).
_BLOCK_BYTES = 512
MOUNTS = "/proc/self/mountinfo"
FSTAB = "/etc/fstab"
# What the kernel's NFS server exports now: exportfs(8).
EXPORTS = "/var/lib/nfs/etab"
UNITS = "/etc/systemd/system"
# Blanks and backslashes in a path are octal there: proc(5).
_WHERE = re.compile(r"Where\s*=")
# Between the options of a client in the table of what is exported.
_OPTIONS = re.compile(r"[(),\s]")
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(t.NamedTuple):
    """A mounted file system: where it is, its type as the kernel names it, and what is mounted as mount(8) calls it.

    device: the numbers of the file system, the same wherever it is mounted. root: what of it is mounted there, as bind
    mounts are of a part.
    """

    place: str
    kind: str
    source: str
    device: str = ""
    root: str = "/"


def root_hint(exc: OSError) -> str | None:
    """What to do about a file that cannot be used: become root, where it is this that is missing, and nothing else."""
    missing = exc.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0
    return "Run as root (become: true)" if missing else None


@contextlib.contextmanager
def file_errors(what: str) -> t.Iterator[None]:
    """Inside the block, an error of the system is raised as HostError, with root_hint. what: what could not be done."""
    try:
        yield
    except OSError as exc:
        raise HostError(f"{what}: {exc.strerror}", hint=root_hint(exc)) from exc


def read_text(path: str) -> str | None:
    """The text of a file, or None when there is none. Raises HostError."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise HostError(f"{path} cannot be read: {exc.strerror}", hint=root_hint(exc)) from exc


def read_text_to_change(path: str) -> str | None:
    """The text of a file of somebody else that is to be written again, or None when there is none.

    Raises UnsupportedError where other bytes than ours would change: it is not UTF-8, or has carriage returns.
    Raises HostError.
    """
    text = read_text(path)
    if text is None:
        return None
    with open(path, "rb") as file:
        content = file.read()
    wrong = "has carriage returns" if b"\r" in content else "is not UTF-8" if content != text.encode() else ""
    if wrong:
        raise UnsupportedError(
            f"{path} {wrong}, and would not stay as it is if lines were added",
            hint="Convert it to UTF-8 with lines that end with LF alone",
        )
    return text


def read_setting(path: str, name: str) -> str | None:
    """A text or number that a file such as ``/etc/libvirt/qemu.conf`` sets, without its quotes; None where it does not.

    Of several lines for one name the first counts, as for libvirt (virConfGetValue in src/util/virconf.c).
    Raises HostError when the file is there and cannot be read.
    """
    line = re.compile(
        rf"""^[ \t]*{re.escape(name)}[ \t]*=[ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|([^"'\s#\[]+))""", re.MULTILINE
    )
    found = line.search(read_text(path) or "")
    return None if found is None else next(value for value in found.groups() if value is not None)


def write_whole(path: str, content: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Put a file in place at once, and for good: the old one or the new one is there, also after a loss of power.

    owner: user and group by number, None for those of this process. The file has its owner and its mode before its
    content. A link at this path is replaced and not followed; the folder has to be there. Raises OSError.
    """
    folder, name = os.path.dirname(path) or ".", os.path.basename(path)
    # In the same folder, so that SELinux labels it as its neighbours, and the rename is atomic.
    descriptor, draft = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    try:
        with open(descriptor, "wb") as file:
            if owner is not None:
                os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise
    sync_folder(folder)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Have a name that was given or taken in a folder survive a loss of power; a file's own sync does not see to it."""
    _sync(path, os.O_DIRECTORY)


def sync_file(path: str) -> None:
    """Have all of a file or device survive a loss of power: qemu-img and libvirt leave it to the kernel.

    Raises HostError.
    """
    with file_errors(f"cannot write {path}"):
        _sync(path, os.O_NONBLOCK | os.O_CLOEXEC)


def _sync(path: str | os.PathLike[str], flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LockTimeout(TimeoutError):
    """Somebody else has held the lock all the while; who asked knows what to say of it."""


def lock_descriptor(descriptor: int, wait_seconds: float, *, shared: bool = False) -> None:
    """Lock an open file for this process alone, by flock(2). Raises LockTimeout; OSError where it cannot be locked.

    shared: together with others who ask for the same. The kernel lets go of it when the process dies, however it dies.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return
        except (BlockingIOError, PermissionError):
            # The latter on SMB: STATUS_LOCK_NOT_GRANTED in fs/smb/client/smb2maperror.c of Linux.
            if time.monotonic() > deadline:
                raise LockTimeout(f"locked by another process for more than {wait_seconds:g} s") from None
            time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def locked_file(path: str, wait_seconds: float, *, shared: bool = False) -> t.Iterator[None]:
    """Hold the lock of a file for the block. The file is made where it is missing, for its owner alone, and stays.

    shared: together with others who ask for the same; one that is there need only be readable.
    Raises LockTimeout, and OSError where it cannot be opened; a link is not followed.
    """
    access = os.O_RDONLY if shared else os.O_RDWR
    descriptor = os.open(path, access | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        lock_descriptor(descriptor, wait_seconds, shared=shared)
        yield
    finally:
        os.close(descriptor)


def allocated_bytes(path: str) -> int:
    """What a file takes of its disk; nothing for one that is not there."""
    try:
        return os.stat(path).st_blocks * _BLOCK_BYTES
    except OSError:
        return 0


def read_mounts(table: str = MOUNTS) -> list[Mount]:
    """The mounted file systems, later ones on top of earlier ones at the same place; none where that cannot be read."""
    try:
        with open(table, encoding="utf-8", errors="surrogateescape") as file:
            return [mount for mount in map(_mount, file) if mount]
    except OSError:
        return []


def mount_of(path: str, mounts: t.Sequence[Mount]) -> Mount | None:
    """The mounted file system that a path is on; links are followed. None when it cannot be told."""
    real = os.path.realpath(path)
    found = [
        mount for mount in mounts if mount.place == "/" or real == mount.place or real.startswith(mount.place + "/")
    ]
    longest = max((len(mount.place) for mount in found), default=0)
    return next((mount for mount in reversed(found) if len(mount.place) == longest), None)


def exported_directory(path: str, exports: str | None = None) -> str | None:
    """The directory that this host exports by NFS with what is at the path; None where none is.

    By whatever way: what is exported may be a bind mount of what the path is in, or the other way round. exports:
    another table than EXPORTS, in the same form.
    """
    try:
        with open(exports or EXPORTS, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.partition("\t") for line in file if line.strip()]
    except OSError:
        return None
    mounts = read_mounts()
    device, way = _place_in_file_system(path, mounts)
    for word, _tab, clients in lines:
        directory = _plain(word)
        seen = [_place_in_file_system(directory, mounts)]
        # Otherwise another file system that is mounted below it is not to be seen by clients: exports(5).
        if "crossmnt" in _OPTIONS.split(clients):
            top = f"{os.path.realpath(directory).rstrip('/')}/"
            seen += [(mount.device, mount.root) for mount in mounts if mount.place.startswith(top)]
        if any(one == device and f"{way}/".startswith(f"{inside.rstrip('/')}/") for one, inside in seen):
            return directory
    return None


def _place_in_file_system(path: str, mounts: t.Sequence[Mount]) -> tuple[str | None, str]:
    """The device of the file system that a path is on, and where in that it is; links are followed. Without a device,
    where it cannot be told, the path itself."""
    real, mount = os.path.realpath(path), mount_of(path, mounts)
    if mount is None:
        return None, real
    return mount.device, posixpath.normpath(posixpath.join(mount.root, os.path.relpath(real, mount.place)))


def missing_mount(path: str, table: str = MOUNTS, fstab: str = FSTAB, units: str = UNITS) -> str | None:
    """The mount point on the way to a path at which the host is to mount something when it boots, and nothing is now.

    By fstab(5), of which what it has with noauto may be away, unless systemd mounts it when it is used; and by units of
    systemd.mount(5) and systemd.automount(5) that are to be started. units: the folder of those of this host.
    """
    there = {mount.place for mount in read_mounts(table)}
    # Either may be, or lie below, a symbolic link.
    ways = (f"{path}/", f"{os.path.realpath(path)}/")
    for place in [*_places_of_fstab(fstab), *_places_of_units(units)] if there else ():
        if place in there:
            # Not looked at: a look at a dead server's share does not end, and most of them have no pool.
            continue
        ends = {place, os.path.realpath(place)} if place else set()
        if any(way.startswith(f"{end}/") for way in ways for end in ends) and there.isdisjoint(ends):
            return place
    return None


def _places_of_fstab(fstab: str) -> t.Iterator[str]:
    try:
        with open(fstab, encoding="utf-8", errors="surrogateescape") as file:
            entries = [line.split() for line in file if not line.lstrip().startswith("#")]
    except OSError:
        return
    for words in entries:
        # Where the options are missing, they are the defaults.
        options = "".join(words[3:4]).split(",")
        if len(words) > 2 and ("noauto" not in options or "x-systemd.automount" in options):
            yield _plain(words[1]).rstrip("/")


def _places_of_units(units: str) -> t.Iterator[str]:
    """Of what is enabled: another unit wants or requires it, by a link in a folder of its own."""
    for kind in ("wants", "requires"):
        for link in sorted(glob.glob(f"{glob.escape(units)}/*.{kind}/*mount")):
            # Wherever that leads: a unit of its name beside the folder counts more. It is empty where it is masked.
            own = os.path.join(units, os.path.basename(link))
            unit = own if os.path.lexists(own) else link
            with contextlib.suppress(OSError, UnicodeDecodeError), open(unit, encoding="utf-8") as file:
                yield from (line.partition("=")[2].strip().rstrip("/") for line in file if _WHERE.match(line))


def _mount(line: str) -> Mount | None:
    """Of a line of proc(5), mountinfo: the type and the source are the first two words after a dash, before which there
    may be any number."""
    words = line.split()
    if "-" not in words[6:-2]:
        return None
    after = words.index("-", 6)
    return Mount(_plain(words[4]), words[after + 1], _plain(words[after + 2]), words[2], _plain(words[3]))


def _plain(word: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), word)
