# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One hypervisor's events where the rules do not keep pace."""

from __future__ import annotations

import queue
import threading
import time
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnreachableError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import write_notes
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes
from ansible_collections.brine.virt.plugins.plugin_utils._events import hypervisor
from ansible_collections.brine.virt.plugins.plugin_utils._events.hypervisor import HypervisorEvents, _Told
from ansible_collections.brine.virt.plugins.plugin_utils._events.request import read_request
from ansible_collections.brine.virt.plugins.plugin_utils._events.uptime import Uptime
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._events.conftest import SHARED

_SECONDS = 600
_SIZE = 10


class Rules:
    """Takes events when it is told to."""

    def __init__(self) -> None:
        self.taken: list[dict[str, t.Any]] = []
        self.next: str | None = None
        self._awake = threading.Event()
        self._awake.set()
        self._changed = threading.Condition()

    def take(self, event: dict[str, t.Any]) -> None:
        self.next = event["change"]
        self._awake.wait(_SECONDS)
        with self._changed:
            self.taken.append(event)
            self._changed.notify_all()

    def sleep(self) -> None:
        self._awake.clear()

    def wake(self) -> None:
        self._awake.set()

    def wait_for(self, change: str) -> dict[str, t.Any]:
        """The first event with this change."""

        def found() -> list[dict[str, t.Any]]:
            return [event for event in self.taken if event["change"] == change]

        with self._changed:
            assert self._changed.wait_for(found, _SECONDS), self.taken
            return found()[0]


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
def events(rules: Rules, machine: t.Any) -> t.Iterator[HypervisorEvents]:
    del machine
    request = read_request({"hypervisors": {"hv1": SHARED}, "buffer": _SIZE})
    events = HypervisorEvents("hv1", request, rules.take)
    thread = threading.Thread(target=events.run, daemon=True)
    thread.start()
    rules.wait_for("connected")
    yield events
    events.stop()
    thread.join(_SECONDS)
    assert not thread.is_alive()


def test_what_does_not_fit_is_counted_and_found_again(events: HypervisorEvents, rules: Rules, machine: t.Any) -> None:
    rules.sleep()
    end = time.monotonic() + _SECONDS
    machine.suspend()
    while rules.next != "suspended":
        assert time.monotonic() < end
        time.sleep(0.01)
    machine.resume()
    for _number in range(49):
        machine.suspend()
        machine.resume()
    machine.destroy()
    # One is on its way to the rules, and as many wait as may.
    lost = 101 - 1 - _SIZE
    assert events._buffer is not None
    while events._buffer._lost < lost:
        assert time.monotonic() < end
        time.sleep(0.01)
    rules.wake()
    assert rules.wait_for("events_lost")["lost"] == lost
    assert rules.wait_for("stopped")["missed"] is True
    machine.create()
    assert rules.wait_for("started")["missed"] is False
    # Nothing is told of twice.
    assert len(rules.taken) == 1 + 1 + _SIZE + 1 + 1 + 1


