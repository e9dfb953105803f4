# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The note of a machine on the move survives libvirt's XML, and its disks get their new places."""

from __future__ import annotations

import dataclasses
import typing as t

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    MachineNotes,
    VolumeNote,
    read_notes,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    NAMESPACE,
    MigrationNote,
    VolumeIdentity,
    VolumeRef,
    migration_note_to_xml,
    read_migration_note,
)
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource
from ansible_collections.brine.virt.plugins.module_utils._model.xml.migrated_domain import migrated_domain_xml
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml

WORDS = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), min_size=1, max_size=12
)
MAYBE = st.one_of(st.just(""), WORDS)
IDENTITIES = st.builds(VolumeIdentity, MAYBE, MAYBE, MAYBE)
REFS = st.lists(st.builds(VolumeRef, WORDS, WORDS, IDENTITIES), max_size=3).map(tuple)
NOTES = st.builds(
    MigrationNote, WORDS, WORDS, WORDS, REFS, REFS, st.booleans(), st.sampled_from([None, True, False]), MAYBE
)


def _as_libvirt_keeps_it(text: str) -> t.Any:
    """A domain with the element in its namespace, as libvirt gives it back."""
    element = etree.fromstring(text)
    for part in element.iter():
        part.tag = f"{{{NAMESPACE}}}{part.tag}"
    domain = etree.fromstring("<domain><metadata/></domain>")
    domain[0].append(element)
    return etree.fromstring(etree.tostring(domain))


@given(NOTES)
def test_a_note_is_read_as_it_was_written(note: MigrationNote) -> None:
    found = read_migration_note(_as_libvirt_keeps_it(migration_note_to_xml(note)))
    assert found is not None
    assert found == note
    # What identifies a volume does not count in a comparison of volumes.
    assert [ref.identity for ref in (*found.made, *found.left)] == [ref.identity for ref in (*note.made, *note.left)]


def test_a_note_of_an_earlier_version_identifies_nothing() -> None:
    old = (
        "<move source='hv1' target='hv2' uri='qemu+tls://hv2/system' autostart='no'>"
        "<made pool='default' name='web1-system.qcow2'/><left pool='default' name='web1-system.qcow2'/></move>"
    )
    note = read_migration_note(_as_libvirt_keeps_it(old))
    assert note is not None
    assert note.running is None
    assert [ref.identity for ref in (*note.made, *note.left)] == [VolumeIdentity()] * 2


def test_no_note() -> None:
    assert read_migration_note(etree.fromstring("<domain><metadata/></domain>")) is None


DOMAIN = f"""
<domain>
  <metadata>{
    notes_to_xml(
        MachineNotes(
            volumes=(VolumeNote("default", "web1-system.qcow2", "disk"), VolumeNote("old", "gone.raw", "disk"))
        )
    )
}</metadata>
  <devices>
    <disk type="file" device="disk">
      <source file="/a/web1-system.qcow2" index="1"/>
      <backingStore type="file"><source file="/a/base.qcow2"/></backingStore>
      <target dev="vda"/>
    </disk>
    <disk type="file" device="cdrom"><target dev="sda"/></disk>
    <disk type="file" device="disk"><source file="/a/data.raw"/><target dev="vdb"/></disk>
  </devices>
</domain>
"""


def test_nothing_changes_where_all_is_alike() -> None:
    same = {"/a/data.raw": DiskSource("file", "/a/data.raw")}
    assert migrated_domain_xml(etree.fromstring(DOMAIN), same, {}) is None


def _sources(text: str | None) -> list[tuple[dict[str, str] | None, bool]]:
    """Of each disk the attributes of its source, and whether it says what backs that."""
    found = []
    for disk in etree.fromstring(text or "").iterfind("devices/disk"):
        source = disk.find("source")
        attributes = None if source is None else {str(key): str(value) for key, value in source.attrib.items()}
        found.append((attributes, disk.find("backingStore") is not None))
    return found


def test_a_disk_gets_its_new_place_and_loses_what_is_said_of_the_old_one() -> None:
    places = {"/a/web1-system.qcow2": DiskSource("file", "/b/web1-system.qcow2")}
    assert _sources(migrated_domain_xml(etree.fromstring(DOMAIN), places, {})) == [
        ({"file": "/b/web1-system.qcow2"}, False),
        (None, False),
        ({"file": "/a/data.raw"}, False),
    ]


def test_a_disk_that_is_backed_by_nothing_there_says_so() -> None:
    text = migrated_domain_xml(etree.fromstring(DOMAIN), {}, {}, {"/a/web1-system.qcow2"})
    assert _sources(text)[0] == ({"file": "/a/web1-system.qcow2"}, False)


def test_a_volume_that_stays_behind_is_no_longer_the_machines() -> None:
    root = etree.fromstring(DOMAIN)
    text = migrated_domain_xml(root, {}, {VolumeRef("old", "gone.raw"): None})
    assert text is not None
    before = read_notes(root)
    assert before is not None
    assert read_notes(etree.fromstring(text)) == dataclasses.replace(before, volumes=before.volumes[:1])


def test_what_told_a_volume_from_others_stays_with_it() -> None:
    """What a move makes on the target is another volume, under the same name; on shared storage it is the same one."""
    root = etree.fromstring(DOMAIN.replace("<brine:volume ", "<brine:volume identity='0f0f' "))
    travels = read_notes(root)
    assert travels is not None
    first, *others = travels.volumes
    ref = VolumeRef(first.pool, first.name)
    assert first.identity == "0f0f"
    text = migrated_domain_xml(root, {}, {ref: ref})
    assert text is not None
    moved = (dataclasses.replace(first, identity=""), *others)
    assert read_notes(etree.fromstring(text)) == dataclasses.replace(travels, volumes=moved)
    text = migrated_domain_xml(root, {}, {ref: VolumeRef("other", ref.name)}, shared={ref})
    assert text is not None
    moved = (dataclasses.replace(first, pool="other"), *others)
    assert read_notes(etree.fromstring(text)) == dataclasses.replace(travels, volumes=moved)
