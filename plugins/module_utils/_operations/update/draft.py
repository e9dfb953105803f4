# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is there already on its way to the spec: what differs, and the steps in the order that is safe.

Volumes first, marked in the notes as being made; then all of the definition in one stroke; then what the running
machine takes at once; the notes last. A run that is killed in between leaves what the next one recognises by the notes.
"""

from __future__ import annotations

import copy
import functools
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..._base.errors import ConflictError, VirtError
from ..._base.xml import etree, need, parse_xml, read_description
from ..._host.connection import libvirt, translate_errors
from ..._host.machines import domains as host_domains
from ..._host.machines.domains import Domain
from ..._host.machines.redefine import MachineGoneError, gone, is_defined, redefine, require_defined
from ..._model.metadata.machine import MachineNotes, VolumeNote, find_notes, notes_to_element
from ..._model.xml.devices import attachable
from ..._seeding.secret_values import is_secret_name
from ..hypervisor import Hypervisor
from ..plan import Step

# libvirt's words for it, which have no code of their own: src/conf/domain_addr.c.
_NO_SLOT = "No more available PCI slots"


class Draft:
    """One machine as it is, and what is to be done to it. Nothing is changed before the steps are run."""

    def __init__(self, domain: Domain, notes: MachineNotes, hypervisor: Hypervisor) -> None:
        self.domain = domain
        self.hypervisor = hypervisor
        self.known_notes = notes
        self.notes = notes
        self.before: dict[str, t.Any] = {}
        self.after: dict[str, t.Any] = {}
        # Volumes that are removed on the way: they are noted until they are gone.
        self.leaving: list[VolumeNote] = []
        self.pending: list[str] = []
        self.outdated: list[str] = []
        # What else the metadata get that a user has asked for.
        self.noted: list[str] = []
        self.volume_steps: list[Step] = []
        self.live_steps: list[Step] = []
        self.other_steps: list[Step] = []
        self._record: tuple[etree._Element, str] | None = None
        self._recorded: list[str] = []
        # Whether an error says already that the machine has left.
        self._said_gone = False

    @property
    def uuid(self) -> str:
        """The machine's UUID."""
        return str(self.domain.handle.UUIDString())

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.domain.name

    @functools.cached_property
    def live(self) -> etree._Element | None:
        """The XML of the running machine, None for one that is off."""
        if not self.domain.active:
            return None
        return host_domains.description_of(self.domain.handle, libvirt.VIR_DOMAIN_XML_SECURE)

    @functools.cached_property
    def secret(self) -> etree._Element:
        """The XML of the definition with its passwords."""
        return host_domains.whole_definition(self.domain.handle)

    def drop_volume(self, note: VolumeNote) -> None:
        """Its volume is no longer the machine's own."""
        self.notes = replace(self.notes, volumes=tuple(other for other in self.notes.volumes if other != note))

    def note(self, name: str, value: t.Any) -> None:
        """Have a field of the metadata, which is nowhere else in the machine, as the task asks for it."""
        have = getattr(self.notes, name)
        if have != value:
            before, after = (list(one) if isinstance(one, tuple) else one for one in (have, value))
            if name == "variables":
                # That of the metadata is in no option of the task, by which results are kept from showing secrets.
                before, after = _without_secrets(before, {}), _without_secrets(after, before)
            self.differ((name,), before, after)
            self.notes = replace(self.notes, **{name: value})
            self.noted.append(name)

    def differ(self, path: Sequence[str], before: t.Any, after: t.Any) -> None:
        """Take note of a difference for the diff; path: the words that lead to it."""
        for side, value in ((self.before, before), (self.after, after)):
            for word in path[:-1]:
                side = side.setdefault(word, {})
            if value is not None:
                side[path[-1]] = value

    def record(self, what: str) -> etree._Element:
        """The XML of the definition, to be changed; what: the change in words."""
        if self._record is None:
            # With the passwords in it: redefining a machine without them would take them away.
            self._record = copy.deepcopy(self.secret), etree.tostring(self.secret, encoding="unicode")
        if what not in self._recorded:
            self._recorded.append(what)
        return self._record[0]

    def replace_record(self, xml: etree._Element) -> None:
        """Put another XML in the place of the one to be changed."""
        if self._record is not None:
            self._record = xml, self._record[1]

    @property
    def planned(self) -> etree._Element | None:
        """The new XML as far as it is planned, None where nothing in the definition changes."""
        return None if self._record is None else self._record[0]

    @property
    def device_changes(self) -> list[str]:
        """In words, what is to change in the definition, in volumes and in the running machine."""
        return [*self._recorded, *(step.description for step in (*self.volume_steps, *self.live_steps))]

    @property
    def _noted(self) -> MachineNotes:
        """The notes that stand in the domain while the steps are run."""
        if not self.volume_steps:
            return self.known_notes
        # A new volume may have the name of one that is removed.
        new = {(note.pool, note.name) for note in self.notes.volumes}
        leaving = tuple(note for note in self.leaving if (note.pool, note.name) not in new)
        return replace(self.notes, volumes=(*self.notes.volumes, *leaving))

    def steps(self) -> list[Step]:
        """All steps in their order."""
        steps = []
        noted = self._noted
        if self.volume_steps:
            if noted != self.known_notes:
                steps.append(self._notes_step(f"record the new disks of {self.name}", noted, self.known_notes))
            steps.extend(replace(step, apply=self._here(step.apply)) for step in self.volume_steps)
        if self._record is not None:
            steps.append(self._define_step())
        steps.extend(self._in_machine(step) for step in self.live_steps)
        final = replace(self.notes, volumes=tuple(volume.whole for volume in self.notes.volumes))
        if final != self.known_notes:
            what = f"set {', '.join(self.noted)} of" if self.noted else "write the metadata of"
            steps.append(self._notes_step(f"{what} {self.name}", final, noted))
        return [*steps, *(self._in_machine(step) for step in self.other_steps)]

    def _in_machine(self, step: Step) -> Step:
        """A step that changes the machine: when that has left meanwhile, it is said, and nothing is to be rolled back.

        What was changed of it may have gone with it.
        """

        def undo() -> None:
            if self._said_gone and not is_defined(self.hypervisor.conn, self.uuid):
                return
            require_defined(self.hypervisor.conn, self.uuid, self.name)
            if step.undo is not None:
                step.undo()

        return replace(step, apply=self._here(step.apply), undo=undo if step.undo is not None else None)

    def _here(self, work: t.Callable[[], t.Any]) -> t.Callable[[], None]:
        """The same work. Where it fails because the machine has left, libvirt has many words for it; here is one."""

        def wrapped() -> None:
            try:
                work()
            except VirtError as exc:
                if not isinstance(exc, MachineGoneError) and is_defined(self.hypervisor.conn, self.uuid):
                    raise
                self._said_gone = True
                raise gone(self.name) from exc

        return wrapped

    def _define_step(self) -> Step:
        record, before = self._record or (self.secret, "")
        # The notes of disks in the making stand in the domain by now, and stay there until they are whole or gone.
        noted = self._noted
        new, old = _with_notes(record, noted), _with_notes(parse_xml(before), noted)
        words = ", ".join(self._recorded)
        begun: list[str] = []
        # As libvirt has it from then on, which is not word by word what it was given.
        made: list[bytes] = []

        def apply() -> None:
            self._require_unchanged(old, noted)
            begun.append(new)
            redefine(self.hypervisor.conn, new, self.uuid, self.name)
            made.append(self._defined_xml(noted))

        def undo() -> None:
            now = self._defined_xml(noted) if begun else _canonical(old)
            if now == _canonical(old):
                return
            if made and now not in made:
                raise ConflictError(
                    f"machine {self.name} has been changed by something else since then, and is left as it is now",
                    hint=f"virsh dumpxml --inactive {self.name} shows it",
                )
            redefine(self.hypervisor.conn, old, self.uuid, self.name)

        return self._in_machine(Step(f"change the definition of {self.name}: {words}", apply, undo))

    def _require_unchanged(self, planned: str, noted: MachineNotes) -> None:
        """Raise ConflictError when the description is not the planned one any more, MachineGoneError when the machine
        left.

        It is replaced as a whole: what others have written into it would be lost, and a machine that has been moved
        away would be here again.
        """
        require_defined(self.hypervisor.conn, self.uuid, self.name)
        if self._defined_xml(noted) != _canonical(planned):
            raise ConflictError(
                f"machine {self.name} has been changed by something else since this was planned", hint="Run it again"
            )

    def _defined_xml(self, noted: MachineNotes) -> bytes:
        """The description as it is now, with these notes, in a form that can be compared."""
        return _canonical(_with_notes(host_domains.whole_definition(self.domain.handle), noted))

    def _notes_step(self, what: str, new: MachineNotes, old: MachineNotes) -> Step:
        handle = self.domain.handle
        step = Step(what, lambda: host_domains.write_notes(handle, new), lambda: host_domains.write_notes(handle, old))
        return self._in_machine(step)

    def live_step(self, what: str, apply: t.Callable[[], t.Any], undo: t.Callable[[], t.Any] | None = None) -> None:
        """A change of the running machine."""
        self.live_steps.append(
            Step(what, _translating_errors(what, apply), _translating_errors(what, undo) if undo else None)
        )

    def live_attach(
        self, what: str, device: etree._Element, find: t.Callable[[etree._Element], etree._Element | None] | None
    ) -> None:
        """The running machine gets a device. find: the same in its XML, to be taken back; None where it may stay."""
        handle, xml = self.domain.handle, attachable(device, self.live)

        def attach() -> None:
            try:
                handle.attachDeviceFlags(xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)
            except libvirt.libvirtError as exc:
                if _NO_SLOT not in str(exc):
                    raise
                # libvirt itself defines a machine with as many as its devices need, and virt_init some to spare.
                raise ConflictError(
                    f"cannot {what}: it has no free PCI slot while it runs",
                    hint="Shut it down, and run this again: its definition gets one",
                ) from exc

        def undo() -> None:
            found = find(read_description(f"machine {self.name}", handle.XMLDesc(0))) if find else None
            if found is not None:
                host_domains.detach_live(handle, etree.tostring(found, encoding="unicode"))

        self.live_step(what, attach, undo if find else None)

    def live_update(self, what: str, old: etree._Element, new: etree._Element) -> None:
        """A change of a device of the running machine."""
        handle, flag = self.domain.handle, libvirt.VIR_DOMAIN_AFFECT_LIVE
        before, after = (etree.tostring(device, encoding="unicode") for device in (old, new))
        self.live_step(
            what, lambda: handle.updateDeviceFlags(after, flag), lambda: handle.updateDeviceFlags(before, flag)
        )

    def live_detach(self, what: str, device: etree._Element) -> None:
        """The running machine loses a device."""
        handle, xml = self.domain.handle, etree.tostring(device, encoding="unicode")
        self.live_step(
            what, lambda: host_domains.detach_live(handle, xml), lambda: host_domains.attach_again(handle, xml)
        )


