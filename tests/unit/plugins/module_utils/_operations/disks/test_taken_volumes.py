# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes that a task names and that others have already, on libvirt's test driver."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans, run_plans
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.kernel import Kernel

GUEST = """
<domain type='test'><name>guest</name>{uuid}<memory>1</memory><os><type>hvm</type></os>
<devices>{disk}</devices></domain>
"""
VOLUME = (
    "<volume><name>{name}</name><capacity>1048576</capacity><target><format type='qcow2'/></target>{backing}</volume>"
)


@pytest.fixture
def conn(node_uri: str) -> Iterator[t.Any]:
    """A hypervisor with a volume shared.qcow2, and a machine guest that runs."""
    with open_connection(node_uri) as connection:
        add_volume(connection, "shared.qcow2")
        connection.defineXML(GUEST.format(disk="", uuid="")).create()
        yield connection


def add_volume(conn: t.Any, name: str, backing: str = "") -> str:
    pool = conn.storagePoolLookupByName("default")
    return str(pool.createXML(VOLUME.format(name=name, backing=backing)).path())


def has(conn: t.Any, *, kind: str = "file", live: bool = False, more: str = "") -> None:
    """The machine guest has the volume, live: only as long as it runs."""
    source = f"file='{conn.storagePoolLookupByName('default').storageVolLookupByName('shared.qcow2').path()}'"
    if kind == "volume":
        source = "pool='default' volume='shared.qcow2'"
    disk = f"<disk type='{kind}'><driver type='qcow2'/><source {source}/><target dev='vda'/>{more}</disk>"
    guest = conn.lookupByName("guest")
    uuid = f"<uuid>{guest.UUIDString()}</uuid>"
    guest.destroy()
    conn.defineXML(GUEST.format(disk=disk, uuid=uuid))
    if live:
        conn.lookupByName("guest").create()
        conn.defineXML(GUEST.format(disk="", uuid=uuid))


def plan(conn: t.Any, **disk: t.Any) -> MachinePlan:
    machine = {
        "name": "new1",
        "vcpus": 1,
        "memory": 128,
        "seed": {"method": "none"},
        "disks": [{"name": "data", "pool": "default", **disk}],
    }
    return make_plans([read_machine(machine)], Hypervisor(conn, image_pool="images"), "")[0]


@pytest.mark.parametrize("how", [{}, {"live": True}, {"kind": "volume"}], ids=["defined", "attached live", "by volume"])
def test_a_disk_of_another_machine(conn: t.Any, how: dict[str, t.Any]) -> None:
    has(conn, **how)
    with pytest.raises(ConflictError, match=r"disks\[0\]\.source: volume shared\.qcow2 is a disk of machine guest"):
        plan(conn, source="shared.qcow2")
    with pytest.raises(ConflictError, match=r"disks\[0\]\.backing: machine guest writes to volume shared\.qcow2"):
        plan(conn, backing="shared.qcow2")
    # Both say that they know of each other.
    plan(conn, source="shared.qcow2", shareable=True)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_the_host_itself_has_mounted(
    conn: t.Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    """As after losetup."""
    path = conn.storagePoolLookupByName("default").storageVolLookupByName("shared.qcow2").path()
    Kernel(tmp_path / "kernel", monkeypatch).loop("loop7", path, read_only=read_only)
    words = r"disks\[0\]\.source: volume shared\.qcow2 is used by the host itself \(/dev/loop7\)\. Two systems that use"
    for more in ({}, {"shareable": True}):
        with pytest.raises(ConflictError, match=words):
            plan(conn, source="shared.qcow2", **more)
    if not read_only:
        words = r"backing: the host itself \(/dev/loop7\) may write to volume shared\.qcow2, which would break every"
        with pytest.raises(ConflictError, match=words):
            plan(conn, backing="shared.qcow2")
    else:
        plan(conn, backing="shared.qcow2")
    plan(conn, source="shared.qcow2", readonly=True)


def test_one_that_nobody_writes_to_can_have_overlays(conn: t.Any) -> None:
    has(conn, more="<readonly/>")
    plan(conn, backing="shared.qcow2")


def test_what_a_machine_has_already_it_keeps(conn: t.Any) -> None:
    assert run_plans([plan(conn, source="shared.qcow2")], concurrency=1)[0].error is None
    has(conn, live=True)
    assert list(plan(conn, source="shared.qcow2").steps) == []


def test_what_others_are_backed_by_is_not_written_to(conn: t.Any) -> None:
    """The machine with the overlay may be off, and QEMU's own lock open: what is written then breaks it for ever."""
    below = conn.storagePoolLookupByName("default").storageVolLookupByName("shared.qcow2").path()
    add_volume(conn, "clone.qcow2", f"<backingStore><path>{below}</path><format type='qcow2'/></backingStore>")
    with pytest.raises(ConflictError) as caught:
        plan(conn, source="shared.qcow2")
    assert str(caught.value) == (
        "disks[0].source: volume shared.qcow2 backs volume default/clone.qcow2, and must not be "
        "written to. Use it as backing, or set readonly"
    )
    plan(conn, source="shared.qcow2", readonly=True)
    plan(conn, backing="shared.qcow2")
