# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is there already: what differs from the spec, and the steps that bring it there.

What the spec does not name stays as it is. What cannot be changed without losing something is an error that says so,
never a silent nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

from ..._base.errors import ConflictError, UnsupportedError, VirtError, inside
from ..._base.xml import etree
from ..._host.connection import libvirt, translate_errors
from ..._host.machines import domains as host_domains
from ..._host.machines.domains import Domain
from ..._host.machines.schema import check_schema
from ..._host.storage import volumes
from ..._host.storage.ceph import require_bindings
from ..._host.storage.usage import Usage, require_unused
from ..._model.image.name import parse_image_volume
from ..._model.metadata.machine import ImageNote, SeedNote
from ..._model.spec.machine import Machine
from ..._model.spec.machine_state import RUNNING, STOPPED
from ..._model.spec.start_order import order_of
from ..._model.xml.devices import arrange_boot_order, in_boot_order
from ..._seeding.nocloud import BSDTAR, is_made_from, seed_digest, seed_documents, seed_image
from ..create.decision import growth_of
from ..create.machine import autostart_step, check_memory, needs_schema, start_step
from ..hypervisor import Hypervisor
from ..ownership import OTHER, SAME, UNTOLD, identify
from ..plan import Step, Turn
from .disks import compare_disks
from .draft import Draft
from .hardware import compare_hardware
from .nics import compare_nics


def difference(machine: Machine, domain: Domain, hypervisor: Hypervisor, where: str) -> Draft:
    """The difference between the spec and the machine. Raises what cannot be done before anything is done."""
    if domain.notes is None:
        raise ConflictError(
            f"this hypervisor has a machine {machine.name!r} that this collection did not create",
            where=inside(where, "name"),
            hint="Choose another name, or take that machine into this collection first (brine.virt.adopt)",
        )
    if growth_of(machine.name, machine.memory_mib, 0, domain) is not None:
        check_memory(machine, hypervisor)
    draft = Draft(domain, domain.notes, hypervisor)
    compare_hardware(machine, draft, where)
    compare_disks(machine, draft, where)
    compare_nics(machine, draft)
    _settle_boot_order(machine, draft)
    if needs_schema(machine) and draft.planned is not None:
        xml = etree.tostring(draft.planned, encoding="unicode")
        check_schema(xml, inside(where, "xml") if machine.xml else where)
    _compare_texts(machine, draft)
    _compare_notes(machine, draft)
    _compare_origin(machine, draft, where)
    _require_not_saved(draft, where)
    _compare_power(machine, draft)
    return draft


def _require_not_saved(draft: Draft, where: str) -> None:
    """Raise ConflictError when the devices of a saved machine would change: it resumes with those that it had."""
    changes = draft.device_changes
    if not changes or draft.domain.active:
        return
    with translate_errors(f"cannot inspect machine {draft.name}"):
        saved = bool(draft.domain.handle.hasManagedSaveImage(0))
    if saved:
        raise ConflictError(
            f"{draft.name} is saved, and will resume as it was, without these changes: {', '.join(changes)}",
            where=where or None,
            hint=f"Start it first, or discard its saved state: virsh managedsave-remove {draft.name}",
        )


def _settle_boot_order(machine: Machine, draft: Draft) -> None:
    """Where the spec orders single devices, see arrange_boot_order."""
    disks = [disk.name for disk in machine.disks if "boot_order" in disk.options]
    macs = [nic.mac for nic in machine.nics if "boot_order" in nic.options]
    if not disks and not macs:
        return
    targets = {note.name: note.target for note in draft.notes.disks}
    named = {*(targets.get(name) for name in disks), *macs}
    known = {*(targets.get(disk.name) for disk in machine.disks), *(nic.mac for nic in machine.nics)}
    # A disk that is gone has no target; nor has a device of the host, which nobody has said anything of.
    named.discard(None)
    known.discard(None)
    now = draft.domain.xml if draft.planned is None else draft.planned
    after = copy.deepcopy(now)
    if arrange_boot_order(after, named, known):
        draft.differ(("boot_order",), in_boot_order(draft.domain.xml), in_boot_order(after))
        arrange_boot_order(draft.record("boot order"), named, known)


