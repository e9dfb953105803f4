# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a task asks for and what is there to steps: on libvirt's test driver, where web1 runs on default."""

from __future__ import annotations

import ipaddress
import typing as t
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError, InputError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.host_routes import HostRoute, IPAddress
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.networks.plan import (
    current,
    plan_network,
    read_spec,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.networks.view import NetworkView
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step, run
from ansible_collections.brine.virt.plugins.module_utils._operations.resources import ResourcePlan

LAB: dict[str, t.Any] = {"name": "lab", "mode": "nat", "bridge": "virbr-lab", "addresses": ["192.0.2.1/24"]}
MACHINE_ON = """<domain type='test'><name>web9</name><uuid>5e1d7a10-0000-4000-8000-000000000009</uuid>
<memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices><interface type='network'><source network='{network}'/></interface></devices></domain>"""
LEASE = {"mac": "52:54:00:00:00:09", "name": "db1", "address": "192.168.122.9"}


@pytest.fixture
def conn(node_uri: str) -> Iterator[t.Any]:
    with open_connection(node_uri) as connection:
        yield connection


def look(conn: t.Any, *routes: HostRoute, interfaces: t.Sequence[str] = (), gone: t.Sequence[str] = ()) -> NetworkView:
    """The test driver's networks on a host with these routes and interfaces, and with the bridges that they have."""
    view = NetworkView.of(conn, "test:///x")
    there = {*interfaces, *view.bridges_in_use()} - set(gone)
    return replace(view, routes=list(routes), name_servers=[], has_interface=there.__contains__)


def plan(where: NetworkView | t.Any, **options: t.Any) -> ResourcePlan:
    view = where if isinstance(where, NetworkView) else look(where)
    return plan_network(view, read_spec(view, GivenOptions.of(options, "")))


def words(found: ResourcePlan) -> list[str]:
    return [step.description for step in found.steps]


def undo_all(found: ResourcePlan) -> None:
    """Take all steps, and fail at the end."""

    def fail() -> None:
        raise HostError("the disk is full")

    with pytest.raises(HostError) as caught:
        run([*found.steps, Step("fail", fail)])
    assert str(caught.value) == "the disk is full"


def connections(*ends: tuple[str, str]) -> list[tuple[IPAddress, IPAddress]]:
    return [(ipaddress.ip_address(own), ipaddress.ip_address(other)) for own, other in ends]


def route(network: str, interface: str, *, direct: bool = True) -> HostRoute:
    return HostRoute(ipaddress.ip_network(network), interface, direct)


def test_a_network_that_a_snapshot_has_is_kept(conn: t.Any) -> None:
    """Reverted, the machine would be stopped, and could not start without it."""
    run(plan(conn, **LAB).steps)
    xml = MACHINE_ON.format(network="lab")
    machine = conn.defineXML(xml)
    snapshot = machine.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>", 0)
    conn.defineXML(xml.replace("'lab'", "'default'"))
    with pytest.raises(ConflictError) as caught:
        plan(conn, name="lab", state="absent")
    assert str(caught.value) == (
        "name: network lab is not removed: snapshot before of machine web9 has a nic on it."
        " Delete these first: without the network, their machine could not go back to them"
    )
    # It may be stopped, as it is there for the machine's next start.
    assert words(plan(conn, name="lab", state="inactive")) == ["stop network lab"]
    snapshot.delete(0)
    assert len(plan(conn, name="lab", state="absent").steps) == 2


def test_a_new_network_is_defined_started_and_starts_with_the_host(conn: t.Any) -> None:
    found = plan(conn, **LAB)
    assert words(found) == ["define network lab", "start network lab", "start network lab with the host"]
    assert found.before is None
    run(found.steps)
    handle = conn.networkLookupByName("lab")
    assert handle.isActive() and handle.isPersistent() and handle.autostart()
    again = plan(conn, **LAB)
    assert (again.steps, again.pending, again.before) == ((), (), again.after)


def test_a_new_network_that_fails_is_not_left_behind(conn: t.Any) -> None:
    undo_all(plan(conn, **LAB))
    assert [network.name() for network in conn.listAllNetworks()] == ["default"]


def test_what_a_killed_run_has_left_is_finished(conn: t.Any) -> None:
    plan(conn, **LAB).steps[0].apply()
    again = plan(conn, **LAB)
    assert words(again) == ["start network lab", "start network lab with the host"]
    run(again.steps)
    assert plan(conn, **LAB).steps == ()


def test_one_that_is_to_be_off(conn: t.Any) -> None:
    found = plan(conn, **LAB, state="inactive", autostart=False)
    assert words(found) == ["define network lab"]
    run(found.steps)
    assert not conn.networkLookupByName("lab").isActive()
    run(plan(conn, **LAB).steps)
    stopping = plan(conn, name="lab", state="inactive")
    assert words(stopping) == ["stop network lab"]
    undo_all(stopping)
    assert conn.networkLookupByName("lab").isActive()
    run(stopping.steps)
    assert not conn.networkLookupByName("lab").isActive()


def test_a_lease_is_there_at_once_though_machines_are_on_the_network(conn: t.Any) -> None:
    found = plan(conn, name="default", autostart=False, dhcp={"leases": [LEASE]})
    assert words(found) == ["add the DHCP lease 192.168.122.9 52:54:00:00:00:09 db1 in network default"]
    assert found.pending == ()
    undo_all(found)
    assert "db1" not in conn.networkLookupByName("default").XMLDesc(0)
    run(found.steps)
    assert "db1" in conn.networkLookupByName("default").XMLDesc(0)
    assert plan(conn, name="default", autostart=False, dhcp={"leases": [LEASE]}).steps == ()
    gone = plan(conn, name="default", autostart=False, dhcp={"leases": []})
    assert words(gone) == ["remove the DHCP lease 192.168.122.9 52:54:00:00:00:09 db1 in network default"]


def test_what_needs_a_restart_waits_for_the_machines(conn: t.Any) -> None:
    found = plan(conn, name="default", autostart=False, mtu=1400, dhcp={"leases": [LEASE]})
    assert words(found) == [
        "change the definition of network default",
        "add the DHCP lease 192.168.122.9 52:54:00:00:00:09 db1 in network default",
    ]
    assert found.pending == (
        "mtu is in effect when the network is started again (virsh net-destroy default, then virsh net-start default);"
        " machine web1 loses its connection until it is shut down and started again",
    )
    run(found.steps)
    handle = conn.networkLookupByName("default")
    # The driver never shows the definition of a network that runs.
    assert "1400" not in handle.XMLDesc(0) and "db1" in handle.XMLDesc(0)


def test_what_is_pending_is_said_again_and_changes_nothing(conn: t.Any) -> None:
    view = look(conn)
    network = view.networks["default"]
    text = network.text.replace("<bridge", "<mtu size='1400'/><bridge")
    view.networks["default"] = replace(network, text=text, xml=parse_xml(text))
    found = plan(view, name="default", autostart=False, mtu=1400)
    assert found.steps == ()
    assert found.pending[0].startswith("mtu is in effect when")


def test_a_network_that_nobody_is_on_is_started_again(conn: t.Any) -> None:
    run(plan(conn, **LAB).steps)
    options = {**LAB, "mtu": 1400, "dhcp": {"leases": [{"name": "a", "address": "192.0.2.5"}]}}
    found = plan(conn, **options)
    assert words(found) == ["stop network lab", "change the definition of network lab", "start network lab"]
    undo_all(found)
    handle = conn.networkLookupByName("lab")
    assert handle.isActive() and "1400" not in handle.XMLDesc(0)
    run(plan(conn, **options).steps)
    assert handle.isActive() and "1400" in handle.XMLDesc(0)
    assert plan(conn, **options).steps == ()


def test_a_bridge_that_somebody_has_deleted_comes_back(conn: t.Any) -> None:
    """libvirt goes on saying that the network is active."""
    run(plan(conn, **LAB).steps)
    found = plan(look(conn, gone=["virbr-lab"]), **LAB)
    assert words(found) == ["stop network lab", "start network lab"]
    assert found.before == {**(found.after or {}), "bridge": None}, "the difference is shown"
    with_machines = plan(look(conn, gone=["virbr0"]), name="default", autostart=False, mtu=1400)
    assert words(with_machines) == ["change the definition of network default"]
    assert with_machines.pending == (
        "mtu is in effect and its bridge virbr0, which is gone, comes back when the network is started again (virsh "
        "net-destroy default, then virsh net-start default); machine web1 loses its connection until it is shut down "
        "and started again",
    )


def test_a_network_with_something_unknown_on_its_bridge_is_in_use(conn: t.Any) -> None:
    run(plan(conn, **LAB).steps)
    ports: list[str] = []
    view = replace(look(conn), ports_of=lambda bridge: ports if bridge == "virbr-lab" else [])
    found = plan(view, **LAB, mtu=1400)
    assert words(found) == ["stop network lab", "change the definition of network lab", "start network lab"]
    ports.append("tap0")
    # Somebody has come since it was planned.
    with pytest.raises(
        ConflictError, match="network lab is not stopped: interface tap0 is on its bridge, which is no nic"
    ):
        run(found.steps)
    assert "1400" not in conn.networkLookupByName("lab").XMLDesc(0)
    view = replace(look(conn), ports_of=view.ports_of)
    found = plan(view, **LAB, mtu=1400)
    assert words(found) == ["change the definition of network lab"]
    assert "; interface tap0 is on its bridge, which is no nic of a machine of this libvirt" in found.pending[0]
    for state in ("inactive", "absent"):
        view = replace(look(conn), ports_of=view.ports_of)
        with pytest.raises(ConflictError, match="interface tap0 is on its bridge"):
            plan(view, name="lab", state=state)


def test_a_network_is_not_started_again_where_the_task_says_so(conn: t.Any) -> None:
    run(plan(conn, **LAB).steps)
    found = plan(conn, **LAB, mtu=1400, restart="never")
    assert words(found) == ["change the definition of network lab"]
    assert found.pending[0].endswith("; no machine that runs is on it")


def test_a_row_of_a_list_is_replaced_in_full(conn: t.Any) -> None:
    lists = {
        "dhcp": {"leases": [{"mac": "52:54:00:00:00:01", "name": "a", "address": "192.0.2.5"}]},
        "dns": {"srv": [{"service": "x", "protocol": "tcp", "target": "t", "port": 1, "weight": 5}]},
        "portgroups": [{"name": "a", "default": True, "bandwidth": {"inbound": {"average": 5}}}, {"name": "b"}],
    }
    run(plan(conn, **LAB, **lists).steps)
    less = {
        "dhcp": {"leases": [{"mac": "52:54:00:00:00:01", "address": "192.0.2.5"}]},
        "dns": {"srv": [{"service": "x", "protocol": "tcp", "target": "t", "port": 1}]},
        "portgroups": [{"name": "a"}, {"name": "b", "default": True}],
    }
    found = plan(conn, **LAB, **less)
    assert words(found) == [
        "remove the DNS record SRV x tcp t in network lab",
        "add the DNS record SRV x tcp t in network lab",
        "change the port group a in network lab",
        "change the port group b in network lab",
        "remove the DHCP lease 192.0.2.5 52:54:00:00:00:01 a in network lab",
        "add the DHCP lease 192.0.2.5 52:54:00:00:00:01 in network lab",
    ]
    undo_all(found)
    assert plan(conn, **LAB, **lists).steps == ()
    run(plan(conn, **LAB, **less).steps)
    assert plan(conn, **LAB, **less).steps == ()
    assert current(look(conn), "lab")["portgroups"] == [{"name": "a"}, {"name": "b", "default": True}]


def test_numbers_that_libvirt_leaves_out_are_no_difference(conn: t.Any) -> None:
    record = {"service": "sip", "protocol": "tcp", "target": "t", "port": 1, "priority": 0, "weight": 0}
    run(plan(conn, **LAB, dns={"srv": [record]}).steps)
    again = plan(conn, **LAB, dns={"srv": [record]})
    assert (words(again), again.pending) == ([], ())
    run(plan(conn, **LAB, dns={"srv": [{**record, "priority": 5}]}).steps)
    back = plan(conn, **LAB, dns={"srv": [record]})
    assert len(back.steps) == 2
    run(back.steps)
    assert plan(conn, **LAB, dns={"srv": [record]}).steps == ()


def test_a_machine_that_has_come_meanwhile_keeps_its_network(conn: t.Any) -> None:
    run(plan(conn, **LAB).steps)
    going, changed = plan(conn, name="lab", state="absent"), plan(conn, **LAB, mtu=1400)
    conn.createXML(
        """<domain type='test'><name>new</name><memory>1024</memory><os><type>hvm</type></os><devices>
        <interface type='network'><source network='lab'/></interface></devices></domain>"""
    )
    for found in (going, changed):
        with pytest.raises(ConflictError, match="network lab is not stopped: machine new has a nic on it"):
            run(found.steps)
    assert conn.networkLookupByName("lab").isActive()


def test_a_definition_that_somebody_else_changes_meanwhile_is_not_overwritten(conn: t.Any) -> None:
    run(plan(conn, **LAB, state="inactive").steps)
    found = plan(conn, **LAB, state="inactive", mtu=1400)
    handle = conn.networkLookupByName("lab")
    conn.networkDefineXML(handle.XMLDesc(0).replace("<bridge", "<mtu size='1300'/><bridge"))
    with pytest.raises(ConflictError, match="has been changed by somebody else meanwhile"):
        run(found.steps)
    assert "1300" in handle.XMLDesc(0)


def test_what_somebody_else_has_done_meanwhile_stays_when_a_later_step_fails(conn: t.Any) -> None:
    found = plan(conn, name="default", autostart=False, dhcp={"leases": [LEASE]})
    run(plan(conn, name="default", autostart=False, dhcp={"leases": [LEASE]}).steps)
    undo_all(found)
    assert "db1" in conn.networkLookupByName("default").XMLDesc(0)


def test_a_network_with_machines_is_neither_removed_nor_stopped(conn: t.Any) -> None:
    conn.defineXML(
        """<domain type='test'><name>off</name><memory>1024</memory><os><type>hvm</type></os><devices>
        <interface type='bridge'><source bridge='virbr0'/></interface></devices></domain>"""
    )
    with pytest.raises(ConflictError) as caught:
        plan(conn, name="default", state="absent")
    assert str(caught.value) == (
        "name: network default is not removed: machines off, web1 have nics on it."
        " Put the nics on another network first"
    )
    with pytest.raises(ConflictError, match="network default is not stopped: machine web1 has a nic on it"):
        plan(conn, name="default", state="inactive")
    conn.lookupByName("web1").destroy()
    assert words(plan(conn, name="default", state="inactive", autostart=False)) == ["stop network default"]
    with pytest.raises(ConflictError, match="machines off, web1 have nics on it"):
        plan(conn, name="default", state="absent")


def test_a_network_is_removed_and_comes_back_when_a_later_step_fails(conn: t.Any) -> None:
    run(plan(conn, **LAB).steps)
    found = plan(conn, name="lab", state="absent")
    assert words(found) == ["stop network lab", "undefine network lab"]
    undo_all(found)
    handle = conn.networkLookupByName("lab")
    assert handle.isActive() and handle.autostart()
    run(plan(conn, name="lab", state="absent").steps)
    assert [network.name() for network in conn.listAllNetworks()] == ["default"]
    assert plan(conn, name="lab", state="absent").steps == ()


def test_a_network_without_a_definition_gets_one(conn: t.Any) -> None:
    conn.networkCreateXML(
        "<network><name>lab</name><bridge name='virbr-lab'/><ip address='192.0.2.1' prefix='24'/></network>"
    )
    found = plan(conn, name="lab")
    assert words(found) == ["change the definition of network lab", "start network lab with the host"]
    assert [step.description for step in plan(conn, name="lab", state="absent").steps] == ["stop network lab"]


def test_uplinks_that_the_host_does_not_have_yet_are_said(conn: t.Any) -> None:
    view = look(conn, interfaces=["br0"])
    found = plan(view, name="lan", mode="bridge", bridge="br1")
    assert found.pending == ("the host has no interface br1: nothing passes there until it has",)
    assert plan(view, name="lan2", mode="bridge", bridge="br0").pending == ()


def test_what_is_now_is_read_again(conn: t.Any) -> None:
    view = look(conn)
    assert current(view, "default")["bridge"] == "virbr0"
    assert current(view, "gone") == {}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"addresses": ["192.168.122.129/25"]},
            "addresses[0]: 192.168.122.129/25 overlaps 192.168.122.1/24 of network default. Choose another prefix",
        ),
        (
            {"addresses": ["198.51.100.1/24"]},
            "addresses[0]: 198.51.100.1/24 overlaps 198.51.100.0/24, which the host has on its interface eth1",
        ),
        ({"addresses": ["198.51.100.129/25"]}, "addresses[0]: 198.51.100.129/25 overlaps 198.51.100.0/24"),
        (
            {"addresses": ["10.5.0.1/16"]},
            "addresses[0]: 10.5.0.1/16 overlaps 10.5.6.0/24, which the host has on its interface tun0",
        ),
        (
            {"addresses": ["192.0.2.1/24"], "routes": [{"to": "10.5.6.0/24", "via": "192.0.2.9"}]},
            "routes[0]: the route to 10.5.6.0/24 overlaps 10.5.6.0/24, which the host has on its interface tun0",
        ),
        ({"addresses": ["2001:db8::1/64"]}, "addresses[0]: 2001:db8::1/64 overlaps 2001:db8::/64"),
        ({"addresses": ["192.0.2.1/24"], "bridge": "virbr0"}, "bridge: the bridge virbr0 is that of network default"),
        (
            {"addresses": ["192.0.2.1/24"], "bridge": "br0"},
            "bridge: the host has an interface br0 already, which is not that of network lab",
        ),
    ],
)
def test_what_somebody_else_has_is_refused(conn: t.Any, options: dict[str, t.Any], text: str) -> None:
    view = look(
        conn,
        route("198.51.100.0/24", "eth1"),
        route("10.5.6.0/24", "tun0", direct=False),
        route("2001:db8::/64", "eth1"),
        interfaces=["br0", "virbr0"],
    )
    with pytest.raises(ConflictError) as caught:
        plan(view, name="lab", mode="nat", **options)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


