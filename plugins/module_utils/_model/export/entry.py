# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine as the entry of ``virt_vms`` that would make it. Asks nobody.

The entry has nothing that a new machine could not have, so that it is accepted wherever it is read; and nothing in it
differs from the machine, so that nothing changes when it is provisioned where the machine is.
"""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..._base.xml import KIB, attribute, etree, need, parse_xml, size_kib_in_xml
from ..metadata.machine import MachineNotes
from ..spec.device_names import named_notes
from ..spec.existing import read_values
from ..spec.fields.table import Values
from ..spec.fields.units import LEAST_PLAIN_MIB
from ..spec.machine import Machine
from ..spec.machine_state import PRESENT
from ..spec.reading.machines import read_machine
from ..xml.devices import Placed, disk_targets
from ..xml.disk_source import DiskSource, driver_format
from ..xml.domain import GuestPlatform, domain_xml
from .acceptance import accepted_part
from .devices import (
    Devices,
    DiskOrigin,
    drop_boot_order,
    export_disks,
    export_nics,
    find_disk,
    find_nic,
    settle_boot_order,
)
from .hardware import export_hardware
from .leftovers import find_leftovers

# Without these, the profile called default would bring devices of its own.
_NO_PROFILES = {"disk_profile": "none", "nic_profile": "none"}
_NO_SEED = {"seed": {"method": "none"}}


@dataclass(frozen=True)
class MachineFacts:
    """What no XML says of a machine.

    platform: what a machine without a word more would be on this hypervisor. usual_type: whether the machine is of the
    type that new machines get there. origins: of its disks, by their names. console_password: whether its console has
    one.
    """

    platform: GuestPlatform
    usual_type: bool
    autostart: bool = False
    running: bool = False
    console_password: bool = False
    origins: Mapping[str, DiskOrigin] = field(default_factory=dict)


@dataclass(frozen=True)
class Export:
    """entry: as it stands in virt_vms, without the hypervisor. not_exported: what of the machine is not in it."""

    entry: Values
    not_exported: tuple[str, ...] = ()


def export_machine(domain: etree._Element, notes: MachineNotes | None, facts: MachineFacts) -> Export:
    """The entry of a machine. domain: its parsed definition.

    Raises InputError for a machine of which there can be no entry: its name is none here, or it has no memory.
    """
    remembered = named_notes(domain, notes)
    values = read_values(domain, remembered)
    name = str(values.get("name", ""))
    core = {
        **{"name": name, "vcpus": _maximum(values.get("vcpus"))},
        **{"memory": _sized(_maximum(values.get("memory"))), **_NO_PROFILES},
    }
    read_machine(core)
    firmware = _firmware(domain)
    base = _make(read_machine({**core, **firmware}), (), facts.platform)
    disks, nics = export_disks(domain, remembered, facts.origins), export_nics(domain, remembered, name)
    missing = [*_rounded(domain), *disks.not_exported, *nics.not_exported, *_lost_image(remembered, disks)]
    if _has_other_orders(domain, remembered, disks, nics):
        drop_boot_order(disks.entries, nics.entries)
        missing.append("boot_order: devices that are not in the entry have a place in it")
    settle_boot_order(disks.entries, nics.entries)
    wanted: Values = {
        **core,
        **{key: values[key] for key in ("title", "description") if values.get(key)},
        **_said_of_machine(domain, facts),
        **_remembered(remembered),
        **firmware,
        **export_hardware(domain, base),
        "disks": disks.entries,
        "nics": nics.entries,
    }
    missing += _close_console(wanted, facts)
    if wanted.get("boot") == {"devices": ["hd"]} and not any(d.get("device") != "floppy" for d in disks.entries):
        # What libvirt does where nothing is in the boot order.
        del wanted["boot"]
    wanted["memory"] = _sized(wanted["memory"])
    said = {key: value for key, value in wanted.items() if value not in ([], ()) or key in _EMPTY}
    always = {key: value for key, value in said.items() if key in _ALWAYS or key in core}
    always |= {key: _amounts(said[key]) for key in ("vcpus", "memory")}
    entry, refused = accepted_part(said, always, values)
    missing += [*refused, *_secrets(remembered, facts)]
    machine = read_machine(entry)
    missing += _other_targets(machine, remembered)
    made = _make(machine, _placed(machine, domain, remembered), facts.platform)
    _add_what_libvirt_adds(domain, made)
    missing += find_leftovers(domain, made, passed=_accounted(domain, remembered, missing))
    return Export(_in_order(entry), tuple(dict.fromkeys(missing)))


# Without these an entry would change the machine: start it, or give it all vCPUs and memory that it may have at most.
_ALWAYS = frozenset({"seed", "state"})
# Lists of which an empty one says something: that there are to be none.
_EMPTY = frozenset({"serials", "consoles", "host_devices", "shared_folders"})
# The order in which a person reads them.
_FIRST = ("name", "hypervisor", "title", "description", "vcpus", "memory", "image", "clone", "machine_type", "firmware")
_LAST = ("disk_profile", "disks", "nic_profile", "nics", "seed", "tags", "labels", "anti_affinity", "variables")


def _in_order(entry: Values) -> Values:
    last = [*_LAST, "autostart", "order", "delay_seconds", "state"]
    middle = [key for key in entry if key not in _FIRST and key not in last]
    return {key: entry[key] for key in (*_FIRST, *middle, *last) if key in entry}


def _rounded(domain: etree._Element) -> t.Iterator[str]:
    """Sizes of memory that are no whole number of MiB."""
    for tag in ("memory", "currentMemory"):
        element = domain.find(tag)
        kib = None if element is None else size_kib_in_xml(element.text or "", element.get("unit"))
        if kib is not None and kib % KIB:
            yield f"memory: {kib} KiB, which is rounded up to {-(-kib // KIB)} MiB"


def _lost_image(notes: MachineNotes, disks: Devices) -> t.Iterator[str]:
    """The image that a disk was copied from, where it is not known which one: somebody may have detached it."""
    if notes.image is not None and not notes.image.disk and not any("image" in entry for entry in disks.entries):
        yield f"image: {notes.image.volume}, as it is not known which disk was created from it"


def _other_targets(machine: Machine, notes: MachineNotes) -> list[str]:
    """Disks that a new machine would have under other target devices."""
    known, new = {note.name: note.target for note in notes.disks}, disk_targets(machine.disks)
    return [f"disks.{name}.target: {known[name]}" for name in new if known[name] != new[name]]


def _maximum(value: t.Any) -> t.Any:
    return value.get("maximum") if isinstance(value, Mapping) else value


def _sized(memory: t.Any) -> t.Any:
    """Memory in MiB, with the unit where so little has to name it."""
    if isinstance(memory, Mapping):
        return {key: _sized(value) if key in ("maximum", "current") else value for key, value in memory.items()}
    return f"{memory}MiB" if isinstance(memory, int) and 0 < memory < LEAST_PLAIN_MIB else memory


def _amounts(value: t.Any) -> t.Any:
    """vCPUs or memory: how much there is, and how much there may be."""
    if not isinstance(value, Mapping):
        return value
    return {word: value[word] for word in ("maximum", "current") if word in value}


def _firmware(domain: etree._Element) -> Values:
    loader = domain.find("os/loader")
    by_loader = loader is not None and loader.get("type") == "pflash"
    if attribute(domain, "os", "firmware") != "efi" and not by_loader:
        return {}
    feature = domain.find("os/firmware/feature[@name='secure-boot']")
    if loader is None and feature is None:
        # libvirt chooses at each start, as it would for a new machine without the option.
        return {"firmware": "efi"}
    secure = (loader is not None and loader.get("secure") == "yes") or (
        feature is not None and feature.get("enabled") == "yes"
    )
    return {"firmware": "efi", "secure_boot": secure}


def _said_of_machine(domain: etree._Element, facts: MachineFacts) -> Values:
    found: Values = {}
    machine_type = attribute(domain, "os/type", "machine")
    if machine_type and not facts.usual_type:
        found["machine_type"] = machine_type
    if facts.autostart:
        found["autostart"] = True
    if not facts.running:
        # Otherwise provisioning would start it, or resume it.
        found["state"] = PRESENT
    return found


def _remembered(notes: MachineNotes) -> Values:
    found: Values = {}
    for key in ("tags", "labels", "anti_affinity"):
        if getattr(notes, key):
            found[key] = list(getattr(notes, key))
    if notes.order is not None:
        found["order"] = notes.order
    if notes.delay_seconds:
        found["delay_seconds"] = notes.delay_seconds
    if notes.variables:
        found["variables"] = copy.deepcopy(notes.variables)
    # Without a word about it, a new machine gets a seed; and of a seed that was written, no entry can say the same.
    return found if notes.seed is not None else {**found, **_NO_SEED}


def _close_console(wanted: Values, facts: MachineFacts) -> t.Iterator[str]:
    """A console without the password that protects the machine's is only reached from its hypervisor."""
    graphics = wanted.get("graphics")
    if facts.console_password and isinstance(graphics, Mapping) and "listen" in graphics:
        wanted["graphics"] = {key: value for key, value in graphics.items() if key != "listen"} or True
        yield f"graphics.listen: {graphics['listen']}, where everybody could use the console without its password"


