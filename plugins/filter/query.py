# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters that turn the answers of hypervisors into text and short data. Each is documented in a file of its name."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.plugin_utils._reports.changes import changes_text
from ansible_collections.brine.virt.plugins.plugin_utils._reports.remarks import remarks_on
from ansible_collections.brine.virt.plugins.plugin_utils._reports.text import (
    capacity_of,
    machines_of,
    moves_text,
    names_by_state,
    printable_line,
    query_text,
    split_answers,
    tree_text,
)


def query(results: t.Any) -> str:
    """See query.yml."""
    machines, silent = machines_of(results)
    return "\n".join(filter(None, [query_text(machines), tree_text(silent)]))


def states(results: t.Any) -> dict[str, t.Any]:
    """See states.yml."""
    machines, silent = machines_of(results)
    named: dict[str, t.Any] = {hypervisor: names_by_state(records) for hypervisor, records in machines.items()}
    return {**named, **silent}


def remarks(results: t.Any) -> str:
    """See remarks.yml."""
    return "\n".join(map(printable_line, remarks_on(machines_of(results)[0])))


def capacity(results: t.Any) -> dict[str, t.Any]:
    """See capacity.yml."""
    hosts, silent = split_answers(results, "host")
    return {**{hypervisor: capacity_of(host) for hypervisor, host in hosts.items()}, **silent}


def tree(value: t.Any) -> str:
    """See tree.yml."""
    return tree_text(value)


def changes(results: t.Any) -> str:
    """See changes.yml."""
    return changes_text(results)


def moves_table(value: t.Any) -> str:
    """See moves_table.yml."""
    return moves_text(value)


def _named(name: str, work: t.Callable[[t.Any], t.Any]) -> t.Callable[[t.Any], t.Any]:
    """The filter, with our errors as Ansible's."""

    @functools.wraps(work)
    def wrapped(value: t.Any) -> t.Any:
        try:
            return work(value)
        except VirtError as exc:
            raise AnsibleFilterError(f"brine.virt.{name}: {exc}") from exc

    return wrapped


class FilterModule:
    """The filters of this file by name."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """What Ansible asks for."""
        filters = {
            "query": query,
            "states": states,
            "remarks": remarks,
            "capacity": capacity,
            "changes": changes,
            "tree": tree,
            "moves_table": moves_table,
        }
        return {name: _named(name, work) for name, work in filters.items()}
