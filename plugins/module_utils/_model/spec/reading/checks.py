# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks that no single option can make, because they are about several of a machine, or of several machines."""

from __future__ import annotations

import functools
import ipaddress
import typing as t
from collections.abc import Mapping, Sequence

from ...._base.errors import InputError
from ..disk import Disk
from ..fields.given import GivenOptions
from ..fields.table import Values, covers
from ..hardware.cpu import HOST_MODES, only_of_host_modes
from ..machine import Machine
from ..nic import Nic

_OF_SERIAL = "serial"
# What libvirt takes from the serial device for the console that is on it.
_SOURCE = ("type", "host", "port", "mode", "path", "tls", "protocol", "log", "target_port")
# What a serial device has of these without a word.
_PLAIN_SOURCE = {"tls": False, "protocol": "raw", "target_port": 0}


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


def _is_new(hardware: Mapping[str, t.Any], have: Mapping[str, t.Any], *keys: str) -> bool:
    """Whether a machine does not have all that is requested by these options yet."""
    return not all(covers(have.get(key), hardware.get(key, {})) for key in keys)


def check_hardware(hardware: Values, vcpus: int, options: GivenOptions, have: Mapping[str, t.Any]) -> None:
    """Options of the description that go together, and what one of them needs of another one is filled in.

    vcpus: the most that the machine can have. have: what it has already, which may be as it is; empty for a new one.
    Raises InputError.
    """

    new = functools.partial(_is_new, hardware, have)

    asked = hardware.get("cpu", {}).get("topology", {})
    topology = {**((have.get("cpu") or {}).get("topology") or {}), **asked}
    if topology and new("cpu", "vcpus"):
        _check_topology(topology, vcpus, f"{options.at('cpu')}.topology" if asked else options.at("vcpus"))
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


