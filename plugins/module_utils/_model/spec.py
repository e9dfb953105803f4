# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wish: what a machine is to be, as checked values."""

from __future__ import annotations

import hashlib
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.brine.virt.plugins.module_utils._errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model import rules
from ansible_collections.brine.virt.plugins.module_utils._model.profiles import resolve_devices
from ansible_collections.brine.virt.plugins.module_utils._model.spec_network import NETWORK_RULES, check_network
from ansible_collections.brine.virt.plugins.module_utils._model.spec_seed import (
    DEFAULT_POOL,
    Seed,
    make_seed,
    read_seed,
)

DISK_MODELS = ("virtio", "scsi", "sata", "usb")
NIC_MODELS = ("virtio", "e1000e", "e1000", "rtl8139")


@dataclass(frozen=True)
class Disk:
    """One disk. size_mib None: as large as its image."""

    name: str
    size_mib: int | None = None
    format: str = "qcow2"
    model: str = "virtio"
    pool: str = DEFAULT_POOL
    image: str | None = None
    clone: str = "overlay"


@dataclass(frozen=True)
class Nic:
    """One network interface on a bridge or on a libvirt network.

    gateway: at most one of each family. dhcp4 None: the guest asks DHCP exactly when it has no addresses.
    """

    name: str
    type: str = "bridge"
    source: str = "br0"
    model: str = "virtio"
    mac: str = ""
    addresses: tuple[str, ...] = ()
    gateway: tuple[str, ...] = ()
    nameservers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    routes: tuple[dict[str, t.Any], ...] = ()
    dhcp4: bool | None = None
    dhcp6: bool | None = None
    accept_ra: bool | None = None
    mtu: int | None = None


@dataclass(frozen=True)
class Graphics:
    """A console with a picture; ``none`` is no console at all."""

    type: str = "none"
    listen: str = "127.0.0.1"


@dataclass(frozen=True)
class Machine:
    """One machine. Fields that are None were not named:
    a new machine gets the default, a living one keeps what it has."""

    name: str
    vcpus: int
    memory_mib: int
    image: str | None
    disks: tuple[Disk, ...]
    nics: tuple[Nic, ...]
    seed: Seed
    graphics: Graphics | None = None
    hypervisor: str | None = None
    start: bool = True
    autostart: bool | None = None
    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    variables: dict[str, t.Any] | None = field(default=None)
    machine_type: str | None = None
    cpu_mode: str | None = None
    firmware: str = "bios"


_DISK_RULES: dict[str, rules.Rule] = {
    "name": rules.name,
    "size": rules.size,
    "format": rules.choice("qcow2", "raw"),
    "model": rules.choice(*DISK_MODELS),
    "pool": rules.name,
    "image": rules.text,
    "clone": rules.choice("overlay", "copy"),
}
_NIC_RULES: dict[str, rules.Rule] = {
    "name": rules.name,
    "bridge": rules.name,
    "network": rules.name,
    "type": rules.choice("bridge", "network"),
    "source": rules.name,
    "model": rules.choice(*NIC_MODELS),
    "mac": rules.mac,
    **NETWORK_RULES,
}
_GRAPHICS_RULES: dict[str, rules.Rule] = {
    "type": rules.choice("none", "vnc", "spice"),
    "listen": rules.address,
}


def _graphics(value: t.Any, where: str) -> Graphics:
    if isinstance(value, str):
        value = {"type": value}
    return Graphics(**rules.read_mapping(value, where, _GRAPHICS_RULES))


MACHINE_RULES: dict[str, rules.Rule] = {
    "name": rules.name,
    "vcpus": rules.whole_number(1, 4096),
    "memory": rules.size,
    "image": rules.text,
    "disk_profile": rules.name,
    "nic_profile": rules.name,
    "disks": lambda value, where: value,
    "nics": lambda value, where: value,
    "seed": lambda value, where: read_seed(value, where),
    "graphics": _graphics,
    "hypervisor": rules.text,
    "start": rules.yes_or_no,
    "autostart": rules.yes_or_no,
    "title": rules.text,
    "description": rules.text,
    "tags": rules.list_of(rules.name),
    "variables": rules.any_mapping,
    "machine_type": rules.name,
    "cpu_mode": rules.choice("host-model", "host-passthrough", "maximum"),
    "firmware": rules.choice("bios", "efi"),
}


