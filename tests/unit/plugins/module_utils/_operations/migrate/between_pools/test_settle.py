# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a move between pools ends: by the volumes that the machine has, on libvirt's test driver."""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.machines import redefine
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import read_notes
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import MigrationNote, VolumeRef
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.between_pools import settle as settling
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.between_pools.copied import copied_volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.between_pools.settle import record, settle
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.location import write_note
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.migrate.between_pools.node import (
    UUID,
    disk_places,
    volume,
    write_node,
)

INACTIVE = libvirt.VIR_DOMAIN_XML_INACTIVE
SYSTEM, DATA = "web1-system.qcow2", "web1-data.raw"
OLD = [VolumeRef("slow", SYSTEM), VolumeRef("slow", DATA)]
NEW = [VolumeRef("fast", SYSTEM, origin="slow"), VolumeRef("fast", DATA, origin="slow")]


@pytest.fixture
def conn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    """A hypervisor that a run has copied two disks on."""
    locked = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(settling, "hypervisor_lock", locked)
    uri = write_node(tmp_path, in_fast=volume(SYSTEM, "qcow2") + volume(DATA))
    (tmp_path / "fast").mkdir()
    for name in (SYSTEM, DATA):
        (tmp_path / "fast" / name).write_bytes(b"copied")
    with open_connection(uri) as conn:
        note = MigrationNote("here", "here", uri, made=tuple(NEW), left=tuple(OLD))
        write_note(conn.lookupByName("web1"), note)
        yield conn


def note() -> MigrationNote:
    return MigrationNote("here", "here", "test:///", made=tuple(NEW), left=tuple(OLD))


def there(conn: t.Any, pool: str) -> set[str]:
    return {name for name in conn.storagePoolLookupByName(pool).listVolumes() if name.startswith("web1-")}


def off(conn: t.Any) -> t.Any:
    domain = conn.lookupByName("web1")
    domain.destroy()
    return domain


def test_what_has_not_arrived_goes(conn: t.Any) -> None:
    domain = off(conn)
    assert settle(conn, UUID, note(), trusted_made=NEW, trusted_left=OLD) == []
    assert there(conn, "fast") == set()
    assert there(conn, "slow") == {SYSTEM, DATA, "web1-seed.iso"}
    assert disk_places(domain, INACTIVE) == [f"slow/{SYSTEM}", f"slow/{DATA}", "slow/web1-seed.iso"]


def test_what_has_arrived_takes_the_place_of_the_old_one(conn: t.Any) -> None:
    domain = off(conn)
    record(conn, domain, copied_volumes(conn, note()))
    assert disk_places(domain, INACTIVE) == [f"fast/{SYSTEM}", f"fast/{DATA}", "slow/web1-seed.iso"]
    assert settle(conn, UUID, note(), trusted_made=NEW, trusted_left=OLD) == []
    assert there(conn, "slow") == {"web1-seed.iso"}
    assert there(conn, "fast") == {SYSTEM, DATA}
    notes = read_notes(parse_xml(domain.XMLDesc(INACTIVE)))
    assert notes is not None
    # What told the old volumes from others does not tell the new ones.
    assert [(one.pool, one.name, one.identity) for one in notes.volumes] == [
        ("fast", SYSTEM, ""),
        ("fast", DATA, ""),
        ("slow", "web1-seed.iso", ""),
    ]


def test_one_that_was_started_on_its_old_disks_keeps_them(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """libvirt has begun to start it with its definition of before when that is changed."""
    monkeypatch.setattr(redefine, "_START_SECONDS", 0.0)
    domain = conn.lookupByName("web1")
    assert domain.isActive()
    with pytest.raises(
        ConflictError, match="web1 was started while its disks were moved, and is on its disks of before"
    ):
        record(conn, domain, copied_volumes(conn, note()))
    assert disk_places(domain, INACTIVE) == [f"slow/{SYSTEM}", f"slow/{DATA}", "slow/web1-seed.iso"]
    assert settle(conn, UUID, note(), trusted_made=NEW, trusted_left=OLD) == []
    assert (there(conn, "fast"), len(there(conn, "slow"))) == (set(), 3)


def test_one_that_runs_on_its_old_disks_and_would_start_on_the_copies_loses_neither(conn: t.Any) -> None:
    """A run was killed before it could put the definition back."""
    domain = conn.lookupByName("web1")
    conn.defineXML(domain.XMLDesc(INACTIVE).replace(f"slow/{SYSTEM}", f"fast/{SYSTEM}"))
    with pytest.raises(ConflictError, match="runs on volume web1-system.qcow2 of pool slow, and its definition names"):
        settle(conn, UUID, note(), trusted_made=NEW, trusted_left=OLD)
    assert (there(conn, "fast"), len(there(conn, "slow"))) == ({SYSTEM, DATA}, 3)


def test_each_disk_is_judged_by_itself(conn: t.Any) -> None:
    """A run was killed between two pivots."""
    domain = off(conn)
    record(conn, domain, copied_volumes(conn, note())[:1])
    assert settle(conn, UUID, note(), trusted_made=NEW, trusted_left=OLD) == []
    assert (there(conn, "fast"), there(conn, "slow")) == ({SYSTEM}, {DATA, "web1-seed.iso"})
    assert disk_places(domain, INACTIVE) == [f"fast/{SYSTEM}", f"slow/{DATA}", "slow/web1-seed.iso"]
    # And once more, as if that had been cut off.
    assert settle(conn, UUID, note(), trusted_made=NEW, trusted_left=OLD) == []
    assert (there(conn, "fast"), there(conn, "slow")) == ({SYSTEM}, {DATA, "web1-seed.iso"})


def test_what_nothing_proves_stays(conn: t.Any) -> None:
    off(conn)
    sentences = settle(conn, UUID, note())
    assert len(sentences) == len(NEW)
    assert all("nothing proves that it is the one that the move created" in words for words in sentences)
    assert there(conn, "fast") == {SYSTEM, DATA}


def test_an_old_volume_that_another_machine_has_stays(conn: t.Any, tmp_path: Path) -> None:
    domain = off(conn)
    record(conn, domain, copied_volumes(conn, note()))
    other = f"<disk type='file'><source file='{tmp_path}/slow/{DATA}'/><target dev='vda'/></disk>"
    conn.defineXML(
        "<domain type='test'><name>web2</name><memory>1024</memory><os><type>hvm</type></os>"
        f"<devices>{other}</devices></domain>"
    )
    (words,) = settle(conn, UUID, note(), trusted_made=NEW, trusted_left=OLD)
    assert words == f"volume {DATA} of pool slow is kept: it is used by machine web2"
    assert there(conn, "slow") == {DATA, "web1-seed.iso"}


def test_nothing_is_deleted_for_a_machine_that_has_left(conn: t.Any) -> None:
    off(conn).undefine()
    with pytest.raises(HostError, match="none of its volumes is deleted"):
        settle(conn, UUID, note(), trusted_made=NEW, trusted_left=OLD)
    assert there(conn, "fast") == {SYSTEM, DATA}
