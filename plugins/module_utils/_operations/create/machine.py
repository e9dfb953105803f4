# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is not there yet: everything checked first, then the steps that build it.

The order is what makes a killed run harmless. The domain is defined first, marked ``building``, with the list of
volumes that will be made, and what will tell each from others of its name; it is marked ``ready`` when they all stand.
Whoever finds ``building`` can remove what this run has made, and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import typing as t
import uuid
from collections.abc import Sequence
from dataclasses import replace

from ..._base.errors import ConflictError, inside
from ..._base.xml import read_description
from ..._host.connection import is_local, libvirt, translate_errors
from ..._host.machines import domains as host_domains
from ..._host.machines.domains import Domain
from ..._host.machines.schema import check_schema
from ..._host.machines.start_watch import last_start
from ..._host.machines.undefine import own_files, undefine
from ..._model.metadata.machine import BUILDING, READY, DiskNote, ImageNote, MachineNotes, NicNote, SeedNote
from ..._model.spec.machine import Machine
from ..._model.spec.start_order import order_of
from ..._model.xml.devices import disk_targets
from ..._model.xml.domain import domain_xml
from ..._seeding.host_keys import HostKey, make_host_keys
from ..._seeding.nocloud import seed_digest
from ..disks.new_volume import VolumeOwner
from ..disks.planned import PlannedDisk, check_free_space, disk_step, plan_disk
from ..disks.sharing import check_fragment_disks
from ..hypervisor import Hypervisor
from ..plan import Step, Turn
from .seed import PlannedSeed, plan_seed, seed_step
from .unfinished import steps_to_clear


def steps_to_build(machine: Machine, hypervisor: Hypervisor, where: str, unfinished: Domain | None) -> list[Step]:
    """The steps from nothing, or from what a killed run left, to the running machine.

    All checks happen here, before the first step. where: the machine's place in the input.
    Raises an error of ours when the hypervisor cannot have this machine.
    """
    # What is to be taken out of a machine is not put into a new one.
    machine = replace(
        machine,
        disks=tuple(disk for disk in machine.disks if disk.present),
        nics=tuple(nic for nic in machine.nics if nic.present),
    )
    own_volumes = unfinished.notes.volumes if unfinished and unfinished.notes else ()
    claim = unfinished.handle.UUIDString() if unfinished and unfinished.notes and unfinished.notes.claimed else None
    check_hypervisor(machine, hypervisor)
    platform = hypervisor.guests.platform(machine, where)
    disks = [plan_disk(disk, machine, hypervisor, own_volumes) for disk in machine.disks]
    check_fragment_disks(machine, hypervisor, where)
    check_free_space(disks, hypervisor, where)
    seed = plan_seed(machine, disks, hypervisor, where, own_volumes)
    keys = make_host_keys() if seed else ()
    targets = disk_targets(machine.disks)
    notes = replace(_notes(machine, disks, seed, keys), started=last_start(machine.name))
    # Chosen here, so that a machine of this name can be told from this one.
    identity = claim or str(uuid.uuid4())
    xml = domain_xml(
        machine,
        notes=notes,
        host=platform,
        disks=[planned.placed(targets[planned.disk.name]) for planned in disks],
        seed=seed.source if seed else None,
        uuid=identity,
    )
    validate = needs_schema(machine)
    if validate:
        check_schema(xml, inside(where, "xml") if machine.xml else where)
    # A claim is taken over in one stroke: were it removed first, another run could find the name free meanwhile.
    steps = steps_to_clear(unfinished, hypervisor) if unfinished and claim is None else []
    steps.append(_define_step(machine.name, identity, xml, hypervisor, validate=validate))
    maker = VolumeOwner(hypervisor, machine.name, new=True, uuid=identity)
    steps.extend(step for step in (disk_step(planned, maker) for planned in disks) if step)
    if seed:
        steps.append(seed_step(machine, seed, keys, maker))
    steps.append(_ready_step(machine.name, notes, hypervisor))
    if machine.autostart:
        steps.append(autostart_step(machine.name, True, hypervisor))
    if machine.start:
        steps.append(start_step(machine.name, hypervisor, Turn(notes.order, notes.delay_seconds)))
    return steps


def needs_schema(machine: Machine) -> bool:
    """Whether a spec has what the options cannot check one by one. Most have not, and reading the schema takes time."""
    return bool(
        machine.xml
        or set(machine.hardware) - {"vcpus", "memory"}
        or any(disk.options for disk in machine.disks)
        or any(nic.options for nic in machine.nics)
    )


def check_memory(machine: Machine, hypervisor: Hypervisor) -> None:
    """Raise ConflictError for more than the whole hypervisor has: such a machine does not start."""
    if machine.memory_mib > hypervisor.memory_mib:
        raise ConflictError(
            f"{machine.name} needs {machine.memory_mib} MiB of memory, "
            f"but this hypervisor has {hypervisor.memory_mib} MiB",
            where=machine.given.at("memory"),
        )


