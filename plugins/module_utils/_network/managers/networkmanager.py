# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bridges with NetworkManager: keyfiles beside the uplink's own profile, which stays as it is."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterable

from ..._base.errors import ConflictError, HostError, NotFoundError, UnsupportedError
from ..._base.files import read_text
from ..commands import IS_PORT, is_active, run
from ..observe import Network
from ..switch.guarded import Command, GuardedFile
from .kernel import kernel_commands
from .keyfile import Profile, bridge_profiles, changed_profile, profile_names, profile_uuid, uuid_of
from .manager import HEAD, Parts, WantedBridge, check_is_known, check_routes_are_known, delete_link
from .sections import parse

# Of two profiles with one UUID, the one in /run counts (NMSKeyfileStorageType in NetworkManager's
# src/core/settings/plugins/keyfile/nms-keyfile-utils.h).
LASTING, TRIAL = "/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections"
_UNIT = "NetworkManager.service"
_RELOAD: Command = ("nmcli", "connection", "reload")
_UNMANAGED = "10"
# What it adds to the metric of a default route over which it does not reach the internet.
_PENALTY = 20000
_UNLESS_PORT = f'{IS_PORT} || nmcli --wait 30 connection up uuid "$3" ifname "$1"'


class NetworkManagerManager:
    """NetworkManager."""

    name = "networkmanager"
    title = "NetworkManager"

    def runs(self) -> bool:
        return shutil.which("nmcli") is not None and is_active(_UNIT)

    def manages(self, link: str) -> bool:
        if not self.runs():
            return False
        try:
            state = run("nmcli", "--get-values", "GENERAL.STATE", "device", "show", link)
        except HostError:
            # It does not know of such a device.
            return False
        # What somebody else configured it only shows.
        return state.split(" ", 1)[0].strip() != _UNMANAGED and "externally" not in state

    def made(self, bridge: str) -> bool:
        return (read_text(f"{LASTING}/{profile_names(bridge)[0]}") or "").startswith(HEAD)

    def begun(self, bridge: str) -> bool:
        name, port = profile_names(bridge)
        text = read_text(f"{LASTING}/{name}") or ""
        return text.startswith(HEAD) and "from " in text.split("\n", 1)[0] and not os.path.exists(f"{LASTING}/{port}")

    def make(self, wanted: WantedBridge) -> Parts:
        spec, uplink, source = wanted.spec, wanted.uplink, wanted.source
        active, path, text = _active_profile(source.name) if source else ("", "", None)
        if source is not None and text is None and source.addresses and not spec.addressing:
            raise ConflictError(
                f"{', '.join(source.addresses)} on {source.name} is in no profile of NetworkManager and would be lost",
                hint="Write them into its configuration",
            )
        if uplink is not None and uplink.vlan is None:
            _check_is_no_parent(uplink.below)
        check_is_known(source, text or "", "profile of NetworkManager")
        check_routes_are_known(wanted, None, "profile of NetworkManager")
        profiles = bridge_profiles(
            spec,
            uplink=uplink,
            mac=wanted.mac,
            source=text,
            origin=path,
            first=source.name if source else "",
            metrics=_metrics(wanted.network, source.name) if source else {},
        )
        _check_nothing_in_the_way(spec.name, profiles.all)
        paths = [f"{TRIAL}/{profile.name}" for profile in profiles.all]
        # A port brings up what it is in. A bridge without ports has no carrier to wait for.
        up = [_up(profile) for profile in profiles.ports] or [_up(profiles.bridge)]
        up_again = ("connection", "up", "uuid", active)
        return Parts(
            files=tuple(
                GuardedFile(path, profile.text, f"{TRIAL}/{profile.name}", 0o600, read_text(path))
                for profile in profiles.all
                for path in (f"{LASTING}/{profile.name}",)
            ),
            apply=(("nmcli", "connection", "load", *paths), *up),
            keep=(_RELOAD,),
            restore=(
                _RELOAD,
                *(delete_link(name) for name in wanted.made_links),
                *(
                    # One that had no address before need not get one now.
                    (("nmcli", "--wait", "30" if source.addresses else "0", *up_again, "ifname", source.name),)
                    if source and active
                    else ()
                ),
            ),
            last_resort=(("systemctl", "restart", _UNIT),),
        )

    def change(self, wanted: WantedBridge) -> Parts:
        bridge = wanted.spec.name
        files, ups = [], []
        for name, port in zip(profile_names(bridge), (False, True)):  # noqa: B905 - not in Python 3.9
            before = read_text(f"{LASTING}/{name}")
            after = None if before is None else changed_profile(before, wanted.spec, port=port)
            if after is not None and after != before:
                files.append(GuardedFile(f"{LASTING}/{name}", after, f"{TRIAL}/{name}", 0o600, before))
                device = wanted.uplink.port if port and wanted.uplink else bridge
                ups.append(_reapply(device, uuid_of(after)))
        apply, restore = kernel_commands(wanted)
        if not files and not apply:
            return Parts()
        load = (("nmcli", "connection", "load", *(str(file.trial) for file in files)),) if files else ()
        return Parts(
            files=tuple(files),
            apply=(*load, *ups, *apply),
            keep=(_RELOAD,) if files else (),
            restore=(*((_RELOAD, *ups) if files else ()), *_ports_again(bridge), *restore),
            last_resort=(("systemctl", "restart", _UNIT),),
        )


