# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine was defined when its pool named other monitors of the cluster, or another user: its disks are the same."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans, run_plans
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes.answers import read_used_elsewhere

POOL = """<pool type='rbd'><name>ceph</name><source><host name='mon1'/><host name='mon2'/><name>vms</name></source>
<volume><name>kept</name><capacity unit='MiB'>64</capacity></volume></pool>"""
OWN: dict[str, t.Any] = {"name": "data", "size": 64, "pool": "ceph"}
OTHER: dict[str, t.Any] = {"name": "kept", "source": "kept", "pool": "ceph"}


def plan(conn: VirConnect, *disks: dict[str, t.Any], asked: bool = False) -> MachinePlan:
    """asked: whether it is known that no other hypervisor uses what is in the pool."""
    machine = {"name": "db1", "vcpus": 1, "memory": 128, "nic_profile": "none", "start": False}
    more = {"seed": {"method": "none"}, "disk_profile": "none", "disks": list(disks)}
    elsewhere = read_used_elsewhere({} if asked else None, "used_elsewhere")
    hypervisor = Hypervisor(conn, image_pool="images", left_elsewhere=elsewhere)
    (made,) = make_plans([read_machine({**machine, **more})], hypervisor, "")
    return made


def make(conn: VirConnect, *disks: dict[str, t.Any]) -> None:
    (result,) = run_plans([plan(conn, *disks, asked=True)], concurrency=1)
    assert result.error is None


@pytest.fixture
def conn(tmp_path: Path) -> t.Iterator[VirConnect]:
    (tmp_path / "node.xml").write_text(f"<node>{POOL}</node>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        make(conn, OWN, OTHER)
        text = conn.lookupByName("db1").XMLDesc(0)
        assert text.count("<host name='mon1'/>") == 2
        conn.defineXML(text.replace("<host name='mon1'/>", "<host name='mon0'/>"))
        yield conn


def test_nothing_is_to_be_done(conn: VirConnect) -> None:
    assert not plan(conn, OWN, OTHER).steps


def test_its_own_disk_grows(conn: VirConnect) -> None:
    words = [step.description for step in plan(conn, {**OWN, "size": 128}).steps]
    assert words == ["grow disk data of db1 to 128 MiB"]


def test_a_disk_that_it_gives_up_is_no_more_its_own(conn: VirConnect) -> None:
    """Or its purge would delete what was to stay."""
    make(conn, {"name": "data", "state": "absent"})
    notes = list_domains(conn)["db1"].notes
    assert notes is not None and notes.volumes == ()