def test_a_wider_route_over_a_gateway_is_in_nobodys_way(conn: t.Any) -> None:
    view = look(conn, route("10.0.0.0/8", "tun0", direct=False))
    assert plan(view, name="lab", mode="nat", addresses=["10.5.0.1/24"]).steps


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"addresses": ["10.9.0.1/16"]}, "addresses[0]: 10.9.0.1/16 includes 10.9.8.7, with which the host has"),
        ({"addresses": ["192.0.2.1/24", "2001:db8:5::9/64"]}, "addresses[1]: 2001:db8:5::9/64 includes 2001:db8:5::1"),
        (
            {"addresses": ["192.0.2.1/24"], "routes": [{"to": "10.9.0.0/16", "via": "192.0.2.9"}]},
            "routes[0]: the route to 10.9.0.0/16 includes 10.9.8.7, ",
        ),
    ],
)
def test_what_the_host_is_connected_with_over_a_gateway_stays_reachable(
    conn: t.Any, options: dict[str, t.Any], text: str
) -> None:
    """The controller is behind the default route, which is in nobody's way, and would be taken for a machine."""
    ends = connections(("198.51.100.2", "10.9.8.7"), ("2001:db8::2", "2001:db8:5::1"))
    view = replace(look(conn, route("198.51.100.0/24", "eth1")), connections=ends)
    with pytest.raises(ConflictError) as caught:
        plan(view, name="lab", mode="nat", **options)
    assert str(caught.value).startswith(text)
    assert plan(view, name="lab2", mode="nat", addresses=["203.0.113.1/24"]).steps


