# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state that a machine is to be in, and the older option for it, ``start``."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError
from .fields.given import GivenOptions

RUNNING, STOPPED, PRESENT, ABSENT = "running", "stopped", "present", "absent"
STATES = (RUNNING, STOPPED, PRESENT, ABSENT)


def take_start(given: dict[str, t.Any], options: GivenOptions) -> None:
    """Turn the option start into a state: true is running, false is present.

    given: the values as read, where it happens; options: where they come from. Raises InputError where the two options
    contradict each other. ``start: false`` contradicts only running: it is what is not to be started.
    """
    start = given.pop("start", None)
    if start is None:
        return
    state = given.setdefault("state", RUNNING if start else PRESENT)
    if start != (state == RUNNING):
        raise InputError(
            f"start: {'true' if start else 'false'} contradicts {options.at('state')}: {state}",
            where=options.at("start"),
            hint="Leave out start",
        )


def yielding_state(defaults: GivenOptions, own: GivenOptions) -> GivenOptions:
    """The defaults of a list of machines without what one of them says itself by the other of the two options."""
    if own.values.get("state") is not None:
        return defaults.without(["start"])
    return defaults.without(["state"]) if own.values.get("start") is not None else defaults
