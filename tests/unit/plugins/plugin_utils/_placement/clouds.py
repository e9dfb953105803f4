# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors and machines as the modules describe them, for tests of placement."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._host.machines.record import bare_record

MIB = 1024 * 1024


def record(name: str, memory_mib: int = 1024, vcpus: int = 1, **more: t.Any) -> dict[str, t.Any]:
    """A machine as virt_info returns it: one overlay disk of 8 GiB with 100 MiB in it, one nic on br0."""
    disk = {
        "target": "vda",
        "source": f"/pool/{name}.qcow2",
        "pool": "default",
        "size_bytes": 8192 * MIB,
        "allocation_bytes": 100 * MIB,
        "backing": "/images/debian-0123456789abcdef.qcow2",
    }
    return {
        **bare_record(name, f"uuid-of-{name}", "running"),
        "memory_max_mib": memory_mib,
        "vcpus_max": vcpus,
        "arch": "x86_64",
        "domain_type": "kvm",
        "machine_type": "pc-q35-7.2",
        "image": {"name": "debian", "volume": "debian-0123456789abcdef.qcow2", "pool": "images"},
        "disks": [disk],
        "nics": [{"type": "bridge", "source": "br0"}],
        **more,
    }


def hypervisor(*machines: dict[str, t.Any], total_mib: int = 8448, **more: t.Any) -> dict[str, t.Any]:
    """A hypervisor with these machines, and 8192 MiB for machines beside the reserve."""
    facts = {
        "arch": "x86_64",
        "domain_types": ["kvm", "qemu"],
        "machine_types": ["pc-q35-7.2", "q35"],
        "memory": {"total_mib": total_mib, "committed_mib": sum(m["memory_max_mib"] or 0 for m in machines)},
        "vcpus": {"total": 8, "committed": sum(m["vcpus_max"] or 0 for m in machines)},
        "pools": [pool("default"), pool("images")],
        "bridges": ["br0"],
        "networks": [],
        "images": [
            {"name": "debian", "volume": "debian-0123456789abcdef.qcow2", "pool": "images", "size_mib": 500},
        ],
        "machines": [
            {
                "name": m["name"],
                "memory_mib": m["memory_max_mib"],
                "vcpus": m["vcpus_max"],
                "anti_affinity": m["anti_affinity"],
            }
            for m in machines
        ],
        "maintenance": None,
        **more,
    }
    return {"host": facts, "machines": list(machines)}


def pool(name: str, available_mib: int | None = 100_000, **more: t.Any) -> dict[str, t.Any]:
    """A storage pool as virt_host_info returns it."""
    return {"name": name, "type": "dir", "active": True, "available_mib": available_mib, **more}
