#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module virt_restore."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_restore
short_description: Restore a machine, or one of its disks, from a backup
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Restores what M(brine.virt.virt_backup) has backed up, onto the hypervisor that this runs on. It may be another
    hypervisor than the machine was on, and has to have access to the backups.
  - Before anything is created, the checksum of every file that is needed is verified. A backup that is damaged is noted
    as such, for M(brine.virt.virt_backup). Each restored volume is compared
    with the backup, and if it differs, or anything else fails, everything that was created is removed again.
  - Under the name that it had, the machine gets its UUID and its MAC addresses back, with UEFI variables and the state
    of its TPM. Under another name it gets new ones, and its metadata has neither the static addresses of its nics nor
    the variable C(ansible_host), by which Ansible would log in to the machine that was backed up.
  - Whether a machine of this name or UUID is on another hypervisor is not checked here; the playbook
    C(brine.virt.restore) does that. It claims the name first (M(brine.virt.virt_claim)), so that two runs cannot
    restore one machine on two hypervisors. A claim of its name becomes the machine. Under the name that it had, the
    claim has to have its UUID; under another, the machine gets that of the claim.
  - An existing machine is never changed without O(replace=true), and an existing volume is never written to. If there
    is one with the name of a disk, such as that of a machine whose hypervisor or definition was lost, it may have newer
    data than the backup, and the task fails. O(pool) and another O(name) restore alongside it.
  - The restored disks are volumes of their own, without a backing image. The machine owns them, as if it had been
    created with them, and keeps its tags, variables and the like. Checkpoints are not restored, so that its next backup
    is a full one.
  - The manifest and the definition in a backup are checked like any other input. A definition with
    anything in it that is not known to be harmless to the hypervisor, such as a device or file of it or arguments for
    QEMU, is refused without O(trust_definition=true). What was in CD-ROM drives, and disks that are not in the backup,
    is left out with a warning.
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
      - Checksums are not verified in check mode.
  diff_mode:
    support: full
  idempotent:
    support: none
    details:
      - A second run is refused, as what the first one restored exists then, or restores again with O(replace=true).
