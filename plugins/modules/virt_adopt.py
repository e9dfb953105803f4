#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: take machines that somebody else made into the collection."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_adopt
short_description: Adopt machines that were not created by this collection
version_added: "1.0.0"
description:
  - Writes the metadata of this collection into machines that somebody has made with virsh, virt-install, virt-manager
    or anything else. From then on they are updated, moved, purged and listed like machines that
    M(brine.virt.virt_init) has created.
  - Nothing else changes. In the definition only the metadata is different afterwards, autostart stays as it is, and a
    machine that is running keeps running.
  - The metadata gives each disk the name of its target device, such as V(vda), and the nics the names V(eth0), V(eth1)
    and so on, in their order. These are the names to use in O(brine.virt.virt_init#module:disks) and
    O(brine.virt.virt_init#module:nics). The entry that describes an adopted machine is what
    M(brine.virt.virt_spec_info) returns.
  - What the collection creates together with a machine is missing. There is no seed and no image to compare with, and
    no host key of the guest is known. An address that only the guest claims is therefore not used, unless
    O(brine.virt.domains#inventory:trust_guest_addresses) is set.
  - The volumes of the machine stay what they are. M(brine.virt.virt_purge) keeps them and M(brine.virt.virt_migrate)
    leaves them on the source, except those in O(disks), which become the machine's own.
  - A machine is refused if it is not defined, if it is being created or moved by a run of this collection, or if its
    state is saved, as it would resume without the metadata.
  - Whether a machine may be adopted is decided without holding the hypervisor's lock. It is checked again under the
    lock, and if something has changed that matters, the task fails and this machine is not adopted.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._lock
  - brine.virt._root
  - brine.virt._uri
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - A machine of this collection is left unchanged, unless O(disks) names a volume that is not its own yet.
options:
  name:
    description:
      - Names of the machines. They are taken literally; there are no patterns. An empty list is an error.
      - All of them are checked before the first one is adopted. One that cannot be adopted is named, and the others
        are adopted.
    type: list
    elements: str
    required: true
    aliases: [vm]
  disks:
    description:
      - Disks whose volumes become the machine's own, by target (V(vda)) or by pool and volume
        (V(default/web1.qcow2)). They are deleted when the machine is purged, and at the source when it has moved.
      - Each has to be a disk that the machine can write to, in a storage pool and with the format raw or qcow2, and it
        has to be certain that nothing else uses it. Otherwise the machine is refused.
      - Only for one machine at a time.
    type: list
    elements: str
    default: []
seealso:
  - module: brine.virt.virt_spec_info
  - module: brine.virt.virt_init
  - module: brine.virt.virt_purge
  - module: brine.virt.virt_info
"""

EXAMPLES = r"""
---
- name: Show which volumes could become the machine's own
  brine.virt.virt_adopt:
    name: old1
  check_mode: true
  register: shown

- name: Adopt two machines, but none of their disks
  brine.virt.virt_adopt:
    name: [old1, old2]

- name: Adopt a machine with its first disk
  brine.virt.virt_adopt:
    name: old3
    disks: [vda]
"""

RETURN = r"""
machines:
  description: What happened to each machine; in check mode, what would happen to it.
  returned: always, unless the options are wrong
  type: list
  elements: dict
  contains:
    name:
      description: Name of the machine.
      type: str
      returned: always
      sample: old1
    changed:
      description: Whether it was adopted, or more of its volumes became its own.
      type: bool
      returned: always
      sample: true
    failed:
      description: Whether it could not be adopted.
      type: bool
      returned: always
      sample: false
    msg:
      description: Why it could not be adopted, and what to do.
      type: str
      returned: when it failed
      sample: the state of old1 is saved, and it would resume without the metadata. Start it first
    present:
      description: Whether there is a machine of this name.
      type: bool
      returned: always
      sample: true
    state:
      description: The state that it is in. It is null if it is not there, or was refused.
      type: str
      returned: always
      sample: running
    actions:
      description: What was done.
      type: list
      elements: str
      returned: always
      sample: [write the metadata of old1]
    disks:
      description: The disks of the machine, except empty drives, and whether their volumes are its own.
      type: list
      elements: dict
      returned: always
      contains:
        name:
          description: Name of the disk, or null if it has none.
          type: str
          returned: always
          sample: vda
        target:
          description: Target device of the disk.
          type: str
          returned: always
          sample: vda
        pool:
          description: The storage pool, or null for what is in no active one.
          type: str
          returned: always
          sample: default
        volume:
          description: Name of the volume, or a path if there is no pool.
          type: str
          returned: always
          sample: old1.qcow2
        own:
          description: Whether the volume is the machine's own after the adoption.
          type: bool
          returned: always
          sample: false
        reason:
          description: Why.
          type: str
          returned: always
          sample: disks does not name it. Nothing else uses it, so it can be named
    nics:
      description: The nics of the machine.
      type: list
      elements: dict
      returned: always
      contains:
        name:
          description: Name of the nic.
          type: str
          returned: always
          sample: eth0
        mac:
          description: MAC address of the nic.
          type: str
          returned: always
          sample: 52:54:00:6b:3c:58
    remarks:
      description: What to keep in mind about the adopted machine, such as earlier snapshots. Also shown as warnings.
      type: list
      elements: str
      returned: always
      sample: []
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.yaml_text import yaml_diff
from ansible_collections.brine.virt.plugins.module_utils._module import (
    answer_of_each,
    check_named_machines,
    finish,
    make_module,
    require_root,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.adopt.machines import (
    AdoptionResult,
    carry_out,
    plan_adoptions,
    preview,
)

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "list", "elements": "str", "required": True, "aliases": ["vm"]},
    "disks": {"type": "list", "elements": "str", "default": []},
    "lock_timeout": {"type": "int", "default": 300},
}


def as_diff(result: AdoptionResult) -> dict[str, t.Any]:
    """What is remembered of one machine, as a difference."""
    plan = result.plan
    sides = [
        notes
        and {
            "machine": result.name,
            "disks": [note.name for note in notes.disks],
            "nics": {note.name: note.mac for note in notes.nics},
            "volumes": [f"{note.pool}/{note.name}" for note in notes.volumes],
        }
        for notes in ((plan.known, plan.notes) if plan else ())
    ]
    return yaml_diff(result.name, *sides)


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Plan, act unless in check mode, and return the result for each machine."""
    params = module.params
    require_root("virt_adopt", params["uri"])
    check_named_machines(params, "adopt")
    with open_connection(params["uri"]) as conn:
        outcomes = plan_adoptions(conn, params["name"], params["disks"])
        if module.check_mode:
            preview(outcomes)
        else:
            carry_out(conn, outcomes, params["disks"], lock_seconds=params["lock_timeout"])
    results = [outcome.as_result() for outcome in outcomes]
    for remark in (remark for outcome in outcomes if outcome.done and outcome.plan for remark in outcome.plan.remarks):
        module.warn(remark)
    return answer_of_each(module, results, [as_diff(outcome) for outcome in outcomes if outcome.done])


def main() -> None:
    finish(make_module(ARGUMENTS), work)


if __name__ == "__main__":
    main()
