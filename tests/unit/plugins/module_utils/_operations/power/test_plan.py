# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What brings a machine from one power state to another, as tables."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._operations.power.plan import (
    PowerRequest,
    expected_state,
    plan_actions,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.power.selection import PowerSelection
from ansible_collections.brine.virt.plugins.module_utils._operations.power.view import DisksMovingError, PowerView

OFF = ("shutoff", "saved")
# The requested state; for each state that a machine is in: the actions, or words of the refusal.
TABLE: dict[str, dict[str, str]] = {
    "running": {
        "running": "",
        "blocked": "",
        "paused": "resume",
        "pmsuspended": "wake up",
        "shutdown": "shut down, start",
        "shutoff": "start",
        "saved": "resume from its saved state",
        "crashed": "!does not go on",
        "nostate": "!does not go on",
    },
    "stopped": {
        "running": "shut down",
        "paused": "resume, shut down",
        "pmsuspended": "wake up, shut down",
        "shutdown": "shut down",
        "shutoff": "",
        "saved": "",
        "crashed": "!With force=true: power off",
    },
    "paused": {
        "running": "pause",
        "paused": "",
        "shutoff": "!it is off, so it cannot be paused. With in_state=running, what is off is left out",
        "saved": "!with its memory saved",
        "pmsuspended": "!it is pmsuspended, so it cannot be paused",
    },
    "rebooted": {
        "running": "reboot",
        "paused": "resume, reboot",
        "shutoff": "!it is off, so it cannot be rebooted",
        "crashed": "!With force=true: reset",
    },
    "reset": {"running": "reset", "paused": "reset", "shutoff": "!it is off", "shutdown": "!so it cannot be reset"},
    "saved": {"running": "save", "paused": "save", "saved": "", "shutoff": "!it is off", "crashed": "!cannot be saved"},
    "cycled": {
        "running": "shut down, start",
        "paused": "resume, shut down, start",
        "shutoff": "!it is off, so it cannot be cycled",
        "saved": "!with its memory saved, so it cannot be cycled",
    },
}


def machine(state: str, **more: t.Any) -> PowerView:
    return PowerView("web1", None, state, active=state not in OFF, **more)


def planned(view: PowerView, wanted: str, **how: t.Any) -> str:
    """The actions with commas, or the refusal after an exclamation mark."""
    request = PowerRequest(wanted, **{"timeout_seconds": 60, **how})
    try:
        return ", ".join(action.value for action in plan_actions(view, request))
    except ConflictError as exc:
        return f"!{exc}"


@pytest.mark.parametrize(
    ("wanted", "state", "plan"),
    [(wanted, state, plan) for wanted, row in TABLE.items() for state, plan in row.items()],
)
def test_every_state_to_every_other(wanted: str, state: str, plan: str) -> None:
    found = planned(machine(state), wanted)
    assert (plan[1:] in found and found[0] == "!") if plan.startswith("!") else found == plan


@pytest.mark.parametrize(
    ("state", "wanted", "plan"),
    [
        ("running", "stopped", "power off"),
        ("running", "rebooted", "reset"),
        ("paused", "rebooted", "reset, resume"),
        ("running", "cycled", "power off, start"),
        ("shutoff", "stopped", ""),
    ],
)
def test_without_time_the_guest_is_not_asked(state: str, wanted: str, plan: str) -> None:
    assert planned(machine(state), wanted, force=True, timeout_seconds=0) == plan


def test_a_guest_that_cannot_be_asked_is_forced_only_where_that_is_allowed() -> None:
    """Paused by an I/O error it would only run into it again."""
    view = machine("paused", paused_by="because of an I/O error")
    assert planned(view, "stopped") == (
        "!it is paused because of an I/O error, so its operating system cannot shut down. Remove the cause, and resume "
        "it with state=running. With force=true: power off"
    )
    assert planned(view, "stopped", force=True) == "power off"
    assert planned(machine("crashed"), "cycled", force=True) == "power off, start"
    assert planned(machine("paused"), "stopped", force=True) == "resume, shut down"


