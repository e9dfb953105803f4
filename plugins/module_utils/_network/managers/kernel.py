# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What no network manager changes in a bridge that is there: its settings in the kernel, by ip(8) and bridge(8)."""

from __future__ import annotations

from ..observe import BridgeState
from ..spec import STP_DELAY_SECONDS, numbers_in, ranges_of, vlan_word
from ..switch.guarded import Command
from .manager import WantedBridge

Ranges = tuple[tuple[int, int], ...]


def settings_of(wanted: WantedBridge) -> BridgeState:
    """The settings that the bridge is to have: the spec's, and else those that it has."""
    spec, have = wanted.spec, (wanted.existing and wanted.existing.bridge) or BridgeState()
    filtering = have.vlan_filtering if spec.vlan_filtering is None else spec.vlan_filtering
    pvid = have.pvid if spec.pvid is None else spec.pvid
    stp = have.stp if spec.stp is None else spec.stp
    delay = have.forward_delay if stp == have.stp else STP_DELAY_SECONDS * 100 if stp else 0
    return BridgeState(stp, delay, filtering, pvid)


def kernel_commands(wanted: WantedBridge) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
    """The commands that give an existing bridge and its port the spec's settings, and those that take that back.

    Without any where the kernel has all of it.
    """
    bridge, port, spec = wanted.existing, wanted.port, wanted.spec
    if bridge is None or bridge.bridge is None:
        return (), ()
    there: list[Command] = []
    back: list[Command] = []
    have, want = bridge.bridge, settings_of(wanted)
    there += _set(bridge.name, have, want)
    back += _set(bridge.name, want, have)
    # The port first: a bridge takes no frames that are larger than its smallest port's.
    for link in (port, bridge):
        if link is not None and spec.mtu is not None and link.mtu != spec.mtu:
            there.append(("ip", "link", "set", "dev", link.name, "mtu", str(spec.mtu)))
            back.append(("ip", "link", "set", "dev", link.name, "mtu", str(link.mtu)))
    # Those that nobody names stay: with another pvid the kernel itself changes what is untagged.
    if port is not None and spec.vlans is not None:
        untagged = ((want.pvid, want.pvid), (have.pvid, have.pvid))
        extra, missing = vlan_difference((*spec.vlans, *untagged), (*port.vlans, *untagged))
        there += [_vlan("add", port.name, vlans) for vlans in missing]
        there += [_vlan("del", port.name, vlans) for vlans in extra]
        back += [_vlan("del", port.name, vlans) for vlans in missing]
        back += [_vlan("add", port.name, vlans) for vlans in extra]
    return tuple(there), tuple(back)


def vlan_difference(wanted: Ranges, have: Ranges) -> tuple[Ranges, Ranges]:
    """The VLANs that are there and not wanted, and those that are wanted and not there, as ranges."""
    want_numbers, have_numbers = numbers_in(wanted), numbers_in(have)
    return ranges_of(have_numbers - want_numbers), ranges_of(want_numbers - have_numbers)


def _set(bridge: str, have: BridgeState, want: BridgeState) -> list[Command]:
    """The commands from one state to another."""
    # With STP on, the kernel takes no delay below 2 s; and while a bridge does not filter VLANs, any pvid.
    stp = [("stp_state", have.stp, want.stp), ("forward_delay", have.forward_delay, want.forward_delay)]
    vlans = [
        ("vlan_default_pvid", have.pvid, want.pvid),
        ("vlan_filtering", have.vlan_filtering, want.vlan_filtering),
    ]
    return [
        ("ip", "link", "set", "dev", bridge, "type", "bridge", word, str(int(after)))
        for word, before, after in (*stp, *(vlans if want.vlan_filtering else reversed(vlans)))
        if before != after
    ]


def _vlan(act: str, port: str, vlans: tuple[int, int]) -> Command:
    return ("bridge", "vlan", act, "dev", port, "vid", vlan_word(*vlans))