def _compare_texts(machine: Machine, draft: Draft) -> None:
    for name, kind in (("title", "VIR_DOMAIN_METADATA_TITLE"), ("description", "VIR_DOMAIN_METADATA_DESCRIPTION")):
        wanted = getattr(machine, name)
        have = draft.domain.xml.findtext(name, "")
        if wanted is None or wanted == have:
            continue
        draft.differ((name,), have, wanted)
        draft.other_steps.append(_text_step(draft.domain, name, getattr(libvirt, kind), have, wanted))


def _text_step(domain: Domain, name: str, kind: int, have: str, wanted: str) -> Step:
    def write(text: str) -> None:
        with translate_errors(f"cannot write the {name} of machine {domain.name}"):
            domain.handle.setMetadata(kind, text or None, None, None, host_domains.affect(domain.handle))

    return Step(f"set the {name} of {domain.name}", lambda: write(wanted), lambda: write(have))


def _compare_notes(machine: Machine, draft: Draft) -> None:
    for name in ("tags", "labels", "anti_affinity", "variables", "delay_seconds"):
        value = getattr(machine, name)
        if value is not None:
            draft.note(name, value)
    if machine.order is not None:
        draft.note("order", order_of(machine.order))
    # Who names a nic without them asks for no others: the guest keeps those that it was given.
    _note_addresses({nic.name: nic.addresses for nic in machine.nics if "addresses" in nic.given.values}, draft)


def _note_addresses(wanted: Mapping[str, tuple[str, ...]], draft: Draft) -> None:
    """Remember the addresses of nics, by their names; others stay as they are."""
    for note in draft.notes.nics:
        if wanted.get(note.name, note.addresses) != note.addresses:
            draft.differ(("nics", note.name, "addresses"), list(note.addresses), list(wanted[note.name]))
            draft.noted.append(f"addresses of {note.name}")
    draft.notes = replace(
        draft.notes,
        nics=tuple(replace(note, addresses=wanted.get(note.name, note.addresses)) for note in draft.notes.nics),
    )


def _compare_power(machine: Machine, draft: Draft) -> None:
    hypervisor, domain = draft.hypervisor, draft.domain
    if machine.autostart is not None:
        with translate_errors(f"cannot read the autostart of machine {machine.name}"):
            have = bool(domain.handle.autostart())
        if have != machine.autostart:
            draft.differ(("autostart",), have, machine.autostart)
            draft.other_steps.append(autostart_step(machine.name, machine.autostart, hypervisor))
    if machine.start and not domain.active:
        # What was to wait for the next boot is in place when this very run boots the machine.
        draft.differ(("state",), STOPPED, RUNNING)
        turn = Turn(draft.notes.order, draft.notes.delay_seconds)
        draft.other_steps.append(start_step(machine.name, hypervisor, turn))


def _compare_origin(machine: Machine, draft: Draft, where: str) -> None:
    """An existing machine is not recreated because its image or its seed has changed: that is reported, or its seed is
    refreshed."""
    notes, hypervisor = draft.notes, draft.hypervisor
    # As in a new machine: what is taken out of it has no place in its seed.
    machine = replace(machine, nics=tuple(nic for nic in machine.nics if nic.present))
    if notes.image is not None and _other_image(machine, notes.image, hypervisor):
        draft.outdated.append("image")
    have = notes.seed.sha256 if notes.seed else None
    if is_made_from(machine, have):
        return
    if machine.seed_policy == "refresh":
        _refresh_seed(machine, draft, where)
    elif machine.seed_requested:
        draft.outdated.append("seed")


