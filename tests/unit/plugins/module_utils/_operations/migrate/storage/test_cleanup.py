# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a move deletes: only what is proven to be its own and not in use; on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import os
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    NAMESPACE,
    PREFIX,
    MigrationNote,
    VolumeIdentity,
    VolumeRef,
    migration_note_to_xml,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage import cleanup, volume_identity
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.cleanup import delete_proven
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.volume_identity import (
    identify_source,
    is_the_one,
)

POOL = (
    "<pool type='{kind}'><name>{name}</name><source><name>vg</name></source><target><path>{path}</path></target></pool>"
)
VOLUME = "<volume><name>{name}</name><capacity unit='MiB'>1</capacity></volume>"
UUID = "11111111-1111-1111-1111-111111111111"
DOMAIN = f"<domain type='test'><name>web1</name><uuid>{UUID}</uuid><memory>1024</memory><os><type>hvm</type></os>"


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[t.Any]:
    """A hypervisor with a pool of files and one of logical volumes; the file exists."""
    (tmp_path / "node.xml").write_text("<node/>", encoding="utf-8")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        for kind, name, path in (("dir", "files", str(tmp_path)), ("logical", "vg", "/dev/vg")):
            conn.storagePoolDefineXML(POOL.format(kind=kind, name=name, path=path)).create()
            conn.storagePoolLookupByName(name).createXML(VOLUME.format(name="disk"))
        (tmp_path / "disk").write_bytes(b"x" * 4096)
        yield conn


def there(conn: t.Any, pool: str) -> list[str]:
    return list(conn.storagePoolLookupByName(pool).listVolumes())


def test_a_volume_that_is_known_by_its_name_alone_stays(conn: t.Any) -> None:
    """As in the notes of earlier versions: somebody may have made another one of the name."""
    (words,) = delete_proven(conn, [VolumeRef("files", "disk")])
    assert "volume disk of pool files is kept: nothing proves" in words
    assert "vol-delete --pool files disk" in words
    assert there(conn, "files") == ["disk"]


def test_what_this_run_has_made_itself_needs_no_proof(conn: t.Any) -> None:
    ref = VolumeRef("files", "disk")
    assert delete_proven(conn, [ref], trusted=[ref]) == []
    assert there(conn, "files") == []


def test_a_volume_with_an_id_of_its_own(conn: t.Any) -> None:
    key = conn.storagePoolLookupByName("vg").storageVolLookupByName("disk").key()
    another = VolumeRef("vg", "disk", VolumeIdentity(key="AAAAAA-0000"))
    assert len(delete_proven(conn, [another])) == 1
    assert there(conn, "vg") == ["disk"]
    assert delete_proven(conn, [VolumeRef("vg", "disk", VolumeIdentity(key=key))]) == []
    assert there(conn, "vg") == []


def test_a_volume_that_is_not_there_is_none_to_speak_of(conn: t.Any) -> None:
    assert delete_proven(conn, [VolumeRef("files", "gone", VolumeIdentity("mark"))]) == []


def test_a_volume_that_a_machine_has_stays(conn: t.Any, tmp_path: Path) -> None:
    disk = f"<disk type='file'><source file='{tmp_path}/disk'/><target dev='vda'/></disk>"
    conn.defineXML(f"{DOMAIN}<devices>{disk}</devices></domain>")
    ref = VolumeRef("files", "disk")
    (words,) = delete_proven(conn, [ref], trusted=[ref])
    # No word of deleting it.
    assert words == "volume disk of pool files is kept: it is used by machine web1"
    assert there(conn, "files") == ["disk"]


def test_a_volume_that_may_be_in_use_stays_with_a_hint(conn: t.Any, tmp_path: Path) -> None:
    conn.storagePoolDefineXML(POOL.format(kind="dir", name="asleep", path=str(tmp_path / "asleep")))
    ref = VolumeRef("files", "disk")
    (words,) = delete_proven(conn, [ref], trusted=[ref])
    assert words.startswith("volume disk of pool files is kept: it cannot be determined whether something uses it: ")
    assert words.endswith("vol-delete --pool files disk")


