# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One hypervisor's events, from now until it is told to stop: connects, hands on, notices silence, connects again."""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
import time
import typing as t
from collections.abc import Callable
from datetime import datetime, timezone

from ...module_utils._base.errors import UnreachableError, VirtError, as_virt_error
from ...module_utils._base.xml import read_description
from ...module_utils._host.connection import VirConnect, libvirt, map_in_threads, open_connection, translate_errors
from ...module_utils._host.machines.record import state_name
from ...module_utils._model.metadata.machine import read_notes
from ...module_utils._model.metadata.migration import is_flush_name
from .buffer import EventBuffer
from .machines import PAUSED, SHUTOFF, Event, KnownMachines, SeenMachine, still_arriving
from .registration import METADATA, machine_number, registered
from .request import OF_HYPERVISORS, EventRequest
from .thresholds import set_thresholds
from .uptime import Uptime, ask_uptime
from .words import PAUSED_REASON, SHUTOFF_REASON, word

# Gets each event; returns when there is room for the next.
Deliver = Callable[[Event], None]
_FIRST_RETRY_SECONDS = 1.0
_THRESHOLD_THREADS, _THRESHOLD_SECONDS, _RETRY_SECONDS = 16, 20.0, 2.0
# How often a hypervisor is asked how long it has been up, and a machine that was busy is given its thresholds.
_ROUND_SECONDS = 60.0
# ansible-rulebook prints its warnings.
_LOG = logging.getLogger(__name__)
_NO_LABELS: Event = {"tags": [], "managed": False}


class _Told(t.NamedTuple):
    """What libvirt told. number: the machine's ID then. at: the time of it."""

    event: Event
    number: int | None
    at: float


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_alive(conn: VirConnect) -> bool:
    with contextlib.suppress(libvirt.libvirtError):
        return bool(conn.isAlive())
    return False


