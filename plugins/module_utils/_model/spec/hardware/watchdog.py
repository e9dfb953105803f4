# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watchdog of a machine, beside the one that libvirt gives to each machine of type q35 by itself.

That is an itco, since libvirt 9.1.0, and it is there again whenever it was taken out (qemuDomainDefAddDefaultDevices in
libvirt's src/qemu). Alone it has the action reset, beside another one the action of that: QEMU has one for all of a
machine's watchdogs, and libvirt refuses different ones.
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
    """The one that somebody has asked for; an itco is read only where there is no other."""

    def check(self, value: t.Any, where: str, have: t.Any = None, /) -> Values | bool:
        values = super().check(value, where, have)
        if not isinstance(have, Mapping) or have.get("model") != _ITCO:
            return values
        if not isinstance(values, Mapping):
            # A machine that has no more than libvirt's own is without one as far as it can be.
            return dict(have) if have == _BY_ITSELF else values
        if "model" not in values and _BY_ITSELF in (have, {**have, **values}):
            # libvirt's own could not be told from one that was asked for.
            return {"model": _DEFAULT_MODEL, **values}
        return values

    def write(self, parent: etree._Element, value: Mapping[str, t.Any] | bool) -> None:
        there = parent.findall(self.path)
        if not isinstance(value, Mapping):
            for old in there:
                drop(old)
            return
        element = self._element_for(there, value.get("model"))
        if element is None:
            element = etree.SubElement(make(parent, self.path.rpartition("/")[0]), "watchdog")
            write_fixed(element, self.fixed)
            for itco in there[:1]:
                element.set("action", itco.get("action", _BY_ITSELF["action"]))
        write_table(element, self.table, value)
        for one in parent.findall(self.path):
            one.set("action", element.get("action", _BY_ITSELF["action"]))

    def _element_for(self, there: t.Sequence[etree._Element], model: str | None) -> etree._Element | None:
        """The one that is to be as requested, None where it is a new one; those whose place it takes are dropped."""
        others = [element for element in there if element.get("model") != _ITCO]
        for same in there:
            if same.get("model") == model:
                for old in others if same not in others[:1] else ():
                    if old is not same:
                        drop(old)
                return same
        if not others:
            return there[0] if there and model is None and self._read(there[0]) != _BY_ITSELF else None
        for place in others[0].findall("address") if model is not None else ():
            # Each model has its own bus.
            drop(place)
        return others[0]

    def read(self, parent: etree._Element) -> Values | bool:
        there = sorted(parent.findall(self.path), key=lambda element: element.get("model") == _ITCO)
        return self._read(there[0]) if there else False

    def _read(self, element: etree._Element) -> Values:
        return read_table(element, self.table)


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