def _secrets(notes: MachineNotes, facts: MachineFacts) -> t.Iterator[str]:
    if facts.console_password:
        yield "graphics.password: a secret"
    if notes.seed is not None:
        user = f"; its user is {notes.seed.user}" if notes.seed.user else ""
        yield f"seed: only a hash of it is known{user}"
    if notes.fragment is not None:
        yield "xml: only a hash of it is known"


def _has_other_orders(domain: etree._Element, notes: MachineNotes, disks: Devices, nics: Devices) -> bool:
    """Whether a device that is in no entry has a place in the boot order of single devices."""
    named = {entry["name"] for entry in disks.entries}, {entry["name"] for entry in nics.entries}
    ours = [find_disk(domain, note) for note in notes.disks if note.name in named[0]]
    ours += [find_nic(domain, note) for note in notes.nics if note.name in named[1]]
    return any(order.getparent() not in ours for order in domain.iterfind("devices/*/boot"))


def _make(machine: Machine, disks: Sequence[Placed], platform: GuestPlatform) -> etree._Element:
    return parse_xml(domain_xml(machine, notes=MachineNotes(), host=platform, disks=disks, seed=None))


def _placed(machine: Machine, domain: etree._Element, notes: MachineNotes) -> list[Placed]:
    targets = {note.name: note for note in notes.disks}
    found = []
    for disk in machine.disks:
        note = targets[disk.name]
        element = find_disk(domain, note)
        if element is not None:
            found.append(Placed(disk, note.target, DiskSource.read(element), driver_format(element)))
    return found


