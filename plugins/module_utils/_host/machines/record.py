# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's record from its domain XML (https://libvirt.org/formatdomain.html). Asks nobody."""

from __future__ import annotations

import posixpath
import sys
import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..._base.xml import KIB, attribute, etree, size_kib_in_xml
from ..._model.attachments import disk_source, nic_source, nic_type, ties_of_domain, ties_while_off
from ..._model.metadata.machine import BUILDING, MachineNotes, read_notes
from ..._model.metadata.migration import read_migration_note
from .addresses import NicQuery

# virDomainState, https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainState
STATES = ("nostate", "running", "blocked", "paused", "shutdown", "shutoff", "crashed", "pmsuspended")
# The states of a machine that holds memory and CPUs now.
ACTIVE_STATES = frozenset({"running", "blocked", "paused", "shutdown", "pmsuspended"})
_OFF_STATES = frozenset({"shutoff", "crashed"})

# What a guest gets of a virtio disk's serial (VIRTIO_BLK_ID_BYTES).
_VIRTIO_SERIAL_LENGTH = 20
# Names what a running machine lacks of its definition. Given by whoever wants it: the others need not take it along.
PendingOf = t.Callable[["etree._Element", "etree._Element"], list[str]]


@dataclass(frozen=True)
class KnownPools:
    """Names of pools by the directory of their volumes, and by the name that a network protocol has for them."""

    by_path: Mapping[str, str]
    by_source_name: Mapping[str, str]


NO_POOLS = KnownPools({}, {})


def known_pools(descriptions: Iterable[tuple[str, etree._Element]]) -> KnownPools:
    """Which pool a path or a network disk belongs to. descriptions: each pool's name and its parsed ``<pool>``."""
    by_path: dict[str, str] = {}
    by_source_name: dict[str, str] = {}
    for name, root in descriptions:
        path = root.findtext("target/path")
        if path:
            by_path[path.rstrip("/")] = name
        source_name = root.findtext("source/name")
        if source_name:
            by_source_name[f"{root.get('type')}:{source_name}"] = name
    return KnownPools(by_path, by_source_name)


def state_name(number: int | None) -> str:
    """Our word for a virDomainState; ``nostate`` for what this version does not know."""
    return STATES[number] if number is not None and 0 <= number < len(STATES) else "nostate"


def bare_record(name: str, uuid: str, state: str) -> dict[str, t.Any]:
    """The record of a machine of which nothing else is known: every key, unknown values null."""
    return {
        "name": name,
        "uuid": uuid,
        "state": state,
        "paused_by": None,
        "vcpus": None,
        "vcpus_max": None,
        "memory_mib": None,
        "memory_max_mib": None,
        "autostart": None,
        "persistent": None,
        "saved": False,
        "managed": False,
        "building": False,
        "claimed": False,
        "moving": None,
        "pending": None,
        "title": None,
        "description": None,
        "domain_type": None,
        "machine_type": None,
        "arch": None,
        "firmware": None,
        "secure_boot": None,
        "tpm": None,
        "cpu_mode": None,
        "disks": [],
        "nics": [],
        "graphics": [],
        "address": None,
        "addresses": [],
        "user": None,
        "tags": [],
        "labels": [],
        "anti_affinity": [],
        "order": None,
        "delay_seconds": 0,
        "variables": {},
        "image": None,
        "seed": None,
        "host_keys": [],
        "serial_log": None,
        "serial_console": None,
        "tied_by": [],
        "errors": [],
    }


