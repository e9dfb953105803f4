# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters by which the role virt_provision keeps to the start order. Each is documented in a file of its name."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.plugin_utils._filter_answer import with_names
from ansible_collections.brine.virt.plugins.plugin_utils._start_turns import held_back, joined_results, start_turns


def held_back_filter(machines: t.Any, names: t.Any) -> list[t.Any]:
    """The machines, some of which are not to be started; held_back.yml describes it."""
    return held_back(list(machines), list(names))


def joined_results_filter(later: t.Any, before: t.Any, names: t.Any) -> dict[str, t.Any]:
    """The results for the machines in two turns; joined_results.yml describes it."""
    return joined_results(later, before, list(names))


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return with_names(
            {
                "start_turns": start_turns,
                "held_back": held_back_filter,
                "joined_results": joined_results_filter,
            }
        )
