# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines whose disks get other images, on libvirt's test driver with real disks."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import typing as t
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.info.details import add_details
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import write_notes
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pools
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    DiskNote,
    ImageNote,
    MachineNotes,
    read_notes,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.rebase import machines
from ansible_collections.brine.virt.plugins.module_utils._operations.rebase.machines import (
    carry_out,
    plan_machines,
    preview,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.rebase.plan import RebaseRequest

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")

OLD, NEW, OTHER = "debian-1111111111111111.qcow2", "debian-2222222222222222.qcow2", "data-3333333333333333.qcow2"
POOL = "<pool type='dir'><name>{}</name><target><path>{}</path></target>{}</pool>"
VOLUME = (
    "<volume><name>{}</name><capacity>4194304</capacity><target><format type='qcow2'/></target>"
    "<backingStore><path>{}</path><format type='qcow2'/></backingStore></volume>"
)
DISK = (
    "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{}'/><target dev='{}'/>{}</disk>"
)
DOMAIN = (
    "<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'><test:runstate>{}</test:runstate>"
    "<name>{}</name><memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type>hvm</type></os>"
    "<devices>{}</devices></domain>"
)
RUNNING, OFF = 1, 5
NOTES = MachineNotes(
    image=ImageNote("debian", OLD, "images"), disks=(DiskNote("system", "vda"), DiskNote("data", "vdb"))
)


def qemu_img(*words: str) -> str:
    return subprocess.run(["qemu-img", *words], check=True, capture_output=True, text=True).stdout


class Host:
    """A store with two versions of an image and another one, and web1, which has an overlay on two of them."""

    def __init__(self, directory: Path) -> None:
        self.store, self.pool = directory / "store", directory / "pool"
        self.store.mkdir()
        self.pool.mkdir()
        for age, (name, pattern) in enumerate({OLD: 1, OTHER: 3, NEW: 2}.items()):
            path = self.store / name
            qemu_img("create", "-q", "-f", "qcow2", str(path), "2M")
            subprocess.run(["qemu-io", "-f", "qcow2", "-c", f"write -P {pattern} 0 1M", str(path)], check=True)
            os.utime(path, (1000 + age, 1000 + age))
        self.overlay("web1-system.qcow2", OLD)
        self.overlay("web1-data.qcow2", OTHER)
        self.more = ""
        self.file = directory / "node.xml"
        self.conn: t.Any = None

    def overlay(self, name: str, base: str) -> None:
        qemu_img("create", "-q", "-f", "qcow2", "-b", str(self.store / base), "-F", "qcow2", str(self.pool / name))

    def open(self, stack: contextlib.ExitStack, state: int = OFF) -> None:
        stored = "".join(
            f"<volume><name>{name}</name><capacity>1</capacity><target><format type='qcow2'/></target></volume>"
            for name in (OLD, NEW, OTHER)
        )
        own = "".join(
            VOLUME.format(name, self.store / base)
            for name, base in (("web1-system.qcow2", OLD), ("web1-data.qcow2", OTHER))
        )
        disks = "".join(
            DISK.format(self.pool / f"web1-{name}.qcow2", target, self.more)
            for name, target in (("system", "vda"), ("data", "vdb"))
        )
        node = POOL.format("images", self.store, stored) + POOL.format("default", self.pool, own)
        self.file.write_text(f"<node>{node}{DOMAIN.format(state, 'web1', disks)}</node>", encoding="utf-8")
        self.conn = stack.enter_context(open_connection(f"test://{self.file}"))
        write_notes(self.domain, NOTES)

    @property
    def domain(self) -> t.Any:
        return self.conn.lookupByName("web1")

    def notes(self) -> MachineNotes | None:
        return read_notes(parse_xml(self.domain.XMLDesc()))

    def base(self, name: str = "system") -> str | None:
        told = qemu_img("info", "--output=json", str(self.pool / f"web1-{name}.qcow2"))
        found = [line for line in told.splitlines() if '"full-backing-filename"' in line]
        return os.path.basename(found[0].split('"')[3]) if found else None

    def run(self, *, check: bool = False, **request: t.Any) -> dict[str, t.Any]:
        wanted = RebaseRequest(**request)
        results = plan_machines(self.conn, ["web1"], wanted)
        if check:
            preview(results)
        else:
            carry_out(self.conn, results, wanted, threading.Event(), ProgressFile(None), lock_seconds=1)
        return results[0].as_result()

    def refusal(self, **request: t.Any) -> str:
        before = {path.name: path.read_bytes() for path in self.pool.iterdir()}
        result = self.run(**request)
        assert result["failed"] and not result["changed"], result
        assert {path.name: path.read_bytes() for path in self.pool.iterdir()} == before
        return str(result["msg"])


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr(pools, "is_local", lambda _uri: True)
    for name in ("hypervisor_lock", "machine_lock"):
        monkeypatch.setattr(machines, name, lambda _what, **_settings: contextlib.nullcontext())
    with contextlib.ExitStack() as stack:
        found = Host(tmp_path)
        found.open(stack)
        yield found


def test_the_newest_version_of_each_image_and_nothing_the_second_time(host: Host) -> None:
    ahead = host.run(check=True)
    assert host.base() == OLD
    done = host.run()
    assert (
        done["actions"]
        == ahead["actions"]
        == [
            f"rebase disk vda (web1-system.qcow2) from {OLD} to image {NEW}",
            f"note that web1 needs image {NEW}",
        ]
    )
    assert (host.base(), host.base("data")) == (NEW, OTHER)
    (disk,) = done["disks"]
    assert (disk["target"], disk["name"], disk["from"], disk["to"]) == ("vda", "system", OLD, NEW)
    # What differs from the new one is in the overlay now.
    assert disk["allocation_bytes"] > disk["allocation_bytes_before"] + 1_000_000
    assert host.notes() == replace(NOTES, image=ImageNote("debian", NEW, "images"))
    assert sorted(path.name for path in host.pool.iterdir()) == ["web1-data.qcow2", "web1-system.qcow2"]
    for check in (True, False):
        again = host.run(check=check)
        assert not again["changed"] and not again["failed"] and again["actions"] == []


def test_back_to_a_version_by_its_volume(host: Host) -> None:
    host.run()
    back = host.run(image=OLD)
    assert back["changed"] and host.base() == OLD
    assert host.notes() == NOTES


def test_flat_disks_need_no_image(host: Host) -> None:
    done = host.run(flatten=True)
    assert [disk["to"] for disk in done["disks"]] == [None, None]
    assert (host.base(), host.base("data")) == (None, None)
    assert host.notes() == replace(NOTES, image=None)
    assert not host.run(flatten=True)["changed"]
    # Nothing is backed by an image any more, and nothing has to be done for that.
    assert not host.run()["changed"]


def test_a_disk_by_its_name_on_an_image_of_another_name(host: Host) -> None:
    done = host.run(image="debian", disks=("data",))
    assert [disk["target"] for disk in done["disks"]] == ["vdb"]
    assert (host.base(), host.base("data")) == (OLD, NEW)
    # That of the first disk is what it was.
    assert host.notes() == NOTES


def test_a_note_that_a_killed_run_did_not_write_is_written(host: Host) -> None:
    qemu_img("rebase", "-u", "-b", str(host.store / NEW), "-F", "qcow2", str(host.pool / "web1-system.qcow2"))
    done = host.run()
    assert done["actions"] == [f"note that web1 needs image {NEW}"] and done["disks"] == []
    assert not host.run()["changed"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"image": "debain"}, "image: there is no image 'debain' in pool images"),
        ({"image": "debian-4444444444444444.qcow2"}, "there is no image 'debian-4444444444444444.qcow2'"),
        ({"disks": ("vdc",)}, "disks: it has no disk 'vdc'"),
        ({"pool": "store"}, "there is no storage pool 'store'"),
    ],
)
def test_what_there_is_not(host: Host, request_: dict[str, t.Any], words: str) -> None:
    assert words in host.refusal(**request_)