def read_machines(
    wishes: t.Any,
    *,
    disk_profiles: t.Any = None,
    nic_profiles: t.Any = None,
    seed_defaults: Mapping[str, t.Any] | None = None,
    where: str = "machines",
) -> list[Machine]:
    """A list of wishes as the user wrote them, checked and with their profiles resolved.

    where is the list's own name in the user's input (``virt_vms``). Raises InputError at the first thing that is wrong.
    """
    if not isinstance(wishes, (list, tuple)):
        raise InputError(f"{wishes!r} is not a list of machines", where=where)
    machines = [
        read_machine(
            wish,
            disk_profiles=disk_profiles,
            nic_profiles=nic_profiles,
            seed_defaults=seed_defaults,
            where=f"{where}[{index}]",
        )
        for index, wish in enumerate(wishes)
    ]
    first: dict[str, int] = {}
    for index, machine in enumerate(machines):
        if machine.name in first:
            raise InputError(
                f"the name {machine.name!r} is taken by {where}[{first[machine.name]}] already",
                where=f"{where}[{index}].name",
            )
        first[machine.name] = index
    return machines


def read_machine(
    wish: t.Any,
    *,
    disk_profiles: t.Any = None,
    nic_profiles: t.Any = None,
    seed_defaults: Mapping[str, t.Any] | None = None,
    where: str = "",
) -> Machine:
    """One wish, checked and with its profiles resolved; where is empty for a module's own options."""
    given = rules.read_mapping(wish, where, MACHINE_RULES)
    for key in ("name", "vcpus", "memory"):
        if key not in given:
            raise InputError(f"{key} is missing", where=where or None, hint="A machine needs name, vcpus and memory")
    disks = resolve_devices(
        "disk",
        disk_profiles,
        given.pop("disk_profile", None),
        given.pop("disks", None),
        where=where,
        profiles_where="disk_profiles",
    )
    nics = resolve_devices(
        "nic",
        nic_profiles,
        given.pop("nic_profile", None),
        given.pop("nics", None),
        where=where,
        profiles_where="nic_profiles",
    )
    name, image = given["name"], given.pop("image", None)
    seed_place, defaults = rules.inside(where, "seed"), read_seed(seed_defaults or {}, "seed")
    return Machine(
        memory_mib=given.pop("memory"),
        image=image,
        disks=tuple(_disk(device, place, image if index == 0 else None) for index, (device, place) in enumerate(disks)),
        nics=tuple(_nic(device, place, name) for device, place in nics),
        seed=make_seed(name, given.pop("seed", {}), seed_place, defaults=defaults),
        **given,
    )


def _disk(device: Mapping[str, t.Any], where: str, machine_image: str | None) -> Disk:
    """A disk; the machine's own image is for the first one, unless that names another."""
    given = rules.read_mapping(device, where, _DISK_RULES)
    given["size_mib"] = given.pop("size", None)
    given.setdefault("image", machine_image)
    if given["size_mib"] is None and given["image"] is None:
        raise InputError(
            f"disk {given['name']!r} has neither a size nor an image", where=where, hint="Say size: 8GiB, for example"
        )
    if given["image"] is not None and given.get("clone", "overlay") == "overlay" and given.get("format") == "raw":
        raise InputError(
            "a raw disk cannot be an overlay on an image",
            where=rules.inside(where, "format"),
            hint="Say clone: copy, or format: qcow2",
        )
    return Disk(**given)


def _nic(device: Mapping[str, t.Any], where: str, machine_name: str) -> Nic:
    """A nic; ``bridge`` and ``network`` are the short words for type and source."""
    given = rules.read_mapping(device, where, _NIC_RULES)
    check_network(given, where)
    short = [word for word in ("bridge", "network") if word in given]
    if len(short) == 2 or (short and "type" in given and given["type"] != short[0]):
        raise InputError("it is on a bridge and on a network at once", where=where, hint="Name one of the two")
    if short:
        given["type"], given["source"] = short[0], given.pop(short[0])
    elif given.get("type") == "network" and "source" not in given:
        raise InputError("the network has no name", where=where, hint="Say network: NAME")
    given.setdefault("mac", stable_mac(machine_name, given["name"]))
    return Nic(**given)


def stable_mac(machine_name: str, nic_name: str) -> str:
    """The MAC address of a nic for which nobody named one: the same for the same names, on any hypervisor.

    The prefix 52:54:00 is the one that QEMU and libvirt use.
    """
    digest = hashlib.sha256(f"{machine_name}/{nic_name}".encode()).hexdigest()
    return "52:54:00:" + ":".join(digest[i : i + 2] for i in (0, 2, 4))