def test_connections_with_machines_are_in_no_networks_way(conn: t.Any) -> None:
    """Neither with those on a network nor with those behind a machine there. They outlive a network that is stopped."""
    own = [route("192.168.122.0/24", "virbr0"), route("10.9.0.0/16", "virbr0", direct=False)]
    ends = connections(("192.168.122.1", "192.168.122.9"), ("192.168.122.1", "10.9.8.7"))
    view = replace(look(conn, *own, interfaces=["virbr0"]), connections=ends)
    behind = [{"to": "10.9.0.0/16", "via": "192.168.122.9"}]
    assert plan(view, name="default", autostart=False, addresses=["192.168.122.254/24"], routes=behind).steps
    conn.networkLookupByName("default").destroy()
    assert plan(replace(look(conn), connections=ends), name="default", autostart=False).steps
    assert plan(replace(look(conn), connections=ends), name="default", routes=behind).steps


def test_the_name_server_of_the_host_stays_reachable(conn: t.Any) -> None:
    """Unless it is on the network, or the network's own."""
    servers: list[IPAddress] = [ipaddress.ip_address("10.78.0.53"), ipaddress.ip_address("192.168.122.53")]

    def view() -> NetworkView:
        return replace(look(conn, route("192.168.122.0/24", "virbr0"), interfaces=["virbr0"]), name_servers=servers)

    words = "^addresses.0.: 10.78.0.1/24 includes 10.78.0.53, the name server of the host, which it reaches over"
    with pytest.raises(
        ConflictError, match=f"{words}.*If it is to be a machine on this network, name it in the host's"
    ):
        plan(view(), name="lab", mode="nat", addresses=["10.78.0.1/24"])
    behind = [{"to": "10.78.0.0/16", "via": "203.0.113.9"}]
    with pytest.raises(ConflictError, match=r"^routes.0.: the route to 10.78.0.0/16 includes 10.78.0.53"):
        plan(view(), name="lab", mode="nat", addresses=["203.0.113.1/24"], routes=behind)
    assert plan(view(), name="lab", mode="nat", addresses=["10.78.0.53/24"]).steps
    conn.networkLookupByName("default").destroy()
    assert plan(replace(look(conn), name_servers=servers), name="default", autostart=False).steps
    assert plan(replace(look(conn), name_servers=servers), name="default", mode="route").steps


