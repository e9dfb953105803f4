# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup brine.virt.last_seen."""

from __future__ import annotations

DOCUMENTATION = r"""
name: last_seen
short_description: Find the hypervisors where machines were last seen
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Reads the variables that P(brine.virt.domains#inventory) gave to the hosts of the group C(virt_machines), and the
    file of host keys that it writes. The lines of a hypervisor that is no longer asked stay in that file.
  - Where the inventory comes from its cache and the file knows that a machine with host keys was moved since, the file
    counts.
  - The playbooks C(power), C(maintenance), C(snapshot), C(backup), C(restore) and C(purge) and the role
    P(brine.virt.virt_provision#role) use it.
options:
  _terms:
    description:
      - The file of host keys on the controller. If it is empty or left out, it is C(~/.ssh/known_hosts.d/brine-virt).
        Without the file, the inventory alone counts.
    type: list
    elements: path
seealso:
  - plugin: brine.virt.place
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Show where machines were last seen
  ansible.builtin.debug:
    msg: "{{ lookup('brine.virt.last_seen', virt_known_hosts | default('')) }}"
"""

RETURN = r"""
_raw:
  description: One mapping, of the names of machines to the hypervisors of each.
  type: list
  elements: dict
  sample: [{web1: [hv3]}]
"""

import os
import typing as t

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.brine.virt.plugins.plugin_utils._inventory.host_vars import DEFAULT_KNOWN_HOSTS
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.known_hosts import last_seen, moved_away, read_lines


class LookupModule(LookupBase):
    """Reads the inventory and a file of the controller."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[dict[str, list[str]]]:
        """Where they were; see RETURN."""
        self.set_options(var_options=variables, direct=kwargs)
        path = os.path.expanduser(str(next(filter(None, terms), DEFAULT_KNOWN_HOSTS)))
        try:
            lines = read_lines(path)
        except OSError as exc:
            raise AnsibleLookupError(f"brine.virt.last_seen: cannot read {path}: {exc.strerror}") from None
        found, gone = last_seen(lines), moved_away(lines)
        known = variables["hostvars"]
        for host in (known[name] for name in variables["groups"].get("virt_machines", [])):
            name, hypervisor = host.get("virt_name"), host.get("virt_hypervisor")
            # An inventory from its cache may be older than a move.
            if (hypervisor, host.get("virt_uuid")) in gone:
                continue
            if name and hypervisor and hypervisor not in found.setdefault(name, []):
                found[name].append(hypervisor)
        return [found]
