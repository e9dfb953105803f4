# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters by which the role virt_provision keeps to the start order. Each is documented in a file of its name."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.plugin_utils._start_turns import held_back, joined_results, start_turns


def start_turns_filter(checked: t.Any, by_host: t.Any) -> list[dict[str, t.Any]]:
    """Who starts in which turn; start_turns.yml describes it."""
    try:
        return start_turns(checked, by_host)
    except VirtError as exc:
        raise AnsibleFilterError(f"brine.virt.start_turns: {exc}") from exc


def held_back_filter(machines: t.Any, names: t.Any) -> list[t.Any]:
    """The machines, some of which are not to be started; held_back.yml describes it."""
    return held_back(list(machines), list(names))


def joined_results_filter(later: t.Any, before: t.Any, names: t.Any) -> dict[str, t.Any]:
    """What became of the machines in two turns; joined_results.yml describes it."""
    try:
        return joined_results(later, before, list(names))
    except VirtError as exc:
        raise AnsibleFilterError(f"brine.virt.joined_results: {exc}") from exc


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {
            "start_turns": start_turns_filter,
            "held_back": held_back_filter,
            "joined_results": joined_results_filter,
        }
