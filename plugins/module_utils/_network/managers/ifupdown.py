# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bridges with Debian's ifupdown: one file beside those that are there, which stay as they are."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import shutil

from ..._base.errors import ConflictError, HostError, UnsupportedError
from ..._base.files import read_text
from ..commands import run
from ..observe import Network
from ..spec import STP_DELAY_SECONDS, vlan_word
from ..switch.guarded import Command, GuardedFile
from .interfaces import Stanza, bridge_file, iface_stanzas, sources, stanzas
from .kernel import kernel_commands
from .manager import HEAD, Parts, WantedBridge, check_is_known, check_routes_are_known, delete_link

MAIN = "/etc/network/interfaces"
LASTING = "/etc/network/interfaces.d"
# Nothing reads it by itself; ifup and ifdown are told of it.
TRIAL = "/run/brine-virt-interfaces"
# What the kernel does with IPv6 on each interface.
SETTINGS = "/proc/sys/net/ipv6/conf"
# A DHCP client that it starts must not end with the switch's unit.
_UP: Command = ("systemd-run", "--scope", "--quiet", "--collect", "ifup")
# source-directory takes no others (interfaces(5)).
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
# What hands name servers on to the host's resolver; without them ifupdown says nothing and does nothing.
_RESOLVERS = ("resolvconf", "resolvectl")
# Who makes routes that come back by themselves when a link is up again, in the words of ip(8).
_RETURNING = ("kernel", "ra", "redirect")


class IfupdownManager:
    """Debian's ifupdown; ifupdown2 and ifupdown-ng have no mappings."""

    name = "ifupdown"
    title = "ifupdown"

    def runs(self) -> bool:
        if shutil.which("ifup") is None or not os.path.exists(MAIN):
            return False
        try:
            # Its own words are «ifup version 0.8.41».
            return re.search(r"\bifup(down)? version 0\.", run("ifup", "--version")) is not None
        except HostError:
            return False

    def manages(self, link: str) -> bool:
        return self.runs() and any(iface_stanzas(text, link) for _path, text in _files())

    def made(self, bridge: str) -> bool:
        return (read_text(f"{LASTING}/{_file_name(bridge)}") or "").startswith(HEAD)

    def begun(self, bridge: str) -> bool:
        # One file is there or is not.
        return False

    def make(self, wanted: WantedBridge) -> Parts:
        spec, uplink = wanted.spec, wanted.uplink
        lasting, trial = f"{LASTING}/{_file_name(spec.name)}", f"{TRIAL}/{_file_name(spec.name)}"
        _check_is_read(lasting)
        _check_resolver(wanted)
        before = read_text(lasting)
        if (before or HEAD)[: len(HEAD)] != HEAD:
            raise ConflictError(
                f"{lasting} exists, but the bridge {spec.name} does not", hint="Remove it, and run again"
            )
        found: list[Stanza] = []
        origins: list[str] = []
        for path, text in _files():
            if wanted.source is not None and path != lasting:
                some = iface_stanzas(text, wanted.source.name)
                found += some
                origins += [path] if some else []
            _check_no_mapping(path, text, uplink.below if uplink and uplink.vlan is None and path != lasting else ())
        said = " ".join(value for stanza in found for _word, value in stanza.options)
        check_is_known(wanted.source, said, "stanza of ifupdown")
        check_routes_are_known(wanted, said, "stanza of ifupdown")
        if uplink and uplink.vlan is None:
            _check_vlans_on(uplink.below, wanted.network)
        text = bridge_file(
            spec,
            uplink=uplink,
            mac=wanted.mac,
            source=found,
            origin=", ".join(origins),
            first=wanted.source.name if wanted.source else "",
            ahead=_made_by_stanzas(wanted),
        )
        ports = uplink.below if uplink and uplink.vlan is None else ()
        known = [port for port in ports if any(iface_stanzas(text, port) for _path, text in _files())]
        with_trial = ("--force", f"--interfaces={trial}")
        return Parts(
            files=(GuardedFile(lasting, text, trial, before=before),),
            apply=(
                *(("ifdown", "--force", port) for port in known),
                *((*_UP, *with_trial, port) for port in ports),
                (*_UP, *with_trial, spec.name),
            ),
            leave=(("ifdown", *with_trial, spec.name), *(("ifdown", *with_trial, port) for port in ports)),
            restore=(
                *(delete_link(name) for name in wanted.made_links),
                *_addresses_as_before(wanted),
                *((*_UP, "--force", port) for port in known),
            ),
            last_resort=(("systemctl", "restart", "networking.service"),),
        )

    def change(self, wanted: WantedBridge) -> Parts:
        """The kernel's settings alone: with other addresses ifdown would take the bridge from the running machines."""
        spec = wanted.spec
        path = f"{LASTING}/{_file_name(spec.name)}"
        before = read_text(path) or ""
        if spec.addressing:
            _check_same_addresses(wanted, before, path)
        after = _with_settings(before, wanted)
        apply, restore = kernel_commands(wanted)
        if after == before and not apply:
            return Parts()
        files = (GuardedFile(path, after, before=before),) if after != before else ()
        return Parts(files=files, apply=apply, restore=restore)


