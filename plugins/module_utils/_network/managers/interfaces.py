# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ifupdown's files: what they say of an interface, and the file that puts it into a bridge. Text in, text out.

Format: interfaces(5). The bridge is made by ip(8) in the stanza's own commands: bridge_ports needs bridge-utils,
which a host may not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..._base.errors import UnsupportedError
from ..._model.spec.network import family
from ..spec import STP_DELAY_SECONDS, BridgeSpec, Uplink, vlan_word
from .manager import BY_HAND, HEAD

# The first words of a stanza.
_STANZAS = (
    "auto",
    "allow-",
    "no-auto-down",
    "no-scripts",
    "iface",
    "mapping",
    "source",
    "source-directory",
    "template",
)
_COMMANDS = ("pre-up", "up", "post-up", "down", "pre-down", "post-down")
# Options about the cable stay with the interface; those of other devices cannot be carried over.
_OF_THE_PORT = re.compile(r"(hwaddress|mtu|ethernet-|link-|offload-|hardware-|driver-)")
_REFUSED = re.compile(r"(bridge|bond|vlan|wpa|wireless|inherits|network-?namespace|tunnel|endpoint)")


@dataclass(frozen=True)
class Stanza:
    """One ``iface`` stanza: the interface, the family (inet, inet6), the method, and its options in order."""

    interface: str
    family: str
    method: str
    options: tuple[tuple[str, str], ...]


def stanzas(text: str) -> list[tuple[str, list[str]]]:
    """All stanzas of a file: the first line's words after the first one, by that one, and the lines that follow."""
    lines = [line.strip() for line in re.sub(r"\\\n\s*", " ", text).splitlines()]
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if not line or line.startswith("#"):
            continue
        word = line.split()[0]
        if word in _STANZAS or word.startswith("allow-") or not found:
            found.append((line, []))
        else:
            found[-1][1].append(line)
    return found


def iface_stanzas(text: str, interface: str) -> list[Stanza]:
    """The stanzas of an interface in a file."""
    found = []
    for first, rest in stanzas(text):
        words = first.split()
        if words[0] == "iface" and words[1:2] == [interface]:
            options = [("inherits", " ".join(words[4:]))] if words[4:] or words[2:3] == ["inherits"] else []
            options += [(word, value.strip()) for word, _blank, value in (line.partition(" ") for line in rest)]
            found.append(Stanza(interface, (words + ["", ""])[2], (words + ["", "", ""])[3], tuple(options)))
    return found


def sources(text: str) -> list[tuple[bool, str]]:
    """What other files a file reads, in order: whether it is a whole folder, and the path or pattern."""
    lines = [first.split(None, 1) for first, _rest in stanzas(text)]
    return [(line[0] == "source-directory", line[1]) for line in lines if line[0].startswith("source") and line[1:]]


def bridge_file(
    spec: BridgeSpec,
    *,
    uplink: Uplink | None,
    mac: str,
    source: Iterable[Stanza],
    origin: str,
    first: str = "",
    ahead: Iterable[tuple[str, str]] = (),
) -> str:
    """The file that makes a bridge with this uplink, and what the spec names or else all that the uplink had.

    mac: the bridge's. source: the stanzas to take over, and origin: where they are; first: of a bond, the interface
    that has them. ahead: interfaces that a stanza makes, each with that stanza: at a boot it may come after that of the
    bridge. Raises UnsupportedError for what cannot be carried over.
    """
    taken = [] if uplink is None or uplink.vlan is not None else list(source)
    of_bridge, of_port = _split(taken, first)
    # The port's stanza may be done after the bridge's, whose commands give the port what the spec says.
    of_port = [option for option in of_port if option[0] != "mtu" or spec.mtu is None]
    lines = [f"{HEAD}{f'from {origin}' if taken else 'of its own'}."]
    # A mapping takes the place of an interface's own stanza, wherever that is: of the lines after it, its script gives
    # back one, which names the stanza to use instead. grep gives back the one that has the interface's name in it.
    for name in (uplink.bond or (uplink.port,)) if uplink is not None and uplink.vlan is None else ():
        port = f"brine-port-{name}"
        lines += ["", f"# {name} goes into {spec.name}: this takes the place of its own stanza, which has no effect."]
        lines += [f"mapping {name}", "    script grep", f"    map {port}", f"iface {port} inet manual"]
        lines += [f"    {word} {value}" for word, value in of_port if name == first]
    made = _stanzas_of(spec) if spec.addressing else of_bridge or [Stanza(spec.name, "inet", "manual", ())]
    before, after = _making(spec, uplink, mac, silent=spec.silent if spec.addressing else not of_bridge)
    before = [*(f"ip link show dev {name} >/dev/null 2>&1 || ifup {stanza}" for name, stanza in ahead), *before]
    lines += ["", f"auto {spec.name}"]
    for number, stanza in enumerate(made):
        lines.append(f"iface {spec.name} {stanza.family} {stanza.method}")
        lines += [f"    pre-up {command}" for command in before] if number == 0 else []
        lines += [f"    {word} {value}" for word, value in stanza.options]
        lines += [f"    post-down {command}" for command in after] if number == 0 else []
    return "\n".join(lines) + "\n"