def record_from_xml(
    domain: etree._Element, state: str, pools: KnownPools = NO_POOLS, notes: MachineNotes | None = None
) -> dict[str, t.Any]:
    """All of a machine's record that its parsed ``<domain>`` says.

    notes: ours in it, where the caller has read them.
    What the XML does not say stays as in ``bare_record``: autostart, persistent, saved, sizes of disks, addresses.
    """
    notes = notes or read_notes(domain)
    vcpus_max = _number(domain.findtext("vcpu", "1"))  # without the element libvirt has one
    memory_max_mib, memory_mib = _mib(domain.find("memory")), _mib(domain.find("currentMemory"))
    record = bare_record(domain.findtext("name") or "", domain.findtext("uuid") or "", state)
    record.update(
        vcpus=_number(attribute(domain, "vcpu", "current")) or vcpus_max,
        vcpus_max=vcpus_max,
        memory_mib=memory_max_mib if memory_mib is None else memory_mib,
        memory_max_mib=memory_max_mib,
        title=domain.findtext("title"),
        description=domain.findtext("description"),
        domain_type=domain.get("type"),
        machine_type=attribute(domain, "os/type", "machine"),
        arch=attribute(domain, "os/type", "arch"),
        firmware=_firmware(domain),
        secure_boot=_secure_boot(domain),
        tpm=_tpm(domain),
        cpu_mode=_cpu_mode(domain),
        disks=[_disk(disk, notes, pools) for disk in domain.iterfind("devices/disk")],
        nics=[_nic(nic, notes) for nic in domain.iterfind("devices/interface")],
        graphics=[_graphics(graphics) for graphics in domain.iterfind("devices/graphics")],
        serial_log=attribute(domain, "devices/serial/log", "file") or attribute(domain, "devices/console/log", "file"),
        serial_console=attribute(domain, "devices/console", "type"),
        tied_by=_ties(domain, state),
    )
    if notes is not None:
        record.update(_from_notes(notes))
    move = read_migration_note(domain)
    if move is not None:
        record["moving"] = {"source": move.source, "target": move.target, "running": move.running}
    return record


def nics_to_ask(domain: etree._Element, notes: MachineNotes | None) -> list[NicQuery]:
    """The nics in the order of the record's, as asking for their addresses needs them. notes: ours in it."""
    static = {nic.mac.lower(): nic.addresses for nic in notes.nics} if notes else {}
    asked = []
    for nic in domain.iterfind("devices/interface"):
        mac = attribute(nic, "mac", "address") or ""
        network = attribute(nic, "source", "network")
        asked.append(NicQuery(mac, nic.get("type") or "", static.get(mac.lower(), ()), network))
    return asked


def _ties(domain: etree._Element, state: str) -> list[str]:
    staying = ties_while_off(domain) if state in _OFF_STATES else []
    return [
        *ties_of_domain(domain),
        *(f"{words} in a file that moves only while it runs (start it first)" for words in staying),
    ]


def _from_notes(notes: MachineNotes) -> dict[str, t.Any]:
    image = notes.image
    return {
        "managed": True,
        "building": notes.status == BUILDING,
        "claimed": notes.status == BUILDING and notes.claimed,
        "user": notes.seed.user if notes.seed else None,
        "tags": list(notes.tags),
        "labels": list(notes.labels),
        "anti_affinity": list(notes.anti_affinity),
        "order": notes.order,
        "delay_seconds": notes.delay_seconds,
        "variables": dict(notes.variables),
        # Flat, so a copy will do; asdict() takes many times as long.
        "image": image and {"name": image.name, "volume": image.volume, "pool": image.pool},
        "seed": dict(vars(notes.seed)) if notes.seed else None,
        "host_keys": list(notes.host_keys),
    }


