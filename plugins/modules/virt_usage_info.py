#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: who uses volumes that another hypervisor is about to delete or to attach."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_usage_info
short_description: List who uses volumes that another hypervisor is about to delete or to attach
version_added: "1.0.0"
description:
  - Says which machines and volumes of this hypervisor use volumes in storage that it shares with another hypervisor,
    which is about to delete them (M(brine.virt.virt_purge), M(brine.virt.virt_restore)) or to give them to a machine
    (M(brine.virt.virt_init)). Nothing is changed.
  - A machine uses a volume if it has it in its persistent or its live definition, in a snapshot, a checkpoint or a
    backup, or in its metadata. An overlay uses what it is backed by.
  - A file is recognised by its inode number, which is the same on all hosts of a network or cluster file system, and by
    its name; either is enough. On a file system that no other host has, the inode number says nothing, and does not
    count. A volume of a cluster (Ceph RBD) is recognised by its place there, and a LUN (iSCSI, Fibre Channel) by its
    serial number, or by its target and number where the serial numbers do not say that these are two LUNs. So it does
    not matter what the pools are called, or where they are mounted.
  - A LUN, or a volume of Ceph that the kernel has mapped, is also used by the host itself where that has it mounted, as
    swap, or in LVM or RAID. That multipath has a map of it is no use. A file is used by the host itself where that has
    it as a loop device (C(losetup)), or as a device of C(qemu-nbd).
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._attributes.info_module
  - brine.virt._root
  - brine.virt._uri
options:
  volumes:
    description:
      - The volumes in question, as M(brine.virt.virt_purge) returned them on the hypervisor that is going to delete
        or attach them, in RV(brine.virt.virt_purge#module:machines[].shared), or M(brine.virt.virt_init) in
        RV(brine.virt.virt_init#module:shared), or M(brine.virt.virt_restore) in
        RV(brine.virt.virt_restore#module:shared).
    type: list
    elements: dict
    required: true
    suboptions:
      pool:
        description: Name of the storage pool on that hypervisor.
        type: str
        required: true
      volume:
        description: Name of the volume.
        type: str
        required: true
      place:
        description: Its path there; or, for network storage, the protocol and the name, such as V(rbd:pool/volume).
        type: str
        required: true
      inode:
        description: The inode number of its file. Without it, it is unknown whether a file is used here.
        type: int
      serial:
        description:
          - The serial number of its LUN, or of another device. Without it, a LUN is recognised by its path if that is
            in C(/dev/disk/by-id) or begins with C(/dev/disk/by-path/ip-); otherwise it is unknown whether it is used
            here.
        type: str
seealso:
  - module: brine.virt.virt_purge
  - module: brine.virt.virt_init
"""

EXAMPLES = r"""
---
- name: Ask the hypervisor of web1 what would go
  brine.virt.virt_purge:
    name: web1
  check_mode: true
  delegate_to: hv1
  run_once: true
  register: found

- name: Ask the others who uses these volumes
  brine.virt.virt_usage_info:
    volumes: "{{ found.machines[0].shared }}"
  when: inventory_hostname != 'hv1'
  register: others

- name: Remove web1
  brine.virt.virt_purge:
    name: web1
    used_elsewhere:
      hv2: "{{ hostvars['hv2'].others | default('it was not asked') }}"
  when: inventory_hostname == 'hv1'
"""

RETURN = r"""
volumes:
  description: The answer for each volume, for O(brine.virt.virt_purge#module:used_elsewhere).
  returned: success
  type: list
  elements: dict
  contains:
    pool:
      description: Name of the storage pool, as it was asked.
      type: str
      returned: always
      sample: nfs
    volume:
      description: Name of the volume, as it was asked.
      type: str
      returned: always
      sample: web1-system.qcow2
    users:
      description: Who uses it here. Brackets say what speaks for it, where that is not certain.
      type: list
      elements: str
      returned: always
      sample: [machine web2]
    unknown:
      description: What could not be checked here.
      type: list
      elements: str
      returned: always
      sample: []
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module, require_root
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes.users import users_of_shared
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes.volume import read_shared_volumes

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "volumes": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "pool": {"type": "str", "required": True},
            "volume": {"type": "str", "required": True},
            "place": {"type": "str", "required": True},
            "inode": {"type": "int"},
            "serial": {"type": "str"},
        },
    },
}


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Ask this hypervisor."""
    params = module.params
    # Others' files cannot be read, and what is in them cannot be told then.
    require_root("virt_usage_info", params["uri"])
    asked = read_shared_volumes(params["volumes"], "volumes")
    with open_connection(params["uri"]) as conn:
        return {"changed": False, "volumes": users_of_shared(conn, asked)}


def main() -> None:
    finish(make_module(ARGUMENTS), work)


if __name__ == "__main__":
    main()
