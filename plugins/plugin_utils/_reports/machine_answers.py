# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hypervisor has a machine that is named, from what a module said of it in check mode on all of them. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...module_utils._base.errors import InputError
from .._one_home import one_home
from .text import split_answers

Found = Mapping[str, Mapping[str, t.Any]]


def find_answers(results: t.Any, on: str | None = None) -> tuple[dict[str, Found], dict[str, str]]:
    """The machines that hypervisors spoke of, by their names; and why others said nothing.

    results: registered results of a module that was asked for machines by name, by the hypervisors' names. on: the only
    hypervisor that is meant. Raises InputError for what is no mapping, and for a hypervisor that there is not.
    """
    heard = results
    if isinstance(results, Mapping):
        heard = {hypervisor: _heard(result) for hypervisor, result in results.items()}
    answered, silent = split_answers(heard, "machines")
    found: dict[str, Found] = {
        host: {machine["name"]: machine for machine in machines} for host, machines in answered.items()
    }
    if on is None:
        return found, silent
    if on not in results:
        raise InputError(f"there is no hypervisor {on!r}", where="on", hint=f"Known: {', '.join(results)}")
    return (
        {hypervisor: machines for hypervisor, machines in found.items() if hypervisor == on},
        {hypervisor: reason for hypervisor, reason in silent.items() if hypervisor == on},
    )


def _heard(result: t.Any) -> dict[str, t.Any]:
    """One that has failed because of a machine has answered all the same; one that says nothing has not."""
    known = dict(result) if isinstance(result, Mapping) else {}
    if known.get("machines") is not None:
        return {"machines": known["machines"]}
    return {"msg": "no reason given", **known}


def find_home(name: str, answered: Mapping[str, Found], silent: Mapping[str, str]) -> str | None:
    """The hypervisor that has a machine of this name; None when none has it. Raises InputError where that is open."""
    home = one_home(name, [host for host, found in answered.items() if name in found and found[name].get("present")])
    if home is None and silent:
        reasons = "; ".join(f"{hypervisor}: {reason}" for hypervisor, reason in silent.items())
        where = f" on the hypervisors that answered ({', '.join(answered)})" if answered else ""
        raise InputError(f"machine {name!r} was not found{where}. {reasons}")
    return home
