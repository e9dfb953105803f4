# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a pool: whether it may be one, and something be mounted there, its owner and its mode."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import posixpath
import pwd
import stat
import typing as t

from ...._base.errors import ConflictError, InputError, NotFoundError
from ...._base.files import file_errors
from ..shared_pools import mounted_at

Permissions = t.Mapping[str, t.Any]

# hier(7), with what distributions link to each other. The host's own: with another owner or mode, or with the label of
# disks of machines, it does not work any more, and nobody can log in.
_HOSTS_OWN = ("/boot", "/dev", "/etc", "/proc", "/root", "/run", "/sys", "/usr", "/var/run", "/var/lock")
_PROGRAMS = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin")
# Where somebody may well have made a directory for a pool all the same.
_AMONG_THEM = ("/dev/shm", "/run/media", "/usr/local")
# In these are the pools of many, and they are none themselves.
_SHARED = (
    "/",
    "/home",
    "/tmp",
    "/var",
    "/var/cache",
    "/var/lib",
    "/var/lib/libvirt",
    "/var/log",
    "/var/spool",
    "/var/tmp",
)


def require_own_directory(path: str, where: str) -> None:
    """Raise InputError for a directory that is the host's own or somebody's home, and ConflictError for what is none.

    All files in the directory of a pool are volumes of it, which tasks delete and replace, and the directory itself
    gets the owner, the mode and the label of the pool. Links are followed.
    """
    real = os.path.realpath(path)
    words = path if real == path else f"{path} (which is {real})"
    hint = "Give the pool a directory of its own, such as /srv/vms"
    if real in _SHARED or (_is_below(real, (*_HOSTS_OWN, *_PROGRAMS)) and not _is_inside(real, _AMONG_THEM)):
        raise InputError(f"{words} belongs to the host's own system", where=where, hint=hint)
    # sshd(8) lets nobody in whose home is another one's.
    if ".ssh" in real.split("/") or os.path.lexists(posixpath.join(real, ".ssh")):
        raise InputError(f"{words} belongs to a user who logs in over SSH", where=where, hint=hint)
    if os.path.lexists(real) and not os.path.isdir(real):
        raise ConflictError(f"{words} is not a directory", where=where, hint=hint)


def _is_below(path: str, places: t.Iterable[str]) -> bool:
    return path in places or _is_inside(path, places)


def _is_inside(path: str, places: t.Iterable[str]) -> bool:
    return any(path.startswith(f"{place}/") for place in places)


def require_mount_point(path: str, source: str, where: str) -> None:
    """Raise ConflictError where mounting would hide something: files in the directory, or another mounted file system.

    source: what is to be mounted, as mount(8) calls it. What is mounted there already is no error.
    """
    mounted = mounted_at(path)
    if mounted is not None:
        if _same_source(mounted, source):
            return
        raise ConflictError(f"{mounted} is mounted on {path}", where=where, hint=f"Unmount it first: umount {path}")
    with contextlib.suppress(FileNotFoundError):
        try:
            if os.listdir(path):
                raise ConflictError(
                    f"{path} is not empty, and what is mounted there would hide its files",
                    where=where,
                    hint="Choose another directory, or move the files away",
                )
        except NotADirectoryError as exc:
            raise ConflictError(f"{path} is not a directory", where=where) from exc


def _same_source(one: str, other: str) -> bool:
    if one.startswith("/dev/") and other.startswith("/dev/"):
        return os.path.realpath(one) == os.path.realpath(other)
    return posixpath.normpath(one) == posixpath.normpath(other)


def user_number(account: int | str, where: str) -> int:
    """The number of a user of this host. Raises NotFoundError."""
    return _number(account, where, "user", lambda name: pwd.getpwnam(name).pw_uid)


def group_number(account: int | str, where: str) -> int:
    """The number of a group of this host. Raises NotFoundError."""
    return _number(account, where, "group", lambda name: grp.getgrnam(name).gr_gid)


def _number(account: int | str, where: str, kind: str, find: t.Callable[[str], int]) -> int:
    if isinstance(account, int):
        return account
    try:
        return find(account)
    except KeyError as exc:
        raise NotFoundError(f"this host has no {kind} {account!r}", where=where) from exc


def permissions_of(path: str) -> dict[str, t.Any] | None:
    """Owner, group and mode of a directory, in the words of a pool's options; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return {"owner": found.st_uid, "group": found.st_gid, "mode": f"0{stat.S_IMODE(found.st_mode):03o}"}


def resolved_directory(path: str, where: str) -> str:
    """The directory without links, for set_permissions. Raises as require_own_directory does."""
    real = os.path.realpath(path)
    require_own_directory(real, where)
    return real


def set_permissions(real: str, wanted: Permissions) -> None:
    """Give a directory an owner, a group and a mode; what is not named stays. Raises HostError and ConflictError.

    real: from resolved_directory(). Whoever owns a directory above it may have put a link in its place since.
    """
    what = f"owner and mode of {real} cannot be set"
    with file_errors(what):
        descriptor = _open_without_links(real, what)
        try:
            if "owner" in wanted or "group" in wanted:
                os.fchown(descriptor, wanted.get("owner", -1), wanted.get("group", -1))
            if "mode" in wanted:
                os.fchmod(descriptor, int(wanted["mode"], 8))
        finally:
            os.close(descriptor)


def _open_without_links(real: str, what: str) -> int:
    parts = [part for part in real.split("/") if part]
    descriptor = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, part in enumerate(parts, 1):
        # Those above it may be such as this user can only go through.
        access = os.O_RDONLY if number == len(parts) else os.O_PATH
        above = descriptor
        try:
            descriptor = os.open(part, access | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        except OSError as exc:
            if exc.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise ConflictError(
                f"{what}: /{'/'.join(parts[:number])} is no directory any more",
                hint="Find out who has replaced it, and run it again",
            ) from exc
        finally:
            os.close(above)
    return descriptor
