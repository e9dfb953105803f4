# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The description of a machine beyond its disks and nics: every option, and where it stands in the domain's XML.

Names and values are those of https://libvirt.org/formatdomain.html, and Salt Virt's where it had a word of its own.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model import rules
from ansible_collections.brine.virt.plugins.module_utils._model.hardware_cpu import COUNT, CPU, INDEX, NUMATUNE
from ansible_collections.brine.virt.plugins.module_utils._model.hardware_devices import DEVICES
from ansible_collections.brine.virt.plugins.module_utils._model.table import (
    ON_OFF,
    Attribute,
    Content,
    Line,
    Mark,
    Size,
    Values,
)
from ansible_collections.brine.virt.plugins.module_utils._model.table_shapes import (
    Group,
    Named,
    Rows,
)
from ansible_collections.brine.virt.plugins.module_utils._xml import etree


@dataclass(frozen=True)
class _Hugepages:
    """``true`` for the host's default size, or sizes, each for all or for some of the machine's NUMA nodes."""

    key: str
    rows: Rows

    def check(self, value: t.Any, where: str) -> tuple[Values, ...] | bool:
        # No size at all is the host's default size.
        return value if isinstance(value, bool) else self.rows.check(value, where) or True

    def write(self, parent: etree._Element, value: tuple[Values, ...] | bool) -> None:
        self.rows.write(parent, value if isinstance(value, tuple) else ())
        Mark("", self.rows.path.rpartition("/")[0]).write(parent, value is not False)

    def read(self, parent: etree._Element) -> tuple[Values, ...] | bool:
        if parent.find(self.rows.path.rpartition("/")[0]) is None:
            return False
        return self.rows.read(parent) or True


@dataclass(frozen=True)
class _Memory(Group):
    """A plain size is the maximum and what the machine has at once."""

    def check(self, value: t.Any, where: str) -> Values:
        if not isinstance(value, Mapping):
            size = rules.size(value, where)
            return {"maximum": size, "current": size}
        values = super().check({_SALT_MEMORY.get(str(k), k): v for k, v in value.items()}, where)
        if "slots" in values and "max" not in values:
            raise InputError("slots needs max", where=rules.inside(where, "slots"))
        if "max" in values:
            values.setdefault("slots", _DEFAULT_SLOTS)
        return _with_both(values, where)


# How many pieces of memory can be plugged in where the wish only says how much.
_DEFAULT_SLOTS = 16
# Salt's word for the memory that a machine boots with.
_SALT_MEMORY = {"boot": "maximum"}


@dataclass(frozen=True)
class _Vcpus(Group):
    """A plain number is the maximum and what the machine has at once."""

    def check(self, value: t.Any, where: str) -> Values:
        if not isinstance(value, Mapping):
            count = COUNT(value, where)
            return {"maximum": count, "current": count}
        return _with_both(super().check(value, where), where)

    def read(self, parent: etree._Element) -> Values:
        values = super().read(parent)
        return {"current": values.get("maximum"), **values}


def _with_both(values: Values, where: str) -> Values:
    """The one of maximum and current that was not named is the other one."""
    if values.get("current") is None and values.get("maximum") is None:
        raise InputError("neither current nor maximum is there", where=where, hint="Give a plain number, or maximum")
    values.setdefault("maximum", values.get("current"))
    values.setdefault("current", values["maximum"])
    if values["current"] > values["maximum"]:
        raise InputError(
            f"{values['current']} is more than the maximum of {values['maximum']}",
            where=rules.inside(where, "current"),
        )
    return values


@dataclass(frozen=True)
class _Clock(Group):
    """A time zone makes the offset ``timezone``."""

    def check(self, value: t.Any, where: str) -> Values:
        if isinstance(value, str):
            value = {"offset": value}
        if isinstance(value, Mapping) and "utc" in value:
            # Salt's word.
            utc = rules.yes_or_no(value["utc"], rules.inside(where, "utc"))
            value = {**{k: v for k, v in value.items() if k != "utc"}, "offset": "utc" if utc else "localtime"}
        values = super().check(value, where)
        if "timezone" in values:
            values["offset"] = "timezone"
        if values.get("offset") == "timezone" and "adjustment" in values:
            raise InputError("a time zone has no adjustment", where=rules.inside(where, "adjustment"))
        if values.get("offset") == "variable" and values.get("adjustment") == "reset":
            raise InputError(
                "a variable clock has a number of seconds",
                where=rules.inside(where, "adjustment"),
                hint="reset is for utc and localtime",
            )
        return values

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        clock = parent.find("clock")
        if clock is not None and value.get("offset") not in (None, clock.get("offset")):
            for name in ("timezone", "adjustment", "basis"):
                clock.attrib.pop(name, "")
        super().write(parent, value)


@dataclass(frozen=True)
class _Boot(Group):
    """An order of kinds of devices stands in place of one of single devices; libvirt takes one of the two."""

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        if value.get("devices"):
            drop_boot_orders(parent)
        super().write(parent, value)


def drop_boot_orders(domain: etree._Element, keep: t.Container[etree._Element] = ()) -> bool:
    """Take single devices, but those to keep, out of the boot order; whether there was one."""
    orders = [order for order in domain.iterfind("devices/*/boot") if order.getparent() not in keep]
    for order in orders:
        home = order.getparent()
        if home is not None:
            home.remove(order)
    return bool(orders)


