# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What leads to a LUN (logical unit) on each host: the names of its device differ, and its serial number does not."""

from __future__ import annotations

import glob
import posixpath
import re

_BY_ID = "/dev/disk/by-id"
_RBD = "/dev/rbd"
# Where udev names a device by what it is, or by the target and the number that it has there: the rules.d of systemd,
# 60-persistent-storage.rules.
_BY_PATH = "/dev/disk/by-path/"
_SAME_EVERYWHERE = (f"{_BY_ID}/", f"{_BY_PATH}ip-")
_ISCSI = re.compile(r"/dev/disk/by-path/ip-.+?-iscsi-(?P<target>.+)-lun-(?P<unit>\d+)(?:-part\d+)?")
# NAA in SPC (SCSI Primary Commands), as udev writes it, with the number of its maker. Without one, as of the Linux
# target tgt, it is a number that may be given twice, and may be another one when the target is started again.
_REGISTERED = re.compile(r"3(?:[25][0-9a-f]{15}|6(?!000000)[0-9a-f]{31})")


def differ(one: str | None, other: str | None) -> bool:
    """Whether two serial numbers say that they are those of two LUNs. Equal ones, and others than those that are unique
    in the world, do not say it."""
    if one is None or other is None or len(one) != len(other) or one == other:
        return False
    return all(_REGISTERED.fullmatch(serial) for serial in (one, other))


def rbd_paths(place: str) -> list[str]:
    """Where the kernel shows a volume of a Ceph cluster on this host while it is mapped, and its partitions. place: as
    of DiskSource. https://docs.ceph.com/en/latest/man/8/rbd/"""
    path = posixpath.join(_RBD, place[len("rbd:") :])
    return [path, *sorted(glob.glob(f"{glob.escape(path)}-part*"))]


def unit_paths(serial: str) -> list[str]:
    """What leads to a LUN on this host, and to its partitions: the device itself, and the one of multipath."""
    name = glob.escape(serial)
    return sorted(path for ending in ("", "-part*") for path in glob.glob(f"{_BY_ID}/*-{name}{ending}"))


def portal_paths(place: str) -> list[str]:
    """What leads on this host to an iSCSI LUN, by whichever portal of its target. place: as of iscsi_place."""
    found = re.fullmatch(r"iscsi:(?P<target>.+)/(?P<unit>\d+)", place)
    if found is None:
        return []
    name = f"{_BY_PATH}ip-*-iscsi-{glob.escape(found['target'])}-lun-{found['unit']}"
    return sorted(path for ending in ("", "-part*") for path in glob.glob(f"{name}{ending}"))


def iscsi_place(place: str) -> str:
    """The place of a LUN as QEMU has it that reaches it by itself (DiskSource.place), where the path of its device
    tells that; otherwise the path. A target has one name on all its portals."""
    found = _ISCSI.fullmatch(place)
    return f"iscsi:{found['target']}/{found['unit']}" if found else place


def is_same_everywhere(path: str) -> bool:
    """Whether the path of a LUN is that of the same one on each host that has it."""
    return path.startswith(_SAME_EVERYWHERE)
