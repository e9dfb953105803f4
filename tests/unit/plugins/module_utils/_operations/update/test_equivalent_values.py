# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What libvirt says in other words than it was given, or leaves out: the second run has nothing to do."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host, one

pytestmark = pytest.mark.medium

NIC = {"name": "eth0", "network": "n1"}


@pytest.mark.parametrize(
    "more",
    [
        {"disks": [{"name": "d", "size": "1MiB", "cache": "default"}]},
        {"nics": [{**NIC, "queues": 1}]},
        {"vcpus": {"maximum": 2, "cpuset": "0,1"}},
        {"vcpus": {"maximum": 2, "cpuset": "3,0-2,^1"}},
        {"numatune": {"memory": {"mode": "strict", "nodeset": "1,0"}}},
        {"description": "one\r\ntwo\rthree"},
        {"consoles": []},
        {"consoles": [], "serials": []},
    ],
)
def test_a_second_run_has_nothing_to_do(host: Host, more: dict[str, t.Any]) -> None:
    host.conn.networkCreateXML("<network><name>n1</name><bridge name='vb1'/></network>")
    host.make({"name": "a", **more})
    assert not host.plan({"name": "a", **more})[0].steps


def test_back_to_the_default_cache(host: Host) -> None:
    host.make(one("a", {"size": "1MiB", "cache": "none"}))
    host.make(one("a", {"size": "1MiB", "cache": "default"}))
    assert "cache=" not in host.conn.lookupByName("a").XMLDesc(2)


@pytest.mark.parametrize(
    "address",
    ["http:///x.iso", "http://h", "http://h:99999/x.iso", "http://h:a/x.iso", "http://u:p@h/x.iso", "https://h/x?y=1"],
)
def test_an_address_of_which_a_part_would_be_lost(host: Host, address: str) -> None:
    with pytest.raises(InputError, match="source: the address of the medium is not a host, an optional port and"):
        host.plan(one("a", {"device": "cdrom", "source": address}))
    host.plan(one("a", {"device": "cdrom", "source": "HTTP://h:8080/a/x.iso"}))


def test_a_cdrom_is_always_readonly(host: Host) -> None:
    with pytest.raises(InputError, match=r"machines\[0\].disks\[0\].readonly: a cdrom is always readonly"):
        host.plan(one("a", {"device": "cdrom", "readonly": False}))
    host.plan(one("a", {"device": "cdrom", "readonly": True}))


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("more", [{"serials": []}, {"consoles": []}, {"serials": [], "consoles": []}])
def test_a_machine_loses_its_serial_devices_once(host: Host, more: dict[str, t.Any], start: bool) -> None:
    """libvirt makes a serial device of the console that the first one had, and a console of the first serial device."""
    host.make({"name": "a", "start": start})
    host.make({"name": "a", **more})
    assert not host.plan({"name": "a", **more})[0].steps
    xml = host.conn.lookupByName("a").XMLDesc(2)
    assert ("<serial" in xml) == ("<console" in xml) == ("serials" not in more)


NESTED: dict[str, t.Any] = {}
for _level in range(60):
    NESTED = {"a": NESTED}


@pytest.mark.parametrize("value", [float("inf"), [float("nan")], {"__ansible_type": "x"}, NESTED])
def test_a_variable_that_would_not_be_read_again(host: Host, value: t.Any) -> None:
    with pytest.raises(InputError, match=r"^machines\[0\]\.variables\.b: this variable cannot be stored"):
        host.plan({"name": "a", "variables": {"a": 1, "b": value}})
