# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time on one hypervisor."""

from __future__ import annotations

import contextlib
import os
import stat
import typing as t

from .._base.errors import ConflictError, HostError
from .._base.files import LockTimeout, locked_file, root_hint

# Root's alone. In a directory where everybody may make files, anybody could hold a lock for ever.
_SYSTEM_DIR = "/run/brine-virt"


def _default_dir() -> str:
    """Of root's runs one directory; a user without root, who manages machines of a session, has one of their own."""
    if os.geteuid() == 0:
        return _SYSTEM_DIR
    return os.path.join(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}", "brine-virt")


LOCK_DIR = _default_dir()


@contextlib.contextmanager
def hypervisor_lock(
    purpose: str, *, wait_seconds: float, lock_dir: str = LOCK_DIR, held_words: str | None = None
) -> t.Iterator[None]:
    """Hold the lock of this purpose for the block; the kernel lets go of it when the process dies, however it dies.

    held_words: what another run that holds it is doing, where that is more than being at work here.
    Raises ConflictError when another run holds it for longer than wait_seconds, HostError when the directory of
    the locks cannot be used, or belongs to somebody else.
    """
    path = os.path.join(lock_dir, f"{purpose}.lock")
    with contextlib.ExitStack() as held:
        try:
            _own_directory(lock_dir)
            held.enter_context(locked_file(path, wait_seconds))
        except LockTimeout as exc:
            raise ConflictError(
                held_words or f"another run has been at work on this hypervisor for more than {wait_seconds:g} s",
                hint=f"Wait for it to end; fuser {path} shows its process",
            ) from exc
        except OSError as exc:
            raise HostError(f"cannot open the lock {path}: {exc.strerror}", hint=root_hint(exc)) from exc
        yield


def machine_lock(name: str, wait_seconds: float) -> t.ContextManager[None]:
    """The lock of one machine, held while it is moved, backed up, restored or removed, or its power state changed.

    What is done to it may take long, such as the copy of its disks, and the hypervisor's lock is not held as long. Who
    holds that one already waits no time for this one: others take the two the other way round.
    Raises as hypervisor_lock does.
    """
    words = f"another run is moving, backing up, restoring or removing machine {name}, or changing its power state"
    return hypervisor_lock(f"move-{name.replace('/', '_')}", wait_seconds=wait_seconds, held_words=words)


def _own_directory(path: str) -> None:
    """A directory that nobody else can write to, made where it is missing. Raises OSError, HostError."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found, us = os.lstat(path), os.geteuid()
    # It also holds the rollback of a bridge that is being changed, so that nobody is told to remove it as a whole.
    what = f"{path}, the directory of the locks,"
    if stat.S_ISLNK(found.st_mode):
        raise HostError(f"{what} is a symbolic link", hint=f"Check who created it, and remove the link: rm {path}")
    if not stat.S_ISDIR(found.st_mode):
        raise HostError(f"{what} is not a directory", hint=f"Check who created it, and remove that file: rm {path}")
    check = "Check who created it and what is in it; then"
    if found.st_uid != us:
        raise HostError(f"{what} belongs to UID {found.st_uid}, not to UID {us}", hint=f"{check}: chown {us} {path}")
    if found.st_mode & 0o022:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise HostError(f"{what} can be written to by others: its mode is {mode}", hint=f"{check}: chmod go-w {path}")
