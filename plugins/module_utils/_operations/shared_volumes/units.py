# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What leads to a LUN (logical unit) on each host: the names of its device differ, and its serial number does not."""

from __future__ import annotations

import glob
import re

_BY_ID = "/dev/disk/by-id"
# Where udev names a device by what it is, or by the target and the number that it has there: the rules.d of systemd,
# 60-persistent-storage.rules.
_BY_PATH = "/dev/disk/by-path/"
_SAME_EVERYWHERE = (f"{_BY_ID}/", f"{_BY_PATH}ip-")
_ISCSI = re.compile(r"/dev/disk/by-path/ip-.+?-iscsi-(?P<target>.+)-lun-(?P<unit>\d+)(?:-part\d+)?")


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
