#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: have the disks of machines backed by another version of their image, or by none."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_rebase
short_description: Rebase disks of machines onto another stored image, or onto none
version_added: "1.0.0"
description:
  - The disk of a machine is usually an overlay, which has only what differs from a stored image. This module rebases it
    onto another image, such as a newer version of the same one, or writes all of it into one file (O(flatten)). Nothing
    that the guest reads changes, so this is not an upgrade of the guest. What differs from the new image is copied into
    the overlay.
  - M(brine.virt.virt_image) can remove the old image once nothing uses it any more. V(images) in
    O(brine.virt.virt_info#module:gather_subset) shows the machines that are backed by an old version.
  - The machine must be off, unless its disks are already backed by what the task asks for.
  - A new file is written beside the old one, both are read from end to end and compared, and only then the new file
    takes the place of the old one, with its name, owner, mode and labels. If the run is interrupted at any point, the
    machine has either the old file or the new one, and the next run for this machine removes what is left.
  - It is refused in a storage pool that other hypervisors may share, as one of them may have the same disk.
  - Meanwhile the pool needs space for both files. The task fails before it begins if there is less than the new file
    can take at most.
  - A machine that has snapshots is refused, as these rely on what the disk is backed by now. Checkpoints and their
    bitmaps stay, so that the next backup can be incremental.
  - The machine's metadata records which image its disk was created from; it is updated together with that disk. After
    O(flatten) it records none, and a new version of the image in C(virt_vms) is no longer reported.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._lock
  - brine.virt._root
  - brine.virt._root.own_host
  - brine.virt._uri
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description:
      - Names of the machines. They are changed one after the other, and if one fails, the others go on.
      - With an empty list, nothing is done.
    type: list
    elements: str
    required: true
    aliases: [vm]
  image:
    description:
      - The stored image that the disks are to be backed by. It can be the name of an image, of which the newest version
        is used, or the name of a volume such as V(debian-0123456789abcdef.qcow2).
      - Without O(disks), only the disks that are now backed by an image of the same name are rebased.
      - The default is, for each disk, the newest version of the image that it is backed by.
    type: str
  flatten:
    description: Whether the disks are to be backed by nothing. Not with O(image).
    type: bool
    default: false
  disks:
    description:
      - The disks, by their names in M(brine.virt.virt_init) or by their targets such as V(vda).
      - The default is all disks that can be rebased, that is, the qcow2 files in storage pools of this hypervisor that
        only this machine writes to. Others are left out with a warning. To name one that cannot be rebased is an error.
    type: list
    elements: str
  pool:
    description: The storage pool that the image store is in.
    type: str
    default: images
requirements:
  - qemu-img (package C(qemu-utils) on Debian and Ubuntu, C(qemu-img) elsewhere) on the host that the task runs on
notes:
  - While it runs, the play's output shows the progress every few seconds, if Ansible's connection is V(ssh) or
    V(local), and neither in check mode nor with C(async) or C(no_log).
seealso:
  - module: brine.virt.virt_image
  - module: brine.virt.virt_info
"""

EXAMPLES = r"""
---
- name: Rebase web1 onto the newest version of its image
  brine.virt.virt_rebase:
    name: web1

- name: Rebase it onto a specific version
  brine.virt.virt_rebase:
    name: web1
    image: debian-0123456789abcdef.qcow2

- name: Make it independent of any image
  brine.virt.virt_rebase:
    name: web1
    flatten: true

- name: Find the machines that are off and backed by an old version of an image
  brine.virt.virt_info:
    state: [shutoff]
    gather_subset: [images]
  register: found

- name: Rebase all of them onto the newest one
  brine.virt.virt_rebase:
    name: "{{ found.machines | selectattr('newer_images') | map(attribute='name') }}"

- name: Remove the images that nothing uses any more
  brine.virt.virt_image:
    state: pruned
"""

RETURN = r"""
machines:
  description: Result for each machine, or what it would be in check mode, in the order of O(name).
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
      description: Whether anything was changed.
      type: bool
      returned: always
      sample: true
    failed:
      description: Whether it could not be done, or not in full.
      type: bool
      returned: always
      sample: false
    msg:
      description: Why it could not be done, and what to do.
      type: str
      returned: when it failed
      sample: "it is running, and its disks are in use. Shut it down first: virt_power with state: stopped"
    actions:
      description: What was done, in order.
      type: list
      elements: str
      returned: always
      sample: ["rebase disk vda (web1-system.qcow2) from debian-0123456789abcdef.qcow2 to image
        debian-fedcba9876543210.qcow2"]
    disks:
      description:
        - The disks that were changed, with the names of what each was and is backed by. C(to) is null for nothing.
        - What the file took of the pool before and takes now is in bytes; the latter is null in check mode.
      type: list
      elements: dict
      returned: always
      sample:
        - target: vda
          name: system
          pool: default
          volume: web1-system.qcow2
          from: debian-0123456789abcdef.qcow2
          to: debian-fedcba9876543210.qcow2
          allocation_bytes_before: 524288000
          allocation_bytes: 629145600
    remarks:
      description: The disks that were left out, and why.
      type: list
      elements: str
      returned: always
      sample: []
    seconds:
      description: How long it took.
      type: float
      returned: always
      sample: 12.3
"""

import threading
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.child_process import run_guarded
from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection, require_local
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE, progress_file
from ansible_collections.brine.virt.plugins.module_utils._model.yaml_text import yaml_diff
from ansible_collections.brine.virt.plugins.module_utils._module import (
    answer_of_each,
    check_at_least,
    finish,
    make_module,
    require_root,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.rebase.machines import (
    carry_out,
    plan_machines,
    preview,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.rebase.plan import RebaseRequest

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "list", "elements": "str", "required": True, "aliases": ["vm"]},
    "image": {"type": "str"},
    "flatten": {"type": "bool", "default": False},
    "disks": {"type": "list", "elements": "str"},
    "pool": {"type": "str", "default": "images"},
    "lock_timeout": {"type": "int", "default": 300},
}


def read_request(params: dict[str, t.Any]) -> RebaseRequest:
    """The options of the task. Raises InputError for those that make no sense."""
    for option in ("name", "disks"):
        given = params[option]
        if given is not None and not (all(given) and (given or option == "name")):
            raise InputError("an empty name", where=option, hint="Name what is meant, or leave it out")
    if params["image"] is not None and params["flatten"]:
        raise InputError("with flatten, the disks are backed by nothing", where="image", hint="Leave one of them out")
    if params["image"] == "":
        raise InputError("no image is named", where="image", hint="Leave it out for the newest version of each")
    check_at_least(params, lock_timeout=0)
    disks = None if params["disks"] is None else tuple(params["disks"])
    return RebaseRequest(params["image"], params["flatten"], disks, params["pool"])


def as_diff(result: dict[str, t.Any]) -> dict[str, t.Any]:
    """What the disks of one machine are backed by, before and after."""
    before = {disk["target"]: disk["from"] for disk in result["disks"]}
    after = {disk["target"]: disk["to"] for disk in result["disks"]}
    return yaml_diff(f"backing of {result['name']}", before, after)


def run(module: AnsibleModule, stop: threading.Event) -> dict[str, t.Any]:
    """Plan, act unless in check mode, and return the result for each machine."""
    params = module.params
    request = read_request(params)
    require_root("virt_rebase", params["uri"])
    require_local(params["uri"], "that the machines are on")
    with open_connection(params["uri"]) as conn, progress_file(params[PROGRESS_FILE]) as progress:
        results = plan_machines(conn, params["name"], request)
        if module.check_mode:
            preview(results)
        else:
            carry_out(conn, results, request, stop, progress, lock_seconds=params["lock_timeout"])
    return {"machines": [result.as_result() for result in results]}


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The module's result; failed, with all of it, when one of the machines has failed."""
    found = run(module, threading.Event()) if module.check_mode else run_guarded(lambda stop: run(module, stop))
    results = found["machines"]
    for result in results:
        for words in result["remarks"]:
            module.warn(f"{result['name']}: {words}")
    return answer_of_each(module, results, [as_diff(result) for result in results if result["disks"]])


def main() -> None:
    finish(make_module(ARGUMENTS, beside=[PROGRESS_FILE]), work)


if __name__ == "__main__":
    main()
