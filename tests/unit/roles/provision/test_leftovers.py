# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an interrupted run has left in a pool that several hypervisors share, and what is to be attached from there, on
libvirt's test driver."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.provision.test_provision_role import provision

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow

# As it was made, and nothing is in it: that proves it to be what the run has left.
VOLUME = "<volume><name>new1-system</name><capacity>67108864</capacity><allocation>0</allocation></volume>"
POOL = """<pool type='netfs'><name>default</name><source><host name='nas'/><dir path='/vms'/></source>
<target><path>/nowhere</path></target>{}</pool>"""
LEFT = """
<domain type='test' xmlns:brine='urn:brine:virt:1' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
<test:runstate>5</test:runstate><name>new1</name><metadata><brine:machine status='building'>
<brine:volume pool='default' name='new1-system' role='disk' format='raw' mark='0123' size='67108864'/></brine:machine>
</metadata><memory unit='MiB'>64</memory><os><type arch='x86_64'>hvm</type></os><devices><disk type='file'>
<driver type='raw'/><source file='/nowhere/new1-system'/><target dev='vda'/></disk></devices></domain>
"""
# It does not say where its machines are, so that it is the first one that gets it.
MACHINE = {
    **{"name": "new1", "vcpus": 1, "memory": 128, "nic_profile": "none", "seed": {"method": "none"}, "start": False},
    "disks": [{"name": "system", "size": 64, "format": "raw"}],
}
CLEARED = "remove what an interrupted run left of new1"
KEPT = "machine new1 was never finished, and cannot be removed: volume new1-system of pool default is kept: "
SILENT = "storage pool default is of type netfs, and hv2, which may use it too, did not say: "


def hypervisors(directory: Path, *names: str, shared: bool = True) -> dict[str, dict[str, t.Any]]:
    """hv1 has what an interrupted run has left. shared: in a pool that others may see."""
    pool = POOL if shared else POOL.replace("netfs", "dir")
    for name in names:
        text = f"<node><memory>1179648</memory>{LEFT if name == 'hv1' else ''}{pool.format(VOLUME)}</node>"
        (directory / f"{name}.xml").write_text(text, encoding="utf-8")
    return {name: {"uri": f"test://{directory}/{name}.xml"} for name in sorted({*names, "hv1"})}


def test_the_only_hypervisor_clears_it_up(tmp_path: Path) -> None:
    text = provision(tmp_path, hypervisors(tmp_path, "hv1"), {"virt_vms": [MACHINE]}, fails=False)
    assert "Ask the other hypervisors who uses these volumes" in text
    assert "Ask once more" in text and "\nnew1" in text, text


def test_what_the_others_cannot_tell_keeps_it_and_they_are_named(tmp_path: Path) -> None:
    """libvirt's test driver says nothing of files, so that hv2 cannot tell."""
    text = provision(tmp_path, hypervisors(tmp_path, "hv1", "hv2"), {"virt_vms": [MACHINE]})
    assert KEPT in text and "whether /nowhere/new1-system is a file of a machine cannot be told on hv2" in text, text
    assert "Nothing was changed." in text, text


@pytest.mark.parametrize("limit", [[], ["--limit", "hv1"]])
def test_it_stays_where_one_is_silent_which_is_named(tmp_path: Path, limit: list[str]) -> None:
    hosts = {**hypervisors(tmp_path, "hv1"), "hv2": {"uri": f"test://{tmp_path}/none.xml"}}
    text = provision(tmp_path, hosts, {"virt_vms": [MACHINE], "virt_unseen": "place"}, *limit)
    assert KEPT in text and f"{SILENT}{'it was not asked' if limit else 'cannot connect'}" in text, text


def attaching(*hosts: str) -> list[dict[str, t.Any]]:
    """A machine on each, and all with the same volume."""
    base = {key: value for key, value in MACHINE.items() if key not in ("name", "disks")}
    disk = {"name": "data", "source": "spare", "format": "raw"}
    return [{**base, "name": f"on-{host}", "hypervisor": host, "disks": [disk]} for host in hosts]


def with_spare(directory: Path, *names: str) -> dict[str, dict[str, t.Any]]:
    volume = VOLUME.replace("new1-system", "spare")
    for name in names:
        text = f"<node><memory>1179648</memory>{POOL.format(volume)}</node>"
        (directory / f"{name}.xml").write_text(text, encoding="utf-8")
    return {name: {"uri": f"test://{directory}/{name}.xml"} for name in names}


def test_a_volume_is_attached_where_nobody_else_can_have_it(tmp_path: Path) -> None:
    text = provision(tmp_path, with_spare(tmp_path, "hv1"), {"virt_vms": attaching("hv1")}, fails=False)
    assert "Ask once more" in text and "\non-hv1" in text, text


def test_a_volume_is_not_attached_twice_or_where_the_others_cannot_tell(tmp_path: Path) -> None:
    text = provision(tmp_path, with_spare(tmp_path, "hv1", "hv2"), {"virt_vms": attaching("hv1", "hv2")})
    for host, other, index in (("hv1", "hv2", 0), ("hv2", "hv1", 1)):
        assert (
            f"{host}: virt_vms[{index}].disks[0].source: it cannot be determined whether something uses volume spare: "
            f"whether /nowhere/spare is a file of a machine cannot be told on {other}" in text
        ), text
    assert (
        "hv2: virt_vms[1].disks[0].source: volume spare of pool default is also requested for machine on-hv1 on hv1 "
        "(virt_vms[0].disks[0].source). Two machines may share it only if both are shareable or readonly" in text
    ), text
    assert "Nothing was changed." in text, text


def test_nobody_is_asked_without_such_a_volume(tmp_path: Path) -> None:
    hosts = hypervisors(tmp_path, "hv1", "hv2", shared=False)
    text = provision(tmp_path, hosts, {"virt_vms": [{**MACHINE, "hypervisor": "hv1"}]}, "--check", fails=False)
    assert "who uses these volumes" not in text and "Check the machines again" not in text, text
