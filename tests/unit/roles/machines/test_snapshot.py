# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook brine.virt.snapshot on libvirt's test driver."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_last_play

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("words", "variables", "sentence"),
    [
        (("vm=web1", "state=reverted"), {}, "Name the snapshot with -e snapshot=NAME. Nothing was changed."),
        (("vm=web1", "state=absent"), {}, "or say with virt_snapshot_keep which ones are kept. Nothing was changed."),
        (("vm=nobody", "snapshot=a"), {}, "Nothing was changed."),
        ((), {}, "Nothing was changed."),
        (("vm=web1", "snapshot=a", "force=true"), {}, "force"),
        (("vm=web1", "state=absent"), {"virt_snapshot_keep": {"first": 1}}, "Unsupported parameters for"),
    ],
)
def test_mistakes(
    tmp_path: Path, node_uri: str, words: tuple[str, ...], variables: dict[str, t.Any], sentence: str
) -> None:
    status, output = run_last_play(tmp_path, "snapshot", node_uri, *words, **variables)
    assert (status, sentence in " ".join(output.split())) == (2, True), output


def test_taken_in_check_mode(tmp_path: Path, node_uri: str) -> None:
    """Words of the command line and a variable of the inventory reach the module."""
    words = ("vm=web1", "snapshot=before", "memory=true", "--check")
    status, output = run_last_play(tmp_path, "snapshot", node_uri, *words, virt_snapshot_keep={"last": 2})
    assert status == 0, output
    assert "take snapshot before of web1" in output, output


def test_deleting_one_deletes_no_others(tmp_path: Path, node_uri: str) -> None:
    """The rules of an inventory are for new ones, and for a task that names none."""
    wrong: dict[str, t.Any] = {"virt_snapshot_keep": {"first": 1}}
    status, output = run_last_play(tmp_path, "snapshot", node_uri, "vm=web1", "snapshot=a", "state=absent", **wrong)
    assert (status, "nothing to delete" in output) == (0, True), output
