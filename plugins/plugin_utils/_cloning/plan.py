# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machine is cloned where, from what all hypervisors said of their machines. Pure."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...module_utils._base.errors import ConflictError, InputError, Mistakes, NotFoundError, one_of_these
from ...module_utils._model.spec.names import machine_name
from .._reports.table import printable_line
from .._reports.text import Records, machines_of, split_answers
from .entry import clone_entry

_OFF = "shutoff"
# The ways to seed a machine.
_METHODS = ("nocloud", "guestfs")


def plan_clone(results: t.Any, exports: t.Any, name: t.Any, new_name: t.Any, nics: t.Any = None) -> dict[str, t.Any]:
    """What is to be done, as the filter brine.virt.clone_plan returns it.

    results: registered results of virt_info by the hypervisors' names. exports: those of virt_spec_info, of the machine
    at least. name, new_name: of the machine and of its clone. nics: options of the clone's nics by the nics' names.
    Raises InputError with a line for each mistake.
    """
    machines, silent = machines_of(results)
    mistakes = Mistakes()
    wanted, home, clone = str(name), "", None
    with mistakes.noted():
        home = _find(wanted, machines)
        _check_off(wanted, home, machines[home])
    with mistakes.noted():
        new_name = machine_name(new_name, "new_name")
        _check_free(new_name, home, machines)
    for hypervisor, reason in silent.items():
        with mistakes.noted():
            raise ConflictError(printable_line(f"{hypervisor} {reason}, and it may have a machine {new_name!r}"))
    with mistakes.noted():
        if nics is not None and not isinstance(nics, Mapping):
            raise InputError(f"{nics!r} is not a mapping", where="nics", hint="Give {eth0: {addresses: [...]}}")
    with mistakes.noted():
        if home:
            found, given = _export(wanted, home, exports), nics if isinstance(nics, Mapping) else {}
            clone = clone_entry(found["entry"], found.get("not_exported") or [], str(new_name), given)
    mistakes.conclude()
    if clone is None:
        raise AssertionError("a machine without an entry is a mistake, noted above")
    record = next(record for record in machines[home] if record["name"] == wanted)
    method = (record.get("seed") or {}).get("method")
    if method in _METHODS:
        # No entry says how a machine was seeded. The guest would not look at another seed, and without one, where
        # virt_seed says that there is none, it has neither the keys of its users nor, mostly, SSH host keys.
        clone.entry["seed"] = {"method": method}
    # Whatever the hypervisor says: what it has is cloned there, and under the name that the user has given.
    own = {"name": new_name, "hypervisor": home}
    entry = {**own, **{key: value for key, value in clone.entry.items() if key not in own}}
    lines = [f"{new_name} is cloned from {wanted} on {home}:", *(f"  {remark}" for remark in clone.remarks)]
    return {
        "hypervisor": home,
        "entry": entry,
        "images": clone.images,
        "text": "\n".join(map(printable_line, lines)),
    }


def _find(name: str, machines: Mapping[str, Records]) -> str:
    homes = [host for host, records in machines.items() if name in [record["name"] for record in records]]
    if not homes:
        names = {record["name"] for records in machines.values() for record in records}
        raise NotFoundError(
            f"there is no machine {name!r} on {', '.join(machines) or 'any hypervisor that answered'}",
            where="vm",
            hint=one_of_these(name, names),
        )
    if len(homes) > 1:
        raise ConflictError(
            f"there is a machine {name!r} on each of {', '.join(homes)}",
            where="vm",
            hint="Rename one of them (virsh domrename)",
        )
    return str(homes[0])


def _check_free(new_name: str, home: str, machines: Mapping[str, Records]) -> None:
    """The clone itself, half made on its hypervisor by an interrupted run, is finished by this one."""
    for host, records in machines.items():
        for record in records:
            if record["name"] == new_name and not (host == home and record.get("building")):
                raise ConflictError(
                    f"there is a machine {new_name!r} on {host} already",
                    where="new_name",
                    hint="Choose another name, or remove that machine with brine.virt.purge",
                )


def _check_off(name: str, home: str, records: Records) -> None:
    record = next(record for record in records if record["name"] == name)
    power = f"brine.virt.power -e vm={name}"
    if record["state"] != _OFF:
        raise ConflictError(
            f"machine {name} on {home} is {record['state']}, and what is on its disks now may be half-written",
            where="vm",
            hint=f"Shut it down first: {power} -e state=stopped",
        )
    if record.get("saved"):
        raise ConflictError(
            f"the state of machine {name} on {home} is saved, and part of what its disks should have is in there",
            where="vm",
            hint=f"Start it and shut it down: {power} -e state=running, and then -e state=stopped",
        )


def _export(name: str, home: str, exports: t.Any) -> Mapping[str, t.Any]:
    answered, silent = split_answers(exports, "machines")
    if home in silent:
        raise ConflictError(printable_line(f"{home} {silent[home]}"))
    found = [machine for machine in answered.get(home, []) if machine["name"] == name]
    if not found:
        raise NotFoundError(f"machine {name} is not on {home} any more", where="vm", hint="Run it again")
    if not found[0].get("entry"):
        raise ConflictError(printable_line(f"machine {name} cannot be cloned: {found[0].get('msg')}"), where="vm")
    return dict(found[0])
