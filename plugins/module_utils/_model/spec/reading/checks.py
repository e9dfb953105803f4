# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of a machine that no single option can make, because they are about several of them."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ...._base.errors import InputError
from ..disk import Disk
from ..fields.given import GivenOptions
from ..fields.table import Values, covers
from ..nic import Nic


def check_firmware(given: dict[str, t.Any], options: GivenOptions) -> None:
    """Secure boot is a thing of UEFI."""
    if given.get("secure_boot"):
        if given.get("firmware") == "bios":
            raise InputError(
                "there is no secure boot with firmware bios",
                where=options.at("secure_boot"),
                hint="Set firmware: efi",
            )
        given["firmware"] = "efi"


def check_hardware(hardware: Values, vcpus: int, options: GivenOptions, have: Mapping[str, t.Any]) -> None:
    """Options of the description that go together, and what one of them needs of another one is filled in.

    vcpus: the most that the machine can have. have: what it has already, which may be as it is; empty for a new one.
    Raises InputError.
    """

    def new(*keys: str) -> bool:
        return not all(covers(have.get(key), hardware.get(key, {})) for key in keys)

    topology = hardware.get("cpu", {}).get("topology")
    if topology and new("cpu", "vcpus"):
        _check_topology(topology, vcpus, options)
    if new("memory", "cpu"):
        _check_cells(hardware, options, have)
    boot = hardware.get("boot", {})
    for key in ("initrd", "cmdline"):
        if key in boot and "kernel" not in boot and new("boot"):
            raise InputError(f"{key} needs kernel", where=f"{options.at('boot')}.{key}")
    pages = hardware.get("memory", {}).get("hugepages")
    cells = hardware.get("cpu", {}).get("numa") or (have.get("cpu") or {}).get("numa")
    if isinstance(pages, tuple) and not cells and options.values.get("xml") is None:
        # All there is without cells is cell 0, and libvirt leaves it out.
        rows = tuple({k: v for k, v in row.items() if (k, v) != ("nodeset", "0")} for row in pages)
        hardware["memory"] = {**hardware["memory"], "hugepages": rows}
    if hardware.get("shared_folders") and new("shared_folders"):
        memory = hardware["memory"] = {"source": "memfd", "access": "shared", **hardware.get("memory", {})}
        if memory["access"] != "shared":
            raise InputError(
                "shared folders need shared memory", where=f"{options.at('memory')}.access", hint="Set shared"
            )


def _check_topology(topology: Mapping[str, t.Any], vcpus: int, options: GivenOptions) -> None:
    count = 1
    for word in ("sockets", "dies", "cores", "threads"):
        count *= topology.get(word, 1)
    if count != vcpus:
        raise InputError(
            f"the topology makes {count} vCPUs, the machine has up to {vcpus}",
            where=f"{options.at('cpu')}.topology",
            hint="The product of sockets, dies, cores and threads is the maximum of vcpus",
        )


def _check_cells(hardware: Values, options: GivenOptions, have: Mapping[str, t.Any]) -> None:
    """libvirt gives a machine the memory of its NUMA cells, and that of its DIMMs, whatever else it is told
    (virDomainDefPostParseMemory in src/conf/domain_postparse.c)."""
    before = (have.get("cpu") or {}).get("numa", ())
    cells = hardware.get("cpu", {}).get("numa") or before
    maximum = hardware.get("memory", {}).get("maximum")
    if not cells or maximum is None:
        return
    total = sum(cell["memory"] for cell in cells)
    if before:
        total += max(0, have["memory"]["maximum"] - sum(cell["memory"] for cell in before))
    if total != maximum:
        raise InputError(
            f"{maximum} MiB is not what the NUMA cells have together, {total} MiB, which is what the machine would get",
            where=options.at("memory"),
            hint="Change one of the two: memory, or the memory of the cells in cpu.numa",
        )


def check_devices(
    hardware: Mapping[str, t.Any],
    disks: Sequence[Disk],
    nics: Sequence[Nic],
    options: GivenOptions,
    have: Mapping[str, t.Any],
) -> None:
    """Devices that are in each other's way. have: as in check_hardware. Raises InputError."""
    at, boot = options.at, hardware.get("boot", {})
    devices: list[tuple[str, Disk | Nic]] = [*(("disks", disk) for disk in disks), *(("nics", nic) for nic in nics)]
    orders = {(kind, device.name): device.options.get("boot_order") for kind, device in devices}
    known = {(kind, name): have.get(kind, {}).get(name, {}).get("boot_order") for kind, name in orders}
    ordered = next((name for (_kind, name), order in orders.items() if order is not None), None)
    if boot.get("devices") and ordered and not (covers(have.get("boot"), boot) and known == orders):
        raise InputError(
            f"device {ordered!r} has a boot_order as well",
            where=f"{at('boot')}.devices" if at("boot").endswith("boot") else at("boot"),
            hint="Order kinds of devices or single devices, not both",
        )
    holders: dict[int, str] = {}
    for _kind, device in devices:
        order = device.options.get("boot_order") if device.present else None
        if order in holders:
            raise InputError(
                f"devices {holders[order]!r} and {device.name!r} have the same boot_order {order}",
                where=device.given.at("boot_order"),
                hint="Give each device a number of its own",
            )
        if order is not None:
            holders[order] = device.name
    macs: dict[str, str] = {}
    for nic in nics:
        if nic.mac in macs:
            # Of an existing machine too: its nics are known by these addresses.
            raise InputError(
                f"nics {macs[nic.mac]!r} and {nic.name!r} have the same MAC address {nic.mac}",
                where=nic.given.at("mac"),
            )
        macs[nic.mac] = nic.name
