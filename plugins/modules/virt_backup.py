#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module virt_backup."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_backup
short_description: Back up machines, in full or incrementally
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Backs up machines of the hypervisor that this runs on, while they run or are off, into a directory of the
    hypervisor, such as a mounted share. M(brine.virt.virt_restore) restores them; C(qemu-img) and C(virsh) can do it
    as well.
  - A backup is a directory C(DEST/MACHINE/ID) with a qcow2 image for each disk, the definition of the machine, its UEFI
    variables (NVRAM) and the state of its TPM, and a manifest with the checksum of each file. The images of an
    incremental backup are backed by those of the backup that it is built on, by relative paths.
  - A machine that is running goes on while libvirt writes its backup. All disks are as they were at one moment. Where
    the guest agent answers, the guest's file systems are frozen for that moment (O(quiesce)).
  - Together with the backup of a running machine, libvirt creates a checkpoint, and QEMU tracks what changes from then
    on, so that the next backup can be incremental. If that is not possible, a full backup is made, and
    RV(machines[].reason) says why. It is not possible if the machine is off, if the last checkpoint is lost (a live
    migration loses it, and so do a power cut and a revert to an internal snapshot), if a disk was added, removed, grown
    or moved to another volume, if the file of a disk is not the one from before, if a file of the earlier backups is
    missing or was found damaged, and if any disk is raw or on Ceph, as QEMU can store what has changed only in a qcow2
    image. While the machine has snapshots, no checkpoint is made.
  - Running machines are backed up with libvirt 7.2 or newer. A machine that is off is backed up as well, with raw disks
    in a Ceph cluster if they are in an active storage pool of the hypervisor and Python has Ceph's bindings (packages
    C(python3-rados) and C(python3-rbd)). A machine with a disk on other network storage is backed up only while it is
    running, and one with a disk that QEMU encrypts, or that is neither qcow2 nor raw, not at all. Otherwise that is an
    error.
  - Checkpoints that belong to earlier backups in the same directory are deleted when a newer one is there. Those that
    somebody else has made stay.
  - A running machine is not backed up if its definition names another volume for a disk than the one that it runs with.
    Shut it down and start it first.
  - What the guest is about to overwrite, QEMU copies to the backup first. If that fails, the guest's own write fails
    with the same error. If O(dest) is full, QEMU pauses the machine for that; the module ends the backup then, and
    resumes the machine, which loses nothing. Other errors of O(dest) reach the guest, so mount a share C(hard), as is
    the default of NFS.
  - A backup is written under a temporary name, and gets its own when all of it is on the disk. If the run is
    interrupted at any point, the earlier backups stay as they are, and the next run removes what is left.
  - A backup that is found damaged, by O(state=verified), by O(verify), before a merge or by M(brine.virt.virt_restore),
    gets a note that says so. Nothing is built on it any more, and it does not count among those that O(keep) asks for.
    The note is removed when all of its files are verified again and are whole, such as after they were copied back. A
    file that is missing, or has another length, counts in the same way without a verification. RV(machines[].backups)
    says which are damaged, and so do warnings.
  - So that backups that are not to be kept can be removed although a kept one is built on them, the kept one is merged
    with them (O(merge_above)). It keeps its name, and is a full backup then, or built on an older one that is kept.
    While that is under way, or when it was interrupted at any point, the backup can be verified and restored, and what
    it was built on is still there; the next run ends it.
  - CD-ROM and floppy drives are not in a backup, nor are disks that are read-only, shareable or transient, that are
    attached only until the machine stops (C(virsh attach-disk --live)) or only from its next start on (C(--config)), or
    that have no source that can be read (RV(machines[].left_out)). A warning names those of them that the machine
    writes to (RV(machines[].unsaved_disks)).
  - The seed is in a backup, but not on network storage other than Ceph.
  - Whoever can read the directory can read the disks of the machines, and the passwords in their definitions. The files
    can be read by root alone.
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._backup
  - brine.virt._lock
  - brine.virt._root
  - brine.virt._root.own_host
  - brine.virt._uri
requirements:
  - qemu-img (package C(qemu-utils) on Debian and Ubuntu, C(qemu-img) elsewhere) on the host that the task runs on
attributes:
  check_mode:
    support: full
    details:
      - With O(state=verified) the backups are only listed in check mode, and none is read.
  diff_mode:
    support: full
  idempotent:
    support: none
    details:
      - With O(state=present) each run makes a backup.
