# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to fit together in a network, though each part by itself is right.

What libvirt refuses is said here in the words of the options: networkValidate in its src/network/bridge_driver.c,
virNetworkDefParseXML in src/conf/network_conf.c and virSocketAddrGetRange in src/util/virsocketaddr.c.
"""

from __future__ import annotations

import ipaddress
import typing as t
from collections.abc import Mapping, Sequence

from ....._base.errors import InputError, Mistakes
from ...fields.table import Values
from .addressing import contains
from .rows import ABSENT_AS_FALSE
from .table import OWN_BRIDGE

# What needs the bridge and the dnsmasq that libvirt makes for the network.
_OF_OWN_BRIDGE = (
    *("domain", "mac", "mtu", "stp", "zone", "addresses", "dhcp", "dns", "routes", "dnsmasq_options"),
    *("nat_ports", "nat_addresses", "nat_ipv6"),
)
_OF_NAT = ("nat_ports", "nat_addresses", "nat_ipv6")
_MOST_IN_RANGE = 65535
# RFC 8200, section 5. Linux gives no address to an interface below, and the network does not start.
_LEAST_IPV6_MTU = 1280
# dnsmasq ends with "prefix length must be at least 64", and the network does not start.
_LEAST_DHCP_PREFIX = 64
_WITHOUT: tuple[t.Any, ...] = ((), {}, False, None)

Place = t.Callable[[str], str]


def check_whole(named: Mapping[str, t.Any], values: Mapping[str, t.Any], place: Place) -> None:
    """Check a network as it is to be.

    named: the options that the task has; values: these with what is there already; place: where an option stands in the
    input. What the task does not touch is not looked at. Raises InputError with all that is wrong.
    """
    mistakes = Mistakes()
    for check in (_check_mode, _check_names, _check_vlans, _check_nat):
        with mistakes.noted():
            check(named, values, place)
    if {"addresses", "dhcp"} & set(named):
        _check_dhcp(named, values, place, mistakes)
    if {"addresses", "routes"} & set(named):
        _check_routes(named, values, place, mistakes)
    mistakes.conclude()


def _check_mode(named: Mapping[str, t.Any], values: Mapping[str, t.Any], place: Place) -> None:
    mode = values["mode"]
    if mode not in OWN_BRIDGE:
        for word in _OF_OWN_BRIDGE:
            # To say that something is off is to say something of it.
            if named.get(word) not in _WITHOUT or (named.get(word) is False and word not in ABSENT_AS_FALSE):
                raise InputError(
                    f"a network of mode {mode} has no {word}",
                    where=place(word),
                    hint="libvirt only plugs machines into it; what is beyond the bridge gives them addresses",
                )
        if mode == "bridge" and bool(values.get("bridge")) == bool(values.get("device")):
            raise InputError(
                "a network of mode bridge needs either bridge or device",
                where=place("bridge"),
                hint="Give the bridge of the host that machines are plugged into, or interfaces for macvtap in device",
            )
        if not values.get("bridge") and {"bandwidth", "portgroups"} & set(named):
            limited = values.get("bandwidth") or any(row.get("bandwidth") for row in values.get("portgroups", ()))
            if limited:
                raise InputError(
                    "bandwidth needs a bridge", where=place("bandwidth" if "bandwidth" in named else "portgroups")
                )
        return
    if mode != "isolated" and not values.get("addresses") and {"mode", "addresses"} & set(named):
        raise InputError(
            f"a network of mode {mode} needs addresses",
            where=place("addresses"),
            hint="Give the host's own address on it, such as 192.0.2.1/24",
        )
    is_small = {"mtu", "addresses"} & set(named) and values.get("mtu", _LEAST_IPV6_MTU) < _LEAST_IPV6_MTU
    if is_small and any(":" in item for item in values.get("addresses", ())):
        raise InputError(
            f"an mtu of {values['mtu']} is too small for IPv6",
            where=place("mtu" if "mtu" in named else "addresses"),
            hint=f"Give at least {_LEAST_IPV6_MTU}, or no IPv6 addresses",
        )
    devices = values.get("device", ())
    if devices and mode not in ("nat", "route") and {"mode", "device"} & set(named):
        raise InputError(
            f"a network of mode {mode} has no uplink", where=place("device"), hint="Leave out device, or set device: []"
        )
    if len(devices) > 1 and "device" in named:
        raise InputError(f"a network of mode {mode} has at most one uplink", where=place("device"))


def _check_names(named: Mapping[str, t.Any], values: Mapping[str, t.Any], place: Place) -> None:
    domain = values.get("domain")
    if isinstance(domain, Mapping) and not domain.get("name"):
        raise InputError("name is missing", where=place("domain"), hint="Give the DNS domain of the network")
    dns = values.get("dns", {})
    if "dns" not in named:
        return
    words = ("forwarders", "hosts", "txt", "srv")
    if dns.get("enabled") is False and any(dns.get(word) for word in words):
        raise InputError(
            "DNS is not enabled, and has something to answer",
            where=place("dns"),
            hint=f"Set enabled: true, or give empty lists: {', '.join(word for word in words if dns.get(word))}",
        )
    given = named["dns"]
    for index, row in enumerate(given.get("forwarders", ())):
        if not row:
            raise InputError(
                "has neither address nor domain", where=f"{place('dns')}.forwarders[{index}]", hint="Give one or both"
            )
    _refuse_twice(given.get("hosts", ()), "address", f"{place('dns')}.hosts", "Give all its names in one entry")
    for index, row in enumerate(given.get("srv", ())):
        if "target" not in row and {"port", "priority", "weight"} & set(row):
            raise InputError(
                "port, priority and weight need a target", where=f"{place('dns')}.srv[{index}]", hint="Set target"
            )


def _refuse_twice(rows: Sequence[Values], key: str, where: str, hint: str) -> None:
    seen: dict[t.Any, int] = {}
    for index, row in enumerate(rows):
        if key in row and seen.setdefault(row[key], index) != index:
            raise InputError(
                f"{row[key]} is in {where.rpartition('.')[2]}[{seen[row[key]]}] already",
                where=f"{where}[{index}].{key}",
                hint=hint,
            )


def _check_vlans(named: Mapping[str, t.Any], values: Mapping[str, t.Any], place: Place) -> None:
    """VLAN tags are Open vSwitch's alone. https://libvirt.org/formatnetwork.html#setting-vlan-tag-on-supported-network-types-only"""
    if not {"vlan", "portgroups", "virtualport", "mode"} & set(named):
        return
    hint = "Tags need a network of mode bridge with virtualport: openvswitch, on a bridge of Open vSwitch"
    own = values.get("virtualport", {}).get("type")
    is_bridge = values["mode"] == "bridge"
    allowed = values["mode"] in ("hostdev", "passthrough") or (is_bridge and own == "openvswitch")
    groups = values.get("portgroups", ())
    for index, row in enumerate(groups):
        kind = row.get("virtualport", {}).get("type")
        fits = allowed if kind is None else is_bridge and kind == "openvswitch"
        if (row.get("vlan") or values.get("vlan")) and not fits:
            raise InputError(
                "has a VLAN, which libvirt cannot set here", where=f"{place('portgroups')}[{index}]", hint=hint
            )
    if values.get("vlan") and not allowed and not any(row.get("default") for row in groups):
        raise InputError("libvirt cannot set a VLAN here", where=place("vlan"), hint=hint)


