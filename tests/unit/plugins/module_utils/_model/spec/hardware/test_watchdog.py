# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A watchdog beside the one that libvirt puts into each machine of type q35 since 9.1.0."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._host.machines.pending import pending_of
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.table import check_field, covers
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.description import HARDWARE

(WATCHDOG,) = (field for field in HARDWARE if field.key == "watchdog")
OWN = ("itco", "reset")


def defined(domain: etree._Element) -> etree._Element:
    """As libvirt 11 defines a q35 machine. It refuses a second watchdog of a model, and different actions."""
    devices = domain.find("devices")
    assert devices is not None
    if not domain.findall("devices/watchdog[@model='itco']"):
        other = domain.find("devices/watchdog")
        action = "reset" if other is None else other.get("action", "reset")
        etree.SubElement(devices, "watchdog", model="itco", action=action)
    assert len({dog.get("action") for dog in domain.iterfind("devices/watchdog")}) == 1
    models = [dog.get("model") for dog in domain.iterfind("devices/watchdog")]
    assert len(models) == len(set(models)), models
    for dog in domain.iterfind("devices/watchdog[@model='i6300esb']"):
        if dog.find("address") is None:
            etree.SubElement(dog, "address", type="pci", slot="0x01")
    assert domain.find("devices/watchdog[@model='itco']/address") is None
    return domain


def machine() -> etree._Element:
    return etree.fromstring("<domain><devices/></domain>")


def ask(domain: etree._Element, written: t.Any) -> bool:
    """Whether a description has changed the machine."""
    have = WATCHDOG.read(domain)
    want = check_field(WATCHDOG, written, "watchdog", have)
    if covers(have, want):
        return False
    WATCHDOG.write(domain, want)
    defined(domain)
    return True


def dogs(domain: etree._Element) -> set[tuple[str, str]]:
    return {(dog.get("model", ""), dog.get("action", "")) for dog in domain.iterfind("devices/watchdog")}


DESCRIPTIONS: list[tuple[t.Any, set[tuple[str, str]]]] = [
    ("none", {OWN}),
    (False, {OWN}),
    (True, {OWN, ("i6300esb", "reset")}),
    ("reset", {OWN, ("i6300esb", "reset")}),
    ("poweroff", {("itco", "poweroff"), ("i6300esb", "poweroff")}),
    ({"model": "ib700"}, {OWN, ("ib700", "reset")}),
    ({"model": "i6300esb", "action": "pause"}, {("itco", "pause"), ("i6300esb", "pause")}),
    ({"model": "itco", "action": "poweroff"}, {("itco", "poweroff")}),
    ({"model": "itco", "action": "reset"}, {OWN}),
]


@pytest.mark.parametrize(("written", "there"), DESCRIPTIONS)
def test_a_machine_has_what_was_asked_for_whether_new_or_later(written: t.Any, there: set[tuple[str, str]]) -> None:
    new, later = machine(), defined(machine())
    WATCHDOG.write(new, check_field(WATCHDOG, written, "watchdog"))
    defined(new)
    ask(later, written)
    for domain in (new, later):
        assert dogs(domain) == there
        assert not ask(domain, written)


@pytest.mark.parametrize(("second", "_there"), DESCRIPTIONS)
@pytest.mark.parametrize(("first", "_before"), DESCRIPTIONS)
def test_any_description_follows_any_other(first: t.Any, second: t.Any, _before: t.Any, _there: t.Any) -> None:
    domain = defined(machine())
    for written in (first, second, first):
        ask(domain, written)
        assert not ask(domain, written)
        assert len(dogs(domain)) <= 2


def test_the_model_that_is_asked_for_takes_the_place_of_the_other_one() -> None:
    domain = defined(machine())
    ask(domain, {"model": "itco", "action": "poweroff"})
    ask(domain, {"model": "i6300esb"})
    assert dogs(domain) == {("itco", "poweroff"), ("i6300esb", "poweroff")}
    ask(domain, {"model": "itco", "action": "reset"})
    assert dogs(domain) == {OWN}
    ask(domain, {"model": "ib700", "action": "pause"})
    ask(domain, {"model": "i6300esb"})
    assert dogs(domain) == {("itco", "pause"), ("i6300esb", "pause")}


def test_one_that_went_waits_for_power_off_and_on_whatever_their_order() -> None:
    live = etree.fromstring(
        "<domain><devices><watchdog model='itco' action='reset'/><watchdog model='i6300esb' action='reset'/>"
        "</devices></domain>"
    )
    assert pending_of(live, defined(machine())) == ["watchdog"]
    assert pending_of(defined(machine()), defined(machine())) == []
