# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far libvirt's job with a machine is, in bytes, for who waits for it.

Only what libvirt tells at that time is to be asked: another question waits until libvirt gives it up after 30 seconds
(qemuDomainObjSetAsyncJobMask in src/qemu), and leaves an error in its log.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ..progress import HowFar


def look_at_memory(domain: t.Any) -> HowFar | None:
    """How much of a machine's memory is written to a file. Raises libvirt's error."""
    return memory_in(domain.jobStats())


def memory_in(stats: Mapping[str, t.Any]) -> HowFar | None:
    """The same by what virDomainGetJobStats says; nothing before and after it is written.

    https://libvirt.org/html/libvirt-libvirt-domain.html#VIR_DOMAIN_JOB_MEMORY_TOTAL
    """
    total = stats.get("memory_total", 0)
    return HowFar("memory", total - stats.get("memory_remaining", 0), total) if total else None


def look_at_merges(domain: t.Any, targets: Sequence[str]) -> HowFar | None:
    """How far these disks are merged; nothing while the machine has no QEMU that does it. Raises libvirt's error."""
    if not domain.isActive():
        return None
    return merges_in({target: domain.blockJobInfo(target, 0) for target in targets})


def merges_in(jobs: Mapping[str, Mapping[str, t.Any] | None]) -> HowFar | None:
    """The same by what virDomainGetBlockJobInfo says of each disk: nothing where there is no job."""
    going = {target: info for target, info in jobs.items() if info and info.get("end")}
    if not going:
        return None
    phase = f"merge of {'disk' if len(going) == 1 else 'disks'} {', '.join(going)}"
    return HowFar(phase, sum(info["cur"] for info in going.values()), sum(info["end"] for info in going.values()))
