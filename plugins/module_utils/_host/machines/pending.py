# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running machine gets only when it is powered off and on: its two descriptions compared. Asks nobody.

Both come from libvirt, so they are compared as XML. The tables of options would say it as well, but then Ansible would
send them to the hypervisor with every ``virt_info``. What the definition says of an option, the running machine's XML
has to say too; what that says besides (aliases, paths, labels) is libvirt's own.
"""

from __future__ import annotations

import typing as t

from ..._base.xml import KIB, etree, size_kib_in_xml
from ..._model.attachments import host_device_names, nic_source, nic_type
from ..._model.metadata.machine import read_notes

# Where each option of the hardware is in the domain's XML, as XPath: an element with all that is in it, or an attribute
# or a text alone. The order is that of the documentation.
OPTION_PATHS: dict[str, tuple[str, ...]] = {
    # A guest may be slow to give vCPUs back, and may not give all of them.
    "vcpus": ("vcpu/text()", "vcpu/@cpuset"),
    # Without currentMemory: the balloon is on its way, and may have to stop half-way.
    "memory": ("memory", "maxMemory", "memtune", "memoryBacking"),
    # And _MODEL_PATHS.
    "cpu": ("cpu/topology", "cpu/cache", "cpu/numa", "cputune", "iothreads"),
    "numatune": ("numatune",),
    "features": ("features",),
    "clock": ("clock",),
    "events": ("on_poweroff", "on_reboot", "on_crash"),
    "boot": ("os/boot", "os/bootmenu", "os/kernel", "os/initrd", "os/cmdline"),
    "serials": ("devices/serial",),
    # Without the console that is the first serial device under another name, which libvirt makes.
    "consoles": ("devices/console[target/@type and target/@type != 'serial']",),
    # Compared by what libvirt leaves as it is, see _CONSOLE_PATHS and _CARD_PATHS.
    "graphics": (),
    "video": (),
    "rng": ("devices/rng",),
    "watchdog": ("devices/watchdog",),
    "tpm": ("devices/tpm",),
    "shared_folders": (
        "devices/filesystem[@type = 'mount' and @accessmode = 'passthrough' and driver/@type = 'virtiofs']",
    ),
    # Compared by their names, see pending_of: their place in the guest does not matter.
    "host_devices": (),
}
# For a CPU whose model is named; of any other mode libvirt writes what it makes of it into the running machine's XML.
# Without @check and model/@fallback, which say how the model is compared with the host's CPU: the running machine's XML
# says how that came out.
_MODEL_PATHS = ("cpu/model/text()", "cpu/vendor/text()", "cpu/feature", "cpu/@match", "cpu/@migratable")
# libvirt chooses ports where none is set, and sockets and addresses where the definition has none (vnc_listen and
# vnc_auto_unix_socket in qemu.conf). One console and one card is compared with the one at the same place.
_CONSOLE_PATHS = (
    "@type",
    "@port[. > 0 and not(../@autoport = 'yes')]",
    "@tlsPort[. > 0]",
    "@websocket[. > 0]",
    "listen[@address or @network or @socket or @type = 'none']/@type",
    "listen/@address",
    "listen/@network",
    "listen/@socket",
)
# QEMU says how much memory a card has got.
_CARD_PATHS = ("model/@type", "model/@heads")
# Of a disk, by the names of its options; libvirt changes none of this by itself. What is missing is off.
_DISK_PATHS = {
    "io": "driver/@io",
    "cache": "driver/@cache[. != 'default']",
    "discard": "driver/@discard",
    "detect_zeroes": "driver/@detect_zeroes",
    "iothread": "driver/@iothread",
    "serial": "serial/text()",
    "boot_order": "boot/@order",
    "readonly": "readonly",
    "shareable": "shareable",
}
# Of a nic, in the same way. Where the definition is silent, the network that it is on may say something, and the
# running machine's XML has that. Without what changes while it runs: link, filter and bandwidth.
_NIC_PATHS = {
    "model": "model/@type",
    "mode": "source/@mode",
    "portgroup": "source/@portgroup",
    "vlan": "vlan",
    "virtualport": "virtualport",
    "mtu": "mtu/@size",
    "boot_order": "boot/@order",
    "queues": "driver/@queues",
    "trust_guest_rx_filters": "@trustGuestRxFilters",
}
# Devices that no option names, which come with ``xml``: the running machine has to have as many of them. Only those
# that libvirt adds to no machine by itself, whatever its version, or to both descriptions.
_FROM_XML = ("channel", "input", "memory", "parallel", "redirdev", "shmem", "sound")
_DEVICES = {"disks": "devices/disk", "nics": "devices/interface"}
# The mode of a CPU that libvirt leaves as it is in the running machine's XML.
_HOST_CPU = "host-passthrough"
# Elements whose absence means no: the running machine has to have them where the definition has them, and only there.
_YES_OR_NO = frozenset(
    {"acpi", "apic", "pae", "hugepages", "nosharepages", "locked", "discard", "readonly", "rng", "tpm"}
)
# Elements that make up a list: as many of them, in the same order.
_LISTS = frozenset({"boot", "cell", "page", "vcpusched", "filesystem", "serial", "console", "watchdog"})
# Elements of which there are many in any order: the attribute that tells them apart, if it is not called ``name``.
_NAMES = {"vcpupin": "vcpu", "iothreadpin": "iothread", "memnode": "cellid", "sibling": "id"}
# What inside those elements is not compared: where a device is in the guest and what QEMU calls it; and the mode of
# Hyper-V's features, from which libvirt may make a list of them.
_UNSTEADY = frozenset({"address", "alias", "hyperv@mode"})


def pending_of(live: etree._Element, defined: etree._Element) -> list[str]:
    """The options, as virt_init names them, in which the running machine is not what it is defined as."""
    besides = {
        "cpu": lambda: _models_agree(live, defined),
        "graphics": lambda: _devices_agree("devices/graphics", _CONSOLE_PATHS, live, defined),
        "video": lambda: _devices_agree("devices/video[not(model/@type = 'none')]", _CARD_PATHS, live, defined),
        "host_devices": lambda: host_device_names(live) == host_device_names(defined),
    }
    pending = [
        key
        for key, paths in OPTION_PATHS.items()
        if not _agree(paths, live, defined) or (key in besides and not besides[key]())
    ]
    if any(len(live.findall(f"devices/{tag}")) < len(defined.findall(f"devices/{tag}")) for tag in _FROM_XML):
        pending.append("xml")
    notes = read_notes(defined)
    disks = {note.target: note.name for note in notes.disks} if notes else {}
    nics = {note.mac.lower(): note.name for note in notes.nics} if notes else {}
    for kind, path, names, differing in (
        ("disks", "target/@dev", disks, _disk_differences),
        ("nics", "mac/@address", nics, _nic_differences),
    ):
        there, wanted = (_by_name(domain, _DEVICES[kind], path) for domain in (live, defined))
        for value in dict.fromkeys((*wanted, *there)):
            name = f"{kind}.{names.get(value, value)}"
            if value in there and value in wanted:
                pending += [f"{name}.{key}" for key in differing(there[value], wanted[value])]
            else:
                # Also what the definition has no more: it goes when the machine is powered off.
                pending.append(name)
    return pending


def _by_name(domain: etree._Element, path: str, name: str) -> dict[str, etree._Element]:
    """The devices at a path by what tells them apart; without those that have nothing there."""
    found = [(_nodes(element, name), element) for element in domain.iterfind(path)]
    return {str(values[0]).lower(): element for values, element in found if values}


def _disk_differences(live: etree._Element, defined: etree._Element) -> list[str]:
    """The options of a disk that are not the same; of those that are elements it counts whether they are there."""
    pairs = ((key, _nodes(live, path), _nodes(defined, path)) for key, path in _DISK_PATHS.items())
    return [key for key, have, want in pairs if _texts(have) != _texts(want)]


def _texts(nodes: list[t.Any]) -> list[str]:
    return [node.strip() if isinstance(node, str) else node.tag for node in nodes]


def _nic_differences(live: etree._Element, defined: etree._Element) -> list[str]:
    """The options of a nic that its definition has and the running machine has not."""
    plug = (("type", nic_type(live), nic_type(defined)), ("source", nic_source(live), nic_source(defined)))
    return [
        *(key for key, have, want in plug if want and have != want),
        *(key for key, path in _NIC_PATHS.items() if not _agree((path,), live, defined)),
    ]


def _devices_agree(path: str, paths: t.Iterable[str], live: etree._Element, defined: etree._Element) -> bool:
    """Whether as many devices are at a path, each with what the definition says of it there."""
    have, want = _nodes(live, path), _nodes(defined, path)
    return len(have) == len(want) and all(_agree(paths, *pair) for pair in zip(have, want))


def _agree(paths: t.Iterable[str], live: etree._Element, defined: etree._Element) -> bool:
    return all(_nodes_agree(_nodes(live, path), _nodes(defined, path)) for path in paths)


def _nodes(domain: etree._Element, path: str) -> list[t.Any]:
    return t.cast("list[t.Any]", domain.xpath(path))


def _models_agree(live: etree._Element, defined: etree._Element) -> bool:
    if not _is_custom(defined):
        return _is_host_cpu(live) is _is_host_cpu(defined)
    return _is_custom(live) and _agree(_MODEL_PATHS, live, defined)


def _is_custom(domain: etree._Element) -> bool:
    """Whether the CPU's model is named. A model without a mode is how machines were defined once."""
    cpu = domain.find("cpu")
    return cpu is not None and cpu.get("mode", "custom" if cpu.findtext("model", "").strip() else "") == "custom"


