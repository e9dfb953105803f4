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
        others = [element for element in parent.findall(self.path) if not _is_by_itself(element)]
        if not isinstance(value, Mapping):
            for old in others:
                drop(old)
            return
        element = self._element_for(parent, others, value.get("model"))
        if element is None:
            element = etree.SubElement(make(parent, self.path.rpartition("/")[0]), "watchdog")
            write_fixed(element, self.fixed)
        write_table(element, self.table, value)

    def _element_for(
        self, parent: etree._Element, others: t.Sequence[etree._Element], model: str | None
    ) -> etree._Element | None:
        """The one that is to be as requested, None where it is a new one. others: all but libvirt's own."""
        for same in parent.findall(self.path):
            if same.get("model") == model:
                for old in others if same not in others[:1] else ():
                    # Of several it takes the place of those that were asked for before.
                    if old is not same:
                        drop(old)
                return same
        first = others[0] if others else None
        for place in first.findall("address") if first is not None and model is not None else ():
            # Each model has its own bus.
            drop(place)
        return first

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
