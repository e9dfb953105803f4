# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines removed whose disks are in a Ceph pool that several hypervisors have, on libvirt's test driver."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_last_play
from ansible_collections.brine.virt.tests.unit.roles.provision.test_provision_role import provision

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow

POOL = """<pool type='rbd'><name>ceph</name><source><host name='mon1'/><name>vms</name></source>{}</pool>"""
VOLUME = "<volume><name>old1-system</name><capacity>1048576</capacity></volume>"
NOTES = "<brine:machine status='ready'><brine:volume pool='ceph' name='old1-system' role='disk'/></brine:machine>"
DOMAIN = """
<domain type='test' xmlns:brine='urn:brine:virt:1' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
<test:runstate>5</test:runstate><name>{name}</name><metadata>{notes}</metadata><memory unit='MiB'>64</memory>
<os><type arch='x86_64'>hvm</type></os><devices><disk type='network'><driver type='raw'/>
<source protocol='rbd' name='vms/old1-system'><host name='mon1'/></source><target dev='vda'/></disk></devices></domain>
"""
GOES = "  delete ceph/old1-system: it belongs to this machine"
STAYS = "  keep ceph/old1-system: "


def hypervisors(directory: Path, second: str) -> dict[str, dict[str, t.Any]]:
    """hv1 has the machine. second: what hv2 has beside the pool; "silent" is none that answers."""
    first = DOMAIN.format(name="old1", notes=NOTES)
    for name, machines in (("hv1", first), ("hv2", second)):
        if machines != "silent":
            text = f"<node><memory>1179648</memory>{machines}{POOL.format(VOLUME)}</node>"
            (directory / f"{name}.xml").write_text(text, encoding="utf-8")
    return {name: {"uri": f"test://{directory}/{name}.xml"} for name in ("hv1", "hv2")}


OTHER = DOMAIN.format(name="web9", notes="")
CASES = [
    ("", GOES),
    (OTHER, f"{STAYS}it is used by machine web9 on hv2"),
    ("silent", f"{STAYS}it cannot be determined whether something uses it: storage pool ceph is of type rbd, and hv2"),
]


@pytest.mark.parametrize(("second", "line"), CASES)
def test_the_playbook_purge_asks_all_others(tmp_path: Path, second: str, line: str) -> None:
    hypervisors(tmp_path, second)
    uri = f"test://{tmp_path}/{{{{ inventory_hostname }}}}.xml"
    status, text = run_last_play(tmp_path, "purge", uri, "vm=old1", hosts=("hv1", "hv2"))
    assert (status, f"\n{line}" in text, "changed=1" in text) == (0, True, True), text
    assert ("\nhv2: did not answer: cannot connect to" in text) == (second == "silent"), text


def test_what_is_said_of_the_others_counts_all_that_were_asked(tmp_path: Path) -> None:
    hypervisors(tmp_path, "")
    uri = f"test://{tmp_path}/{{{{ inventory_hostname }}}}.xml"
    _status, text = run_last_play(tmp_path, "purge", uri, "vm=old1,old2", "--check", hosts=("hv1", "hv2"))
    assert f"\n{GOES}" in text and "\nold2: there is no such machine on hv1, hv2" in text, text


@pytest.mark.parametrize(("second", "line"), CASES)
def test_provision_asks_all_others(tmp_path: Path, second: str, line: str) -> None:
    vms = {"virt_vms": [{"name": "old1", "state": "absent"}]}
    text = provision(tmp_path, hypervisors(tmp_path, second), vms, fails=False)
    assert (f"\n{line}" in text, "changed=1" in text) == (True, True), text


def test_where_one_is_left_out_it_stays(tmp_path: Path) -> None:
    vms = {"virt_vms": [{"name": "old1", "state": "absent"}]}
    text = provision(tmp_path, hypervisors(tmp_path, ""), vms, "--limit", "hv1", fails=False)
    assert f"{STAYS}it cannot be determined" in text and "did not say: it was not asked (--limit)" in text


def test_where_virt_hypervisors_names_only_one_of_the_inventory_it_stays(tmp_path: Path) -> None:
    vms = {"virt_vms": [{"name": "old1", "state": "absent"}], "virt_hypervisors": "hv1"}
    text = provision(tmp_path, hypervisors(tmp_path, OTHER), vms, fails=False, on="hv1")
    assert (
        f"{STAYS}it cannot be determined" in text and "hv2, which may use it too, did not say: it was not asked" in text
    )


def test_a_second_use_of_the_role_says_nothing_of_the_first(tmp_path: Path) -> None:
    bare = {"vcpus": 1, "memory": 128, "disk_profile": "none", "nic_profile": "none", "seed": {"method": "none"}}
    lists = [[{"name": "old1", "state": "absent"}], [{"name": "new1", "hypervisor": "hv2", "state": "present", **bare}]]
    role = {"ansible.builtin.include_role": {"name": "brine.virt.virt_provision"}}
    tasks = [{**role, "vars": {"virt_vms": vms}} for vms in lists]
    text = provision(tmp_path, hypervisors(tmp_path, ""), {}, "--check", fails=False, roles=[], tasks=tasks)
    tables = [part.partition("TASK")[0] for part in text.split("MACHINE ")[1:]]
    assert ["old1" in table for table in tables] == [True, False], text
