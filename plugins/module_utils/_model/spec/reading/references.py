# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that name what another option has: vCPUs, NUMA cells, I/O threads, a serial device, a mode of the CPU.

Only what every libvirt from 8 on refuses for QEMU, or leaves out without a word.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ...._base.errors import InputError
from ..disk import Disk
from ..fields.given import GivenOptions
from ..fields.table import Values, covers
from ..hardware.cpu import HOST_MODES, only_of_host_modes

_OF_SERIAL = "serial"
# What libvirt takes from the serial device for the console that is on it.
_SOURCE = ("type", "host", "port", "mode", "path")


def check_references(
    hardware: Mapping[str, t.Any], vcpus: int, disks: Sequence[Disk], options: GivenOptions, have: Mapping[str, t.Any]
) -> None:
    """Raises InputError. vcpus: the most that the machine can have; have: what it has, empty for a new one."""

    def new(*keys: str) -> bool:
        return not all(covers(have.get(key), hardware.get(key, {})) for key in keys)

    if "consoles" in hardware and new("consoles"):
        _check_first_console(hardware, options, have)
    cpu, known = hardware.get("cpu", {}), have.get("cpu") or {}
    if new("cpu"):
        _check_mode(cpu, known, options)
    if new("cpu", "vcpus") and vcpus:
        _check_vcpus(cpu, vcpus, options)
    if options.values.get("xml") is not None:
        # It may bring cells and threads.
        return
    if new("memory", "numatune"):
        _check_cells(hardware, cpu.get("numa") or known.get("numa", ()), options)
    if not known.get("iothreads"):
        # Threads that a machine has already may have other numbers than the first ones.
        _check_threads(cpu, disks, options)


def _check_first_console(hardware: Mapping[str, t.Any], options: GivenOptions, have: Mapping[str, t.Any]) -> None:
    """libvirt puts the first serial device in place of the first console, unless that is on another device."""
    serials = hardware.get("serials", have.get("serials", ({"type": "pty"},)))
    first: Values = dict(next(iter(hardware["consoles"]), {}))
    if not serials or first.get("target_type", _OF_SERIAL) != _OF_SERIAL:
        return
    if not covers(serials[0], {key: first[key] for key in _SOURCE if key in first}):
        raise InputError(
            f"the first console is the first serial device, and that is another one, of type {serials[0].get('type')}",
            where=f"{options.at('consoles')}[0]",
            hint="Write it in serials instead, or give it target_type: virtio",
        )


def _check_mode(cpu: Mapping[str, t.Any], known: Mapping[str, t.Any], options: GivenOptions) -> None:
    """What only a CPU like the host's has. A new machine whose mode is not named has that of its hypervisor."""
    mode = cpu.get("mode", known.get("mode"))
    if mode is None or mode in HOST_MODES:
        return
    key = only_of_host_modes(cpu)
    if key is not None:
        raise InputError(
            f"a CPU of mode {mode} cannot have this",
            where=f"{options.at('cpu')}.{key}",
            hint=f"Leave it out, or set mode: {HOST_MODES[0]}",
        )


def _check_vcpus(cpu: Mapping[str, t.Any], vcpus: int, options: GivenOptions) -> None:
    rows = [(f"numa[{index}].cpus", cell.get("cpus")) for index, cell in enumerate(cpu.get("numa", ()))]
    schedulers = cpu.get("tuning", {}).get("vcpusched", ())
    rows += [(f"tuning.vcpusched[{index}].vcpus", row.get("vcpus")) for index, row in enumerate(schedulers)]
    for place, numbers in rows:
        last = int(str(numbers).rpartition(",")[2].rpartition("-")[2]) if numbers else 0
        if last >= vcpus:
            raise InputError(
                f"there is no vCPU {last}",
                where=f"{options.at('cpu')}.{place}",
                hint=f"The machine has up to {vcpus}, counted from 0",
            )


def _check_cells(hardware: Mapping[str, t.Any], cells: Sequence[t.Any], options: GivenOptions) -> None:
    if "max" in hardware.get("memory", {}) and not cells:
        raise InputError(
            "memory can only be plugged into a machine with NUMA cells",
            where=f"{options.at('memory')}.max",
            hint="Give it one in cpu.numa, or leave max out",
        )
    for number in hardware.get("numatune", {}).get("memnodes", {}):
        if number >= len(cells):
            raise InputError(
                f"there is no NUMA cell {number}",
                where=f"{options.at('numatune')}.memnodes.{number}",
                hint=f"cpu.numa has {len(cells)}, counted from 0",
            )


def _check_threads(cpu: Mapping[str, t.Any], disks: Sequence[Disk], options: GivenOptions) -> None:
    count = cpu.get("iothreads", 0)
    asked = [(disk.options.get("iothread"), disk.given.at("iothread")) for disk in disks if disk.present]
    place = f"{options.at('cpu')}.tuning.iothreadpin"
    asked += [(number, f"{place}.{number}") for number in cpu.get("tuning", {}).get("iothreadpin", {})]
    for number, where in asked:
        if number is not None and not 1 <= number <= count:
            raise InputError(
                f"there is no I/O thread {number}",
                where=where,
                hint=f"cpu.iothreads makes {count}, counted from 1",
            )
