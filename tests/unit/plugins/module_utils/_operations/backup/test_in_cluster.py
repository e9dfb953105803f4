# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backups of disks in a Ceph cluster that QEMU does not read: those of machines that are off, and seeds.

In place of the cluster's volumes, qemu-img gets files.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._host.storage import ceph
from ansible_collections.brine.virt.plugins.module_utils._host.storage.ceph import QemuName
from ansible_collections.brine.virt.plugins.module_utils._host.storage.cluster import opened, unchanged
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import DISK, SEED
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    MachineNotes,
    VolumeNote,
    notes_to_element,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.backup import disks, make, plan
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.backup.backup_host import (
    UUID,
    BackupHost,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import MACHINE
from ansible_collections.brine.virt.tests.unit.plugins.pretended_cluster import PretendedCluster, Volume

pytestmark = pytest.mark.medium

POOL = "<pool type='rbd'><name>ceph</name><source><host name='mon'/><name>vms</name></source></pool>"
DISK_XML = (
    "<disk type='network' device='{device}'><driver name='qemu' type='raw'/><source protocol='rbd' name='vms/{volume}'>"
    "{more}</source><target dev='{target}' bus='sata'/></disk>"
)
SYSTEM, SEED_VOLUME = "web1-system", "web1-seed"


def define(machine: BackupHost, *, hosts: str = "<host name='mon'/>", more: str = "") -> None:
    """A machine with its system disk and its seed in the cluster. hosts, more: in the disk's source."""
    notes = MachineNotes(
        volumes=(VolumeNote("ceph", SYSTEM, DISK, format="raw"), VolumeNote("ceph", SEED_VOLUME, SEED, format="raw")),
    )
    text = etree.tostring(notes_to_element(notes), encoding="unicode")
    system = DISK_XML.format(device="disk", volume=SYSTEM, target="sda", more=hosts + more)
    seed = DISK_XML.format(device="cdrom", volume=SEED_VOLUME, target="sdb", more="<host name='mon'/>")
    machine.conn.defineXML(MACHINE.format(name="web1", uuid=UUID, devices=system + seed, notes=text))


@pytest.fixture
def cluster(machine: BackupHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PretendedCluster:
    """The cluster with the two volumes, and a machine on them that is off."""
    found = PretendedCluster(SYSTEM, SEED_VOLUME)
    folder = tmp_path / "cluster"
    folder.mkdir()
    for name, pattern, size in ((SYSTEM, 1, 1 << 20), (SEED_VOLUME, 2, 64 << 10)):
        (folder / name).write_bytes(bytes([pattern]) * 4096)
        os.truncate(folder / name, size)
    machine.conn.storagePoolCreateXML(POOL, 0)
    everything = Pools.all

    def all_pools(pools: Pools) -> list[Pool]:
        return [dataclasses.replace(pool, local=True) for pool in everything(pools)]

    def name_of(_pool: Pool, volume: str) -> QemuName:
        file = {"driver": "file", "filename": str(folder / volume)}
        return QemuName("json:" + json.dumps({"driver": "raw", "file": file}), words=f"volume {volume}")

    monkeypatch.setattr(Pools, "all", all_pools)
    monkeypatch.setattr(disks, "qemu_name", name_of)
    monkeypatch.setattr(ceph.importlib, "import_module", lambda _name: None)
    monkeypatch.setattr(opened, "open_cluster", found.open)
    monkeypatch.setattr(opened, "_CLOSED_SECONDS", 0)
    monkeypatch.setattr(opened, "_LOOK_SECONDS", 0)
    monkeypatch.setattr(unchanged, "_LOOK_SECONDS", 0)
    define(machine)
    return found


def content(path: str) -> bytes:
    """What is in an image of a backup."""
    raw = f"{path}.raw"
    subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", path, raw], check=True)
    return Path(raw).read_bytes()


@pytest.mark.usefixtures("cluster")
def test_all_of_a_machine_that_is_off(machine: BackupHost) -> None:
    result = machine.made(verify=True)
    assert result.made is not None
    assert result.made.left_out == {}
    found = {disk.role: disk for disk in result.made.disks}
    assert {
        role: (disk.target, disk.pool, disk.volume, disk.format, disk.size_bytes) for role, disk in found.items()
    } == {
        DISK: ("sda", "ceph", SYSTEM, "raw", 1 << 20),
        SEED: ("sdb", "ceph", SEED_VOLUME, "raw", 64 << 10),
    }
    folder = machine.destination / "web1" / result.made.id
    assert content(f"{folder}/sda.qcow2") == b"\1" * 4096 + bytes((1 << 20) - 4096)
    assert content(f"{folder}/sdb.qcow2") == b"\2" * 4096 + bytes((64 << 10) - 4096)


@pytest.mark.usefixtures("cluster")
def test_the_seed_of_one_that_runs(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.start(monkeypatch, None)
    # By the test driver, each disk has 1 TiB.
    monkeypatch.setattr(plan, "free_in", lambda _directory: 1 << 50)
    result = machine.made()
    assert result.made is not None
    assert {disk.role for disk in result.made.disks} == {DISK, SEED}
    assert content(f"{machine.destination}/web1/{result.made.id}/sdb.qcow2")[:1] == b"\2"


def test_not_while_anybody_has_a_disk_open(machine: BackupHost, cluster: PretendedCluster) -> None:
    cluster.there[SYSTEM].watchers.append("10.0.0.2:0/123")
    (result,) = machine.back_up()
    assert "volume web1-system of pool ceph is open on 10.0.0.2:0/123" in str(result.error)
    assert not list((machine.destination / "web1").glob("2*"))


def write(volume: Volume) -> None:
    volume.written += 60


def replace_volume(volume: Volume) -> None:
    volume.number += 1


def open_volume(volume: Volume) -> None:
    volume.watchers.append("10.0.0.2:0/123")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (write, "volume web1-system of pool ceph was written to while it was being read"),
        (replace_volume, "volume web1-system of pool ceph was written to while it was being read"),
        (open_volume, "volume web1-system of pool ceph is open on 10.0.0.2:0/123, where a machine may be writing"),
    ],
)
def test_one_that_changes_meanwhile_is_no_backup(
    machine: BackupHost,
    cluster: PretendedCluster,
    monkeypatch: pytest.MonkeyPatch,
    change: t.Callable[[Volume], None],
    words: str,
) -> None:
    convert = make.images.convert

    def copied(*arguments: t.Any, **options: t.Any) -> None:
        convert(*arguments, **options)
        # The last one that is copied.
        if "sdb" in arguments[2]:
            change(cluster.there[SYSTEM])

    monkeypatch.setattr(make.images, "convert", copied)
    (result,) = machine.back_up()
    assert words in str(result.error)
    assert not list((machine.destination / "web1").glob("2*"))


def test_one_that_is_opened_and_closed_meanwhile_is_no_backup(
    machine: BackupHost, cluster: PretendedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by rbd snap rollback, which leaves no time of a write. qemu-img has the volume open itself."""
    watchers = cluster.there[SYSTEM].watchers

    def convert(_image: t.Any, _format: str, target: str, _stop: t.Any, on_bytes: t.Callable[[int], None]) -> None:
        Path(target).touch()
        if "sda" in target:
            watchers.append("10.0.0.1:0/1")
            on_bytes(1)
            watchers.append("10.0.0.2:0/123")
            try:
                on_bytes(2)
            finally:
                watchers.clear()

    monkeypatch.setattr(make.images, "convert", convert)
    (result,) = machine.back_up()
    assert (
        "volume web1-system of pool ceph was opened while it was being read: by one of 10.0.0.1:0/1, 10.0.0.2:0/123"
        in str(result.error)
    )
    assert not list((machine.destination / "web1").glob("2*"))


@pytest.mark.usefixtures("cluster")
def test_one_that_does_not_say_which_cluster_it_is_in_is_not_looked_for_in_that_of_a_pool(machine: BackupHost) -> None:
    define(machine, hosts="")
    with pytest.raises(UnsupportedError, match="sda of machine web1 is on a network, and is backed up only while"):
        plan.plan_backup(machine.conn, "web1", machine.options)


@pytest.mark.usefixtures("cluster")
def test_it_needs_room_for_what_is_in_it(machine: BackupHost) -> None:
    needed = plan.plan_backup(machine.conn, "web1", machine.options).needed_bytes
    assert 8192 <= needed < 1 << 20, "as much as its disks are large"


@pytest.mark.usefixtures("cluster")
def test_a_snapshot_of_a_volume_is_not_taken_for_it(machine: BackupHost) -> None:
    define(machine, more="<snapshot name='monday'/>")
    with pytest.raises(UnsupportedError, match="sda of machine web1 is on a network, and is backed up only while"):
        plan.plan_backup(machine.conn, "web1", machine.options)


@pytest.mark.usefixtures("cluster")
def test_without_the_bindings_it_is_said_what_helps(machine: BackupHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> t.Any:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(ceph.importlib, "import_module", missing)
    with pytest.raises(UnsupportedError, match="cannot import Ceph's bindings") as caught:
        plan.plan_backup(machine.conn, "web1", machine.options)
    assert "or start web1, which is backed up without them then" in (caught.value.hint or "")