def _metrics(network: Network, device: str) -> dict[int, int]:
    """The metrics of an interface's default routes, the best of each version of IP."""
    found: dict[int, int] = {}
    for route in network.default_routes:
        if route.device == device and route.metric:
            metric = route.metric - _PENALTY if route.metric > _PENALTY else route.metric
            found.setdefault(route.version, metric)
    return found


def _up(profile: Profile) -> Command:
    return ("nmcli", "--wait", "30", "connection", "up", "uuid", profile.uuid)


def _reapply(device: str, uuid: str) -> Command:
    """What leaves the ports of a bridge alone, as far as it can; only some settings need more."""
    words = 'nmcli device reapply "$1" || nmcli --wait 30 connection up uuid "$2"'
    return ("sh", "-c", words, "sh", device, uuid)


def _ports_again(bridge: str) -> list[Command]:
    """What brings back the ports that NetworkManager took out of a bridge of ours, or of its bond, when that failed.

    A bridge fails at once when somebody has its new address already, and of the profiles for the uplink NetworkManager
    may then begin with the one that it had before the bridge, whatever their priorities (seen with 1.52).
    """
    texts = [read_text(path) or "" for path in sorted(glob.glob(f"{glob.escape(LASTING)}/brine-*.nmconnection"))]
    groups = [group for text in texts for group in parse(text) if group.name == "connection"]
    known = [dict(group.entries) for group in groups]
    found: list[Command] = []
    above = {profile_uuid(profile_names(bridge)[0]): bridge}
    while above:
        ports = [one for one in known if one.get("master") in above and one.get("interface-name")]
        found += [
            ("sh", "-c", _UNLESS_PORT, "sh", port["interface-name"], above[port["master"]], port.get("uuid", ""))
            for port in ports
        ]
        above = {port.get("uuid", ""): port["interface-name"] for port in ports}
    return found


def _active(device: str) -> str:
    """The UUID of the profile that a device has now, empty for none."""
    return run("nmcli", "--get-values", "GENERAL.CON-UUID", "device", "show", device).strip()


def _profiles() -> list[tuple[str, str]]:
    """The UUIDs of all profiles, each with the path of its file."""
    lines = run("nmcli", "--terse", "--escape", "no", "--fields", "UUID,FILENAME", "connection", "show").splitlines()
    return [(line.partition(":")[0], line.partition(":")[2]) for line in lines]


def _check_is_no_parent(links: Iterable[str]) -> None:
    """Raise ConflictError for a VLAN, or the like, whose profile names the profile of an interface as its parent.

    The interface gets another profile, and from the next boot on NetworkManager says of the VLAN that there is no
    device for it (seen with 1.52).
    """
    actives = {active: link for link in links if (active := _active(link))}
    for uuid, path in _profiles():
        groups = parse(read_text(path) or "")
        said = {(key, value) for group in groups for key, value in group.entries}
        for active, link in actives.items():
            if ("parent", active) in said:
                raise ConflictError(
                    f"{path} is for something on {link}, and knows it by the profile that {link} has now ({active})",
                    hint=f"Have it name the interface, for example: nmcli connection modify {uuid} vlan.parent {link}",
                )


def _active_profile(device: str) -> tuple[str, str, str | None]:
    """The UUID, the path and the text of the profile that a device has now; empty and None where it has none."""
    active = _active(device)
    if not active:
        return "", "", None
    for found, path in _profiles():
        if found != active:
            continue
        if not path.endswith(".nmconnection") and not path.startswith((LASTING, TRIAL)):
            raise UnsupportedError(
                f"the profile of {device} is not a keyfile: {path}", hint="Convert it: nmcli connection migrate"
            )
        text = read_text(path)
        if text is None:
            raise NotFoundError(f"{path}, the profile of {device}, does not exist")
        return active, path, text
    raise NotFoundError(f"NetworkManager does not say where the profile of {device} is")


def _check_nothing_in_the_way(bridge: str, profiles: tuple[Profile, ...]) -> None:
    for profile in profiles:
        text = read_text(f"{LASTING}/{profile.name}")
        if text is not None and not text.startswith(HEAD):
            raise ConflictError(
                f"{LASTING}/{profile.name} exists, but the bridge {bridge} does not", hint="Remove it, and run again"
            )
