# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook brine.virt.migrate refuses before it moves anything, on libvirt's test driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_last_play

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow
ALL = {"virt_hypervisors": "all"}
MACHINE = """
<domain type='test'><name>{name}</name><memory unit='MiB'>64</memory><os><type>hvm</type></os></domain>
"""


def cloud(directory: Path) -> str:
    """The URI of two hypervisors that have a machine of one name each."""
    for host, machines in {"hv1": ("web1", "db1"), "hv2": ("web1",)}.items():
        domains = "".join(MACHINE.format(name=name) for name in machines)
        (directory / f"{host}.xml").write_text(f"<node>{domains}</node>")
    return f"test://{directory}/{{{{ inventory_hostname }}}}.xml"


def test_disks_are_not_moved_of_two_machines_that_have_one_name(tmp_path: Path) -> None:
    words = ("vm=web1,db1", "pool=default-pool", "--check")
    code, output = run_last_play(tmp_path, "migrate", cloud(tmp_path), *words, hosts=("hv1", "hv2"), **ALL)
    sentence = (
        "vm: there is a machine 'web1' on each of hv1, hv2. Say which one: --limit hv1; or wait, if it is being "
        "moved. No machine was moved."
    )
    assert sentence in output, output
    assert code == 2
    assert "TASK [Move the disks of the machines that are here]" not in output


def test_the_one_that_is_meant_can_be_said(tmp_path: Path) -> None:
    words = ("vm=web1", "pool=default-pool", "--check", "--limit", "hv2")
    _code, output = run_last_play(tmp_path, "migrate", cloud(tmp_path), *words, hosts=("hv1", "hv2"), **ALL)
    assert "on each of" not in output, output
    assert "TASK [Move the disks of the machines that are here]" in output, output


@pytest.mark.parametrize("more", [(), ("to=hv2",)])
def test_what_the_pools_of_single_disks_look_like_is_said(tmp_path: Path, more: tuple[str, ...]) -> None:
    words = ("vm=db1", "disks=vda", *more, "--check")
    code, output = run_last_play(tmp_path, "migrate", cloud(tmp_path), *words, hosts=("hv1", "hv2"), **ALL)
    sentence = (
        """disks: 'vda' is not a mapping of disks to their pools. Give {"disks": {"vda": {"pool": "POOL"}}}, on the"""
    )
    assert (code, sentence in output) == (2, True), output
