# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's routes, as the kernel's two files have them."""

from __future__ import annotations

import ipaddress
import socket
import sys
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.facts.host_routes import (
    HostRoute,
    bridge_ports,
    interface_exists,
    observe_connections,
    observe_name_servers,
    observe_routes,
)

# Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT, in the order of a little-endian host.
IPV4 = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
tun0\t0000000A\t090200C0\t0003\t0\t0\t0\t000000FF\t0\t0\t0
rubbish
"""
NONE = "0" * 32
PREFIX = "20010db8000000000000000000000000"
IPV6 = f"""{PREFIX} 40 {NONE} 00 {NONE} 00000100 00000001 00000000 00000001     eth0
{NONE} 00 {NONE} 00 fe800000000000000000000000000001 00000400 00000003 00000000 00000003     eth0
20010db8000500000000000000000000 30 {NONE} 00 fe800000000000000000000000000001 00000400 00000003 00000000 00000003 eth0
fe800000000000000000000000000000 40 {NONE} 00 {NONE} 00000100 00000002 00000000 00000001     eth0
20010db8000000000000000000000002 80 {NONE} 00 {NONE} 00000000 00000004 00000000 80200001     eth0
{PREFIX} 80 {NONE} 00 {NONE} 00000000 00000003 00000000 00100001     eth0
ff000000000000000000000000000000 08 {NONE} 00 {NONE} 00000100 00000004 00000000 00000001     eth0
{NONE} 00 {NONE} 00 {NONE} ffffffff 00000001 00000000 00200200       lo
"""


# Columns from the second on: that of the controller, one that only listens, one with this host itself, one that ends.
TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 020200C0:0016 0708090A:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 30 10 -1
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 0100007F:8001 0100007F:0050 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0 20 4 30 10 -1
   3: 020200C0:0016 0808090A:D2F0 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0
rubbish
"""
TCP6 = """  sl  local_address                         remote_address                        st
   0: 0000000000000000FFFF0000020200C0:0016 0000000000000000FFFF00000908090A:D2F0 01 00000000:00000000 00:00000000
   1: B80D0120000000000000000002000000:0016 B80D0120000005000000000001000000:D2F0 01 00000000:00000000 00:00000000
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the sample is of a little-endian host")
def test_both_ends_of_connections(tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text(TCP)
    (tmp_path / "tcp6").write_text(TCP6)
    assert [(str(own), str(other)) for own, other in observe_connections(str(tmp_path))] == [
        ("192.0.2.2", "10.9.8.7"),
        ("192.0.2.2", "10.9.8.9"),
        ("2001:db8::2", "2001:db8:5::1"),
    ]


def test_name_servers(tmp_path: Path) -> None:
    first, second = tmp_path / "resolv.conf", tmp_path / "resolved.conf"
    first.write_text("# nameserver 192.0.2.9\nsearch example.org\nnameserver 127.0.0.53\nnameserver\noptions edns0\n")
    second.write_text("nameserver 10.78.0.53\nnameserver fe80::1%eth0\nnameserver x\n")
    found = observe_name_servers(str(first), str(second), str(tmp_path / "gone"))
    assert [str(server) for server in found] == ["10.78.0.53", "fe80::1"]


def test_the_connections_of_this_very_host_can_be_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        assert "127.0.0.1" not in {str(other) for _own, other in observe_connections()}


@pytest.mark.skipif(sys.byteorder != "little", reason="the sample is of a little-endian host")
def test_routes_are_read_without_the_default_and_the_hosts_own(tmp_path: Path) -> None:
    (tmp_path / "route").write_text(IPV4)
    (tmp_path / "ipv6_route").write_text(IPV6)
    assert observe_routes(str(tmp_path)) == [
        HostRoute(ipaddress.ip_network("192.0.2.0/24"), "eth0", direct=True),
        HostRoute(ipaddress.ip_network("10.0.0.0/8"), "tun0", direct=False),
        HostRoute(ipaddress.ip_network("2001:db8::/64"), "eth0", direct=True),
        HostRoute(ipaddress.ip_network("2001:db8:5::/48"), "eth0", direct=False),
    ]


def test_a_host_without_a_protocol_has_no_routes_of_it(tmp_path: Path) -> None:
    assert observe_routes(str(tmp_path)) == []


def test_an_interface_is_one_that_the_kernel_has(tmp_path: Path) -> None:
    (tmp_path / "virbr0").mkdir()
    assert interface_exists("virbr0", str(tmp_path))
    assert not interface_exists("virbr1", str(tmp_path))


def test_the_ports_of_a_bridge(tmp_path: Path) -> None:
    for port in ("vnet1", "tap0"):
        (tmp_path / "virbr0" / "brif" / port).mkdir(parents=True)
    (tmp_path / "eth0").mkdir()
    assert bridge_ports("virbr0", str(tmp_path)) == ["tap0", "vnet1"]
    for name in ("eth0", "none"):
        assert bridge_ports(name, str(tmp_path)) == []
