# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters brine.virt.decide_claims and brine.virt.last_seen."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping

from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.brine.virt.plugins.plugin_utils._inventory.known_hosts import last_seen
from ansible_collections.brine.virt.plugins.plugin_utils._placement.claims import decide_claims


def decide_claims_filter(plan: t.Any, claims: t.Any, seen: t.Any, last: t.Any = False) -> dict[str, t.Any]:
    """What becomes of a run's claims; decide_claims.yml describes it."""
    for value, name in ((plan, "the input"), (claims, "claims"), (seen, "seen")):
        if not isinstance(value, Mapping):
            raise AnsibleFilterError(f"brine.virt.decide_claims: {name} is not a mapping")
    return decide_claims(plan, claims, seen, last=boolean(last))


def last_seen_filter(variables: t.Any, known_hosts: t.Any = "") -> dict[str, list[str]]:
    """Where machines are known by the inventory and by the file of host keys; last_seen.yml describes it."""
    if not isinstance(variables, Iterable) or isinstance(variables, (str, Mapping)):
        raise AnsibleFilterError("brine.virt.last_seen: the input is not a list of the variables of hosts")
    found = last_seen(str(known_hosts or "").splitlines())
    for host in variables:
        name, hypervisor = host.get("virt_name"), host.get("virt_hypervisor")
        if name and hypervisor and hypervisor not in found.setdefault(name, []):
            found[name].append(hypervisor)
    return found


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {"decide_claims": decide_claims_filter, "last_seen": last_seen_filter}
