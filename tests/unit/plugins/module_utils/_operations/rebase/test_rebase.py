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

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.images.listing import newest_in
from ansible_collections.brine.virt.plugins.module_utils._host.images.provenance import keep_provenance
from ansible_collections.brine.virt.plugins.module_utils._host.info.details import add_details
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import write_notes
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pools
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import Checksum
from ansible_collections.brine.virt.plugins.module_utils._model.image.provenance import Provenance
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    DiskNote,
    ImageNote,
    MachineNotes,
    VolumeNote,
    read_notes,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.rebase import machines
from ansible_collections.brine.virt.plugins.module_utils._operations.rebase import plan as plan_module
from ansible_collections.brine.virt.plugins.module_utils._operations.rebase.machines import (
    carry_out,
    plan_machines,
    preview,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.rebase.plan import RebaseRequest
from ansible_collections.brine.virt.plugins.modules import virt_rebase
from ansible_collections.brine.virt.tests.unit.plugins.called_module import call_module

pytestmark = [pytest.mark.medium, pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")]

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


@pytest.mark.parametrize("options", [{}, {"image": NEW, "disks": ["system"]}, {"flatten": True}])
def test_the_module_in_check_mode_before_and_after(
    host: Host, monkeypatch: pytest.MonkeyPatch, options: dict[str, t.Any]
) -> None:
    monkeypatch.setattr(virt_rebase, "open_connection", lambda _uri: contextlib.nullcontext(host.conn))
    monkeypatch.setattr(virt_rebase, "require_local", lambda *_words: None)
    ahead, done, again, after = (
        call_module(virt_rebase, check, {"name": ["web1"], **options}) for check in (True, False, False, True)
    )
    assert (ahead["changed"], ahead["diff"]) == (done["changed"], done["diff"]) == (True, done["diff"])
    assert done["diff"] != []
    for settled in (again, after):
        assert (settled["changed"], settled["diff"], settled["machines"][0]["actions"]) == (False, [], [])


def test_back_to_a_version_by_its_volume(host: Host) -> None:
    host.run()
    back = host.run(image=OLD)
    assert back["changed"] and host.base() == OLD
    assert host.notes() == NOTES


def test_an_image_is_known_as_taken_into_use(host: Host) -> None:
    """To a run on another hypervisor that shares the store, and has asked this one before."""
    before = (host.store / OLD).stat()
    host.run()
    assert (host.store / OLD).stat().st_ctime_ns == before.st_ctime_ns
    host.run(image=OLD)
    assert (host.store / OLD).stat().st_ctime_ns > before.st_ctime_ns


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


def test_the_note_is_that_of_the_disk_that_the_image_was_for(host: Host) -> None:
    write_notes(host.domain, replace(NOTES, image=ImageNote("data", OTHER, "images")))
    host.run(disks=("system",))
    assert host.notes() == replace(NOTES, image=ImageNote("data", OTHER, "images"))
    host.run(image="debian", disks=("data",))
    assert host.notes() == replace(NOTES, image=ImageNote("debian", NEW, "images"))


@pytest.mark.parametrize("request_", [{}, {"flatten": True}])
def test_a_further_disk_on_the_same_image_leaves_the_note(host: Host, request_: dict[str, t.Any]) -> None:
    host.overlay("web1-data.qcow2", OLD)
    assert host.run(disks=("data",), **request_)["changed"]
    assert host.base() == OLD and host.notes() == NOTES
    assert host.run(**request_)["changed"]
    image = None if request_ else ImageNote("debian", NEW, "images")
    assert host.base() == (None if request_ else NEW) and host.notes() == replace(NOTES, image=image)


def test_what_is_noted_meanwhile_stays(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    real = machines.RebasedFile.make
    added = VolumeNote("default", "web1-more.qcow2", "disk")

    def note(self: t.Any) -> None:
        real(self)
        write_notes(host.domain, replace(NOTES, volumes=(added,)))

    monkeypatch.setattr(machines.RebasedFile, "make", note)
    assert host.run()["changed"]
    assert host.notes() == replace(NOTES, volumes=(added,), image=ImageNote("debian", NEW, "images"))


def test_a_file_that_cannot_be_put_in_place_leaves_the_note(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: t.Any) -> None:
        raise HostError("no")

    monkeypatch.setattr(machines.RebasedFile, "put_in_place", fail)
    host.refusal()
    assert host.notes() == NOTES and host.base() == OLD


def test_what_was_done_is_said_when_a_later_disk_fails_or_the_pool_is_busy(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_given: t.Any) -> None:
        raise HostError("busy")

    monkeypatch.setattr(machines, "refresh_pool", busy)
    qemu_img("snapshot", "-c", "one", str(host.pool / "web1-data.qcow2"))
    # The second disk is found wrong only while the first one is done.
    real = plan_module.snapshots_inside
    seen: list[str] = []

    def late(path: str) -> int:
        seen.append(path)
        return real(path) if len(seen) > 4 else 0

    monkeypatch.setattr(plan_module, "snapshots_inside", late)
    done = host.run(flatten=True)
    assert done["failed"] and "internal snapshots" in done["msg"], done
    assert [disk["target"] for disk in done["disks"]] == ["vda"] and done["changed"]
    assert (host.base(), host.base("data")) == (None, OTHER)
    assert host.notes() == replace(NOTES, image=None)


def test_what_a_killed_run_has_left_goes_also_when_there_is_nothing_to_do(host: Host) -> None:
    host.run()
    left = host.pool / ".web1-system.qcow2.rebase-x"
    used = host.pool / ".web1-data.qcow2.rebase-x"
    for path in (left, used):
        path.write_bytes(b"half")
    host.conn.defineXML(DOMAIN.format(OFF, "other", DISK.format(used, "vda", "")))
    ahead = host.run(check=True)
    assert ahead["actions"] == [f"remove {left}, which an interrupted run left"] and left.exists()
    assert host.run()["actions"] == ahead["actions"]
    assert not left.exists() and used.exists()
    assert not host.run()["changed"]


def test_a_newer_version_that_comes_meanwhile_is_for_the_next_run(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    real = machines.RebasedFile.make

    def newer(self: t.Any) -> None:
        real(self)
        os.utime(host.store / OLD, (9000, 9000))

    monkeypatch.setattr(machines.RebasedFile, "make", newer)
    assert host.run()["changed"] and host.base() == NEW


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("<backingStore type='file'><format type='qcow2'/><source file='/x'/></backingStore>", "definition says what"),
    ],
)
def test_what_stands_in_the_definition_is_not_passed_over(host: Host, more: str, words: str) -> None:
    disk = DISK.format(host.pool / "web1-system.qcow2", "vda", more)
    host.conn.defineXML(DOMAIN.format(OFF, "web2", disk))
    host.domain.undefine()
    (result,) = plan_machines(host.conn, ["web2"], RebaseRequest())
    assert words in str(result.error)


def test_disks_that_it_is_nothing_for_are_left_out_and_said(host: Host) -> None:
    path = host.pool / "web1-data.qcow2"
    qemu_img("rebase", "-u", "-b", "data.qcow2", "-F", "qcow2", str(path))
    done = host.run()
    assert [disk["target"] for disk in done["disks"]] == ["vda"]
    assert done["remarks"] == [
        "disk vdb is left out: it is backed by data.qcow2, which its header names by a relative path"
    ]
    assert "disk vdb: it is backed by data.qcow2, which its header names by a relative path" in host.refusal(
        disks=("data",)
    )


def test_a_chain_that_leads_out_of_the_pools_is_refused(host: Host, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret".ljust(4096, b"x"))
    qemu_img("rebase", "-u", "-b", str(tmp_path / "secret"), "-F", "raw", str(host.pool / "web1-data.qcow2"))
    assert "which is not a volume of a storage pool here" in host.refusal(flatten=True, disks=("data",))


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
    assert "has internal snapshots of which libvirt knows nothing" in host.refusal()


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
    assert f"there is no image '{NEW}'" in host.refusal()


def test_no_room(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    (pool,) = (one for one in pools.Pools(host.conn).all() if one.name == "default")
    monkeypatch.setattr(pools, "_read", _with_no_room(pools._read))
    assert pool.available_bytes > 0
    assert (
        "pool 'default' has 0.0B free, the new volumes need 2.8M at once. Free some space there, or" in host.refusal()
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
    # A link to an older file, which says itself when it got this name.
    stored = (("debian", 6000 * 10**9),)
    if not keep_provenance(str(host.store / NEW), Provenance((Checksum("sha256", "2" * 64),), stored=stored)):
        pytest.skip("no extended attributes here")
    assert newer() == [{"disk": "vda", "image": OLD, "newest": NEW}]
    assert newest_in(pools.Pools(host.conn).get("images"), "debian").volume == NEW
