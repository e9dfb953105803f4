# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine has and its entry does not say: the difference to the XML of a machine that is made from the entry.

Nothing is passed over but what is named here: what libvirt fills in by itself, and what the entry says in another way.
"""

from __future__ import annotations

import posixpath
import typing as t
from collections.abc import Iterator

from ..._base.errors import visible
from ..._base.xml import attribute, etree, size_kib_in_xml
from ..attachments import AGENT_CHANNEL, host_device_name

_LONGEST = 80
_QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
# What the entry says by options that stand beside the tables, and sizes, which are rounded there.
_SAID = frozenset(("name", "uuid", "title", "description", "memory", "currentMemory", "maxMemory", "vcpu"))
# Places on buses and names in the running QEMU, which libvirt gives.
_PLACES = frozenset(("address", "alias"))
_SAID_ATTRIBUTES = frozenset(
    (
        ("domain", "id"),
        ("os", "firmware"),
        ("os/type", "machine"),
        *(("cpu", name) for name in ("check", "match", "migratable")),
        ("cpu/model", "fallback"),
        ("cpu/topology", "dies"),
        ("cpu/topology", "clusters"),
        ("devices/disk/driver", "name"),
        ("devices/disk/source", "index"),
        ("devices/disk/target", "tray"),
        *(("devices/graphics", name) for name in ("port", "autoport", "listen", "tlsPort")),
        *(("devices/video/model", name) for name in ("vram", "vram64", "ram", "vgamem", "heads", "primary")),
        ("devices/console", "tty"),
    )
)
_SAID_ELEMENTS = frozenset(
    (
        "devices/disk/boot",
        "devices/disk/auth",
        "devices/disk/source/auth",
        "devices/disk/backingStore",
        "devices/interface/boot",
        "devices/serial/target",
        "devices/console/target",
        "devices/hostdev/source/address",
    )
)
# Elements of which a machine has many, told apart by what they are called.
_NAMED = ("disk", "interface", "feature", "timer")
_OURS = "{urn:brine:virt:"
_BRIDGES = ("pcie-root", "pcie-root-port", "pci-root", "pci-bridge", "pcie-to-pci-bridge", "dmi-to-pci-bridge")
_CONTROLLERS = ("ide", "sata", "fdc", "virtio-serial", "ccid")
# Where libvirt puts the variables of a machine with UEFI (qemuDomainNVRAMPathFormat).
_NVRAM_PLACE = "/qemu/nvram"
_EMULATORS = ("/usr/bin/qemu-system-", "/usr/libexec/qemu-kvm", "/usr/bin/qemu-kvm", "/usr/bin/kvm")


def find_leftovers(domain: etree._Element, made: etree._Element, *, passed: t.Container[str] = ()) -> list[str]:
    """What of a parsed ``<domain>`` element is not in the one that was made from its entry.

    In words: a path in the XML, with attributes. Texts are not repeated, as they may be secret. passed: targets of
    disks and MAC addresses of nics that are accounted for elsewhere.
    """
    return list(dict.fromkeys(_compare(domain, made, "domain", "", passed)))


def _compare(
    element: etree._Element, made: etree._Element, path: str, words: str, passed: t.Container[str]
) -> Iterator[str]:
    yield from _compare_attributes(element, made, path, words)
    rest = list(made.iterchildren("*"))
    for child in element.iterchildren("*"):
        tag = _name(child)
        below = tag if path == "domain" else f"{path}/{tag}"
        if _is_passed(child, below, element, passed):
            continue
        key = _key(child)
        twin = next((other for other in rest if other.tag == child.tag and _key(other) == key), None)
        label = f"{words}/{tag}".lstrip("/") + (f"[{key}]" if tag in _NAMED else "")
        if twin is None:
            yield _described(label, {name: value for name, value in _attributes(child) if name != "index"})
            continue
        rest.remove(twin)
        yield from _compare(child, twin, below, label, passed)


def _compare_attributes(element: etree._Element, made: etree._Element, path: str, words: str) -> Iterator[str]:
    differing = {}
    has_unit = "unit" in element.attrib or "unit" in made.attrib
    for name, value in _attributes(element):
        if (path, name) in _SAID_ATTRIBUTES or name == "unit":
            continue
        other = made.get(name)
        if value == other or (has_unit and other and _same_size(value, element, other, made)):
            continue
        differing[name] = value
    if differing:
        yield _described(words or path, differing)
    text, other_text = (" ".join((one.text or "").split()) for one in (element, made))
    if text and text != other_text and not _same_size(text, element, other_text, made):
        yield _described(words or path, {})


def _attributes(element: etree._Element) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in element.attrib.items()]


def _same_size(value: str, element: etree._Element, other: str, made: etree._Element) -> bool:
    """Whether two sizes are the same after they were rounded up to a MiB, as options are."""
    one, two = size_kib_in_xml(value, element.get("unit")), size_kib_in_xml(other, made.get("unit"))
    return one is not None and two is not None and (one == two or -(-one // 1024) * 1024 == two)


def _name(element: etree._Element) -> str:
    space, _brace, name = str(element.tag).rpartition("}")
    return name if not space else f"{'qemu' if space[1:] == _QEMU else space[1:]}:{name}"


def _key(element: etree._Element) -> str:
    """What tells an element from others of its name, in the XML of one machine."""
    tag = _name(element)
    if tag == "disk":
        return attribute(element, "target", "dev") or ""
    if tag == "interface":
        return (attribute(element, "mac", "address") or "").lower()
    if tag == "hostdev":
        return host_device_name(element) or etree.tostring(element, encoding="unicode")
    if tag == "channel":
        return attribute(element, "target", "name") or ""
    if tag == "controller":
        return "/".join(element.get(name, "") for name in ("type", "model"))
    if tag in ("graphics", "input", "filesystem", "memballoon", "serial", "console"):
        return "/".join(element.get(name, "") for name in ("type", "bus"))
    return "" if tag == "driver" else element.get("name") or element.get("id") or element.get("cellid") or ""


def _is_passed(element: etree._Element, path: str, parent: etree._Element, passed: t.Container[str]) -> bool:
    """Whether an element is what libvirt fills in by itself, or what the entry says in another way."""
    if path in _SAID or path in _SAID_ELEMENTS:
        return True
    home, _slash, tag = path.rpartition("/")
    if home.startswith("devices/") and home.count("/") == 1 and tag in _PLACES:
        return True
    if tag == "protocol" and element.get("type") == "raw":
        return True
    if home == "metadata":
        return str(element.tag).startswith(_OURS)
    if home == "os":
        return parent.get("firmware") == "efi" and _is_usual_firmware(element, tag)
    if path == "resource":
        return all(_name(child) == "partition" and child.text == "/machine" for child in element)
    if tag in ("disk", "interface") and home == "devices":
        return _key(element) in passed
    return home == "devices" and (_is_filled_in(element, tag, parent) or _is_mirror(element, tag, parent))


def _is_usual_firmware(element: etree._Element, tag: str) -> bool:
    """Whether it is what libvirt chooses for firmware efi: its own image, and variables in the place that it has for
    them.

    A loader that libvirt has chosen and one that somebody has named look alike, but for one without variables.
    """
    if tag == "nvram":
        source = element.find("source")
        path = (element.text or "").strip() if source is None else source.get("file")
        if source is None and not path:
            return True
        return posixpath.dirname(path or "").endswith(_NVRAM_PLACE)
    return tag == "loader" and element.get("stateless") != "yes" and element.get("type") in (None, "pflash")


def _is_filled_in(element: etree._Element, tag: str, parent: etree._Element) -> bool:
    kind = element.get("type")
    if tag == "emulator":
        return (element.text or "").strip().startswith(_EMULATORS)
    if tag == "controller":
        return _is_usual_controller(element, kind)
    if tag == "video":
        # That there is none.
        return element.find("model[@type='none']") is not None
    if tag == "input":
        return element.get("bus") == "ps2" and kind in ("mouse", "keyboard")
    if tag == "audio":
        return element.get("id") == "1" and kind in ("none", "spice") and not len(element)
    if tag == "watchdog":
        others = [one for one in parent.iterchildren("watchdog") if one.get("model") != "itco"]
        return element.get("model") == "itco" and (bool(others) or element.get("action") == "reset")
    if tag == "channel":
        # The agent's: where its socket is on the hypervisor is libvirt's business.
        return kind == "unix" and attribute(element, "target", "name") == AGENT_CHANNEL
    return False


def _is_mirror(element: etree._Element, tag: str, devices: etree._Element) -> bool:
    """Whether it is the console that libvirt makes of the first serial device."""
    if tag != "console" or element is not devices.find("console") or devices.find("serial") is None:
        return False
    return attribute(element, "target", "type") in (None, "serial")


def _is_usual_controller(element: etree._Element, kind: str | None) -> bool:
    bare = not [child for child in element if _name(child) not in (*_PLACES, "model", "target")]
    model = element.get("model")
    if kind == "pci":
        # The rest of what is in it libvirt fills in.
        by_hand = element.find("pcihole64") is not None or attribute(element, "target", "hotplug") == "off"
        return model in _BRIDGES and not by_hand
    if kind == "usb":
        return bare and model in (None, "qemu-xhci")
    if kind == "scsi":
        return bare and model == "virtio-scsi"
    return bare and kind in _CONTROLLERS


def _described(words: str, attributes: t.Mapping[str, str]) -> str:
    text = " ".join([words, *(f"{name}={value}" for name, value in attributes.items())])
    line = " ".join(visible(text).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
