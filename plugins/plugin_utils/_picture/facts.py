# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of hypervisors and machines that not every answer has, as the page words them. Pure.

What is missing or of another shape than expected is left out: a page is not worth an error for want of one fact.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from .._reports.hypervisors import CERTIFICATE_WARNING_DAYS
from .words import counted, duration

Record = Mapping[str, t.Any]


def release_of(host: Record) -> str | None:
    """The distribution of the hypervisor, such as ``Debian GNU/Linux 12 (bookworm)``."""
    found = host.get("release")
    if isinstance(found, Mapping):
        name, version = str(found.get("name") or found.get("id") or ""), str(found.get("version") or "")
        return (name if version in name else f"{name} {version}".strip()) or None
    return found if isinstance(found, str) and found else None


def uptime_of(record: Record) -> str | None:
    """How long a hypervisor or a machine has been up."""
    found: t.Any = record.get("uptime_seconds")
    return duration(found) if _is_number(found) and found >= 0 else None


def is_emulating(host: Record) -> bool:
    """Whether the hypervisor has QEMU and cannot use KVM for it."""
    types = host.get("domain_types") or []
    return "qemu" in types and "kvm" not in types


def certificates_of(host: Record) -> tuple[str | None, list[str]]:
    """The days that the first certificate to end has left, as text; and a sentence for each that ends soon."""
    known = [
        one
        for one in host.get("certificates") or []
        if isinstance(one, Mapping) and isinstance(one.get("days_left"), int)
    ]
    if not known:
        return None, []
    days = min(one["days_left"] for one in known)
    text = "ended" if days < 0 else f"{counted(days, 'day')} left"
    ending = [
        f"Certificate {one.get('kind')} {'ended' if one['days_left'] < 0 else 'ends'} {str(one.get('not_after'))[:10]}"
        f" ({one.get('path')})"
        for one in known
        if one["days_left"] < CERTIFICATE_WARNING_DAYS
    ]
    return text, ending


def snapshots_of(machine: Record) -> int:
    """How many snapshots it has."""
    found = machine.get("snapshots")
    if isinstance(found, (list, tuple, Mapping)):
        return len(found)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def jobs_of(machine: Record) -> list[str]:
    """What is being done with the machine and its disks at this moment, and how far it is."""
    jobs = machine.get("jobs")
    return [_job(job) for job in jobs if isinstance(job, Mapping)] if isinstance(jobs, (list, tuple)) else []


def _job(job: Record) -> str:
    kind = str(job.get("type") or "unknown").replace("_", " ")
    disk = f" of {job['disk']}" if job.get("disk") else ""
    percent = f", {job['percent']:.0f}%" if _is_number(job.get("percent")) else ""
    return f"{kind}{disk}{percent}"


def _is_number(value: t.Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