def test_every_network_may_have_link_local_addresses(conn: t.Any) -> None:
    first = ["fe80::1/64"]
    run(plan(conn, name="a", mode="isolated", addresses=first).steps)
    assert plan(conn, name="b", mode="isolated", addresses=first).steps


def test_a_networks_own_route_and_bridge_are_not_in_its_way(conn: t.Any) -> None:
    view = look(conn, route("192.168.122.0/24", "virbr0"), interfaces=["virbr0"])
    assert plan(view, name="default", autostart=False, addresses=["192.168.122.254/24"]).steps


def test_a_change_beside_the_addresses_does_not_ask_who_else_has_them(conn: t.Any) -> None:
    view = look(conn, route("192.168.122.0/25", "eth1"))
    assert plan(view, name="default", autostart=False, dhcp={"leases": [LEASE]}).steps


def test_networks_of_one_task_are_in_each_others_way(conn: t.Any) -> None:
    view = look(conn)
    given = [LAB, {**LAB, "name": "lab2", "bridge": "virbr-lab2"}]
    specs = [read_spec(view, GivenOptions.of(options, f"networks[{index}]")) for index, options in enumerate(given)]
    with pytest.raises(
        ConflictError, match=r"networks\[1\]\.addresses\[0\]: 192\.0\.2\.1/24 overlaps .* of network lab\."
    ):
        plan_network(view, specs[1])
    for twice in (LAB, {"name": "lab", "dhcp": {"ranges": [{"start": "203.0.113.1", "end": "203.0.113.9"}]}}):
        with pytest.raises(InputError, match=r"networks\[2\]\.name: another network in the list has this name"):
            read_spec(view, GivenOptions.of(twice, "networks[2]"))


