# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of a network: each replaces the one that is there, row by row in full, and the order of most means nothing."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....._base.xml import etree
from ...fields.shapes import ListField, write_fixed
from ...fields.table import drop, make, read_table, write_table

# By what rows of lists are told apart whose order means nothing.
_IDENTITY = {
    "ranges": ("start", "end"),
    "leases": ("address",),
    "hosts": ("address",),
    "txt": ("name", "value"),
    "srv": ("service", "protocol", "domain", "target", "port"),
    "routes": ("to", "via"),
    "portgroups": ("name",),
}
_PLAIN_SETS = ("addresses", "names")
# Of these, False is the same as nothing at all.
ABSENT_AS_FALSE = ("domain", "bandwidth", "default")
# Of these, 0 is: libvirt leaves it out of its XML.
_ABSENT_AS_ZERO = ("priority", "weight")


def in_order(value: t.Any, key: str = "") -> t.Any:
    """The same with each list sorted whose order means nothing, so that two can be compared."""
    if isinstance(value, Mapping):
        return {word: in_order(item, word) for word, item in value.items()}
    if not isinstance(value, (list, tuple)):
        return value
    rows = [in_order(row) for row in value]
    if key in _PLAIN_SETS:
        rows.sort(key=str)
    elif key in _IDENTITY:
        rows.sort(key=lambda row: [str(row.get(word, "")) for word in _IDENTITY[key]])
    return tuple(rows)


def said(value: t.Any) -> t.Any:
    """The same without what is empty."""
    if isinstance(value, Mapping):
        inside = {key: said(item) for key, item in value.items()}
        return {
            key: item
            for key, item in inside.items()
            if item not in ((), {}, None)
            and not (item is False and key in ABSENT_AS_FALSE)
            and not (item == 0 and key in _ABSENT_AS_ZERO)
        }
    if isinstance(value, (list, tuple)):
        return tuple(said(item) for item in value)
    return value


def same(have: t.Any, want: t.Any, key: str) -> bool:
    """Whether an option of a network has all that is requested of it: of a mapping what is named, a list as a whole."""
    if isinstance(want, Mapping):
        there = have if isinstance(have, Mapping) else {}
        return all(same(there.get(word), item, word) for word, item in want.items())
    if isinstance(want, (list, tuple)):
        return bool(said(in_order(have or (), key)) == said(in_order(want, key)))
    return bool(have == want) or (want is False and have is None and key in ABSENT_AS_FALSE)


@dataclass(frozen=True)
class RowsField(ListField):
    """A ListField of which a row stays as it is only where it says the same in full."""

    def write(self, parent: etree._Element, value: Sequence[Mapping[str, t.Any]]) -> None:
        there = self._elements(parent)
        for old in there:
            drop(old)
        home_path, _slash, tag = self.path.rpartition("/")
        if not value:
            home = parent.find(home_path) if home_path else None
            # libvirt takes no <vlan> without a tag.
            if home is not None and not len(home) and home_path == "vlan":
                drop(home)
            return
        home = make(parent, home_path)
        for row in value:
            kept = next((old for old in there if same_row(read_table(old, self.table), row)), None)
            if kept is not None:
                there.remove(kept)
                home.append(kept)
                continue
            element = etree.SubElement(home, tag)
            write_fixed(element, self.fixed)
            write_table(element, self.table, row)


def same_row(have: Mapping[str, t.Any], want: Mapping[str, t.Any]) -> bool:
    """Whether a row of a list says the same as another, in full."""
    return bool(said(in_order(have)) == said(in_order(want)))
