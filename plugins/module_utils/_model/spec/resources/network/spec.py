# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec for a libvirt network: what a task asks for, checked together with what is there."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field

from ....._base.errors import ConflictError, InputError
from ...fields import validators
from ...fields.given import GivenOptions
from ...fields.table import Values, rules_beside
from .checks import check_whole
from .table import MODES, NETWORK, OWN_BRIDGE

STATES = ("active", "inactive", "absent")
RESTARTS = ("if_unused", "never")
# Beside what stands in the XML.
NETWORK_RULES: dict[str, validators.Rule] = {
    "name": validators.name,
    "state": validators.choice(*STATES),
    "autostart": validators.yes_or_no,
    "restart": validators.choice(*RESTARTS),
}
NETWORK_WORDS = (*NETWORK_RULES, *(item.key for item in NETWORK))


@dataclass(frozen=True)
class NetworkSpec:
    """One network. options: what the task names of its XML; whole: these together with what is there already."""

    name: str
    state: str = "active"
    autostart: bool = True
    restart: str = "if_unused"
    options: Values = field(default_factory=dict)
    whole: Values = field(default_factory=dict)
    given: GivenOptions = field(default=GivenOptions({}), compare=False, repr=False)


def read_network(given: GivenOptions, have: t.Callable[[str], Mapping[str, t.Any] | None]) -> NetworkSpec:
    """A network by its rules. Raises InputError, and ConflictError for another kind of network than the one there.

    have: of a network's name, what its definition says (read_xml), None for a new one. What is the same is accepted,
    whatever it is, and what is not named stays as it is.
    """
    name = validators.name(given.values["name"], given.at("name")) if given.values.get("name") is not None else None
    if name is None:
        raise InputError("is missing", where=given.at("name"), hint="Give the name of the network")
    there = have(name)
    options = given.read(rules_beside(NETWORK_RULES, NETWORK, there))
    own = {key: options.pop(key) for key in NETWORK_RULES if key in options}
    if own.get("state") == "absent":
        return NetworkSpec(**own, given=given)
    if there is None and "mode" not in options:
        raise InputError(
            f"the network {name} is new, and has no mode",
            where=given.at("mode"),
            hint=f"Choose one of {', '.join(MODES)}",
        )
    if there is not None:
        _refuse_other_kind(name, there["mode"], options.get("mode", there["mode"]), given.at("mode"))
    whole = merged(there or {}, options)
    check_whole(options, whole, given.at)
    return NetworkSpec(**own, options=options, whole=whole, given=given)


def merged(have: Mapping[str, t.Any], named: Mapping[str, t.Any]) -> Values:
    """What is there with the named options laid over it, group by group; lists are replaced."""
    groups = {
        key: merged(have[key], value)
        for key, value in named.items()
        if isinstance(value, Mapping) and isinstance(have.get(key), Mapping)
    }
    return {**have, **named, **groups}


def _refuse_other_kind(name: str, have: str, want: str, where: str) -> None:
    if have != want and (have in OWN_BRIDGE) != (want in OWN_BRIDGE):
        raise ConflictError(
            f"the network {name} is of mode {have}, the task asks for {want}",
            where=where,
            hint="Its bridge and addresses would have to go: remove it first (state: absent), or choose another name",
        )
