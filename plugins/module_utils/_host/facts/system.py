# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host under a hypervisor says of itself: its release, how long it has been up, its bridges. Only reads."""

from __future__ import annotations

import json
import os
import shlex
import typing as t

from ..._base.commands import run_program
from ..._base.errors import HostError

# os-release(5): the first of them that is there counts.
_RELEASE_FILES = ("etc/os-release", "usr/lib/os-release")
_TIMEOUT_SECONDS = 10


def read_release(root: str = "/") -> dict[str, str | None] | None:
    """The distribution: ``id``, ``name`` with the version in it, ``version``. None where the host does not say it."""
    for file_name in _RELEASE_FILES:
        try:
            with open(os.path.join(root, file_name), encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        said = dict(_assignments(lines))
        return {"id": said.get("ID"), "name": said.get("PRETTY_NAME"), "version": said.get("VERSION_ID")}
    return None


def _assignments(lines: list[str]) -> t.Iterator[tuple[str, str]]:
    for line in lines:
        name, equals, value = line.partition("=")
        try:
            words = shlex.split(value)
        except ValueError:
            continue
        if equals and not line.startswith("#"):
            yield name.strip(), " ".join(words)


def read_uptime_seconds(path: str = "/proc/uptime") -> int | None:
    """How long the host has been up; None where it does not say it."""
    try:
        with open(path, encoding="ascii") as file:
            return int(float(file.read().split()[0]))
    except (OSError, ValueError, IndexError):
        return None


def observe_bridge_details(
    names: t.Iterable[str], *, ask: t.Callable[[], str] | None = None, root: str = "/sys/class/net"
) -> list[dict[str, t.Any]]:
    """The bridges of these names: what is plugged into each, and its own addresses that other hosts may use.

    ask: gives what ``ip -json address show`` writes, for tests. Raises HostError.
    """
    try:
        links = {link["ifname"]: link for link in json.loads((ask or _ask_ip)() or "[]") if "ifname" in link}
    except (OSError, ValueError, TypeError) as exc:
        raise HostError(f"cannot read the addresses of the bridges: {exc}") from exc
    return [
        {
            "name": name,
            "ports": _ports(os.path.join(root, name, "brif")),
            "addresses": [
                f"{entry['local']}/{entry['prefixlen']}"
                for entry in links.get(name, {}).get("addr_info", [])
                if entry.get("scope") == "global" and "local" in entry
            ],
        }
        for name in names
    ]


def _ports(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _ask_ip() -> str:
    answer = run_program(["ip", "-json", "address", "show"], timeout_seconds=_TIMEOUT_SECONDS)
    if answer.status != 0:
        raise OSError(answer.complaint)
    return answer.text
