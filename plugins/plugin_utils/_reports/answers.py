# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all hypervisors of a play have answered to one task, as list, query and host_info show it. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .hypervisors import hypervisors_data, hypervisors_table
from .machines import machines_data, machines_table
from .text import machines_of, query_text, tree_text

REPORTS = ("hypervisors", "machines", "query")


@dataclass(frozen=True)
class Report:
    """A text for people, the same as data, and why the task that shows them fails nevertheless."""

    text: str
    facts: dict[str, t.Any]

    @property
    def failures(self) -> list[str]:
        """Sentences; none when all is well."""
        return list(self.facts["failures"])


def report_of(kind: str, results: Mapping[str, t.Any], settings: t.Any, names: Sequence[t.Any] = ()) -> Report:
    """The report of REPORTS of this kind.

    results: what the module answered, by the hypervisors' names; settings: the inventory's variables by host; names:
    the machines that were asked for. Raises InputError.
    """
    if kind == "hypervisors":
        data = hypervisors_data(results, settings)
        return Report(hypervisors_table(data), data)
    data = machines_data(results, names)
    return Report(machines_table(data) if kind == "machines" else query_report(results, settings), data)


def query_report(results: t.Any, settings: t.Any = None) -> str:
    """Every machine of every hypervisor as in query_text(), then why others did not answer. Raises InputError."""
    machines, silent = machines_of(results)
    return "\n".join(filter(None, [query_text(machines, settings), tree_text(silent)]))