def _split(source: Iterable[Stanza], interface: str) -> tuple[list[Stanza], list[tuple[str, str]]]:
    """The stanzas for the bridge, and the options that stay with the interface."""
    of_bridge: list[Stanza] = []
    of_port: list[tuple[str, str]] = []
    for stanza in source:
        own: list[tuple[str, str]] = []
        for word, value in stanza.options:
            if _REFUSED.match(word):
                raise UnsupportedError(
                    f"the stanza of {interface} has {word}, which cannot be carried over to a bridge", hint=BY_HAND
                )
            if word in _COMMANDS and re.search(rf"(?<![\w.-]){re.escape(interface)}(?![\w.-])", value):
                raise UnsupportedError(
                    f"the stanza of {interface} has a command that names it: {word} {value}",
                    hint="Write $IFACE in its place, which will be the bridge",
                )
            (of_port if _OF_THE_PORT.match(word) else own).append((word, value))
        of_bridge.append(Stanza(interface, stanza.family, stanza.method, tuple(own)))
    return of_bridge, list(dict.fromkeys(of_port))


def _making(spec: BridgeSpec, uplink: Uplink | None, mac: str, *, silent: bool) -> tuple[list[str], list[str]]:
    """The commands that make the bridge and what is below it, and those that take it away again."""
    name = spec.name
    settings = [f"stp_state {int(bool(spec.stp))}", f"forward_delay {STP_DELAY_SECONDS * 100 if spec.stp else 0}"]
    settings += [] if spec.vlan_filtering is None else [f"vlan_filtering {int(spec.vlan_filtering)}"]
    settings += [f"vlan_default_pvid {spec.pvid}"] if spec.pvid else []
    before = [
        f"ip link show dev {name} >/dev/null 2>&1 || ip link add name {name} type bridge",
        f"ip link set dev {name} type bridge {' '.join(settings)}",
        f"ip link set dev {name} address {mac}",
    ]
    after = [f"ip link delete dev {name} type bridge"]
    if silent:
        before.append(f"ip link set dev {name} addrgenmode none")
    elif spec.accept_ra is False:
        before.append(f"sysctl -q -w net.ipv6.conf.{name}.accept_ra=0")
    if uplink is None:
        before += [f"ip link set dev {name} mtu {spec.mtu}"] if spec.mtu is not None else []
        return before, after
    port = uplink.port
    if uplink.vlan is not None:
        add = f"ip link add link {uplink.link} name {port} type vlan id {uplink.vlan}"
        before += [f"ip link set dev {uplink.link} up", f"ip link show dev {port} >/dev/null 2>&1 || {add}"]
        after.append(f"ip link delete dev {port} type vlan")
    if uplink.bond:
        before += [
            # Without this the module makes a bond0 of its own.
            "modprobe -q bonding max_bonds=0 || true",
            f"ip link show dev {port} >/dev/null 2>&1 || ip link add name {port} type bond",
            f"ip link set dev {port} type bond mode {uplink.mode} miimon 100",
            f"ip link set dev {port} address {mac}",
            *(f"ip link set dev {member} down && ip link set dev {member} master {port}" for member in uplink.bond),
        ]
        after.append(f"ip link delete dev {port} type bond")
    before += [f"ip link set dev {device} mtu {spec.mtu}" for device in (port, name) if spec.mtu is not None]
    # The port itself is in no network of IPv6.
    before += [f"ip link set dev {port} addrgenmode none", f"ip link set dev {port} master {name} up"]
    before += [f"bridge vlan add dev {port} vid {vlan_word(*vlans)}" for vlans in spec.vlans or ()]
    return before, after


def _stanzas_of(spec: BridgeSpec) -> list[Stanza]:
    """The stanzas of a spec that names addresses: one for each way to an address, as a stanza has one."""
    found: list[Stanza] = []
    for version, kind in ((4, "inet"), (6, "inet6")):
        gateways = [("gateway", gateway) for gateway in spec.gateway or () if family(gateway) == version]
        listens = [("accept_ra", "2" if spec.accept_ra else "0")] if version == 6 and spec.accept_ra is not None else []
        # Without a port it has no carrier, and ifup would wait in vain until nobody else is seen to have its address.
        listens += [("dad-attempts", "0")] if version == 6 and spec.alone and spec.of_family(6) else []
        asks = spec.asks_dhcp4 if version == 4 else spec.dhcp6
        if asks:
            found.append(Stanza(spec.name, kind, "dhcp", tuple(listens)))
        for address in spec.of_family(version):
            found.append(Stanza(spec.name, kind, "static", (("address", address), *gateways, *listens)))
            gateways = []
        if not asks and not spec.of_family(version):
            if version == 6 and spec.accept_ra:
                found.append(Stanza(spec.name, kind, "auto", ()))
            elif version == 4:
                found.append(Stanza(spec.name, kind, "manual", ()))
    options = [("dns-nameservers", " ".join(spec.nameservers))] if spec.nameservers else []
    options += [("dns-search", " ".join(spec.search))] if spec.search else []
    for route in spec.all_routes:
        word = "ip -6" if family(route["via"]) == 6 else "ip"
        metric = f" metric {route['metric']}" if "metric" in route else ""
        options.append(("up", f"{word} route replace {route['to']} via {route['via']} dev {spec.name}{metric}"))
    # The last stanza comes up when all addresses are there that a route may need.
    last = found[-1]
    return [*found[:-1], Stanza(last.interface, last.family, last.method, (*last.options, *options))]