VCPUS = _Vcpus(
    "vcpus",
    "vcpu",
    (
        Content("maximum", COUNT, ""),
        Attribute("current", COUNT, "@current"),
        Attribute("cpuset", rules.cpu_set, "@cpuset"),
        Attribute("placement", rules.choice("static", "auto"), "@placement"),
    ),
)
MEMORY = _Memory(
    "memory",
    "",
    (
        Size("maximum", "memory"),
        Size("current", "currentMemory"),
        Size("max", "maxMemory"),
        Attribute("slots", rules.whole_number(1, 256), "maxMemory@slots"),
        Size("hard_limit", "memtune/hard_limit"),
        Size("soft_limit", "memtune/soft_limit"),
        Size("swap_hard_limit", "memtune/swap_hard_limit"),
        Size("min_guarantee", "memtune/min_guarantee"),
        _Hugepages(
            "hugepages",
            Rows(
                "hugepages",
                "memoryBacking/hugepages/page",
                (Size("size", "@size"), Attribute("nodeset", rules.cpu_set, "@nodeset")),
                short="size",
                required=("size",),
            ),
        ),
        Mark("nosharepages", "memoryBacking/nosharepages"),
        Mark("locked", "memoryBacking/locked"),
        Mark("discard", "memoryBacking/discard"),
        Attribute("source", rules.choice("file", "anonymous", "memfd"), "memoryBacking/source@type"),
        Attribute("access", rules.choice("shared", "private"), "memoryBacking/access@mode"),
        Attribute("allocation", rules.choice("immediate", "ondemand"), "memoryBacking/allocation@mode"),
    ),
)


def _switch(key: str, path: str) -> Attribute:
    return Attribute(key, rules.yes_or_no, f"{path}@state", ON_OFF)


FEATURES = Group(
    "features",
    "features",
    (
        Mark("acpi", "acpi"),
        Mark("apic", "apic"),
        Mark("pae", "pae"),
        _switch("kvm-hidden", "kvm/hidden"),
        _switch("kvm-hint-dedicated", "kvm/hint-dedicated"),
        _switch("pmu", "pmu"),
        _switch("smm", "smm"),
        _switch("vmport", "vmport"),
        Group(
            "hyperv",
            "hyperv",
            tuple(
                _switch(word, word)
                for word in (
                    "relaxed",
                    "vapic",
                    "vpindex",
                    "runtime",
                    "synic",
                    "stimer",
                    "reset",
                    "frequencies",
                    "reenlightenment",
                    "tlbflush",
                    "ipi",
                    "evmcs",
                )
            ),
        ),
    ),
)
CLOCK = _Clock(
    "clock",
    "clock",
    (
        Attribute("offset", rules.choice("utc", "localtime", "timezone", "variable"), "@offset"),
        Attribute("timezone", rules.pattern(r"[A-Za-z0-9_+/-]+", "a time zone", "Europe/Berlin"), "@timezone"),
        Attribute("adjustment", rules.pattern(r"reset|-?\d{1,10}", "an adjustment in seconds", "3600"), "@adjustment"),
        Named(
            "timers",
            "timer",
            "name",
            rules.choice("platform", "pit", "rtc", "hpet", "tsc", "kvmclock", "hypervclock", "armvtimer"),
            (
                Attribute("present", rules.yes_or_no, "@present"),
                Attribute("tickpolicy", rules.choice("delay", "catchup", "merge", "discard"), "@tickpolicy"),
                Attribute("track", rules.choice("boot", "guest", "wall"), "@track"),
                Attribute("frequency", rules.whole_number(1, 2**40), "@frequency"),
                Attribute("mode", rules.choice("auto", "native", "emulate", "paravirt", "smpsafe"), "@mode"),
                *(Attribute(word, INDEX, f"catchup@{word}") for word in ("threshold", "slew", "limit")),
            ),
            short="present",
        ),
    ),
)
_REACTION = rules.choice("destroy", "restart", "preserve", "rename-restart")
EVENTS = Group(
    "events",
    "",
    (
        Content("poweroff", _REACTION, "on_poweroff"),
        Content("reboot", _REACTION, "on_reboot"),
        Content(
            "crash",
            rules.choice("destroy", "restart", "preserve", "rename-restart", "coredump-destroy", "coredump-restart"),
            "on_crash",
        ),
    ),
)
BOOT = _Boot(
    "boot",
    "os",
    (
        Rows(
            "devices",
            "boot",
            (Attribute("device", rules.choice("hd", "cdrom", "network", "fd"), "@dev"),),
            short="device",
            required=("device",),
        ),
        Attribute("menu", rules.yes_or_no, "bootmenu@enable"),
        Content("kernel", rules.path, "kernel"),
        Content("initrd", rules.path, "initrd"),
        Content("cmdline", rules.text, "cmdline"),
    ),
)
# The order is that of the documentation.
HARDWARE: tuple[Line, ...] = (
    VCPUS,
    MEMORY,
    CPU,
    NUMATUNE,
    FEATURES,
    CLOCK,
    EVENTS,
    BOOT,
    *DEVICES,
)
