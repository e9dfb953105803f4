# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible import context
from ansible.parsing.dataloader import DataLoader
from ansible.utils.context_objects import CLIArgs

from ansible_collections.brine.virt.plugins.plugin_utils._command_line import (
    names_in_files,
    site_playbooks,
    written_names,
)


def test_playbooks_of_the_collection_are_known_by_name_and_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the collection, or the file, is a link."""
    (tmp_path / "clone/playbooks").mkdir(parents=True)
    (tmp_path / "ansible_collections/brine").mkdir(parents=True)
    (tmp_path / "ansible_collections/brine/virt").symlink_to(tmp_path / "clone")
    installed = tmp_path / "other/ansible_collections/brine/virt/playbooks"
    installed.mkdir(parents=True)
    (tmp_path / "link.yml").symlink_to(installed / "list.yml")
    ours = ["brine.virt.list", "ansible_collections/brine/virt/playbooks/list.yml", str(tmp_path / "link.yml")]
    own = ["site.yml", "playbooks/list.yml", "other.virt.list"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({"args": (*ours, *own)}))
    assert site_playbooks() == own
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({}))
    assert site_playbooks() == []


@pytest.mark.parametrize(
    ("text", "is_ours"),
    [
        ("- import_playbook: brine.virt.list", True),
        ("- {name: List, ansible.builtin.import_playbook: brine.virt.list}", True),
        ("- {import_playbook: brine.virt.evacuate, vars: {to: '{{ place }}'}}", False),
        ("- {import_playbook: brine.virt.evacuate, tags: [move]}", False),
        ("- import_playbook: 'brine.virt.{{ what }}'", False),
        ("- {name: 'List {{ env }}', import_playbook: brine.virt.list}", False),
        ("- import_playbook: brine.virt.list\n- import_playbook: brine.virt.host_info", False),
        ("- import_playbook: other.virt.list", False),
        ("- hosts: all", False),
        ("[]", False),
        ("- list", False),
        ("$ANSIBLE_VAULT;1.1;AES256\n00", False),
    ],
)
def test_a_file_that_only_imports_one_of_the_collection_counts_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, is_ours: bool
) -> None:
    (tmp_path / "site.yml").write_text(f"---\n{text}\n" if text[0] != "$" else text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({"args": ("site.yml",)}))
    assert site_playbooks() == ([] if is_ours else ["site.yml"])


def test_a_file_is_taken_for_its_import_only_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside another playbook, what is on the command line may be meant for that one. A pipe would have no end."""
    for name in ("one.yml", "two.yml"):
        (tmp_path / name).write_text("- import_playbook: brine.virt.list\n")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    for given in (("one.yml", "two.yml"), ("pipe",)):
        monkeypatch.setattr(context, "CLIARGS", CLIArgs({"args": given}))
        assert site_playbooks() == list(given)
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({"args": ("brine.virt.list", "two.yml")}))
    assert site_playbooks() == ["two.yml"]


def test_names_on_the_command_line_are_told_from_those_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("vm=web1 on='hv1 hv2'", "@own.yml", '{"target": 1, "b": 2}', "  force=yes", "[a, b]", "lone")
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({"extra_vars": given}))
    assert written_names(DataLoader().load) == ({"vm", "on", "force", "_raw_params"}, {"target", "b"})
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({}))
    assert written_names(DataLoader().load) == (set(), set())


def test_the_names_of_each_file_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.yml").write_text("domain: example.org\n7: seven\n")
    (tmp_path / "vm.json").write_text('{"vm": "web1", "keep": true}')
    (tmp_path / "pipe.yml").write_text("once: 1\n")
    given = ("@own.yml", "vm=web1", f"@{tmp_path}/vm.json", "@pipe.yml", '{"b": 2}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({"extra_vars": given}))
    loader = DataLoader()
    # As Ansible does first. A file may be a pipe, as in -e @<(command), and is empty later.
    loader.load_from_file("pipe.yml")
    (tmp_path / "pipe.yml").unlink()
    # Ansible looks for other files beside the playbook then.
    loader.set_basedir("/")
    assert names_in_files(loader.load_from_file) == [{"domain", "7"}, {"vm", "keep"}, {"once"}]
    monkeypatch.setattr(context, "CLIARGS", CLIArgs({}))
    assert names_in_files(loader.load_from_file) == []
