#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: take, revert and delete snapshots of machines."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_snapshot
short_description: Take, revert and delete snapshots of machines
version_added: "1.0.0"
description:
  - Takes snapshots of machines of the hypervisor that this runs on, reverts machines to them, and deletes them, by name
    or by count and age (O(keep)). M(brine.virt.virt_info) lists them (C(snapshots) in
    O(brine.virt.virt_info#module:gather_subset)).
  - A snapshot is taken only if libvirt on this hypervisor can revert it. Whether it is internal (kept in the disks' own
    qcow2 files) or external (what is written from now on goes to new files) follows from the disks, the machine's state
    and the version of libvirt; RV(machines[].kind) says which. Internal is preferred. If neither can be reverted, the
    task fails with the reasons, and nothing is changed.
  - If all disks that the machine can write to are on Ceph RBD, in pools of this hypervisor, the cluster itself takes
    the snapshot, and libvirt is told of it. It needs Ceph's Python bindings (C(python3-rados) and C(python3-rbd)). It
    is of all disks at one moment, and never has the memory. A machine with only some of its disks there is refused.
  - Internal snapshots need all disks that the machine can write to as qcow2 files. Those of a machine that is running
    or paused always contain the memory. External ones are only taken with libvirt 9.9 or later, as earlier versions
    cannot revert them. A machine has one kind of snapshots at a time.
  - No snapshot is taken, reverted or deleted while a run is creating the machine, while it is being moved, or while
    libvirt is at work on it or on one of its disks.
  - All machines are looked at before the first one is changed, and each is looked at again before it is changed. If a
    machine fails, the others go on, and the task fails in the end with all results.
  - When an external snapshot is reverted or deleted, libvirt deletes and merges files. This is refused while anything
    but the machine itself uses one of these files. Any revert is refused while anything else uses one of the machine's
    disks, such as a clone that is backed by it. On Ceph, a snapshot is not deleted while a volume is a clone of it, and
    no machine is reverted while any client has one of its disks open.
  - Before a machine is reverted to an internal snapshot, the checkpoints that M(brine.virt.virt_backup) has made of it
    are deleted, as QEMU reverts no disk while dirty-bitmap tracking is on for it. With libvirt before 11.3, the same is
    done before a snapshot is taken while the machine is off. The next backup is a full one then.
    Checkpoints of others are not deleted; the task fails and names them.
  - If the deletion of an external snapshot is interrupted, or fails half-way, its files are partly merged. The machine
    is reverted to none then, until that is finished, by the same task or by the next one that deletes another snapshot.
  - On Ceph, a revert copies back what has changed since. Until it is done, the machine cannot be started. libvirt
    reverts the disks of a machine to an internal snapshot one after the other. If a revert is interrupted,
    the disks may be of different times; the modules of this collection do not start or change the machine then, until
    the same task finishes it. A running machine that an interrupted run has left paused or frozen runs on
    when this module is run on it again.
  - While it takes long, the play's output shows every few seconds what each machine is at and for how long. While the
    memory of an external snapshot is written, and while files are merged, it shows the percentage, the rate and the
    time left; while Ceph copies disks back, which of them. libvirt does not tell how far an internal snapshot or any
    other revert is. The lines are read over a second connection, if Ansible's connection is V(ssh) or V(local); over
    other connections, in check mode and with C(async) or C(no_log), no progress is shown.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._root
  - brine.virt._uri
attributes:
  check_mode:
    support: full
    details:
      - If a run was killed and what it has left is dealt with first, what the task asks for is shown and checked as it
        follows on that. If only the machine can tell what follows, such as when snapshots that a move has set aside are
        put back, it is not shown, and a warning says so.
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - A snapshot that exists is not taken again, and its description and contents are not compared. Without O(name),
        each run takes a new one. With O(state=reverted), each run reverts the machine again.
options:
  vm:
    description:
      - Names of the machines. If one of them does not exist, nothing is changed at all. An empty list is an error.
    type: list
    elements: str
    required: true
  state:
    description:
      - V(present) takes a snapshot, unless the machine has one with this name.
      - V(absent) deletes snapshots. The machine's disks stay as they are now. Snapshots that follow a deleted one stay
        too. On Ceph, that includes one that libvirt does not list, because its description was deleted by hand or lost
        with a hypervisor; RV(machines[].warnings) names it.
      - V(reverted) brings disks, definition and, if it was kept, memory back to what they were when the snapshot was
        taken. The machine is running, paused or off afterwards, as it was then; without memory it is off. Everything
        that was written since then is lost. The snapshot stays, and so do later ones.
    type: str
    choices: [present, absent, reverted]
    default: present
  name:
    description:
      - Name of the snapshot. O(state=reverted) needs it.
      - With O(state=absent), names of one or several; either they or O(keep) are needed. It is not an error if one does
        not exist.
      - With O(state=present), the default is the name of the machine with the time in UTC, such as
        V(web1-20260301-093000).
      - A new name has up to 100 letters, digits and the characters C(_.:+@-). It begins with a letter, a digit or
        C(_), and has at least one character that is not a digit.
    type: list
    elements: str
  memory:
    description:
      - Whether the memory of a machine that is running or paused is kept. V(auto) keeps it, unless only a snapshot
        without memory could be reverted; RV(machines[].memory) says whether it was kept.
      - V(true) fails for a machine that is off, and for disks on Ceph.
      - No snapshot with memory is taken where the file system that it is written to may have too little space. It may
        need as much as the machine's memory, or what its QEMU process holds of it. It goes into the file of the first
        disk, or beside that of an external snapshot.
      - V(false) keeps only the disks, in a state as after a power cut or, with O(quiesce), with clean file systems. If
        the machine is not off, such a snapshot is external, or by Ceph. Only with O(state=present).
    type: str
    choices: [auto, "true", "false"]
  quiesce:
    description:
      - Whether the guest agent freezes the file systems while a snapshot without memory is taken of a running machine.
        V(auto) does so if the agent has connected, on Ceph also without O(memory=false); RV(machines[].quiesced) says
        whether it was done.
      - V(true) fails if the agent has not connected, or the machine is paused. Only with O(state=present) and
        O(memory=false).
    type: str
    choices: [auto, "true", "false"]
  description:
    description:
      - Description of a new snapshot, of one or more lines without control characters. Only with O(state=present).
    type: str
  keep:
    description:
      - Which snapshots are kept. All others that this module has taken of the machine are deleted, after the new one
        was taken. One that any of the two rules keeps stays. Snapshots that were taken in another way are never deleted
        by this option, nor is one on Ceph that has clones; a warning names it.
      - With O(state=present), or with O(state=absent), where O(name) can be left out then. At least one of the two
        rules is needed.
    type: dict
    suboptions:
      last:
        description: How many of the newest to keep, including the new one; 1 at least.
        type: int
      days:
        description: Keep those that are at most this many days old.
        type: float
  force:
    description:
      - Whether a machine that is running or paused may be reverted. What it runs is lost then. Without it, such a
        machine is refused. Only with O(state=reverted).
    type: bool
  concurrency:
    description: How many machines are changed at the same time.
    type: int
    default: 4
  lock_timeout:
    description: How many seconds to wait for another run that is changing machines on this hypervisor.
    type: int
    default: 300
notes:
  - Snapshots are not a backup. They are in the same storage as the disks, and grow with what is written.
  - A running machine is paused while an internal snapshot writes its memory into its first disk, and for a moment while
    Ceph takes one of several disks.
  - UEFI variables are usually not part of a snapshot, nor is the TPM's state if the machine is off;
    RV(machines[].warnings) says so.
  - After a revert, the machine has the hardware of that time. Tags, labels, variables, order and the list of its own
    volumes stay as they are now.
seealso:
  - module: brine.virt.virt_info
    description: Lists snapshots.
  - module: brine.virt.virt_power
    description: Starts machines after a revert.
  - module: brine.virt.virt_purge
    description: Removes machines with their snapshots.
  - module: brine.virt.virt_migrate
    description: Moves machines.
"""

EXAMPLES = r"""
---
- name: Take a snapshot before an upgrade
  brine.virt.virt_snapshot:
    vm: web1
    name: before-upgrade
    description: before Debian 13

- name: Go back to it
  brine.virt.virt_snapshot:
    vm: web1
    name: before-upgrade
    state: reverted
    force: true

- name: Delete it
  brine.virt.virt_snapshot:
    vm: web1
    name: before-upgrade
    state: absent

- name: Take one of two machines each night, and keep seven of each
  brine.virt.virt_snapshot:
    vm: [web1, db1]
    keep: {last: 7}

- name: Delete what is older than two weeks, except the newest
  brine.virt.virt_snapshot:
    vm: web1
    state: absent
    keep: {last: 1, days: 14}
"""

RETURN = r"""
machines:
  description: Result for each machine, or what it would be in check mode, in the order of O(vm).
  returned: always, unless the options are wrong or one of the machines does not exist
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
      sample: "it is running, and what it does now would be lost, with all it has not saved elsewhere. Shut it down
        first, or set force=true"
    snapshot:
      description: Name of the snapshot that was taken, was there already, or was reverted. Null with O(state=absent),
        and if that failed.
      type: str
      returned: always
      sample: before-upgrade
    kind:
      description: V(internal), V(external) or V(ceph). Null if none was taken.
      type: str
      returned: always
      sample: internal
    memory:
      description: Whether the memory was kept. Null if none was taken.
      type: bool
      returned: always
      sample: true
    quiesced:
      description: Whether the guest agent has frozen the file systems meanwhile. Null if none was taken.
      type: bool
      returned: always
      sample: false
    warnings:
      description: What of the machine is not part of the new snapshot, what Ceph has and libvirt does not list, what
        O(keep) could not delete, what check mode cannot show, and that its snapshots could not be listed afterwards.
        Also shown as warnings.
      type: list
      elements: str
      returned: always
      sample: ["the variables of its UEFI are not kept: a revert leaves them as they are"]
    deleted:
      description: Names of the snapshots that were deleted.
      type: list
      elements: str
      returned: always
      sample: [web1-20260222-093000]
    actions:
      description: What was done, in order.
      type: list
      elements: str
      returned: always
      sample: ["take snapshot before-upgrade of web1 (internal, with memory)"]
    state_before:
      description: The state that the machine was in. Null if it was refused.
      type: str
      returned: always
      sample: running
    state:
      description: The state that it is in afterwards. Null if it was refused.
      type: str
      returned: always
      sample: running
    snapshots:
      description:
        - Its snapshots afterwards, as in RV(brine.virt.virt_info#module:machines[].snapshots). Null in check mode, and
          if they could not be listed.
      type: list
      elements: dict
      returned: always
      sample: [{name: before-upgrade, current: true, time: "2026-03-01T09:30:00Z", state: running, kind: internal,
        memory: true, parent: null, description: before Debian 13, own: true}]
    seconds:
      description: How many seconds it took, including the wait for other runs.
      type: float
      returned: always
      sample: 2.1
"""

import time
import typing as t
from collections.abc import Sequence

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE, progress_file
from ansible_collections.brine.virt.plugins.module_utils._model.snapshot_name import check_name
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.validators import lines
from ansible_collections.brine.virt.plugins.module_utils._model.yaml_text import yaml_diff
from ansible_collections.brine.virt.plugins.module_utils._module import (
    answer_of_each,
    check_at_least,
    finish,
    make_module,
    require_root,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.machines import (
    SnapshotResult,
    carry_out,
    plan_snapshots,
    preview,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.method import AUTO
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.plan import (
    ABSENT,
    PRESENT,
    REVERTED,
    SnapshotRequest,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.retention import read_retention

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "vm": {"type": "list", "elements": "str", "required": True},
    "state": {"type": "str", "choices": [PRESENT, ABSENT, REVERTED], "default": PRESENT},
    "name": {"type": "list", "elements": "str"},
    "memory": {"type": "str", "choices": ["auto", "true", "false"]},
    "quiesce": {"type": "str", "choices": ["auto", "true", "false"]},
    "description": {"type": "str"},
    "keep": {"type": "dict", "options": {"last": {"type": "int"}, "days": {"type": "float"}}},
    "force": {"type": "bool"},
    "concurrency": {"type": "int", "default": 4},
    "lock_timeout": {"type": "int", "default": 300},
}
# The options that count for some states only.
_STATES_OF = {
    "memory": (PRESENT,),
    "quiesce": (PRESENT,),
    "description": (PRESENT,),
    "keep": (PRESENT, ABSENT),
    "force": (REVERTED,),
}


def read_options(params: dict[str, t.Any], now: float) -> SnapshotRequest:
    """The options of the task. Raises InputError for those that make no sense."""
    state = params["state"]
    if not params["vm"] or not all(params["vm"]):
        raise InputError("no machine is named", where="vm")
    for option, states in _STATES_OF.items():
        if params[option] is not None and state not in states:
            raise InputError(f"it means nothing with state: {state}", where=option, hint="Leave it out")
    check_at_least(params, concurrency=1, lock_timeout=0)
    names = _read_names(params["name"], state, retention=params["keep"] is not None)
    return SnapshotRequest(
        state=state,
        now=now,
        names=names,
        memory=params["memory"] or AUTO,
        quiesce=params["quiesce"] or AUTO,
        description=lines(params["description"] or "", "description"),
        keep=read_retention(params["keep"]),
        force=bool(params["force"]),
    )


def _read_names(given: Sequence[str] | None, state: str, *, retention: bool) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(given or ()))
    if given is not None and not all(names or [""]):
        raise InputError("no snapshot is named", where="name", hint="Give its name, or leave name out")
    if state != ABSENT and len(names) > 1:
        raise InputError(f"{len(names)} are named, but a machine can have only one {state}", where="name")
    if state == REVERTED and not names:
        raise InputError("no snapshot is named to revert to", where="name", hint="Give the name of the snapshot")
    if state == ABSENT and not names and not retention:
        raise InputError("no snapshot is named", where="name", hint="Give their names, or keep")
    if state == PRESENT:
        for name in names:
            check_name(name, "name")
    return names


def as_diff(result: SnapshotResult) -> dict[str, t.Any] | None:
    """What happens to one machine, as a difference; None for nothing."""
    plan = result.plan
    if plan is None or not result.done:
        return None
    before: dict[str, t.Any] = {"snapshots": list(plan.before), "state": plan.state_before}
    after: dict[str, t.Any] = {"snapshots": list(plan.after), "state": plan.state}
    if plan.steps and plan.method is None and plan.snapshot is not None and plan.before == plan.after:
        after["reverted"] = plan.snapshot
    return yaml_diff(result.name, before, after)


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Plan, act unless in check mode, and return the result for each machine."""
    params = module.params
    require_root("virt_snapshot", params["uri"])
    request = read_options(params, time.time())
    with open_connection(params["uri"]) as conn, progress_file(params[PROGRESS_FILE]) as progress:
        results = plan_snapshots(conn, params["vm"], request)
        if module.check_mode:
            preview(conn, results, request)
        else:
            limits = {"concurrency": params["concurrency"], "lock_seconds": params["lock_timeout"]}
            carry_out(conn, results, request, progress, **limits)
    for result in results:
        for warning in result.warnings:
            module.warn(f"{result.name}: {warning}")
    diffs = [diff for diff in map(as_diff, results) if diff is not None]
    return answer_of_each(module, [result.as_result() for result in results], diffs)


def main() -> None:
    finish(make_module(ARGUMENTS, beside=[PROGRESS_FILE]), work)


if __name__ == "__main__":
    main()
