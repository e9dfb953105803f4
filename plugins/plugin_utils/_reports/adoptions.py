# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines of which hypervisor are adopted, from what virt_adopt says in check mode; and the text of it. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ...module_utils._base.errors import InputError, Mistakes
from .machine_answers import find_answers, find_home
from .table import printable_line


def choose_adoptions(results: t.Any, names: Sequence[str], on: str | None = None) -> dict[str, t.Any]:
    """What is adopted where, as the filter brine.virt.adoptions returns it.

    results: registered results of virt_adopt in check mode by the hypervisors' names. on: the one that is meant where
    several have a machine of a name. Raises InputError with a line for each machine that cannot be adopted.
    """
    answered, silent = find_answers(results, on)
    by_hypervisor: dict[str, list[str]] = {}
    lines: list[str] = []
    mistakes = Mistakes()
    for name in dict.fromkeys(names):
        with mistakes.noted():
            hypervisor = find_home(name, answered, silent)
            if hypervisor is None:
                raise InputError(f"there is no machine {name!r} on {', '.join(answered)}", where="vm")
            result = answered[hypervisor][name]
            if result.get("failed"):
                raise InputError(f"{hypervisor}: {result.get('msg', 'no reason given')}")
            if result.get("changed"):
                by_hypervisor.setdefault(hypervisor, []).append(name)
            lines += _lines(result, hypervisor)
    mistakes.conclude()
    lines += [f"{hypervisor}: {reason}" for hypervisor, reason in silent.items()]
    return {"by_hypervisor": by_hypervisor, "text": "\n".join(map(printable_line, lines))}


def _lines(result: Mapping[str, t.Any], hypervisor: str) -> list[str]:
    """A machine that is adopted, and its disks and nics, a line each."""
    what = "is adopted" if result.get("changed") else "belongs to this collection already"
    lines = [f"{result['name']} on {hypervisor} ({result.get('state')}) {what}:"]
    for disk in result.get("disks") or []:
        place = "/".join(filter(None, [disk.get("pool"), disk.get("volume")]))
        own = "its own" if disk.get("own") else "not its own"
        lines.append(f"  disk {disk.get('name') or disk.get('target')}, {place}: {own}, as {disk.get('reason')}")
    lines += [f"  nic {nic.get('name')}, {nic.get('mac')}" for nic in result.get("nics") or []]
    return lines + [f"  {remark}" for remark in result.get("remarks") or []]
