# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbooks about hypervisors are told to do stands on the command line. A variable of the inventory that has
the same name is about something else."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_last_play

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow


def run(directory: Path, playbook: str, *words: str, **inventory: t.Any) -> tuple[int, str]:
    (directory / "node.xml").write_text("<node/>", encoding="utf-8")
    uri = f"test://{directory}/node.xml"
    return run_last_play(
        directory, playbook, uri, "--check", "virt_hypervisors=all", *words, hosts=("hv1", "hv2"), **inventory
    )


@pytest.mark.parametrize(
    ("playbook", "sentence"),
    [
        ("evacuate", "Give the hypervisor to empty with -e from=NAME. Known: hv1, hv2"),
        ("retire", "Give the hypervisor to retire with -e from=NAME. Known: hv1, hv2"),
    ],
)
def test_the_hypervisor_that_is_emptied(tmp_path: Path, playbook: str, sentence: str) -> None:
    status, text = run(tmp_path, playbook, **{"from": "hv1"}, to="hv2", lost=True)
    assert (status, sentence in text) == (2, True), text


def test_where_its_machines_go(tmp_path: Path) -> None:
    # Of the inventory it would be refused.
    status, text = run(tmp_path, "evacuate", "from=hv1", to="hv1")
    assert (status, "No machine needs to be moved." in text) == (0, True), text


def test_whose_maintenance_begins_and_ends(tmp_path: Path) -> None:
    status, text = run(tmp_path, "maintenance", begin="hv1", end="hv2", start=True)
    assert (status, "hv1: no" in text, "hv2: no" in text) == (0, True, True), text


def test_why(tmp_path: Path) -> None:
    status, text = run(tmp_path, "maintenance", "begin=hv1", reason="of the inventory")
    assert (status, "hv1: since" in text, "of the inventory" in text) == (0, True, False), text


def test_how_far_apart_they_may_be(tmp_path: Path) -> None:
    status, text = run(tmp_path, "balance", limit="some other limit")
    assert (status, "some other limit" in text) == (0, False), text
