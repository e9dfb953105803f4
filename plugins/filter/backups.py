# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of the playbooks brine.virt.backup and brine.virt.restore. Each is documented in a file of its name."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.plugin_utils._reports.backups import backup_report, restore_twins


def backup_report_filter(results: t.Any, left_out: t.Any = None) -> dict[str, t.Any]:
    """What became of the backups; backup_report.yml describes it."""
    try:
        return backup_report(results, left_out if isinstance(left_out, Mapping) else {})
    except VirtError as exc:
        raise AnsibleFilterError(f"brine.virt.backup_report: {exc}") from exc


def restore_twins_filter(results: t.Any, target: str, name: str | None, uuid: str | None) -> list[str]:
    """Who else has the machine; restore_twins.yml describes it."""
    try:
        return restore_twins(results, target, name, uuid)
    except VirtError as exc:
        raise AnsibleFilterError(f"brine.virt.restore_twins: {exc}") from exc


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {"backup_report": backup_report_filter, "restore_twins": restore_twins_filter}
