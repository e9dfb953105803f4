#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_profile_info
short_description: Show what disk and nic profiles expand to
version_added: "1.0.0"
description:
  - Shows the disks and nics that a machine would get from its profiles and its own overrides, in the format of
    M(brine.virt.virt_init), including every default that does not depend on the hypervisor. Together with
    O(disk_profile=none) and O(nic_profile=none) they result in the same machine.
  - Contacts no hypervisor and changes nothing, so it can run anywhere, including on the controller.
  - >-
    Passwords and tokens in addresses, such as a disk's C(source), are removed from the options on the controller
    and sent in one hidden option. In what is returned and logged, they are replaced by asterisks.
author: brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes.no_group
  - brine.virt._attributes
  - brine.virt._attributes.info_module
options:
  name:
    description: Name of the machine. MAC addresses that are not given are derived from it.
    type: str
    default: machine
  image:
    description: Image for the first disk.
    type: str
  clone:
    description: How disks are created from an image, as in M(brine.virt.virt_init).
    type: str
    choices: [overlay, copy]
  enable_qcow:
    description: Salt's name for O(clone), V(true) for V(clone=overlay) and V(false) for V(clone=copy).
    type: bool
  disk_profile:
    description: Name of the disk profile, as in M(brine.virt.virt_init). Null, or V(none), means no profile.
    type: raw
    default: default
    aliases: [disk]
  disk_profiles:
    description: Disk profiles by name, as in M(brine.virt.virt_init).
    type: dict
    default: {}
  disks:
    description: Disks merged over the profile's, as in M(brine.virt.virt_init).
    type: raw
  nic_profile:
    description: Name of the nic profile, as in M(brine.virt.virt_init). Null, or V(none), means no profile.
    type: raw
    default: default
    aliases: [nic]
  nic_profiles:
    description: Nic profiles by name, as in M(brine.virt.virt_init).
    type: dict
    default: {}
  nics:
    description: Nics merged over the profile's, as in M(brine.virt.virt_init).
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
  description:
    - The disks, in order, as O(brine.virt.virt_init#module:disks) accepts them. What is missing depends on the
      hypervisor's storage pool.
  returned: always
  type: list
  elements: dict
  sample: [{"name": "system", "size": 8192, "pool": "default", "model": "virtio"}]
nics:
  description: The nics, in order, as O(brine.virt.virt_init#module:nics) accepts them.
  returned: always
  type: list
  elements: dict
  sample: [{"name": "eth0", "bridge": "br0", "model": "virtio", "mac": "52:54:00:0a:1b:2c"}]
"""

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._model.as_text import declared_disk, declared_nic
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._model.withheld import SecretOptions, opened
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_plain_module, named_options
from ansible_collections.brine.virt.plugins.module_utils._seeding.secret_values import has_secrets

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str", "default": "machine"},
    "image": {"type": "str"},
    "clone": {"type": "str", "choices": ["overlay", "copy"]},
    "enable_qcow": {"type": "bool"},
    "disk_profile": {"type": "raw", "default": "default", "aliases": ["disk"]},
    "disk_profiles": {"type": "dict", "default": {}},
    "disks": {"type": "raw"},
    "nic_profile": {"type": "raw", "default": "default", "aliases": ["nic"]},
    "nic_profiles": {"type": "dict", "default": {}},
    "nics": {"type": "raw", "aliases": ["interfaces"]},
}
_PROFILES = ("disk_profiles", "nic_profiles")


def expand(params: dict[str, t.Any]) -> dict[str, t.Any]:
    """The devices of a machine that has these profiles and overrides."""
    named = named_options(ARGUMENTS, params, [name for name in ARGUMENTS if name not in _PROFILES])
    machine = read_machine(
        # What every machine needs, and what has nothing to do with its devices.
        {**named, "vcpus": 1, "memory": 1024},
        disk_profiles=params["disk_profiles"],
        nic_profiles=params["nic_profiles"],
    )
    return {
        "changed": False,
        "disks": [{"name": disk.name, **declared_disk(disk)} for disk in machine.disks if disk.present],
        "nics": [{"name": nic.name, **declared_nic(nic)} for nic in machine.nics if nic.present],
    }


def main() -> None:
    module = make_plain_module(ARGUMENTS, secrets=SecretOptions(left_in=has_secrets))
    finish(module, lambda module: expand(opened(module.params)))


if __name__ == "__main__":
    main()
