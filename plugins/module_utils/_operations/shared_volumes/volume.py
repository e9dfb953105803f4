# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of pools that several hypervisors share, as one asks the others about them."""

from __future__ import annotations

import contextlib
import os
import stat
import typing as t
from dataclasses import dataclass

from ..._base.errors import InputError
from ..._host.storage.pools import Pool
from ..._host.storage.shared_pools import shared_because
from ..._host.storage.volume_facts import device_serial, volume_serial
from ..._model.spec.fields import validators
from ..._model.xml.disk_source import FILE

_INODE = validators.whole_number(0, 2**64)


@dataclass(frozen=True)
class SharedVolume:
    """A volume that other hypervisors may use.

    place: DiskSource.place, on the hypervisor that asks. inode: of a file; None for what is none, or cannot be read.
    serial: of a LUN or another device; None for what is none, and for one that does not tell it.
    """

    pool: str
    volume: str
    place: str
    inode: int | None = None
    serial: str | None = None

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the modules' options and results."""
        return {
            "pool": self.pool,
            "volume": self.volume,
            "place": self.place,
            "inode": self.inode,
            "serial": self.serial,
        }


@dataclass(frozen=True)
class WantedVolume:
    """What a disk of a task is to do with a volume that other hypervisors may use. how: as in task_volumes; where: the
    place of the disk in the input."""

    volume: SharedVolume
    how: str
    machine: str
    where: str

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the result of virt_init."""
        return {**self.volume.as_result(), "use": self.how, "machine": self.machine, "where": self.where}


def shared_volume(pool: Pool, volume: str) -> SharedVolume | None:
    """A volume that is there, as others are asked about it; None in a pool of this hypervisor alone."""
    if shared_because(pool) is None:
        return None
    place, inode, serial = pool.source_of(volume).place, None, volume_serial(pool, volume)
    if pool.source_type == FILE and pool.local:
        with contextlib.suppress(OSError):
            found = os.stat(place)
            if stat.S_ISREG(found.st_mode):
                inode = found.st_ino
            elif stat.S_ISBLK(found.st_mode):
                # A folder may hold device nodes, or links to them. The inode number of one is this host's alone.
                serial = device_serial(place)
                place = place if place.startswith("/dev/") else os.path.realpath(place)
    return SharedVolume(pool.name, volume, place, inode, serial)


def read_shared_volumes(value: t.Any, where: str) -> list[SharedVolume]:
    """What is asked about, as virt_purge returned it. Raises InputError with the place."""
    rules: dict[str, validators.Rule] = {
        "pool": validators.text,
        "volume": validators.text,
        "place": validators.text,
        "inode": _INODE,
        "serial": validators.text,
    }
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{value!r} is not a list of volumes", where=where)
    return [
        SharedVolume(**validators.read_mapping(item, f"{where}[{index}]", rules, ("pool", "volume", "place")))
        for index, item in enumerate(value)
    ]
