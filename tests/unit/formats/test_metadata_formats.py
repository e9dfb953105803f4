# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier versions wrote into a machine's metadata is read by this one: recorded samples, one for each change.

docs/docsite/rst/formats.rst describes the formats. A sample is never changed: a version that writes something else
adds one.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import (
    CEPH,
    INTERNAL,
    read_snapshot,
    with_mark,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata import machine, migration, snapshots
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import noted_format
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.cleanup import delete_proven

IMAGE = machine.ImageNote("debian-12", "debian-12-0123456789abcdef.qcow2", "images")
BACKING = "/var/lib/libvirt/images/debian-12-0123456789abcdef.qcow2"
SYSTEM = machine.VolumeNote("default", "db1-system.qcow2", "disk")
DATA = machine.VolumeNote("default", "db1-data.raw", "disk")
SEED = machine.VolumeNote("default", "db1-seed.iso", "seed")
# As the first version wrote a machine.
FIRST = machine.MachineNotes(
    image=IMAGE,
    volumes=(SYSTEM, DATA, SEED),
    disks=(machine.DiskNote("system", "vda"), machine.DiskNote("data", "vdb")),
    nics=(
        machine.NicNote("eth0", "52:54:00:aa:bb:01"),
        machine.NicNote("eth1", "52:54:00:aa:bb:02", ("192.0.2.10/24", "2001:db8::10/64")),
    ),
    tags=("db", "web & <more>"),
    variables={"role": "database", "port": 5432, "replicas": ["db2", "db3"]},
    seed=machine.SeedNote("nocloud", "ab" * 32, "ansible"),
    host_keys=("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDb1 root@db1",),
)
UNFINISHED_DATA = dataclasses.replace(DATA, building=True)
WITH_FRAGMENT = dataclasses.replace(FIRST, volumes=(SYSTEM, UNFINISHED_DATA, SEED), fragment="cd" * 32)
WITH_LABELS = dataclasses.replace(WITH_FRAGMENT, labels=("ssd", "zone=a"), anti_affinity=("databases",))


def in_format(volume: machine.VolumeNote, name: str, making: machine.CreationNote | None = None) -> machine.VolumeNote:
    return dataclasses.replace(volume, format=name, making=making)


WITH_FORMATS = (in_format(SYSTEM, "qcow2"), in_format(UNFINISHED_DATA, "raw"), in_format(SEED, "raw"))
DATA_MAKING = machine.CreationNote("1e" * 16, 4294967296)
MACHINES = {
    "1-first": FIRST,
    "1-first-building": dataclasses.replace(FIRST, status="building"),
    "2-fragment": WITH_FRAGMENT,
    "3-labels": WITH_LABELS,
    "4-claimed": machine.MachineNotes(status="building", claimed=True),
    "5-format": dataclasses.replace(WITH_LABELS, volumes=WITH_FORMATS),
    "5-format-building": dataclasses.replace(WITH_LABELS, status="building", volumes=WITH_FORMATS),
    "6-making": dataclasses.replace(
        WITH_LABELS, volumes=(WITH_FORMATS[0], in_format(UNFINISHED_DATA, "raw", DATA_MAKING), WITH_FORMATS[2])
    ),
    "6-making-building": dataclasses.replace(
        WITH_LABELS,
        status="building",
        volumes=(
            in_format(SYSTEM, "qcow2", machine.CreationNote("0f" * 16, 8589934592, BACKING)),
            in_format(UNFINISHED_DATA, "raw", DATA_MAKING),
            in_format(SEED, "raw", machine.CreationNote("2d" * 16)),
        ),
    ),
    "7-identity": dataclasses.replace(
        WITH_LABELS,
        volumes=(
            dataclasses.replace(WITH_FORMATS[0], identity="0f" * 16),
            in_format(UNFINISHED_DATA, "raw", DATA_MAKING),
            dataclasses.replace(WITH_FORMATS[2], identity="2d" * 16),
        ),
    ),
}
MACHINES["8-start"] = dataclasses.replace(MACHINES["7-identity"], order=10, delay_seconds=30)
MACHINES["8-start-order"] = machine.MachineNotes(order=0)
MACHINES["9-image-disk"] = machine.MachineNotes(
    image=dataclasses.replace(IMAGE, disk="system"),
    disks=(machine.DiskNote("data", "vda"), machine.DiskNote("system", "vdb")),
)
MACHINES["10-replaced"] = machine.MachineNotes(
    volumes=(
        machine.VolumeNote("default", "db1-system-2.qcow2", "disk", format="qcow2", identity="3c" * 16),
        machine.VolumeNote("default", "db1-system.qcow2", "disk", format="qcow2", identity="0f" * 16, replaced=True),
    )
)
MACHINES["11-claimed-groups"] = machine.MachineNotes(status="building", claimed=True, anti_affinity=("web", "db"))
# What this version writes.
NEWEST_MACHINES = (
    "4-claimed",
    "6-making",
    "6-making-building",
    "7-identity",
    "8-start",
    "8-start-order",
    "10-replaced",
    "11-claimed-groups",
)

MADE = (
    migration.VolumeRef("default", "db1-system.qcow2"),
    migration.VolumeRef("vg", "db1-data"),
    migration.VolumeRef("default", "db1-seed.iso"),
)
LEFT = (migration.VolumeRef("default", "db1-system.qcow2"), migration.VolumeRef("default", "db1-seed.iso"))
FIRST_MOVE = migration.MigrationNote(
    "hv1.example.org", "hv2.example.org", "qemu+tls://hv2.example.org/system", MADE, LEFT, True
)
IDENTITIES = [
    migration.VolumeIdentity(mark="3c" * 16),
    migration.VolumeIdentity(key="aBcD12-key"),
    migration.VolumeIdentity(written="1763766000.123456789 376832"),
    migration.VolumeIdentity(mark="4b" * 16),
    migration.VolumeIdentity(),
]
BETWEEN_POOLS = (
    migration.MigrationNote(
        source="hv1.example.org",
        target="hv1.example.org",
        uri="qemu:///system",
        made=(migration.VolumeRef("fast", "db1-system.qcow2"), migration.VolumeRef("vg", "db1-data")),
        left=(migration.VolumeRef("default", "db1-system.qcow2"),),
        running=True,
        source_id="5a" * 16,
    ),
    [
        migration.VolumeIdentity("3c" * 16),
        migration.VolumeIdentity(key="aBcD12-key"),
        migration.VolumeIdentity("3c" * 16),
    ],
)
MOVES = {
    "1-first": (FIRST_MOVE, [migration.VolumeIdentity()] * 5),
    "2-identity": (dataclasses.replace(FIRST_MOVE, running=False), IDENTITIES),
    "3-source-id": (dataclasses.replace(FIRST_MOVE, running=False, source_id="5a" * 16), IDENTITIES),
    "4-pools": BETWEEN_POOLS,
    "5-pivot": BETWEEN_POOLS,
    "6-start": (
        dataclasses.replace(FIRST_MOVE, running=True, source_id="5a" * 16, start="2026-11-27 08:30:34.891+0000"),
        IDENTITIES,
    ),
}
# What between pools of one hypervisor is a copy of what.
ORIGINS = dict.fromkeys(("4-pools", "5-pivot"), ["default", "slow"])
# When a running machine was about to be switched to it.
PIVOTS = {"5-pivot": ["1763766000.125"]}

SET_ASIDE = {
    "1-first": (
        snapshots.SetAside("before", "<domainsnapshot><name>before</name></domainsnapshot>"),
        snapshots.SetAside("after", "<domainsnapshot><name>after</name></domainsnapshot>", current=True),
    )
}
SNAPSHOTS = {
    "1-first": ("before", "before Debian 13", True, INTERNAL, True, "2026-03-01T09:30:00Z"),
    "1-ceph": ("before", "before Debian 13", True, CEPH, False, "2026-03-01T09:30:00Z"),
}
AT_WORK = {
    "1-take": snapshots.SnapshotWork("before", frozen=True, paused=True),
    "1-revert": snapshots.SnapshotWork("before", reverting=True),
    "1-delete": snapshots.SnapshotWork("before", deleting=True),
    "1-delete-off": snapshots.SnapshotWork("before", deleting=True, off=True),
    "1-delete-started": snapshots.SnapshotWork(
        "before", deleting=True, off=True, started="2026-03-01 09:30:00.123+0000"
    ),
}


def read(fixtures: Path, sample: str) -> etree._Element:
    return parse_xml((fixtures / "formats" / f"{sample}.xml").read_text(encoding="utf-8"))


def canonical(element: etree._Element) -> bytes:
    """An element without what is between its parts."""
    for part in element.iter():
        part.tail = None
        if len(part):
            part.text = None
    return bytes(etree.tostring(element, method="c14n"))


@pytest.mark.parametrize(
    ("folder", "known"),
    [
        ("machine", MACHINES),
        ("move", MOVES),
        ("set_aside", SET_ASIDE),
        ("snapshot", SNAPSHOTS),
        ("snapshotting", AT_WORK),
    ],
)
def test_every_sample_is_read(fixtures: Path, folder: str, known: dict[str, t.Any]) -> None:
    assert {path.stem for path in (fixtures / "formats" / folder).iterdir()} == set(known)


@pytest.mark.parametrize("sample", MACHINES)
def test_metadata_of_a_machine(fixtures: Path, sample: str) -> None:
    assert machine.read_notes(read(fixtures, f"machine/{sample}")) == MACHINES[sample]


@pytest.mark.parametrize("sample", NEWEST_MACHINES)
def test_what_is_written_now_is_the_newest_sample(fixtures: Path, sample: str) -> None:
    """A failure means that the format has changed: add a sample, describe it, leave the old samples as they are."""
    element = read(fixtures, f"machine/{sample}").find("metadata/{*}machine")
    assert element is not None
    assert canonical(machine.notes_to_element(MACHINES[sample])) == canonical(element)


def test_a_volume_that_is_whole_keeps_its_mark_as_its_identity() -> None:
    assert in_format(DATA, "raw", machine.CreationNote("0f" * 16)).whole == dataclasses.replace(
        in_format(DATA, "raw"), identity="0f" * 16
    )
    known = dataclasses.replace(DATA, identity="0f" * 16)
    assert (known.whole, DATA.whole) == (known, DATA)


def test_volumes_without_a_format_have_that_of_their_name(fixtures: Path) -> None:
    notes = machine.read_notes(read(fixtures, "machine/1-first"))
    assert notes is not None
    assert [noted_format(volume) for volume in notes.volumes] == ["qcow2", "raw", "raw"]


def test_what_a_newer_version_adds_is_passed_over(fixtures: Path) -> None:
    domain = read(fixtures, "machine/7-identity")
    element = domain.find("metadata/{*}machine")
    assert element is not None
    element.set("owner", "somebody")
    for part in list(element):
        part.set("colour", "blue")
    etree.SubElement(element, f"{{{etree.QName(element).namespace}}}backup", pool="backups")
    assert machine.read_notes(domain) == MACHINES["7-identity"]


@pytest.mark.parametrize(
    ("sample", "reader"),
    [("machine/6-making", machine.read_notes), ("move/3-source-id", migration.read_migration_note)],
)
def test_a_format_with_another_number_is_not_taken_for_this_one(
    fixtures: Path, sample: str, reader: t.Callable[[t.Any], t.Any]
) -> None:
    """So a machine counts as one of others: nothing that is listed in it is deleted or changed."""
    text = (fixtures / "formats" / f"{sample}.xml").read_text(encoding="utf-8")
    assert reader(parse_xml(text.replace(':1"', ':2"'))) is None


@pytest.mark.parametrize("sample", MOVES)
def test_note_of_a_move(fixtures: Path, sample: str) -> None:
    note = migration.read_migration_note(read(fixtures, f"move/{sample}"))
    expected, identities = MOVES[sample]
    assert note is not None
    assert note == expected
    assert [volume.identity for volume in (*note.made, *note.left)] == identities
    assert [volume.origin for volume in note.made if volume.origin] == ORIGINS.get(sample, [])
    assert [volume.pivot for volume in note.made if volume.pivot] == PIVOTS.get(sample, [])
    assert note.stays is (sample in ORIGINS)


@pytest.mark.parametrize("sample", ["3-source-id", "4-pools", "5-pivot", "6-start"])
def test_the_note_of_a_move_is_written_as_in_the_newest_sample(fixtures: Path, sample: str) -> None:
    element = read(fixtures, f"move/{sample}").find("metadata/{*}move")
    note = migration.read_migration_note(read(fixtures, f"move/{sample}"))
    assert element is not None and note is not None
    written = parse_xml(migration.migration_note_to_xml(note))
    for part in written.iter():
        part.tag = f"{{{migration.NAMESPACE}}}{part.tag}"
    assert _plain(written) == _plain(element)


def _plain(element: etree._Element) -> list[tuple[str, dict[str, str]]]:
    return [(str(part.tag), {str(key): str(value) for key, value in part.attrib.items()}) for part in element.iter()]


def test_of_a_first_note_no_volume_is_deleted_and_the_command_that_does_it_is_named(
    fixtures: Path, node_uri: str, tmp_path: Path
) -> None:
    note = migration.read_migration_note(read(fixtures, "move/1-first"))
    assert note is not None
    with open_connection(node_uri) as conn:
        pool = conn.storagePoolLookupByName("default")
        for ref in note.left:
            pool.createXML(f"<volume><name>{ref.name}</name><capacity>4096</capacity></volume>", 0)
        sentences = delete_proven(conn, note.left)
        assert {ref.name for ref in note.left} <= set(pool.listVolumes())
    assert len(sentences) == len(note.left)
    for ref, sentence in zip(note.left, sentences, strict=True):
        assert "nothing proves that it is the one that the move created" in sentence
        assert sentence.endswith(f"vol-delete --pool default {ref.name}")


@pytest.mark.parametrize(
    "sample",
    ["machine/6-making-building", "machine/4-claimed", "move/4-pools", "move/5-pivot", "move/6-start"],
)
def test_the_page_about_formats_names_every_field(fixtures: Path, sample: str) -> None:
    root = next(parent for parent in Path(__file__).parents if (parent / "galaxy.yml").exists())
    page = (root / "docs/docsite/rst/formats.rst").read_text(encoding="utf-8")
    (ours,) = read(fixtures, sample).findall("metadata/*")
    for part in ours.iter():
        for name in (etree.QName(part).localname, *part.attrib):
            assert re.search(rf"``(\w+/)?@?{name}\b(/@\w+)?``", page), f"{name} is not in formats.rst"


@pytest.mark.parametrize("sample", SET_ASIDE)
def test_snapshots_that_were_set_aside(fixtures: Path, sample: str) -> None:
    element = read(fixtures, f"set_aside/{sample}")
    assert snapshots.read_set_aside(element) == SET_ASIDE[sample]
    written = parse_xml(snapshots.set_aside_to_xml(SET_ASIDE[sample]))
    for part in written.iter():
        part.tag = f"{{{snapshots.NAMESPACE}}}{part.tag}"
    metadata = etree.Element("metadata")
    metadata.append(written)
    domain = etree.Element("domain")
    domain.append(metadata)
    assert snapshots.read_set_aside(domain) == SET_ASIDE[sample]


@pytest.mark.parametrize("sample", SNAPSHOTS)
def test_the_mark_of_a_snapshot(fixtures: Path, sample: str) -> None:
    found = read_snapshot(read(fixtures, f"snapshot/{sample}"))
    said = (found.name, found.description, found.own, found.kind, found.memory, found.time)
    assert said == SNAPSHOTS[sample]
    assert with_mark(found.description) == read(fixtures, f"snapshot/{sample}").findtext("description")


@pytest.mark.parametrize("sample", AT_WORK)
def test_a_snapshot_that_is_taken_or_reverted(fixtures: Path, sample: str) -> None:
    domain = read(fixtures, f"snapshotting/{sample}")
    assert snapshots.read_work(domain) == AT_WORK[sample]
    (element,) = domain.iterfind("metadata/*")
    assert canonical(snapshots.work_to_element(AT_WORK[sample])) == canonical(element)
