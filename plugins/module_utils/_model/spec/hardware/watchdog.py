# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watchdog of a machine, beside the one that libvirt gives to each machine of type q35 by itself.

That is an itco with action reset, since libvirt 9.1.0, and it is there again whenever it was taken out
(qemuDomainDefAddDefaultDevices in libvirt's src/qemu). libvirt takes several watchdogs, of each model one.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from ...._base.xml import etree
from ..fields import validators
from ..fields.shapes import DeviceField, write_fixed
from ..fields.table import AttributeField, Values, drop, make, read_table, write_table

_ITCO = "itco"
_BY_ITSELF = {"model": _ITCO, "action": "reset"}
_DEFAULT_MODEL = "i6300esb"


@dataclass(frozen=True)
class _Watchdog(DeviceField):
    """The one that somebody has asked for; libvirt's own is read only where there is no other."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values | bool:
        values = super().check(value, where, have)
        if not isinstance(have, Mapping) or have.get("model") != _ITCO:
            return values
        if not isinstance(values, Mapping):
            # A machine that has no more than libvirt's own is without one as far as it can be.
            return dict(have) if have == _BY_ITSELF else values
        if {**have, **values} == _BY_ITSELF and "model" not in values:
            # libvirt's own could not be told from one that was asked for.
            return {"model": _DEFAULT_MODEL, **values}
        return values

    def write(self, parent: etree._Element, value: Mapping[str, t.Any] | bool) -> None:
        there = parent.findall(self.path)
        others = [one for one in there if not _is_by_itself(one)]
        if not isinstance(value, Mapping):
            for one in others:
                drop(one)
            return
        wanted = value.get("model")
        element: etree._Element | None = next((one for one in there if one.get("model") == wanted), None)
        if element is not None and element not in others[:1]:
            # Another one takes the place of the one that was there.
            for old in others:
                if old is not element:
                    drop(old)
        elif element is None and others:
            element = others[0]
            if wanted is not None:
                # Each model has its own bus.
                for place in element.findall("address"):
                    drop(place)
        if element is None:
            element = etree.SubElement(make(parent, self.path.rpartition("/")[0]), "watchdog")
            write_fixed(element, self.fixed)
        write_table(element, self.table, value)

    def read(self, parent: etree._Element) -> Values | bool:
        there = parent.findall(self.path)
        element = next((element for element in there if not _is_by_itself(element)), there[0] if there else None)
        return False if element is None else read_table(element, self.table)


def _is_by_itself(watchdog: etree._Element) -> bool:
    return {"model": watchdog.get("model"), "action": watchdog.get("action", "reset")} == _BY_ITSELF


WATCHDOG = _Watchdog(
    "watchdog",
    "devices/watchdog",
    (
        AttributeField("model", validators.choice(_ITCO, _DEFAULT_MODEL, "ib700"), "@model"),
        AttributeField(
            "action", validators.choice("reset", "shutdown", "poweroff", "pause", "dump", "inject-nmi"), "@action"
        ),
    ),
    short="action",
    none="none",
    fixed=(("@model", _DEFAULT_MODEL), ("@action", "reset")),
)
