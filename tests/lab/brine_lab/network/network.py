# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""The lab's segment: one bridge with a private /24; this machine is its way to the world."""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import Any

from brine_lab.base.commands import run
from brine_lab.base.lab import Lab
from brine_lab.base.lock import locked
from brine_lab.base.say import LabError, say
from brine_lab.base.state import State
from brine_lab.network import firewall

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
# Holds the boot it was written in: /run does not survive a boot on most machines, and the setting on none.
FORWARDING_WAS_OFF = Path("/run/brine-virt-lab-ip-forward-was-off")
# A host's network cards at most: an interface's name has place for one letter after the host's name.
MOST_NICS = 4
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def choose(lab: Lab) -> State:
    """A subnet that nothing on this machine uses yet, and the MTU of the way out."""
    return State(_free_subnet(lab), _uplink_mtu(lab))


def up(lab: Lab, state: State) -> None:
    """Make the bridge, its address, forwarding and address translation, whatever of them is missing."""
    mark = lab.mark("network")
    with locked("network", wait_seconds=60):
        if lab.bridge not in _links(lab):
            say(f"network: bridge {lab.bridge}, {state.subnet}, MTU {state.mtu}")
            run(["ip", "link", "add", lab.bridge, "type", "bridge"], mark=mark)
        run(["ip", "link", "set", lab.bridge, "mtu", str(state.mtu), "up"], mark=mark)
        run(["ip", "address", "replace", f"{state.gateway}/24", "dev", lab.bridge], mark=mark)
        if FORWARDING.read_text().strip() == "0":
            FORWARDING_WAS_OFF.write_text(BOOT_ID.read_text())
            FORWARDING.write_text("1")
        firewall.up(lab, state.subnet)


def down(lab: Lab) -> None:
    """Remove all of it; forwarding goes off again when a lab switched it on and this was the last one."""
    mark = lab.mark("network")
    with locked("network", wait_seconds=60):
        firewall.down(lab)
        for link in _links(lab):
            # A veth outlives its container for a moment, or for ever when systemd-nspawn was killed; a tap its host.
            if link == lab.bridge or link.startswith(f"vb-{lab.id}-"):
                run(["ip", "link", "delete", link], mark=mark, check=False)
        if not any(re.fullmatch("bv[0-9a-f]{6}", link) for link in _links(lab)) and FORWARDING_WAS_OFF.exists():
            if FORWARDING_WAS_OFF.read_text() == BOOT_ID.read_text():
                FORWARDING.write_text("0")
            FORWARDING_WAS_OFF.unlink()


def exists(lab: Lab) -> bool:
    """Whether the lab's bridge is there."""
    return lab.bridge in _links(lab)


def cables(lab: Lab, host: str) -> list[str]:
    """This machine's ends of the cables that a host has or could have: the first as systemd-nspawn calls it."""
    first = f"vb-{lab.machine(host)}"
    return [first, *(f"{first}{chr(ord('a') + number)}" for number in range(1, MOST_NICS))]


def add_tap(lab: Lab, link: str, mtu: int, *, segments: bool = True) -> None:
    """Make the end of a host's cable, in the bridge, unless it is there. It stays when the host ends.

    segments: whether the host takes packets that are larger than the MTU, for it to be cut into pieces.
    """
    mark = lab.mark("network")
    if link not in _links(lab):
        run(["ip", "tuntap", "add", "dev", link, "mode", "tap"], mark=mark)
    # By their size too: of what another tap sends, the kernel does not know as yet how many segments it has.
    pieces = [] if segments else ["gso_max_segs", "1", "gso_max_size", str(mtu)]
    run(["ip", "link", "set", link, "mtu", str(mtu), *pieces, "master", lab.bridge, "up"], mark=mark)


def _ip(lab: Lab, *words: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(run(["ip", "-json", *words], mark=lab.mark("network")).stdout or "[]")
    return answer


def _links(lab: Lab) -> list[str]:
    return [link["ifname"] for link in _ip(lab, "link", "show") if "ifname" in link]


def _free_subnet(lab: Lab) -> str:
    taken = []
    for route in _ip(lab, "-4", "route", "show", "table", "all"):
        if route.get("dst", "default") != "default":
            taken.append(ipaddress.IPv4Network(route["dst"], strict=False))
    for server in re.findall(r"^nameserver\s+([\d.]+)$", Path("/etc/resolv.conf").read_text(), re.MULTILINE):
        taken.append(ipaddress.IPv4Network(server))
    start = int(lab.id, 16)
    # 10.128.0.0/10 in steps from a place of its own, so that two labs that start at once do not pick the same.
    for step in range(256):
        number = (start + step * 7) % (64 * 256)
        subnet = ipaddress.IPv4Network((10 << 24 | (128 << 16) + (number << 8), 24))
        if not any(subnet.overlaps(other) for other in taken):
            return str(subnet)
    raise LabError("No free /24 in 10.128.0.0/10 for the lab: this machine has routes to all that were tried.")


def _uplink_mtu(lab: Lab) -> int:
    routes = _ip(lab, "-4", "route", "show", "default")
    if not routes:
        raise LabError("This machine has no default route; the hosts could not reach the package registries.", 2)
    link = _ip(lab, "link", "show", "dev", routes[0]["dev"])[0]
    return min(int(link["mtu"]), 1500)
