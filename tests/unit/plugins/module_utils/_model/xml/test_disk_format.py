# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The format of a disk, by what is known of it."""

from __future__ import annotations

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import notes_from_element
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import noted_format


@pytest.mark.parametrize(
    ("name", "role", "known"),
    [
        ("web1-data.raw", "disk", "raw"),
        ("web1-data.qcow2", "disk", "qcow2"),
        ("web1-data", "disk", None),
        ("x", "seed", "raw"),
    ],
)
def test_a_note_of_an_older_version_has_its_format_in_the_name(name: str, role: str, known: str | None) -> None:
    xml = f"<machine xmlns='urn:brine:virt:1'><volume pool='default' name='{name}' role='{role}'/></machine>"
    (note,) = notes_from_element(etree.fromstring(xml)).volumes
    assert (note.format, noted_format(note)) == (None, known)
