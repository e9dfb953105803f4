# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NetworkManager's profiles of a bridge and of what is in it, as keyfiles. Values in, text out.

Format and keys: nm-settings-keyfile(5), nm-settings-nmcli(5). The older words master and slave-type are used: every
version knows them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..._base.errors import UnsupportedError
from ..._model.spec.network import family
from ..spec import STP_DELAY_SECONDS, BridgeSpec, Uplink, vlan_word
from .manager import BY_HAND, HEAD, refuse_servers
from .sections import Section, as_text, changed_text, parse, with_entries

# Of ours alone; any number would do that is none of somebody else's names.
_NAMESPACE = uuid.UUID("5f0cbb2e-3c0c-5d0a-8d52-6a3b3d8a0c11")
# Groups about the network that a link is in go to the bridge; all others but these stay with the link.
_GROUPS_OF_THE_BRIDGE = ("ipv4", "ipv6", "proxy")
# What of a profile's [connection] is its own, and not of the network that it connects to.
_OWN_KEYS = frozenset(
    {
        *("id", "uuid", "type", "interface-name", "master", "slave-type", "controller", "port-type", "permissions"),
        *("autoconnect", "autoconnect-priority", "autoconnect-retries", "autoconnect-slaves", "autoconnect-ports"),
        *("timestamp", "multi-connect", "read-only", "stable-id", "wait-device-timeout"),
    }
)
# Secrets would be shown in the differences of check mode, and the kinds below have ports of their own.
_GROUPS_REFUSED = {"802-1x": "a login (802.1X)", "bond": "ports of its own", "team": "ports of its own"}
_GROUPS_REFUSED.update({"wifi": "a radio"})
# NetworkManager deletes a bridge that has got no address in 45 s, with machines on it or not, and begins again; after
# four times it gives the uplink back to the profile that it had before (seen with 1.52). So it waits for an answer as
# long as it takes: dhcp-timeout in nm-settings-nmcli(5), and ra-timeout where there is no IPv4. Its retries stay as
# many: a bridge whose address somebody else has fails at once, and would be made and deleted a dozen times a second.
_FOR_EVER = "2147483647"
_TIMEOUTS = ("dhcp-timeout", "ra-timeout")
_METRIC = "route-metric"
# What other programs have noted in a profile, such as that cloud-init has written it.
_NOTES = "user"


@dataclass(frozen=True)
class Profile:
    """A profile: the name of its file, its UUID, and its text."""

    name: str
    uuid: str
    text: str


@dataclass(frozen=True)
class BridgeProfiles:
    """The profiles of a bridge, in an order in which it is safe to write them.

    The last ones are those of the host's interfaces: from the first of these on, a boot brings the new network.
    """

    bridge: Profile
    middle: tuple[Profile, ...]
    ports: tuple[Profile, ...]

    @property
    def all(self) -> tuple[Profile, ...]:
        """All of them in order."""
        return (self.bridge, *self.middle, *self.ports)


def profile_uuid(name: str) -> str:
    """The UUID of a profile of ours: the same for the same name, so that a second run finds it."""
    return str(uuid.uuid5(_NAMESPACE, name))


def profile_names(bridge: str) -> tuple[str, str]:
    """The names of the files of a bridge's own profile and of its port's."""
    return f"brine-{bridge}.nmconnection", f"brine-{bridge}-port.nmconnection"


