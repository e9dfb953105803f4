# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter: the inventory variables of a machine."""

from __future__ import annotations

DOCUMENTATION = r"""
---
name: host_vars
short_description: Get the inventory variables of a machine
version_added: "1.0.0"
description:
  - Turns the record of a machine, as M(brine.virt.virt_info) returns it, into the variables that the inventory plugin
    P(brine.virt.domains#inventory) would set for its host.
author:
  - brine.virt maintainers (@brine-virt)
positional: hypervisor
options:
  _input:
    description: The record of one machine.
    type: dict
    required: true
  hypervisor:
    description: Name of the hypervisor that the machine is on.
    type: str
    required: true
  uri:
    description: The libvirt connection to that hypervisor.
    type: str
    default: qemu:///system
  known_hosts:
    description:
      - The file that SSH finds the machine's host keys in. The filter does not write it.
      - Empty means that SSH is left as it is.
    type: str
    default: ~/.ssh/known_hosts.d/brine-virt
  trust_guest_addresses:
    description:
      - Whether to use an address that only the guest claims although none of its host keys is known, like the option of
        the same name of P(brine.virt.domains#inventory).
    type: bool
    default: false
  ssh_args:
    description:
      - The value of C(ansible_ssh_args) for the machine without this collection. If it would keep SSH from finding the
        machine's host keys, the result has an C(ansible_ssh_args) with the collection's arguments first.
      - The default is the value in Ansible's configuration.
    type: str
seealso:
  - plugin: brine.virt.domains
    plugin_type: inventory
"""

EXAMPLES = r"""
---
- name: Ask for one machine
  brine.virt.virt_info:
    name: web1
  register: found

- name: Show how it would be reached
  ansible.builtin.debug:
    msg: "{{ found.machine | brine.virt.host_vars(inventory_hostname) }}"
  when: found.machine is not none
"""

RETURN = r"""
_value:
  description: The variables.
  type: dict
  sample: {ansible_host: 192.0.2.17, ansible_user: ansible, virt_name: web1, virt_state: running}
"""

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.brine.virt.plugins.module_utils._host.connection import DEFAULT_URI
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.connection_vars import ConnectionVars, ssh_options
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.host_vars import (
    DEFAULT_KNOWN_HOSTS,
    host_vars,
    known_hosts_path,
    ssh_args_with_ours_first,
)


def host_vars_filter(
    record: t.Any,
    hypervisor: str,
    uri: str = DEFAULT_URI,
    known_hosts: str | None = DEFAULT_KNOWN_HOSTS,
    trust_guest_addresses: t.Any = False,
    ssh_args: str | None = None,
) -> dict[str, t.Any]:
    """See the documentation above."""
    if not isinstance(record, Mapping) or not {"name", "uuid", "state"} <= record.keys():
        raise AnsibleFilterError(
            "brine.virt.host_vars: the input is not the record of a machine. Give what virt_info returned as machine"
        )
    variables = host_vars(
        record,
        hypervisor=hypervisor,
        uri=uri,
        known_hosts=known_hosts_path(known_hosts),
        trust_guest_addresses=boolean(trust_guest_addresses),
    )
    own = variables.get("ansible_ssh_common_args")
    if own:
        configured = ssh_options(ConnectionVars({}, None), ("ssh_args", "host_key_checking"))
        other = configured["ssh_args"] if ssh_args is None else ssh_args
        first = ssh_args_with_ours_first(own, other, configured["host_key_checking"])
        if first is not None:
            variables["ansible_ssh_args"] = first
    return variables


class FilterModule:
    """The filter by name."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """What Ansible asks for."""
        return {"host_vars": host_vars_filter}
