# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All machines of a hypervisor as entries of ``virt_vms``. Changes nothing."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..._base.errors import ConflictError, InputError, VirtError, as_virt_error
from ..._base.xml import attribute
from ..._host.connection import VirConnect, libvirt, translate_errors
from ..._host.facts.guest_platform import GuestPlatforms
from ..._host.machines.domains import Domain, whole_definition
from ..._model.export.entry import Export, MachineFacts, export_machine
from ..._model.metadata.machine import BUILDING
from ..._model.spec.device_names import named_notes
from ..._model.spec.reading.machines import read_machine
from ..._model.xml.domain import GuestPlatform
from ..hypervisor_view import HypervisorView
from .origins import read_origins

_ANY_MACHINE = {"name": "any", "vcpus": 1, "memory": 1024, "disk_profile": "none", "nic_profile": "none"}


@dataclass(frozen=True)
class ExportResult:
    """One machine. export: None where there is no entry of it (error)."""

    name: str
    uuid: str
    managed: bool
    export: Export | None = None
    error: VirtError | None = None

    def as_result(self) -> dict[str, t.Any]:
        """In the words of the module's result."""
        result: dict[str, t.Any] = {
            "name": self.name,
            "uuid": self.uuid,
            "managed": self.managed,
            "entry": None if self.export is None else self.export.entry,
            "not_exported": [] if self.export is None else list(self.export.not_exported),
        }
        if self.error is not None:
            result["msg"] = str(self.error)
        return result


class MachineExports:
    """The exports of one hypervisor's machines."""

    def __init__(self, conn: VirConnect) -> None:
        self._view = HypervisorView(conn)
        self._guests = GuestPlatforms(conn)
        self._new = self._guests.platform(read_machine(_ANY_MACHINE))

    def results(self, names: Sequence[str] | None) -> list[ExportResult]:
        """A result for each machine, sorted by name. names: only these; those that do not exist are left out."""
        found = sorted(self._view.domains.items())
        return [self._result(domain) for name, domain in found if names is None or name in names]

    def _result(self, domain: Domain) -> ExportResult:
        result = ExportResult(domain.name, domain.xml.findtext("uuid") or "", domain.notes is not None)
        try:
            return replace(result, export=self._export(domain))
        except Exception as exc:  # whatever it is, it is not the other machines' fault
            return replace(result, error=as_virt_error(exc))

    def _export(self, domain: Domain) -> Export:
        domain.require_readable()
        if domain.notes is not None and domain.notes.status == BUILDING:
            raise ConflictError(f"{domain.name} is being created, or the run that created it was interrupted")
        with translate_errors(f"cannot inspect machine {domain.name}"):
            in_definition, autostart = bool(domain.handle.isPersistent()), bool(domain.handle.autostart())
            running = domain.handle.state()[0] == libvirt.VIR_DOMAIN_RUNNING
        if not in_definition:
            raise ConflictError(f"{domain.name} is running but not defined here, or is on its way here by a move")
        notes = named_notes(domain.xml, domain.notes)
        machine_type = attribute(domain.xml, "os/type", "machine") or ""
        usual_type = self._guests.same_machine_type(machine_type, self._new.machine_type or machine_type)
        facts = MachineFacts(
            platform=self._platform(machine_type, usual=usual_type),
            usual_type=usual_type,
            autostart=autostart,
            running=running,
            console_password=_has_console_password(domain),
            origins=read_origins(domain.xml, notes, self._view),
        )
        return export_machine(domain.xml, domain.notes, facts)

    def _platform(self, machine_type: str, *, usual: bool) -> GuestPlatform:
        """What a new machine of this type gets here; of a type that there is not any more, what any other gets."""
        if usual:
            return self._new
        try:
            return self._guests.platform(read_machine({**_ANY_MACHINE, "machine_type": machine_type}))
        except VirtError:
            return replace(self._new, machine_type=machine_type)


def _has_console_password(domain: Domain) -> bool:
    """Whether a console has a password, which libvirt shows only to who may change the machine."""
    if domain.xml.find("devices/graphics") is None:
        return False
    return any(console.get("passwd") for console in whole_definition(domain.handle).iterfind("devices/graphics"))


def check_names(names: Sequence[str] | None) -> None:
    """Raise InputError for an empty name, or a list without any."""
    if names is not None and (not names or not all(names)):
        raise InputError("no machine is named", where="name", hint="Leave it out for all machines")
