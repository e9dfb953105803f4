# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is remembered of a machine that goes back to a snapshot."""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.module_utils._base.xml import need, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    DiskNote,
    MachineNotes,
    VolumeNote,
    read_notes,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.revert import (
    kept_notes,
    with_notes,
    would_bring_back,
)

THEN = MachineNotes(disks=(DiskNote("system", "vda"),), tags=("old",))
NOW = MachineNotes(
    volumes=(VolumeNote("default", "w.qcow2", "disk"),), disks=(DiskNote("data", "vdb"),), tags=("new",), claimed=True
)


def test_its_disks_are_those_of_then_and_its_place_is_that_of_now() -> None:
    kept = kept_notes(NOW, THEN)
    assert kept is not None
    assert (kept.disks, kept.tags, kept.volumes, kept.claimed) == (THEN.disks, NOW.tags, NOW.volumes, False)
    assert kept_notes(None, THEN) is None
    assert kept_notes(NOW, None) == NOW


def test_they_are_written_into_the_snapshot() -> None:
    bare = "<domainsnapshot><domain><name>w</name><uuid>1</uuid></domain></domainsnapshot>"
    text = with_notes(bare, NOW)
    written = need(parse_xml(text), "domain")
    assert read_notes(written) == NOW
    assert [part.tag for part in written] == ["name", "uuid", "metadata"]
    assert would_bring_back(need(parse_xml(bare), "domain"), NOW)
    assert not would_bring_back(written, NOW)