def test_a_file_at_the_source_is_told_from_another_one_of_its_name(conn: t.Any, tmp_path: Path) -> None:
    pool = dataclasses.replace(Pools(conn).get("files"), local=True)
    ref = VolumeRef("files", "disk", identify_source(pool, "disk", "m" * 32))
    assert ref.identity == VolumeIdentity(mark="m" * 32)
    assert is_the_one(pool, ref, conn) is True
    # A new file often gets the very inode of the one that has just gone.
    (tmp_path / "disk").unlink()
    (tmp_path / "disk").write_bytes(b"y" * 4096)
    assert is_the_one(pool, ref, conn) is False


def test_a_file_that_cannot_be_marked_is_known_by_nothing(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_words: t.Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse)
    pool = dataclasses.replace(Pools(conn).get("files"), local=True)
    assert identify_source(pool, "disk", "mark") == VolumeIdentity()


@pytest.mark.parametrize("running", [None, True, False])
def test_a_machine_that_may_have_run_on_the_target_is_never_undefined(conn: t.Any, running: bool | None) -> None:
    """It is off there now, and what it wrote is nowhere else."""
    note = MigrationNote("hv1", "hv2", "qemu+tls://hv2/system", (VolumeRef("files", "disk"),), running=running)
    domain = conn.defineXML(f"{DOMAIN}</domain>")
    domain.setMetadata(2, migration_note_to_xml(note), PREFIX, NAMESPACE, 2)
    with pytest.raises(HostError, match="web1 is defined on the target, so nothing there is deleted"):
        cleanup._drop_left_over(conn, UUID, note)
    assert conn.lookupByName("web1").UUIDString() == UUID


def left_over(conn: t.Any, *made: VolumeRef) -> tuple[t.Any, MigrationNote]:
    """What the move of a machine that is off has defined on the target before it failed."""
    note = MigrationNote("hv1", "hv2", "qemu+tls://hv2/system", made, running=False)
    domain = conn.defineXML(f"{DOMAIN}</domain>")
    domain.setMetadata(2, migration_note_to_xml(note), PREFIX, NAMESPACE, 2)
    return domain, note


def test_what_an_offline_move_defined_goes_when_its_disks_are_untouched(
    conn: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume_identity, "last_written", lambda volume: f"{volume.name()} at noon")
    _domain, note = left_over(conn, VolumeRef("files", "disk", VolumeIdentity(written="disk at noon")))
    cleanup._drop_left_over(conn, UUID, note)
    assert conn.listAllDomains() == []


def test_a_disk_that_does_not_tell_whether_it_was_written_to_keeps_its_machine(conn: t.Any) -> None:
    """A logical volume is the very one that was made, whatever a machine has written to it since."""
    key = conn.storagePoolLookupByName("vg").storageVolLookupByName("disk").key()
    ref = VolumeRef("vg", "disk", VolumeIdentity(key=key))
    _domain, note = left_over(conn, ref)
    assert is_the_one(Pools(conn).get("vg"), ref, conn) is True
    with pytest.raises(HostError, match="web1 is defined on the target, so nothing there is deleted"):
        cleanup._drop_left_over(conn, UUID, note)
    assert conn.lookupByName("web1").UUIDString() == UUID


def test_a_machine_that_was_started_and_saved_keeps_its_state(conn: t.Any, tmp_path: Path) -> None:
    """It has written nothing to a disk, and undefining it would discard its memory."""
    domain, note = left_over(conn)
    domain.create()
    domain.managedSave()
    with pytest.raises(HostError, match="web1 is defined on the target, so nothing there is deleted"):
        cleanup._drop_left_over(conn, UUID, note)
    assert domain.hasManagedSaveImage()


def test_a_machine_with_a_snapshot_keeps_it(conn: t.Any) -> None:
    """An external one leaves the disk as it is, and what is written since is in another file."""
    domain, note = left_over(conn)
    domain.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
    with pytest.raises(HostError, match="web1 is defined on the target, so nothing there is deleted"):
        cleanup._drop_left_over(conn, UUID, note)
    assert [snapshot.getName() for snapshot in domain.listAllSnapshots()] == ["before"]