def _made_by_stanzas(wanted: WantedBridge) -> list[tuple[str, str]]:
    """The interfaces below the bridge that ifupdown makes, each with the stanza that does: its own, or its bridge's."""
    found = []
    for name in wanted.uplink.below if wanted.uplink else ():
        link = wanted.network.links[name]
        owners = [one for one in (name, link.master or "") if any(iface_stanzas(text, one) for _path, text in _files())]
        found += [(name, owners[0])] if link.kind and owners else []
    return found


def _addresses_as_before(wanted: WantedBridge) -> list[Command]:
    """What has the uplink make its own addresses of IPv6 again: the stanza of the bridge ends that, and ifup alone does
    not begin it."""
    path = f"{SETTINGS}/{wanted.port.name}/addr_gen_mode" if wanted.port else ""
    mode = (read_text(path) or "").strip() if path else ""
    # A VLAN is gone here, and ifup makes it anew.
    return [("sh", "-c", '[ ! -e "$1" ] || echo "$2" >"$1"', "sh", path, mode)] if mode else []


def _check_vlans_on(ports: tuple[str, ...], network: Network) -> None:
    """Raise ConflictError for VLANs on interfaces that become ports, if they would lose something for good.

    ifdown takes the interface down, and its VLANs with it; when they are up again, the kernel has neither their routes
    nor their static IPv6 addresses any more, and ifup does nothing for an interface that it knows as up.
    """
    for link in network.links.values():
        if link.below not in ports:
            continue
        routes = [*network.default_routes, *network.routes, *network.tables]
        lost = [f"the address {address}" for address in link.static if ":" in address]
        lost += [
            f"the route to {route.to}{f' via {route.gateway}' if route.gateway else ''}"
            for route in routes
            if route.device == link.name and route.protocol not in _RETURNING
        ]
        if lost:
            raise ConflictError(
                f"{link.name} is a VLAN on {link.below}, which ifupdown takes down to make the bridge; {link.name} "
                f"would not get back {', '.join(lost)}",
                hint=f"Use another uplink. Or, if nothing needs {link.name} meanwhile, this host's SSH included: "
                f"ifdown {link.name}, run again, ifup {link.name}",
            )


def _file_name(bridge: str) -> str:
    return f"brine-{bridge}"


def _body(text: str, bridge: str) -> list[str]:
    """The stanzas of the bridge without the commands that make it, as far as these say nothing of addresses."""
    made = ("#", "    pre-up ", "    post-down ")
    return [line for line in text.splitlines() if line == _deaf(bridge) or not line.startswith(made)]


def _with_settings(before: str, wanted: WantedBridge) -> str:
    """Our file with the commands that make a bridge of the spec's settings, in place of those that it has."""
    spec = wanted.spec
    if (spec.mtu, spec.stp, spec.vlan_filtering) == (None, None, None):
        return before
    name = spec.name
    lines = before.splitlines()
    settings = f"    pre-up ip link set dev {name} type bridge "
    for number, line in enumerate(lines):
        if line.startswith(settings):
            lines[number] = settings + _settings(line.removeprefix(settings), wanted)
    made = f"    pre-up ip link set dev {name} "
    port = f"    pre-up ip link set dev {wanted.uplink.port} " if wanted.uplink else ""
    if spec.mtu is not None:
        old = tuple(f"{device}mtu " for device in (port, made) if device)
        of_bridge = (f"{made}address ", f"{made}addrgenmode ", _deaf(name))
        new = [f"{command}{spec.mtu}" for command in old]
        # The last one is of the port's own stanza, which may be done after the bridge's.
        lines = _replaced(lines, (*old, "    mtu "), new, after=of_bridge, before=port and f"{port}addrgenmode ")
    if spec.vlans is not None and wanted.uplink is not None:
        command = f"    pre-up bridge vlan add dev {wanted.uplink.port} vid "
        vlans = [f"{command}{vlan_word(*vlans)}" for vlans in spec.vlans]
        lines = _replaced(lines, (command,), vlans, after=(f"{port}master ",))
    return "\n".join(lines) + "\n"


