# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Letting libvirt see what others have changed in a pool."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import translate_errors

# How long another job in the pool (a volume that is being copied) may keep libvirt from looking into it again.
_REFRESH_WAIT_SECONDS = 120


def refresh_pool(pool: t.Any, name: str, wait_seconds: float = _REFRESH_WAIT_SECONDS) -> None:
    """Let libvirt see what has changed in a pool. Waits for another job in it, such as a copy that is being made."""
    end = time.monotonic() + wait_seconds
    while True:
        try:
            with translate_errors(f"cannot refresh pool {name}"):
                pool.refresh(0)
            return
        except VirtError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