def _number(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdecimal() else None


def _mib(element: etree._Element | None) -> int | None:
    """A size in MiB, rounded up; None where there is none."""
    kib = None if element is None else size_kib_in_xml(element.text or "", element.get("unit"))
    return None if kib is None else -(-kib // KIB)


def _firmware(domain: etree._Element) -> str:
    by_loader = attribute(domain, "os/loader", "type") == "pflash"
    return "efi" if by_loader or attribute(domain, "os", "firmware") == "efi" else "bios"


def _secure_boot(domain: etree._Element) -> bool:
    by_loader = attribute(domain, "os/loader", "secure") == "yes"
    return by_loader or attribute(domain, "os/firmware/feature[@name='secure-boot']", "enabled") == "yes"


def _tpm(domain: etree._Element) -> dict[str, str | None] | None:
    """Of a TPM of the hypervisor that is passed through, nobody says the version."""
    tpm = domain.find("devices/tpm")
    return None if tpm is None else {"model": tpm.get("model"), "version": attribute(tpm, "backend", "version")}


def _cpu_mode(domain: etree._Element) -> str | None:
    cpu = domain.find("cpu")
    if cpu is None:
        return None
    return cpu.get("mode") or ("custom" if cpu.find("model") is not None else None)


def _word(text: str | None) -> str | None:
    """A word that many machines have, kept in memory once for all of them."""
    return None if text is None else sys.intern(text)


def _disk(disk: etree._Element, notes: MachineNotes | None, pools: KnownPools) -> dict[str, t.Any]:
    element = disk.find("target")
    target, bus = (None, None) if element is None else (element.get("dev"), element.get("bus"))
    source = disk_source(disk)
    pool, volume = _pool_and_volume(disk, source, pools)
    backing = disk.find("backingStore")
    names = {note.target: note.name for note in notes.disks} if notes else {}
    return {
        "name": names.get(target or ""),
        "target": _word(target),
        "device": _word(disk.get("device", "disk")),
        "bus": _word(bus),
        "guest_path": _guest_path(disk, bus),
        "type": _word(disk.get("type")),
        "source": source,
        "pool": pool,
        "volume": volume,
        "format": _word(attribute(disk, "driver", "type")),
        "size_bytes": None,
        "allocation_bytes": None,
        "backing": None if backing is None else disk_source(backing),
        "readonly": disk.find("readonly") is not None,
        "own": notes is not None and any((note.pool, note.name) == (pool, volume) for note in notes.volumes),
    }


def _guest_path(disk: etree._Element, bus: str | None) -> str | None:
    """The link that udev makes in a Linux guest to a virtio disk with a serial (60-persistent-storage.rules)."""
    serial = disk.findtext("serial") if bus == "virtio" else None
    if not serial:
        return None
    return f"/dev/disk/by-id/virtio-{serial[:_VIRTIO_SERIAL_LENGTH]}"


def _pool_and_volume(disk: etree._Element, source: str | None, pools: KnownPools) -> tuple[str | None, str | None]:
    element = disk.find("source")
    if element is None or not source:
        return None, None
    kind = disk.get("type")
    if kind == "volume":
        return element.get("pool"), element.get("volume")
    if kind == "network":
        name, _slash, volume = (element.get("name") or "").partition("/")
        pool = pools.by_source_name.get(f"{element.get('protocol')}:{name}")
        return (pool, volume) if pool and volume else (None, None)
    directory, volume = posixpath.split(source)
    pool = pools.by_path.get(directory)
    return (pool, volume) if pool and volume else (None, None)


def _nic(nic: etree._Element, notes: MachineNotes | None) -> dict[str, t.Any]:
    mac = (attribute(nic, "mac", "address") or "").lower()
    names = {note.mac.lower(): note.name for note in notes.nics} if notes else {}
    return {
        "name": names.get(mac),
        "mac": mac or None,
        "type": _word(nic_type(nic)),
        "source": _word(nic_source(nic)),
        "model": _word(attribute(nic, "model", "type")),
        "target": attribute(nic, "target", "dev"),
        "addresses": [],
    }


def _graphics(graphics: etree._Element) -> dict[str, t.Any]:
    return {
        "type": _word(graphics.get("type")),
        "listen": graphics.get("listen") or attribute(graphics, "listen", "address"),
        "port": _port(graphics.get("port")),
        "tls_port": _port(graphics.get("tlsPort")),
    }


def _port(text: str | None) -> int | None:
    """libvirt says -1 where the port is chosen at the start."""
    return _number(text) or None


def sizes_by_target(stats: Mapping[str, t.Any]) -> dict[str, tuple[int, int | None]]:
    """Capacity and allocation by target device, from the block group of the bulk statistics.

    ``allocation`` is the highest offset written so far, which QEMU only knows once the guest has written something;
    until then ``physical`` (the size of the file or device) says it.
    Source: https://libvirt.org/html/libvirt-libvirt-domain.html#VIR_DOMAIN_STATS_BLOCK
    """
    sizes: dict[str, tuple[int, int | None]] = {}
    for number in range(stats.get("block.count", 0)):
        name, capacity = stats.get(f"block.{number}.name"), stats.get(f"block.{number}.capacity")
        if name and capacity:
            sizes[name] = capacity, stats.get(f"block.{number}.allocation") or stats.get(f"block.{number}.physical")
    return sizes
