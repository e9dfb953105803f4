# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware of a machine as options, without what a new machine has by itself."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..._base.xml import etree
from ..as_text import plain
from ..spec.fields.shapes import DeviceField, ListField
from ..spec.fields.table import Field, Values, read_table
from ..spec.hardware.description import HARDWARE
from .filled_in import without_filled_in

# How much a machine has at most, which every entry says.
_AMOUNTS = ("vcpus", "memory")
# What belongs to one CPU: where one of these differs from a new machine's, all of them are said.
_ONE_CPU = ("mode", "model", "vendor", "fallback", "check", "match", "migratable")


def export_hardware(domain: etree._Element, base: etree._Element) -> Values:
    """The options of the hardware of a parsed ``<domain>`` element.

    base: a new machine of the same vCPUs and memory for which nothing else was said. Options that both have alike are
    left out, those that the machine lacks are empty or false.
    """
    have, usual = (_read(xml) for xml in (domain, base))
    found: Values = {}
    for field in HARDWARE:
        value, other = have.get(field.key), usual.get(field.key)
        if value is None or (value == other and field.key not in _AMOUNTS):
            continue
        short = _amount(value, other) if field.key in _AMOUNTS else _option(field, value, other)
        if short is not None:
            found[field.key] = plain(short)
    _join(found, have)
    return found


def _read(xml: etree._Element) -> Values:
    return without_filled_in(read_table(xml, HARDWARE), emulated=xml.get("type") == "qemu")


def _join(found: Values, have: Values) -> None:
    """Options that say something of one another."""
    graphics, video = found.get("graphics"), have.get("video")
    if graphics and isinstance(video, Mapping) and dict(video) == {"model": "virtio"}:
        # What a console with a picture comes with.
        found.pop("video", None)
    elif graphics and video is False:
        # A new machine has none either, but gets one with the console.
        found["video"] = False
    watchdog = have.get("watchdog")
    if isinstance(watchdog, Mapping) and dict(watchdog) == {"model": "itco", "action": "reset"}:
        # libvirt gives it to every machine of type q35.
        found.pop("watchdog", None)
    if found.get("serials") == [] and found.get("consoles") == []:
        del found["consoles"]


def _amount(value: t.Any, other: t.Any) -> t.Any:
    if not isinstance(value, Mapping):
        return value
    usual = other if isinstance(other, Mapping) else {}
    rest = {key: item for key, item in value.items() if key in ("maximum", "current") or usual.get(key) != item}
    if rest.get("current") == rest.get("maximum"):
        rest.pop("current", None)
    return rest["maximum"] if list(rest) == ["maximum"] else rest


def _option(field: Field, value: t.Any, other: t.Any) -> t.Any:
    if isinstance(field, DeviceField):
        return _device(field, value)
    if isinstance(field, ListField):
        return _rows(field, value)
    if not isinstance(value, Mapping):
        return value
    value = _with_short_rows(field, value)
    rest = _less(value, other if isinstance(other, Mapping) else {})
    if field.key == "cpu" and any(key in rest for key in _ONE_CPU):
        rest = {**{key: value[key] for key in _ONE_CPU if key in value}, **rest}
        return rest["mode"] if list(rest) == ["mode"] else rest
    return rest or None


def _less(value: Mapping[str, t.Any], usual: Mapping[str, t.Any]) -> Values:
    """The keys of a mapping that differ from the usual ones, of mappings in it likewise."""
    rest: Values = {}
    for key, item in value.items():
        other = usual.get(key)
        if isinstance(item, Mapping) and isinstance(other, Mapping):
            item = _less(item, other)
            if not item:
                continue
        elif item == other or (other is None and item in ((), {})):
            continue
        rest[key] = item
    return rest


def _device(field: DeviceField, value: t.Any) -> t.Any:
    """A device that a machine has once, by what differs from one of which nothing was said."""
    if not isinstance(value, Mapping):
        return value
    blank = etree.Element("domain")
    field.write(blank, {})
    usual = field.read(blank)
    rest = _less(value, usual if isinstance(usual, Mapping) else {})
    if not rest:
        return True
    return rest[field.short] if field.short is not None and list(rest) == [field.short] else rest


def _with_short_rows(field: Field, value: Mapping[str, t.Any]) -> Values:
    """A group with the lists in it in short."""
    lists = {row.key: row for row in getattr(field, "table", ()) if isinstance(row, ListField)}
    return {key: _rows(lists[key], item) if key in lists else item for key, item in value.items()}


def _rows(field: ListField, rows: t.Any) -> t.Any:
    short = field.short
    return tuple(row[short] if short is not None and list(row) == [short] else row for row in rows)