def _add_what_libvirt_adds(domain: etree._Element, made: etree._Element) -> None:
    """What a machine has once it is defined: a boot device where nothing is in the boot order.

    And a disk of type volume names pool and volume, which its entry does too; no place can be written for it.
    """
    if made.find("os/boot") is None and made.find("devices/*/boot") is None:
        etree.SubElement(need(made, "os"), "boot", dev="hd")
    for element in domain.iterfind("devices/disk[@type='volume']"):
        source, target = element.find("source"), attribute(element, "target", "dev")
        for twin in made.iterfind("devices/disk"):
            if source is not None and attribute(twin, "target", "dev") == target and twin.find("source") is None:
                twin.set("type", "volume")
                names = {name: source.get(name, "") for name in ("pool", "volume")}
                etree.SubElement(twin, "source", names)


def _accounted(domain: etree._Element, notes: MachineNotes, missing: Sequence[str]) -> frozenset[str]:
    """Targets and addresses of devices that are named as missing already, and of the seed, which is remembered."""
    whole = {word.partition(":")[0] for word in missing}
    found = {note.target for note in notes.disks if f"disks.{note.name}" in whole}
    found |= {note.mac.lower() for note in notes.nics if f"nics.{note.name}" in whole}
    seeds = {note.name for note in notes.volumes if note.role == "seed"}
    for element in domain.iterfind("devices/disk"):
        source = DiskSource.read(element)
        if source is not None and element.findtext("serial") == "cidata" and source.place.rpartition("/")[2] in seeds:
            found.add(attribute(element, "target", "dev") or "")
    return frozenset(found)
