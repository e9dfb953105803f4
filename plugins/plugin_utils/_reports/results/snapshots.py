# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virt_snapshot did, or would do, as a table with a row for each machine. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.plugin_utils._reports.results.report import (
    Machine,
    results_report,
    seconds_taken,
    words_done,
)
from ansible_collections.brine.virt.plugins.plugin_utils._reports.table import Column

_COLUMNS = (Column("MACHINE"), Column("ON"), Column("STATE"), Column("SECONDS", right=True), Column("DONE"))


def snapshot_report(results: t.Any, left_out: Mapping[str, str] | None = None) -> dict[str, t.Any]:
    """The text, the same as data, and what failed, a sentence each; see results_report."""
    return results_report(results, left_out, "virt_snapshot", _COLUMNS, _row, _words)


def _row(machine: Machine) -> tuple[t.Any, ...]:
    return machine["name"], machine["hypervisor"], machine["state"], seconds_taken(machine), _words(machine)


def _words(machine: Machine) -> str:
    name = machine["snapshot"]
    return words_done(machine, f"snapshot {name} exists already" if name else "nothing to delete")
