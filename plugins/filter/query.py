# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that turn the answers of hypervisors into text and short data. Each is documented in a file of its name."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.plugin_utils._filter_answer import with_names
from ansible_collections.brine.virt.plugins.plugin_utils._reports.answers import query_report
from ansible_collections.brine.virt.plugins.plugin_utils._reports.changes import changes_text
from ansible_collections.brine.virt.plugins.plugin_utils._reports.hypervisors import hypervisors_data, hypervisors_table
from ansible_collections.brine.virt.plugins.plugin_utils._reports.machines import machines_data, machines_table
from ansible_collections.brine.virt.plugins.plugin_utils._reports.results import backup_report, snapshot_report
from ansible_collections.brine.virt.plugins.plugin_utils._reports.text import moves_text, tree_text


class FilterModule:
    """The filters of this file by name."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """What Ansible asks for."""
        return with_names(
            {
                "query": query_report,
                "machines_data": machines_data,
                "machines_table": machines_table,
                "hypervisors_data": hypervisors_data,
                "hypervisors_table": hypervisors_table,
                "changes": changes_text,
                "tree": tree_text,
                "moves_table": moves_text,
                "backup_report": backup_report,
                "snapshot_report": snapshot_report,
            }
        )
