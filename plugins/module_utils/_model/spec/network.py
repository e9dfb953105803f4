# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of a nic that the guest's own network configuration is made of."""

from __future__ import annotations

import ipaddress
import re
import typing as t
from collections.abc import Mapping

from ..._base.errors import InputError, Mistakes, shown
from .fields import validators

_DOMAIN = re.compile(r"^(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?\Z")
ANYWHERE = {4: "0.0.0.0/0", 6: "::/0"}


def family(address: str) -> int:
    """4 or 6, for an address or a network that was checked already."""
    return 6 if ":" in address else 4


def is_beyond(router: str, addresses: t.Sequence[str]) -> bool:
    """Whether a router is in none of the networks that a nic has addresses of: a route through it has to say that it is
    on the link all the same. All were checked already."""
    networks, address = _networks({"addresses": addresses}, family(router)), ipaddress.ip_address(router)
    return bool(networks) and not is_link_local6(router) and not any(address in network for network in networks)


def is_link_local6(router: str) -> bool:
    """Whether it is an address of IPv6 that is the same on every link: a route through it has to name the interface."""
    return family(router) == 6 and ipaddress.ip_address(router).is_link_local


def _without_zone(rule: validators.Rule) -> validators.Rule:
    """The same rule without zones: in fe80::1%TEXT, Python lets the text be anything, line breaks too."""

    def checked(value: t.Any, where: str) -> t.Any:
        if "%" in str(value):
            raise InputError(f"{shown(value)} has a zone (%)", where=where, hint="Leave it out: the nic is known")
        return rule(value, where)

    return checked


_address = _without_zone(validators.address)


def domain(value: t.Any, where: str) -> str:
    """A DNS domain to search in."""
    if not isinstance(value, str) or not _DOMAIN.match(value):
        raise InputError(f"{shown(value)} is not a domain", where=where, hint="Write it like example.org")
    return value


def _gateways(value: t.Any, where: str) -> tuple[str, ...]:
    found: tuple[str, ...] = validators.list_of(_address)(value, where)
    if len({family(gateway) for gateway in found}) != len(found):
        raise InputError(
            f"{value!r} has more than one gateway of an address family", where=where, hint="Put any others into routes"
        )
    return found


def _destination(value: t.Any, where: str) -> str:
    if value == "default":
        return "default"
    try:
        if "%" in str(value):
            raise ValueError
        return str(ipaddress.ip_network(str(value)))
    except ValueError as exc:
        raise InputError(
            f"{shown(value)} is not a network", where=where, hint="Write it like 198.51.100.0/24, or default"
        ) from exc


ROUTE_RULES: dict[str, validators.Rule] = {
    "to": _destination,
    "via": _address,
    "metric": validators.whole_number(0, 2**32 - 1),
}


def _route(value: t.Any, where: str) -> dict[str, t.Any]:
    """A route as the seeds take it: ``to`` always a network, older releases of cloud-init do not know ``default``."""
    given = validators.read_mapping(value, where, ROUTE_RULES, ("to", "via"), "A route needs to and via")
    if given["to"] == "default":
        given["to"] = ANYWHERE[family(given["via"])]
    if family(given["to"]) != family(given["via"]):
        raise InputError(f"{given['to']} cannot be reached via {given['via']}", where=where)
    return given


# Beside these, a nic has the rules of its device.
NETWORK_RULES: dict[str, validators.Rule] = {
    "addresses": validators.list_of(_without_zone(validators.host_address)),
    "gateway": _gateways,
    "nameservers": validators.list_of(_address),
    "search": validators.list_of(domain),
    "routes": validators.list_of(_route),
    "dhcp4": validators.yes_or_no,
    "dhcp6": validators.yes_or_no,
    "accept_ra": validators.yes_or_no,
    "mtu": validators.whole_number(68, 65535),
}


def check_network(nic: Mapping[str, t.Any], at: t.Callable[[str], str]) -> None:
    """Refuse a gateway out of reach, of a nic that was read by NETWORK_RULES. at: the place of an option.

    Raises InputError with a line for each. Where DHCP or a router may give the nic another address, one that reaches it
    may be among those.
    """
    mistakes = Mistakes()
    for gateway in nic.get("gateway", ()):
        with mistakes.noted():
            if not _networks(nic, family(gateway)):
                raise InputError(
                    f"the nic has a gateway {gateway} and no address that could reach it",
                    where=at("gateway"),
                    hint="Give it one in addresses, or leave the gateway to DHCP",
                )
            _check_reach(gateway, nic, at("gateway"))
    for index, route in enumerate(nic.get("routes", ())):
        with mistakes.noted():
            _check_reach(route["via"], nic, f"{at('routes')}[{index}].via")
    mistakes.conclude()


def _networks(nic: Mapping[str, t.Any], version: int) -> list[t.Any]:
    return [ipaddress.ip_interface(own).network for own in nic.get("addresses", ()) if family(own) == version]


def _check_reach(via: str, nic: Mapping[str, t.Any], where: str) -> None:
    if via in {own.partition("/")[0] for own in nic.get("addresses", ())}:
        raise InputError(f"{via} is the nic's own address", where=where, hint="Give that of the router")
    version, address = family(via), ipaddress.ip_address(via)
    networks = _networks(nic, version)
    given_others = nic.get("dhcp4") if version == 4 else nic.get("dhcp6") or nic.get("accept_ra")
    # A nic whose network is itself alone has its gateway elsewhere, and that is no slip.
    alone = any(network.num_addresses == 1 for network in networks)
    if not networks or given_others or alone or address.is_link_local or any(address in net for net in networks):
        return
    raise InputError(
        f"{via} is in none of the networks that the nic has addresses of",
        where=where,
        hint=f"Networks: {', '.join(map(str, networks))}",
    )
