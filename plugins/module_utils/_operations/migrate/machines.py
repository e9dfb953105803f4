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

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError, VirtError, as_ours, stopped
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    VirConnect,
    errors_as_ours,
    make_uri,
    open_connection,
)
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._model.meter import Meter
from ansible_collections.brine.virt.plugins.module_utils._operations import plan
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import Side
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.location import Ends
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.options import Terms
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.plan import Journey, Road, plan_journey
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.source_and_target import Target


@dataclass(frozen=True)
class Wish:
    """One machine and where it is to be: libvirt's URI, or a host name, which is reached by TLS.

    terms: those of the task, but for what is said of this target.
    """

    name: str
    target: str
    where: str
    terms: Terms

    def check(self) -> None:
        """Raise InputError for a target that cannot be one."""
        if "://" in self.target and not urlsplit(self.target).hostname:
            raise InputError(
                f"{self.target} names no other host", where=self.where or "target", hint="Give qemu+tls://HOST/system"
            )

    @property
    def uri(self) -> str:
        """The target's URI."""
        return self.target if "://" in self.target else make_uri(host=self.target, transport="tls")


@dataclass
class Outcome:
    """What became of one wish."""

    wish: Wish
    source: str
    target: str
    journey: Journey | None = None
    error: VirtError | None = None

    def as_result(self) -> dict[str, t.Any]:
        """The outcome in the words of the module's result."""
        journey = self.journey
        result: dict[str, t.Any] = {
            "name": self.wish.name,
            "changed": bool(journey and journey.actions and (journey.switched or self.error is None)),
            "failed": self.error is not None,
            "source": self.source,
            "target": self.target,
            "actions": journey.actions if journey and self.error is None else [],
            "disks": [
                {
                    "device": disk.device,
                    "pool": disk.ref.pool,
                    "volume": disk.ref.name,
                    "method": disk.way,
                    "kept_at_source": disk.travels and not disk.own,
                }
                for disk in (journey.disks if journey else ())
            ],
            "kept_volumes": list(journey.kept) if journey else [],
            **(journey.figures if journey else {}),
        }
        if self.error is not None:
            result["msg"] = str(self.error)
        return result


@dataclass
class Removal:
    """All that the moves of a task have in common."""

    source: VirConnect
    stop: threading.Event
    progress: ProgressFile
    check_mode: bool = False
    _targets: dict[str, Target] = field(default_factory=dict)
    _errors: dict[str, VirtError] = field(default_factory=dict)

    def carry_out(self, wishes: Sequence[Wish], *, concurrency: int) -> list[Outcome]:
        """Move the machines. One that cannot be moved says why, the others go on."""
        hypervisor = Side(self.source)
        with errors_as_ours("cannot ask this hypervisor for its name"):
            name, uri = self.source.getHostname(), self.source.getURI()
        with contextlib.ExitStack() as stack:
            outcomes = [self._plan(wish, hypervisor, name, uri, stack) for wish in wishes]
            if not self.check_mode:
                with ThreadPoolExecutor(max_workers=max(1, concurrency)) as executor:
                    list(executor.map(self._walk, outcomes))
        return outcomes

    def _plan(self, wish: Wish, hypervisor: Side, name: str, uri: str, stack: contextlib.ExitStack) -> Outcome:
        outcome = Outcome(wish, name, wish.target)
        try:
            target = self._target(wish, stack)
            outcome.target = target.name
            ends = Ends(uri, target.uri, self.source, target.hypervisor.conn)
            road = Road(ends, hypervisor, name, target, wish.terms, self.stop, self.check_mode)
            if not self.check_mode:
                # Held until the task ends: two runs would take each other's volumes for left-overs.
                stack.enter_context(hypervisor_lock(f"move-{wish.name.replace('/', '_')}", patience_seconds=0))
            meter = Meter(self.progress.say, wish.name)
            outcome.journey = plan_journey(wish.name, road, wish.where, meter.at)
        except Exception as exc:  # noqa: BLE001 - it is this machine's error, and the others go on
            outcome.error = as_ours(exc)
        return outcome

    def _target(self, wish: Wish, stack: contextlib.ExitStack) -> Target:
        """A target's connection, opened once; what has failed once is not tried for every machine."""
        uri = wish.uri
        if uri in self._errors:
            raise self._errors[uri]
        if uri not in self._targets:
            try:
                conn = stack.enter_context(open_connection(uri))
                self._targets[uri] = Target(uri, conn)
            except VirtError as exc:
                self._errors[uri] = type(exc)(
                    exc.what,
                    where=wish.where or "target",
                    hint=exc.hint
                    or "Set up TLS between the hypervisors (role virt_tls), and look at the target's libvirt",
                )
                raise self._errors[uri] from exc
        return self._targets[uri]

    def _walk(self, outcome: Outcome) -> None:
        journey = outcome.journey
        if journey is None or outcome.error is not None:
            return
        if self.stop.is_set():
            outcome.error = stopped()
            return
        journey.began = time.monotonic()
        try:
            self._act(outcome, journey)
        except Exception as exc:  # noqa: BLE001 - one machine's trouble must not hide what became of the others
            outcome.error = as_ours(exc)
            if journey.switched:
                outcome.error = _after_the_switch(outcome, outcome.error)
        finally:
            journey.release()
        if outcome.error is not None and not journey.switched:
            self._targets[outcome.wish.uri].promised.pop(outcome.wish.name, None)
            return
        # Only figures: nothing that goes wrong here makes a finished move fail.
        with contextlib.suppress(Exception):
            journey.figures.update(journey.measure())

    def _act(self, outcome: Outcome, journey: Journey) -> None:
        """Carry out a plan; what has changed since it was made is an error before anything is done."""
        if journey.before:
            journey.look_again()
            plan.run(journey.before)
            journey.release()
        # Not rolled back: the machine is on the other side, and a later run finishes what is left here.
        journey.switched = True
        for step in journey.after:
            step.apply()


def _after_the_switch(outcome: Outcome, exc: VirtError) -> VirtError:
    return type(exc)(
        f"{outcome.wish.name} is on {outcome.target}, but not all is done: {exc.what}",
        where=exc.where,
        hint=exc.hint or "Run it again",
    )
