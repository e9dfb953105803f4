# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec for a host's bridge: its words, in a machine's nic's words where that has them, and their rules."""

from __future__ import annotations

import ipaddress
import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .._base.errors import InputError, Mistakes
from .._model.spec.fields import validators
from .._model.spec.network import ANYWHERE, NETWORK_RULES, family
from .names import ENDINGS, file_names

MANAGERS = ("networkd", "networkmanager", "ifupdown", "netplan")
AUTO = "auto"
# The kernel's words for them: https://docs.kernel.org/networking/bonding.html
BOND_MODES = (*("active-backup", "802.3ad", "balance-rr", "balance-xor", "broadcast", "balance-tlb", "balance-alb"),)
# The kernel's own untagged VLAN, where nobody names another.
DEFAULT_PVID = 1
# IFNAMSIZ - 1.
_LONGEST = 15
# The names end up in file names, in a unit's name, and in lines of network managers' files.
_INTERFACE = validators.pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}", "the name of an interface", "eth0")
_BRIDGE = validators.pattern(
    r"[A-Za-z0-9_][A-Za-z0-9_-]{0,14}", "a name for a bridge (up to 15 letters, digits, _ and -)", "br0"
)
_VLAN = validators.whole_number(1, 4094)
# Of the kernel's own, and the words that stand for all interfaces in its settings: it makes none of these names.
_TAKEN = ("lo", "all", "default")
# How long a port of a bridge with STP listens, and then learns, before it forwards: the least that IEEE 802.1D allows.
# The kernel's own 15 s would leave a host without its network for half of the time that it waits for the confirmation.
STP_DELAY_SECONDS = 4
# What says how the bridge comes by its addresses. One of them replaces all that the uplink has.
ADDRESSING = ("dhcp4", "dhcp6", "accept_ra", "addresses", "gateway", "nameservers", "search", "routes")


@dataclass(frozen=True)
class Uplink:
    """What goes into a bridge. port: the interface that becomes its port.

    bond: the interfaces that a bond of this name is made of, mode: how; link and vlan: the interface and the number of
    a VLAN of this name. None of these: an interface that is there.
    """

    port: str
    bond: tuple[str, ...] = ()
    mode: str = ""
    link: str = ""
    vlan: int | None = None

    @property
    def below(self) -> tuple[str, ...]:
        """The interfaces of the host that it stands on."""
        return self.bond or (self.link or self.port,)

    @property
    def made(self) -> str:
        """Its name if it is a bond or a VLAN to be made, empty for an interface that is there."""
        return self.port if self.bond or self.vlan is not None else ""

    @property
    def words(self) -> str:
        """What it is, for people."""
        if self.bond:
            return f"{self.port} (bond of {', '.join(self.bond)})"
        return f"{self.port} (VLAN {self.vlan} of {self.link})" if self.vlan is not None else self.port


