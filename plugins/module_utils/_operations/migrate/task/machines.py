# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves of many machines in one task: each planned by itself, then some of them side by side."""

from __future__ import annotations

import contextlib
import threading
import time
import typing as t
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ...._base.errors import InputError, VirtError, as_virt_error, outcome, own_error, stopped
from ...._host.connection import VirConnect, make_uri, open_connection, require_no_password, translate_errors
from ...._host.locks import machine_lock
from ...._host.progress import ProgressFile, ProgressMeter
from ...._operations import plan
from ...hypervisor_view import HypervisorView
from ..between_pools.plan import plan_between_pools
from ..endpoints.location import Endpoints
from ..endpoints.options import MigrationOptions
from ..endpoints.source_and_target import MigrationTarget
from ..plan import MigrationContext, MigrationPlan, plan_migration


@dataclass(frozen=True)
class MigrationSpec:
    """One machine and where it is to be: libvirt's URI, or a host name, which is reached by TLS; empty for where it is.

    options: those of the task, but for what is said of this target.
    """

    name: str
    target: str
    where: str
    options: MigrationOptions

    def check(self) -> None:
        """Raise InputError for a target that cannot be one."""
        if not self.target and not self.options.names_pools:
            raise InputError(
                f"{self.name} has no target",
                where=self.where or None,
                hint="Name a hypervisor with target, or a pool of this one with pool",
            )
        require_no_password(self.target, self.where or "target")
        if "://" in self.target and not urlsplit(self.target).hostname:
            raise InputError(
                f"{self.target} does not name another host",
                where=self.where or "target",
                hint="Give qemu+tls://HOST/system",
            )

    @property
    def uri(self) -> str:
        """The target's URI."""
        return self.target if "://" in self.target else make_uri(host=self.target, transport="tls")


@dataclass
class MigrationResult:
    """What became of one machine."""

    spec: MigrationSpec
    source: str
    target: str
    migration: MigrationPlan | None = None
    error: VirtError | None = None

    def as_result(self) -> dict[str, t.Any]:
        """The outcome in the words of the module's result."""
        migration = self.migration or MigrationPlan(self.spec.name)
        more = {
            "source": self.source,
            "target": self.target,
            "actions": migration.actions if self.error is None else [],
            "disks": [
                {
                    "device": disk.device,
                    "pool": disk.ref_there.pool,
                    "volume": disk.ref_there.name,
                    "from_pool": disk.ref.pool,
                    "from_volume": disk.ref.name,
                    "size_bytes": disk.capacity_bytes,
                    "method": disk.method,
                    "kept_at_source": disk.travels and not disk.own,
                }
                for disk in migration.disks
            ],
            "kept_volumes": list(migration.kept),
            **migration.figures,
        }
        return outcome(
            self.spec.name, bool(migration.actions and (migration.switched or self.error is None)), self.error, more
        )