class HypervisorEvents:
    """Tells what happens on one hypervisor. `run` blocks, for a thread of its own; `stop` ends it from any other."""

    def __init__(self, name: str, request: EventRequest, deliver: Deliver) -> None:
        """name: of request.hypervisors."""
        self._name, self._uri = name, request.hypervisors[name]
        self._request = request
        self._deliver = deliver
        self._stop = threading.Event()
        self._known = KnownMachines()
        self._uptime: Uptime | None = None
        # By UUID; those of `_stale` may be others now.
        self._tags: dict[str, tuple[list[str], bool]] = {}
        self._stale: set[str] = set()
        # Those that a move has brought here, of which libvirt has told nothing since: they do not run yet.
        self._arriving: set[str] = set()
        # Those that were too busy for thresholds.
        self._without_thresholds: set[str] = set()
        self._silent_since: float | None = None
        self._buffer: EventBuffer[_Told] | None = None

    def stop(self) -> None:
        """Have `run` come to its end."""
        self._stop.set()
        if self._buffer is not None:
            self._buffer.end()

    def run(self) -> None:
        """Tell of everything until `stop`."""
        delay = _FIRST_RETRY_SECONDS
        while not self._stop.is_set():
            began = time.monotonic()
            reason = self._connect_once()
            if self._stop.is_set():
                return
            if self._silent_since is None:
                self._silent_since = time.time()
                _LOG.warning("hypervisor %s does not respond: %s", self._name, reason)
                self._tell_of_hypervisor("silent", error=reason)
            # After a good while the next attempt may come soon again.
            delay = _FIRST_RETRY_SECONDS if time.monotonic() - began > self._request.retry_seconds else delay
            self._stop.wait(delay)
            delay = min(delay * 2, self._request.retry_seconds)

    def _connect_once(self) -> str:
        """Connect, and tell of everything as long as the connection lives. Returns why it does not."""
        writes = self._request.threshold_percent is not None
        try:
            with open_connection(self._uri, read_only=not writes) as conn:
                return self._follow(conn)
        except VirtError as exc:
            return str(exc)
        except Exception as exc:
            # One hypervisor's strange answer is no reason to be deaf to the others.
            return str(as_virt_error(exc))

    def _follow(self, conn: VirConnect) -> str:
        self._buffer = buffer = EventBuffer[_Told](self._request.buffer)
        # Before the first look, as what happens between the two is rather told twice than not at all.
        with registered(
            conn,
            {*self._request.types, "lifecycle", METADATA},
            lambda event, number: buffer.put(_Told(event, number, time.time())),
            buffer.end,
        ):
            self._greet(conn)
            looked = time.time()
            next_round = time.monotonic() + _ROUND_SECONDS
            while not self._stop.is_set():
                told = buffer.take(max(0.0, next_round - time.monotonic()))
                if told is not None:
                    self._tell(conn, told, again=told.at <= looked)
                elif lost := buffer.lost():
                    _LOG.warning("%d events of hypervisor %s were lost: the rules are too slow", lost, self._name)
                    self._tell_of_hypervisor("events_lost", lost=lost)
                    self._catch_up(conn, *self._look_anew(conn))
                    looked = time.time()
                elif buffer.is_over():
                    break
                if time.monotonic() >= next_round:
                    self._go_round(conn)
                    next_round = time.monotonic() + _ROUND_SECONDS
        return "the connection has ended"

    def _go_round(self, conn: VirConnect) -> None:
        """What is done now and then, whatever happens."""
        self._uptime = ask_uptime(conn) or self._uptime
        # As long as a machine arrives, its move is in the way.
        self._set_thresholds(conn, sorted(self._without_thresholds - self._arriving), _RETRY_SECONDS)

    def _greet(self, conn: VirConnect) -> None:
        """Say that the hypervisor answers, and what happened while it did not."""
        missed, found = self._look_anew(conn)
        silence = {} if self._silent_since is None else {"silent_seconds": round(time.time() - self._silent_since, 1)}
        if silence:
            _LOG.warning("hypervisor %s answers again, after %s s", self._name, silence["silent_seconds"])
        self._silent_since = None
        self._tell_of_hypervisor("connected", machines=len(found), **silence)
        self._catch_up(conn, missed, found)

    def _look_anew(self, conn: VirConnect) -> tuple[list[Event], list[SeenMachine]]:
        """As _look, where events are missing: what they would have said of tags and of moves is not known either."""
        self._stale.update(self._tags)
        missed, found = self._look(conn)
        self._arriving = still_arriving(self._arriving, missed, found)
        return missed, found

    def _catch_up(self, conn: VirConnect, missed: list[Event], found: list[SeenMachine]) -> None:
        """Tell what was missed, and set the thresholds of machines that may have started meanwhile."""
        for event in missed:
            self._hand_on(event, time.time())
        self._without_thresholds = set(self._arriving)
        running = {machine.uuid for machine in found if machine.number is not None}
        self._set_thresholds(conn, sorted(running - self._arriving))

    def _look(self, conn: VirConnect) -> tuple[list[Event], list[SeenMachine]]:
        """All machines as they are, in one call, and what must have happened to them without having been told."""
        with translate_errors("cannot list the machines"):
            answers = conn.getAllDomainStats(
                libvirt.VIR_DOMAIN_STATS_STATE, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
            )
        found = []
        for domain, values in answers:
            if is_flush_name(domain.name()):
                continue
            state = state_name(values.get("state.state"))
            prefix = {SHUTOFF: SHUTOFF_REASON, PAUSED: PAUSED_REASON}.get(state, "none ")
            reason = word(prefix, values.get("state.reason"))
            found.append(SeenMachine(domain.UUIDString(), domain.name(), state, machine_number(domain), reason))
        known, uptime, earlier = copy.copy(self._known), ask_uptime(conn), self._uptime
        restarted = uptime is not None and earlier is not None and uptime.is_of_another_boot_than(earlier)
        missed = []
        for event in known.compare(found, host_restarted=restarted):
            labels = self._labels(conn, event["uuid"])
            if labels is None:
                # As in _tell. Nothing is noted, and the next connection finds it all.
                raise UnreachableError("the connection has ended")
            missed.append({**event, **labels})
        self._known, self._uptime = known, uptime or earlier
        return missed, found

    def _tell(self, conn: VirConnect, told: _Told, *, again: bool) -> None:
        """Hand on what libvirt told. again: it may have been found by _look already."""
        event = told.event
        # One that is started here may have been elsewhere since it was here last.
        if event["type"] == METADATA or event.get("change") in ("defined", "started"):
            self._stale.add(event["uuid"])
        if event["type"] == METADATA:
            return
        labels = self._labels(conn, event["uuid"])
        move_failed = False
        if event["type"] == "lifecycle":
            move_failed = self._ends_a_move(event)
            if labels is None:
                # Rules for machines of ours would pass over it. Not noted, it is found as missed when it answers again.
                return
            new = self._known.note(event, told.number)
            if again and not new:
                return
            self._keep_thresholds(conn, event)
        more: Event = {"arriving": True} if move_failed else {}
        self._hand_on({**event, **more, **(labels or _NO_LABELS)}, told.at)
        if event.get("change") == "undefined" and told.number is None:
            self._tags.pop(event["uuid"], None)
            self._stale.discard(event["uuid"])
        if move_failed:
            head = {"type": "migration", "machine": event["machine"], "uuid": event["uuid"]}
            self._hand_on({**head, "change": "failed", **(labels or _NO_LABELS)}, told.at)

    def _ends_a_move(self, event: Event) -> bool:
        """Whether this lifecycle event is the end of a machine that was still arriving: the move has failed.

        libvirt (9.0) says it here as it says that a QEMU has died, and has no event for it at the source.
        """
        uuid, change, reason = event["uuid"], event["change"], event["reason"]
        arriving = uuid in self._arriving
        self._arriving.discard(uuid)
        if (change, reason) == ("started", "migrated"):
            self._arriving.add(uuid)
        return arriving and (change, reason) == ("stopped", "failed")

    def _tell_of_hypervisor(self, change: str, **more: t.Any) -> None:
        self._hand_on({"type": OF_HYPERVISORS, "change": change, **more}, time.time())

    def _hand_on(self, event: Event, at: float) -> None:
        if event["type"] in self._request.types and not self._stop.is_set():
            self._deliver({"hypervisor": self._name, "uri": self._uri, "at": _time(at), **event})

    def _labels(self, conn: VirConnect, uuid: str) -> Event | None:
        """A machine's tags, and whether the collection made it; of one that has gone, those that it had.

        None when nobody can say: they have not been asked for yet, and the connection has ended.
        """
        if uuid not in self._tags or uuid in self._stale:
            try:
                notes = read_notes(read_description("the machine", conn.lookupByUUIDString(uuid).XMLDesc()))
                self._tags[uuid] = ([], False) if notes is None else (list(notes.tags), True)
                self._stale.discard(uuid)
            except (libvirt.libvirtError, VirtError):
                if uuid not in self._tags and not _is_alive(conn):
                    return None
        tags, managed = self._tags.get(uuid, ([], False))
        return {"tags": tags, "managed": managed}

    def _keep_thresholds(self, conn: VirConnect, event: Event) -> None:
        """Set the thresholds of a machine that has started. One that arrives gets them when it runs: until then its
        move is in the way of everything that is asked of its QEMU, and libvirt would wait."""
        uuid, change = event["uuid"], event["change"]
        if uuid in self._arriving:
            self._without_thresholds.add(uuid)
        elif change == "started":
            self._set_thresholds(conn, [uuid])
        elif change == "stopped":
            self._without_thresholds.discard(uuid)
        elif uuid in self._without_thresholds:
            self._set_thresholds(conn, [uuid], _RETRY_SECONDS)

    def _set_thresholds(self, conn: VirConnect, uuids: list[str], seconds: float | None = None) -> None:
        """Set those of these machines, and note which of them are to be tried again. seconds: for all together."""
        percent = self._request.threshold_percent
        if percent is None:
            return
        # This asks QEMU, for whose answer libvirt waits without end: one that hangs is not to hold up the events.
        outcomes = map_in_threads(
            lambda uuid: set_thresholds(conn, uuid, percent),
            uuids,
            threads=_THRESHOLD_THREADS,
            timeout_seconds=_THRESHOLD_SECONDS if seconds is None else seconds,
        )
        for uuid, outcome in zip(uuids, outcomes):
            (self._without_thresholds.discard if outcome.value else self._without_thresholds.add)(uuid)
