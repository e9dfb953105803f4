# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines brought to the state that their specs ask for, on libvirt's test driver."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host import locks as host_locks
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.machines.record import state_name
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import SnapshotWork
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans, run_plans
from ansible_collections.brine.virt.plugins.module_utils._operations.power import change, locks, machines, wait
from ansible_collections.brine.virt.plugins.module_utils._operations.power import view as power_view
from ansible_collections.brine.virt.plugins.module_utils._operations.power.view import PowerView
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.clustered import note_begin
from ansible_collections.brine.virt.plugins.module_utils._operations.update import power
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host, one

SPEC: dict[str, t.Any] = {
    "name": "new1",
    "vcpus": 1,
    "memory": 128,
    "disk_profile": "none",
    "nic_profile": "none",
    "seed": {"method": "none"},
}


class Node:
    """A hypervisor of the test driver."""

    def __init__(self, conn: t.Any) -> None:
        self.conn = conn

    def plan(self, **changes: t.Any) -> MachinePlan:
        return make_plans([read_machine({**SPEC, **changes})], Hypervisor(self.conn, image_pool="images"), "")[0]

    def make(self, **changes: t.Any) -> dict[str, t.Any]:
        """What the task does, after the same in check mode."""
        return self.carry_out(self.plan(**changes)).as_result()

    def carry_out(self, todo: MachinePlan, seconds: float = 20) -> MachinePlan:
        done = run_plans([todo], concurrency=1)
        return power.change_power(self.conn, done, concurrency=1, lock_seconds=5, stop_seconds=seconds)[0]

    @property
    def machine(self) -> t.Any:
        return self.conn.lookupByName("new1")

    def state(self) -> str:
        return state_name(self.machine.state()[0])


@pytest.fixture
def node(node_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Node]:
    lock = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(locks, "hypervisor_lock", lock)
    monkeypatch.setattr(host_locks, "hypervisor_lock", lock)
    with open_connection(node_uri) as conn:
        yield Node(conn)


@pytest.mark.parametrize(
    ("options", "state"),
    [
        ({}, "running"),
        ({"state": "running"}, "running"),
        ({"state": "stopped"}, "shutoff"),
        ({"state": "present"}, "shutoff"),
        ({"start": False}, "shutoff"),
    ],
)
def test_a_new_machine(node: Node, options: dict[str, t.Any], state: str) -> None:
    result = node.make(**options)
    assert (result["created"], node.state(), "start new1" in result["actions"]) == (True, state, state == "running")
    again = node.plan(**options)
    assert (again.actions, again.before, again.after) == ([], {}, {})


@pytest.mark.parametrize(
    ("prepare", "wanted", "actions", "before", "after"),
    [
        ("destroy", "running", ["start new1"], "stopped", "running"),
        ("suspend", "running", ["resume new1"], "paused", "running"),
        ("managedSave", "running", ["start new1"], "stopped", "running"),
        ("", "stopped", ["shut down new1"], "running", "stopped"),
        ("suspend", "stopped", ["resume new1", "shut down new1"], "paused", "stopped"),
    ],
)
def test_an_existing_machine_is_brought_to_its_state(
    node: Node, prepare: str, wanted: str, actions: list[str], before: str, after: str
) -> None:
    node.make()
    if prepare:
        getattr(node.machine, prepare)()
    todo = node.plan(state=wanted)
    assert (todo.actions, todo.before, todo.after) == (actions, {"state": before}, {"state": after})
    ahead, done = todo.as_result(), node.carry_out(todo).as_result()
    assert {**done, "seconds": 0.0} == ahead
    assert (done["changed"], done["failed"], node.state()) == (True, False, after.replace("stopped", "shutoff"))
    assert node.plan(state=wanted).actions == []


