# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of the README and of the tutorial, in their order, for somebody who has nothing but them."""

from __future__ import annotations

import re
import shlex
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.filter.place import place_filter
from ansible_collections.brine.virt.plugins.plugin_utils._reports.access import access_lines
from ansible_collections.brine.virt.tests.gate.docsite.blocks import Block, code_blocks
from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

pytestmark = pytest.mark.medium

TOP = Path(__file__).resolve().parents[4]
GUIDE = TOP / "docs/docsite/rst"
README = TOP / "README.md"
TUTORIAL = GUIDE / "tutorial.rst"
# Of the README, the part that is for those who have hosts.
BEGINS, ENDS = "## Use it on your own hosts", "\n## Read on"
# A host as the playbook hypervisors leaves it, with as much of everything as the texts say.
HOST = {
    "memory": {"total_mib": 4096, "committed_mib": 0},
    "vcpus": {"total": 2, "committed": 0},
    "pools": [{"name": name, "active": True, "available_mib": 30 * 1024} for name in ("default", "images")],
    "bridges": ["br0"],
    "networks": [],
}


def steps(page: Path) -> list[Block]:
    """The code blocks of the steps."""
    if page != README:
        return code_blocks(page)
    text = page.read_text(encoding="utf-8")
    begin = text.index(BEGINS)
    return [block for block in code_blocks(page) if begin < block.start < text.index(ENDS, begin)]


def example(page: Path) -> dict[str, t.Any]:
    """The file vms.yml of a page."""
    (found,) = [block.text for block in code_blocks(page) if re.match(r"(#.*\n)*virt_images:", block.text)]
    return dict(yaml.safe_load(found))


@pytest.mark.parametrize(
    ("page", "machines"),
    [
        pytest.param(README, ["web1", "db1"], id="README"),
        pytest.param(TUTORIAL, ["web1"], id="tutorial"),
        pytest.param(GUIDE / "provision.rst", ["web1", "db1"], id="provision"),
    ],
)
def test_the_machines_of_an_example_fit_hosts_as_the_step_before_makes_them(page: Path, machines: list[str]) -> None:
    given = example(page)
    placed = place_filter(
        given["virt_vms"],
        {"hv1": HOST},
        errors="return",
        images=given["virt_images"],
        disk_profiles=given.get("virt_disk_profiles", {}),
        nic_profiles=given.get("virt_nic_profiles", {}),
        seed_defaults=given.get("virt_seed", {}),
    )
    assert placed["errors"] == []
    assert placed["by_host"] == {"hv1": machines}


@pytest.mark.parametrize("page", [pytest.param(README, id="README"), pytest.param(TUTORIAL, id="tutorial")])
def test_a_command_uses_no_file_that_the_reader_does_not_have_yet(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    used = set()
    for block in steps(page):
        for line in block.commands if block.language == "console" else ():
            words = shlex.split(line, comments=True)
            files = [word for option, word in zip(words, words[1:], strict=False) if option == "-i"]
            files += [word.partition("@")[2] for word in words if word.startswith("@")]
            files += re.findall(r"image=(\S+[.]\w+)", line)
            used.update(files)
            for name in files:
                assert re.search(rf"[Ii]n `+{re.escape(name)}`", text[: block.start]), f"{line}: {name} is not made yet"
    assert used == {"hosts.yml", "cloud.virt.yml", "vms.yml"}


def test_each_file_of_the_tutorial_is_a_block_that_begins_with_its_name() -> None:
    """A program that follows the tutorial writes these files, and runs the commands in their order."""
    files = [re.match(r"# (\S+)\n", block.text) for block in code_blocks(TUTORIAL) if block.language != "console"]
    assert [name[1] if name else None for name in files] == ["hosts.yml", "cloud.virt.yml", "ansible.cfg", "vms.yml"]
    assert sum(len(block.commands) for block in code_blocks(TUTORIAL)) >= 20


@pytest.mark.parametrize(
    "page", [pytest.param(TUTORIAL, id="tutorial"), pytest.param(GUIDE / "inventory.rst", id="guide")]
)
def test_the_command_to_log_in_is_what_query_shows_and_ssh_reads_it(page: Path) -> None:
    (command,) = re.findall(r"^ +SSH: (ssh .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    user, _at, address = command.rpartition(" ")[2].partition("@")
    (alias,) = re.findall(r"HostKeyAlias=(virt-\S+)", command)
    record = {"name": "web1", "state": "running", "uuid": alias.partition("-")[2], "host_keys": ["ssh-ed25519 AAAA"]}
    assert dict(access_lines({**record, "user": user, "address": address}, "hv1", {}))["SSH"] == command
    done = subprocess.run(
        ["bash", "-c", command.replace("ssh ", "ssh -F none -G ", 1)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert (said["hostkeyalias"], said["user"], said["hostname"]) == (alias, "ansible", address)
    assert said["userknownhostsfile"].endswith("/.ssh/known_hosts.d/brine-virt")


def test_the_command_for_profiles_is_one(tmp_path: Path) -> None:
    (command,) = re.findall(r"``(ansible localhost .*?)``", (GUIDE / "salt.rst").read_text(encoding="utf-8"))
    (tmp_path / "vms.yml").write_text(yaml.safe_dump(example(README)), encoding="utf-8")
    words = shlex.split(command)
    assert words[0] == "ansible"
    done = run_ansible(tmp_path, *words[1:], program="adhoc")
    assert '"size": 4096' in done.stdout, done.stdout + done.stderr
