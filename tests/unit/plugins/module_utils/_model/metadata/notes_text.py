# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our metadata of a machine as text, for tests that write a domain's XML by hand."""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes, notes_to_element


def notes_to_xml(notes: MachineNotes) -> str:
    """The metadata element as it stands in a domain's XML."""
    return etree.tostring(notes_to_element(notes), encoding="unicode")
