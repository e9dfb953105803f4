# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time on one hypervisor."""

from __future__ import annotations

import contextlib
import os
import stat
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._base.files import LockTimeout, locked_file

# Root's alone. In a directory where everybody may make files, anybody could hold a lock for ever.
_SYSTEM_DIR = "/run/brine-virt"


def _default_dir() -> str:
    """Of root's runs one directory; a user without root, who manages machines of a session, has one of their own."""
    if os.geteuid() == 0:
        return _SYSTEM_DIR
    return os.path.join(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}", "brine-virt")


LOCK_DIR = _default_dir()


@contextlib.contextmanager
def hypervisor_lock(purpose: str, *, wait_seconds: float, lock_dir: str = LOCK_DIR) -> t.Iterator[None]:
    """Hold the lock of this purpose for the block; the kernel lets go of it when the process dies, however it dies.

    Raises ConflictError when another run holds it for longer than patience_seconds, HostError when the directory of
    the locks cannot be used, or belongs to somebody else.
    """
    path = os.path.join(lock_dir, f"{purpose}.lock")
    with contextlib.ExitStack() as held:
        try:
            _own_directory(lock_dir)
            held.enter_context(locked_file(path, wait_seconds))
        except LockTimeout as exc:
            raise ConflictError(
                f"another run has been at work on this hypervisor for more than {wait_seconds:g} s",
                hint=f"Wait for it to end; fuser {path} shows its process",
            ) from exc
        except OSError as exc:
            raise HostError(f"cannot open the lock {path}: {exc.strerror}", hint="Run as root (become: true)") from exc
        yield


def _own_directory(path: str) -> None:
    """A directory that nobody else can write to, made where it is missing. Raises OSError, HostError."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise HostError(
            f"{path}, the directory of the locks, can be written to by others",
            hint=f"Check who created it, and remove it: rm -r {path}",
        )
