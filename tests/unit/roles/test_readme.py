# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README's steps, in their order, for somebody who has nothing but them."""

from __future__ import annotations

import re
import shlex
import typing as t
from pathlib import Path

import yaml

from ansible_collections.brine.virt.plugins.filter.place import place_filter
from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

README = (Path(__file__).resolve().parents[3] / "README.md").read_text(encoding="utf-8")
STEPS = README.partition("## Use it on your own hosts")[2].partition("\n## ")[0]
# A host as step 3 leaves it, with as much of everything as the text says.
HOST = {
    "memory": {"total_mib": 4096, "committed_mib": 0},
    "vcpus": {"total": 2, "committed": 0},
    "pools": [{"name": name, "active": True, "available_mib": 30 * 1024} for name in ("default", "images")],
    "bridges": ["br0"],
    "networks": [],
}


def example() -> dict[str, t.Any]:
    """The file vms.yml of step 4."""
    step = STEPS.partition("in `vms.yml`")[2]
    found: dict[str, t.Any] = yaml.safe_load(step.partition("```yaml\n")[2].partition("```")[0])
    return found


def test_the_machines_of_the_example_fit_hosts_as_the_step_before_makes_them() -> None:
    given = example()
    placed = place_filter(
        given["virt_vms"],
        {"hv1": HOST},
        errors="return",
        images=given["virt_images"],
        disk_profiles=given["virt_disk_profiles"],
        nic_profiles=given["virt_nic_profiles"],
        seed_defaults=given.get("virt_seed", {}),
    )
    assert placed["errors"] == []
    assert placed["by_host"] == {"hv1": ["web1", "db1"]}


def test_a_command_uses_no_file_that_the_reader_does_not_have_yet() -> None:
    used = set()
    for block in re.finditer(r"```console\n(.*?)```", STEPS, re.DOTALL):
        for line in block[1].splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] != ["$"]:
                continue
            files = [word for option, word in zip(words, words[1:], strict=False) if option == "-i"]
            files += [word.partition("@")[2] for word in words if word.startswith("@")]
            files += re.findall(r"image=(\S+[.]\w+)", line)
            used.update(files)
            for name in files:
                assert f"in `{name}`" in STEPS[: block.start()], f"{line}: {name} has not been made"
    assert used == {"hosts.yml", "cloud.virt.yml", "vms.yml"}


def test_the_command_for_profiles_is_one(tmp_path: Path) -> None:
    (command,) = re.findall(r"`(ansible localhost .*?)`", README)
    (tmp_path / "vms.yml").write_text(yaml.safe_dump(example()), encoding="utf-8")
    words = shlex.split(command)
    assert words[0] == "ansible"
    done = run_ansible(tmp_path, *words[1:], program="adhoc")
    assert '"size": 4096' in done.stdout, done.stdout + done.stderr
