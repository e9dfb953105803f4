# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The notes in a domain's metadata survive the way through XML."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    CreationNote,
    DiskNote,
    ImageNote,
    MachineNotes,
    NicNote,
    SeedNote,
    VolumeNote,
    can_be_noted,
    notes_from_element,
    read_notes,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml

# Everything that XML can carry; the rest is refused where input is read. A carriage return becomes a line feed in
# any XML reader, so it cannot come back as itself.
TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), max_size=40)
JSON = st.recursive(st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.lists(inner, max_size=3))
NOTES = st.builds(
    MachineNotes,
    status=st.sampled_from(["building", "ready"]),
    image=st.none() | st.builds(ImageNote, TEXT, TEXT, TEXT),
    volumes=st.lists(
        st.builds(
            VolumeNote,
            TEXT,
            TEXT,
            st.sampled_from(["disk", "seed"]),
            st.booleans(),
            st.sampled_from([None, "raw", "qcow2"]),
            st.none() | st.builds(CreationNote, TEXT.filter(bool), st.none() | st.integers(min_value=0), TEXT),
            TEXT,
        ),
        max_size=3,
    ).map(tuple),
    disks=st.lists(st.builds(DiskNote, TEXT, TEXT), max_size=3).map(tuple),
    nics=st.lists(st.builds(NicNote, TEXT, TEXT, st.lists(TEXT, max_size=2).map(tuple)), max_size=3).map(tuple),
    tags=st.lists(TEXT, max_size=3).map(tuple),
    labels=st.lists(TEXT, max_size=3).map(tuple),
    anti_affinity=st.lists(TEXT, max_size=3).map(tuple),
    variables=st.dictionaries(TEXT, JSON, max_size=3),
    seed=st.none() | st.builds(SeedNote, TEXT, TEXT, st.none() | TEXT.filter(bool)),
    host_keys=st.lists(TEXT, max_size=2).map(tuple),
    order=st.none() | st.integers(0, 9999),
    delay_seconds=st.integers(0, 3600),
)


def as_they_count(notes: MachineNotes) -> MachineNotes:
    """Of a volume that is whole, nothing counts that was noted for the time of its making."""
    whole = notes.status == "ready"
    volumes = (
        dataclasses.replace(note, making=None) if whole and not note.building else note for note in notes.volumes
    )
    return dataclasses.replace(notes, volumes=tuple(volumes))


@given(NOTES)
def test_notes_come_back_as_they_went(notes: MachineNotes) -> None:
    assert notes_from_element(etree.fromstring(notes_to_xml(notes))) == as_they_count(notes)


def test_a_machine_of_others_has_no_notes() -> None:
    domain = etree.fromstring("<domain><metadata><x xmlns='urn:other'/></metadata></domain>")
    assert read_notes(domain) is None


def test_a_broken_start_order_counts_as_none() -> None:
    xml = notes_to_xml(MachineNotes(order=5, delay_seconds=7)).replace('"5"', '"-5"').replace('"7"', '"soon"')
    notes = notes_from_element(etree.fromstring(xml))
    assert (notes.order, notes.delay_seconds) == (None, 0)


def test_broken_variables_count_as_none() -> None:
    xml = notes_to_xml(MachineNotes(variables={"a": 1})).replace('{"a": 1}', "{nonsense")
    assert notes_from_element(etree.fromstring(xml)).variables == {}


@pytest.mark.parametrize(
    "nonsense",
    [
        '{"a": {"__ansible_type": "_AnsibleTaggedStr", "value": "{{ 1 }}", "tags": []}}',
        '{"a": [{"b": {"__ansible_unsafe": "{{ 1 }}"}}]}',
        '{"__ansible_vault": "x"}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        f'{{"a": {"[" * 100_000}{"]" * 100_000}}}',
        f'{{"a": {"[" * 60}{"]" * 60}}}',
    ],
    ids=lambda text: text[:40],
)
def test_variables_that_are_more_than_values_count_as_none(nonsense: str) -> None:
    """Ansible would make objects of its own of some, and others no reader of JSON can take."""
    xml = notes_to_xml(MachineNotes(variables={"a": 1}))
    root = etree.fromstring(xml)
    element = root.find("{*}variables")
    assert element is not None
    element.text = nonsense
    assert notes_from_element(root).variables == {}


def test_a_delay_that_nobody_can_have_asked_for_counts_as_none() -> None:
    xml = notes_to_xml(MachineNotes(order=5, delay_seconds=7)).replace('"7"', f'"{"9" * 30}"')
    assert notes_from_element(etree.fromstring(xml)).delay_seconds == 0


@pytest.mark.parametrize("text", [r'{"a":"\ud800"}', r'{"\ud800":1}', '{"a":[1e400]}'])
def test_variables_that_no_answer_could_hold_are_not_read(text: str) -> None:
    """One machine's would take the answer of its hypervisor with it."""
    assert not can_be_noted(json.loads(text))
    xml = notes_to_xml(MachineNotes(variables={"a": 1})).replace('{"a": 1}', text)
    assert text in xml
    assert notes_from_element(etree.fromstring(xml)).variables == {}