options:
  name:
    description:
      - Names of the machines. They are backed up one after the other; one that fails does not stop the others. An empty
        list is an error.
    type: list
    elements: str
    required: true
    aliases: [vm]
  dest:
    description:
      - The directory on the hypervisor that holds the backups of all machines. It has to exist. A task needs either
        this option or O(dest_pool).
      - QEMU writes the images itself, so that its user has to be able to enter the directory (mode V(0711) is enough).
      - Several hypervisors may use one directory on a share. Machines are told apart by their names.
    type: path
  dest_pool:
    description:
      - A storage pool of the hypervisor whose directory takes the place of O(dest). It has to be active and of a type
        that has one (V(dir), V(fs), V(netfs)).
      - To libvirt, the backups of a machine are one volume of type V(dir) there, named like the machine. Nothing in
        this collection takes it for a disk or removes it.
    type: str
  must_be_mounted:
    description:
      - What has to be a mount point, of another file system than that of C(/), so that backups do not fill a disk of
        the hypervisor while a share is not mounted.
      - With V(true), it is O(dest) itself. If the share is mounted above O(dest), give the absolute path that it is
        mounted at, such as V(/srv/nas). With V(false), nothing has to be.
    type: str
    default: 'false'
  state:
    description:
      - V(present) makes a backup.
      - V(verified) makes none, but reads all backups of the machines in O(dest) and verifies every file's checksum,
        every image's structure (C(qemu-img check)), and that no backup is missing that another one is built on. The
        machines need not exist. What is damaged is noted in the backup; that is not counted as a change.
    type: str
    choices: [present, verified]
    default: present
  kind:
    description:
      - V(auto) makes an incremental backup if that is possible, else a full one.
      - V(full) makes a full one.
    type: str
    choices: [auto, full]
    default: auto
  full_every:
    description:
      - How many backups may be built on each other, including the full one at the beginning, from 1 to 10000. The next
        one is a full one. With V(1), all are full ones. After 200 that are built on each other a full one is made
        whatever this option says, as QEMU cannot read chains of any length.
      - With O(keep) and O(merge_above), chains are kept short by merging, so that with a greater number hardly any full
        backup is made after the first one.
    type: int
    default: 7
  keep:
    description:
      - Which backups of the machine to keep after a successful one. The others are removed. Those that a kept one is
        built on stay until it is merged with them (O(merge_above)). Without it, all are kept. The newest one always is.
      - Each number is 0 or more; 0 means none, as does leaving it out. It is an error if all of them are 0 or left out.
      - A damaged backup, or one that is built on a damaged one, does not count, so that a good one is kept in its
        place. It stays as well, as long as it would be kept if it were whole, or as fewer good ones than O(keep.last)
        are newer. Then it is removed like any other. It is never merged.
      - Days, weeks (from Monday on) and months are in UTC.
      - Backups in the directory that belong to another machine, which had the same name, are never removed, and neither
        are directories that cannot be read as backups, nor what an incremental one of them may be built on.
      - A backup of which a machine of this hypervisor uses a file, as its disk or as what that is backed by, is neither
        removed nor merged, and one in whose directory somebody has put a file of their own is not removed. What it is
        built on stays as well, and the others are deleted. RV(machines[].remarks) names the machine, or the file.
      - If it cannot be determined whether anything uses them, such as while a storage pool is not active, all stay.
      - Machines of other hypervisors that see O(dest) are not asked.
    type: dict
    suboptions:
      last:
        description: How many of the newest to keep.
        type: int
      daily:
        description: For how many days that have a backup to keep the last one.
        type: int
      weekly:
        description: For how many weeks that have a backup to keep the last one.
        type: int
      monthly:
        description: For how many months that have a backup to keep the last one.
        type: int
  merge_above:
    description:
      - How many backups may stay besides those that O(keep) asks for, because kept ones are built on them. When there
        are more, kept ones are merged with those that they are built on, and these are removed. Merges that free the
        most are done first, and no more than necessary.
      - With V(0), just what O(keep) asks for is there after each run. A great number, such as V(100000), turns merging
        off.
      - If it is left out, it is one less than O(full_every). With O(keep.last) alone nothing is ever merged then, as
        old chains go as a whole.
      - The oldest kept backup of a chain becomes a full one. This writes as much as a full backup has, into O(dest)
        alone; it is not read from the machine. One with an older kept one below it takes in only what has changed
        between the two. For each merge, the chain is read about five times, as its checksums are verified first, and
        the new files are compared with the old ones.
      - With V(0) and one backup a day, that is done every day. With V(6), it is done once a week.
      - Nothing is merged, and nothing is removed for it, if a backup of the chain is damaged, or if O(dest) has no room
        for the merged files alongside the old ones. RV(machines[].remarks) says so, and the new backup is there all the
        same.
      - While backups are merged, the machine can be worked on. Its backups cannot be restored before the merge ends, or
        the run is ended, which does no harm.
    type: int
  quiesce:
    description:
      - Whether the guest's file systems are frozen while the backup begins, by the guest agent.
      - V(auto) freezes them if the agent answers. RV(machines[].quiesced) says whether it was done.
      - With V(true) it is an error if they cannot be frozen. With V(false) they are not.
      - Without freezing, a backup is like the disks after a power cut.
    type: str
    choices: [auto, 'true', 'false']
    default: auto
  freeze_timeout:
    description:
      - How many seconds the file systems may stay frozen at most, from 1 to 600. Usually it takes a fraction of a
        second.
      - A guest that has not frozen them by then is asked to thaw them for up to three minutes more, as some of them may
        be frozen late.
    type: int
    default: 10
  verify:
    description:
      - Verify the new backup, and those that it is built on, after it was made, as O(state=verified) does.
      - If one of them is damaged, the task fails, nothing is removed, and the next backup is a full one.
    type: bool
    default: false