def _is_host_cpu(domain: etree._Element) -> bool:
    cpu = domain.find("cpu")
    return cpu is not None and cpu.get("mode") == _HOST_CPU


def _nodes_agree(have: list[t.Any], want: list[t.Any]) -> bool:
    """Whether what one path leads to in the definition (want) is in the running machine's XML (have) too."""
    if not have and not want:
        return True
    node = (want or have)[0]
    if isinstance(node, str):
        return not want or (bool(have) and str(have[0]).strip() == node.strip())
    if node.tag in _YES_OR_NO:
        return bool(have) is bool(want) and _covers(have[0], want[0])
    if node.tag in _LISTS:
        return len(have) == len(want) and all(map(_covers, have, want))
    name = _NAMES.get(node.tag, "name")
    there: dict[str | None, list[etree._Element]] = {}
    for element in have:
        there.setdefault(element.get(name), []).append(element)
    # To libvirt, what is no element at all is the same as one without anything in it.
    nothing = [etree.Element(node.tag)]
    return all(any(_covers(one, wanted) for one in there.get(wanted.get(name), nothing)) for wanted in want or nothing)


def _covers(have: etree._Element, want: etree._Element) -> bool:
    """Whether an element has all that another one has: attributes, text and what is in it."""
    for name in map(str, want.attrib):
        if name != "unit" and f"{want.tag}@{name}" not in _UNSTEADY:
            there = have.get(name)
            if there is None or _amount(have, there, name) != _amount(want, want.get(name, ""), name):
                return False
    text = (want.text or "").strip()
    if text and _amount(have, (have.text or "").strip()) != _amount(want, text):
        return False
    tags = {child.tag for child in want.iterchildren("*")} | {
        child.tag for child in have.iterchildren("*") if child.tag in _YES_OR_NO or child.tag in _LISTS
    }
    return all(_nodes_agree(have.findall(tag), want.findall(tag)) for tag in tags - _UNSTEADY)


def _amount(element: etree._Element, text: str, name: str = "") -> int | str:
    """A value of an element; one that is so much memory in MiB, of which QEMU gets whole ones, a page's size in KiB."""
    unit = element.get("unit")
    kib = None if unit is None else size_kib_in_xml(text, unit)
    if kib is None or name not in ("", "memory", "size"):
        return text
    return kib if name == "size" else -(-kib // KIB)
