#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: machines as the entries that would make them."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_spec_info
short_description: Export machines as the entries of virt_vms that would create them
version_added: "1.0.0"
description:
  - Returns each machine of the hypervisor as an entry for C(virt_vms) or for
    O(brine.virt.virt_init#module:machines), whoever created it. It changes nothing.
  - If a machine belongs to this collection, M(brine.virt.virt_init) with its entry reports no change. If it does not,
    M(brine.virt.virt_adopt) has to adopt it first; the names of disks and nics in the entry are those that it gives.
  - The entry describes the definition of the machine. It leaves out options whose value a new machine on this
    hypervisor would get anyway. A change that is pending until power off and on is in it as if it had taken effect.
  - A disk whose volume is the machine's own is in the entry with its size, and would be created again. Any other disk
    is in it with its source, which would be used as it is. The content of disks is not exported.
  - What a machine has and no option can say is named in RV(machines[].not_exported). Secrets are never exported.
    Neither are UUIDs, addresses on buses, and controllers and the like that libvirt adds by itself.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._attributes.info_module
  - brine.virt._uri
options:
  name:
    description: Names of the machines. All machines if it is not set.
    type: list
    elements: str
    aliases: [vm]
seealso:
  - module: brine.virt.virt_adopt
  - module: brine.virt.virt_init
  - module: brine.virt.virt_info
"""

EXAMPLES = r"""
---
- name: Export a machine
  brine.virt.virt_spec_info:
    name: [web1]
  register: found

- name: Create a machine like it on another hypervisor, under another name
  brine.virt.virt_init:
    machines: "{{ found.machines | map(attribute='entry') | map('combine', {'name': 'web2'}) }}"
  delegate_to: hv2
"""

RETURN = r"""
machines:
  description: The machines, sorted by name.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the machine.
      type: str
      returned: always
      sample: web1
    uuid:
      description: UUID of the machine.
      type: str
      returned: always
      sample: 4a5e8c3e-6ad5-4c39-9d3b-9f1c8f3d1c55
    managed:
      description: Whether the machine belongs to this collection.
      type: bool
      returned: always
      sample: true
    entry:
      description: The machine as an entry of C(virt_vms), without its hypervisor. It is null if there is none
        (RV(machines[].msg)).
      type: dict
      returned: always
      sample:
        name: web1
        vcpus: 2
        memory: 1024
        disk_profile: none
        disks: [{name: system, size: 8192, image: debian-0123456789abcdef.qcow2}]
        nic_profile: none
        nics: [{name: eth0, bridge: br0}]
        tags: [web]
    not_exported:
      description: What the machine has and the entry does not say, one text each. It begins with an option, or with a
        path in the domain's XML.
      type: list
      elements: str
      returned: always
      sample: ["seed: only a hash of it is known; its user is ansible", devices/sound model=ich9]
    msg:
      description: Why there is no entry.
      type: str
      returned: if there is none
      sample: web2 is being created, or the run that created it was interrupted
missing:
  description: The names in O(name) that no machine has.
  returned: always
  type: list
  elements: str
  sample: []
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module
from ansible_collections.brine.virt.plugins.module_utils._operations.export.machines import MachineExports, check_names

ARGUMENTS: dict[str, dict[str, t.Any]] = {"name": {"type": "list", "elements": "str", "aliases": ["vm"]}}


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The entries of the machines."""
    names = module.params["name"]
    check_names(names)
    with open_connection(module.params["uri"]) as conn:
        machines = [result.as_result() for result in MachineExports(conn).results(names)]
    found = {machine["name"] for machine in machines}
    missing = [name for name in dict.fromkeys(names or ()) if name not in found]
    return {"changed": False, "machines": machines, "missing": missing}


def main() -> None:
    finish(make_module(ARGUMENTS), work)


if __name__ == "__main__":
    main()
