#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: the CPU that all hypervisors can give their machines."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_cpu_baseline
short_description: Find the CPU that all hypervisors can give their machines
version_added: "1.0.0"
description:
  - Finds the best CPU that machines can have on each of several hypervisors, so that they can move between them while
    running.
  - Libvirt on the hypervisor that this runs on computes it from the data about all of them in O(cpus). No other
    hypervisor is asked, and nothing is changed.
  - Run it on the hypervisor with the oldest libvirt. Features that this libvirt does not know are left out, and named
    in RV(missing), so that all of them understand the result.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._attributes.info_module
  - brine.virt._uri
options:
  cpus:
    description:
      - By the name of each hypervisor, the CPU that it can offer, which M(brine.virt.virt_host_info) with C(guest_cpu)
        returns as C(guest_cpu).
      - They must be of the same architecture, kind of virtualisation and vendor; otherwise running machines cannot move
        between them.
    type: dict
    required: true
seealso:
  - module: brine.virt.virt_host_info
  - module: brine.virt.virt_init
"""

EXAMPLES = r"""
---
- name: Ask all hypervisors
  brine.virt.virt_host_info:
    guest_cpu: true
  register: hypervisor

- name: Find what they have in common
  brine.virt.virt_cpu_baseline:
    cpus: "{{ dict(ansible_play_hosts | zip(guest_cpus)) }}"
  vars:
    guest_cpus: "{{ ansible_play_hosts | map('extract', hostvars, ['hypervisor', 'host', 'guest_cpu']) }}"
  run_once: true
  register: fleet

- name: Create a machine that can move to each of them
  brine.virt.virt_init:
    name: web1
    vcpus: 2
    memory: 1024
    image: debian
    cpu: "{{ fleet.cpu }}"
  run_once: true
"""

RETURN = r"""
cpu:
  description: The common CPU, as M(brine.virt.virt_init) accepts it in C(cpu) and in C(default_cpu).
  returned: success
  type: dict
  sample:
    mode: custom
    match: exact
    model: Haswell-noTSX
    vendor: Intel
    features: {vme: require, avx2: disable}
missing:
  description: By hypervisor, the features that it has not but another one has. They are not part of the baseline.
  returned: success
  type: dict
  sample:
    hv1: []
    hv2: [avx512f, avx512vl]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.cpu_baseline import find_baseline
from ansible_collections.brine.virt.plugins.module_utils._model.xml.guest_cpu_facts import read_guest_cpu
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The common CPU."""
    cpus = {str(host): read_guest_cpu(cpu, f"cpus.{host}") for host, cpu in module.params["cpus"].items()}
    # libvirt refuses this on a read-only connection.
    with open_connection(module.params["uri"]) as conn:
        found = find_baseline(conn, cpus)
    return {
        "changed": False,
        "cpu": found.cpu.as_option(),
        "missing": {host: list(features) for host, features in found.missing.items()},
    }


def main() -> None:
    finish(make_module({"cpus": {"type": "dict", "required": True}}), work)


if __name__ == "__main__":
    main()
