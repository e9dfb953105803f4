#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_profile_info
short_description: Show what disk and nic profiles expand to
version_added: "0.1.0"
description:
  - Shows the disks and nics that a machine would get from its profiles and its own overrides, in the words of
    M(brine.virt.virt_init), with every default in it that does not depend on the hypervisor.
  - Asks no hypervisor and changes nothing, so that it can run anywhere, also on the controller.
author: brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._attributes.info_module
attributes:
  action_group:
    support: none
    membership: []
options:
  name:
    description: Name of the machine. MAC addresses that nobody named are made from it.
    type: str
    default: machine
  image:
    description: Image for the first disk.
    type: str
  disk_profile:
    description: Name of the disk profile, as in M(brine.virt.virt_init).
    type: str
    default: default
    aliases: [disk]
  disk_profiles:
    description: Disk profiles by name, as in M(brine.virt.virt_init).
    type: dict
    default: {}
  disks:
    description: Disks laid over the profile's, as in M(brine.virt.virt_init).
    type: raw
  nic_profile:
    description: Name of the nic profile, as in M(brine.virt.virt_init).
    type: str
    default: default
    aliases: [nic]
  nic_profiles:
    description: Nic profiles by name, as in M(brine.virt.virt_init).
    type: dict
    default: {}
  nics:
    description: Nics laid over the profile's, as in M(brine.virt.virt_init).
    type: raw
    aliases: [interfaces]
seealso:
  - module: brine.virt.virt_init
"""

EXAMPLES = r"""
---
- name: What a database would get
  brine.virt.virt_profile_info:
    name: db1
    disk_profile: database
    disk_profiles: "{{ virt_disk_profiles }}"
    disks:
      - {name: data, size: 60GiB}
  delegate_to: localhost
  register: expanded

- name: Show it
  ansible.builtin.debug:
    var: expanded.disks
"""

RETURN = r"""
disks:
  description: The disks, in their order. What is null is decided by the hypervisor's storage pool.
  returned: always
  type: list
  elements: dict
  sample: [{"name": "system", "size_mib": 8192, "pool": "default", "model": "virtio", "device": "disk"}]
nics:
  description: The nics, in their order.
  returned: always
  type: list
  elements: dict
  sample: [{"name": "eth0", "type": "bridge", "source": "br0", "model": "virtio", "mac": "52:54:00:0a:1b:2c"}]
"""

import dataclasses
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._arguments import finish
from ansible_collections.brine.virt.plugins.module_utils._model.as_text import plain
from ansible_collections.brine.virt.plugins.module_utils._model.spec import read_machine


def expand(params: dict[str, t.Any]) -> dict[str, t.Any]:
    """The devices of a machine that has these profiles and overrides."""
    keys = ("name", "image", "disk_profile", "disks", "nic_profile", "nics")
    wish = {key: params[key] for key in keys if params[key] is not None}
    machine = read_machine(
        # What every machine needs, and what has nothing to do with its devices.
        {**wish, "vcpus": 1, "memory": 1},
        disk_profiles=params["disk_profiles"],
        nic_profiles=params["nic_profiles"],
    )
    return {
        "changed": False,
        "disks": [_shown(disk) for disk in machine.disks if disk.present],
        "nics": [_shown(nic) for nic in machine.nics if nic.present],
    }


def _shown(device: t.Any) -> dict[str, t.Any]:
    """A device with its options among its own words."""
    values = dataclasses.asdict(device)
    options = values.pop("options")
    del values["present"]
    return dict(plain({**values, **options}))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "default": "machine"},
            "image": {"type": "str"},
            "disk_profile": {"type": "str", "default": "default", "aliases": ["disk"]},
            "disk_profiles": {"type": "dict", "default": {}},
            "disks": {"type": "raw"},
            "nic_profile": {"type": "str", "default": "default", "aliases": ["nic"]},
            "nic_profiles": {"type": "dict", "default": {}},
            "nics": {"type": "raw", "aliases": ["interfaces"]},
        },
        supports_check_mode=True,
    )
    finish(module, lambda: expand(module.params))


if __name__ == "__main__":
    main()
