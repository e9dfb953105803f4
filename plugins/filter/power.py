# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the playbook brine.virt.power. Each is documented in a file of its name."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.brine.virt.plugins.plugin_utils._filter_answer import with_names
from ansible_collections.brine.virt.plugins.plugin_utils._power_targets import autostart_targets, power_targets
from ansible_collections.brine.virt.plugins.plugin_utils._reports.results import power_report


def power_targets_filter(
    results: t.Any, *, last_seen: t.Any = None, hypervisors: t.Any = (), unless_elsewhere: t.Any = False, **given: t.Any
) -> dict[str, t.Any]:
    """Which machines are meant; power_targets.yml describes it."""
    return power_targets(results, given, last_seen, list(hypervisors), unless_elsewhere=boolean(unless_elsewhere))


def autostart_targets_filter(
    results: t.Any, hypervisors: t.Any, *, last_seen: t.Any = None, cloud: t.Any = ()
) -> dict[str, t.Any]:
    """Which machines are off although they start with their hypervisor; autostart_targets.yml describes it."""
    return autostart_targets(results, list(hypervisors), last_seen, list(cloud))


def power_report_filter(results: t.Any, left_out: t.Any = None) -> dict[str, t.Any]:
    """The results; power_report.yml describes it."""
    return power_report(results, left_out if isinstance(left_out, Mapping) else {})


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return with_names(
            {
                "power_targets": power_targets_filter,
                "autostart_targets": autostart_targets_filter,
                "power_report": power_report_filter,
            }
        )