@dataclass
class TaskMigrations:
    """All that the moves of a task have in common."""

    source: VirConnect
    stop: threading.Event
    progress: ProgressFile
    check_mode: bool = False
    _targets: dict[str, MigrationTarget] = field(default_factory=dict)
    _errors: dict[str, VirtError] = field(default_factory=dict)
    _here: MigrationTarget | None = None

    def carry_out(self, specs: Sequence[MigrationSpec], *, concurrency: int) -> list[MigrationResult]:
        """Move the machines. One that cannot be moved says why, the others go on."""
        hypervisor = HypervisorView(self.source)
        with translate_errors("cannot ask this hypervisor for its name"):
            name, uri = self.source.getHostname(), self.source.getURI()
        with contextlib.ExitStack() as stack:
            outcomes = [self._plan(spec, hypervisor, name, uri, stack) for spec in specs]
            if not self.check_mode:
                with ThreadPoolExecutor(max_workers=max(1, concurrency)) as executor:
                    list(executor.map(self._run_migration, outcomes))
        return outcomes

    def _plan(
        self, spec: MigrationSpec, hypervisor: HypervisorView, name: str, uri: str, stack: contextlib.ExitStack
    ) -> MigrationResult:
        outcome = MigrationResult(spec, name, spec.target)
        with own_error(outcome):
            target = self._target(spec, stack, hypervisor, uri)
            outcome.target = target.name
            endpoints = Endpoints(uri, target.uri, self.source, target.hypervisor.conn)
            context = MigrationContext(endpoints, hypervisor, name, target, spec.options, self.stop, self.check_mode)
            if not self.check_mode:
                # Held until the task ends: two runs would take each other's volumes for left-overs.
                stack.enter_context(machine_lock(spec.name, wait_seconds=0))
            meter = ProgressMeter(self.progress.write_line, spec.name)
            planned = plan_between_pools if target is self._here else plan_migration
            outcome.migration = planned(spec.name, context, spec.where, meter.at)

            def waiting(first: bool) -> None:
                if first:
                    # The time that is shown is that of the wait.
                    meter.turn_to(spec.name)
                meter.still("wait for other runs on this hypervisor")

            outcome.migration.waiting = waiting
        return outcome

    def _target(
        self, spec: MigrationSpec, stack: contextlib.ExitStack, hypervisor: HypervisorView, own_uri: str
    ) -> MigrationTarget:
        """Where a machine is to be, which is this hypervisor itself where none is named, or it is named."""
        if self._here is None:
            self._here = MigrationTarget(own_uri, self.source, hypervisor)
        target = self._open(spec, stack) if spec.target else self._here
        return self._here if _is_already_on(target, spec.name, hypervisor) else target

    def _open(self, spec: MigrationSpec, stack: contextlib.ExitStack) -> MigrationTarget:
        """A target's connection, opened once; what has failed once is not tried for every machine."""
        uri = spec.uri
        if uri in self._errors:
            raise self._errors[uri]
        if uri not in self._targets:
            try:
                conn = stack.enter_context(open_connection(uri))
                self._targets[uri] = MigrationTarget(uri, conn)
            except VirtError as exc:
                self._errors[uri] = type(exc)(
                    exc.what,
                    where=spec.where or "target",
                    hint=exc.hint
                    or "Set up TLS between the hypervisors (role virt_tls), check the target's libvirt, that its "
                    "firewall lets this hypervisor in (virt_hypervisor_firewall), and that this hypervisor knows the "
                    "target by this name: if not, give it the variable virt_tls_address",
                )
                raise self._errors[uri] from exc
        return self._targets[uri]

    def _run_migration(self, outcome: MigrationResult) -> None:
        migration = outcome.migration
        if migration is None or outcome.error is not None:
            return
        if self.stop.is_set():
            outcome.error = stopped()
            return
        migration.began = time.monotonic()
        try:
            self._act(migration)
        except Exception as exc:  # noqa: BLE001 - one machine's trouble must not hide what became of the others
            outcome.error = as_virt_error(exc)
            if migration.switched:
                outcome.error = _after_the_switch(outcome, outcome.error)
        finally:
            migration.release()
        if outcome.error is not None and not migration.switched:
            if outcome.spec.target:
                self._targets[outcome.spec.uri].allocations.pop(outcome.spec.name, None)
            return
        # Only figures: nothing that goes wrong here makes a finished move fail.
        with contextlib.suppress(Exception):
            migration.figures.update(migration.measure())

    def _act(self, migration: MigrationPlan) -> None:
        """Carry out a plan; what has changed since it was made is an error before anything is done."""
        if migration.before:
            migration.recheck()
            plan.run(migration.before)
            migration.release()
        # Not rolled back: the machine is on the other hypervisor, and a later run finishes what is left here.
        migration.switched = True
        for step in migration.after:
            step.apply()


def _is_already_on(target: MigrationTarget, name: str, here: HypervisorView) -> bool:
    """Whether a target is the very hypervisor that a machine is on. Two may have the same name for themselves."""
    if target.hypervisor is here:
        return True
    found, there = here.domains.get(name), target.hypervisor.domains.get(name)
    with translate_errors("cannot tell the hypervisors apart"):
        return (
            found is not None
            and there is not None
            and target.name == here.conn.getHostname()
            and found.handle.UUIDString() == there.handle.UUIDString()
        )


def _after_the_switch(outcome: MigrationResult, exc: VirtError) -> VirtError:
    done = f"is on {outcome.target}"
    if outcome.migration is not None and outcome.migration.switched_words:
        done = outcome.migration.switched_words
    return type(exc)(
        f"{outcome.spec.name} {done}, but not everything is finished: {exc.what}",
        where=exc.where,
        hint=exc.hint or "Run it again",
    )
