# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""netplan's definitions of an uplink, and those that put it into a bridge. Values in, values out.

Format and keys: https://netplan.readthedocs.io/en/stable/netplan-yaml/
"""

from __future__ import annotations

import copy
import fnmatch
import typing as t

from ..._base.errors import UnsupportedError
from ..._model.spec.network import family
from ..spec import STP_DELAY_SECONDS, BridgeSpec, Uplink
from .keyfile import how_addressed
from .manager import BY_HAND

Yaml = dict[str, t.Any]
# The kinds of definitions that can be a bridge's port.
KINDS = ("ethernets", "bonds", "vlans", "dummy-devices", "veths")
# What else a VLAN can be on.
_BELOW_VLANS = (*KINDS, "bridges", "tunnels", "wifis")
# What stands among the definitions of a kind, and is none.
_RENDERER = "renderer"
# Keys about the network that a link is in go to the bridge; all others stay with the link.
_OF_THE_BRIDGE = frozenset(
    {
        *("accept-ra", "addresses", "dhcp4", "dhcp6", "dhcp4-overrides", "dhcp6-overrides", "dhcp-identifier"),
        *("gateway4", "gateway6", "ipv6-address-generation", "ipv6-address-token", "ipv6-privacy", "ipv6-mtu"),
        *("link-local", "nameservers", "neigh-suppress", "optional", "optional-addresses", "critical"),
        *("routes", "routing-policy", "ra-overrides"),
    }
)
# What a spec that names addresses replaces as a whole.
_ADDRESSING = _OF_THE_BRIDGE - {"optional", "critical", "routing-policy"}
# NetworkManager deletes a bridge whose DHCP server is silent: see keyfile.py. netplan has no word of its own for it.
_PATIENT = {"connection.autoconnect-retries": "0", "ipv4.dhcp-timeout": "2147483647"}
# For whom netplan makes files, when it is not systemd-networkd.
NETWORK_MANAGER = "NetworkManager"
# A bridge of which nobody says anything, and that has no uplink to take something from. Where nothing is said, networkd
# and the kernel give it an address of IPv6, and NetworkManager one of IPv4 (169.254.0.0/16).
_NOTHING: Yaml = {"dhcp4": False, "dhcp6": False, "accept-ra": False, "link-local": []}
_DISABLED = {"ipv4.method": "disabled", "ipv6.method": "disabled"}
_REFUSED = {"auth": "a login (802.1X)", "openvswitch": "settings of Open vSwitch", "virtual-function-count": "SR-IOV"}


def network_of(document: t.Any, path: str) -> Yaml:
    """The network of a file. Raises UnsupportedError for what is none."""
    network = (document or {}).get("network", {}) if isinstance(document or {}, dict) else None
    if not isinstance(network, dict) or network.get("version", 2) != 2:
        raise UnsupportedError(f"{path} is not a netplan file of version 2", hint="netplan itself would not read it")
    return network


def definition_of(network: Yaml, name: str) -> tuple[str, Yaml] | None:
    """The kind and the definition of an interface in a file, also one that is given that name by set-name."""
    kind, key = _place_of(network, name)
    return (kind, network[kind][key] or {}) if kind else None


def link_name(network: Yaml, name: str) -> str | None:
    """What an interface that a VLAN can be on is called in a file; None where the file does not define it."""
    kind, key = _place_of(network, name, _BELOW_VLANS)
    return str(key) if kind else None


def matching_name(network: Yaml, name: str, mac: str) -> str | None:
    """What the definition in a file is called that is an interface's by what it matches, not by its name."""
    for kind in ("ethernets", "wifis"):
        for key, definition in (network.get(kind) or {}).items():
            match = definition.get("match") if isinstance(definition, dict) else None
            said = match if isinstance(match, dict) else {}
            found = [fnmatch.fnmatchcase(name, str(said["name"]))] if "name" in said else []
            found += [str(said["macaddress"]).lower() == mac] if "macaddress" in said else []
            if found and all(found) and name not in (key, definition.get("set-name")):
                return str(key)
    return None


def with_bridge(
    document: Yaml,
    spec: BridgeSpec,
    *,
    uplink: Uplink | None,
    mac: str,
    first: str = "",
    link: str | None = None,
    renderer: str = "networkd",
) -> Yaml:
    """A file with the bridge in it, which takes over what its uplink's definition in the file has, or has the spec's.

    first: of a bond, the interface whose definition is taken over. link: of a VLAN, what its interface is called in the
    file that defines it, which may be another one; None where none does. renderer: for whom netplan makes files of it.
    """
    changed = copy.deepcopy(document) or {}
    network = changed.setdefault("network", {"version": 2})
    bridge: Yaml = {}
    if uplink is not None:
        if uplink.vlan is not None:
            if link is None:
                _declare(network, uplink.link)
            network.setdefault("vlans", {})[uplink.port] = {"id": uplink.vlan, "link": link or uplink.link}
        else:
            for name in uplink.below:
                moved = _release(network, name)
                bridge.update(moved if name == (first or name) else {})
        if uplink.bond:
            network.setdefault("bonds", {})[uplink.port] = {
                "interfaces": [_key(network, name) for name in uplink.bond],
                "macaddress": mac,
                "parameters": {"mode": uplink.mode, "mii-monitor-interval": 100},
            }
    if uplink is None or uplink.vlan is not None:
        bridge.update(copy.deepcopy(_NOTHING))
        if renderer == NETWORK_MANAGER:
            _pass_through(bridge, _DISABLED)
    bridge["interfaces"] = [_key(network, uplink.port)] if uplink else []
    if uplink is None:
        # Without a port it has no carrier until the first machine runs, and a boot is not to wait for that.
        bridge["optional"] = True
    bridge["macaddress"] = mac
    bridge["parameters"] = {"stp": False, "forward-delay": 0}
    network.setdefault("bridges", {})[spec.name] = bridge
    changed = with_spec(changed, spec, uplink, renderer=renderer)
    _be_patient(changed["network"]["bridges"][spec.name], renderer)
    return changed


