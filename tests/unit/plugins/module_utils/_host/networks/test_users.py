# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks as they are, and whose nics are on them."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.networks.existing import ExistingNetwork, read_networks
from ansible_collections.brine.virt.plugins.module_utils._host.networks.users import network_users

MACHINE = (
    "<domain type='test'><name>{}</name><memory>1024</memory><os><type>hvm</type></os><devices>{}</devices></domain>"
)


@pytest.fixture
def conn(node_uri: str) -> Iterator[t.Any]:
    with open_connection(node_uri) as connection:
        yield connection


def default(conn: t.Any) -> ExistingNetwork:
    return read_networks(conn)["default"]


def test_a_network_is_read_with_what_runs_of_it(conn: t.Any) -> None:
    network = default(conn)
    assert (network.persistent, network.autostart, network.live is not None) == (True, False, True)
    assert network.bridges == {"virbr0"}
    network.handle.destroy()
    assert default(conn).live is None
    assert network_users(conn, default(conn), ()).running == {"web1"}  # it runs, and has lost its connection


def test_machines_that_run_and_that_are_only_defined(conn: t.Any) -> None:
    conn.defineXML(MACHINE.format("off", "<interface type='network'><source network='default'/></interface>"))
    conn.defineXML(MACHINE.format("other", "<interface type='network'><source network='default2'/></interface>"))
    users = network_users(conn, default(conn), ())
    assert (users.running, users.all, users.unknown) == ({"web1"}, ["off", "web1"], [])


def test_what_else_is_on_the_bridge_of_a_network(conn: t.Any) -> None:
    """Machines of a user's session by qemu-bridge-helper, containers, and what somebody has put there by hand."""
    nic = parse_xml(conn.lookupByName("web1").XMLDesc(0)).find("devices/interface/target")
    assert nic is not None
    ports = [nic.get("dev", ""), "virbr0-nic", "veth3", "tap0"]
    users = network_users(conn, default(conn), {"virbr0"}, {"virbr0": ports}.__getitem__)
    assert (users.running, users.ports) == ({"web1"}, ["tap0", "veth3"])
    assert network_users(conn, default(conn), {"virbr0"}).ports == []


def test_a_nic_on_the_networks_own_bridge_is_on_the_network(conn: t.Any) -> None:
    conn.defineXML(MACHINE.format("direct", "<interface type='bridge'><source bridge='virbr0'/></interface>"))
    assert "direct" in network_users(conn, default(conn), {"virbr0"}).all
    assert "direct" not in network_users(conn, default(conn), ()).all