def _check_nat(named: Mapping[str, t.Any], values: Mapping[str, t.Any], place: Place) -> None:
    for word in _OF_NAT:
        if word in named and values["mode"] != "nat":
            raise InputError(f"is for mode nat, and the network is of mode {values['mode']}", where=place(word))
    ports = named.get("nat_ports")
    if ports and ports["start"] > ports["end"]:
        raise InputError("ends before it begins", where=place("nat_ports"))
    row = named.get("nat_addresses")
    if row:
        first, last = (ipaddress.ip_address(row[word]) for word in ("start", "end"))
        if first.version != 4 or last.version != 4:
            raise InputError("has an IPv6 address", where=place("nat_addresses"), hint="libvirt takes IPv4 alone here")
        if int(first) > int(last):
            raise InputError("ends before it begins", where=place("nat_addresses"))
        if int(last) - int(first) >= _MOST_IN_RANGE:
            raise InputError(
                f"the range {first} to {last} is too large",
                where=place("nat_addresses"),
                hint=f"libvirt takes {_MOST_IN_RANGE} addresses",
            )


def _check_dhcp(named: Mapping[str, t.Any], values: Mapping[str, t.Any], place: Place, mistakes: Mistakes) -> None:
    dhcp, given = values.get("dhcp", {}), named.get("dhcp", {})
    addresses = values.get("addresses", ())

    def where(word: str, index: int) -> str:
        # What is there already does not stand in the input: it is the new addresses that do not fit.
        return f"{place('dhcp')}.{word}[{index}]" if word in given else place("addresses")

    homes: dict[int, set[str]] = {4: set(), 6: set()}
    ranges: list[tuple[int, int]] = []
    for index, row in enumerate(dhcp.get("ranges", ())):
        with mistakes.noted():
            home = _home_of(row["start"], row, addresses, where("ranges", index))
            homes[ipaddress.ip_interface(home).version].add(home)
            ranges.append(_check_range(row, home, ranges, where("ranges", index)))
    for index, row in enumerate(dhcp.get("leases", ())):
        with mistakes.noted():
            home = _home_of(row["address"], row, addresses, where("leases", index))
            homes[ipaddress.ip_interface(home).version].add(home)
            _check_lease(row, home, where("leases", index))
    for version, found in homes.items():
        if len(found) > 1:
            mistakes.found.append(
                InputError(
                    f"DHCP is in {' and in '.join(sorted(found))}",
                    where=place("dhcp") if given else place("addresses"),
                    hint=f"libvirt has it for one IPv{version} address of a network only",
                )
            )
    for key, hint in (
        ("address", "An address is for one machine"),
        ("mac", "A machine gets one IPv4 address"),
        ("duid", "A machine gets one IPv6 address"),
    ):
        with mistakes.noted():
            _refuse_twice(given.get("leases", ()), key, f"{place('dhcp')}.leases", hint)
    for version in (4, 6):
        with mistakes.noted():
            # A name may have an address of each family.
            rows = [row if _version(row) == version else {} for row in given.get("leases", ())]
            _refuse_twice(rows, "name", f"{place('dhcp')}.leases", f"A name is for one IPv{version} address")
    if {"boot_file", "boot_server", "tftp_root"} & set(given) and not any("." in item for item in addresses):
        mistakes.found.append(
            InputError(
                "booting over the network needs an IPv4 address", where=place("dhcp"), hint="Add one to addresses"
            )
        )
    # libvirt has both of them beside entries alone: elsewhere it forgets them, and each run would write them again.
    entries = [*dhcp.get("ranges", ()), *dhcp.get("leases", ())]
    if "lease_seconds" in given and not entries:
        mistakes.found.append(InputError("lease_seconds needs a range or a lease", where=place("dhcp")))
    if given.get("boot_file") and not any(_version(row) == 4 for row in entries):
        mistakes.found.append(InputError("boot_file needs a range or a lease of IPv4", where=place("dhcp")))
    if given.get("boot_server") and not dhcp.get("boot_file"):
        mistakes.found.append(InputError("boot_server needs boot_file", where=place("dhcp")))


