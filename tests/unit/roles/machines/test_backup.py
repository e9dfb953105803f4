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


def test_what_may_run_on_a_silent_hypervisor_is_not_backed_up(tmp_path: Path, node_uri: str) -> None:
    """What is off here may be an old definition, whose backup would count as the newest. Others go on."""
    keys = tmp_path / "keys"
    keys.write_text("# virt-00000000-0000-4000-8000-000000000002 brine.virt:hv2 db1\n", encoding="utf-8")

    def run(*words: str) -> str:
        status, output = run_last_play(
            tmp_path,
            "backup",
            node_uri,
            *(f"dest={tmp_path}", "--check", "--limit", "hv1", *words),
            hosts=("hv1", "hv2"),
            virt_hypervisors="all",
            virt_known_hosts=str(keys),
        )
        assert status == 2, output
        return " ".join(output.split())

    elsewhere = "may run on hv2, where it was seen before, and which did not answer or was not asked (--limit)"
    module = "is another host. Run this on the hypervisor"
    named = run("vm=db1,web1")
    assert f"machine 'db1' is off on hv1, and {elsewhere}" in named and "add -e on=hv1 if" in named, named
    assert "No machine was backed up." in named and module not in named, named
    everything = run("all=true")
    assert f"db1 on hv1: it was left as it is, as it {elsewhere}" in everything, everything
    assert "name it with -e vm=db1 -e on=hv1" in everything and module in everything, everything
    # Whoever says where it is means it; and reading makes none.
    for words in (("vm=db1", "on=hv1"), ("vm=db1", "state=verified")):
        meant = run(*words)
        assert elsewhere not in meant and module in meant, meant
