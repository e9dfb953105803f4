# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a pool: whether something may be mounted there, its owner and its mode."""

from __future__ import annotations

import contextlib
import grp
import os
import posixpath
import pwd
import stat
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._host.storage.shared_pools import mounted_at

Permissions = t.Mapping[str, t.Any]


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


def set_permissions(path: str, wanted: Permissions) -> None:
    """Give a directory an owner, a group and a mode; what is not named stays. Raises HostError."""
    try:
        if "owner" in wanted or "group" in wanted:
            os.chown(path, wanted.get("owner", -1), wanted.get("group", -1))
        if "mode" in wanted:
            os.chmod(path, int(wanted["mode"], 8))
    except OSError as exc:
        raise HostError(f"owner and mode of {path} cannot be set: {exc.strerror}") from exc
