# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.machine_hosts."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.plugin_utils._inventory.machine_hosts import machine_hosts


def machine_hosts_filter(records: t.Any, assignments: t.Any, hosts: t.Any, groups: t.Any) -> list[dict[str, t.Any]]:
    """Which host each machine is; machine_hosts.yml describes it."""
    for value, name in ((records, "the input"), (hosts, "hosts"), (groups, "groups")):
        if not isinstance(value, Mapping):
            raise AnsibleFilterError(f"brine.virt.machine_hosts: {name} is not a mapping")
    return machine_hosts(records, assignments, hosts, groups)


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {"machine_hosts": machine_hosts_filter}