def test_an_image_that_no_disk_is_a_version_of(host: Host) -> None:
    host.run(image="debian", disks=("data",))
    host.run(flatten=True, disks=("system",))
    assert "no disk of it is backed by an image called data" in host.refusal(image="data")


def test_a_running_machine_is_refused_and_one_that_has_it_already_is_not(host: Host, tmp_path: Path) -> None:
    host.domain.create()
    assert "it is running, and its disks are in use. Shut it down first" in host.refusal()
    assert not host.run(disks=("data",))["changed"]


def test_snapshots_are_refused(host: Host) -> None:
    host.domain.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
    assert "it has snapshots (before), which rely on" in host.refusal()


def test_snapshots_that_libvirt_does_not_know_are_refused(host: Host) -> None:
    qemu_img("snapshot", "-c", "one", str(host.pool / "web1-system.qcow2"))
    assert "has 1 internal snapshots, of which libvirt knows nothing" in host.refusal()


def test_a_disk_that_somebody_backs_another_one_by_is_refused(host: Host, tmp_path: Path) -> None:
    clone = host.pool / "clone.qcow2"
    qemu_img("create", "-q", "-f", "qcow2", "-b", str(host.pool / "web1-system.qcow2"), "-F", "qcow2", str(clone))
    host.conn.defineXML(DOMAIN.format(OFF, "clone", DISK.format(clone, "vda", "")))
    assert "machine clone" in host.refusal()


def test_a_guest_that_was_started_meanwhile_keeps_its_disk(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    real = machines.RebasedFile.make

    def start(self: t.Any) -> None:
        real(self)
        host.domain.create()

    monkeypatch.setattr(machines.RebasedFile, "make", start)
    assert "it is running" in host.refusal()
    assert host.base() == OLD


def test_an_image_that_was_removed_meanwhile_leaves_the_disk(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    real = machines.RebasedFile.make

    def remove(self: t.Any) -> None:
        real(self)
        host.conn.storagePoolLookupByName("images").storageVolLookupByName(NEW).delete()
        (host.store / NEW).unlink()

    monkeypatch.setattr(machines.RebasedFile, "make", remove)
    assert "has changed meanwhile" in host.refusal()


def test_no_room(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    (pool,) = (one for one in pools.Pools(host.conn).all() if one.name == "default")
    monkeypatch.setattr(pools, "_read", _with_no_room(pools._read))
    assert pool.available_bytes > 0
    assert (
        "pool 'default' has 0.0B free, the new volumes need 2.0M at once. Free some space there, or" in host.refusal()
    )


def _with_no_room(read: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    return lambda *given: replace(read(*given), available_bytes=0)


def test_virt_info_tells_of_newer_versions(host: Host) -> None:
    def newer() -> t.Any:
        domain = host.domain
        record: dict[str, t.Any] = {"name": "web1", "uuid": domain.UUIDString(), "state": "shutoff", "errors": []}
        add_details(host.conn, [record], ["images"], agent_timeout_seconds=1)
        assert record["errors"] == []
        return record["newer_images"]

    assert newer() == [{"disk": "vda", "image": OLD, "newest": NEW}]
    os.utime(host.store / OLD, (5000, 5000))
    assert newer() == []
