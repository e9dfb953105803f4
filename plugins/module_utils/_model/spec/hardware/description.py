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

from ...._base.errors import InputError, inside
from ...._base.xml import etree
from ..fields import validators
from ..fields.shapes import GroupField, ListField, NamedListField
from ..fields.table import ON_OFF, AttributeField, Field, FlagField, TextField, Values, drop
from .amounts import MEMORY, VCPUS
from .cpu import CPU, INDEX, NUMATUNE
from .devices import DEVICES

# What libvirt's driver for QEMU does not take of its own words (qemuValidateDomainDefClockTimers in its
# src/qemu/qemu_validate.c).
_NO_POLICIES = {"rtc": ("merge", "discard"), "pit": ("merge",)}


@dataclass(frozen=True)
class _Clock(GroupField):
    """A time zone makes the offset ``timezone``, and to libvirt utc and localtime with a number are ``variable``
    (virDomainClockDefParseXML in src/conf/domain_conf.c)."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        if isinstance(value, str):
            value = {"offset": value}
        if isinstance(value, Mapping) and "utc" in value:
            # Salt's word.
            utc = validators.yes_or_no(value["utc"], inside(where, "utc"))
            value = {**{k: v for k, v in value.items() if k != "utc"}, "offset": "utc" if utc else "localtime"}
        values = super().check(value, where, have)
        if "timezone" in values:
            values["offset"] = "timezone"
        if values.get("offset") == "timezone" and not (values.get("timezone") or (have or {}).get("timezone")):
            raise InputError(
                "offset timezone needs a time zone",
                where=inside(where, "timezone"),
                hint="Write it like Europe/Berlin",
            )
        offset = values.get("offset", (have or {}).get("offset"))
        if offset == "timezone" and "adjustment" in values:
            raise InputError("a time zone has no adjustment", where=inside(where, "adjustment"))
        if offset == "variable" and values.get("adjustment") == "reset":
            raise InputError(
                "a variable clock has a number of seconds",
                where=inside(where, "adjustment"),
                hint="reset is for utc and localtime",
            )
        if values.get("offset") == "utc" and values.get("adjustment", "reset") != "reset":
            values["offset"] = "variable"
        for name, timer in values.get("timers", {}).items():
            if timer.get("tickpolicy") in _NO_POLICIES.get(name, ()):
                raise InputError(
                    f"QEMU's {name} has no tickpolicy {timer['tickpolicy']}",
                    where=inside(where, f"timers.{name}.tickpolicy"),
                )
        return values

    def read(self, parent: etree._Element) -> Values | None:
        values = super().read(parent)
        if values and parent.find("clock[@basis='localtime']") is not None:
            values["offset"] = "localtime"
        return values

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        clock, offset = parent.find("clock"), (self.read(parent) or {}).get("offset")
        if clock is not None and value.get("offset") not in (None, offset):
            for name in ("timezone", "adjustment", "basis"):
                clock.attrib.pop(name, "")
        elif clock is not None and offset == "localtime":
            # A variable clock has no adjustment but a number, and local time no basis.
            clock.attrib.pop("basis", "")
            clock.set("offset", offset)
        super().write(parent, value)


@dataclass(frozen=True)
class _Boot(GroupField):
    """An order of kinds of devices stands in place of one of single devices; libvirt takes one of the two, and hard
    disks where there is none."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values:
        values = super().check(value, where, have)
        if values.get("devices") == () and (have or {}).get("devices") == ({"device": "hd"},):
            del values["devices"]
        return values

    def write(self, parent: etree._Element, value: Mapping[str, t.Any]) -> None:
        if value.get("devices"):
            drop_boot_orders(parent)
        super().write(parent, value)


def drop_boot_orders(domain: etree._Element) -> bool:
    """Take single devices out of the boot order; whether there was one."""
    orders = domain.findall("devices/*/boot")
    for order in orders:
        drop(order)
    return bool(orders)


def _switch(key: str, path: str) -> AttributeField:
    return AttributeField(key, validators.yes_or_no, f"{path}@state", ON_OFF)


FEATURES = GroupField(
    "features",
    "features",
    (
        FlagField("acpi", "acpi"),
        FlagField("apic", "apic"),
        FlagField("pae", "pae"),
        _switch("kvm-hidden", "kvm/hidden"),
        _switch("kvm-hint-dedicated", "kvm/hint-dedicated"),
        _switch("pmu", "pmu"),
        _switch("smm", "smm"),
        _switch("vmport", "vmport"),
        GroupField(
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
        AttributeField("offset", validators.choice("utc", "localtime", "timezone", "variable"), "@offset"),
        AttributeField(
            "timezone", validators.pattern(r"[A-Za-z0-9_+/-]+", "a time zone", "Europe/Berlin"), "@timezone"
        ),
        AttributeField(
            "adjustment", validators.pattern(r"reset|-?\d{1,10}", "an adjustment in seconds", "3600"), "@adjustment"
        ),
        NamedListField(
            "timers",
            "timer",
            "name",
            validators.choice("pit", "rtc", "hpet", "tsc", "kvmclock", "hypervclock", "armvtimer"),
            (
                AttributeField("present", validators.yes_or_no, "@present"),
                AttributeField("tickpolicy", validators.choice("delay", "catchup", "merge", "discard"), "@tickpolicy"),
                AttributeField("track", validators.choice("guest", "wall", "realtime"), "@track"),
                AttributeField("frequency", validators.whole_number(1, 2**40), "@frequency"),
                AttributeField("mode", validators.choice("auto", "native", "emulate", "paravirt", "smpsafe"), "@mode"),
                *(AttributeField(word, INDEX, f"catchup@{word}") for word in ("threshold", "slew", "limit")),
            ),
            short="present",
        ),
    ),
)
# What libvirt's driver for QEMU takes of its words (qemuValidateLifecycleAction in src/qemu/qemu_validate.c).
_REACTION = validators.choice("destroy", "restart")
EVENTS = GroupField(
    "events",
    "",
    (
        TextField("poweroff", _REACTION, "on_poweroff"),
        TextField("reboot", _REACTION, "on_reboot"),
        TextField(
            "crash",
            validators.choice("destroy", "restart", "preserve", "coredump-destroy", "coredump-restart"),
            "on_crash",
        ),
    ),
)
BOOT_DEVICES = ("hd", "cdrom", "network", "fd")


BOOT = _Boot(
    "boot",
    "os",
    (
        ListField(
            "devices",
            "boot",
            (AttributeField("device", validators.choice(*BOOT_DEVICES), "@dev"),),
            short="device",
            required=("device",),
        ),
        AttributeField("menu", validators.yes_or_no, "bootmenu@enable"),
        TextField("kernel", validators.path, "kernel"),
        TextField("initrd", validators.path, "initrd"),
        TextField("cmdline", validators.filled_line, "cmdline"),
    ),
)
# The order is that of the documentation.
HARDWARE: tuple[Field, ...] = (
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
