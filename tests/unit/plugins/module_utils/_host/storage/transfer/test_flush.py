# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The domains that have files written to the disk: told from machines, ended, never left; on the test driver."""

from __future__ import annotations

import contextlib
import os
import typing as t
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._host.machines.listing import observe_machines
from ansible_collections.brine.virt.plugins.module_utils._host.machines.schema import check_schema
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer import flush as volume_flush
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.flush import (
    SentFile,
    end_flushes,
    flush_domain_xml,
    flushed,
    is_being_flushed,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import flush_name, is_flush_name

POOL = (
    "<pool type='{kind}'><name>{name}</name><source><name>vg</name></source><target><path>{path}</path></target></pool>"
)
VOLUME = "<volume><name>disk</name><capacity unit='MiB'>1</capacity></volume>"
NAME, OTHER = flush_name("0" * 32), flush_name("1" * 32)


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[t.Any]:
    """A hypervisor with a pool of files and one of logical volumes."""
    (tmp_path / "node.xml").write_text("<node/>", encoding="utf-8")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        for kind, name, path in (("dir", "files", str(tmp_path)), ("logical", "vg", "/dev/vg")):
            conn.storagePoolDefineXML(POOL.format(kind=kind, name=name, path=path)).create()
            conn.storagePoolLookupByName(name).createXML(VOLUME)
        yield conn


def start(conn: t.Any, name: str, *paths: str) -> None:
    conn.createXML(flush_domain_xml(name, "test", paths), 0)


def domains(conn: t.Any) -> list[str]:
    return sorted(domain.name() for domain in conn.listAllDomains(0))


def test_it_is_no_machine(conn: t.Any) -> None:
    start(conn, NAME, "/images/disk")
    start(conn, "brine-virt-sync-0", "/images/other")
    assert list(list_domains(conn)) == ["brine-virt-sync-0"]
    assert [record["name"] for record in observe_machines(conn, addresses=False)] == ["brine-virt-sync-0"]


@pytest.mark.parametrize("name", [f"{NAME}0", f"x{NAME}", "brine-virt-sync-web1", NAME.upper(), f"{NAME}\n"])
def test_a_machine_with_a_name_like_it_is_a_machine(name: str) -> None:
    assert is_flush_name(NAME)
    assert not is_flush_name(name)


def test_its_files_are_raw_whatever_is_in_them() -> None:
    xml = flush_domain_xml(NAME, "qemu", [f"/images/disk{index}" for index in range(16)])
    check_schema(xml, "")
    disks = parse_xml(xml).findall("devices/disk")
    assert {disk.find("driver").get("type") for disk in disks} == {"raw"}  # type: ignore[union-attr]
    assert {disk.find("driver").get("cache") for disk in disks} == {"writeback"}  # type: ignore[union-attr]
    assert len({disk.find("target").get("dev") for disk in disks}) == 16  # type: ignore[union-attr]
    assert parse_xml(xml).find("devices/interface") is None


def test_only_those_that_have_the_file_are_ended(conn: t.Any) -> None:
    start(conn, NAME, "/images/other", "/images/disk")
    start(conn, OTHER, "/images/third")
    start(conn, "web1", "/images/disk")
    assert is_being_flushed(conn, "/images/disk")
    end_flushes(conn, ["/images/disk"])
    assert domains(conn) == sorted([OTHER, "web1"])
    assert not is_being_flushed(conn, "/images/disk")


def test_what_others_have_left_goes_unless_something_uses_it(conn: t.Any) -> None:
    pool, third = Pools(conn).get("files"), flush_name("2" * 32)
    for name in (NAME, OTHER, third):
        pool.handle.createXML(VOLUME.replace("disk", name))
    start(conn, NAME, "/images/disk")
    source = f"<disk type='volume'><source pool='files' volume='{OTHER}'/><target dev='vda'/></disk>"
    conn.defineXML(
        f"<domain type='test'><name>web1</name><memory>1</memory><os><type>hvm</type></os><devices>{source}</devices>"
        "</domain>"
    )
    volume_flush._delete_left_states(conn, pool)
    assert sorted(pool.handle.listVolumes()) == sorted(["disk", NAME, OTHER])


def sent(conn: t.Any, pool: str) -> SentFile:
    return SentFile(Pools(conn).get(pool), "disk", 4096)


def test_a_target_that_cannot_confirm_it_is_an_error_and_is_left_as_it_was(conn: t.Any) -> None:
    """This driver has no QEMU."""
    with (
        pytest.raises(VirtError, match="nothing confirms that these files are on the target's disk: disk"),
        flushed(conn, [sent(conn, "files")]),
    ):
        pass
    assert domains(conn) == []
    assert conn.storagePoolLookupByName("files").listVolumes() == ["disk"]


def test_a_device_needs_nothing(conn: t.Any) -> None:
    """The kernel writes what is sent to it when it is closed."""
    with flushed(conn, [sent(conn, "vg")]):
        assert domains(conn) == []


class Qemu:
    """What the test driver has not: a domain with a file, which flushes it when it is saved."""

    def __init__(self, size_bytes: int, failure: Exception | None = None) -> None:
        self.words: list[t.Any] = []
        self.size_bytes = size_bytes
        self.failure = failure

    def createXML(self, _xml: str, flags: int) -> Qemu:
        self.words.append(f"start {flags}")
        return self

    def listAllDomains(self, _flags: int) -> list[t.Any]:
        return []

    def blockInfo(self, _target: str) -> list[int]:
        return [0, 0, self.size_bytes]

    def blockResize(self, target: str, size_bytes: int, _flags: int) -> None:
        self.words.append((target, size_bytes))

    def save(self, path: str) -> None:
        self.words.append(f"save to {os.path.basename(path)[:15]}")
        if self.failure is not None:
            raise self.failure

    def destroyFlags(self, flags: int) -> None:
        assert flags == volume_flush.libvirt.VIR_DOMAIN_DESTROY_GRACEFUL
        self.words.append("end")

    def destroy(self) -> None:
        self.words.append("destroy")


def flush(conn: t.Any, qemu: Qemu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volume_flush, "GuestCapabilities", lambda _conn: SimpleNamespace(domain_type="qemu"))
    with flushed(t.cast(t.Any, qemu), [sent(conn, "files")]):
        qemu.words.append("sent")


def test_it_is_paused_and_goes_with_its_connection(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    qemu = Qemu(4096)
    pool = conn.storagePoolLookupByName("files")
    for name in (NAME, OTHER):
        pool.createXML(VOLUME.replace("disk", name))
    start(conn, OTHER, "/images/other")
    monkeypatch.setattr(qemu, "listAllDomains", conn.listAllDomains)
    flush(conn, qemu, monkeypatch)
    flags = volume_flush.libvirt.VIR_DOMAIN_START_PAUSED | volume_flush.libvirt.VIR_DOMAIN_START_AUTODESTROY
    assert qemu.words == [f"start {flags}", "sent", ("vda", 4096), "save to brine-virt-sync"]
    # Neither its own state nor what a run that was killed has left; another one's, which is at it, does.
    assert sorted(pool.listVolumes()) == [OTHER, "disk"]


def test_the_state_of_one_that_began_a_moment_ago_stays(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another move may begin, and come to save its own, between the checks of the domains and of the volumes."""
    qemu, pool = Qemu(4096), conn.storagePoolLookupByName("files")
    pool.createXML(VOLUME.replace("disk", NAME))
    listed: list[bool] = []

    def list_all(flags: int) -> list[t.Any]:
        found = list(conn.listAllDomains(flags))
        # The first look is for domains that have the file.
        if listed:
            start(conn, OTHER, "/images/other")
            pool.createXML(VOLUME.replace("disk", OTHER))
        listed.append(True)
        return found

    monkeypatch.setattr(qemu, "listAllDomains", list_all)
    flush(conn, qemu, monkeypatch)
    assert len(listed) == 2
    assert sorted(pool.listVolumes()) == [OTHER, "disk"]


def test_in_a_pool_that_other_hypervisors_share_nothing_but_its_own_goes(
    conn: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A move to one of those may be saving to it just now, by a domain that is not seen from here."""
    pool = conn.storagePoolLookupByName("files")
    pool.createXML(VOLUME.replace("disk", OTHER))
    monkeypatch.setattr(volume_flush, "seen_elsewhere", lambda _pool: "it is of type netfs")
    flush(conn, Qemu(4096), monkeypatch)
    assert sorted(pool.listVolumes()) == [OTHER, "disk"]


def test_a_file_of_another_size_is_not_touched(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    qemu = Qemu(8192)
    with pytest.raises(HostError, match="volume disk has 8192 bytes, but 4096 were sent to it"):
        flush(conn, qemu, monkeypatch)
    assert qemu.words[1:] == ["sent", "destroy"]


def test_a_disk_that_cannot_be_written_is_an_error(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    qemu = Qemu(4096, HostError("domain save job: unexpectedly failed"))
    with pytest.raises(HostError, match="unexpectedly failed"):
        flush(conn, qemu, monkeypatch)
    assert qemu.words[-1] == "destroy"
    assert conn.storagePoolLookupByName("files").listVolumes() == ["disk"]


@pytest.mark.parametrize(("code", "ended"), [("OPERATION_INVALID", True), ("OPERATION_FAILED", False)])
def test_an_old_libvirt_that_does_not_save_it_ends_it_well(
    conn: t.Any, monkeypatch: pytest.MonkeyPatch, code: str, ended: bool
) -> None:
    error = volume_flush.libvirt.libvirtError("")
    error.err = (getattr(volume_flush.libvirt, f"VIR_ERR_{code}"), 10, "no", 2, "", "", "", 0, 0)
    qemu = Qemu(4096, error)
    with contextlib.nullcontext() if ended else pytest.raises(VirtError, match="nothing confirms"):
        flush(conn, qemu, monkeypatch)
    assert qemu.words[-1] == ("end" if ended else "destroy")


def test_more_files_than_a_bus_has_places(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def one(_conn: t.Any, files: t.Sequence[SentFile]) -> t.ContextManager[None]:
        started.append(len(files))
        return contextlib.nullcontext()

    monkeypatch.setattr(volume_flush, "_flushed", one)
    pool = Pool("files", "/images", 0, None)
    with flushed(t.cast(t.Any, None), [SentFile(pool, f"disk{index}", 1) for index in range(20)]):
        assert started == [16, 4]
