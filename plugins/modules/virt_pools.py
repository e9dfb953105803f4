#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: storage pools of a hypervisor."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_pools
short_description: Create storage pools on a hypervisor
version_added: "0.1.0"
description:
  - Creates storage pools of files, each in one directory, and makes sure that they are active and start with the host.
  - The role P(brine.virt.virt_hypervisor#role) calls it.
  - A pool that exists with another path or type is an error. No pool is ever moved, removed or changed in any other
    way.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._uri
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  pools:
    description: The pools.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the pool.
        type: str
        required: true
      path:
        description: Absolute path of its directory on the hypervisor. It is created if it is missing.
        type: str
        required: true
"""

EXAMPLES = r"""
---
- name: Create the two pools that brine.virt works with
  brine.virt.virt_pools:
    pools:
      - name: default
        path: /var/lib/libvirt/images
      - name: images
        path: /var/lib/libvirt/virt-images
"""

RETURN = r"""
pools:
  description: The pools of O(pools) as they are now, in check mode as they would be.
  returned: success
  type: list
  elements: dict
  sample:
    - {name: default, type: dir, path: /var/lib/libvirt/images, active: true, autostart: true}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pool_setup import PoolSpec, make_pool, plan_pools
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Make what is missing."""
    specs = [PoolSpec(name=pool["name"], path=pool["path"]) for pool in module.params["pools"]]
    with open_connection(module.params["uri"], read_only=module.check_mode) as conn:
        plan = plan_pools(conn, specs)
        if not module.check_mode:
            for step in plan:
                if step.changes:
                    make_pool(conn, step)
    after = [step.after() for step in plan]
    return {
        "changed": any(step.changes for step in plan),
        "pools": after,
        "diff": {"before": {"pools": [step.before() for step in plan]}, "after": {"pools": after}},
    }


def main() -> None:
    module = make_module(
        {
            "pools": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {"name": {"type": "str", "required": True}, "path": {"type": "str", "required": True}},
            }
        }
    )
    finish(module, lambda: work(module))


if __name__ == "__main__":
    main()
