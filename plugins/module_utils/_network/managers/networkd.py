# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bridges with systemd-networkd: its own files, which also work beside those that netplan makes for it."""

from __future__ import annotations

import glob
import ipaddress
import json
import os
import re
import shutil
import typing as t
from dataclasses import dataclass, replace

from ..._base.errors import ConflictError, HostError
from ..._base.files import read_text
from ..commands import is_active, run
from ..observe import Network
from ..spec import BridgeSpec
from ..switch.guarded import Command, GuardedFile
from .kernel import kernel_commands
from .manager import HEAD, Parts, WantedBridge, check_routes_are_known, delete_link
from .networkd_spec import changed_file
from .networkd_text import NO_UPLINK, PREFIXES, NetworkdFile, NetworkdSource, bridge_files, stated_addresses

LASTING, TRIAL = "/etc/systemd/network", "/run/systemd/network"
# systemd.network(5): of two files with one name, the one in the earlier folder counts.
FOLDERS = (LASTING, TRIAL, "/usr/local/lib/systemd/network", "/usr/lib/systemd/network", "/lib/systemd/network")
_UNIT = "systemd-networkd.service"
_RELOAD: Command = ("sh", "-c", f"networkctl reload || systemctl restart {_UNIT}")
_RESTART: Command = ("systemctl", "restart", _UNIT)


@dataclass(frozen=True)
class Networkd:
    """What systemd-networkd says of a link. source: None when no file matches it."""

    source: NetworkdSource | None
    foreign_addresses: tuple[str, ...]
    dhcpv4_iaid: int | None
    dhcpv6_iaid: int | None


class NetworkdManager:
    """systemd-networkd."""

    name = "networkd"
    title = "systemd-networkd"

    def runs(self) -> bool:
        return shutil.which("networkctl") is not None and is_active(_UNIT)

    def manages(self, link: str) -> bool:
        return self.runs() and observe_networkd(link) is not None

    def made(self, bridge: str) -> bool:
        return _base(bridge) is not None

    def begun(self, bridge: str) -> bool:
        base = _base(bridge)
        text = read_text(f"{LASTING}/{base}.netdev") or ""
        return base is not None and NO_UPLINK not in text and not os.path.exists(f"{LASTING}/{base}-uplink.network")

    def make(self, wanted: WantedBridge) -> Parts:
        spec, uplink = wanted.spec, wanted.uplink
        asked = uplink.link if uplink and uplink.vlan is not None else wanted.source.name if wanted.source else ""
        found = observe_networkd(asked) if asked else None
        found = found or Networkd(None, (), None, None)
        taken = wanted
        if uplink and uplink.vlan is not None:
            # It goes on as it is, but networkd configures it again, and takes from it what it does not know.
            taken = replace(wanted, spec=BridgeSpec(spec.name), source=wanted.network.links[asked])
            _check_alone(wanted.network, asked, found.source)
        if taken.source is not None:
            _check_nothing_lost(taken, found)
            check_routes_are_known(taken, None, "configuration of systemd-networkd")
        files = bridge_files(
            spec,
            uplink=uplink,
            mac=wanted.mac,
            source=found.source,
            first=wanted.source.name if wanted.source else "",
            dhcpv4_iaid=found.dhcpv4_iaid,
            dhcpv6_iaid=found.dhcpv6_iaid,
        ).all
        _check_no_file_in_the_way(spec.name, files)
        below = uplink.below if uplink else ()
        return Parts(
            files=tuple(
                GuardedFile(path, file.text, f"{TRIAL}/{_trial_name(file.name)}", before=read_text(path))
                for file in files
                for path in (f"{LASTING}/{file.name}",)
            ),
            # Older versions of it do not see that a drop-in is new.
            apply=(_RELOAD, *((("networkctl", "reconfigure", asked),) if uplink and uplink.vlan is not None else ())),
            restore=(
                _RELOAD,
                *(delete_link(name) for name in wanted.made_links),
                *(
                    command
                    for name in below
                    for command in (("ip", "link", "set", "dev", name, "up"), ("networkctl", "reconfigure", name))
                ),
            ),
            last_resort=(_RESTART,),
        )

    def change(self, wanted: WantedBridge) -> Parts:
        bridge = wanted.spec.name
        base = _base(bridge)
        files = []
        for kind, suffix in (("netdev", ".netdev"), ("network", ".network"), ("uplink", "-uplink.network")):
            path = f"{LASTING}/{base}{suffix}"
            before = read_text(path)
            after = None if before is None else changed_file(kind, before, wanted.spec)
            if after != before:
                # Of a device that is there networkd reads no .netdev before systemd 257, so there is none in the trial.
                trial = None if kind == "netdev" else f"{TRIAL}/{_trial_name(f'{base}{suffix}')}"
                files.append(GuardedFile(path, after, trial, before=before))
        apply, restore = kernel_commands(wanted)
        if not files and not apply:
            return Parts()
        reload = (_RELOAD,) if any(file.trial for file in files) else ()
        return Parts(
            files=tuple(files),
            apply=(*reload, *apply),
            restore=(*reload, *restore),
            last_resort=(_RESTART,),
        )


