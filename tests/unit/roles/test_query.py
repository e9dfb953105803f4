# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks that show machines and hypervisors, on libvirt's test driver."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_last_play

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("playbook", ["query", "list"])
@pytest.mark.parametrize(
    ("names", "shown", "sentence"),
    [
        ("web1", ["web1"], ""),
        ("web1, db1", ["db1", "web1"], ""),
        (["web1"], ["web1"], ""),
        (
            "web1,bd1",
            ["web1"],
            "There is no machine bd1 on the hypervisors that answered. Did you mean db1?",
        ),
        # A name with a comma in it.
        (["web1,db1"], [], "There is no machine web1,db1 on the hypervisors that answered. Did you mean web1?"),
        ("zzz", [], "There is no machine zzz on the hypervisors that answered. Known: db1, half, web1."),
    ],
)
def test_a_machine_that_is_not_there_is_named(
    tmp_path: Path, node_uri: str, playbook: str, names: str | list[str], shown: list[str], sentence: str
) -> None:
    (tmp_path / "names.json").write_text(json.dumps({"vm": names}), encoding="utf-8")
    status, output = run_last_play(tmp_path, playbook, node_uri, "-e", "@names.json")
    assert (status == 0) is (not sentence), output
    assert sentence in output
    # Ansible prints a failure with all of its result, which has been shown already.
    assert '"facts"' not in output
    # By its end, the line is a name of the query, or a row of the list.
    assert [name for name in ("db1", "half", "web1") if f"\n{name}\n" in output or f"\n{name} " in output] == shown


def document(output: str) -> dict[str, t.Any]:
    """The one JSON document in the output of a run, which stands there from a line with a brace to another one."""
    lines = output.splitlines()
    found: dict[str, t.Any] = json.loads("\n".join(lines[lines.index("{") : lines.index("}") + 1]))
    assert lines.count("{") == 1
    return found


def test_a_list_may_be_narrowed(tmp_path: Path, node_uri: str) -> None:
    status, output = run_last_play(tmp_path, "list", node_uri, "state=shutoff", "output=json", tag="web")
    assert status == 0, output
    # A variable of the inventory counts for nothing here.
    assert [machine["name"] for machine in document(output)["machines"]] == ["db1", "half"]
    status, output = run_last_play(tmp_path, "list", node_uri, "state=shutoff", "tag=web")
    assert (status, "No machines found on hv1." in output) == (0, True), output


@pytest.mark.parametrize("playbook", ["query", "list"])
def test_a_machine_of_the_inventory_does_not_hide_the_others(tmp_path: Path, node_uri: str, playbook: str) -> None:
    status, output = run_last_play(tmp_path, playbook, node_uri, "output=json", vm="web1")
    assert status == 0, output
    assert len(document(output)["machines"]) == 3


@pytest.mark.parametrize(
    ("playbook", "words", "key"),
    [
        ("list", (), "machines"),
        ("query", ("vm=web1",), "machines"),
        ("host_info", (), "hypervisors"),
        ("power", ("vm=web1", "state=stopped", "--check"), "machines"),
        ("purge", ("vm=web1", "force=true", "--check"), "machines"),
    ],
)
def test_data_in_place_of_text(tmp_path: Path, node_uri: str, playbook: str, words: tuple[str, ...], key: str) -> None:
    status, output = run_last_play(tmp_path, playbook, node_uri, "output=json", *words)
    assert status == 0, output
    data = document(output)[key]
    assert "web1" in [machine["name"] for machine in data] if key == "machines" else "hv1" in data


@pytest.mark.parametrize(("playbook", "words"), [("list", ()), ("query", ("vm=web1",)), ("host_info", ())])
def test_no_task_is_there_for_nothing(tmp_path: Path, node_uri: str, playbook: str, words: tuple[str, ...]) -> None:
    status, output = run_last_play(tmp_path, playbook, node_uri, *words)
    assert (status, output.count("TASK ["), output.count("skipping: ")) == (0, 2, 0), output
