# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's name is only one machine's where one hypervisor has it."""

from __future__ import annotations

from collections.abc import Sequence

from ..module_utils._base.errors import InputError


def one_home(name: str, homes: Sequence[str], where: str = "vm", option: str = "-e on=") -> str | None:
    """The hypervisor that has a machine of this name, of those that have one; None where there is none.

    Raises InputError when there are several: nothing is done to one of them by chance. where: the option that names it.
    option: how the user says which hypervisor is meant.
    """
    if len(homes) > 1:
        raise InputError(
            f"there is a machine {name!r} on each of {', '.join(homes)}",
            where=where,
            hint=f"Say which one: {option}{homes[0]}; or wait, if it is being moved",
        )
    return homes[0] if homes else None