options:
  src:
    description:
      - The directory on the hypervisor that holds the backups of all machines
        (O(brine.virt.virt_backup#module:dest)). A task needs either this option or O(src_pool).
      - Nothing but the lock of the machine's directory is written there; it may be mounted read-only.
    type: path
  src_pool:
    description:
      - A storage pool of the hypervisor whose directory takes the place of O(src)
        (O(brine.virt.virt_backup#module:dest_pool)). It has to be active and of a type that has one (V(dir), V(fs),
        V(netfs)).
    type: str
  machine:
    description: The name of the machine that was backed up.
    type: str
    required: true
    aliases: [vm]
  backup:
    description:
      - The backup, by its id such as V(20261123T020000Z-full). V(latest) is the newest one. If that cannot be read, the
        task fails. It also fails if backups of two machines of this name alternate there, such as from two inventories.
    type: str
    default: latest
  name:
    description: The name of the restored machine. Without it, the one that it had.
    type: str
  pool:
    description: The storage pool for all its disks. Without it, each disk goes into the pool that it was in.
    type: str
  disk:
    description:
      - Restore only this disk, by its target (V(vda)) or its name, into a volume of O(pool). No machine is created or
        changed; the volume can be attached to any. Not with O(name), O(replace), O(started) or O(trust_definition).
      - Until it is complete, the volume has a mark, and M(brine.virt.virt_init) does not attach it. What a killed run
        has left is removed when the same task is run again, unless a machine has it or may have it. Where no mark can
        be (logical volumes, Ceph without its Python bindings, raw files without extended attributes), that task is
        refused instead.
    type: str
  volume:
    description:
      - The name of the volume of O(disk), without which it is an error; the ending of its format is added if it is
        missing.
      - By default it is named after the machine, the disk and the time of the backup.
    type: str
  replace:
    description:
      - Replace the machine, if it exists, with what the backup has. It has to be off and have the same UUID, and must
        not have snapshots or a saved state. Not with another O(name).
      - Once the new disks were compared with the backup, those of its old disks are deleted that it owns, that the
        backup has, and that nothing else uses. The others stay, with a warning that names them. A disk that was added
        after the backup becomes a volume that no machine has attached.
      - In a pool that other hypervisors may see, such as Ceph or NFS, an old disk stays unless all of them were asked
        (O(used_elsewhere)), as the playbook C(brine.virt.restore) does. M(brine.virt.virt_purge) removes it with the
        machine then, and so does the next task with V(true).
    type: bool
    default: false
  started:
    description: Start the restored machine.
    type: bool
    default: false
  used_elsewhere:
    description:
      - With O(replace=true), what the other hypervisors say about the volumes in RV(shared) of a run in check mode, as
        O(brine.virt.virt_purge#module:used_elsewhere) takes it. For the name of each hypervisor, the registered result
        of M(brine.virt.virt_usage_info) there, or a sentence that says why there is none.
      - An empty mapping says that there are no other hypervisors. They are not asked again when a volume is deleted.
    type: dict
  trust_definition:
    description:
      - Take the definition as it is in the backup. With it, whoever can write to the backup decides which of the
        hypervisor's files, devices and services the machine gets.
    type: bool
    default: false
notes:
  - While it runs, the play's output shows the progress every few seconds, if Ansible's connection is V(ssh) or
    V(local), and neither in check mode nor with C(async) or C(no_log).
seealso:
  - module: brine.virt.virt_backup
  - module: brine.virt.virt_claim
  - module: brine.virt.virt_usage_info
    description: Asks the other hypervisors who uses volumes in shared pools.
"""

EXAMPLES = r"""
---
- name: Restore a machine that is gone, from its newest backup
  brine.virt.virt_restore:
    src: /srv/backup
    machine: web1
    started: true

- name: Look into an older state alongside the machine
  brine.virt.virt_restore:
    src: /srv/backup
    machine: web1
    backup: 20261120T020000Z-incremental
    name: web1-old

- name: Get one disk of it back, as a volume
  brine.virt.virt_restore:
    src: /srv/backup
    machine: web1
    disk: data
    volume: web1-data-friday

- name: Put a machine that is off back to its newest backup
  brine.virt.virt_restore:
    src: /srv/backup
    machine: web1
    replace: true
"""

RETURN = r"""
name:
  description: The restored machine. It is null for a single disk.
  type: str
  returned: success
  sample: web1
uuid:
  description:
    - Its UUID. It is null for a single disk.
    - If it cannot be restored, the one that it would keep; null also where it would get another.
  type: str
  returned: success, and in check mode also when it failed and RV(backup) is not null
  sample: 4dea22b3-1d52-4f1f-9a1c-7b2f5a3d6e10
new_identity:
  description: Whether it has another UUID and other MAC addresses than the machine that was backed up.
  type: bool
  returned: success
  sample: false
backup:
  description:
    - The backup that was restored.
    - If it cannot be restored, the one that this hypervisor sees, and null if it sees none. Without this value, it is
      not known.
  type: str
  returned: success, and in check mode also when it failed and this is known
  sample: 20261123T020000Z-incremental
made:
  description: When it was made.
  type: str
  returned: success
  sample: "2026-11-23T02:00:00Z"
volumes:
  description: The new volumes.
  type: list
  elements: dict
  returned: success
  sample:
    - target: vda
      pool: default
      volume: web1-system.qcow2
      path: /var/lib/libvirt/images/web1-system.qcow2
      format: qcow2
      size_bytes: 10737418240
shared:
  description:
    - The old volumes that go with O(replace=true) and are in pools that other hypervisors may see, for
      O(brine.virt.virt_usage_info#module:volumes) on all the others.
  type: list
  elements: dict
  returned: success, in check mode
  sample: [{pool: nfs, volume: web1-system.qcow2, place: /srv/nfs/web1-system.qcow2, inode: 131077, serial: null}]
needs:
  description:
    - What the machine needs of a hypervisor, in the words of M(brine.virt.virt_info). For a disk, C(allocation_bytes)
      is what it takes at most in a pool of files.
    - The filter P(brine.virt.restore_target#filter) chooses a hypervisor by it.
  type: dict
  returned: success
  sample:
    memory_max_mib: 2048
    vcpus_max: 2
    arch: x86_64
    domain_type: kvm
    machine_type: pc-q35-7.2
    labels: []
    anti_affinity: [web]
    nics: [{type: bridge, source: br0}]
    disks:
      - target: vda
        source: /var/lib/libvirt/images/web1-system.qcow2
        pool: default
        size_bytes: 10737418240
        allocation_bytes: 2147483648
actions:
  description: What was done, in order; in check mode, what would be done.
  type: list
  elements: str
  returned: success
  sample: [define machine web1 from backup 20261123T020000Z-incremental]
remarks:
  description: What of the machine is not as it was, and what could not be cleared away. They are shown as warnings.
  type: list
  elements: str
  returned: success
  sample: ["drive sda is empty, as what was in it is not in the backup"]
"""

import threading
import typing as t
from dataclasses import replace

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.child_process import run_guarded
from ansible_collections.brine.virt.plugins.module_utils._base.errors import NotFoundError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.backup.place import require_place
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection, require_local
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE, progress_file
from ansible_collections.brine.virt.plugins.module_utils._model.yaml_text import yaml_diff
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module, require_root
from ansible_collections.brine.virt.plugins.module_utils._operations.restore.machine import preview, restore
from ansible_collections.brine.virt.plugins.module_utils._operations.restore.options import LATEST, read_restore_options
from ansible_collections.brine.virt.plugins.module_utils._operations.restore.plan import NO_BACKUP

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "src": {"type": "path"},
    "src_pool": {"type": "str"},
    "owner": {"type": "str"},
    "machine": {"type": "str", "required": True, "aliases": ["vm"]},
    "backup": {"type": "str", "default": LATEST},
    "name": {"type": "str"},
    "pool": {"type": "str"},
    "disk": {"type": "str"},
    "volume": {"type": "str"},
    "replace": {"type": "bool", "default": False},
    "started": {"type": "bool", "default": False},
    "used_elsewhere": {"type": "dict"},
    "trust_definition": {"type": "bool", "default": False},
    "lock_timeout": {"type": "int", "default": 300},
}
PLACES = ("src", "src_pool")


def run(module: AnsibleModule, stop: threading.Event) -> dict[str, t.Any]:
    """Do it, and say what it came to."""
    params = module.params
    options = read_restore_options(params)
    require_root("virt_restore", params["uri"])
    require_local(params["uri"], "to restore to")
    with open_connection(params["uri"]) as conn, progress_file(params[PROGRESS_FILE]) as progress:
        try:
            place = require_place(conn, options.source, params["src_pool"], "src")
        except (NotFoundError, UnsupportedError) as exc:
            exc.result = NO_BACKUP
            raise
        options = replace(options, source=place)
        result = preview(conn, options) if module.check_mode else restore(conn, options, stop, progress)
    return result.as_result(options)


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The module's result."""
    result = run(module, threading.Event()) if module.check_mode else run_guarded(lambda stop: run(module, stop))
    for words in result["remarks"]:
        module.warn(words)
    volumes = [f"{one['pool']}/{one['volume']}" for one in result["volumes"]]
    after = {"machine": result["name"], "backup": result["backup"], "volumes": volumes}
    result["diff"] = yaml_diff(result["name"] or module.params["machine"], after=after)
    return result


def main() -> None:
    module = make_module(ARGUMENTS, beside=[PROGRESS_FILE], mutually_exclusive=[PLACES], required_one_of=[PLACES])
    finish(module, work)


if __name__ == "__main__":
    main()