def with_spec(document: Yaml, spec: BridgeSpec, uplink: Uplink | None, *, renderer: str = "networkd") -> Yaml:
    """A file that has our bridge, with what the spec names of it, and all else as it is."""
    changed = copy.deepcopy(document)
    network = changed["network"]
    bridge = network["bridges"][spec.name]
    if spec.mtu is not None:
        bridge["mtu"] = spec.mtu
        found = definition_of(network, uplink.port) if uplink else None
        if found is not None:
            found[1]["mtu"] = spec.mtu
    if spec.stp is not None:
        delay = STP_DELAY_SECONDS if spec.stp else 0
        bridge.setdefault("parameters", {}).update({"stp": spec.stp, "forward-delay": delay})
    if spec.addressing:
        for key in _ADDRESSING & set(bridge):
            del bridge[key]
        bridge.update(_addressing(spec))
        if renderer == NETWORK_MANAGER:
            # netplan makes a method of the addresses alone: it knows neither «none» nor «listen to routers», nor what
            # accept-ra and link-local say.
            _pass_through(bridge, how_addressed(spec))
        elif spec.listens and spec.dhcp6 is False:
            raise UnsupportedError(
                "netplan cannot say that DHCPv6 is not asked when a router's advertisement says so",
                hint="For dhcp6: false, set accept_ra: false as well, or leave out manager",
            )
        _be_patient(bridge, renderer)
    return changed


def _be_patient(bridge: Yaml, renderer: str) -> None:
    """Have NetworkManager wait for a DHCP server, unless the bridge says how long."""
    if renderer == NETWORK_MANAGER and bridge.get("dhcp4"):
        _pass_through(bridge, _PATIENT)


def _pass_through(bridge: Yaml, settings: t.Mapping[str, str]) -> None:
    """Have settings in NetworkManager's profile of a bridge. All but the methods stay, where they are there already."""
    own = bridge.get("networkmanager") or {}
    kept = own.get("passthrough") or {}
    methods = {key: value for key, value in settings.items() if key.endswith(".method")}
    bridge["networkmanager"] = {**own, "passthrough": {**settings, **kept, **methods}}


def _addressing(spec: BridgeSpec) -> Yaml:
    found: Yaml = {"dhcp4": spec.asks_dhcp4, "dhcp6": bool(spec.dhcp6)}
    if spec.accept_ra is not None or spec.silent:
        found["accept-ra"] = bool(spec.accept_ra)
    if spec.silent:
        found["link-local"] = []
    if spec.addresses:
        found["addresses"] = list(spec.addresses)
    names: Yaml = {}
    names.update({"addresses": list(spec.nameservers)} if spec.nameservers else {})
    names.update({"search": list(spec.search)} if spec.search else {})
    if names:
        found["nameservers"] = names
    # «default» is of no family, and older versions know no other word for both.
    routes = [{"to": "::/0" if family(via) == 6 else "0.0.0.0/0", "via": via} for via in spec.gateway or ()]
    routes += [dict(route) for route in spec.routes or ()]
    if routes:
        found["routes"] = routes
    return found


def _release(network: Yaml, name: str) -> Yaml:
    """What of an interface's definition is the bridge's; the interface has it no longer."""
    _declare(network, name)
    found = definition_of(network, name)
    definition = found[1] if found else {}
    for key, words in _REFUSED.items():
        if key in definition:
            raise UnsupportedError(f"{name} has {words} ({key}), which cannot be carried over", hint=BY_HAND)
    moved = {key: definition.pop(key) for key in list(definition) if key in _OF_THE_BRIDGE}
    # Otherwise networkd gives it an address of its own.
    definition["dhcp4"] = definition["dhcp6"] = False
    return moved


def _declare(network: Yaml, name: str) -> None:
    """An interface has to be defined somewhere to be named."""
    if definition_of(network, name) is None:
        ethernets = network.get("ethernets") or {}
        network["ethernets"] = {**ethernets, name: {}}
    for kind in KINDS:
        for key, definition in (network.get(kind) or {}).items():
            if definition is None:
                network[kind][key] = {}


def _key(network: Yaml, name: str) -> str:
    """What an interface is called in the file, which may be another name than its own."""
    return str(_place_of(network, name)[1])


def _place_of(network: Yaml, name: str, kinds: tuple[str, ...] = KINDS) -> tuple[str, t.Any]:
    """The kind of an interface and what it is called in the file; no kind and its own name where none defines it."""
    for kind in kinds:
        for key, definition in (network.get(kind) or {}).items():
            if key != _RENDERER and name == ((definition or {}).get("set-name") or key):
                return kind, key
    return "", name