def _trial_name(name: str) -> str:
    """The name of a file in /run: one in /etc would hide its namesake, so it then has one that sorts before."""
    return name.replace("brine-", "brine--", 1) if os.path.exists(f"{LASTING}/{name}") else name


def _base(bridge: str) -> str | None:
    """The name without its suffix of the files of ours that made a bridge, None where there are none."""
    for prefix in PREFIXES:
        text = read_text(f"{LASTING}/{prefix}{bridge}.netdev")
        if text is not None and text.startswith(HEAD):
            return f"{prefix}{bridge}"
    return None


def _check_nothing_lost(wanted: WantedBridge, found: Networkd) -> None:
    link = wanted.source
    if link is None:
        return
    # Named addresses too come back only from a configuration, when the change is undone.
    unknown = link.static if wanted.spec.addressing else link.addresses
    if found.foreign_addresses or (found.source is None and unknown):
        lost = ", ".join(found.foreign_addresses or unknown)
        raise ConflictError(
            f"{lost} on {link.name} is in no configuration of systemd-networkd and would be lost",
            hint=f"Write it into the .network file of {link.name}, or remove it",
        )


def _check_alone(network: Network, link: str, source: NetworkdSource | None) -> None:
    """Raise ConflictError where other interfaces have the file of one that is to get a VLAN on it: each would get it,
    and the first one that networkd comes to would have it.
    """
    for other in network.links.values() if source else ():
        ours = other.name != link and other.link_type == "ether" and other.kind != "tun"
        if ours and source and network_file(other.name) == source.path:
            raise ConflictError(
                f"{source.path} is for {other.name} as well as for {link}, so the VLAN could be on either of them",
                hint=f"Write a file for {link} alone, whose name sorts before that, and run networkctl reload; then "
                "run again",
            )


def _check_no_file_in_the_way(bridge: str, files: t.Iterable[NetworkdFile]) -> None:
    for file in files:
        for folder in FOLDERS:
            path = f"{folder}/{file.name}"
            # What an interrupted change has left is written over.
            if os.path.exists(path) and not (read_text(path) or "").startswith(HEAD):
                raise ConflictError(
                    f"{path} exists, but the bridge {bridge} does not",
                    hint="Remove the file, or let `networkctl reload` create the bridge from it, and run again",
                )


def observe_networkd(link: str) -> Networkd | None:
    """What systemd-networkd knows of a link, None when it does not manage it. Raises HostError."""
    text = run("networkctl", "status", "--no-pager", "--lines=0", link)
    status: dict[str, t.Any] = json.loads(run("networkctl", "status", "--json=short", link))
    if status.get("AdministrativeState") == "unmanaged":
        return None
    source = _source(status.get("NetworkFile"), status.get("NetworkFileDropins"))
    # One that somebody else was faster to give to the link counts as foreign there, also where it is in the file.
    stated: frozenset[str] = frozenset() if source is None else stated_addresses(source)
    foreign = [
        f"{ipaddress.ip_address(bytes(entry['Address']))}/{entry['PrefixLength']}"
        for entry in status.get("Addresses", [])
        if entry.get("ConfigSource") == "foreign"
        and entry.get("ScopeString") == "global"
        and "permanent" in entry.get("FlagsString", "")
    ]
    return Networkd(
        source=source,
        foreign_addresses=tuple(address for address in foreign if address not in stated),
        dhcpv4_iaid=_iaid(text, r"DHCPv?4 Client ID:\s*IAID:(0x[0-9a-fA-F]+)"),
        dhcpv6_iaid=_iaid(text, r"DHCPv?6 Client IAID:\s*(0x[0-9a-fA-F]+)"),
    )


def network_file(link: str) -> str | None:
    """The path of the file that systemd-networkd has for a link, None for none. Raises HostError."""
    path = json.loads(run("networkctl", "status", "--json=short", link)).get("NetworkFile")
    return None if path is None else _kept(path)


def _iaid(text: str, pattern: str) -> int | None:
    found = re.search(pattern, text)
    return int(found.group(1), 16) if found else None


def _source(path: str | None, drop_ins: list[str] | None) -> NetworkdSource | None:
    """The text of a link's file and of its drop-ins; older systemd does not list these, so they are looked for."""
    if path is None:
        return None
    path = _kept(path)
    if drop_ins is None:
        found: dict[str, str] = {}
        for folder in reversed(FOLDERS):
            for drop_in in glob.glob(f"{folder}/{os.path.basename(path)}.d/*.conf"):
                found[os.path.basename(drop_in)] = drop_in
        drop_ins = [found[name] for name in sorted(found)]
    return NetworkdSource(tuple((part, _read(part)) for part in (path, *map(_kept, drop_ins))))


def _kept(path: str) -> str:
    """Where a file of ours is now: networkd names the one of the trial, until it reloads, when that has been kept."""
    if os.path.exists(path) or not path.startswith(f"{TRIAL}/"):
        return path
    kept = f"{LASTING}/{path[len(TRIAL) + 1 :].replace('brine--', 'brine-', 1)}"
    return kept if "brine-" in path and os.path.exists(kept) else path


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError) as exc:
        raise HostError(f"{path}, which systemd-networkd uses, cannot be read: {exc}") from exc
