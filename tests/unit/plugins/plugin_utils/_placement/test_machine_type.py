# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine types of new machines, where hypervisors of several releases do not know the same ones."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.filter.place import place_filter

BOOKWORM = ["pc", "pc-q35-6.2", "pc-q35-7.2", "q35"]
TRIXIE = ["pc", "pc-q35-6.2", "pc-q35-7.2", "pc-q35-9.1", "pc-q35-10.0", "q35"]
JAMMY = ["pc-q35-5.2", "pc-q35-6.2", "pc-q35-jammy", "q35"]
NOBLE = ["pc-q35-6.2", "pc-q35-8.2", "pc-q35-jammy", "pc-q35-noble", "q35"]


def host(types: list[str] | None, default: str | None = None, total_mib: int = 4096, arch: str = "x86_64") -> t.Any:
    """A hypervisor that knows these machine types."""
    return {
        "memory": {"total_mib": total_mib, "committed_mib": 0},
        "vcpus": {"total": 4, "committed": 0},
        "pools": [{"name": "default", "active": True, "available_mib": 100_000}],
        "bridges": ["br0"],
        "arch": arch,
        "machine_types": types,
        "default_machine_type": default,
    }


OLD, NEW = host(BOOKWORM, "pc-q35-7.2"), host(TRIXIE, "pc-q35-10.0", 9999)


def place(hosts: dict[str, t.Any], *machines: dict[str, t.Any], **options: t.Any) -> dict[str, t.Any]:
    specs = [{"name": f"m{number}", "vcpus": 1, "memory": 512, **more} for number, more in enumerate(machines or [{}])]
    return place_filter(specs, hosts, **options)


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ([OLD, OLD], "pc-q35-7.2"),
        ([NEW, NEW], "pc-q35-10.0"),
        ([OLD, NEW], "pc-q35-7.2"),
        # As numbers: 10.0 is newer than 9.1.
        ([host(["pc-q35-9.1", "pc-q35-10.0", "pc-q35-10.1"], "pc-q35-10.1"), NEW], "pc-q35-10.0"),
        # A distribution's own name stands for its newest one.
        ([host(JAMMY, "pc-q35-jammy"), host(NOBLE, "pc-q35-noble")], "pc-q35-jammy"),
        ([host(JAMMY, "pc-q35-jammy"), OLD], "pc-q35-6.2"),
        (
            [host(["pc-q35-rhel8.6.0", "pc-q35-rhel9.0.0"]), host(["pc-q35-rhel9.0.0", "pc-q35-rhel9.4.0"])],
            "pc-q35-rhel9.0.0",
        ),
        ([OLD, host(["pc-q35-10.0", "q35"], "pc-q35-10.0")], None),
        ([host(["virt-7.2", "virt"], None, arch="aarch64")], None),
        ([OLD, host(None)], None),
        ([OLD, "no route"], "pc-q35-7.2"),
    ],
)
def test_the_newest_that_all_know(hosts: list[t.Any], found: str | None) -> None:
    named = {f"hv{number}": facts for number, facts in enumerate(hosts)}
    assert place(named, baseline=True, unseen="place")["machine_type"] == found
    # Asked for only with the CPU that all have.
    assert place(named, unseen="place")["machine_type"] is None


WHY = "; its machine type pc-q35-10.0 is not known on hv1, hv2; virt_cpu_baseline gives one that all know"


def test_what_keeps_a_new_machine_on_its_hypervisor_is_said_once() -> None:
    hosts = {"hv1": OLD, "hv2": OLD, "hv3": NEW}
    first, second = (item["why"] for item in place(hosts, {}, {})["assignments"])
    assert first.endswith(WHY)
    assert "machine type" not in second
    (named,) = place(hosts, {"hypervisor": "hv3"})["assignments"]
    assert named["why"].endswith(WHY)
    (other,) = place({**hosts, "hv2": host(["pc-q35-8.2"])}, {"hypervisor": "hv3"})["assignments"]
    assert other["why"].endswith("; its machine type pc-q35-10.0 is not known on hv1, hv2")


@pytest.mark.parametrize(
    ("hosts", "machine", "options"),
    [
        ({"hv1": OLD, "hv3": NEW}, {}, {"baseline": True}),
        ({"hv1": OLD, "hv3": NEW}, {"machine_type": "pc-q35-7.2"}, {}),
        ({"hv1": OLD, "hv3": NEW}, {"hypervisor": "hv1"}, {}),
        ({"hv1": host(None), "hv3": NEW}, {}, {}),
        ({"hv1": host(["virt-7.2"], arch="aarch64"), "hv3": NEW}, {}, {}),
        ({"hv1": OLD, "hv3": {**NEW, "machines": [{"name": "m0", "memory_mib": 512, "vcpus": 1}]}}, {}, {}),
    ],
)
def test_nothing_is_said_of_machine_types_where_nothing_follows(
    hosts: dict[str, t.Any], machine: dict[str, t.Any], options: dict[str, t.Any]
) -> None:
    (item,) = place(hosts, machine, **options)["assignments"]
    assert "machine type" not in item["why"]
