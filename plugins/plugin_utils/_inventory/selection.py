# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines an inventory lists, and under which names, by the user's own expressions.

The expressions are the user's; what machines say of themselves is only ever a value in them. Who evaluates them is
given by the caller.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ...module_utils._base.errors import InputError
from .host_vars import MACHINES_GROUP, ListedMachine, NamedHost, name_hosts

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible.inventory.data import InventoryData

# What hosts of inventories are called, and what patterns can name: no blank, no comma, no sign of a pattern.
_HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_PREFIX = "virt_"

Evaluate = Callable[[t.Any, Mapping[str, t.Any]], t.Any]


@dataclass(frozen=True)
class Filter:
    """One item of the option ``filters``: what becomes of the machines that the condition is true for."""

    include: bool
    condition: t.Any


def read_filters(value: t.Any) -> list[Filter]:
    """The option ``filters``. Raises InputError with the place."""
    filters = []
    for number, item in enumerate(value or []):
        if not isinstance(item, Mapping) or len(item) != 1 or not {"include", "exclude"} & set(item):
            raise InputError(
                f"{item!r} is not a filter", where=f"filters[{number}]", hint="Give include or exclude with a condition"
            )
        ((word, condition),) = item.items()
        if not isinstance(condition, (str, bool)) or condition == "":
            raise InputError(
                f"{condition!r} is not a condition", where=f"filters[{number}].{word}", hint="Give a Jinja expression"
            )
        filters.append(Filter(word == "include", condition))
    return filters


def read_hostnames(value: t.Any) -> list[str]:
    """The option ``hostnames``. Raises InputError with the place."""
    for number, item in enumerate(value or []):
        if not isinstance(item, str) or not item.strip():
            raise InputError(
                f"{item!r} is not an expression",
                where=f"hostnames[{number}]",
                hint="Give a Jinja expression such as name",
            )
    return list(value or [])


def names_in_expressions(variables: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What expressions know of a machine: its host variables, and those of the collection without their prefix too."""
    short = {name[len(_PREFIX) :]: value for name, value in variables.items() if name.startswith(_PREFIX)}
    return {**short, **variables, **{name: short[name] for name in ("name", "uuid", "hypervisor") if name in short}}


def taken_names(inventory: InventoryData) -> set[str]:
    """Names of hosts and groups that are not those of machines.

    A host that another source has put into our group, and that no plugin of this kind has described yet, is the user's
    own mention of the machine.
    """
    machines = inventory.groups.get(MACHINES_GROUP)
    mentioned = {h.name for h in machines.get_hosts() if "virt_uuid" not in h.get_vars()} if machines else set()
    return (set(inventory.hosts) - mentioned) | set(inventory.groups)


def described_machines(inventory: InventoryData) -> dict[tuple[str, str], str]:
    """By hypervisor and UUID, the machines that another configuration file of this plugin has listed, as hosts."""
    machines = inventory.groups.get(MACHINES_GROUP)
    found = {}
    for host in machines.get_hosts() if machines else ():
        variables = host.get_vars()
        if "virt_uuid" in variables and "virt_hypervisor" in variables:
            found[str(variables["virt_hypervisor"]), str(variables["virt_uuid"])] = str(host.name)
    return found


class HostSelection:
    """The user's filters and names, applied to one machine after the other.

    strict: whether an expression that cannot be evaluated is an error; else it has no value, and ``warnings`` says so,
    once for each expression.
    """

    def __init__(
        self, filters: Sequence[Filter], hostnames: Sequence[str], evaluate: Evaluate, *, strict: bool
    ) -> None:
        self._filters = filters
        self._hostnames = hostnames
        self._evaluate = evaluate
        self._strict = strict
        self._failures: dict[str, list[str]] = {}

    def hosts(
        self,
        machines: Sequence[ListedMachine],
        vars_of: Callable[[ListedMachine], Mapping[str, t.Any]],
        taken: Collection[str],
        described: Mapping[tuple[str, str], str] | None = None,
        elsewhere: Mapping[str, Collection[str]] | None = None,
    ) -> list[NamedHost]:
        """Those of these machines that are listed, each with the name of its host. Raises InputError where strict.

        vars_of: the host variables of a machine. taken: names that mean something else already. described, elsewhere:
        as in name_hosts.
        """
        if not self._filters and not self._hostnames:
            return name_hosts(machines, taken, described=described, elsewhere=elsewhere)
        listed = [machine for machine in machines if self.includes(vars_of(machine))]
        return name_hosts(listed, taken, lambda machine: self.name(vars_of(machine)), described, elsewhere)

    def includes(self, variables: Mapping[str, t.Any]) -> bool:
        """Whether the machine with these host variables is listed: the first filter that is true for it says so.

        Raises InputError where strict.
        """
        known = names_in_expressions(variables) if self._filters else {}
        for number, one in enumerate(self._filters):
            if self._value(f"filters[{number}]", one.condition, known):
                return one.include
        return True

    def name(self, variables: Mapping[str, t.Any]) -> str | None:
        """The first of the names that is one for a host, None without one. Raises InputError where strict."""
        known = names_in_expressions(variables) if self._hostnames else {}
        for number, expression in enumerate(self._hostnames):
            value = self._value(f"hostnames[{number}]", expression, known)
            if isinstance(value, str) and _HOST_NAME.fullmatch(value):
                return str(value)
        return None

    def warnings(self) -> list[str]:
        """What is to be said of expressions that could not be evaluated."""
        found = []
        for place, machines in self._failures.items():
            others = f" and {len(machines) - 1} more" if len(machines) > 1 else ""
            found.append(f"{place} cannot be evaluated for machine {machines[0]}{others}, and has no value there")
        return found

    def _value(self, place: str, expression: t.Any, known: Mapping[str, t.Any]) -> t.Any:
        if isinstance(expression, bool):
            return expression
        try:
            return self._evaluate(expression, known)
        except Exception as exc:  # whatever a template may raise
            if self._strict:
                raise InputError(f"cannot be evaluated for machine {known.get('name')}: {exc}", where=place) from exc
            self._failures.setdefault(place, []).append(f"{known.get('name')} ({exc})")
            return None