def test_what_goes_in_the_same_task_is_in_nobodys_way(conn: t.Any) -> None:
    run(plan(conn, **LAB).steps)
    view = look(conn, route("192.0.2.0/24", "virbr-lab"), interfaces=["virbr-lab"])
    read_spec(view, GivenOptions.of({"name": "lab", "state": "absent"}, ""))
    assert plan(view, **{**LAB, "name": "lab2"}).steps


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("active", [True, False])
def test_a_port_group_that_a_nic_names_stays(conn: t.Any, runs: bool, active: bool) -> None:
    """libvirt plugs a nic in as if it named none when it does not find it: without its VLAN."""
    groups = [{"name": "dmz"}, {"name": "lan"}]
    run(plan(conn, name="lab", mode="isolated", portgroups=groups).steps)
    late = plan(conn, name="lab", portgroups=[{"name": "lan"}])
    nic = "<interface type='network'><source network='lab' portgroup='dmz'/></interface>"
    domain = conn.defineXML(
        "<domain type='test'><name>web2</name><memory>1024</memory><os><type>hvm</type></os>"
        f"<devices>{nic}</devices></domain>"
    )
    if runs:
        domain.create()
    elif not active:
        conn.networkLookupByName("lab").destroy()
    said = {"name": "lab", "state": "active" if active or runs else "inactive"}
    error = "portgroups: port group dmz of network lab is not removed: machine web2 has a nic in it"
    with pytest.raises(ConflictError) as caught:
        plan(conn, **said, portgroups=[{"name": "lan"}])
    assert str(caught.value).startswith(error)
    with pytest.raises(ConflictError, match="port group dmz of network lab is not removed"):
        run(late.steps)
    assert plan(conn, **said, portgroups=[{"name": "dmz"}]).steps
    assert [row["name"] for row in current(look(conn), "lab")["portgroups"]] == ["dmz", "lan"]
