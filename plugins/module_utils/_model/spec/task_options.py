# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a machine out of those of a module."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

# A null in these is no profile. In all other options Ansible cannot tell a null from what nobody named; in these it
# cannot tell the default, which is the name of a profile. So that is taken for not named.
_NULL_SAYS = ("disk_profile", "nic_profile")


def named_options(
    arguments: Mapping[str, Mapping[str, t.Any]], params: Mapping[str, t.Any], names: t.Iterable[str]
) -> dict[str, t.Any]:
    """The options of these names that a task has, in the user's own spelling.

    arguments: the argument spec; params: what Ansible made of the task, which leaves an alias beside the option.
    """
    found = {}
    for name in names:
        is_named = params[name] != arguments[name].get("default") if name in _NULL_SAYS else params[name] is not None
        if is_named:
            spelling = next((alias for alias in arguments[name].get("aliases", ()) if alias in params), name)
            found[spelling] = params[name]
    return found