@dataclass(frozen=True)
class BridgeSpec:
    """A bridge as the task asks for it. None: nobody named it.

    uplink: None is the interface with the default route, unless alone: then it has none. vlans: the VLANs that the
    uplink carries tagged, as ranges (first, last); pvid: the one that it carries untagged, in which the host is, too.
    """

    name: str
    uplink: Uplink | None = None
    alone: bool = False
    manager: str = AUTO
    dhcp4: bool | None = None
    dhcp6: bool | None = None
    accept_ra: bool | None = None
    addresses: tuple[str, ...] | None = None
    gateway: tuple[str, ...] | None = None
    nameservers: tuple[str, ...] | None = None
    search: tuple[str, ...] | None = None
    routes: tuple[dict[str, t.Any], ...] | None = None
    mtu: int | None = None
    stp: bool | None = None
    vlan_filtering: bool | None = None
    vlans: tuple[tuple[int, int], ...] | None = None
    pvid: int | None = None

    @property
    def addressing(self) -> bool:
        """Whether it says anything of addresses; otherwise the bridge has what the uplink has."""
        return any(getattr(self, word) is not None for word in ADDRESSING)

    @property
    def file_names(self) -> tuple[str, ...]:
        """What its files are called, without what is before and after that in all of them."""
        return file_names(self.name, self.uplink.made, self.uplink.bond) if self.uplink else file_names(self.name)

    @property
    def asks_dhcp4(self) -> bool:
        """Whether DHCP gives the addresses, where ``addressing`` is said: as a nic does, exactly without addresses."""
        return self.dhcp4 if self.dhcp4 is not None else not self.addresses and not self.alone

    @property
    def silent(self) -> bool:
        """Whether the host says nothing of IPv6 on it, where ``addressing`` is said: it has no use for an address."""
        return not (self.asks_dhcp4 or self.dhcp6 or self.accept_ra or self.of_family(6))

    @property
    def listens(self) -> bool:
        """Whether it listens to routers of IPv6, where ``addressing`` is said."""
        return not self.silent and self.accept_ra is not False and not self.alone

    @property
    def may_get_ipv6(self) -> bool:
        """Whether DHCP or a router may give it addresses of IPv6, where ``addressing`` is said."""
        return not self.alone and not self.silent and (self.dhcp6 is not False or bool(self.accept_ra))

    @property
    def all_routes(self) -> tuple[dict[str, t.Any], ...]:
        """Its routes, and before them those by gateways that stand beside no static address of their family.

        For network managers whose word for a gateway belongs to such an address.
        """
        alone = [gateway for gateway in self.gateway or () if not self.of_family(family(gateway))]
        return (*({"to": ANYWHERE[family(gateway)], "via": gateway} for gateway in alone), *(self.routes or ()))

    @property
    def seen_addresses(self) -> tuple[str, ...]:
        """Those of its static addresses that a host's links are seen to have: no link-local ones."""
        return tuple(one for one in self.addresses or () if not ipaddress.ip_interface(one).ip.is_link_local)

    def of_family(self, version: int) -> tuple[str, ...]:
        """Its static addresses of IPv4 or IPv6."""
        return tuple(address for address in self.addresses or () if family(address) == version)


def numbers_in(ranges: Iterable[tuple[int, int]]) -> set[int]:
    """All numbers in some ranges."""
    return {number for first, last in ranges for number in range(first, last + 1)}


