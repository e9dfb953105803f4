# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Trouble on the lab's network, for tests: hosts that do not reach each other, and a link with little bandwidth.

All of it is made on this machine, so that a host can neither see nor end it, and a host that is cut off can be joined
again. A fixed delay is not among it: few kernels have netem. (A host that is a virtual machine has.)
"""

from __future__ import annotations

from pathlib import Path

from brine_lab.base.commands import run
from brine_lab.base.lab import Lab
from brine_lab.network import network

_CHAINS = """\
add table bridge {table}
add chain bridge {table} forward {{ type filter hook forward priority -250; policy accept; }}
add chain bridge {table} input {{ type filter hook input priority -250; policy accept; }}
add chain bridge {table} output {{ type filter hook output priority -250; policy accept; }}
"""
# Enough for the largest segment that the kernel hands over in one piece.
_BURST = "128kb"
_QUEUE = "200ms"


def cut(lab: Lab, host: str, other: str | None = None) -> None:
    """Let nothing pass between two hosts and their guests; without the other one, between a host and everybody."""
    links = _set_of_links(lab, host)
    if other is None:
        pairs = [("forward", f"iifname {links}"), ("forward", f"oifname {links}")]
        pairs += [("input", f"iifname {links}"), ("output", f"oifname {links}")]
    else:
        far = _set_of_links(lab, other)
        pairs = [("forward", f"iifname {a} oifname {b}") for a, b in ((links, far), (far, links))]
    rules = _CHAINS.format(table=lab.table)
    rules += "".join(f"add rule bridge {lab.table} {chain} {match} counter drop\n" for chain, match in pairs)
    run(["nft", "-f", "-"], stdin=rules, mark=lab.mark("network"))


def slow(lab: Lab, host: str, mbit: int) -> None:
    """Let a host receive so many megabits in a second, and no more."""
    limit = ["tbf", "rate", f"{mbit}mbit", "burst", _BURST, "latency", _QUEUE]
    for link in _links_there(lab, host):
        run(["tc", "qdisc", "replace", "dev", link, "root", *limit], mark=lab.mark("network"))


def heal(lab: Lab, hosts: list[str]) -> None:
    """End all trouble; without any it does nothing."""
    rules = f"add table bridge {lab.table}\ndelete table bridge {lab.table}\n"
    run(["nft", "-f", "-"], stdin=rules, mark=lab.mark("network"))
    for host in hosts:
        for link in _links_there(lab, host):
            # A link without a limit says that there is nothing to delete.
            run(["tc", "qdisc", "delete", "dev", link, "root"], mark=lab.mark("network"), check=False)


def _set_of_links(lab: Lab, host: str) -> str:
    """This machine's ends of all the host's cables, for nft."""
    return "{ " + ", ".join(f'"{link}"' for link in network.cables(lab, host)) + " }"


def _links_there(lab: Lab, host: str) -> list[str]:
    return [link for link in network.cables(lab, host) if Path("/sys/class/net", link).exists()]
