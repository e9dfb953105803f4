# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes of the role virt_hypervisor in check mode, where a pool of theirs is not there yet."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

ROLE = Path(__file__).resolve().parents[4] / "roles/virt_hypervisor"
NAMES = ("Create the storage pools", "Create volumes in the storage pools")
# Starts whole runs of Ansible.
pytestmark = pytest.mark.slow
HERE = {"name": "default-pool", "path": "/default-pool"}


def check(directory: Path, *volumes: dict[str, t.Any], coming: str = "extra") -> t.Any:
    """The two tasks in check mode, on a hypervisor of libvirt's test driver."""
    found = yaml.safe_load((ROLE / "tasks/configure.yml").read_text(encoding="utf-8"))
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))
    uri = {"uri": "test:///default"}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"__virt_hypervisor_volumes": variables["__virt_hypervisor_volumes"]},
        "module_defaults": {"brine.virt.virt_pool": uri, "brine.virt.virt_volume": uri},
        "tasks": [task for task in found if task["name"] in NAMES],
    }
    (directory / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    given = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "virt_hypervisor_pools": [HERE, {"name": coming, "path": str(directory / coming)}],
        "virt_hypervisor_volumes": volumes,
        "__virt_hypervisor_volumes_are_right": False,
    }
    (directory / "given.json").write_text(json.dumps(given))
    return run_ansible(directory, "-i", "localhost,", "play.yml", "-e", "@given.json", "--check")


def test_those_of_a_pool_that_is_to_come_are_passed_over(tmp_path: Path) -> None:
    done = check(tmp_path, {"name": "a.raw", "pool": "extra", "size": "8MiB", "format": "raw"})
    assert done.returncode == 0 and "there is no storage pool" not in done.stdout, done.stdout


def test_a_mistake_in_another_one_fails(tmp_path: Path) -> None:
    done = check(
        tmp_path,
        {"name": "a.raw", "pool": "extra", "size": "8MiB", "format": "raw"},
        {"name": "../b.raw", "pool": "default-pool", "size": "8MiB", "format": "raw"},
    )
    assert done.returncode == 2 and "../b.raw" in done.stdout, done.stdout


@pytest.mark.parametrize("coming", ["extra", "default"])
def test_those_that_name_no_pool_are_in_default(tmp_path: Path, coming: str) -> None:
    """The driver has no pool of this name: so the task fails where it looks at them."""
    volumes = ({"name": "a.raw", "size": "8MiB"}, {"name": "b.raw", "pool": "default-pool", "size": "8MiB"})
    done = check(tmp_path, *volumes, coming=coming)
    looked = "there is no storage pool 'default'" in done.stdout
    assert (looked, done.returncode) == ((True, 2) if coming == "extra" else (False, 0)), done.stdout