def bridge_profiles(
    spec: BridgeSpec,
    *,
    uplink: Uplink | None,
    mac: str,
    source: str | None,
    origin: str,
    first: str = "",
    metrics: Mapping[int, int] | None = None,
) -> BridgeProfiles:
    """The profiles that make a bridge with this uplink, and what the spec names or else all that the uplink had.

    mac: the bridge's. source: the text of the profile to take over, origin: where it is; first: of a bond, the
    interface that has it. metrics: of the uplink's default routes, by version of IP: NetworkManager itself gives those
    of a bridge a higher one than those of a network card. Raises UnsupportedError for what cannot be carried over.
    """
    groups = parse(source) if source and uplink is not None and uplink.vlan is None else ()
    for group in groups:
        if group.name in _GROUPS_REFUSED:
            raise UnsupportedError(
                f"{origin} has {_GROUPS_REFUSED[group.name]}, which cannot be carried over to a bridge", hint=BY_HAND
            )
    head = f"{HEAD}{f'from {origin}' if groups else 'of its own'}.\n"
    name, port_name = profile_names(spec.name)
    connection = [entry for group in groups if group.name == "connection" for entry in group.entries]
    of_network = [(key, value) for key, value in connection if key not in _OWN_KEYS]
    taken = [group for group in groups if group.name in _GROUPS_OF_THE_BRIDGE]
    if not groups:
        taken = [Section("ipv4", (("method", "disabled"),)), Section("ipv6", (("method", "disabled"),))]
    elif all(group.name != "ipv4" for group in taken):
        # Which is what NetworkManager takes it for.
        taken.append(Section("ipv4", (("method", "auto"),)))
    alone6 = any((group.name, dict(group.entries).get("method")) == ("ipv4", "disabled") for group in taken)
    own = (
        _connection(name, "bridge", spec.name, (("autoconnect-slaves", "1"), *of_network)),
        Section("bridge", (("mac-address", mac), ("stp", "false"), ("forward-delay", "0"))),
        *(_patient(_with_metric(group, metrics or {}), alone=alone6) for group in taken),
    )
    bridge = Profile(name, profile_uuid(name), head + as_text(_bridge_with(own, spec)))
    if uplink is None:
        return BridgeProfiles(bridge, (), ())
    in_bridge = (("master", bridge.uuid), ("slave-type", "bridge"))
    rest = [group for group in groups if group.name not in (*_GROUPS_OF_THE_BRIDGE, "connection", _NOTES)]
    if uplink.bond:
        bond = Section("bond", (("mode", uplink.mode), ("miimon", "100")))
        middle = _profile(head, port_name, "bond", uplink.port, in_bridge, (bond,), spec)
        in_bond = (("master", middle.uuid), ("slave-type", "bond"))
        # The one with the configuration comes first: from then on the bond has what a boot needs.
        members = tuple(
            _profile(
                head,
                f"brine-{spec.name}-{member}.nmconnection",
                "ethernet",
                member,
                in_bond,
                rest if member == first else (),
                None,
            )
            for member in sorted(uplink.bond, key=lambda name: name != first)
        )
        return BridgeProfiles(bridge, (middle,), members)
    if uplink.vlan is not None:
        vlan = Section("vlan", (("id", str(uplink.vlan)), ("parent", uplink.link)))
        return BridgeProfiles(bridge, (), (_profile(head, port_name, "vlan", uplink.port, in_bridge, (vlan,), spec),))
    kind = next((value for key, value in connection if key == "type"), "ethernet")
    return BridgeProfiles(bridge, (), (_profile(head, port_name, kind, uplink.port, in_bridge, rest, spec),))


def changed_profile(text: str, spec: BridgeSpec, *, port: bool) -> str:
    """One of our profiles with what the spec names in it, and all else as it is."""
    return changed_text(text, lambda sections: (_port_with if port else _bridge_with)(sections, spec))


def uuid_of(text: str) -> str:
    """The UUID that a profile says."""
    return next((value for group in parse(text) for key, value in group.entries if key == "uuid"), "")


def _profile(
    head: str,
    name: str,
    kind: str,
    interface: str,
    master: tuple[tuple[str, str], ...],
    groups: Iterable[Section],
    spec: BridgeSpec | None,
) -> Profile:
    # Before the profile that somebody else has for this interface, which has priority 0 unless it says so.
    connection = _connection(name, kind, interface, (("autoconnect-priority", "999"), *master))
    sections = (connection, *groups)
    return Profile(name, profile_uuid(name), head + as_text(_port_with(sections, spec) if spec else sections))


def _connection(name: str, kind: str, interface: str, more: Iterable[tuple[str, str]]) -> Section:
    known = (("id", name.rsplit(".", 1)[0]), ("uuid", profile_uuid(name)), ("type", kind))
    return Section("connection", (*known, ("interface-name", interface), *more))


def _port_with(sections: Iterable[Section], spec: BridgeSpec) -> tuple[Section, ...]:
    changed = with_entries(sections, "ethernet", {} if spec.mtu is None else {"mtu": str(spec.mtu)})
    if spec.vlans is None:
        return changed
    vlans = ",".join(vlan_word(first, last) for first, last in spec.vlans)
    return with_entries(changed, "bridge-port", {"vlans": vlans or None})


