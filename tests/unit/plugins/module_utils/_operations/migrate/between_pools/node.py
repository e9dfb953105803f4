# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor of libvirt's test driver with a machine whose disks are in the pool slow, and its files."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    DiskNote,
    MachineNotes,
    VolumeNote,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml

IMAGE = "debian-0123456789abcdef.qcow2"
UUID = "11111111-1111-1111-1111-111111111111"
NOTES = MachineNotes(
    volumes=(
        VolumeNote("slow", "web1-system.qcow2", "disk", format="qcow2", identity="0f0f"),
        VolumeNote("slow", "web1-data.raw", "disk", format="raw"),
        VolumeNote("slow", "web1-seed.iso", "seed", format="raw"),
    ),
    disks=(DiskNote("system", "vda"), DiskNote("data", "vdb")),
)


def disk(device: str, path: str, image_format: str = "raw", more: str = "", kind: str = "disk") -> str:
    source = f"<source file='{path}'/>" if path else ""
    return (
        f"<disk type='file' device='{kind}'><driver name='qemu' type='{image_format}'/>{source}"
        f"<target dev='{device}'/>{more}</disk>"
    )


SYSTEM = disk("vda", "/pools/slow/web1-system.qcow2", "qcow2")
DATA = disk("vdb", "/pools/slow/web1-data.raw")
SEED = disk("vdz", "/pools/slow/web1-seed.iso", more="<readonly/>")
DISKS = SYSTEM + DATA + SEED


def volume(name: str, image_format: str = "raw", backing: str = "") -> str:
    under = f"<backingStore><path>{backing}</path><format type='qcow2'/></backingStore>" if backing else ""
    return (
        f"<volume><name>{name}</name><capacity unit='MiB'>64</capacity><allocation unit='MiB'>4</allocation>"
        f"<target><format type='{image_format}'/></target>{under}</volume>"
    )


def pool(name: str, volumes: str, kind: str = "dir") -> str:
    return f"<pool type='{kind}'><name>{name}</name><target><path>/pools/{name}</path></target>{volumes}</pool>"


def write_node(folder: Path, *, disks: str = DISKS, metadata: str = "", in_slow: str = "", in_fast: str = "") -> str:
    """The file that libvirt's test driver reads; its URI."""
    slow = (
        volume("web1-system.qcow2", "qcow2", f"/pools/images/{IMAGE}")
        + volume("web1-data.raw")
        + volume("web1-seed.iso")
        + volume("cd.iso")
        + in_slow
    )
    pools = pool("slow", slow) + pool("fast", in_fast) + pool("images", volume(IMAGE, "qcow2"))
    pools += pool("vg", "", "logical")
    domain = (
        f"<domain type='test'><name>web1</name><uuid>{UUID}</uuid><metadata>{notes_to_xml(NOTES)}{metadata}</metadata>"
        f"<memory unit='KiB'>1024</memory><os><type>hvm</type></os><devices>{disks}</devices></domain>"
    )
    (folder / "images").mkdir(exist_ok=True)
    (folder / "images" / IMAGE).write_bytes(b"image")
    path = folder / "node.xml"
    path.write_text(f"<node>{domain}{pools}</node>".replace("/pools", str(folder)), encoding="utf-8")
    return f"test://{path}"


def disk_places(domain: t.Any, flags: int = 0) -> list[str]:
    """Pool and volume of each of a machine's disks."""
    text = domain.XMLDesc(flags)
    return ["/".join(part.split("'")[0].split("/")[-2:]) for part in text.split("<source file='")[1:]]
