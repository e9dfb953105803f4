# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host was restarted since it was asked last. libvirt tells neither when it was, nor which boot this is."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ...module_utils._host.connection import VirConnect, libvirt


@dataclass(frozen=True)
class Uptime:
    """How long a host has been up, in seconds. at: when it was asked, by a clock of ours that only goes forward."""

    seconds: float
    at: float

    def is_of_another_boot_than(self, earlier: Uptime) -> bool:
        """Whether the host was started after the earlier answer.

        It is up for less time than has gone by since, then; or for less than it was. What its CPUs have counted may
        lack some percent, which is less than it had been up before, where that answer is not too old.
        """
        return self.seconds < max(earlier.seconds, self.at - earlier.at)


def ask_uptime(conn: VirConnect) -> Uptime | None:
    """What the host's first CPU has counted since it was started, idle or not; None where that is not told.

    https://libvirt.org/html/libvirt-libvirt-host.html#virNodeGetCPUStats
    """
    at = time.monotonic()
    try:
        # Of one CPU: the sum of all of them would say something else when one is taken out or added.
        nanoseconds = sum(conn.getCPUStats(0, 0).values())
    except libvirt.libvirtError:
        return None
    return Uptime(nanoseconds / 1e9, at) if nanoseconds else None
