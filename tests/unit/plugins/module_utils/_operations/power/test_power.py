# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power states changed on libvirt's test driver."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host import locks as host_locks
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection, run_events
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._operations.power import (
    change,
    locks,
    machines,
    selected,
    view,
    wait,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.power.plan import PowerRequest
from ansible_collections.brine.virt.plugins.module_utils._operations.power.selected import view_all
from ansible_collections.brine.virt.plugins.module_utils._operations.power.selection import PowerSelection
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.machines.unreadable import define_unreadable

pytestmark = pytest.mark.medium

DOMAIN = """
<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0' xmlns:brine='urn:brine:virt:1'>
  <test:runstate>{state}</test:runstate>
  <name>{name}</name><metadata>{metadata}</metadata><memory unit='MiB'>64</memory><os><type>hvm</type></os>{more}
</domain>
"""
MOVE = "<m:move xmlns:m='urn:brine:virt:move:1' source='hv1' target='hv2' uri='qemu+tls://hv2/system'/>"
POOLS = "<m:move xmlns:m='urn:brine:virt:move:1' source='hv1' target='hv1' uri='qemu:///system'/>"
CLAIM = "<brine:machine status='building' claimed='yes'/>"
# A guest that does not go off when it is told to.
DEAF = "<on_poweroff>restart</on_poweroff>"
RUNNING, OFF = 1, 5


class Node:
    """A hypervisor of the test driver, and the directory of its locks."""

    def __init__(self, conn: t.Any, lock: t.Callable[..., t.ContextManager[None]]) -> None:
        self.conn = conn
        self.lock = lock

    def run(self, state: str, *names: str, check: bool = False, **how: t.Any) -> dict[str, dict[str, t.Any]]:
        """What becomes of these machines, or all, by name."""
        limits = {key: how.pop(key) for key in ("concurrency", "lock_seconds", "stop", "between") if key in how}
        between: t.Callable[[], t.Any] = limits.pop("between", lambda: None)
        request = PowerRequest(state, **{"timeout_seconds": 900, **how})
        selection = PowerSelection(names=names or None, everything=True)
        results = selected.plan_machines(self.conn, selection, request)
        between()
        if check:
            selected.preview(results)
        else:
            settings = {"concurrency": 4, "lock_seconds": 5, "stop": threading.Event(), **limits}
            machines.carry_out(self.conn, results, request, **settings)
        return {result.machine.name: result.as_result() for result in results}

    def states(self) -> dict[str, str]:
        return {view.name: view.state for view in view_all(self.conn, pending=False)}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> t.Iterator[Node]:
    """Machines by the mark ``machines``: name, whether it runs, metadata, and more of its XML."""
    lock = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(locks, "hypervisor_lock", lock)
    monkeypatch.setattr(host_locks, "hypervisor_lock", lock)
    given = getattr(request, "param", [("web1", RUNNING, "", "")])
    domains = "".join(DOMAIN.format(name=n, state=s, metadata=m, more=x) for n, s, m, x in given)
    (tmp_path / "node.xml").write_text(f"<node>{domains}</node>")
    with open_connection(f"test://{tmp_path / 'node.xml'}") as conn:
        yield Node(conn, lock)


@pytest.mark.parametrize(
    ("prepare", "wanted", "actions", "before", "after"),
    [
        ("destroy", "running", ["start"], "shutoff", "running"),
        ("suspend", "running", ["resume"], "paused", "running"),
        ("managedSave", "running", ["resume from its saved state"], "saved", "running"),
        ("", "stopped", ["shut down"], "running", "shutoff"),
        ("suspend", "stopped", ["resume", "shut down"], "paused", "shutoff"),
        ("", "paused", ["pause"], "running", "paused"),
        ("", "saved", ["save"], "running", "saved"),
        ("suspend", "saved", ["save"], "paused", "saved"),
        ("", "rebooted", ["reboot"], "running", "running"),
        ("", "reset", ["reset"], "running", "running"),
        ("", "cycled", ["shut down", "start"], "running", "running"),
    ],
)
def test_check_mode_the_run_and_the_second_run(
    node: Node, prepare: str, wanted: str, actions: list[str], before: str, after: str
) -> None:
    if prepare:
        getattr(node.conn.lookupByName("web1"), prepare)()
    ahead = node.run(wanted, check=True)["web1"]
    assert node.states() == {"web1": before}
    done = node.run(wanted)["web1"]
    assert {**done, "seconds": 0.0} == ahead
    assert ahead == {
        "name": "web1",
        "changed": True,
        "before": before,
        "state": after,
        "actions": actions,
        "seconds": 0.0,
        "failed": False,
    }
    assert node.states() == {"web1": after}
    again = node.run(wanted)["web1"]
    assert (again["changed"], again.get("msg")) == (wanted in ("rebooted", "reset", "cycled"), None)


@pytest.mark.parametrize(
    "node",
    [
        [
            ("half", OFF, "<brine:machine status='building'/>", ""),
            ("name1", OFF, CLAIM, ""),
            ("mover", RUNNING, MOVE, ""),
        ]
    ],
    indirect=True,
)
def test_machines_that_belong_to_another_run_are_left_alone(node: Node) -> None:
    before = node.states()
    for wanted in ("running", "stopped"):
        found = {name: result["msg"] for name, result in node.run(wanted).items()}
        assert found["half"].startswith("it is unfinished: a run is creating it, or was interrupted. ")
        assert found["name1"].startswith("only its name is claimed, ")
        assert found["mover"].startswith("it is being moved from hv1 to hv2, or its move was interrupted. ")
        # hv1 may never answer again, and then no run of virt_migrate there finishes it.
        assert found["mover"].endswith(
            "; if one of the two is gone for good: virsh metadata mover urn:brine:virt:move:1 --live --config --remove"
        )
    assert node.states() == before


@pytest.mark.parametrize("node", [[("mover", RUNNING, POOLS, "")]], indirect=True)
def test_a_machine_whose_disks_an_interrupted_run_has_moved_goes_off_and_not_on(node: Node) -> None:
    assert node.run("rebooted")["mover"]["msg"].startswith("its disks are being moved to another pool, or that was ")
    assert node.run("stopped")["mover"]["actions"] == ["shut down"]
    assert node.states() == {"mover": "shutoff"}
    assert node.run("running")["mover"]["msg"].startswith("its disks are being moved to another pool, or that was ")


@pytest.mark.parametrize("node", [[("deaf", RUNNING, "", DEAF), ("web1", RUNNING, "", "")]], indirect=True)
def test_a_guest_that_does_not_shut_down(node: Node) -> None:
    found = node.run("stopped", timeout_seconds=1)
    assert found["deaf"]["msg"].startswith(
        "it did not shut down within 1 s: it is running, its guest agent is not connected, so it was asked by ACPI. "
    )
    assert (found["deaf"]["changed"], found["deaf"]["actions"], found["deaf"]["state"]) == (False, [], "running")
    # The other one is not held up by it.
    assert (found["web1"]["state"], found["web1"].get("msg")) == ("shutoff", None)
    assert 1 <= found["deaf"]["seconds"] < 300
    forced = node.run("stopped", "deaf", timeout_seconds=1, force=True)["deaf"]
    assert (forced["actions"], forced["state"], forced.get("msg")) == (["power off"], "shutoff", None)


@pytest.mark.parametrize("node", [[("deaf", RUNNING, "", DEAF)]], indirect=True)
@pytest.mark.parametrize("state", ["stopped", "cycled"])
def test_one_that_is_undefined_while_its_guest_is_waited_for_is_not_lost_by_force(
    node: Node, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Powered off, there would be neither the machine nor what it was."""
    monkeypatch.setitem(change._CALLS, machines.Action.SHUT_DOWN, lambda handle: handle.undefine())
    found = node.run(state, "deaf", timeout_seconds=1, force=True)["deaf"]
    assert str(found.get("msg")).startswith("it is running but not defined here, so it is lost when it stops")
    assert (found["changed"], found["state"], node.states()) == (False, "running", {"deaf": "running"})


@pytest.mark.parametrize("node", [[("deaf", RUNNING, "", DEAF)]], indirect=True)
def test_off_by_force_and_on_again(node: Node) -> None:
    forced = node.run("cycled", timeout_seconds=1, force=True)["deaf"]
    assert (forced["actions"], forced["state"], forced.get("msg")) == (["power off", "start"], "running", None)
    at_once = node.run("cycled", timeout_seconds=0, force=True)["deaf"]
    assert (at_once["actions"], at_once["seconds"] < 300) == (["power off", "start"], True)


@pytest.mark.parametrize("node", [[("web1", RUNNING, "", "<on_reboot>destroy</on_reboot>")]], indirect=True)
def test_a_machine_that_stops_instead_of_rebooting(node: Node) -> None:
    found = node.run("rebooted")["web1"]
    assert found["msg"].startswith("it has stopped instead of rebooting, and is shutoff. ")
    assert found["state"] == "shutoff"


def test_a_reboot_that_nobody_sees(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a driver that tells of reboots, the call alone is none; this one does not tell."""
    monkeypatch.setattr(wait, "_TELLS_OF_REBOOTS", node.conn.getType())
    found = node.run("rebooted", timeout_seconds=1)["web1"]
    assert found["msg"].startswith("it did not reboot within 1 s: it is running, ")
    forced = node.run("rebooted", timeout_seconds=1, force=True)["web1"]
    assert (forced["actions"], forced.get("msg")) == (["reset"], None)


def test_a_guest_is_asked_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first time it was still booting."""
    monkeypatch.setattr(change, "_ASK_AGAIN_SECONDS", 0.5)
    monkeypatch.setattr(wait, "_LOOK_SECONDS", 0.1)
    asked: list[float] = []

    def shut_down(handle: t.Any) -> None:
        asked.append(time.monotonic())
        if len(asked) > 1:
            handle.shutdown()

    monkeypatch.setitem(change._CALLS, change.Action.SHUT_DOWN, shut_down)
    found = node.run("stopped")["web1"]
    assert (found["state"], found.get("msg"), len(asked)) == ("shutoff", None, 2)


@pytest.mark.parametrize(
    ("writes", "shown"),
    [(True, "ends with"), (False, "has shown nothing since, and ends with")],
    ids=["writes", "silent"],
)
def test_a_guest_that_does_not_obey_is_said_with_its_console(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, writes: bool, shown: str
) -> None:
    log = tmp_path / "serial.log"
    log.write_bytes(b"a\nb\r\n\x1b[31mStopping \xffdb\x1b[0m\nstuck {{ 1 + 1 }}\n")
    node.conn.defineXML(
        f"<domain type='test'><name>deaf</name><memory>1024</memory><os><type>hvm</type></os>"
        f"<devices><serial type='pty'><log file='{log}'/></serial></devices></domain>"
    ).create()
    monkeypatch.setattr(change, "_ASK_AGAIN_SECONDS", 0.2)
    monkeypatch.setattr(wait, "_LOOK_SECONDS", 0.1)
    monkeypatch.setitem(change._CALLS, change.Action.SHUT_DOWN, lambda _handle: os.utime(log) if writes else None)
    os.utime(log, (time.time() - 60,) * 2)
    error = node.run("stopped", "deaf", timeout_seconds=1)["deaf"]["msg"]
    asked, _comma, rest = error.partition(" times; ")
    assert asked.startswith("it did not shut down within 1 s: it is running, its guest agent is not connected, so ")
    assert asked.rpartition("it was asked by ACPI, ")[2] in ("3", "4", "5")
    assert rest == (
        f"its serial console {shown}: b | Stopping \ufffddb | stuck {{{{ 1 + 1 }}}}. It may still do so. Give it a "
        "longer timeout. With force=true it is done without the guest"
    )


def test_a_guest_that_cannot_be_asked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    # libvirt refuses to start what runs.
    monkeypatch.setitem(change._CALLS, change.Action.SHUT_DOWN, lambda handle: handle.create())
    error = node.run("stopped")["web1"]["msg"]
    assert error.startswith("it could not shut down: ")
    assert error.endswith(
        "; its guest agent is not connected, so it was asked by ACPI. With force=true it is done without the guest"
    )


@pytest.mark.parametrize("node", [[("web1", OFF, "", "")]], indirect=True)
def test_a_start_that_ends_at_once_says_why(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_and_crash(handle: t.Any) -> None:
        handle.create()
        handle.destroy()

    monkeypatch.setitem(change._CALLS, change.Action.START, start_and_crash)
    found = node.run("running")["web1"]
    assert found.get("msg") == (
        "it has started and stopped again: it is shutoff (somebody powered it off); QEMU's log is not on this host"
    )
    assert (found["state"], found["seconds"] < 300) == ("shutoff", True)


@pytest.mark.parametrize("seconds", [0, 0.2])
def test_one_that_is_paused_again_by_an_error_says_so_at_once(
    node: Node, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Its storage is still full: it runs for a moment at most."""
    # The test driver knows of no other reason.
    monkeypatch.setattr(libvirt, "VIR_DOMAIN_PAUSED_IOERROR", libvirt.VIR_DOMAIN_PAUSED_USER)
    node.conn.lookupByName("web1").suspend()

    def resume(handle: t.Any) -> None:
        if seconds:
            handle.resume()
            threading.Timer(seconds, handle.suspend).start()

    monkeypatch.setitem(change._CALLS, change.Action.RESUME, resume)
    found = node.run("running")["web1"]
    assert found["msg"] == (
        "it is paused again because of an I/O error. Remove the cause first. virsh domblkerror web1 names disks with "
        "an I/O error, as when their storage is full"
    )
    assert (found["state"], found["actions"], found["seconds"] < 30) == ("paused", [], True)


def test_a_saved_state_that_cannot_be_restored_is_kept_and_said(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.conn.lookupByName("web1").managedSave()
    monkeypatch.setitem(change._CALLS, change.Action.RESTORE, lambda handle: handle.suspend())
    found = node.run("running")["web1"]
    assert found["msg"].startswith("it could not resume from its saved state: ")
    assert found["msg"].endswith(
        ". Its saved state is kept. To start it without, as after a power cut: virsh managedsave-remove web1"
    )
    assert found["state"] == "saved"


DELETES = "<w:snapshotting xmlns:w='urn:brine:virt:snapshotting:1' snapshot='before' work='delete'/>"


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (
            [("web1", OFF, DELETES, "")],
            "; the deletion of its snapshot before has not ended. Run virt_snapshot with state: absent and "
            "name: before again, which finishes it",
        ),
        ([("web1", OFF, DELETES.replace("delete", "take"), "")], None),
    ],
    indirect=["node"],
)
def test_a_start_that_fails_while_a_snapshot_is_half_deleted_says_how_that_ends(
    node: Node, monkeypatch: pytest.MonkeyPatch, words: str | None
) -> None:
    # The test driver opens no file.
    monkeypatch.setitem(change._CALLS, change.Action.START, lambda handle: handle.resume())
    error = node.run("running")["web1"]["msg"]
    assert error.startswith("it could not start: ")
    assert error.endswith(words) if words else "before" not in error


def test_an_event_ends_the_wait(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for the next look."""
    monkeypatch.setattr(wait, "_LOOK_SECONDS", 900)
    monkeypatch.setitem(change._CALLS, change.Action.SHUT_DOWN, lambda _handle: None)
    timer = threading.Timer(0.5, node.conn.lookupByName("web1").shutdown)
    timer.start()
    found = node.run("stopped")["web1"]
    assert (found["state"], found.get("msg")) == ("shutoff", None)
    assert found["seconds"] < 300


def test_what_changed_since_it_was_planned(node: Node) -> None:
    domain = node.conn.lookupByName("web1")
    found = node.run("stopped", between=domain.suspend)["web1"]
    assert found.get("msg") == "it was running when this was planned, and is paused now. Run it again"
    assert node.states() == {"web1": "paused"}
    domain.resume()
    found = node.run("stopped", between=domain.shutdown)["web1"]
    assert (found["changed"], found["actions"], found["state"], found.get("msg")) == (False, [], "shutoff", None)
    found = node.run("running", between=domain.undefine)["web1"]
    assert "it has left this hypervisor since" in found["msg"] and found["state"] == "nostate"


def test_a_machine_that_has_left_since_is_said_to_have(node: Node) -> None:
    """Such as one that another run has moved."""

    def leave() -> None:
        domain = node.conn.lookupByName("web1")
        domain.destroy()
        domain.undefine()

    found = node.run("rebooted", "web1", between=leave)["web1"]
    words = "it has left this hypervisor since this run looked: it was moved or removed"
    assert found["msg"] == f"{words}. Run it again, which finds it where it is"


@pytest.mark.parametrize("node", [[(f"web{number}", RUNNING, "", "") for number in range(1, 6)]], indirect=True)
def test_many_side_by_side(node: Node) -> None:
    found = node.run("cycled", concurrency=2)
    assert [(name, result.get("msg")) for name, result in found.items()] == [(f"web{n}", None) for n in range(1, 6)]


def test_nobody_waits_any_more(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to come on again comes on all the same, and nothing else is begun."""
    stop = threading.Event()

    def shut_down(handle: t.Any) -> None:
        stop.set()
        handle.shutdown()

    monkeypatch.setitem(change._CALLS, change.Action.SHUT_DOWN, shut_down)
    found = node.run("cycled", stop=stop)["web1"]
    assert (found["actions"], found["state"], found.get("msg")) == (["shut down", "start"], "running", None)
    found = node.run("cycled", stop=stop)["web1"]
    assert (found.get("msg"), found["changed"]) == ("it was interrupted", False)


@pytest.mark.parametrize("node", [[("deaf", RUNNING, "", DEAF)]], indirect=True)
def test_nobody_waits_for_a_guest_any_more(node: Node) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    found = node.run("stopped", stop=stop)["deaf"]
    assert (found.get("msg"), found["seconds"] < 300) == ("it was interrupted", True)


def test_another_run_holds_the_machine(node: Node) -> None:
    """virt_migrate takes this lock for as long as it moves a machine."""
    with node.lock("move-web1", wait_seconds=0):
        found = node.run("stopped", lock_seconds=0)["web1"]
    assert found["msg"].startswith(
        "another run is moving, backing up, restoring or removing machine web1, or changing its power state. Wait"
    )
    assert node.states() == {"web1": "running"}


def test_another_run_holds_the_hypervisor(node: Node) -> None:
    with node.lock("init", wait_seconds=0):
        found = node.run("stopped", lock_seconds=0.2)["web1"]
    assert "another run has been at work on this hypervisor" in found["msg"]
    assert node.states() == {"web1": "running"}


def test_the_threads_of_one_run_share_the_lock(node: Node) -> None:
    shared = locks.SharedLock(0.2)
    with contextlib.ExitStack() as stack:
        stack.enter_context(shared.held())
        stack.enter_context(shared.held())
        with pytest.raises(ConflictError), node.lock("init", wait_seconds=0):
            pass
    with node.lock("init", wait_seconds=0), pytest.raises(ConflictError), shared.held():
        pass
    with shared.held():
        pass


@pytest.mark.parametrize("wanted", ["running", "stopped", "cycled"])
def test_a_machine_that_cannot_be_read_is_left_as_it_is(node: Node, wanted: str) -> None:
    define_unreadable(node.conn)
    for check in (True, False):
        found = node.run(wanted, "ent1", check=check, force=True)["ent1"]
        assert found.get("msg") == (
            "the description of machine ent1 cannot be read as XML: Entity 'x' not defined, line 5, column 32. "
            "Correct its XML: virsh edit ent1"
        )
        assert (found["changed"], found["before"], found["state"]) == (False, "shutoff", "shutoff")
    assert node.run("paused")["web1"]["state"] == "paused"


def test_what_waits_for_power_off_and_on_is_known(node: Node) -> None:
    (view,) = view_all(node.conn, pending=True)
    assert view.pending == ()
    domain = node.conn.lookupByName("web1")
    domain.setMemoryFlags(128 * 1024, 4 | 2)  # the maximum, in the definition
    (view,) = view_all(node.conn, pending=True)
    assert view.pending == ("memory",)
    node.run("cycled")
    (view,) = view_all(node.conn, pending=True)
    assert view.pending == ()


def ordered(order: int | None, delay: int = 0) -> str:
    number = "" if order is None else f" order='{order}'"
    return f"<brine:machine><brine:start{number} delay='{delay}'/></brine:machine>"


ORDERED = [
    ("any", OFF, "", ""),
    ("db", OFF, ordered(3, 2), ""),
    ("dns", OFF, ordered(0), ""),
    ("late", OFF, ordered(None, 600), ""),
    ("web", OFF, ordered(20), ""),
    ("up", RUNNING, ordered(10, 600), ""),
]
LONG_DELAY = [("db", OFF, ordered(3, 600), "") if machine[0] == "db" else machine for machine in ORDERED]


def history(node: Node, state: str, **how: t.Any) -> tuple[list[str], dict[str, dict[str, t.Any]], float]:
    """Who changed its state, one after the other, as libvirt told of it."""
    names: list[str] = []

    def note(_conn: t.Any, domain: t.Any, event: int, *_more: t.Any) -> None:
        if event in (libvirt.VIR_DOMAIN_EVENT_STARTED, libvirt.VIR_DOMAIN_EVENT_STOPPED):
            names.append(domain.name())

    run_events()
    number = node.conn.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, note, None)
    began = time.monotonic()
    try:
        result = node.run(state, **how)
        seconds = time.monotonic() - began
        # Events come a little after what they tell of.
        time.sleep(0.5)
    finally:
        node.conn.domainEventDeregisterAny(number)
    return names, result, seconds


@pytest.mark.parametrize("node", [ORDERED], indirect=True)
def test_machines_start_in_their_order_and_stop_the_other_way_round(node: Node) -> None:
    names, result, seconds = history(node, "running")
    assert names[:3] == ["dns", "db", "web"]
    assert sorted(names[3:]) == ["any", "late"]
    # After db, and not after what ran already or comes last.
    assert 2 <= seconds < 300
    assert list(result) == sorted(result)
    names, _result, seconds = history(node, "stopped")
    assert sorted(names[:2]) == ["any", "late"]
    assert names[2:] == ["web", "up", "db", "dns"]
    assert seconds < 300


@pytest.mark.parametrize("node", [LONG_DELAY], indirect=True)
def test_one_that_does_not_start_holds_nobody_up(node: Node) -> None:
    def lose() -> None:
        node.conn.lookupByName("db").undefine()

    names, result, seconds = history(node, "running", between=lose)
    assert result["db"].get("msg")
    assert names[:2] == ["dns", "web"]
    assert seconds < 300


@pytest.mark.parametrize("node", [LONG_DELAY], indirect=True)
def test_who_is_told_to_stop_does_not_wait_for_a_delay(node: Node) -> None:
    stop = threading.Event()

    def stop_after_db() -> None:
        while node.states()["db"] != "running":
            time.sleep(0.05)
        stop.set()

    threading.Thread(target=stop_after_db, daemon=True).start()
    names, result, seconds = history(node, "running", stop=stop)
    assert names == ["dns", "db"]
    assert (result["web"]["state"], result["web"].get("msg")) == ("shutoff", "it was interrupted")
    assert seconds < 300


@pytest.mark.parametrize("node", [ORDERED], indirect=True)
@pytest.mark.parametrize(("names", "seconds"), [(("db", "dns"), 2), (("db", "web"), 0), (("up",), 0)])
def test_how_long_those_wait_that_come_after(node: Node, names: tuple[str, ...], seconds: int) -> None:
    request = PowerRequest("running", 20)
    results = selected.plan_machines(node.conn, PowerSelection(names=names), request)
    selected.preview(results)
    assert machines.last_delay(results, request) == seconds


class _Starting:
    """A machine of which libvirt says so many times that it is being started."""

    def __init__(self, handle: t.Any, times: int) -> None:
        self._handle = handle
        self._times = times

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._handle, name)

    def state(self) -> list[int]:
        self._times -= 1
        starting = [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP]
        return starting if self._times >= 0 else list(self._handle.state())


def test_the_end_of_a_start_is_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_LOOK_SECONDS", 0.01)
    view._end_of_waiting.cache_clear()
    handle = node.conn.lookupByName("web1")
    seen = view.view_machine(_Starting(handle, 3))
    assert (seen.state, seen.refusal) == ("running", None)
    view._end_of_waiting.cache_clear()
    monkeypatch.setattr(view, "_START_SECONDS", 0.5)
    began = time.monotonic()
    for _machine in range(4):
        seen = view.view_machine(_Starting(handle, 1000))
        assert seen.state == "paused"
        assert str(seen.refusal) == "libvirt is starting it. See virsh domjobinfo web1"
    view._end_of_waiting.cache_clear()
    # For all of them together.
    assert 0.5 <= time.monotonic() - began < 1.5
