# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a machine, and start, its older word."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine_state import STATES
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine, read_machines

SPEC: dict[str, t.Any] = {"name": "web1", "vcpus": 1, "memory": 512}


@pytest.mark.parametrize(
    ("options", "state"),
    [
        ({}, "running"),
        ({"state": None, "start": None}, "running"),
        ({"start": True}, "running"),
        ({"start": "no"}, "present"),
        *(({"state": state}, state) for state in STATES),
        ({"state": "running", "start": "yes"}, "running"),
        ({"state": "stopped", "start": False}, "stopped"),
        ({"state": "absent", "start": False}, "absent"),
        ({"state": "present", "start": False}, "present"),
    ],
)
def test_start_is_an_older_word_for_the_state(options: dict[str, t.Any], state: str) -> None:
    machine = read_machine({**SPEC, **options})
    assert (machine.state, machine.start, machine.absent) == (state, state == "running", state == "absent")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"state": "stopped", "start": True},
            "virt_vms[0].start: start: true contradicts virt_vms[0].state: stopped. Leave out start",
        ),
        (
            {"state": "running", "start": False},
            "virt_vms[0].start: start: false contradicts virt_vms[0].state: running. Leave out start",
        ),
        ({"state": "up"}, "virt_vms[0].state: 'up' is not a choice. Choose one of running, stopped, present, absent"),
        (
            {"state": "paused"},
            "virt_vms[0].state: 'paused' is not a choice. Choose one of running, stopped, present, absent",
        ),
    ],
)
def test_both_that_contradict_each_other_are_refused(options: dict[str, t.Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_machines([{**SPEC, **options}], where="virt_vms")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("defaults", "own", "state"),
    [
        ({"state": "stopped"}, {}, "stopped"),
        ({"state": "stopped"}, {"start": True}, "running"),
        ({"state": "running"}, {"start": False}, "present"),
        ({"start": False}, {"state": "running"}, "running"),
        ({"start": True}, {"state": "stopped"}, "stopped"),
        ({"start": True}, {"state": None}, "running"),
    ],
)
def test_the_own_word_of_a_machine_wins(defaults: dict[str, t.Any], own: dict[str, t.Any], state: str) -> None:
    assert read_machines([{**SPEC, **own}], defaults=defaults)[0].state == state


def test_one_that_is_to_be_removed_needs_only_a_name() -> None:
    machine = read_machine({"name": "web1", "state": "absent"})
    assert (machine.absent, machine.vcpus, machine.memory_mib) == (True, 0, 0)
    assert read_machine({**SPEC, "cpu": {"topology": {"cores": 1}}, "state": "absent"}).vcpus == 1
    read_machine({"name": "web1", "state": "absent", "shared_folders": [{"source": "/srv", "tag": "a"}]})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"nmae": 1}, "unknown option 'nmae'"),
        ({"memory": "much"}, "memory: 'much' is not"),
        ({"disks": [{"name": "a", "size": "big"}]}, "disks[0].size"),
        ({"vcpus": 2, "memory": "1MiB", "cpu": {"topology": {"cores": 3}}}, "the topology makes 3 vCPUs"),
    ],
)
def test_its_other_options_are_checked_all_the_same(options: dict[str, t.Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_machine({"name": "web1", "state": "absent", **options})
    assert text in str(caught.value)


def test_all_others_need_more() -> None:
    for state in ("running", "stopped", "present"):
        with pytest.raises(InputError, match="vcpus is missing"):
            read_machine({"name": "web1", "state": state})


def test_vcpus_go_with_the_topology_that_a_machine_has() -> None:
    have = Existing({"vcpus": {"maximum": 2, "current": 2}, "cpu": {"topology": {"sockets": 1, "cores": 2}}})
    with pytest.raises(InputError, match="the topology makes 2 vCPUs, the machine has up to 4") as caught:
        read_machine({"name": "a", "vcpus": 4}, existing=lambda _name: have)
    assert caught.value.where == "vcpus"
    read_machine(
        {"name": "a", "vcpus": 4, "cpu": {"topology": {"sockets": 2, "cores": 2}}}, existing=lambda _name: have
    )
