# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits on the growth of a running machine's disks, which libvirt tells of when a write goes beyond them, once."""

from __future__ import annotations

import contextlib

from ...module_utils._base.errors import VirtError
from ...module_utils._base.xml import attribute, read_description
from ...module_utils._host.connection import VirConnect, libvirt


def set_thresholds(conn: VirConnect, uuid: str, percent: int) -> None:
    """Set the limit of each disk of a machine at this part of its size.

    The limit is in the disk's file: where a qcow2 image has been written up to. A machine that has gone meanwhile, and
    a disk that cannot have a limit, are passed over.
    https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainSetBlockThreshold
    """
    with contextlib.suppress(libvirt.libvirtError, VirtError):
        domain = conn.lookupByUUIDString(uuid)
        for disk in read_description("the machine", domain.XMLDesc()).iterfind("devices/disk"):
            device = attribute(disk, "target", "dev")
            if device and disk.get("device", "disk") == "disk" and disk.find("readonly") is None:
                with contextlib.suppress(libvirt.libvirtError):
                    size_bytes = domain.blockInfo(device)[0]
                    domain.setBlockThreshold(device, size_bytes * percent // 100)
