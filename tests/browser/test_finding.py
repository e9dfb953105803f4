# SPDX-License-Identifier: GPL-3.0-or-later
"""Searching, filtering and sorting."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._picture.contents import ShownHypervisor
from ansible_collections.brine.virt.plugins.plugin_utils._picture.machine import ShownMachine
from ansible_collections.brine.virt.plugins.plugin_utils._picture.words import natural
from ansible_collections.brine.virt.tests.browser.chromium import Chromium
from ansible_collections.brine.virt.tests.browser.clouds import Cloud

SEARCHES: dict[str, t.Callable[[ShownMachine], bool]] = {
    "web2-1": lambda machine: machine.name.startswith("web2-1"),
    "MAIL": lambda machine: machine.name.startswith("mail"),
    "10.1.2": lambda machine: any("10.1.2" in address for address in machine.addresses),
    "old wiki": lambda machine: "The old wiki" in machine.title,
    "wiki old": lambda machine: "The old wiki" in machine.title,
    "ubuntu": lambda machine: machine.image == "ubuntu",
    "being moved": lambda machine: machine.has("move"),
    "paused debian": lambda machine: machine.state == "paused" and machine.image == "debian",
    "no such machine": lambda machine: False,
}
MACHINE_KEYS: dict[str, t.Callable[[ShownMachine], t.Any]] = {
    "name": lambda machine: natural(machine.name),
    "state": lambda machine: (machine.state, natural(machine.name)),
    "memory": lambda machine: (-machine.memory_mib, natural(machine.name)),
    "vcpus": lambda machine: (-machine.vcpus, natural(machine.name)),
    "address": lambda machine: (
        not machine.addresses,
        natural(machine.addresses[0] if machine.addresses else ""),
        natural(machine.name),
    ),
}
HYPERVISOR_KEYS: dict[str, t.Callable[[ShownHypervisor], t.Any]] = {
    "name": lambda host: natural(host.name),
    "memory": lambda host: (-host.memory_percent, natural(host.name)),
    "vcpus": lambda host: (-host.vcpu_percent, natural(host.name)),
    "free": lambda host: (-host.free_mib, natural(host.name)),
    "machines": lambda host: (-len(host.machines), natural(host.name)),
}


@pytest.mark.parametrize("view", ["cards", "flat"])
@pytest.mark.parametrize("size", ["small", "large"])
def test_searching(browser: Chromium, size: str, view: str, request: pytest.FixtureRequest) -> None:
    cloud: Cloud = request.getfixturevalue(size)
    browser.open(cloud.file)
    browser.choose("#view", view)
    before = browser.listed()
    for words, fits in SEARCHES.items():
        found = {machine.name for machine in cloud.machines if fits(machine)}
        browser.write("#search", words)
        assert sorted(browser.shown()) == sorted(found), words
        assert browser.text("#found") == f"{len(found)} of {len(cloud.machines)} machines"
        assert browser.element("#nothing").is_displayed() == (not found)
        assert len(found) < len(cloud.machines)
    assert all(any(map(fits, cloud.machines)) for fits in list(SEARCHES.values())[:-1])
    browser.write("#search", "")
    assert browser.listed() == before
    assert browser.text("#found") == f"{len(cloud.machines)} machines"


def test_a_hypervisor_is_found_by_its_name(browser: Chromium, small: Cloud) -> None:
    browser.open(small.file)
    browser.write("#search", "hv2")
    second = small.picture.hypervisors[1]
    assert [name for name, machines in browser.listed() if set(machines) >= {m.name for m in second.machines}] == [
        "hv2"
    ]


def test_filters(browser: Chromium, small: Cloud) -> None:
    browser.open(small.file)
    everything = browser.shown()
    states = browser.choices("#state")
    assert states == ["", *sorted({machine.state for machine in small.machines})]
    assert len(states) == 5
    for state in states[1:]:
        browser.choose("#state", state)
        assert browser.shown() == [machine.name for machine in small.machines if machine.state == state]
    browser.choose("#state", "")
    tags = browser.choices("#tag")
    assert "front end" in tags
    for tag in tags[1:]:
        browser.choose("#tag", tag)
        assert browser.shown() == [machine.name for machine in small.machines if tag in machine.tags]
    browser.choose("#tag", "")
    browser.click("#attention")
    needing = [machine.name for machine in small.machines if machine.needs_attention]
    assert browser.shown() == needing
    assert 0 < len(needing) < len(everything)
    browser.choose("#state", "crashed")
    assert browser.shown() == [machine.name for machine in small.machines if machine.state == "crashed"]
    browser.click("#reset")
    assert browser.shown() == everything


@pytest.mark.parametrize("size", ["small", "large"])
def test_sorting_machines(browser: Chromium, size: str, request: pytest.FixtureRequest) -> None:
    cloud: Cloud = request.getfixturevalue(size)
    browser.open(cloud.file)
    assert browser.choices("#order") == list(MACHINE_KEYS)
    if size == "large":
        browser.click("#fold")
    orders = []
    for key, by in MACHINE_KEYS.items():
        browser.choose("#order", key)
        browser.choose("#view", "flat")
        orders.append([machine.name for machine in sorted(cloud.machines, key=by)])
        assert browser.listed() == [("", orders[-1])], key
        browser.choose("#view", "cards")
        assert browser.listed() == [
            (host.name, [machine.name for machine in sorted(host.machines, key=by)])
            for host in cloud.picture.hypervisors
        ], key
    assert len(set(map(tuple, orders))) == len(MACHINE_KEYS)


@pytest.mark.parametrize("size", ["small", "large"])
def test_sorting_hypervisors(browser: Chromium, size: str, request: pytest.FixtureRequest) -> None:
    cloud: Cloud = request.getfixturevalue(size)
    browser.open(cloud.file)
    assert browser.choices("#hosts-order") == list(HYPERVISOR_KEYS)
    names = [host.name for host in cloud.picture.hypervisors]
    for key, by in reversed(HYPERVISOR_KEYS.items()):
        browser.choose("#hosts-order", key)
        expected = [host.name for host in sorted(cloud.picture.hypervisors, key=by)]
        assert [name for name, _machines in browser.listed()] == expected, key
        assert (expected == names) == (key == "name"), f"{key} sorts nothing here"
