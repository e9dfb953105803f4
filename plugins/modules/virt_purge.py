#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: remove machines with what they own."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_purge
short_description: Remove machines with the volumes that they own
version_added: "1.0.0"
description:
  - Removes machines from the hypervisor that this runs on. Only volumes that were created for the machine and that
    nothing else uses are deleted. Check mode lists every volume with what would happen to it and why.
  - A volume was created for a machine if the machine's metadata lists it. A volume of files has to bear the mark that
    it was given when it was created, so that another one that has been given its name is kept. Where there can be no
    mark (LVM, Ceph without its Python bindings), or none is known (a machine that has been moved), the machine has to
    have it as a disk, or libvirt has to have written the memory of the machine into it.
  - A volume is in use if any other machine has it in its persistent or its live definition, in a snapshot, a checkpoint
    or a backup, if an overlay is backed by it, if it has clones or snapshots of others in its Ceph cluster, or if
    another machine's metadata lists it. Where that cannot be determined (a storage pool that is not active or not
    mounted, a disk of another machine that is missing), the volume is kept. In a pool that other hypervisors may see,
    it is kept unless all of them were asked (O(used_elsewhere)), as the playbook C(brine.virt.purge) does.
  - Everything else is kept too, and named with the reason. This includes shared disks, ISO images, stored images,
    disks that are in no storage pool, and what another machine's disk is backed by.
  - With the machine go its UEFI variables (NVRAM), the state of its TPM, its saved state, and the metadata of its
    snapshots and checkpoints. NVRAM or the state of a TPM is kept, and named, if another machine has it too, or if the
    definition gives it another place than libvirt does by itself. The log of its serial console stays. The files of an
    external snapshot that M(brine.virt.virt_snapshot) has not taken stay as well, and are named; so is a file of any
    snapshot that is in no storage pool.
  - A machine whose name is only claimed, that is being moved, or that is running but not defined is refused.
  - Whether a machine may be removed is decided without holding the hypervisor's lock. It is checked again under the
    lock, and if something has changed that matters, the task fails and nothing of this machine is removed. A volume
    that was shown to stay is never deleted by the same run.
  - The volumes are deleted first, then the machine, as its metadata says which ones they are. If the run is
    interrupted, the next one finishes.
  - Nothing can be brought back. The machine's lines in the controller's file of host keys are removed when the live
    inventory is read the next time.
  - While it takes long, the play's output shows every few seconds what it is at. The lines are read over a second
    connection, if Ansible's connection is V(ssh) or V(local); over other connections, in check mode and with C(async)
    or C(no_log), no progress is shown.
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
      - Nothing is changed for a machine that does not exist.
options:
  name:
    description:
      - Names of the machines. They are taken literally; there are no patterns. An empty list is an error.
      - All of them are checked before the first one is removed, then they are removed one after the other. One that
        cannot be removed is named, and the others are removed. What is used by a machine of the same task is kept.
    type: list
    elements: str
    required: true
    aliases: [vm]
  force:
    description:
      - Power off a machine that is running or paused, at once unless O(stop=true). Without O(force) and O(stop), such a
        machine is refused.
      - It also discards the saved state of a machine whose disks are kept (O(keep_disks), O(adopt)). Without O(force),
        such a machine is refused too, because its disks would be left as after a power cut.
    type: bool
    default: false
  stop:
    description:
      - Shut down a machine that is running or paused before it is removed, through the guest agent if it answers, else
        with the power button (ACPI), as M(brine.virt.virt_power) does. Several are shut down in parallel.
      - It is an error if a machine has not shut down within O(stop_timeout), and nothing of it is removed. With
        O(force=true) it is powered off then.
    type: bool
    default: false
  stop_timeout:
    description: How many seconds an operating system may take to shut down (O(stop)), 1 at least.
    type: int
    default: 180
  keep_disks:
    description:
      - Keep all disks. The seed is deleted, as the guest stores nothing on it.
      - NVRAM and the state of the TPM are deleted as well. A disk whose key is in the TPM cannot be opened afterwards.
      - Not together with O(disks).
    type: bool
    default: false
  adopt:
    description:
      - Allow the removal of a machine that was not created by this collection. Its disks are kept, except those in
        O(disks).
    type: bool
    default: false
  disks:
    description:
      - Disks of the machine whose volumes are deleted as well, although the machine does not own them, by target
        (V(vda)) or by pool and volume (V(default/web1.qcow2)). One that is in no active storage pool is kept, and so
        is one that anything else uses.
      - Only for one machine at a time.
    type: list
    elements: str
    default: []
  used_elsewhere:
    description:
      - What the other hypervisors say about the volumes in RV(machines[].shared) of a run in check mode. For the name
        of each hypervisor, the registered result of M(brine.virt.virt_usage_info) there, or a sentence that says why
        there is none.
      - One hypervisor cannot see what the machines of another one use. In a pool that several may share (such as one of
        type C(netfs), C(rbd) or C(iscsi), or on a network or cluster file system, or in a directory that this one
        exports by NFS), no volume is deleted unless all others were asked and none of them uses it. An empty mapping
        says that there are no other hypervisors.
      - All hypervisors that have the storage have to be asked. They are not asked again when a volume is deleted.
    type: dict
