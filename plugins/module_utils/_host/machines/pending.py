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
from ..._model.attachments import host_device_names
from ..._model.metadata.machine import read_notes

# Where each option of the hardware is in the domain's XML, as XPath: an element with all that is in it, or an attribute
# or a text alone. The order is that of the documentation.
OPTION_PATHS: dict[str, tuple[str, ...]] = {
    # A guest may be slow to give vCPUs back, and may not give all of them.
    "vcpus": ("vcpu/text()",),
    # Without currentMemory: the balloon is on its way, and may have to stop half-way.
    "memory": ("memory", "maxMemory", "memtune", "memoryBacking"),
    # And _MODEL_PATHS.
    "cpu": ("cpu/topology", "cpu/cache", "cpu/numa", "cputune", "iothreads"),
    "numatune": ("numatune",),
    "features": ("features",),
    "clock": ("clock",),
    "events": ("on_poweroff", "on_reboot", "on_crash"),
    "boot": ("os/boot", "os/bootmenu", "os/kernel", "os/initrd", "os/cmdline"),
    # Never pending: libvirt fills in paths and ports while the machine runs.
    "serials": (),
    "consoles": (),
    # Of these it fills in ports, addresses, memory and heads.
    "graphics": ("devices/graphics[1]/@type",),
    "video": ("devices/video[1]/model/@type",),
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
# Elements whose absence means no: the running machine has to have them where the definition has them, and only there.
_YES_OR_NO = frozenset(
    {"acpi", "apic", "pae", "hugepages", "nosharepages", "locked", "discard", "readonly", "rng", "watchdog", "tpm"}
)
# Elements that make up a list: as many of them, in the same order.
_LISTS = frozenset({"boot", "cell", "page", "vcpusched", "filesystem"})
# Elements of which there are many in any order: the attribute that tells them apart, if it is not called ``name``.
_NAMES = {"vcpupin": "vcpu", "iothreadpin": "iothread", "memnode": "cellid", "sibling": "id"}
# What inside those elements is not compared: where a device is in the guest and what QEMU calls it; and the mode of
# Hyper-V's features, from which libvirt may make a list of them.
_UNSTEADY = frozenset({"address", "alias", "hyperv@mode"})


def pending_of(live: etree._Element, defined: etree._Element) -> list[str]:
    """The options, as virt_init names them, in which the defined machine has what the running one does not have yet."""
    pending = [
        key
        for key, paths in OPTION_PATHS.items()
        if not _agree(paths, live, defined) or (key == "cpu" and not _models_agree(live, defined))
    ]
    if host_device_names(live) != host_device_names(defined):
        pending.append("host_devices")
    notes = read_notes(defined)
    disks = {note.target: note.name for note in notes.disks} if notes else {}
    nics = {note.mac.lower(): note.name for note in notes.nics} if notes else {}
    for kind, path, attribute, names in (
        ("disks", "devices/disk/target", "dev", disks),
        ("nics", "devices/interface/mac", "address", nics),
    ):
        there = _values(live, path, attribute)
        lacking = [value for value in _values(defined, path, attribute) if value not in there]
        pending += [f"{kind}.{names.get(value, value)}" for value in lacking]
    return pending


def _agree(paths: t.Iterable[str], live: etree._Element, defined: etree._Element) -> bool:
    return all(_nodes_agree(_nodes(live, path), _nodes(defined, path)) for path in paths)


def _nodes(domain: etree._Element, path: str) -> list[t.Any]:
    return t.cast("list[t.Any]", domain.xpath(path))


def _models_agree(live: etree._Element, defined: etree._Element) -> bool:
    if not _is_custom(defined):
        return True
    return _is_custom(live) and _agree(_MODEL_PATHS, live, defined)


def _is_custom(domain: etree._Element) -> bool:
    """Whether the CPU's model is named. A model without a mode is how machines were defined once."""
    cpu = domain.find("cpu")
    return cpu is not None and cpu.get("mode", "custom" if cpu.findtext("model", "").strip() else "") == "custom"


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


def _values(domain: etree._Element, path: str, attribute: str) -> list[str]:
    return [value.lower() for element in domain.iterfind(path) if (value := element.get(attribute))]