def _deaf(bridge: str) -> str:
    """The command of a bridge that hears no routers, where none of its stanzas says so."""
    return f"    pre-up sysctl -q -w net.ipv6.conf.{bridge}.accept_ra=0"


def _replaced(
    lines: list[str], old: tuple[str, ...], new: list[str], *, after: tuple[str, ...], before: str = ""
) -> list[str]:
    """The lines with the new commands for those that begin as the old ones, where a new bridge would have them.

    after, before: how those begin that are next to them; before counts where it is there.
    """
    kept = [line for line in lines if not line.startswith(old)]
    found = [number for number, line in enumerate(kept) if before and line.startswith(before)][:1]
    for words in (after, ("    pre-up ",)):
        found = found or [number + 1 for number, line in enumerate(kept) if line.startswith(words)]
    place = found[-1]
    return [*kept[:place], *new, *kept[place:]]


def _settings(words: str, wanted: WantedBridge) -> str:
    """The settings in an ip command, with those of the spec."""
    spec, parts = wanted.spec, words.split()
    have = dict(zip(parts[::2], parts[1::2]))  # noqa: B905 - not in Python 3.9
    if spec.stp is not None:
        have["stp_state"] = str(int(spec.stp))
        have["forward_delay"] = str(STP_DELAY_SECONDS * 100 if spec.stp else 0)
    if spec.vlan_filtering is not None:
        have["vlan_filtering"] = str(int(spec.vlan_filtering))
    if spec.pvid is not None:
        have["vlan_default_pvid"] = str(spec.pvid)
    return " ".join(f"{key} {value}" for key, value in have.items())


def _check_same_addresses(wanted: WantedBridge, before: str, path: str) -> None:
    spec = wanted.spec
    text = bridge_file(spec, uplink=wanted.uplink, mac=wanted.mac, source=(), origin="")
    begin = f"auto {spec.name}"
    if _body(text[text.index(begin) :], spec.name) != _body(before[before.find(begin) :], spec.name):
        raise UnsupportedError(
            f"ifupdown cannot change the addresses of {spec.name} without taking it from the machines on it",
            hint=f"Stop them, change {path}, and run: ifdown {spec.name}; ifup {spec.name}",
        )


def _files() -> list[tuple[str, str]]:
    """The paths and texts of all files that ifupdown reads."""
    found: dict[str, str] = {}
    ahead = [MAIN]
    while ahead:
        path = ahead.pop(0)
        text = read_text(path) if path not in found and os.path.isfile(path) else None
        if text is None:
            continue
        found[path] = text
        for is_folder, pattern in sources(text):
            paths = sorted(glob.glob(os.path.join(os.path.dirname(path), f"{pattern}/*" if is_folder else pattern)))
            ahead += [one for one in paths if not is_folder or _PLAIN_NAME.fullmatch(os.path.basename(one))]
    return list(found.items())


def _check_is_read(lasting: str) -> None:
    for path, text in _files():
        for is_folder, pattern in sources(text):
            whole = os.path.join(os.path.dirname(path), f"{pattern}/*" if is_folder else pattern)
            if fnmatch.fnmatch(lasting, os.path.normpath(whole)):
                return
    raise ConflictError(f"{MAIN} does not read {LASTING}", hint=f"Add this line to it: source {LASTING}/*")


def _check_resolver(wanted: WantedBridge) -> None:
    named = wanted.spec.nameservers or wanted.spec.search
    if named and not any(shutil.which(program) for program in _RESOLVERS):
        raise UnsupportedError(
            "ifupdown hands name servers to resolvconf, which is not installed",
            hint="Install resolvconf, or leave out nameservers and search and write /etc/resolv.conf",
        )


def _check_no_mapping(path: str, text: str, links: tuple[str, ...]) -> None:
    for first, _rest in stanzas(text):
        words = first.split()
        for link in links:
            if words[0] == "mapping" and any(fnmatch.fnmatch(link, pattern) for pattern in words[1:]):
                raise UnsupportedError(
                    f"{path} has a mapping for {link}, which a bridge's would collide with", hint="Remove it"
                )
