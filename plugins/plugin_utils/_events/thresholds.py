# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How full a disk may become before libvirt tells of it."""

from __future__ import annotations

import contextlib

from ...module_utils._base.errors import VirtError
from ...module_utils._base.xml import attribute, read_description
from ...module_utils._host.connection import VirConnect, libvirt


def set_thresholds(conn: VirConnect, uuid: str, percent: int) -> bool:
    """Set the limit of each disk of a machine at this part of its size. False: the machine is busy, try it again.

    The limit is in the disk's file: where a qcow2 image has been written up to. A machine that has gone meanwhile, and
    a disk that cannot have a limit, are passed over.
    https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainSetBlockThreshold
    """
    with contextlib.suppress(libvirt.libvirtError, VirtError):
        domain = conn.lookupByUUIDString(uuid)
        for disk in read_description("the machine", domain.XMLDesc()).iterfind("devices/disk"):
            device = attribute(disk, "target", "dev")
            if device and disk.get("device", "disk") == "disk" and disk.find("readonly") is None:
                try:
                    size_bytes = domain.blockInfo(device)[0]
                    domain.setBlockThreshold(device, size_bytes * percent // 100)
                except libvirt.libvirtError as exc:
                    # Another job has the machine for longer than libvirt waits: 30 s, as a move that brings it.
                    if exc.get_error_code() == libvirt.VIR_ERR_OPERATION_TIMEOUT:
                        return False
    return True
