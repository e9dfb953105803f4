# SPDX-License-Identifier: GPL-3.0-or-later
"""Clouds of any size, and their pages as files. The same call makes the same cloud."""

from __future__ import annotations

import copy
import typing as t
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.brine.virt.plugins.plugin_utils._picture.contents import Picture, picture_of
from ansible_collections.brine.virt.plugins.plugin_utils._picture.machine import ShownMachine
from ansible_collections.brine.virt.plugins.plugin_utils._picture.page import render
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._picture.pages import GIB, HOST, MADE, WEB

KINDS = ("web", "db", "mail", "build", "cache")
TITLES = ("Serves the shop", "", "The old wiki; nobody knows whether it is still needed, ask before you remove it")


@dataclass(frozen=True)
class Cloud:
    """A cloud and its page. picture: what the page shows, from which a test knows what to expect."""

    picture: Picture
    file: Path

    @property
    def machines(self) -> list[ShownMachine]:
        """Those of all hypervisors."""
        return [machine for hypervisor in self.picture.hypervisors for machine in hypervisor.machines]

    @property
    def names(self) -> list[str]:
        """The machines' names, in the order of the page."""
        return [machine.name for machine in self.machines]


def write_cloud(file: Path, fleet: dict[str, t.Any], title: str) -> Cloud:
    """Write the page of these answers of hypervisors, as the filter makes it."""
    picture = picture_of(fleet, None)
    page, _digest = render(picture, MADE, title)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page, encoding="utf-8")
    return Cloud(picture, file)


def make_fleet(hypervisors: int, machines: int) -> dict[str, t.Any]:
    """As many hypervisors, each with as many machines, give or take one; and one hypervisor that does not answer."""
    fleet: dict[str, t.Any] = {
        f"hv{number}": _answer(number, machines + (number % 3) - 1) for number in range(1, hypervisors + 1)
    }
    return {**fleet, "silent": "Connection timed out"}


def _answer(number: int, machines: int) -> dict[str, t.Any]:
    records = [_machine(number, one) for one in range(1, machines + 1)]
    running = [record for record in records if record["state"] == "running"]
    memory, vcpus = (sum(record[key] for record in records) for key in ("memory_mib", "vcpus"))
    # From a third of it free to a little more promised than there is.
    total = memory * (9 + number * 4 % 7) // 10
    host = {
        **copy.deepcopy(HOST),
        "domain_types": ["qemu", "kvm"],
        "release": {"name": "Debian GNU/Linux 12 (bookworm)", "version": "12"},
        "uptime_seconds": 86400 * number,
        "vcpus": {
            "total": 8 * (1 + number * 3 % 4),
            "committed": vcpus,
            "running": sum(record["vcpus"] for record in running),
        },
        "memory": {
            "total_mib": total,
            "committed_mib": memory,
            "running_mib": sum(record["memory_mib"] for record in running),
            "free_mib": max(0, total - memory),
        },
        "pools": [
            {"name": "default", "type": "dir", "active": True, "capacity_mib": 819200, "available_mib": 12000 * number},
            {"name": "fast", "type": "logical", "active": True, "capacity_mib": 409600, "available_mib": 204800},
        ],
        "errors": [],
        "arriving": ["db99-1"] if number == 1 else [],
    }
    if number % 10 != 2:
        host.update(maintenance=None, certificates=host["certificates"][:1])
    return {"host": host, "machines": records}


def _machine(hypervisor: int, one: int) -> dict[str, t.Any]:
    """One of many, which differ in what can be searched for and sorted by."""
    number = hypervisor * 7 + one
    state = {3: "shutoff", 9: "shutoff", 11: "paused"}.get(number % 13, "running")
    if (hypervisor, one) == (2, 4):
        state = "crashed"
    running = state == "running"
    size = (8 + number % 5 * 16) * GIB
    return {
        **copy.deepcopy(WEB),
        "name": f"{KINDS[number % len(KINDS)]}{hypervisor}-{one}",
        "state": state,
        "vcpus": 1 + number % 4,
        "memory_mib": 512 * (1 + number * 3 % 8),
        "title": TITLES[number % len(TITLES)],
        "addresses": [f"10.{number % 3}.{hypervisor}.{one}", f"2001:db8:{hypervisor}::{one}"] if running else [],
        "tags": [*(["front end"] if number % 5 == 0 else []), f"room {number % 4}"],
        "image": {"name": "ubuntu" if number % 4 == 0 else "debian"},
        "pending": ["memory", "disks.data"] if number % 9 == 0 else [],
        "moving": {"source": f"hv{hypervisor}", "target": f"hv{hypervisor + 1}"} if number % 19 == 0 else None,
        "disks": [
            {"device": "disk", "pool": "default", "volume": f"v{number}", "size_bytes": size, "allocation_bytes": GIB}
        ],
        "errors": WEB["errors"] if number % 17 == 0 else [],
        "autostart": number % 2 == 0,
        "uptime_seconds": 3600 * number if running else None,
    }
