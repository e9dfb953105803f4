# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that virt-install made, defined with libvirt itself: all of them are listed, and none is changed."""

from __future__ import annotations

import typing as t

import pytest
from lxml import etree

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.listing import observe_machines
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.foreign_machines import (
    must_stay_as_it_is,
    recorded,
    recorded_for_test_driver,
)


@pytest.fixture
def conn() -> t.Iterator[t.Any]:
    """A hypervisor of libvirt's test driver that has them all."""
    with open_connection("test:///default") as conn:
        for text in recorded_for_test_driver():
            conn.defineXML(text)
        yield conn


def test_all_of_them_are_listed(conn: t.Any) -> None:
    records = [record for record in observe_machines(conn, addresses=True) if record["name"] != "test"]
    assert len(records) == len(recorded())
    assert [error for record in records for error in record["errors"] if "could not be read" in error] == []
    assert all(record["vcpus"] and record["memory_mib"] for record in records)
    nics = {nic["type"]: nic["source"] for record in records for nic in record["nics"]}
    assert nics == {
        "network": "default",
        "bridge": "br0",
        "user": None,
        "direct": "eth0",
        "ethernet": None,
        "hostdev": "0000:03:00.1",
        "vhostuser": "/run/v.sock",
        "vdpa": "/dev/vhost-vdpa-0",
        "internal": "inner",
        "mcast": "192.0.2.1:5558",
        "server": "192.0.2.1:5558",
        "client": "192.0.2.1:5558",
        "udp": "192.0.2.1:5558",
        "null": None,
    }


def test_none_of_them_is_changed_by_what_libvirt_says_of_it(conn: t.Any) -> None:
    for handle in conn.listAllDomains():
        must_stay_as_it_is(etree.fromstring(handle.XMLDesc()))