def _check_topology(topology: Mapping[str, t.Any], vcpus: int, where: str) -> None:
    count = 1
    for word in ("sockets", "dies", "cores", "threads"):
        count *= topology.get(word, 1)
    if count != vcpus:
        raise InputError(
            f"the topology makes {count} vCPUs, the machine has up to {vcpus}",
            where=where,
            hint="The product of sockets, dies, cores and threads of cpu.topology is the maximum of vcpus",
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
        # What a machine of others has already it may keep.
        if order in holders and known != orders:
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


def check_references(
    hardware: Mapping[str, t.Any], vcpus: int, disks: Sequence[Disk], options: GivenOptions, have: Mapping[str, t.Any]
) -> None:
    """Options that name what another option has: vCPUs, NUMA cells, I/O threads, a serial device, a mode of the CPU.

    Only what every libvirt from 8 on refuses for QEMU, or leaves out without a word. vcpus: the most that the machine
    can have. have: as in check_hardware. Raises InputError.
    """

    new = functools.partial(_is_new, hardware, have)

    if "consoles" in hardware and any(key in hardware and new(key) for key in ("consoles", "serials")):
        _check_first_console(hardware, options, have)
        _check_other_consoles(hardware["consoles"], options)
    cpu, known = hardware.get("cpu", {}), have.get("cpu") or {}
    if new("cpu"):
        _check_mode(cpu, known, options)
    if new("cpu", "vcpus") and vcpus:
        # XML of the user's may put something else there.
        _check_vcpus(cpu, known if options.values.get("xml") is None else {}, vcpus, options)
    if options.values.get("xml") is not None:
        # It may bring cells and threads.
        return
    _check_vcpu_placement(hardware, options, have)
    if new("memory", "numatune"):
        _check_cell_references(hardware, cpu.get("numa") or known.get("numa", ()), options)
    if not known.get("iothreads"):
        # Threads that a machine has already may have other numbers than the first ones.
        _check_threads(cpu, disks, options, have)


def _check_first_console(hardware: Mapping[str, t.Any], options: GivenOptions, have: Mapping[str, t.Any]) -> None:
    """libvirt puts the first serial device in place of the first console, unless that is on another device."""
    serials = hardware.get("serials", have.get("serials", ({"type": "pty"},)))
    first: Values = dict(next(iter(hardware["consoles"]), {}))
    if first.get("target_type", _OF_SERIAL) != _OF_SERIAL:
        return
    if first and hardware.get("serials") == ():
        raise InputError(
            "the first console is the first serial device, and there is to be none",
            where=f"{options.at('consoles')}[0]",
            hint="Leave out serials: [], or give it target_type: virtio",
        )
    if serials and not covers({**_PLAIN_SOURCE, **serials[0]}, {key: first[key] for key in _SOURCE if key in first}):
        raise InputError(
            f"the first console is the first serial device, and that is another one, of type {serials[0].get('type')}",
            where=f"{options.at('consoles')}[0]",
            hint="Write it in serials instead, or give it target_type: virtio",
        )


def _check_other_consoles(consoles: Sequence[Values], options: GivenOptions) -> None:
    """libvirt refuses another one on a serial device, or makes one on virtio of it."""
    for index, console in enumerate(consoles[1:], 1):
        if console.get("target_type", _OF_SERIAL) == _OF_SERIAL:
            raise InputError(
                "only the first console is on a serial device",
                where=f"{options.at('consoles')}[{index}]",
                hint="Give it target_type: virtio",
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


def _check_vcpus(cpu: Mapping[str, t.Any], known: Mapping[str, t.Any], vcpus: int, options: GivenOptions) -> None:
    # What stays of a machine with fewer vCPUs than before, too.
    cells = cpu.get("numa", known.get("numa", ()))
    rows = [(f"numa[{index}].cpus", cell.get("cpus")) for index, cell in enumerate(cells)]
    tuning = {**(known.get("tuning") or {}), "vcpupin": {}, **cpu.get("tuning", {})}
    # A vCPU that is pinned and is not there libvirt leaves out, and each run would pin it again.
    rows += [(f"tuning.vcpupin.{number}", number) for number in tuning["vcpupin"]]
    rows += [("tuning.vcpusched", row["vcpus"]) for row in tuning.get("vcpusched", ())]
    for place, numbers in rows:
        last = int(str(numbers).rpartition(",")[2].rpartition("-")[2]) if numbers else 0
        if last >= vcpus:
            raise InputError(
                f"there is no vCPU {last}",
                where=f"{options.at('cpu')}.{place}",
                hint=f"The machine has up to {vcpus}, counted from 0",
            )


def _check_vcpu_placement(hardware: Mapping[str, t.Any], options: GivenOptions, have: Mapping[str, t.Any]) -> None:
    """libvirt has vCPUs that nothing pins placed where numad puts the memory, and says so in each definition."""
    asked, there = options.values.get("vcpus"), have.get("vcpus") or {}
    if not isinstance(asked, Mapping) or asked.get("placement") != "static" or {**there, **asked}.get("cpuset"):
        return
    tuning = {**((have.get("cpu") or {}).get("tuning") or {}), **hardware.get("cpu", {}).get("tuning", {})}
    pinned = any(tuning.get(word) for word in ("vcpupin", "emulatorpin", "iothreadpin"))
    if hardware.get("numatune", {}).get("memory", {}).get("placement") == "auto" and not pinned:
        raise InputError(
            "vCPUs without a cpuset are placed where numatune places the memory",
            where=f"{options.at('vcpus')}.placement",
            hint="Give them a cpuset, or leave placement out",
        )


def _check_cell_references(hardware: Mapping[str, t.Any], cells: Sequence[t.Any], options: GivenOptions) -> None:
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


def _check_threads(
    cpu: Mapping[str, t.Any], disks: Sequence[Disk], options: GivenOptions, have: Mapping[str, t.Any]
) -> None:
    count, there = cpu.get("iothreads", 0), have.get("disks", {})
    asked = [
        (disk.options.get("iothread"), disk.given.at("iothread"))
        for disk in disks
        if disk.present and disk.options.get("iothread") != there.get(disk.name, {}).get("iothread")
    ]
    place = f"{options.at('cpu')}.tuning.iothreadpin"
    pinned = {str(number) for number in (have.get("cpu") or {}).get("tuning", {}).get("iothreadpin", {})}
    pins = cpu.get("tuning", {}).get("iothreadpin", {})
    asked += [(number, f"{place}.{number}") for number in pins if str(number) not in pinned]
    for number, where in asked:
        if number is not None and not 1 <= number <= count:
            raise InputError(
                f"there is no I/O thread {number}",
                where=where,
                hint=f"cpu.iothreads makes {count}, counted from 1",
            )


class AddressesOfList:
    """Which machine has which address.

    Each hypervisor knows what its own machines have; this is about machines that may be on two.
    """

    def __init__(self) -> None:
        self._owners: dict[t.Hashable, tuple[str, bool]] = {}

    def take(self, machine: Machine, *, there: bool) -> None:
        """Note what a machine has. there: whether it exists; two that exist may go on as they are.

        Raises InputError for what another machine has.
        """
        if machine.absent:
            return
        for nic in machine.nics:
            if not nic.present:
                continue
            owner = self._taken(nic.mac, machine.name, there)
            if owner:
                raise InputError(
                    f"the MAC address {nic.mac} belongs to machine {owner}",
                    where=nic.given.at("mac"),
                    hint="Give another one with mac",
                )
            for address in _addresses(nic):
                # libvirt's own networks are others on each hypervisor; bridges of one name are mostly one network.
                owner = self._taken((nic.source, str(nic.options.get("vlan")), address), machine.name, there)
                if owner:
                    raise InputError(
                        f"the address {address} belongs to machine {owner} on bridge {nic.source} too",
                        where=nic.given.at("addresses"),
                        hint="Give another one",
                    )

    def _taken(self, address: t.Hashable, name: str, there: bool) -> str:
        """The name of another machine that has an address; empty where there is none, or both exist."""
        owner, owner_there = self._owners.setdefault(address, (name, there))
        return owner if owner != name and not (there and owner_there) else ""


def _addresses(nic: Nic) -> list[str]:
    return [str(ipaddress.ip_interface(address).ip) for address in nic.addresses] if nic.type == "bridge" else []
