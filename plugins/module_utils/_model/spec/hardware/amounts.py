# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much a machine has of vCPUs and of memory, at once and at most, and where that stands in the domain's XML."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ...._base.errors import InputError, inside
from ...._base.xml import etree, need
from ..fields import validators
from ..fields.shapes import GroupField, ListField
from ..fields.table import AttributeField, FlagField, SizeField, TextField, Values, drop
from ..fields.units import parse_capacity_mib
from .cpu import COUNT, CPU


@dataclass(frozen=True)
class _Hugepages:
    """``true`` for the host's default size, or sizes, each for all or for some of the machine's NUMA nodes."""

    key: str
    rows: ListField

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> tuple[Values, ...] | bool:
        # No size at all is the host's default size.
        return value if isinstance(value, bool) else self.rows.check(value, where, have) or True

    def write(self, parent: etree._Element, value: tuple[Values, ...] | bool) -> None:
        self.rows.write(parent, value if isinstance(value, tuple) else ())
        FlagField("", self.rows.path.rpartition("/")[0]).write(parent, value is not False)

    def read(self, parent: etree._Element) -> tuple[Values, ...] | bool:
        if parent.find(self.rows.path.rpartition("/")[0]) is None:
            return False
        return self.rows.read(parent) or True


@dataclass(frozen=True)
class _Memory(GroupField):
    """A plain size is the maximum and what the machine has at once."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        if not isinstance(value, Mapping):
            size = parse_capacity_mib(value, where)
            return {"maximum": size, "current": size}
        values = super().check({_SALT_MEMORY.get(str(k), k): v for k, v in value.items()}, where, have)
        if "slots" in values and "max" not in values:
            raise InputError("slots needs max", where=inside(where, "slots"))
        if "max" in values:
            values.setdefault("slots", _DEFAULT_SLOTS)
        return _with_both(values, where)

    def read(self, parent: etree._Element) -> Values:
        values = super().read(parent) or {}
        cells = [
            cell["memory"] for cell in (CPU.read(parent) or {}).get("numa", ()) if isinstance(cell.get("memory"), int)
        ]
        if cells and "maximum" not in values:
            # libvirt adds the cells up where a machine does not say how much memory it has.
            values["maximum"] = sum(cells)
        return _both_of(values)


# How many pieces of memory can be plugged in where the spec only says how much.
_DEFAULT_SLOTS = 16
# Salt's word for the memory that a machine boots with.
_SALT_MEMORY = {"boot": "maximum"}


@dataclass(frozen=True)
class _Vcpus(GroupField):
    """A plain number is the maximum and what the machine has at once."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        if not isinstance(value, Mapping):
            count = COUNT(value, where)
            return {"maximum": count, "current": count}
        values, was_auto = super().check(value, where, have), (have or {}).get("placement") == "auto"
        if values.get("placement") == "auto" and "cpuset" in values:
            raise InputError("placement auto takes no cpuset", where=inside(where, "cpuset"))
        if was_auto and "cpuset" in values:
            values["placement"] = "static"
        elif not was_auto and values.get("placement") == "static":
            # It is so by itself, and libvirt leaves the word out.
            del values["placement"]
        return _with_both(values, where)

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        before = self.read(parent) or {}
        super().write(parent, value)
        if value.get("placement") == "auto":
            need(parent, self.path).attrib.pop("cpuset", "")
        elif value.get("placement") == "static" and "cpuset" not in value:
            # libvirt has written this beside auto, and would take the vCPUs for auto by it.
            for memory in parent.findall("numatune/memory[@placement='auto']"):
                drop(memory)
        states = parent.find("vcpus")
        if states is not None and any(before.get(key) != value.get(key) for key in ("maximum", "current")):
            # Which of them are on, as virsh setvcpu writes it: libvirt believes this list rather than the numbers.
            parent.remove(states)

    def read(self, parent: etree._Element) -> Values | None:
        return _both_of(super().read(parent) or {}) or None


def _both_of(values: Values) -> Values:
    """What libvirt's XML says; without a current value the machine has the maximum at once."""
    return {**values, "current": values.get("current", values["maximum"])} if "maximum" in values else values


def _with_both(values: Values, where: str) -> Values:
    """The one of maximum and current that was not named is the other one."""
    if values.get("current") is None and values.get("maximum") is None:
        raise InputError("neither current nor maximum is given", where=where, hint="Give a plain number, or maximum")
    values.setdefault("maximum", values.get("current"))
    values.setdefault("current", values["maximum"])
    if values["current"] > values["maximum"]:
        raise InputError(
            f"{values['current']} is more than the maximum of {values['maximum']}",
            where=inside(where, "current"),
        )
    return values


VCPUS = _Vcpus(
    "vcpus",
    "vcpu",
    (
        TextField("maximum", COUNT, ""),
        AttributeField("current", COUNT, "@current"),
        AttributeField("cpuset", validators.cpu_set, "@cpuset"),
        AttributeField("placement", validators.choice("static", "auto"), "@placement"),
    ),
)
MEMORY = _Memory(
    "memory",
    "",
    (
        SizeField("maximum", "memory", capacity=True),
        SizeField("current", "currentMemory", capacity=True),
        SizeField("max", "maxMemory", capacity=True),
        AttributeField("slots", validators.whole_number(1, 256), "maxMemory@slots"),
        SizeField("hard_limit", "memtune/hard_limit"),
        SizeField("soft_limit", "memtune/soft_limit"),
        SizeField("swap_hard_limit", "memtune/swap_hard_limit"),
        SizeField("min_guarantee", "memtune/min_guarantee"),
        _Hugepages(
            "hugepages",
            ListField(
                "hugepages",
                "memoryBacking/hugepages/page",
                (SizeField("size", "@size", exact=True), AttributeField("nodeset", validators.cpu_set, "@nodeset")),
                short="size",
                required=("size",),
            ),
        ),
        FlagField("nosharepages", "memoryBacking/nosharepages"),
        FlagField("locked", "memoryBacking/locked"),
        FlagField("discard", "memoryBacking/discard"),
        AttributeField("source", validators.choice("file", "anonymous", "memfd"), "memoryBacking/source@type"),
        AttributeField("access", validators.choice("shared", "private"), "memoryBacking/access@mode"),
        AttributeField("allocation", validators.choice("immediate", "ondemand"), "memoryBacking/allocation@mode"),
    ),
)
