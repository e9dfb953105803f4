# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What libvirt's daemon has not read, as a run ended before it was restarted: the script of the role's own task."""

from __future__ import annotations

import fnmatch
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._operations.kernel.settings import _UNITS
from ansible_collections.brine.virt.plugins.module_utils._operations.kernel.spec import mount_unit

TASKS = Path(__file__).resolve().parents[4] / "roles/virt_hypervisor/tasks"
SYSTEMCTL = """#!/bin/sh
case $1 in
show) echo "@1000" ;;
is-active) test -e {active} ;;
esac
"""


@pytest.mark.parametrize(
    ("written", "active", "unread"),
    [
        ({"qemu.conf": 900, "dev-hugepages1G.mount": 900}, True, []),
        ({"qemu.conf": 1100, "dev-hugepages1G.mount": 900}, True, ["qemu.conf"]),
        ({"qemu.conf": 900, "dev-hugepages1G.mount": 1100}, True, ["dev-hugepages1G.mount"]),
        ({"qemu.conf": 900}, True, []),
        ({"qemu.conf": 1100}, True, ["qemu.conf"]),
        # It reads all of it when it starts.
        ({"qemu.conf": 1100, "dev-hugepages1G.mount": 1100}, False, []),
    ],
)
def test_what_is_newer_than_the_daemon(
    tmp_path: Path, written: dict[str, int], active: bool, unread: list[str]
) -> None:
    (tmp_path / "systemctl").write_text(SYSTEMCTL.format(active=tmp_path / "active"))
    (tmp_path / "systemctl").chmod(0o755)
    if active:
        (tmp_path / "active").touch()
    for name, when in written.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (when, when))
    (task,) = yaml.safe_load((TASKS / "unread.yml").read_text(encoding="utf-8"))
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "UNIT": "libvirtd.service",
        "FILE": str(tmp_path / "qemu.conf"),
        "OTHERS": str(tmp_path / "dev-hugepages[0-9]*.mount"),
    }
    script = ["sh", "-c", task["ansible.builtin.shell"]]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert [Path(line).name for line in done.stdout.splitlines()] == unread


def test_the_units_of_huge_pages_are_among_the_files() -> None:
    tasks = yaml.safe_load((TASKS / "configure.yml").read_text(encoding="utf-8"))
    (others,) = [given for task in tasks if (given := task.get("vars", {}).get("__virt_hypervisor_unread_others"))]
    for kib in (64, 2048, 1024 * 1024):
        assert fnmatch.fnmatch(f"{_UNITS}/{mount_unit(kib)[0]}", others)
