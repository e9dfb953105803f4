# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors as data, and as a table."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.plugin_utils._reports.hypervisors import (
    hypervisors_data,
    hypervisors_table,
)


def facts(**more: t.Any) -> dict[str, t.Any]:
    return {
        "host": {
            "release": {"id": "debian", "name": "Debian GNU/Linux 12 (bookworm)", "version": "12"},
            "libvirt_version": "9.0.0",
            "kvm": True,
            "vcpus": {"total": 16, "committed": 6, "running": 4},
            "memory": {"total_mib": 32768, "committed_mib": 6144, "running_mib": 4096, "free_mib": 26624},
            "machines": [{"name": "a", "memory_mib": 1, "vcpus": 1}],
            "pools": [
                {"name": "default", "type": "dir", "active": True, "available_mib": 81920, "capacity_mib": 102400},
                {"name": "old", "type": "dir", "active": False, "available_mib": None, "capacity_mib": None},
            ],
            "bridges": ["br0", "virbr0"],
            "networks": [],
            "certificates": [
                {"kind": "authority", "days_left": 3000, "not_after": "2036-01-01T00:00:00+00:00", "path": "/ca"},
                {"kind": "libvirt_server", "days_left": 364, "not_after": "2027-11-21T10:00:00+00:00", "path": "/s"},
            ],
            "maintenance": None,
            "errors": [],
            **more,
        }
    }


def table(results: dict[str, t.Any], settings: t.Any = None) -> list[str]:
    return hypervisors_table(hypervisors_data(results, settings)).splitlines()


def test_one_row_for_each_hypervisor() -> None:
    assert table({"hv1": facts()}) == [
        "NAME  RELEASE    LIBVIRT  KVM  MACHINES   CPU  FREE  MEMORY   FREE  "
        "POOLS (FREE)               BRIDGES      CERTS  MAINT",
        "hv1   debian 12  9.0.0    yes         1  6/16   122  6G/32G  25.8G  "
        "default 80G, old not a...  br0, virbr0    364  -",
        "hv1: pools default 80G, old not active",
    ]


def test_a_hypervisor_as_the_roles_make_it_fits() -> None:
    pools = [{"name": name, "type": "dir", "active": True, "available_mib": 75366} for name in ("default", "images")]
    lines = table({"hv1": facts(pools=pools, bridges=["br0"])})
    assert "default 73G, images 73G  br0" in lines[1]


def test_free_is_what_placement_may_use() -> None:
    settings = {"hv1": {"virt_memory_reserve_mib": 2048, "virt_vcpu_ratio": "2"}, "hv9": {"virt_memory_ratio": "x"}}
    data = hypervisors_data({"hv1": facts(), "hv2": facts()}, settings)
    assert data["hypervisors"]["hv1"]["placement"] == {"free_mib": 24576, "free_vcpus": 26}
    assert data["hypervisors"]["hv2"]["placement"] == {"free_mib": 26368, "free_vcpus": 122}
    assert data["failures"] == []


def test_ten_hypervisors_are_ten_rows_of_one_screen() -> None:
    names = [f"hypervisor{number}" for number in range(10)]
    many = {"bridges": [f"br{number}" for number in range(20)], "pools": facts()["host"]["pools"] * 5}
    lines = table({name: facts(**many) for name in names})
    assert max(map(len, lines[:11])) <= 120
    assert [line.split()[0] for line in lines[1:11]] == names
    pools, bridges = ", ".join(["default 80G, old not active"] * 5), ", ".join(many["bridges"])
    assert lines[11:] == [f"{name}: pools {pools}; bridges {bridges}" for name in names]


def test_what_needs_attention_stands_below() -> None:
    soon = {"kind": "libvirt_server", "days_left": 3, "not_after": "2026-11-25T10:00:00+00:00", "path": "/s"}
    odd = facts(
        maintenance={"since": "2026-11-21T10:00:00Z", "reason": "new\ndisks"},
        certificates=[soon],
        errors=["pool x is gone"],
        release=None,
        kvm=False,
        bridges=None,
    )
    lines = table({"hv1": odd, "hv2": {"failed": True, "msg": "no"}, "hv3": facts(maintenance={"since": None})})
    assert lines[1].startswith("hv1   -          9.0.0    no          1  6/16   122  6G/32G  25.8G  default 80G")
    assert lines[1].split()[-3:] == ["?", "3", "yes"]
    assert lines[3:] == [
        "hv1: pools default 80G, old not active",
        "hv3: pools default 80G, old not active",
        "hv1 is in maintenance since 2026-11-21T10:00:00Z (new disks)",
        "hv1: certificate libvirt_server ends 2026-11-25 (/s)",
        "hv1: pool x is gone",
        "hv3 is in maintenance since an unknown time",
        "hv2: did not answer: no",
    ]


def test_nobody_answered() -> None:
    data = hypervisors_data({"hv1": {"unreachable": True, "msg": "no"}})
    assert data["failures"] == ["No hypervisor answered."]
    assert hypervisors_table(data) == "hv1: did not answer: no"
