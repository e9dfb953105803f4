# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines are there already, as far as the controller knows; what they have, their hypervisors know."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing, FindExisting


def find_existing(hosts: t.Any, homes: t.Any, last_seen: t.Any) -> FindExisting:
    """The machines that are on a hypervisor which answered, or were on one that does not answer or is not asked.

    hosts, homes, last_seen: as in place. What an unfinished run has left is recreated, and counts as not there.
    """
    answered = {name: facts for name, facts in _items(hosts) if isinstance(facts, Mapping)}
    found = {
        str(machine["name"])
        for facts in answered.values()
        for machine in facts.get("machines") or ()
        if not machine.get("building")
    }
    unseen = {str(name) for name, host in _items(homes) if host not in answered}
    unseen |= {str(name) for name, seen in _items(last_seen) if any(host not in answered for host in seen)}

    def find(name: str) -> Existing | None:
        return Existing() if name in found or name in unseen else None

    return find


def _items(value: t.Any) -> t.Iterable[tuple[t.Any, t.Any]]:
    """Of a mapping; what is none is complained of elsewhere."""
    return value.items() if isinstance(value, Mapping) else ()
