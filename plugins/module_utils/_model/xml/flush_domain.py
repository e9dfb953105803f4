# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The domain that has files written to a disk: no machine of anybody, and it never runs.

libvirt has no call for that. But QEMU has, as it writes a file to the disk when it has changed it, with all that other
programs have written to that file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree

_NAME = re.compile(r"^brine-virt-sync-[0-9a-f]{32}\Z")
# Enough for a QEMU that runs nothing; libvirt rounds up where an architecture wants more.
_MEMORY_MIB = 16


def flush_name(token: str) -> str:
    """What such a domain is called; token: 32 hexadecimal digits."""
    return f"brine-virt-sync-{token}"


def is_flush_name(name: str) -> bool:
    """Whether a domain is one of these, or a volume the one that its QEMU ends with."""
    return _NAME.match(name) is not None


def flush_target(index: int) -> str:
    """The device name of a file, by its place in the list."""
    return f"vd{chr(ord('a') + index)}"


def flush_domain_xml(name: str, domain_type: str, paths: Sequence[str]) -> str:
    """The domain with these files, at most 26; raw, whatever they are: nothing that a guest wrote is read."""
    root = etree.Element("domain", type=domain_type)
    etree.SubElement(root, "name").text = name
    etree.SubElement(
        root, "title"
    ).text = "brine.virt has the files of a move written to the disk; it is gone in a moment"
    etree.SubElement(root, "memory", unit="MiB").text = str(_MEMORY_MIB)
    etree.SubElement(root, "vcpu").text = "1"
    etree.SubElement(etree.SubElement(root, "os"), "type").text = "hvm"
    devices = etree.SubElement(root, "devices")
    for index, path in enumerate(paths):
        disk = etree.SubElement(devices, "disk", type="file", device="disk")
        etree.SubElement(disk, "driver", name="qemu", type="raw", cache="writeback")
        etree.SubElement(disk, "source", file=path)
        etree.SubElement(disk, "target", dev=flush_target(index), bus="virtio")
    etree.SubElement(devices, "controller", type="usb", model="none")
    etree.SubElement(devices, "memballoon", model="none")
    return etree.tostring(root, encoding="unicode")