notes:
  - While it runs, the play's output shows the progress every few seconds, if Ansible's connection is V(ssh) or
    V(local), and neither in check mode nor with C(async) or C(no_log).
seealso:
  - module: brine.virt.virt_restore
  - module: brine.virt.virt_purge
    description: Removes machines, and never their backups.
"""

EXAMPLES = r"""
---
- name: Back up two machines, and keep a week, and then some weeks
  brine.virt.virt_backup:
    name: [web1, db1]
    dest: /srv/backup
    must_be_mounted: true
    keep:
      last: 7
      weekly: 8

- name: Make one full backup, and incremental ones for ever, of which at most 13 are there
  brine.virt.virt_backup:
    name: web1
    dest: /srv/backup
    full_every: 1000
    keep:
      last: 7
    merge_above: 6

- name: Back up a database whose file systems have to be frozen
  brine.virt.virt_backup:
    name: db1
    dest: /srv/backup
    quiesce: 'true'
    verify: true

- name: Read all backups of a machine back
  brine.virt.virt_backup:
    name: db1
    dest: /srv/backup
    state: verified

- name: Back up into the directory of a storage pool
  brine.virt.virt_backup:
    name: db1
    dest_pool: backups
"""

RETURN = r"""
machines:
  description: What happened to each machine; in check mode, what would happen.
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
      description: Whether a backup was made, or anything removed.
      type: bool
      returned: always
      sample: true
    failed:
      description: Whether it failed.
      type: bool
      returned: always
      sample: false
    msg:
      description: Why it failed, and what to do.
      type: str
      returned: when it failed
      sample: "cannot back up machine web1: /srv/backup is full, 1.0G are free, up to 4.0G are needed. Free some space
        there, have fewer backups kept, or choose another directory"
    id:
      description: The new backup, which is also the name of its directory. It is null in check mode.
      type: str
      returned: when a backup was planned
      sample: 20261123T020000Z-incremental
    path:
      description:
        - The directory with all backups of the machine. It is null if the run failed before it was looked into.
      type: str
      returned: always
      sample: /srv/backup/web1
    kind:
      description: V(full) or V(incremental).
      type: str
      returned: when a backup was planned
      sample: incremental
    parent:
      description: The backup that it was built on when it was made. It is null for a full one.
      type: str
      returned: when a backup was planned
      sample: 20261122T020000Z-full
    reason:
      description: Why it is a full one; empty for an incremental one.
      type: str
      returned: when a backup was planned
      sample: disk vdb has another size than in 20261122T020000Z-full
    no_checkpoint:
      description: Why the next one cannot be built on this one; empty if it can.
      type: str
      returned: when a backup was planned
      sample: the machine is off
    left_out:
      description: The disks that are not in it, by target, with the reason.
      type: dict
      returned: when a backup was planned
      sample: {sda: it is a cdrom, vdc: it is attached only until the machine stops}
    unsaved_disks:
      description:
        - Those of them that the machine writes to, by target, without transient ones. RV(machines[].remarks) has the
          reason for each.
      type: list
      elements: str
      returned: when a backup was planned
      sample: [vdc]
    quiesced:
      description: Whether the guest's file systems were frozen while it began. It is null in check mode.
      type: bool
      returned: when a backup was planned
      sample: true
    bytes:
      description: The size of all its files together. It is null in check mode.
      type: int
      returned: when a backup was planned
      sample: 22020096
    actions:
      description: What was done, in order.
      type: list
      elements: str
      returned: always
      sample: ["make a full backup of web1: 20261123T020000Z-full"]
    merged:
      description:
        - The backups that were merged with those that they were built on, or would be in check mode.
        - In check mode, it is without the one that is planned, which has no name yet.
      returned: always
      type: list
      elements: str
      sample: []
    removed:
      description: The backups that were removed, or would be in check mode.
      type: list
      elements: str
      returned: always
      sample: []
    verified:
      description: The backups that were read back and are complete, together with all that they are built on.
      type: list
      elements: str
      returned: always
      sample: [20261123T020000Z-full]
    to_verify:
      description: The backups that would be read back, the newest first.
      type: list
      elements: str
      returned: in check mode with O(state=verified)
      sample: [20261123T020000Z-full]
    backups:
      description:
        - All backups of this name in O(dest), the newest first. Of each, C(damaged) says what is known to be damaged,
          in it or in one that it is built on. It is empty if nothing is.
      type: list
      elements: dict
      returned: always
      sample:
        - id: 20261123T020000Z-full
          kind: full
          parent: null
          made: "2026-11-23T02:00:00Z"
          uuid: 4dea22b3-1d52-4f1f-9a1c-7b2f5a3d6e10
          bytes: 2147483648
          quiesced: true
          disks: [vda, vdb]
          damaged: ""
    broken:
      description: Directories there that are named like a backup and cannot be read as one, with the reason.
      type: dict
      returned: always
      sample: {}
    remarks:
      description:
        - What could not be done besides the backup, which is there all the same, which disks that the machine writes to
          are not in it, which backups cannot be read or are damaged, and whether an I/O error has paused the machine,
          and it was resumed. They are shown as warnings.
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
from dataclasses import replace

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.child_process import run_guarded
from ansible_collections.brine.virt.plugins.module_utils._host.backup.place import require_place
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection, require_local
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE, progress_file
from ansible_collections.brine.virt.plugins.module_utils._model.yaml_text import yaml_diff
from ansible_collections.brine.virt.plugins.module_utils._module import (
    answer_of_each,
    finish,
    make_module,
    require_root,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.machines import (
    back_up,
    preview,
    preview_verify,
    verify_all,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.options import (
    PRESENT,
    VERIFIED,
    read_backup_options,
)

_KEEP = {name: {"type": "int"} for name in ("last", "daily", "weekly", "monthly")}
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "list", "elements": "str", "required": True, "aliases": ["vm"]},
    "dest": {"type": "path"},
    "dest_pool": {"type": "str"},
    "owner": {"type": "str"},
    "must_be_mounted": {"type": "str", "default": "false"},
    "state": {"type": "str", "choices": [PRESENT, VERIFIED], "default": PRESENT},
    "kind": {"type": "str", "choices": ["auto", "full"], "default": "auto"},
    "full_every": {"type": "int", "default": 7},
    "keep": {"type": "dict", "options": _KEEP},
    "merge_above": {"type": "int"},
    "quiesce": {"type": "str", "choices": ["auto", "true", "false"], "default": "auto"},
    "freeze_timeout": {"type": "int", "default": 10},
    "verify": {"type": "bool", "default": False},
    "lock_timeout": {"type": "int", "default": 300},
}
PLACES = ("dest", "dest_pool")