def _refresh_seed(machine: Machine, draft: Draft, where: str) -> None:
    """Put a new seed in the place of the old one; the guest reads it at its next boot, and keeps its own host keys.

    Raises UnsupportedError for a machine whose seed is no volume, ConflictError when something else uses that.
    """
    old = draft.notes.seed
    note = next((volume for volume in draft.notes.volumes if volume.role == "seed"), None)
    if old is None or note is None or machine.seed.method != old.method:
        raise UnsupportedError(
            f"machine {machine.name} was seeded by {old.method if old else 'nothing'}, and has no seed volume",
            where=inside(where, "seed_policy"),
            hint="Only a seed of method nocloud can be refreshed",
        )
    _require_whole(machine, old, draft, where)
    pool = draft.hypervisor.pools.get(note.pool)
    if pool.clones_images:
        require_bindings(pool, inside(where, "seed_policy"), "leave it as it is with seed_policy: keep")

    def require_own(usage: Usage) -> None:
        """Raise ConflictError when anything else has the volume, or may be in its place: what is written over is
        lost."""
        told = identify(pool, note)
        attached = machine.name in usage.of(pool, note.name, owner=machine.name).machines
        if told == OTHER or (told == UNTOLD and not attached):
            raise ConflictError(
                f"volume {note.name} of pool {note.pool} is kept: nothing proves that it is the seed that was created "
                f"for machine {machine.name}",
                where=inside(where, "seed_policy"),
                hint="Another one may have its name now. To leave it as it is: seed_policy: keep",
            )
        require_unused(usage, [(pool, note.name)], besides=machine.name, fresh=told == SAME)

    def refill() -> None:
        conn = draft.hypervisor.conn
        require_own(Usage(conn))
        volumes.refill(pool, note.name, seed_image(documents), conn)

    require_own(draft.hypervisor.usage)
    BSDTAR.require(inside(where, "seed_policy"))
    documents = seed_documents(machine, ())
    draft.differ(("seed",), old.sha256, seed_digest(machine))
    if machine.seed.network is None:
        _note_addresses({nic.name: nic.addresses for nic in machine.nics}, draft)
    draft.notes = replace(draft.notes, seed=SeedNote(old.method, seed_digest(machine), machine.seed.user))
    draft.live_steps.append(Step(f"write the new seed of {machine.name} ({note.name} in pool {note.pool})", refill))
    if draft.live is not None:
        draft.pending.append("seed")


def _require_whole(machine: Machine, old: SeedNote, draft: Draft, where: str) -> None:
    """Raise ConflictError when the new seed lacks what nobody asked to change, and only the old one knows: a nic's
    configuration, without which the guest has no network, or the user that Ansible logs in as."""
    place = inside(where, "seed_policy")
    named = {nic.name: nic.addresses for nic in machine.nics}
    of_default = not {"nics", "nic_profile"} & set(machine.given.values)
    there = {mac.get("address") for mac in draft.domain.xml.iterfind("devices/interface/mac")}
    missing = [
        note.name
        for note in draft.notes.nics
        if note.mac in there and (note.name not in named or (of_default and named[note.name] != note.addresses))
    ]
    if missing and machine.seed.network is None:
        raise ConflictError(
            f"the new seed would have no network configuration for {', '.join(missing)}, as the task does not name it",
            where=place,
            hint="Give all nics of the machine as they were given when it was created",
        )
    if not machine.seed_requested and machine.seed.user != old.user:
        raise ConflictError(
            f"the task names no seed, and that of {machine.name} has the user {old.user}, whom the new one would lack",
            where=place,
            hint="Give the whole seed of the machine",
        )


def _other_image(machine: Machine, image: ImageNote, hypervisor: Hypervisor) -> bool:
    """Whether the spec names another image than the one the machine was made from."""
    asked = next((disk.image for disk in machine.disks if disk.name == image.disk), None) or machine.image
    if asked is None or asked == image.volume:
        return False
    have, wanted = parse_image_volume(image.volume), parse_image_volume(asked)
    try:
        wanted = wanted or parse_image_volume(hypervisor.image(asked).volume)
    except VirtError:
        # Gone from the store, or there in several versions: nothing but the name to compare this machine with.
        return asked != image.name
    # The same content is the same image, whatever it is called.
    return have is None or wanted is None or have.digest != wanted.digest
