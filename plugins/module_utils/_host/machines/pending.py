# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running machine gets only when it is powered off and on: its two descriptions compared. Asks nobody."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import read_notes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import Field, covers
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE

# libvirt writes what it makes of these modes into the running machine's XML.
_EXPANDED_MODES = ("host-model", "host-passthrough", "maximum")
_EXPANDED_KEYS = ("mode", "model", "vendor", "check", "match", "features", "fallback", "migratable")
# These say how a model is compared with the host's CPU, and the running machine's XML says how it came out.
_CHECKED_KEYS = ("check", "fallback")
# Where libvirt or the guest fills in values while the machine runs (ports, paths, vCPUs given back), only these count.
_STEADY_KEYS = {"vcpus": ("maximum",), "graphics": ("type",), "video": ("model",), "serials": (), "consoles": ()}


def pending_of(live: etree._Element, defined: etree._Element) -> list[str]:
    """The options, as virt_init names them, in which the defined machine has what the running one does not have yet."""
    pending = [field.key for field in HARDWARE if _waits(field, live, defined)]
    notes = read_notes(defined)
    disks = {note.target: note.name for note in notes.disks} if notes else {}
    nics = {note.mac.lower(): note.name for note in notes.nics} if notes else {}
    for kind, path, attribute, names in (
        ("disks", "devices/disk/target", "dev", disks),
        ("nics", "devices/interface/mac", "address", nics),
    ):
        there = _values(live, path, attribute)
        lacking = [value for value in _values(defined, path, attribute) if value not in there]
        pending += [f"{kind}.{names.get(value, value)}" for value in lacking]
    return pending


def shown_value(field: Field, value: t.Any) -> t.Any:
    """The part of a line's value that the XML of a running machine shows as it is defined."""
    if field.key == "cpu":
        expanded = value.get("mode", "host-model") in _EXPANDED_MODES
        return {key: item for key, item in value.items() if key not in (_EXPANDED_KEYS if expanded else _CHECKED_KEYS)}
    if field.key == "memory":
        # The balloon is on its way, and may have to stop half-way.
        return {key: item for key, item in value.items() if key != "current"}
    return value


def _waits(field: Field, live: etree._Element, defined: etree._Element) -> bool:
    want = field.read(defined)
    if want is None:
        return False
    want = shown_value(field, want)
    keys = _STEADY_KEYS.get(field.key)
    if keys is not None:
        if not isinstance(want, dict):
            return False
        want = {key: want[key] for key in keys if key in want}
    return not covers(field.read(live), want)


def _values(domain: etree._Element, path: str, attribute: str) -> list[str]:
    return [value.lower() for element in domain.iterfind(path) if (value := element.get(attribute))]