def ranges_of(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Numbers as sorted ranges that do not touch, so that one set is always written in one way."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def vlan_word(first: int, last: int) -> str:
    """A range of VLANs as bridge(8), systemd-networkd and NetworkManager write it."""
    return str(first) if first == last else f"{first}-{last}"


def read_bridges(value: t.Any, where: str) -> tuple[BridgeSpec, ...]:
    """The specs of a list of bridges. Raises InputError with a line for each mistake in all of them."""
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{value!r} is not a list", where=where, hint="Write a list with name: br0 in it")
    mistakes = Mistakes()
    found: list[BridgeSpec] = []
    # Of each interface that is spoken for, by which bridge; and so of each name of a file.
    taken: dict[str, str] = {}
    files: dict[str, str] = {}
    for index, item in enumerate(value):
        place = f"{where}[{index}]"
        with mistakes.noted():
            bridge = read_bridge(item, place)
            if any(bridge.name == other.name for other in found):
                raise InputError(f"there are two bridges called {bridge.name}", where=f"{place}.name")
            found.append(bridge)
            # Any number of VLANs may be on one interface.
            own = (*bridge.uplink.bond, bridge.uplink.port) if bridge.uplink else ()
            for name in own:
                if name in taken:
                    raise InputError(f"{name} is the uplink of {taken[name]} already", where=f"{place}.uplink")
                taken[name] = bridge.name
            for name in bridge.file_names:
                if name in files:
                    raise InputError(
                        f"a file of {bridge.name} would be called as one of {files[name]} ({name})",
                        where=f"{place}.name",
                        hint=f"Choose another name, for example {bridge.name.replace('-', '_')}",
                    )
            files.update(dict.fromkeys(bridge.file_names, bridge.name))
    with mistakes.noted():
        for bridge in found:
            if bridge.name in taken:
                raise InputError(
                    f"{bridge.name} is to be a bridge, and the uplink of {taken[bridge.name]}",
                    where=where,
                    hint="A bridge cannot be the uplink of another one: give one of them another name",
                )
    for index, bridge in enumerate(found):
        with mistakes.noted():
            _check_vlan_of_others(bridge, found[:index], found, f"{where}[{index}]")
    mistakes.conclude()
    return tuple(found)


def _check_vlan_of_others(
    spec: BridgeSpec, before: Iterable[BridgeSpec], bridges: Iterable[BridgeSpec], where: str
) -> None:
    """Refuse a VLAN that is the uplink of two bridges, or that another bridge is to get over the same interface."""
    own = spec.uplink
    if own is None or own.vlan is None:
        return
    others = [
        one.name
        for one in before
        if one.uplink
        and (one.uplink.vlan, one.uplink.link) == (own.vlan, own.link)
        # Else that is said already.
        and one.uplink.port != own.port
    ]
    others += [
        one.name
        for one in bridges
        if one.uplink and one.uplink.port == own.link and own.vlan in numbers_in(one.vlans or ())
    ]
    if others:
        raise InputError(
            f"VLAN {own.vlan} of {own.link} goes to {others[0]} already",
            where=f"{where}.uplink",
            hint=f"Give the machines a nic on {others[0]}, or name another VLAN",
        )


def read_bridge(value: t.Any, where: str) -> BridgeSpec:
    """The spec of one bridge. where: its place, such as C(virt_bridge_bridges[0]). Raises InputError."""
    given = validators.read_mapping(value, where, _RULES, ("name",), "Name the bridge, such as br0")
    given["uplink"], given["alone"] = given.get("uplink") or None, given.get("uplink") is False
    spec = BridgeSpec(**given)
    mistakes = Mistakes()
    for check in (_check_name, _check_uplink, _check_gateways, _check_vlans):
        with mistakes.noted():
            check(spec, where)
    mistakes.conclude()
    return spec


def _uplink(value: t.Any, where: str) -> Uplink | bool:
    """An interface, a bond or VLAN to be made; False for none at all."""
    if value is False or str(value).lower() in ("none", "false", "no"):
        return False
    if not isinstance(value, Mapping):
        return Uplink(_INTERFACE(value, where))
    given = validators.read_mapping(value, where, _UPLINK_RULES)
    kinds = [word for word in ("bond", "vlan") if word in given]
    if len(kinds) != 1:
        raise InputError(
            "an uplink of several words is a bond or a VLAN",
            where=where,
            hint="Write {bond: [eth0, eth1]}, {vlan: 10, link: eth0}, or the name of an interface",
        )
    for word, kind in (("mode", "bond"), ("link", "vlan")):
        if word in given and kind not in given:
            raise InputError(f"{word} is for a {kind}", where=f"{where}.{word}", hint=f"This uplink is a {kinds[0]}")
    if "bond" in given:
        if not given["bond"] or len(set(given["bond"])) != len(given["bond"]):
            raise InputError("a bond needs interfaces, each once", where=f"{where}.bond", hint="Write [eth0, eth1]")
        return Uplink(given.get("name", "bond0"), bond=given["bond"], mode=given.get("mode", BOND_MODES[0]))
    if "link" not in given:
        raise InputError("link is missing", where=where, hint=f"Write {{vlan: {given['vlan']}, link: eth0}}")
    usual = f"{given['link']}.{given['vlan']}"
    if "name" not in given and len(usual) > _LONGEST:
        raise InputError(
            f"the VLAN would be called {usual}, and Linux has no names of more than {_LONGEST} letters",
            where=where,
            hint=f"Give it another name, for example name: vlan{given['vlan']}",
        )
    return Uplink(_INTERFACE(given.get("name", usual), f"{where}.name"), link=given["link"], vlan=given["vlan"])


def _vlan_range(value: t.Any, where: str) -> tuple[int, int]:
    first, dash, last = str(value).partition("-")
    numbers = _VLAN(first, where), _VLAN(last if dash else first, where)
    if numbers[0] > numbers[1]:
        raise InputError(f"{value!r} ends before it begins", where=where, hint="Write it like 20-29")
    return numbers


def _vlan_ranges(value: t.Any, where: str) -> tuple[tuple[int, int], ...]:
    return ranges_of(numbers_in(validators.list_of(_vlan_range)(value, where)))


_UPLINK_RULES: dict[str, validators.Rule] = {
    "bond": validators.list_of(_INTERFACE),
    "mode": validators.choice(*BOND_MODES),
    "vlan": _VLAN,
    "link": _INTERFACE,
    "name": _INTERFACE,
}
_RULES: dict[str, validators.Rule] = {
    "name": _BRIDGE,
    "uplink": _uplink,
    "manager": validators.choice(AUTO, *MANAGERS),
    **NETWORK_RULES,
    "stp": validators.yes_or_no,
    "vlan_filtering": validators.yes_or_no,
    "vlans": _vlan_ranges,
    "pvid": _VLAN,
}


def _check_name(spec: BridgeSpec, where: str) -> None:
    """Refuse a bridge that the kernel would not make, or whose own files would be called as those of another bridge's
    uplink.
    """
    for word, name in (("name", spec.name), ("uplink.name", spec.uplink.made if spec.uplink else "")):
        if name in _TAKEN:
            raise InputError(
                f"Linux keeps the name {name} for itself", where=f"{where}.{word}", hint="Choose another name"
            )
    for ending in ENDINGS:
        if spec.name.endswith(ending):
            raise InputError(
                f"the name of a bridge cannot end in {ending}, as the files of another bridge's uplink do",
                where=f"{where}.name",
                hint=f"Choose another name, for example {spec.name.replace('-', '_')}",
            )


def _check_uplink(spec: BridgeSpec, where: str) -> None:
    if spec.uplink is not None and spec.name in (spec.uplink.port, *spec.uplink.below):
        raise InputError(f"{spec.name} cannot be its own uplink", where=f"{where}.uplink")
    if spec.uplink is not None and spec.uplink.port in spec.uplink.bond:
        raise InputError(f"{spec.uplink.port} cannot be made of itself", where=f"{where}.uplink.bond")
    names = spec.file_names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(
            f"{spec.name} would have two files of one name ({twice})",
            where=f"{where}.uplink",
            hint="Give the bond, the VLAN or its interfaces other names",
        )
    for word in ("dhcp4", "dhcp6", "accept_ra"):
        if spec.alone and getattr(spec, word):
            raise InputError(
                "a bridge without uplink has nobody to ask for an address",
                where=f"{where}.{word}",
                hint="Give it addresses, or an uplink",
            )


def _check_gateways(spec: BridgeSpec, where: str) -> None:
    """Refuse what no address of the bridge could reach. DHCP may give one that does."""
    mistakes = Mistakes()
    vias = [(gateway, f"{where}.gateway") for gateway in spec.gateway or ()]
    vias += [(route["via"], f"{where}.routes[{index}].via") for index, route in enumerate(spec.routes or ())]
    for via, place in vias:
        with mistakes.noted():
            address, version = ipaddress.ip_address(via), family(via)
            asks = spec.asks_dhcp4 if version == 4 else spec.may_get_ipv6
            networks = [ipaddress.ip_interface(own).network for own in spec.of_family(version)]
            if not networks and not asks:
                raise InputError(
                    f"the bridge has no address of IPv{version}, so it cannot reach {via}",
                    where=place,
                    hint="Give it one in addresses",
                )
            if networks and not asks and not address.is_link_local and not any(address in net for net in networks):
                raise InputError(
                    f"{via} is in none of the networks that the bridge has addresses of",
                    where=place,
                    hint=f"Networks: {', '.join(map(str, networks))}",
                )
    mistakes.conclude()


def _check_vlans(spec: BridgeSpec, where: str) -> None:
    for word in ("vlans", "pvid"):
        if getattr(spec, word) is not None and not spec.vlan_filtering:
            raise InputError(
                f"{word} needs a bridge that filters VLANs", where=f"{where}.{word}", hint="Set vlan_filtering: true"
            )
    if spec.vlans is None:
        return
    if spec.alone:
        raise InputError("vlans are the uplink's, and the bridge has none", where=f"{where}.vlans")
    if spec.uplink is not None and spec.uplink.vlan is not None:
        raise InputError(
            "the uplink is a VLAN, which carries no others",
            where=f"{where}.vlans",
            hint=f"Give the bridge {spec.uplink.link} itself, and the machines' nics a vlan",
        )
    pvid = spec.pvid or DEFAULT_PVID
    if any(first <= pvid <= last for first, last in spec.vlans):
        raise InputError(
            f"VLAN {pvid} is the one that the uplink carries untagged",
            where=f"{where}.vlans",
            hint="Leave it out of vlans, or set pvid to another one",
        )
