# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes that a move makes on the target, and that it never touches another's; on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import threading
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnreachableError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import volumes
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_facts import Volume
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volumes import VolumeExistsError
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import VolumeRef
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate import steps
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.context import MigrationPlan
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.disks import (
    CONTENT,
    MIRROR,
    BaseImage,
    DiskMigration,
)

MIB = 1024 * 1024
NAME = "web1-system"


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[t.Any]:
    """A target with an empty pool of files."""
    pool = f"<pool type='dir'><name>default</name><target><path>{tmp_path}/there</path></target></pool>"
    (tmp_path / "node.xml").write_text(f"<node>{pool}</node>", encoding="utf-8")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        yield conn


@pytest.fixture
def move(conn: t.Any, tmp_path: Path) -> DiskMigration:
    """The way of a disk whose file here has three bytes more than a MiB."""
    path = tmp_path / "here"
    path.write_bytes(bytes(MIB + 3))
    pool = Pools(conn).get("default")
    here, there = DiskSource("file", str(path)), pool.source_of(NAME)
    volume = Volume(NAME, "default", str(path), 8 * MIB, MIB, "qcow2", here)
    return DiskMigration("vda", CONTENT, here, there, volume, pool, pool, "qcow2", 8 * MIB)


def made(conn: t.Any) -> t.Any:
    return parse_xml(conn.storagePoolLookupByName("default").storageVolLookupByName(NAME).XMLDesc(0))


def test_what_is_sent_as_it_is_gets_a_raw_volume_of_the_size_of_its_file(conn: t.Any, move: DiskMigration) -> None:
    """The guest's disk has another size, which stands in what is sent."""
    steps.make_volume_for(move)
    assert made(conn).findtext("capacity") == str(MIB + 3)
    assert made(conn).find("target/format").get("type") == "raw"
    assert steps.sent_file(move).size_bytes == MIB + 3


@pytest.mark.parametrize(("method", "size"), [(CONTENT, MIB + 3), (MIRROR, 8 * MIB)])
def test_what_lvm_adds_to_it_has_nothing_of_a_deleted_volume(
    conn: t.Any, move: DiskMigration, monkeypatch: pytest.MonkeyPatch, method: str, size: int
) -> None:
    """A logical volume is a whole number of extents, and its guest reads all of them."""
    conn.storagePoolCreateXML("<pool type='logical'><name>vg</name><source><name>vg</name></source></pool>", 0)
    wiped: list[tuple[str, int]] = []
    monkeypatch.setattr(volumes, "zero_logical", lambda _pool, made, start: wiped.append((made.name(), start)))
    target = Pools(conn).get("vg")
    steps.make_volume_for(dataclasses.replace(move, method=method, target_pool=target, format="raw"))
    assert wiped == [(NAME, size)]


def test_what_qemu_mirrors_gets_a_disk_of_the_same_size_and_format(conn: t.Any, move: DiskMigration) -> None:
    steps.make_volume_for(dataclasses.replace(move, method=MIRROR))
    assert made(conn).findtext("capacity") == str(8 * MIB)
    assert made(conn).find("target/format").get("type") == "qcow2"
    assert made(conn).find("backingStore") is None


def test_a_disk_on_an_image_is_backed_by_the_image_that_is_there(conn: t.Any, move: DiskMigration) -> None:
    base = BaseImage("images", "debian", "/here/debian", "/there/debian", MIB, MIB, "qcow2")
    steps.make_volume_for(dataclasses.replace(move, method=MIRROR, base=base))
    backing = made(conn).find("backingStore")
    assert (backing.findtext("path"), backing.find("format").get("type")) == ("/there/debian", "qcow2")
    assert made(conn).findtext("capacity") == str(8 * MIB)


@pytest.mark.parametrize("method", [CONTENT, MIRROR])
def test_anothers_volume_of_the_name_stays_as_it_is(conn: t.Any, move: DiskMigration, method: str) -> None:
    pool = conn.storagePoolLookupByName("default")
    pool.createXML(f"<volume><name>{NAME}</name><capacity>77</capacity></volume>")
    with pytest.raises(VolumeExistsError):
        steps.make_volume_for(dataclasses.replace(move, method=method))
    assert made(conn).findtext("capacity") == "77"


def test_what_cannot_be_looked_for_is_none_of_the_moves_own(conn: t.Any, move: DiskMigration) -> None:
    """The pool has stopped since; what its name belongs to once it is back is not deleted."""
    conn.storagePoolLookupByName("default").destroy()
    noted: list[VolumeRef] = []
    with pytest.raises(VirtError, match="not active"):
        steps.make_and_note(move, noted)
    assert noted == []


@pytest.mark.parametrize(
    ("fails", "listed"), [("before", False), ("after", True), ("gone", True)], ids=["not made", "made", "no answer"]
)
def test_what_libvirt_has_not_made_is_none_of_the_moves_own(
    conn: t.Any, move: DiskMigration, monkeypatch: pytest.MonkeyPatch, fails: str, listed: bool
) -> None:
    """A file that it did not know of has an error of no code of its own, and would be found once it looks again."""

    def refuse(*_arguments: t.Any) -> t.NoReturn:
        if fails == "gone":
            monkeypatch.setattr(volumes, "volume_exists", no_answer)
        raise libvirt.libvirtError("volume target path '/x' already exists")

    def no_answer(*_arguments: t.Any) -> t.NoReturn:
        raise UnreachableError("the connection is gone")

    if fails == "after":
        monkeypatch.setattr(volumes, "zero_logical", refuse)
    else:
        monkeypatch.setattr(libvirt.virStoragePool, "createXML", refuse)
    noted: list[VolumeRef] = []
    with pytest.raises((VirtError, libvirt.libvirtError)):
        steps.make_and_note(move, noted)
    assert noted == ([move.ref_there] if listed else [])


def test_a_file_that_cannot_be_read_makes_nothing(conn: t.Any, move: DiskMigration, tmp_path: Path) -> None:
    (tmp_path / "here").unlink()
    with pytest.raises(HostError, match=r"cannot read .*/here: No such file"):
        steps.make_volume_for(move)
    assert conn.storagePoolLookupByName("default").listVolumes() == []


def test_a_volume_that_is_gone_is_not_written_to(conn: t.Any, move: DiskMigration) -> None:
    with pytest.raises(VirtError, match=f"cannot find volume {NAME} of pool default"):
        steps.send_content(move, conn, lambda *_words: None, threading.Event())


@pytest.mark.parametrize(
    ("method", "seen", "reported", "expected"),
    [
        (MIRROR, [("disks", 4, 275), ("disks", 200, 280), ("memory", 9, 900)], 0, {"disk_bytes": 280}),
        (MIRROR, [("disks", 4, 275)], 290, {"disk_bytes": 290}),
        (MIRROR, [("memory", 9, 900)], 0, {}),
        (CONTENT, [("memory", 9, 900)], 0, {"disk_bytes": 0}),
    ],
)
def test_disks_that_were_mirrored_count_although_the_final_figures_lack_them(
    move: DiskMigration, method: str, seen: list[tuple[str, int, int]], reported: int, expected: dict[str, int]
) -> None:
    told: list[tuple[str, int, int]] = []
    migration = MigrationPlan("web1", disks=[dataclasses.replace(move, method=method)])
    on_progress = migration.noted(lambda *step: told.append(step))
    for step in seen:
        on_progress(*step)
    stats = {"memory_processed": 7, "disk_processed": reported, "type": 3}
    assert migration.figures_from(stats) == {"memory_bytes": 7, **expected}
    assert told == seen
