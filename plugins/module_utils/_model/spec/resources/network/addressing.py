# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses of a network in libvirt's ``<ip>`` elements. https://libvirt.org/formatnetwork.html#addressing"""

from __future__ import annotations

import ipaddress
import typing as t
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ....._base.errors import InputError
from ....._base.xml import etree
from ...fields import validators
from ...fields.table import ValueEncoding, drop, make

# Of an address without prefix and netmask: virSocketAddrGetIPPrefix in libvirt's src/util/virsocketaddr.c.
_CLASSES = ((128, 8), (192, 16), (224, 24))
_IPV6_PREFIX = 64


def as_address(text: str) -> str:
    """An address as Python writes it; what is none stays as it is."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text.strip()


ADDRESS = ValueEncoding(str, as_address)


def _without_zone(value: t.Any, where: str) -> str:
    clean = validators.address(value, where)
    if "%" in clean:
        raise InputError(f"{value!r} has a zone (%)", where=where, hint="Leave it out")
    return clean


address: validators.Rule = _without_zone


def interface_of(element: etree._Element) -> str | None:
    """Address and prefix of an ``<ip>``, in one text; None where libvirt would not take it."""
    text = element.get("address", "")
    suffix = element.get("netmask") or element.get("prefix")
    try:
        host = ipaddress.ip_address(text)
        if not suffix or suffix == "0":
            suffix = str(_IPV6_PREFIX if host.version == 6 else _class_prefix(text))
        return str(ipaddress.ip_interface(f"{host}/{suffix}"))
    except ValueError:
        return None


def _class_prefix(text: str) -> int:
    first = int(text.partition(".")[0])
    return next((prefix for below, prefix in _CLASSES if first < below), 24)


def contains(interface: str, host: str) -> bool:
    """Whether an address is in the prefix of another."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_interface(interface).network
    except ValueError:
        return False


def _rule_of_interfaces(value: t.Any, where: str) -> tuple[str, ...]:
    found: tuple[str, ...] = validators.list_of(validators.host_address)(value, where)
    for index, item in enumerate(found):
        interface = ipaddress.ip_interface(item)
        place, network = f"{where}[{index}]", interface.network
        if "%" in item:
            raise InputError(f"{item!r} has a zone (%)", where=place, hint="Leave it out")
        for other in found[:index]:
            if network.overlaps(ipaddress.ip_interface(other).network):
                raise InputError(f"{item} overlaps {other}", where=place, hint="Give each network its own prefix")
    return found


@dataclass(frozen=True)
class AddressesField:
    """The host's own addresses on the network, each with its prefix."""

    key: str = "addresses"

    def check(self, value: t.Any, where: str, _have: t.Any = None, /) -> tuple[str, ...]:
        return _rule_of_interfaces(value, where)

    def write(self, parent: etree._Element, value: Sequence[str]) -> None:
        there = {interface_of(element): element for element in parent.findall("ip")}
        loose: list[etree._Element] = []
        boot: list[etree._Element] = []
        for interface, element in there.items():
            if interface not in value:
                loose += [*element.findall("dhcp/range"), *element.findall("dhcp/host")]
                boot += [*element.findall("tftp"), *element.findall("dhcp/bootp")]
                drop(element)
        for interface in value:
            if interface not in there:
                host, _slash, prefix = interface.partition("/")
                family = {"family": "ipv6"} if ":" in host else {}
                etree.SubElement(parent, "ip", {**family, "address": host, "prefix": prefix})
        house(parent, loose)
        home = boot_home(parent)
        if home is not None:
            for element in boot:
                make(home, "dhcp" if element.tag == "bootp" else "").append(element)

    def read(self, parent: etree._Element) -> tuple[str, ...]:
        return tuple(found for element in parent.findall("ip") if (found := interface_of(element)))


def boot_home(parent: etree._Element) -> etree._Element | None:
    """The address beside whose DHCP booting over the network stands, which libvirt has for IPv4 alone."""
    homes = [element for element in parent.findall("ip") if element.get("family", "ipv4") == "ipv4"]
    return next((element for element in homes if element.find("dhcp") is not None), homes[0] if homes else None)


def house(parent: etree._Element, elements: Iterable[etree._Element]) -> None:
    """Put ranges and leases below the addresses in whose prefix they are. What is in none goes."""
    homes = [(found, element) for element in parent.findall("ip") if (found := interface_of(element))]
    for element in elements:
        host = element.get("start") or element.get("ip") or ""
        home = next((home for interface, home in homes if contains(interface, host)), None)
        if home is not None:
            make(home, "dhcp").append(element)