def _version(row: Mapping[str, t.Any]) -> int:
    return 6 if ":" in row.get("address", row.get("start", "")) else 4


def _home_of(host: str, row: Mapping[str, t.Any], addresses: Sequence[str], where: str) -> str:
    home = next((item for item in addresses if contains(item, host)), None)
    if home is None:
        what = f"the range {row['start']} to {row['end']}" if "start" in row else f"the lease of {host}"
        known = ", ".join(str(ipaddress.ip_interface(item).network) for item in addresses)
        raise InputError(
            f"{what} is in none of the network's prefixes",
            where=where,
            hint=f"They are {known}" if known else "Give addresses too",
        )
    network = ipaddress.ip_interface(home).network
    if network.version == 6 and network.prefixlen < _LEAST_DHCP_PREFIX:
        raise InputError(
            f"{network} is too large for DHCP", where=where, hint=f"Give the host an address in a /{_LEAST_DHCP_PREFIX}"
        )
    return home


def _check_range(row: Mapping[str, t.Any], home: str, others: Sequence[tuple[int, int]], where: str) -> tuple[int, int]:
    network = ipaddress.ip_interface(home).network
    if not contains(home, row["end"]):
        raise InputError(f"the range ends at {row['end']}, outside {network}", where=where)
    first, last = int(ipaddress.ip_address(row["start"])), int(ipaddress.ip_address(row["end"]))
    if first > last:
        raise InputError(f"the range {row['start']} to {row['end']} ends before it begins", where=where)
    # virSocketAddrGetRange: of IPv6 addresses only the last 16 bits may differ.
    if last - first >= _MOST_IN_RANGE if network.version == 4 else first >> 16 != last >> 16:
        raise InputError(
            f"the range {row['start']} to {row['end']} is too large",
            where=where,
            hint="libvirt takes 65535 addresses of IPv4, and of IPv6 those that differ in the last group alone",
        )
    if network.version == 4 and network.num_addresses > 2:
        for word, end in (("network", network.network_address), ("broadcast", network.broadcast_address)):
            if str(end) in (row["start"], row["end"]):
                raise InputError(f"{end} is the {word} address of {network}", where=where)
    if any(first <= other_last and other_first <= last for other_first, other_last in others):
        raise InputError(
            f"the range {row['start']} to {row['end']} overlaps another one", where=where, hint="Put the two together"
        )
    return first, last