def check_hypervisor(machine: Machine, hypervisor: Hypervisor) -> None:
    """Memory, and what the nics are plugged into, for a machine that is to be."""
    check_memory(machine, hypervisor)
    for nic in machine.nics:
        hypervisor.check_nic(nic)
        # The first of several machines of a task that ask for one address has it.
        owner = hypervisor.macs.setdefault(nic.mac, machine.name)
        if owner != machine.name:
            raise ConflictError(
                f"the MAC address {nic.mac} belongs to machine {owner}",
                where=nic.given.at("mac"),
                hint="Give another one with mac",
            )


def _notes(
    machine: Machine, disks: Sequence[PlannedDisk], seed: PlannedSeed | None, keys: Sequence[HostKey]
) -> MachineNotes:
    targets = disk_targets(machine.disks)
    images = ((planned.image, planned.disk.name) for planned in disks)
    image = next((ImageNote(one.name, one.volume, one.pool, disk) for one, disk in images if one), None)
    made = [planned.note for planned in disks] + [seed.note if seed else None]
    return MachineNotes(
        status=BUILDING,
        image=image,
        volumes=tuple(note for note in made if note),
        disks=tuple(DiskNote(disk.name, targets[disk.name]) for disk in machine.disks),
        nics=tuple(NicNote(nic.name, nic.mac, nic.addresses) for nic in machine.nics),
        tags=machine.tags or (),
        labels=machine.labels or (),
        anti_affinity=machine.anti_affinity or (),
        order=order_of(machine.order),
        delay_seconds=machine.delay_seconds or 0,
        variables=machine.variables or {},
        seed=SeedNote(machine.seed.method, seed_digest(machine), machine.seed.user) if seed else None,
        host_keys=tuple(key.public for key in keys),
        fragment=fragment_digest(machine),
    )


def fragment_digest(machine: Machine) -> str | None:
    """What tells one XML fragment of the user from another."""
    return hashlib.sha256(machine.xml.encode()).hexdigest() if machine.xml else None


def _define_step(name: str, identity: str, xml: str, hypervisor: Hypervisor, *, validate: bool) -> Step:
    # The files that libvirt makes for it when it starts, as far as it is seen that they were not there before.
    new_files: list[str] = []

    def apply() -> None:
        made = host_domains.define(hypervisor.conn, xml, name, validate=validate)
        with translate_errors(f"cannot inspect machine {name}"):
            description = read_description(f"machine {name}", made.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
            if is_local(hypervisor.conn.getURI()):
                new_files.extend(path for path in own_files(description) if not os.path.lexists(path))

    def undo() -> None:
        """Somebody may have defined a machine of this name since the plan was made, or moved one here."""
        domain = host_domains.list_domains(hypervisor.conn).get(name)
        if domain and domain.handle.UUIDString() == identity:
            undefine(hypervisor.conn, name, never_started=not new_files)

    return Step(f"define machine {name}", apply, undo)


def _ready_step(name: str, notes: MachineNotes, hypervisor: Hypervisor) -> Step:
    def write(now: MachineNotes) -> None:
        with translate_errors(f"cannot find machine {name}"):
            handle = hypervisor.conn.lookupByName(name)
        host_domains.write_notes(handle, now)

    whole = replace(notes, status=READY, volumes=tuple(volume.whole for volume in notes.volumes))
    # Taking it back marks it unfinished again, so that a run killed while undoing is recognised as well.
    return Step(f"mark {name} as ready", lambda: write(whole), lambda: write(notes))


def autostart_step(name: str, wanted: bool, hypervisor: Hypervisor) -> Step:
    """The step that makes a machine start with its hypervisor, or not."""

    def switch(on: bool) -> None:
        with translate_errors(f"cannot switch the autostart of machine {name}"):
            hypervisor.conn.lookupByName(name).setAutostart(int(on))

    return Step(
        f"switch autostart of {name} {'on' if wanted else 'off'}", lambda: switch(wanted), lambda: switch(not wanted)
    )


def start_step(name: str, hypervisor: Hypervisor, turn: Turn) -> Step:
    """The step that starts a machine; undoing it pulls its plug again, unless somebody else has started it."""
    started: list[str] = []

    def start() -> None:
        with translate_errors(f"cannot start machine {name}"):
            handle: t.Any = hypervisor.conn.lookupByName(name)
            try:
                handle.create()
            except libvirt.libvirtError:
                if not handle.isActive():
                    raise
            else:
                # One that was paused when it was saved comes back so.
                if handle.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
                    handle.resume()
                started.append(name)

    def stop() -> None:
        with translate_errors(f"cannot stop machine {name}"):
            handle: t.Any = hypervisor.conn.lookupByName(name)
            if started and handle.isActive():
                handle.destroy()

    return Step(f"start {name}", start, stop, turn)