def _with_notes(xml: etree._Element, notes: MachineNotes) -> str:
    """A domain's XML with these notes in the place of those that it had when the plan was made."""
    changed = copy.deepcopy(xml)
    metadata = need(changed, "metadata")
    for old in find_notes(changed):
        metadata.remove(old)
    metadata.append(notes_to_element(notes))
    return etree.tostring(changed, encoding="unicode")


def _canonical(xml: str) -> bytes:
    """A domain's XML in one form: where metadata are set, the order of these and the blanks between them change."""
    root = parse_xml(xml)
    for element in root.iter():
        element.text, element.tail = (
            None if not (text or "").strip() else text for text in (element.text, element.tail)
        )
    metadata = need(root, "metadata")
    metadata[:] = sorted(metadata, key=lambda element: str(element.tag))
    return etree.tostring(root, method="c14n")


def _translating_errors(what: str, work: t.Callable[[], t.Any]) -> t.Callable[[], None]:
    def wrapped() -> None:
        with translate_errors(f"cannot {what}"):
            work()

    return wrapped


def _without_secrets(value: t.Any, other: t.Any, parents: Sequence[str] = ()) -> t.Any:
    """Variables without the values whose names say that they are secret. other: what they were, to tell whether one has
    changed."""
    if isinstance(value, (list, tuple)):
        return [_without_secrets(item, None, parents) for item in value]
    if not isinstance(value, Mapping):
        return value
    was = other if isinstance(other, Mapping) else {}
    found = {}
    for name, item in value.items():
        if is_secret_name(str(name), parents):
            found[name] = "(hidden)" if name not in was or was[name] == item else "(hidden, another one)"
        else:
            found[name] = _without_secrets(item, was.get(name), (*parents, str(name)))
    return found