def test_one_that_was_saved_while_it_was_paused_runs(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    create: t.Any = libvirt.virDomain.create

    def create_paused(handle: t.Any) -> None:
        """What QEMU does with the state that was saved."""
        create(handle)
        handle.suspend()

    node.make()
    node.machine.managedSave()
    with monkeypatch.context() as paused:
        paused.setattr(libvirt.virDomain, "create", create_paused)
        assert node.make(state="running")["failed"] is False
    assert node.state() == "running"
    assert node.plan(state="running").actions == []


@pytest.mark.parametrize("prepare", ["", "destroy", "suspend", "managedSave"])
def test_present_leaves_the_power_state_alone(node: Node, prepare: str) -> None:
    node.make()
    if prepare:
        getattr(node.machine, prepare)()
    before = node.state()
    assert node.make(state="present")["changed"] is False
    assert node.state() == before


@pytest.mark.parametrize("prepare", ["destroy", "managedSave"])
def test_what_is_off_counts_as_stopped_and_keeps_its_saved_state(node: Node, prepare: str) -> None:
    node.make()
    getattr(node.machine, prepare)()
    saved = node.machine.hasManagedSaveImage(0)
    assert node.make(state="stopped")["changed"] is False
    assert node.machine.hasManagedSaveImage(0) == saved


def test_nothing_waits_for_a_machine_to_be_stopped_that_is_stopped(node: Node) -> None:
    node.make()
    assert list(node.plan(memory=256).pending) == ["memory"]
    result = node.make(memory=256, state="stopped")
    assert (result["pending"], result["restart_required"], node.state()) == ([], False, "shutoff")
    assert node.plan(memory=256, state="stopped").actions == []


def test_a_guest_that_does_not_shut_down_keeps_its_changes_and_is_never_forced(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.make()
    monkeypatch.setitem(change._CALLS, machines.Action.SHUT_DOWN, lambda _handle: None)
    monkeypatch.setattr(wait, "_LOOK_SECONDS", 0.05)
    done = node.carry_out(node.plan(state="stopped", title="Web"), seconds=0.2)
    assert node.state() == "running"
    assert str(done.error).startswith("it did not shut down within 0.2 s: it is running, its guest agent is not")
    assert str(done.error).endswith(
        "It may still do so. To give it longer, set stop_timeout. virt_power with state=stopped and force=true does "
        "it without its operating system"
    )
    result = done.as_result()
    # The title was set before, and stays.
    assert (result["changed"], result["failed"], result["actions"]) == (True, True, ["set the title of new1"])


def test_what_waits_for_a_machine_to_be_stopped_still_waits_when_it_does_not_stop(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.make()
    monkeypatch.setitem(change._CALLS, machines.Action.SHUT_DOWN, lambda _handle: None)
    monkeypatch.setattr(wait, "_LOOK_SECONDS", 0.05)
    result = node.carry_out(node.plan(memory=256, state="stopped"), seconds=0.2).as_result()
    assert (result["failed"], node.state()) == (True, "running")
    assert (result["pending"], result["restart_required"]) == (["memory"], True)


def test_a_state_that_cannot_be_reached_is_the_error_of_its_machine(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.make()
    monkeypatch.setattr(power, "view_machine", _crashed)
    todo = node.plan(title="Web")
    assert str(todo.error) == (
        "it is crashed, and does not go on. virt_power with state=cycled and force=true does it without its "
        "operating system"
    )
    assert (todo.actions, node.carry_out(todo).as_result()["changed"]) == ([], False)


def _crashed(handle: t.Any) -> PowerView:
    return PowerView(handle.name(), handle, "crashed", active=True)


def test_one_that_would_be_lost_is_not_stopped(node: Node) -> None:
    node.make()
    node.machine.undefine()
    said = str(node.plan(state="stopped").error)
    assert "it is running but not defined here, so it is lost when it stops" in said
    # With the console's password, and without what is true of this one run.
    assert re.search(r"virsh dumpxml --inactive --security-info (\S+) > \1\.xml\) && virsh define \1\.xml", said), said
    assert node.state() == "running"
    assert node.machine.state()[0] == libvirt.VIR_DOMAIN_RUNNING


def test_one_that_somebody_has_stopped_meanwhile_is_no_error(node: Node) -> None:
    node.make()
    todo = node.plan(state="stopped")
    node.machine.destroy()
    done = node.carry_out(todo)
    assert (done.error, done.as_result()["actions"], node.state()) == (None, [], "shutoff")


def test_one_that_may_start_with_older_data_is_not_started(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As virt_power does not: the deletion of its snapshot was cut off, and it has been on the file below since."""
    monkeypatch.setattr(power_view, "is_local", lambda _uri: True)
    node.make()
    node.machine.destroy()
    below, file = tmp_path / "vda.qcow2", tmp_path / "vda.now.qcow2"
    _run("qemu-img", "create", "-q", "-f", "qcow2", str(below), "4M")
    _run("qemu-img", "create", "-q", "-f", "qcow2", "-b", str(below), "-F", "qcow2", str(file))
    disk = f"<disk type='file'><driver type='qcow2'/><source file='{file}'/><target dev='vda'/></disk></devices>"
    node.conn.defineXML(node.machine.XMLDesc(0).replace("</devices>", disk))
    note_begin(node.machine, SnapshotWork("now", deleting=True))
    assert node.plan().actions == ["start new1"]
    _run("qemu-io", "-f", "qcow2", "-c", "write -P 3 0 1M", str(file))
    os.utime(file, (0, 0))
    todo = node.plan(title="Web")
    assert str(todo.error).startswith("the deletion of its snapshot now was interrupted, and ")
    assert (todo.actions, node.carry_out(todo).as_result()["changed"], node.state()) == ([], False, "shutoff")
    assert node.make(state="present", title="Web")["changed"] is True


def test_the_older_file_does_not_grow(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be the one that was written to last, and be started with."""
    host.make(one("a", {"size": "1MiB"}))
    older = power_view.HalfMergedError("it may start with older data")
    with monkeypatch.context() as now:
        now.setattr(power_view, "_may_be_old", lambda *_what: older)
        (todo,) = host.plan(one("a", {"size": "2MiB"}))
    assert (todo.error, todo.actions) == (older, [])
    (todo,) = host.plan(one("a", {"size": "2MiB"}))
    assert todo.actions == ["grow disk d of a to 2 MiB"]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
