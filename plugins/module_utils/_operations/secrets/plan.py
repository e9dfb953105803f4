# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets of libvirt: what is there, what is requested, and the steps from the one to the other.

A value is compared where libvirt gives it back. It stands in no step's words, no result and no difference.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ..._base.errors import ConflictError, InputError, Mistakes
from ..._host.connection import VirConnect, libvirt, suppress_codes, translate_errors
from ..._host.facts.maintenance import SECRET_UUID
from ..._host.locks import hypervisor_lock
from ..._model.spec.resources.secret import ABSENT, SecretSpec
from ..plan import Step
from ..resources import ResourcePlan
from .found import FoundSecret, look_up, require_unused, shown, usage_number
from .present import plan_present


def check_together(specs: Sequence[SecretSpec]) -> None:
    """Raise InputError for secrets of one task that are the same one, and for one that is the collection's own."""
    mistakes = Mistakes()
    for index, spec in enumerate(specs):
        with mistakes.noted():
            if spec.uuid == SECRET_UUID:
                raise InputError(
                    "this UUID is that of the mark by which hypervisors see each other's maintenance",
                    where=spec.at("uuid"),
                    hint="Choose another one",
                )
        for other in specs[:index]:
            with mistakes.noted():
                if (spec.usage, spec.name) == (other.usage, other.name):
                    raise InputError(f"is the same secret as {other.at('name')}", where=spec.at("name"))
                if spec.uuid is not None and spec.uuid == other.uuid:
                    raise InputError(f"has the same UUID as {other.at('name')}", where=spec.at("uuid"))
    mistakes.conclude()


def find_uuid(conn: VirConnect, spec: SecretSpec) -> str | None:
    """The UUID of a secret as it is now; None where there is none."""
    with translate_errors(f"cannot look up the {spec.words}"), suppress_codes(libvirt.VIR_ERR_NO_SECRET):
        return str(look_up(conn, spec).UUIDString())
    return None


class SecretPlanner:
    """Plans for the secrets of one hypervisor, from what libvirt says now. lock_seconds: to wait for other runs."""

    def __init__(self, conn: VirConnect, *, lock_seconds: float) -> None:
        self._conn = conn
        self._lock_seconds = lock_seconds
        with translate_errors("cannot list the secrets"):
            handles = [handle for handle in conn.listAllSecrets(0) if handle.UUIDString() != SECRET_UUID]
            self._by_use = {(handle.usageType(), handle.usageID()): handle for handle in handles}
            self._by_uuid = {handle.UUIDString(): handle for handle in handles}

    def plan(self, spec: SecretSpec) -> ResourcePlan:
        """What to do for one. Raises VirtError: nothing is changed then."""
        handle = self._find(spec)
        found = None if handle is None else FoundSecret.read(handle, spec.words)
        if spec.state == ABSENT:
            return plan_absent(self._conn, spec, found, self._lock_seconds)
        return plan_present(self._conn, spec, found, self._lock_seconds)

    def look(self, spec: SecretSpec) -> dict[str, t.Any] | None:
        """What one is now; None where it is not there."""
        with translate_errors(f"cannot look up the {spec.words}"), suppress_codes(libvirt.VIR_ERR_NO_SECRET):
            found = FoundSecret.read(look_up(self._conn, spec), spec.words)
            return shown(spec, found.root, found.value_state)
        return None

    def _find(self, spec: SecretSpec) -> t.Any:
        handle = self._by_use.get((usage_number(spec), spec.name))
        if spec.uuid is None or (handle is not None and handle.UUIDString() == spec.uuid):
            return handle
        if handle is not None:
            raise ConflictError(
                f"the {spec.words} exists with the UUID {handle.UUIDString()}",
                where=spec.at("uuid"),
                hint="A secret keeps its UUID: leave the option out, or remove that one first with state: absent",
            )
        if spec.uuid in self._by_uuid:
            raise ConflictError(
                f"another secret has the UUID {spec.uuid}, for {self._by_uuid[spec.uuid].usageID() or 'no named use'}",
                where=spec.at("uuid"),
                hint="A secret keeps its use: choose another UUID",
            )
        return None


def plan_absent(conn: VirConnect, spec: SecretSpec, found: FoundSecret | None, lock_seconds: float) -> ResourcePlan:
    """What to do for one that is to be gone. Raises ConflictError where it is used, or may be."""
    where = spec.given.place or None
    if found is None:
        return ResourcePlan(spec.name, None, None, where=where)
    require_unused(conn, spec, found, "is kept", "state")

    def apply() -> None:
        with hypervisor_lock("init", wait_seconds=lock_seconds):
            require_unused(conn, spec, found, "is kept", "state")
            with translate_errors(f"cannot remove the {spec.words}"), suppress_codes(libvirt.VIR_ERR_NO_SECRET):
                found.handle.undefine()

    step = Step(f"remove {spec.words}", apply)
    return ResourcePlan(spec.name, shown(spec, found.root, found.value_state), None, (step,), where=where)
