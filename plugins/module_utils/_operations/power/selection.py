# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines of a hypervisor a task means. Asks nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..._base.errors import InputError, Mistakes, NotFoundError, one_of_these
from .view import PowerView


@dataclass(frozen=True)
class PowerSelection:
    """What selects machines; what is None selects nothing by itself, and the rest narrow each other.

    tags: a machine has one of them. everything: all machines. only_pending: those that wait for power off and on.
    """

    names: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    states: Sequence[str] | None = None
    everything: bool = False
    only_pending: bool = False

    def check(self) -> None:
        """Raise InputError when nothing selects."""
        if not self.everything and self.names is None and self.tags is None and self.states is None:
            raise InputError("no machine is selected", hint="Give name, tag, in_state, or all: true")

    def apply(self, machines: Sequence[PowerView]) -> list[PowerView]:
        """Those that are meant. Raises NotFoundError with a line for each name that does not exist.

        One that could not be read may be meant, and so it is, unless its name says that it is not.
        """
        known = {machine.name for machine in machines}
        mistakes = Mistakes()
        for name in self.names or ():
            with mistakes.noted():
                if name not in known:
                    raise NotFoundError(
                        f"there is no machine {name!r} on this hypervisor", where="name", hint=one_of_these(name, known)
                    )
        mistakes.conclude()
        return [machine for machine in machines if self._means(machine)]

    def _means(self, machine: PowerView) -> bool:
        if self.names is not None and machine.name not in self.names:
            return False
        if machine.error is not None:
            return True
        return (
            (self.tags is None or any(tag in machine.tags for tag in self.tags))
            and (self.states is None or machine.state in self.states)
            and (not self.only_pending or bool(machine.pending))
        )
