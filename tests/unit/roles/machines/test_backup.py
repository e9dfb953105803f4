# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook brine.virt.backup on libvirt's test driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_last_play

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("full=maybe",), "full: maybe is neither true nor false. No machine was backed up."),
        (
            ("dest=",),
            "No destination is named. Give the directory on the hypervisors with -e dest=/srv/backup, or a storage "
            "pool with -e dest_pool=POOL. No machine was backed up.",
        ),
        (("dest_pool=backups",), "dest and dest_pool: give one of them. No machine was backed up."),
    ],
)
def test_mistakes(tmp_path: Path, node_uri: str, words: tuple[str, ...], sentence: str) -> None:
    status, output = run_last_play(tmp_path, "backup", node_uri, "vm=web1", f"dest={tmp_path}", *words, "--check")
    assert (status, sentence in " ".join(output.split())) == (2, True), output


def test_a_variable_names_the_pool(tmp_path: Path, node_uri: str) -> None:
    """One place reaches the module, which refuses the driver's host and not its options."""
    status, output = run_last_play(tmp_path, "backup", node_uri, "vm=web1", "--check", virt_backup_dest_pool="backups")
    assert (status, "is another host. Run this on the hypervisor" in " ".join(output.split())) == (2, True), output
