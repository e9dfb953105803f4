# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the devices of a machine are connected to on its hypervisor, and what of that ties it to this one.

In one word and in the words of libvirt, whoever made the machine: https://libvirt.org/formatdomain.html#devices
"""

from __future__ import annotations

import re
import typing as t

from .._base.xml import attribute, etree

# Of libvirt's versions the first that knows the watchdog in the chipset of q35 machines
# (https://libvirt.org/formatdomain.html#watchdog-devices).
ITCO_SINCE = 9001000

# The attribute of <source> that says what a nic is plugged into, by the type of the nic. A nic on a network also names
# the network's bridge while it runs; what the user chose is the network.
_NIC_SOURCES = {
    "network": "network",
    "bridge": "bridge",
    "direct": "dev",
    "internal": "name",
    "vdpa": "dev",
    "vhostuser": "path",
    "vds": "portgroupid",
    "user": "dev",
}
_SOCKETS = ("client", "mcast", "server", "udp")
# The channel that the guest agent listens on, which QEMU gave its name.
AGENT_CHANNEL = "org.qemu.guest_agent.0"
# What the names of the snapshots begin with that this collection takes of disks in a Ceph cluster.
OWN_SNAPSHOT = "brine-snapshot."
# What cannot be had on another hypervisor, by path in the domain's XML: the one list of it.
_TIES = (
    ("devices/hostdev", "a device of the hypervisor"),
    ("devices/filesystem", "a folder of the hypervisor"),
    ("devices/interface[@type='hostdev']", "a network card of the hypervisor"),
    ("devices/interface[@type='vdpa']", "a network card of the hypervisor"),
    ("devices/tpm/backend[@type='passthrough']", "the TPM of the hypervisor"),
    ("devices/tpm/backend[@type='external']", "a TPM that a program of the hypervisor emulates"),
    ("devices/memory/source/path", "persistent memory in a file of the hypervisor"),
    ("devices/pstore", "a store for crash reports in a file of the hypervisor"),
    ("devices/shmem", "memory that it shares with others of the hypervisor"),
    ("devices/smartcard[@mode='host']", "a smart card of the hypervisor"),
    ("devices/smartcard[@mode='host-certificates']", "a smart card of the hypervisor"),
    ("devices/input[@type='passthrough']", "an input device of the hypervisor"),
    ("devices/input[@type='evdev']", "an input device of the hypervisor"),
    ("devices/graphics/gl[@rendernode]", "a graphics card of the hypervisor"),
    ("os/nvram[@type='block']", "the variables of its UEFI on a device of the hypervisor"),
    ("launchSecurity/session", "a launch session with the processor of the hypervisor"),
    *(
        (f"devices/{device}[@type='{kind}']{source}", words)
        for device in ("serial", "parallel", "console", "channel", "smartcard", "redirdev", "rng/backend")
        for kind, source, words in (
            ("dev", "", "a character device of the hypervisor"),
            ("pipe", "", "a pipe of the hypervisor"),
            ("unix", "/source[@mode='connect']", "a socket of the hypervisor"),
        )
    ),
)
# Each with the element that has to be there for the path to lead anywhere, a device or a part of the domain, and with
# the type that it has to have, if any.
_TIES_BY_TAG = tuple(
    (
        t.cast("re.Match[str]", re.match(r"(\w+)(?:\[@type='(\w+)'])?", path.replace("devices/", "", 1))).groups(),
        path,
        words,
    )
    for path, words in _TIES
)
# What lies in files that no pool has, and travels only with a machine that runs.
_TIES_WHILE_OFF = (
    (("os/loader[@type='pflash']", "os[@firmware='efi']", "os/varstore"), "the variables of its UEFI"),
    (("devices/tpm/backend[@type='emulator']",), "the state of its TPM"),
)
# Files that are only read, when the machine starts. QEMU asks for them itself when a running machine comes.
_START_FILES = (
    ("os/kernel", None, "kernel"),
    ("os/initrd", None, "initial RAM disk"),
    ("os/dtb", None, "device tree"),
    ("os/shim", None, "shim"),
    ("os/acpi/table", None, "ACPI table"),
    ("sysinfo/entry[@file]", "file", "firmware configuration"),
    ("devices/interface/rom[@file]", "file", "boot ROM"),
)


def disk_source(disk: etree._Element) -> str | None:
    """Where the bytes of a <disk> or <backingStore> are, in one word: a path, ``pool/volume``, or ``protocol:name``."""
    source, kind = disk.find("source"), disk.get("type")
    if source is None:
        return None
    if kind == "volume":
        return f"{source.get('pool')}/{source.get('volume')}"
    if kind == "network":
        return f"{source.get('protocol')}:{source.get('name') or ''}"
    if kind == "nvme":
        return f"nvme:{host_device(source)}/{source.get('namespace')}"
    if kind == "vhostuser":
        return source.get("path")
    return source.get("file") or source.get("dev") or source.get("dir")


def disks_by_target(domain: etree._Element) -> dict[str, etree._Element]:
    """Each <disk> of a machine, by its target."""
    return {attribute(disk, "target", "dev") or "": disk for disk in domain.iterfind("devices/disk")}


def written_disks(domain: etree._Element) -> dict[str, etree._Element]:
    """The disks that a machine can write to, by target."""
    disks = disks_by_target(domain)
    return {target: disk for target, disk in disks.items() if disk_source(disk) is not None and not _only_reads(disk)}


def written_places(domain: etree._Element, *types: str) -> dict[str, str]:
    """Where the disks are that a machine can write to, by target, as disk_source has it. types: of these disks alone,
    such as C(file)."""
    return {
        target: disk_source(disk) or ""
        for target, disk in written_disks(domain).items()
        if not types or disk.get("type") in types
    }


def read_only_disks(domain: etree._Element) -> dict[str, etree._Element]:
    """The disks that a machine only reads, by target, also empty ones."""
    return {target: disk for target, disk in disks_by_target(domain).items() if _only_reads(disk)}


def _only_reads(disk: etree._Element) -> bool:
    return disk.find("readonly") is not None or disk.get("device") == "cdrom"


def nic_type(nic: etree._Element) -> str:
    """The type of an <interface>, as the machine was given it.

    While a machine runs, libvirt writes bridge, direct or hostdev for a nic on a network that is made of such a device,
    and keeps the network's name in the source (virDomainNetDefFormat in its src/conf/domain_conf.c).
    """
    return "network" if attribute(nic, "source", "network") else nic.get("type") or ""


def nic_source(nic: etree._Element) -> str | None:
    """What an <interface> is plugged into, in one word and in libvirt's words.

    A name, a path, a PCI address for type hostdev, ``address:port`` for the sockets of QEMU; None for what is plugged
    into nothing that has a name, such as the types ethernet, user and null.
    """
    source, kind = nic.find("source"), nic_type(nic)
    if source is None:
        return None
    if kind == "hostdev":
        return host_device(source)
    if kind in _SOCKETS:
        return f"{source.get('address') or ''}:{source.get('port') or ''}"
    return source.get(_NIC_SOURCES[kind]) if kind in _NIC_SOURCES else None


def host_device(source: etree._Element) -> str | None:
    """The address of a device of the hypervisor as lspci writes it; a USB device by its bus and number, as lsusb."""
    address = source.find("address")
    if address is None:
        return None
    try:
        if address.get("type") == "usb":
            bus, device = (integer(address.get(name)) for name in ("bus", "device"))
            return f"{bus:03d}:{device:03d}"
        domain, bus, slot, function = (integer(address.get(name)) for name in ("domain", "bus", "slot", "function"))
    except ValueError:
        return None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def host_device_names(domain: etree._Element) -> tuple[str, ...]:
    """The devices of the hypervisor that a <domain> has, in our words; without those that we have no word for."""
    return tuple(name for name in map(host_device_name, domain.iterfind("devices/hostdev")) if name)


def host_device_name(hostdev: etree._Element) -> str | None:
    """A <hostdev> in our words: a PCI device by its address, a USB device by vendor and product; None for any other."""
    if hostdev.get("type") == "pci":
        source = hostdev.find("source")
        return None if source is None else host_device(source)
    if hostdev.get("type") == "usb":
        vendor, product = hostdev.find("source/vendor"), hostdev.find("source/product")
        if vendor is not None and product is not None:
            try:
                return f"{integer(vendor.get('id')):04x}:{integer(product.get('id')):04x}"
            except ValueError:
                return None
    return None


def integer(text: str | None) -> int:
    """A whole number as C reads it, which is libvirt's way: ``0x1f``, ``037`` or ``31``; no text is 0.

    Raises ValueError.
    """
    text = (text or "0").strip()
    octal = len(text) > 1 and text.isdecimal() and text.startswith("0")
    return int(text, 8 if octal else 0)


def agent_is_connected(domain: etree._Element) -> bool:
    """Whether the live XML says that a guest agent has opened its end of the channel."""
    return any(
        target.get("name") == AGENT_CHANNEL and target.get("state") == "connected"
        for target in domain.iterfind("devices/channel/target")
    )


def ties_of_domain(*domains: etree._Element) -> list[str]:
    """What the machine has of its hypervisor, in words that follow «it has»; empty for most.

    domains: parsed ``<domain>`` elements of one machine: as it runs, as it will run after its next start.
    """
    # Most machines have few of these elements at all, and looking for one is cheaper than for what is in it.
    parts = [part for domain in domains for part in (*domain.iterfind("devices/*"), *domain)]
    there = {(part.tag, None) for part in parts} | {(part.tag, part.get("type")) for part in parts}
    found = [
        words
        for first, path, words in _TIES_BY_TAG
        if first in there and any(domain.find(path) is not None for domain in domains)
    ]
    return list(dict.fromkeys(found))


def ties_while_off(domain: etree._Element) -> list[str]:
    """What of a machine would stay behind if it were moved while it is off, in words; empty for most."""
    return [words for paths, words in _TIES_WHILE_OFF if any(domain.find(path) is not None for path in paths)]


def encryption_secrets(domain: etree._Element) -> list[tuple[str, str]]:
    """The secrets of libvirt that its encrypted disks and the state of its TPM are opened with: ``uuid`` or ``usage``,
    and that. Those that storage is reached with are the pools' affair."""
    of_disks = [
        (kind, secret.get(kind, ""))
        for disk in domain.iterfind("devices/disk")
        for secret in disk.iterfind(".//encryption/secret")
        for kind in ("uuid", "usage")
    ]
    of_tpm = [("uuid", found.get("secret", "")) for found in domain.iterfind("devices/tpm/backend/encryption")]
    return [(kind, name) for kind, name in (*of_disks, *of_tpm) if name]


def network_filters(domain: etree._Element) -> list[str]:
    """The network filters of libvirt that its nics name."""
    return [found.get("filter", "") for found in domain.iterfind("devices/interface/filterref") if found.get("filter")]


def start_files(domain: etree._Element) -> list[tuple[str, str]]:
    """The files of its hypervisor that a machine needs to start, and which no move takes along: each in words and its
    path."""
    return [
        (words, path)
        for place, attribute, words in _START_FILES
        for element in domain.iterfind(place)
        for path in [(element.get(attribute) if attribute else element.text) or ""]
        if path.strip()
    ]


def drop_added_watchdog(domain: etree._Element) -> None:
    """Take the watchdog out of a description that libvirt, since ITCO_SINCE, puts into each machine of type q35 by
    itself, with the action of another one that it has. An older libvirt takes no description with it; from one that it
    sends itself libvirt takes it out. domain: or anything that has machines' descriptions in it."""
    for devices in domain.findall(".//devices"):
        watchdogs = devices.findall("watchdog")
        for watchdog in watchdogs:
            if watchdog.get("model") == "itco" and (len(watchdogs) > 1 or watchdog.get("action") == "reset"):
                devices.remove(watchdog)