def run(module: AnsibleModule, stop: threading.Event) -> dict[str, t.Any]:
    """Do it, and return the result for each machine."""
    params = module.params
    require_root("virt_backup", params["uri"])
    require_local(params["uri"], "that the machines are on")
    options = read_backup_options(params)
    with open_connection(params["uri"]) as conn, progress_file(params[PROGRESS_FILE]) as progress:
        place = require_place(conn, options.destination, params["dest_pool"], "dest", mounted=options.must_be_mounted)
        options = replace(options, destination=place)
        if params["state"] == VERIFIED:
            check = module.check_mode
            names = params["name"]
            outcomes = preview_verify(names, options) if check else verify_all(names, options, stop, progress)
        elif module.check_mode:
            outcomes = preview(conn, params["name"], options)
        else:
            outcomes = back_up(conn, params["name"], options, stop, progress)
    return {"machines": [outcome.as_result() for outcome in outcomes]}


def as_diff(result: dict[str, t.Any]) -> dict[str, t.Any]:
    """What is new in the directory of one machine, and what goes, as a difference."""
    before = {"removed": result["removed"]} if result["removed"] else None
    after: dict[str, t.Any] = {"new": f"{result['path']}: {result['kind']}"}
    if result["merged"]:
        after["merged"] = result["merged"]
    return yaml_diff(f"backups of {result['name']}", before, after)


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The module's result; failed, with all of it, when a machine could not be backed up."""
    found = run(module, threading.Event()) if module.check_mode else run_guarded(lambda stop: run(module, stop))
    results = found["machines"]
    for result in results:
        for words in result["remarks"]:
            module.warn(f"{result['name']}: {words}")
    diff = [as_diff(result) for result in results if result["changed"] and "kind" in result]
    return answer_of_each(module, results, diff)


def main() -> None:
    module = make_module(ARGUMENTS, beside=[PROGRESS_FILE], mutually_exclusive=[PLACES], required_one_of=[PLACES])
    finish(module, work)


if __name__ == "__main__":
    main()
