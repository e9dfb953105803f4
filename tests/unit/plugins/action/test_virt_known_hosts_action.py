# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action virt_known_hosts, in whole runs of Ansible: nothing else calls it."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.action.virt_known_hosts import forgotten
from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2p"
UUIDS = {name: f"00000000-0000-4000-8000-{number:012}" for number, name in enumerate(("web1", "web2", "db1"))}
OTHER = "other.example.org ssh-ed25519 AAAA"


def _line(name: str, hypervisor: str) -> str:
    return f"virt-{UUIDS[name]} {KEY} brine.virt:{hypervisor} {name}"


def _comment(name: str, hypervisor: str) -> str:
    return f"# virt-{UUIDS[name]} brine.virt:{hypervisor} {name}"


def _machine(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "uuid": UUIDS[name], "vcpus": 1, "host_keys": [KEY], **more}


def _call(directory: Path, *words: str, **options: t.Any) -> tuple[dict[str, t.Any], str]:
    """The result of one task, and all that was said."""
    arguments = json.dumps({"path": str(directory / "keys"), **options})
    more = ["-m", "brine.virt.virt_known_hosts", "-a", arguments, *words]
    done = run_ansible(directory, "localhost", *more, program="adhoc")
    text = done.stdout
    result: dict[str, t.Any] = json.loads(text[text.index("{", text.index("localhost |")) : text.rindex("}") + 1])
    return result, text + done.stderr


@pytest.mark.slow
def test_check_forget_forget(tmp_path: Path) -> None:
    """web1 has moved, web2 was purged, and hv3 with db1 does not come back."""
    path = tmp_path / "keys"
    before = [OTHER, _line("web1", "hv1"), _line("web2", "hv2"), _comment("db1", "hv3")]
    path.write_text("".join(f"{line}\n" for line in before))
    options = {"hypervisors": {"hv3": [], "hv1": [], "hv2": [_machine("web1")]}, "gone": {"hv2": ["web2"]}}
    ahead, said = _call(tmp_path, "--check", "--diff", **options)
    assert ahead["changed"] and f"-{_line('web2', 'hv2')}" in said
    assert path.read_text().splitlines() == before
    done, _said = _call(tmp_path, **options)
    assert done["changed"]
    assert done["forgotten"] == ahead["forgotten"] == {"hv1": ["web1"], "hv2": ["web2"], "hv3": ["db1"]}
    assert path.read_text().splitlines() == [OTHER, _line("web1", "hv2")]
    again, _said = _call(tmp_path, **options)
    assert (again["changed"], again["forgotten"]) == (False, {})


@pytest.mark.slow
def test_nothing_to_forget_makes_no_file(tmp_path: Path) -> None:
    result, _said = _call(tmp_path, hypervisors={"hv3": []}, gone={"hv1": ["web1"]})
    assert not result["changed"] and not (tmp_path / "keys").exists()


@pytest.mark.slow
def test_what_may_have_been_moved_to_a_silent_one_stays(tmp_path: Path) -> None:
    """web1 has left hv1 and may be on hv2, as nobody knows; hv3 has left the cloud with db1."""
    path = tmp_path / "keys"
    path.write_text("".join(f"{line}\n" for line in [_line("web1", "hv1"), _comment("db1", "hv3"), OTHER]))
    done, _said = _call(tmp_path, hypervisors={"hv1": []}, silent=["hv2"], left=["hv3"])
    assert done["forgotten"] == {"hv3": ["db1"]}
    assert path.read_text().splitlines() == [_line("web1", "hv1"), OTHER]


@pytest.mark.slow
def test_who_has_more_to_do_is_only_warned(tmp_path: Path) -> None:
    options = {"path": "/proc/nowhere/keys", "arriving": {"hv1": [_machine("web1")]}, "unwritable": "warn"}
    result, said = _call(tmp_path, **options)
    assert not result["changed"] and "/proc/nowhere/keys cannot be written: No such file or directory" in said, said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"hypervisors": {"hv1": "it did not answer"}}, "hypervisors.hv1: the machines of this hypervisor are missing"),
        ({"hypervisors": {"hv1": ["web1"]}}, "hypervisors.hv1[0]: this is not a machine as virt_info returns it"),
        ({"gone": {"hv1": "web1"}}, "gone.hv1: the names of machines are missing"),
        ({"path": "/proc/nowhere/keys", "hypervisors": {"hv1": [_machine("web1")]}}, "/proc/nowhere/keys cannot be"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, options: dict[str, t.Any], sentence: str) -> None:
    result, said = _call(tmp_path, **options)
    assert sentence in result["msg"], said
    assert os.listdir(tmp_path) == [] or not (tmp_path / "keys").exists()


def test_a_machine_that_is_also_elsewhere_is_forgotten_only_where_it_was() -> None:
    lines = [_line("web1", "hv1"), _line("web1", "hv2")]
    assert forgotten(lines, lines[1:]) == {"hv1": ["web1"]}
    assert forgotten(lines, lines) == {}
