# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose the directory of backups is, and who could change where its path leads.

QEMU and qemu-img open images by their paths, as root. Whoever can put a link there, or another image, has them read or
overwrite any file of the hypervisor. So nobody may but root, whoever runs this, and one user whom the task names.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat

from ..._base.errors import HostError, InputError
from ..._base.posix_acl import Acl, read_acl

# As many as Linux follows (path_resolution(7)).
_MOST_LINKS = 40
_OTHERS, _GROUP = 0o002, 0o020


def read_owner(value: str | None, where: str = "owner") -> int | None:
    """The number of a user who is given by name or number. Raises InputError for one who is not there."""
    if value is None:
        return None
    if value.isascii() and value.isdigit() and len(value) <= len(str(1 << 32)):
        return int(value)
    try:
        return pwd.getpwnam(value).pw_uid
    except (KeyError, ValueError) as exc:
        raise InputError(f"there is no user {value!r} on this hypervisor", where=where, hint="getent passwd") from exc


def require_trusted(path: str, owner: int | None = None) -> None:
    """Check every directory and link on the way to a path, and what is there. owner: who may own them besides root.

    A directory with the sticky bit, such as ``/tmp``, is passed: nobody removes or renames what is another user's.
    Whom an entry of an access control list lets write counts like a user or group that the mode lets. Lists of NFSv4
    are not seen.
    Raises HostError; OSError for what is not there.
    """
    at, links, parts = "/", 0, _parts(path)
    _require(at, os.lstat(at), owner, sticky=True)
    while parts:
        part = parts.pop(0)
        if part == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, part)
        found = os.lstat(here)
        _require(here, found, owner, sticky=True)
        if not stat.S_ISLNK(found.st_mode):
            at = here
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(here)
        parts = _parts(target) + parts
        at = "/" if target.startswith("/") else at


def require_own(path: str, owner: int | None = None) -> os.stat_result:
    """Check a file or directory in a directory that is trusted. Raises HostError; OSError for what is not there."""
    found = os.lstat(path)
    _require(path, found, owner, sticky=False)
    return found


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _require(path: str, found: os.stat_result, owner: int | None, *, sticky: bool) -> None:
    if found.st_uid not in (0, os.geteuid(), owner):
        name = _user(found.st_uid)
        raise HostError(
            f"{path} belongs to {name}, who could have files of this hypervisor read and overwritten through it",
            hint=f"chown root {path}; or, if this user may do all that root may, set owner: {name}",
        )
    if stat.S_ISLNK(found.st_mode) or (sticky and found.st_mode & stat.S_ISVTX):
        return
    if found.st_mode & _OTHERS:
        raise _writable(path, "everybody", f"chmod go-w {path}")
    # With an access control list, these bits are its mask: without them, no entry lets anybody write.
    if found.st_mode & _GROUP:
        _require_no_other(path, found, owner)


def _require_no_other(path: str, found: os.stat_result, owner: int | None) -> None:
    """The same for the groups, and the users whom an access control list names. Raises HostError, OSError."""
    try:
        acl = read_acl(path) or Acl((), (), owning_group=True)
    except ValueError as exc:
        raise HostError(
            f"{path} has an access control list that cannot be understood: {exc}", hint=f"setfacl --remove-all {path}"
        ) from exc
    entries = [f"user:{_user(number)}" for number in acl.users if number not in (0, os.geteuid(), owner)]
    entries += [f"group:{_group(number)}" for number in acl.groups if number != 0]
    if entries:
        entry = entries[0]
        who = f"{entry.replace(':', ' ', 1)}, by the entry {entry} of its access control list"
        raise _writable(path, who, f"setfacl --remove {entry} {path}")
    if acl.owning_group and found.st_gid != 0:
        raise _writable(path, f"group {_group(found.st_gid)}", f"chmod go-w {path}")


def _writable(path: str, who: str, hint: str) -> HostError:
    return HostError(
        f"{path} can be written to by {who}, who could have files of this hypervisor read and overwritten through it",
        hint=hint,
    )


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
