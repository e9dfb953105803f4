# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that runs is shut down by its operating system before it is removed, where that is asked for."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host import locks as host_locks
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._operations.power import change, locks, wait
from ansible_collections.brine.virt.plugins.module_utils._operations.power.plan import Action
from ansible_collections.brine.virt.plugins.module_utils._operations.power.view import PowerView
from ansible_collections.brine.virt.plugins.module_utils._operations.purge import machines as purge_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.purge import plan as purge_plan
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    PurgeHost,
    decided,
)

VOLUME = "web1-system.qcow2"


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(locks, "hypervisor_lock", lock)
    monkeypatch.setattr(host_locks, "hypervisor_lock", lock)
    monkeypatch.setattr(wait, "_LOOK_SECONDS", 0.05)


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """No guest does what it is asked for."""
    monkeypatch.setitem(change._CALLS, Action.SHUT_DOWN, lambda _handle: None)


@pytest.mark.parametrize(
    ("prepare", "actions"),
    [("create", ["shut down web1"]), ("suspend", ["resume web1", "shut down web1"]), ("", [])],
)
def test_it_goes_once_it_is_off(host: PurgeHost, prepare: str, actions: list[str]) -> None:
    machine = host.make()
    if prepare:
        machine.create()
    if prepare == "suspend":
        machine.suspend()
    result = host.one(stop=True)
    assert result["actions"] == [*actions, f"delete volume {VOLUME} of pool default", "undefine web1"]
    assert (host.names(), decided(result)) == (set(), {VOLUME: "delete: it belongs to this machine"})


def test_several_that_run(host: PurgeHost) -> None:
    for name in ("web1", "web2"):
        host.make(name=name).create()
    host.make(name="web3")
    answer = host.purge("web1", "web2", "web3", stop=True)
    assert ([one["changed"] for one in answer["machines"]], host.names()) == ([True] * 3, set())


@pytest.mark.parametrize(
    ("options", "paused", "words"),
    [
        ({"stop": True}, False, "shut down within 180 s"),
        ({"stop": True, "stop_timeout": 60, "force": True}, False, "shut down within 60 s, else power off"),
        ({"stop": True}, True, "resume, then shut down within 180 s"),
        ({"force": True}, False, "power off"),
    ],
)
def test_the_plan_says_how_it_is_switched_off(
    host: PurgeHost, options: dict[str, t.Any], paused: bool, words: str
) -> None:
    machine = host.make(start=True)
    if paused:
        machine.suspend()
    assert host.one(**options)["power"] == words


def test_of_one_that_is_off_it_says_nothing(host: PurgeHost) -> None:
    host.make()
    assert host.one(stop=True, force=True)["power"] is None


@pytest.mark.parametrize("paused_by", [None, "by an I/O error"])
def test_one_whose_system_cannot_shut_down(
    host: PurgeHost, monkeypatch: pytest.MonkeyPatch, paused_by: str | None
) -> None:
    machine = host.make(start=True)
    state = "paused" if paused_by else "crashed"
    view = PowerView("web1", machine, state, active=True, paused_by=paused_by)
    monkeypatch.setattr(purge_plan, "view_machine", lambda _handle: view)
    result = host.one(stop=True)
    reason = f"web1 is {state}{' by an I/O error' if paused_by else ''}, so its operating system cannot shut down"
    assert (result["obstacle"], result["reason"]) == ("unable", reason)
    assert result["msg"] == f"{reason}. Set force: true to have it powered off"
    assert host.purge(stop=True, force=True, check_mode=True)["machines"][0]["power"] == "power off"


@pytest.mark.usefixtures("deaf")
def test_one_that_does_not_shut_down_is_not_removed(host: PurgeHost) -> None:
    host.make().create()
    host.make(name="web2")
    before = host.files()
    answer = host.purge("web1", "web2", stop=True, stop_timeout=1)
    first, second = answer["machines"]
    assert (first["failed"], first["changed"], first["actions"], second["changed"]) == (True, False, [], True)
    assert first["msg"].startswith("it did not shut down within 1 s: it is running")
    assert first["msg"].endswith(
        ". It may still do so. To give it longer, set stop_timeout; with force as well, it is powered off then"
    )
    assert (host.names(), VOLUME in host.files()) == ({"web1"}, True)
    assert before[VOLUME] == host.files()[VOLUME]
    assert host.conn.lookupByName("web1").isActive()


@pytest.mark.usefixtures("deaf")
def test_with_force_it_is_powered_off_then(host: PurgeHost) -> None:
    host.make().create()
    result = host.purge(stop=True, stop_timeout=1, force=True)["machines"][0]
    assert result["actions"] == ["power off web1", f"delete volume {VOLUME} of pool default", "undefine web1"]
    assert host.names() == set()


def test_one_that_is_started_again_stays(host: PurgeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.make().create()
    change_power = purge_machines.change_power

    def and_start(conn: t.Any, *arguments: t.Any, **options: t.Any) -> None:
        change_power(conn, *arguments, **options)
        conn.lookupByName("web1").create()

    monkeypatch.setattr(purge_machines, "change_power", and_start)
    result = host.purge(stop=True)["machines"][0]
    assert "machine web1 has been started since this run looked, so it is not removed" in result["msg"]
    assert "Done before that: shut down web1" in result["msg"]
    assert (host.names(), VOLUME in host.files()) == ({"web1"}, True)


def test_no_time_at_all_is_refused(host: PurgeHost) -> None:
    with pytest.raises(InputError, match="stop_timeout: 0 is less than 1"):
        host.purge(stop=True, stop_timeout=0)