seealso:
  - module: brine.virt.virt_init
  - module: brine.virt.virt_info
  - module: brine.virt.virt_image
  - module: brine.virt.virt_usage_info
    description: Asks the other hypervisors who uses volumes in shared pools.
  - module: brine.virt.virt_power
    description: Starts machines, and shuts them down without removing them.
"""

EXAMPLES = r"""
---
- name: Show what would go and what would stay
  brine.virt.virt_purge:
    name: web1
    force: true
  check_mode: true
  register: shown

- name: Remove two machines that are off
  brine.virt.virt_purge:
    name: [web1, web2]

- name: Remove a machine that is running, once its operating system has shut down
  brine.virt.virt_purge:
    name: web3
    stop: true

- name: Remove a machine, and keep its disks
  brine.virt.virt_purge:
    name: db1
    force: true
    keep_disks: true

- name: Remove a machine that somebody created by hand, with its first disk
  brine.virt.virt_purge:
    name: old1
    adopt: true
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
      sample: web1
    changed:
      description: Whether anything of it was removed.
      type: bool
      returned: always
      sample: true
    failed:
      description: Whether it could not be removed, or not in full.
      type: bool
      returned: always
      sample: false
    msg:
      description: Why it could not be removed, and what to do.
      type: str
      returned: when it failed
      sample: "web1 is running, so it is not removed. Set stop: true to have it shut down first, or force: true, which
        powers it off at once"
    obstacle:
      description:
        - What keeps it from being removed, where an option of this module allows it - V(active) (it is running or
          paused; O(stop), O(force)), V(unable) (its operating system cannot shut down; O(force)), V(saved) (its state
          is saved; O(force)), V(foreign) (it was not created by this collection; O(adopt)).
      type: str
      returned: when it was refused for one of these
      sample: active
    reason:
      description: Why it was refused, as in RV(machines[].msg) without what to do.
      type: str
      returned: with RV(machines[].obstacle)
      sample: web1 is running, so it is not removed
    present:
      description: Whether the machine was there before.
      type: bool
      returned: always
      sample: true
    similar:
      description: The machine of this hypervisor whose name is nearest, if the one asked for may be misspelled.
      type: list
      elements: str
      returned: when the machine was not there
      sample: [web1]
    state:
      description: The state that it was in. It is null if it was not there, or was refused.
      type: str
      returned: always
      sample: shutoff
    power:
      description:
        - How a machine that is running or paused is switched off before anything is deleted (O(stop), O(force)). It is
          null if the machine is off.
      type: str
      returned: always
      sample: shut down within 180 s, else power off
    actions:
      description: What was done, in order.
      type: list
      elements: str
      returned: always
      sample: [delete volume web1-system.qcow2 of pool default, undefine web1]
    snapshots:
      description: The snapshots of the machine, which are deleted with it.
      type: list
      elements: str
      returned: always
      sample: [before-upgrade]
    volumes:
      description: The volumes of the machine.
      type: list
      elements: dict
      returned: always
      contains:
        pool:
          description: The storage pool, or null for what is in no active one.
          type: str
          returned: always
          sample: default
        volume:
          description: Name of the volume, or a path if there is no pool.
          type: str
          returned: always
          sample: web1-system.qcow2
        action:
          description: V(delete) or V(keep).
          type: str
          returned: always
          sample: keep
        reason:
          description: Why.
          type: str
          returned: always
          sample: it is used by machine web2
    shared:
      description:
        - Those that were created for the machine, or that O(disks) names, in pools that other hypervisors may see; for
          O(brine.virt.virt_usage_info#module:volumes) on all the others.
      type: list
      elements: dict
      returned: always
      sample: [{pool: nfs, volume: web1-system.qcow2, place: /srv/nfs/web1-system.qcow2, inode: 131077}]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE, progress_file
from ansible_collections.brine.virt.plugins.module_utils._model.yaml_text import yaml_diff
from ansible_collections.brine.virt.plugins.module_utils._module import (
    answer_of_each,
    check_at_least,
    check_named_machines,
    finish,
    make_module,
    require_root,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.machines import (
    PurgeResult,
    carry_out,
    plan_purges,
    preview,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.volumes import PurgeOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes.answers import read_used_elsewhere
from ansible_collections.brine.virt.plugins.module_utils._operations.step_watch import StepWatch

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "list", "elements": "str", "required": True, "aliases": ["vm"]},
    "force": {"type": "bool", "default": False},
    "stop": {"type": "bool", "default": False},
    "stop_timeout": {"type": "int", "default": 180},
    "keep_disks": {"type": "bool", "default": False},
    "adopt": {"type": "bool", "default": False},
    "disks": {"type": "list", "elements": "str", "default": []},
    "used_elsewhere": {"type": "dict"},
    "lock_timeout": {"type": "int", "default": 300},
}


def read_options(params: dict[str, t.Any]) -> PurgeOptions:
    """The options of the task. Raises InputError for those that do not go together."""
    check_named_machines(params, "remove")
    if params["disks"] and params["keep_disks"]:
        raise InputError("keep_disks keeps all disks", where="disks", hint="Leave out one of the two")
    elsewhere = read_used_elsewhere(params["used_elsewhere"], "used_elsewhere")
    check_at_least(params, stop_timeout=1)
    return PurgeOptions(
        params["force"],
        params["keep_disks"],
        params["adopt"],
        tuple(params["disks"]),
        elsewhere,
        params["stop"],
        params["stop_timeout"],
    )


def as_diff(result: PurgeResult) -> dict[str, t.Any]:
    """What goes of one machine, as a difference."""
    going = [f"{decision.pool}/{decision.volume}" for decision in (result.plan.going if result.plan else ())]
    return yaml_diff(result.name, {"machine": result.name, "volumes": going})


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Plan, act unless in check mode, and return the result for each machine."""
    params = module.params
    require_root("virt_purge", params["uri"])
    options = read_options(params)
    path = params[PROGRESS_FILE]
    with open_connection(params["uri"]) as conn, progress_file(path) as progress, StepWatch(progress) as watch:
        outcomes = plan_purges(conn, params["name"], options)
        if module.check_mode:
            preview(conn, outcomes)
        else:
            carry_out(conn, outcomes, options, watch, lock_seconds=params["lock_timeout"])
    results = [outcome.as_result() for outcome in outcomes]
    return answer_of_each(module, results, [as_diff(outcome) for outcome in outcomes if outcome.done])


def main() -> None:
    finish(make_module(ARGUMENTS, beside=[PROGRESS_FILE]), work)


if __name__ == "__main__":
    main()
