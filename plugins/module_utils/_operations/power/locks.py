# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hypervisor's lock where machines' power states are changed.

The machine's own is held from the first look to the last (machine_lock). The hypervisor's, which virt_init holds while
it changes machines, is held where something is asked of libvirt, and not while a guest takes its minutes to shut down.
"""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t

from ..._base.errors import VirtError
from ..._host.locks import hypervisor_lock


class SharedLock:
    """The hypervisor's lock, held by any number of this run's threads at once, and by nobody else meanwhile."""

    def __init__(self, wait_seconds: float) -> None:
        self._wait_seconds = wait_seconds
        self._guard = threading.Lock()
        self._holders = 0
        self._held = contextlib.ExitStack()
        self._error: VirtError | None = None

    @contextlib.contextmanager
    def held(self) -> t.Iterator[None]:
        """Hold it for the block. Raises ConflictError when another run has it for too long, HostError."""
        self._enter(time.monotonic())
        try:
            yield
        finally:
            with self._guard:
                self._holders -= 1
                if not self._holders:
                    self._held.close()

    def _enter(self, asked_at: float) -> None:
        with self._guard:
            if not self._holders:
                left = self._wait_seconds - (time.monotonic() - asked_at)
                # All that came while one of them waited have waited as long.
                if left <= 0 and self._error is not None:
                    raise self._error
                try:
                    self._held.enter_context(hypervisor_lock("init", wait_seconds=max(0.0, left)))
                except VirtError as exc:
                    self._error = exc
                    raise
            self._holders += 1
