# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a device of this host is another LUN than it seems; and whether the host itself uses it, which others do not
see."""

from __future__ import annotations

import glob
import os
import posixpath
import re

from ..._base.files import read_text
from ..._host.storage.volume_facts import device_names, is_busy
from .units import differ

_SYSFS = "/sys/class/block"
_MAP = re.compile(r"(?:part\d+-)?mpath-(.+)")


def is_other_unit(path: str, serial: str | None) -> bool:
    """Whether the device at a path on this host is another LUN than the one of this serial number."""
    known = {name.partition("-")[2] for name in device_names(path)}
    known.update(match.group(1) for match in map(_MAP.fullmatch, _maps(path).values()) if match)
    return serial not in known and any(differ(serial, one) for one in known)


def is_used_by_host(path: str) -> bool:
    """Whether this host itself has a device in use, as is_busy says.

    A map of multipath keeps the devices busy that it is made of, and their partitions, and only leads to what they lead
    to: so does one of its partitions. What counts is whether that is in use.
    """
    maps = _maps(path)
    if not maps:
        return is_busy(path)
    return set(_holders(path)) != set(maps) or any(is_used_by_host(f"/dev/{name}") for name in maps)


def _holders(path: str) -> list[str]:
    """The devices that the kernel has made of a device: device-mapper, RAID and such; of a partition, also those that
    it has made of the whole device.

    Whoever has that keeps its partitions busy: bd_may_claim in block/bdev.c of Linux. sysfs has a partition's folder in
    that of its device; elsewhere nothing above a device has holders.
    """
    name = glob.escape(posixpath.basename(os.path.realpath(path)))
    found = [f"{_SYSFS}/{name}/{place}/*" for place in ("holders", "../holders")]
    return [posixpath.basename(holder) for pattern in found for holder in glob.glob(pattern)]


def _maps(path: str) -> dict[str, str]:
    """Those of them that are maps of multipath or partitions of one, with what the device mapper calls them."""
    names = {holder: (read_text(f"{_SYSFS}/{holder}/dm/uuid") or "").strip() for holder in _holders(path)}
    return {holder: name for holder, name in names.items() if _MAP.fullmatch(name)}