def test_one_that_has_crashed_and_is_off_is_off() -> None:
    view = PowerView("web1", None, "crashed", active=False)
    assert planned(view, "running") == "start"
    assert planned(view, "stopped") == ""


@pytest.mark.parametrize("wanted", ["running", "stopped", "paused", "cycled"])
def test_a_refusal_stands_whatever_is_asked_for(wanted: str) -> None:
    refusal = ConflictError("it is being moved from hv1 to hv2")
    assert planned(machine("running", refusal=refusal), wanted) == "!it is being moved from hv1 to hv2"


@pytest.mark.parametrize("wanted", ["running", "paused", "saved", "rebooted", "cycled"])
def test_while_its_disks_are_moved_it_only_goes_off(wanted: str) -> None:
    """What nobody has seen the end of can be finished then; the machine's lock keeps it from a move that goes on."""
    refusal = DisksMovingError("its disks are being moved to another pool")
    assert planned(machine("running", refusal=refusal), "stopped") == "shut down"
    assert planned(machine("running", refusal=refusal), wanted) == "!its disks are being moved to another pool"


@pytest.mark.parametrize("wanted", ["stopped", "saved", "cycled"])
def test_what_is_not_defined_is_not_stopped(wanted: str) -> None:
    assert "lost when it stops" in planned(machine("running", persistent=False), wanted)
    assert planned(machine("running", persistent=False), "rebooted") == "reboot"


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("running", "stopped", "shutoff"),
        ("running", "saved", "saved"),
        ("saved", "running", "running"),
        ("running", "paused", "paused"),
        ("paused", "reset", "paused"),
        ("paused", "cycled", "running"),
        ("saved", "stopped", "saved"),
        ("pmsuspended", "running", "running"),
    ],
)
def test_the_state_that_check_mode_foretells(before: str, wanted: str, after: str) -> None:
    assert expected_state(before, plan_actions(machine(before), PowerRequest(wanted, 60))) == after


CLOUD = [
    PowerView("web1", None, "running", tags=("web", "front"), pending=("memory",)),
    PowerView("web2", None, "shutoff", tags=("web",), pending=()),
    PowerView("db1", None, "running", tags=("db",), pending=()),
]


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ({"everything": True}, ["web1", "web2", "db1"]),
        ({"names": ["db1", "web2", "db1"]}, ["web2", "db1"]),
        ({"names": []}, []),
        ({"tags": ["web"]}, ["web1", "web2"]),
        ({"tags": ["front", "db"]}, ["web1", "db1"]),
        ({"tags": ["mail"]}, []),
        ({"states": ["running"]}, ["web1", "db1"]),
        ({"tags": ["web"], "states": ["shutoff"]}, ["web2"]),
        ({"names": ["db1"], "tags": ["web"]}, []),
        ({"everything": True, "only_pending": True}, ["web1"]),
        ({"names": ["db1"], "everything": True}, ["db1"]),
    ],
)
def test_what_selects_narrows(selection: dict[str, t.Any], names: list[str]) -> None:
    assert [view.name for view in PowerSelection(**selection).apply(CLOUD)] == names


def test_every_name_that_does_not_exist_is_said() -> None:
    with pytest.raises(NotFoundError) as caught:
        PowerSelection(names=["web9", "db1", "xyz"]).apply(CLOUD)
    assert str(caught.value).splitlines() == [
        "name: there is no machine 'web9' on this hypervisor. Did you mean web2?",
        "name: there is no machine 'xyz' on this hypervisor. Known: db1, web1, web2",
    ]


def test_nothing_selected_is_a_mistake() -> None:
    with pytest.raises(InputError, match="no machine is selected"):
        PowerSelection(only_pending=True).check()


def test_one_that_cannot_be_read_is_not_dropped() -> None:
    """Whether it has the tag, nobody knows."""
    dark = PowerView("dark", None, "nostate", error=NotFoundError("its XML is invalid"))
    assert PowerSelection(tags=["web"]).apply([*CLOUD, dark])[-1] is dark
    assert dark not in PowerSelection(names=["web1"]).apply([*CLOUD, dark])