def _bridge_with(sections: Iterable[Section], spec: BridgeSpec) -> tuple[Section, ...]:
    entries: dict[str, str | None] = {}
    if spec.stp is not None:
        entries.update({"stp": str(spec.stp).lower(), "forward-delay": str(STP_DELAY_SECONDS if spec.stp else 0)})
    if spec.vlan_filtering is not None:
        entries["vlan-filtering"] = str(spec.vlan_filtering).lower()
    if spec.pvid is not None:
        entries["vlan-default-pvid"] = str(spec.pvid)
    changed = with_entries(sections, "bridge", entries)
    changed = with_entries(changed, "ethernet", {} if spec.mtu is None else {"mtu": str(spec.mtu)})
    if not spec.addressing:
        return changed
    metrics = {
        int(group.name[-1]): int(value)
        for group in changed
        for key, value in group.entries
        if group.name in ("ipv4", "ipv6") and key == _METRIC and value.isdigit()
    }
    groups = (_with_metric(_ip(spec, version), metrics) for version in (4, 6))
    return (*(group for group in changed if group.name not in ("ipv4", "ipv6")), *groups)


def _with_metric(group: Section, metrics: Mapping[int, int]) -> Section:
    """A group about addresses with the metric for its version of IP, unless it says one or there is none."""
    metric = next((value for version, value in metrics.items() if group.name == f"ipv{version}"), None)
    if metric is None or any(key == _METRIC for key, _value in group.entries):
        return group
    return Section(group.name, (*group.entries, (_METRIC, str(metric))))


def _ip(spec: BridgeSpec, version: int) -> Section:
    addresses = spec.of_family(version)
    method = _method4(spec) if version == 4 else _method6(spec)
    entries = [("method", method)]
    entries += [(f"address{number}", address) for number, address in enumerate(addresses, 1)]
    # NetworkManager refuses a gateway where there is no address beside it.
    entries += [("gateway", gateway) for gateway in spec.gateway or () if family(gateway) == version and addresses]
    servers = [server for server in spec.nameservers or () if family(server) == version]
    if method in ("disabled", "link-local"):
        refuse_servers(spec, version)
    entries += [("dns", "".join(f"{server};" for server in servers))] if servers else []
    # Of both families one is enough, and it has to be one that is in use.
    if spec.search and (version == 4 or _method4(spec) == "disabled") and method != "disabled":
        entries.append(("dns-search", "".join(f"{domain};" for domain in spec.search)))
    routes = [route for route in spec.all_routes if family(route["via"]) == version]
    for number, route in enumerate(routes, 1):
        metric = f",{route['metric']}" if "metric" in route else ""
        entries.append((f"route{number}", f"{route['to']},{route['via']}{metric}"))
    return _patient(Section(f"ipv{version}", tuple(entries)), alone=_method4(spec) == "disabled")


def how_addressed(spec: BridgeSpec) -> dict[str, str]:
    """How a bridge gets the addresses that its spec speaks of, as settings by their full names (``ipv4.method``).

    Without the addresses themselves. Raises UnsupportedError for what NetworkManager cannot do.
    """
    return {
        f"ipv{version}.{key}": value
        for version in (4, 6)
        for key, value in _ip(spec, version).entries
        if key in ("method", *_TIMEOUTS)
    }


def _patient(group: Section, *, alone: bool) -> Section:
    """A group about addresses that waits for a DHCP server as long as it takes, unless it says how long.

    alone: there is no IPv4, so that the bridge stands and falls with a router of IPv6, too.
    """
    said = dict(group.entries)
    how = (group.name, said.get("method"))
    keys: tuple[str, ...] = _TIMEOUTS[:1] if how in (("ipv4", "auto"), ("ipv6", "dhcp")) else ()
    if how == ("ipv6", "auto") and (alone or said.get("may-fail") == "false"):
        keys = _TIMEOUTS
    return Section(group.name, (*group.entries, *((key, _FOR_EVER) for key in keys if key not in said)))


def _method4(spec: BridgeSpec) -> str:
    return "auto" if spec.asks_dhcp4 else "manual" if spec.of_family(4) else "disabled"


def _method6(spec: BridgeSpec) -> str:
    if spec.listens:
        if spec.dhcp6 is False:
            raise UnsupportedError(
                "NetworkManager asks DHCPv6 whenever a router's advertisement says so",
                hint="For dhcp6: false, set accept_ra: false as well",
            )
        return "auto"
    if spec.dhcp6:
        return "dhcp"
    if spec.of_family(6):
        return "manual"
    return "disabled" if spec.silent else "link-local"
