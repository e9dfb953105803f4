# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time on one hypervisor."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._errors import ConflictError, HostError

LOCK_DIR = "/run/lock"


@contextlib.contextmanager
def hypervisor_lock(purpose: str, *, patience_seconds: float, lock_dir: str = LOCK_DIR) -> t.Iterator[None]:
    """Hold the lock of this purpose for the block; the kernel lets go of it when the process dies, however it dies.

    Raises ConflictError when another run holds it for longer than patience_seconds.
    """
    path = os.path.join(lock_dir, f"brine-virt-{purpose}.lock")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise HostError(f"cannot open the lock {path}: {exc.strerror}", hint="Run as root (become: true)") from exc
    try:
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ConflictError(
                        f"another run has been at work on this hypervisor for more than {patience_seconds:g} s",
                        hint=f"Wait for it to end; fuser {path} names its process",
                    ) from None
                time.sleep(0.1)
        yield
    finally:
        os.close(handle)
