# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is there already: what differs from the wish, and the steps that bring it there.

What the wish does not name stays as it is. What this version cannot change without losing something is an error that
says so, never a silent nothing.
"""

from __future__ import annotations

import copy
import typing as t
from dataclasses import dataclass, field, replace

from ansible_collections.brine.virt.plugins.module_utils._errors import (
    ConflictError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._host import domains as host_domains
from ansible_collections.brine.virt.plugins.module_utils._host.connection import errors_as_ours, libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.domains import Domain
from ansible_collections.brine.virt.plugins.module_utils._model.image_name import parse_image_volume
from ansible_collections.brine.virt.plugins.module_utils._model.metadata import ImageNote, MachineNotes
from ansible_collections.brine.virt.plugins.module_utils._model.rules import inside
from ansible_collections.brine.virt.plugins.module_utils._model.spec import Disk, Machine, Nic
from ansible_collections.brine.virt.plugins.module_utils._model.units import MIB, parse_size_mib
from ansible_collections.brine.virt.plugins.module_utils._seeding.nocloud import seed_digest
from ansible_collections.brine.virt.plugins.module_utils._work.build import autostart_step, start_step
from ansible_collections.brine.virt.plugins.module_utils._work.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._work.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._xml import etree


@dataclass
class Difference:
    """What is, what shall be, and the way there."""

    before: dict[str, t.Any] = field(default_factory=dict)
    after: dict[str, t.Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)

    def add(self, name: str, before: t.Any, after: t.Any) -> bool:
        """Take note of a field if it differs; whether it does."""
        if before == after:
            return False
        self.before[name], self.after[name] = before, after
        return True


def difference(machine: Machine, domain: Domain, hypervisor: Hypervisor, where: str) -> Difference:
    """The difference between the wish and the machine. Raises what cannot be done before anything is done."""
    if domain.notes is None:
        raise ConflictError(
            f"a machine {machine.name!r} that this collection did not make lives on this hypervisor",
            where=inside(where, "name"),
            hint="Choose another name",
        )
    found = Difference()
    _check_devices(machine, domain, domain.notes, hypervisor, where)
    _compare_size(machine, domain, hypervisor, found)
    _compare_texts(machine, domain, hypervisor, found)
    _compare_notes(machine, domain, domain.notes, hypervisor, found)
    _compare_power(machine, domain, hypervisor, found)
    _look_at_origin(machine, domain.notes, hypervisor, found)
    return found


def _check_devices(machine: Machine, domain: Domain, notes: MachineNotes, hypervisor: Hypervisor, where: str) -> None:
    """Disks and nics are as the wish has them, or this version says that it cannot change them."""
    targets = {note.name: note.target for note in notes.disks}
    for disk in machine.disks:
        place = inside(where, f"disks[{disk.name}]")
        if disk.name not in targets:
            raise UnsupportedError(
                f"machine {machine.name} has no disk {disk.name!r}",
                where=place,
                hint="This version cannot add a disk to a machine that is there already",
            )
        _check_disk_size(disk, _disk_path(domain, targets[disk.name]), hypervisor, place)
    macs = {note.name: note.mac for note in notes.nics}
    for nic in machine.nics:
        _check_nic(nic, macs.get(nic.name), domain, inside(where, f"nics[{nic.name}]"))


def _disk_path(domain: Domain, target: str) -> str | None:
    source = domain.xml.find(f"devices/disk/target[@dev='{target}']/../source")
    return None if source is None else source.get("file") or source.get("dev")


def _check_disk_size(disk: Disk, path: str | None, hypervisor: Hypervisor, place: str) -> None:
    if disk.size_mib is None or path is None:
        return
    with errors_as_ours(f"cannot look at disk {disk.name}", place):
        have_mib = hypervisor.conn.storageVolLookupByPath(path).info()[1] // MIB
    if disk.size_mib != have_mib:
        raise UnsupportedError(
            f"the disk has {have_mib} MiB, the wish says {disk.size_mib} MiB",
            where=f"{place}.size",
            hint="A disk never shrinks; growing one that is there already is beyond this version",
        )


def _check_nic(nic: Nic, mac: str | None, domain: Domain, place: str) -> None:
    if mac is None:
        raise UnsupportedError(
            f"machine {domain.name} has no nic {nic.name!r}",
            where=place,
            hint="This version cannot add a nic to a machine that is there already",
        )
    if nic.mac != mac:
        raise UnsupportedError(
            f"the nic has the MAC address {mac}, the wish says {nic.mac}",
            where=f"{place}.mac",
            hint="This version cannot change it",
        )
    element = domain.xml.find(f"devices/interface/mac[@address='{mac}']/..")
    source = None if element is None else element.find("source")
    have = (None, None) if source is None else (element.get("type"), source.get(element.get("type")))
    if have != (nic.type, nic.source):
        raise UnsupportedError(
            f"the nic is on {have[0]} {have[1]}, the wish says {nic.type} {nic.source}",
            where=place,
            hint="This version cannot move it",
        )


def _compare_size(machine: Machine, domain: Domain, hypervisor: Hypervisor, found: Difference) -> None:
    """Memory and vCPUs of a machine are changed on record; a living one gets them at its next boot."""
    memory = domain.xml.find("memory")
    have_mib = parse_size_mib(f"{memory.text}{memory.get('unit', 'KiB')}")
    more_memory = found.add("memory_mib", have_mib, machine.memory_mib)
    more_vcpus = found.add("vcpus", int(domain.xml.findtext("vcpu", "1")), machine.vcpus)
    if not (more_memory or more_vcpus):
        return
    changed = copy.deepcopy(domain.xml)
    for tag in ("memory", "currentMemory"):
        element = changed.find(tag)
        if element is not None:
            element.text, element.attrib["unit"] = str(machine.memory_mib), "MiB"
    vcpu = changed.find("vcpu")
    vcpu.text = str(machine.vcpus)
    vcpu.attrib.pop("current", None)
    old, new = (etree.tostring(xml, encoding="unicode") for xml in (domain.xml, changed))
    words = f"set {machine.vcpus} vCPUs and {machine.memory_mib} MiB of memory"
    found.steps.append(
        Step(
            f"{words} for {machine.name}{' at its next boot' if domain.active else ''}",
            lambda: host_domains.define(hypervisor.conn, new, machine.name),
            lambda: host_domains.define(hypervisor.conn, old, machine.name),
        )
    )
    if domain.active:
        found.pending.extend(name for name, differs in (("memory", more_memory), ("vcpus", more_vcpus)) if differs)


def _compare_texts(machine: Machine, domain: Domain, hypervisor: Hypervisor, found: Difference) -> None:
    for name, kind in (("title", "VIR_DOMAIN_METADATA_TITLE"), ("description", "VIR_DOMAIN_METADATA_DESCRIPTION")):
        wanted = getattr(machine, name)
        have = domain.xml.findtext(name, "")
        if wanted is None or not found.add(name, have, wanted):
            continue
        found.steps.append(_text_step(domain, name, getattr(libvirt, kind), have, wanted))


def _text_step(domain: Domain, name: str, kind: int, have: str, wanted: str) -> Step:
    def write(text: str) -> None:
        with errors_as_ours(f"cannot write the {name} of machine {domain.name}"):
            domain.handle.setMetadata(kind, text or None, None, None, host_domains.affect(domain.handle))

    return Step(f"set the {name} of {domain.name}", lambda: write(wanted), lambda: write(have))


def _compare_notes(
    machine: Machine, domain: Domain, notes: MachineNotes, hypervisor: Hypervisor, found: Difference
) -> None:
    wanted = notes
    if machine.tags is not None and found.add("tags", list(notes.tags), list(machine.tags)):
        wanted = replace(wanted, tags=machine.tags)
    if machine.variables is not None and found.add("variables", notes.variables, machine.variables):
        wanted = replace(wanted, variables=machine.variables)
    if wanted != notes:
        found.steps.append(
            Step(
                f"write tags and variables of {machine.name}",
                lambda: host_domains.write_notes(domain.handle, wanted),
                lambda: host_domains.write_notes(domain.handle, notes),
            )
        )


def _compare_power(machine: Machine, domain: Domain, hypervisor: Hypervisor, found: Difference) -> None:
    if machine.autostart is not None:
        with errors_as_ours(f"cannot read the autostart of machine {machine.name}"):
            have = bool(domain.handle.autostart())
        if found.add("autostart", have, machine.autostart):
            found.steps.append(autostart_step(machine.name, machine.autostart, hypervisor))
    if machine.start and found.add("running", domain.active, True):
        # What was to wait for the next boot is in place when this very run boots the machine.
        found.steps.append(start_step(machine.name, hypervisor))


def _look_at_origin(machine: Machine, notes: MachineNotes, hypervisor: Hypervisor, found: Difference) -> None:
    """A living machine is not made anew because its image or its seed has; it is only said."""
    if notes.image is not None and _other_image(machine, notes.image, hypervisor):
        found.outdated.append("image")
    if notes.seed is not None and seed_digest(machine) != notes.seed.sha256:
        found.outdated.append("seed")


def _other_image(machine: Machine, image: ImageNote, hypervisor: Hypervisor) -> bool:
    """Whether the wish names another image than the one the machine was made from."""
    if machine.image is None or machine.image == image.volume:
        return False
    if machine.image != image.name or parse_image_volume(machine.image):
        return True
    try:
        return bool(hypervisor.image(machine.image).volume != image.volume)
    except VirtError:
        # Gone from the store, or there in several versions: nothing that this machine could be compared with.
        return False
