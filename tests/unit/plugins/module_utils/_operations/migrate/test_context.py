# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the note of a move says of a switch that is requested, on libvirt's test driver."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    MigrationNote,
    VolumeRef,
    read_migration_note,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.context import NoteWriter

SYSTEM, DATA = VolumeRef("fast", "s.qcow2", origin="slow"), VolumeRef("fast", "d.qcow2", origin="slow")


def pivots(domain: t.Any) -> list[str]:
    """When the machine was about to be switched to each volume, as the note in its definition says."""
    note = read_migration_note(parse_xml(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))
    assert note is not None
    return [ref.pivot for ref in note.made]


def test_a_switch_is_noted_before_it_is_requested_and_taken_back_when_its_copy_was_cancelled() -> None:
    with open_connection("test:///default") as conn:
        domain = conn.lookupByName("test")
        writer = NoteWriter(MigrationNote("here", "here", "test:///", made=(SYSTEM, DATA)))
        writer.begin(domain, [], "3c" * 16)
        assert pivots(domain) == ["", ""]
        writer.pivots(domain, DATA)
        system, data = pivots(domain)
        assert system == ""
        assert abs(float(data) - time.time()) < 60
        # What else comes to be known leaves it as it is.
        writer.know(domain, DATA, SYSTEM.identity)
        assert pivots(domain) == ["", data]
        assert [ref.pivot for ref in writer.note_of([DATA]).made] == [data]
        writer.cancelled(domain, [SYSTEM])
        assert pivots(domain) == ["", data]
        writer.cancelled(domain, [DATA])
        assert pivots(domain) == ["", ""]