def _check_lease(row: Mapping[str, t.Any], home: str, where: str) -> None:
    interface = ipaddress.ip_interface(home)
    host = ipaddress.ip_address(row["address"])
    if host == interface.ip:
        raise InputError(f"{host} is the host's own address on the network", where=where)
    if interface.version == 4:
        network = interface.network
        if network.num_addresses > 2 and host in (network.network_address, network.broadcast_address):
            raise InputError(f"{host} is not an address for a machine in {network}", where=where)
        if "duid" in row:
            raise InputError("has a duid and an IPv4 address", where=where, hint="Name the machine by mac")
        if "mac" not in row and "name" not in row:
            raise InputError("has neither mac nor name", where=where, hint="Give the MAC address of the machine's nic")
    else:
        if "mac" in row:
            raise InputError(
                "has a mac and an IPv6 address",
                where=where,
                hint="libvirt knows clients of DHCPv6 by duid or by name alone",
            )
        if "duid" not in row and "name" not in row:
            raise InputError("has neither duid nor name", where=where, hint="Give the machine's DUID, or its host name")


def _check_routes(named: Mapping[str, t.Any], values: Mapping[str, t.Any], place: Place, mistakes: Mistakes) -> None:
    addresses = values.get("addresses", ())
    for index, row in enumerate(values.get("routes", ())):
        where = f"{place('routes')}[{index}]" if "routes" in named else place("addresses")
        if not any(contains(item, row["via"]) for item in addresses):
            mistakes.found.append(
                InputError(
                    f"{row['via']}, by which {row['to']} is to be reached, is in none of the network's prefixes",
                    where=where,
                    hint="A route leads over a machine on the network",
                )
            )
        elif (":" in row["via"]) != (":" in row["to"]):
            mistakes.found.append(InputError(f"{row['to']} cannot be reached via {row['via']}", where=where))
