# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines of which hypervisor are removed, from what virt_purge says in check mode; and the text of it. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError, Mistakes
from ansible_collections.brine.virt.plugins.plugin_utils._reports.machine_answers import find_answers, find_home
from ansible_collections.brine.virt.plugins.plugin_utils._reports.table import printable_line


def choose_purges(results: t.Any, names: Sequence[str], on: str | None = None) -> dict[str, t.Any]:
    """What goes where, as the filter brine.virt.purges returns it.

    results: registered results of virt_purge in check mode by the hypervisors' names. on: the one that is meant where
    several have a machine of a name. Raises InputError with a line for each machine that cannot be removed.
    """
    answered, silent = find_answers(results, on)
    by_hypervisor: dict[str, list[str]] = {}
    shared: dict[str, list[t.Any]] = {}
    lines: list[str] = []
    machines: list[dict[str, t.Any]] = []
    absent: list[str] = []
    mistakes = Mistakes()
    for name in dict.fromkeys(names):
        with mistakes.noted():
            hypervisor = find_home(name, answered, silent)
            if hypervisor is None:
                absent.append(name)
                lines.append(f"{name}: there is no such machine on {', '.join(answered)}")
                continue
            result = answered[hypervisor][name]
            if result.get("failed"):
                raise InputError(f"{hypervisor}: {result.get('msg', 'no reason given')}")
            by_hypervisor.setdefault(hypervisor, []).append(name)
            if result.get("shared"):
                shared.setdefault(hypervisor, []).extend(result["shared"])
            kept = {key: result.get(key) for key in ("name", "state", "volumes")}
            machines.append({**kept, "hypervisor": hypervisor})
            lines += _lines(result, hypervisor)
    mistakes.conclude()
    lines += [f"{hypervisor}: {reason}" for hypervisor, reason in silent.items()]
    return {
        "by_hypervisor": by_hypervisor,
        "shared": shared,
        "machines": machines,
        "absent": absent,
        "silent": silent,
        "text": "\n".join(map(printable_line, lines)),
    }


def _lines(result: Mapping[str, t.Any], hypervisor: str) -> list[str]:
    """A machine that goes, and its volumes, a line each."""
    lines = [f"{result['name']} on {hypervisor} ({result.get('state')}):"]
    for volume in result.get("volumes") or []:
        place = "/".join(filter(None, [volume.get("pool"), volume.get("volume")]))
        lines.append(f"  {volume.get('action')} {place}: {volume.get('reason')}")
    return [*lines, "  delete the machine itself"]
