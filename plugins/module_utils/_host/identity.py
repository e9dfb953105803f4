# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tells this host from others, and this start of it from earlier ones. Its name does not: many are localhost."""

from __future__ import annotations

import contextlib
import hashlib
import os

# See machine-id(5), and the UUID that the firmware has, which root alone may read. Copies of one installation often
# share the first, some boards the second. libvirt's own host UUID is one of the two, by its configuration, or a random
# one for each start of its daemon. https://libvirt.org/formatcaps.html
_MACHINE_ID = "/etc/machine-id"
_FIRMWARE_UUID = "/sys/class/dmi/id/product_uuid"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def host_identity() -> str:
    """What tells this host from others, the same after a restart; empty where it has no id."""
    identity = _first_line(_MACHINE_ID)
    if not identity:
        return ""
    return hashlib.sha256(f"{identity} {_first_line(_FIRMWARE_UUID)}".encode()).hexdigest()[:32]


def boot_identity() -> str:
    """What tells this start of this host from others; of a container, which has its kernel's boot id, too."""
    processes = 0
    with contextlib.suppress(OSError):
        processes = os.stat("/proc/self/ns/pid").st_ino
    return f"{_first_line(_BOOT_ID)}:{processes}"


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def process_start_ticks(pid: int) -> int | None:
    """When a process of this host has started, in ticks since the host did; None for one that is not there.

    The 22nd word of /proc/PID/stat; the second one is the name, in brackets, and may have blanks. See proc_pid_stat(5).
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