def test_tags_and_moves_of_lost_events_are_looked_up(
    events: HypervisorEvents, rules: Rules, machine: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise rules would go by tags of earlier, and a crash would pass for the end of a move that is long over."""
    started: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    monkeypatch.setattr(events, "_set_thresholds", lambda _conn, uuids: started.put(uuids))
    uuid = machine.UUIDString()
    events._tags[uuid] = (["old"], True)
    events._arriving.add(uuid)
    assert events._buffer is not None
    with events._buffer._changed:
        events._buffer._lost = 1
        events._buffer._changed.notify()
    assert rules.wait_for("events_lost")["lost"] == 1
    # It may have started in one that was lost.
    assert started.get(timeout=_SECONDS) == [uuid]
    assert events._arriving == set()
    machine.suspend()
    suspended = rules.wait_for("suspended")
    machine.resume()
    assert (suspended["managed"], suspended["tags"]) == (False, [])


def test_after_a_silence_what_was_missed_is_found(events: HypervisorEvents, rules: Rules, machine: t.Any) -> None:
    """The connection's end comes from libvirt; the test driver's has none, so it is told here."""
    rules.sleep()
    assert events._buffer is not None
    events._buffer.end()
    end = time.monotonic() + _SECONDS
    while rules.next != "silent":
        assert time.monotonic() < end
        time.sleep(0.01)
    machine.destroy()
    rules.wake()
    assert rules.wait_for("silent")["error"] == "the connection has ended"
    stopped = rules.wait_for("stopped")
    assert (stopped["reason"], stopped["machine"], stopped["missed"]) == ("destroyed", "test", True)
    changes = [event["change"] for event in rules.taken]
    assert changes == ["connected", "silent", "connected", "stopped"]
    assert rules.taken[2]["silent_seconds"] >= 0


def test_tags_that_have_changed_since_its_last_event_are_told(
    events: HypervisorEvents, rules: Rules, machine: t.Any
) -> None:
    """As of a machine that was adopted meanwhile: rules for machines of ours would go on to pass over it."""

    def labels() -> tuple[t.Any, t.Any]:
        rules.taken.clear()
        machine.suspend()
        machine.resume()
        event = rules.wait_for("resumed")
        return event["managed"], event["tags"]

    assert labels() == (False, [])
    write_notes(machine, MachineNotes(tags=("web",)))
    try:
        assert labels() == (True, ["web"])
        write_notes(machine, MachineNotes(tags=("db",)))
        assert labels() == (True, ["db"])
    finally:
        kinds = (libvirt.VIR_DOMAIN_METADATA_ELEMENT, None, "x", "urn:brine:virt:1")
        for flag in (libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG):
            machine.setMetadata(*kinds, flag)
    assert all(event["type"] != "metadata" for event in rules.taken)


def test_what_came_before_the_end_of_a_connection_is_told_with_its_labels(rules: Rules, machine: t.Any) -> None:
    """A rule for machines of ours would pass over an event that cannot say whose the machine is."""
    request = read_request({"hypervisors": {"hv1": SHARED}})
    events = HypervisorEvents("hv1", request, rules.take)
    conn = libvirt.open(SHARED)
    events._look(conn)
    machine.destroy()
    uuid = machine.UUIDString()
    head = {"type": "lifecycle", "machine": "test", "uuid": uuid, "change": "stopped", "reason": "failed"}
    stopped = _Told({**head, "missed": False}, None, time.time())
    ended = libvirt.open(SHARED)
    ended.close()
    events._tell(ended, stopped, again=False)
    assert rules.taken == []
    # The next connection finds it.
    assert [event["change"] for event in events._look(conn)[0]] == ["stopped"]
    # Of a machine that is known already it is told at once, as it was.
    events._tags[uuid] = (["web"], True)
    events._stale.add(uuid)
    events._tell(ended, stopped, again=False)
    assert [(event["tags"], event["managed"]) for event in rules.taken] == [(["web"], True)]
    conn.close()


def test_what_was_missed_is_told_when_its_labels_can_be_had(
    rules: Rules, machine: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the connection ends again before that, the next one finds it."""
    events = HypervisorEvents("hv1", read_request({"hypervisors": {"hv1": SHARED}}), rules.take)
    conn = libvirt.open(SHARED)
    events._look(conn)
    machine.destroy()
    with monkeypatch.context() as patched:
        patched.setattr(events, "_labels", lambda _conn, _uuid: None)
        with pytest.raises(UnreachableError, match="the connection has ended"):
            events._greet(conn)
    assert rules.taken == []
    events._greet(conn)
    assert [(event["change"], event.get("managed")) for event in rules.taken] == [
        ("connected", None),
        ("stopped", False),
    ]
    conn.close()


def test_each_restart_of_the_host_is_noticed(rules: Rules, machine: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By how long it has been up: its machines have the same IDs after each."""
    events = HypervisorEvents("hv1", read_request({"hypervisors": {"hv1": SHARED}}), rules.take)
    conn = libvirt.open(SHARED)
    restarted = ["stopped", "started"]
    for seconds, at, told in (
        (3456000, 0, []),
        (3456100, 100, []),
        (31, 200, restarted),
        # That of libvirtd alone.
        (51, 220, []),
        (33, 300, restarted),
        (29, 400, restarted),
        (35, 500, restarted),
    ):
        monkeypatch.setattr(hypervisor, "ask_uptime", lambda _conn, seconds=seconds, at=at: Uptime(seconds, at))
        assert [one["change"] for one in events._look(conn)[0]] == told, (seconds, at)
    # Nobody knows, and what was known before stays.
    monkeypatch.setattr(hypervisor, "ask_uptime", lambda _conn: None)
    assert events._look(conn)[0] == []
    assert events._uptime == Uptime(35, 500)
    conn.close()


def test_what_is_done_now_and_then(events: HypervisorEvents, monkeypatch: pytest.MonkeyPatch) -> None:
    """The uptime that a restart is seen by is not to be that of months ago; nor is anything lost for it."""
    assert events._buffer is not None
    rounds: queue.SimpleQueue[None] = queue.SimpleQueue()
    monkeypatch.setattr(events, "_go_round", lambda _conn: rounds.put(None))
    monkeypatch.setattr(hypervisor, "_ROUND_SECONDS", 0.01)
    # The one that is under way was begun with the time of before.
    events._buffer.end()
    rounds.get(timeout=_SECONDS)
    rounds.get(timeout=_SECONDS)


def test_silence_and_loss_are_in_the_log_as_well(
    events: HypervisorEvents, rules: Rules, caplog: pytest.LogCaptureFixture
) -> None:
    """Where no rule takes them, somebody is to see them all the same."""
    assert events._buffer is not None
    with events._buffer._changed:
        events._buffer._lost = 7
        events._buffer._changed.notify()
    rules.wait_for("events_lost")
    rules.taken.clear()
    events._buffer.end()
    rules.wait_for("connected")
    said = [record.getMessage() for record in caplog.records]
    assert said[:2] == [
        "7 events of hypervisor hv1 were lost: the rules are too slow",
        "hypervisor hv1 does not respond: the connection has ended",
    ]
    assert said[2].startswith("hypervisor hv1 answers again, after ")
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_a_machine_that_arrives_has_its_thresholds_when_it_runs(
    rules: Rules, machine: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt sets none as long as the move lasts, and would let all other events wait."""
    events = HypervisorEvents(
        "hv1", read_request({"hypervisors": {"hv1": SHARED}, "threshold_percent": 80}), rules.take
    )
    conn = libvirt.open(SHARED)
    events._look(conn)
    uuid = machine.UUIDString()
    asked: list[str] = []
    busy = True

    def set_thresholds(_conn: t.Any, uuid: str, percent: int) -> bool:
        assert percent == 80
        asked.append(uuid)
        return not busy

    monkeypatch.setattr(hypervisor, "set_thresholds", set_thresholds)
    head = {"type": "lifecycle", "machine": "test", "uuid": uuid, "missed": False}

    def tell(change: str, reason: str, number: int | None = 7) -> int:
        """How often libvirt was asked to set them."""
        asked.clear()
        events._tell(conn, _Told({**head, "change": change, "reason": reason}, number, time.time()), again=False)
        return len(asked)

    assert tell("started", "migrated") == 0
    events._go_round(conn)
    assert asked == []
    # It runs, and the move is about to end.
    assert tell("resumed", "migrated") == 1
    events._go_round(conn)
    assert len(asked) == 2
    busy = False
    events._go_round(conn)
    assert len(asked) == 3
    events._go_round(conn)
    assert len(asked) == 3
    assert tell("suspended", "paused") == 0
    # One that has gone is not tried any more.
    busy = True
    assert tell("started", "booted", 8) == 1
    assert tell("stopped", "destroyed", None) == 0
    events._go_round(conn)
    assert asked == []
    conn.close()


def test_a_qemu_that_hangs_holds_up_no_events(rules: Rules, machine: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """libvirt sets limits of disks in QEMU, and waits for it without end."""
    end, others = threading.Event(), threading.Event()

    def set_thresholds(_conn: t.Any, uuid: str, _percent: int) -> bool:
        if uuid == machine.UUIDString():
            end.wait(_SECONDS)
        others.set()
        return True

    monkeypatch.setattr(hypervisor, "set_thresholds", set_thresholds)
    monkeypatch.setattr(hypervisor, "_THRESHOLD_SECONDS", 0.5)
    request = read_request({"hypervisors": {"hv1": SHARED}, "threshold_percent": 80})
    events = HypervisorEvents("hv1", request, rules.take)
    waiting = threading.Thread(target=events._set_thresholds, args=(None, [machine.UUIDString(), "other"]), daemon=True)
    waiting.start()
    waiting.join(30)
    assert not waiting.is_alive()
    assert others.is_set()
    # It is tried again.
    assert events._without_thresholds == {machine.UUIDString()}
    end.set()


def test_tags_are_those_of_now_when_a_machine_comes_back_and_are_kept_no_longer_than_it(
    rules: Rules, machine: t.Any
) -> None:
    """It may have got others on another hypervisor; and of thousands that come and go nothing is to stay."""
    events = HypervisorEvents("hv1", read_request({"hypervisors": {"hv1": SHARED}}), rules.take)
    conn = libvirt.open(SHARED)
    events._look(conn)
    uuid = machine.UUIDString()
    head = {"type": "lifecycle", "machine": "test", "uuid": uuid, "reason": "migrated", "missed": False}

    def tell(change: str, number: int | None) -> list[str]:
        events._tell(conn, _Told({**head, "change": change}, number, time.time()), again=False)
        return list(rules.taken[-1]["tags"])

    events._tags[uuid] = (["old"], True)
    assert tell("stopped", None) == ["old"]
    assert tell("started", 9) == []
    events._tags[uuid] = (["new"], True)
    # It runs on.
    assert tell("undefined", 9) == ["new"]
    assert uuid in events._tags
    assert tell("stopped", None) == ["new"]
    assert tell("undefined", None) == ["new"]
    assert uuid not in events._tags
    conn.close()


def test_a_move_that_fails_is_no_crash_of_its_target(rules: Rules, machine: t.Any) -> None:
    """libvirt 9.0 says it as it says that a QEMU has died, and nothing at the source."""
    events = HypervisorEvents("hv1", read_request({"hypervisors": {"hv1": SHARED}}), rules.take)
    conn = libvirt.open(SHARED)
    events._look(conn)
    head = {"type": "lifecycle", "machine": "test", "uuid": machine.UUIDString(), "missed": False}

    def tell(*told: tuple[str, str]) -> list[tuple[str, str, bool]]:
        rules.taken.clear()
        for number, (change, reason) in enumerate(told, 7):
            event = {**head, "change": change, "reason": reason}
            events._tell(conn, _Told(event, number, time.time()), again=False)
        return [(event["type"], event["change"], event.get("arriving", False)) for event in rules.taken[-2:]]

    begin, end = ("started", "migrated"), ("stopped", "failed")
    assert tell(begin, end) == [("lifecycle", "stopped", True), ("migration", "failed", False)]
    # It has arrived, and is killed.
    assert tell(begin, ("resumed", "migrated"), end)[-1] == ("lifecycle", "stopped", False)
    assert tell(("started", "booted"), end)[-1] == ("lifecycle", "stopped", False)
    assert tell(end)[-1] == ("lifecycle", "stopped", False)
    conn.close()
