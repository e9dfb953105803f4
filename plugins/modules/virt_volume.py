#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: volumes of storage pools. The action plugin of this name is its controller half."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_volume
short_description: Create, fill, grow and delete volumes of storage pools
version_added: "1.0.0"
description:
  - Makes sure that volumes are in storage pools of a hypervisor, empty or with the content of a file, such as ISO files
    and data disks that machines have by their name. Makes volumes larger, and deletes those that nothing uses.
  - Disks of machines need no such volumes, as M(brine.virt.virt_init) creates them, and M(brine.virt.virt_purge)
    removes them with their machine. Images that machines are created from are stored by M(brine.virt.virt_image).
  - A volume that exists is never made smaller, never converted to another format, and its content is replaced only with
    O(replace=true). What the task does not name stays as it is.
  - A volume in use is neither deleted nor replaced. It is in use if a machine has it in its persistent or its live
    definition, in a snapshot, a checkpoint or a backup, if an overlay is backed by it, or if a machine's metadata lists
    it. Where that cannot be determined (a storage pool that is not active), the volume is kept. In a pool that other
    hypervisors may see, it is kept unless all of them were asked (O(used_elsewhere)).
  - It is looked at again right before it is deleted. If it has changed meanwhile, or is in use now, it is kept.
  - As long as a volume is being filled, its first bytes say who fills it. If the run is killed, the next one deletes
    what is there of it, and begins again.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes.no_async
  - brine.virt._attributes
  - brine.virt._lock
  - brine.virt._resources
  - brine.virt._root
  - brine.virt._uri
requirements:
  - qemu-img (package C(qemu-utils) on Debian and Ubuntu, C(qemu-img) elsewhere) on the host that the task runs on, for
    O(src) and O(path)
attributes:
  check_mode:
    support: full
    details:
      - Files and volumes are read to compare their contents. Nothing is sent or written, and no progress is shown.
  diff_mode:
    support: full
  idempotent:
    support: full
    details:
      - O(mode), O(owner) and O(group) are for new volumes, and are not compared.
      - The content of a volume that a machine may have written to is not compared (RV(volumes[].unchecked)).
options:
  name:
    description:
      - Name of the volume. In a pool of files it is the name of the file.
      - Required unless O(volumes) is given.
    type: str
  pool:
    description: The storage pool. If it is not given, it is V(default).
    type: str
  state:
    description:
      - V(present) makes sure that the volume exists and is as the other options say. If no state is given, it is this
        one.
      - V(absent) deletes the volume, whatever the other options say. If anything uses or may use it, the task fails and
        names what that is. A stored image is refused, as M(brine.virt.virt_image) removes those, and so is a volume
        that belongs to a machine by its metadata.
    type: str
    choices: [present, absent]
  size:
    description:
      - The size of the disk that a machine sees, in MiB, or with a unit such as V(512MiB), V(8GiB) or V(8G), which is
        8 GiB too. A part of a MiB is rounded up to a whole one.
      - A new volume needs it, unless it gets its size from O(src) or O(path).
      - A volume that is smaller is grown. If one machine that runs has it as a disk that it may write to, the disk is
        grown while it runs. A volume that a running machine may only read, or that several machines have of which one
        runs, is refused, and so is one that backs another, or that a snapshot has. The file system in it is not grown.
      - In a pool that other hypervisors may see, a volume is grown only if all of them were asked (O(used_elsewhere)),
        and none of them uses it.
      - A disk that M(brine.virt.virt_init) has created is grown there, by its C(size).
      - It is an error if the volume is larger.
    type: str
  format:
    description:
      - The format, V(qcow2) or V(raw). V(iso) is raw too, but a file that is no ISO 9660 or UDF file system is refused,
        and so is a O(size).
      - If it is not given, a new volume has the format of O(src) or O(path), else the one that its name ends with
        (C(.qcow2), C(.raw)), else V(qcow2) in a pool of files, and V(raw) in any other.
      - A volume that exists has the format in which machines have it. If none has it, it is V(raw) unless it looks like
        another format; then its format is that of this option, else that of O(src) or O(path), else the one that its
        name ends with. It is an error if this option differs from what the machines say, or V(qcow2) of a volume that
        does not look like it.
      - The first bytes of a volume never decide alone, as a guest may have written them to its raw disk. If they look
        like another format and nothing else says that it is, a task that asks for another O(size) fails.
    type: str
    choices: [qcow2, raw, iso]
  src:
    description:
      - A file on the controller with the content of the volume. A relative path is looked for in C(files) of the role
        or playbook, as usual. It is sent only if the volume lacks its content.
      - The file must be whole, qcow2 or raw, and not compressed. A qcow2 file with a backing file or with its data in
        another file is refused.
      - If the volume exists, its content is compared with that of the file, unless a machine may have written to it. If
        it is the same, with nothing but zeros after it, nothing is done. If it is another one, see O(replace).
    type: str
  path:
    description:
      - A file on the hypervisor with the content of the volume. It is only read. Otherwise as O(src).
      - A file that is a volume which the same task deletes or replaces is refused.
    type: path
  checksum:
    description:
      - The hash of the file O(src) or O(path), as C(sha256:) or C(sha512:) and the hex digits. A file with another hash
        is refused. Only with one of them.
    type: str
  replace:
    description:
      - Whether a volume with other content than O(src) or O(path) is replaced. If nothing uses it, it is deleted, and
        created again with the new content. Without V(true), other content is an error. Only with O(src) or O(path).
      - What is deleted cannot be brought back, not even if the new content cannot be written.
      - If a volume changes while the file of another one is sent, so that its own file would be needed too, none of the
        task's volumes is changed, and the task fails.
    type: bool
  mode:
    description:
      - Permissions of the file of a new volume, as four octal digits in quotes, such as V("0640"). If they are not
        given, they are V("0600").
      - Only for pools of files. Libvirt itself changes the owner of a file that a running machine uses.
    type: str
  owner:
    description: The user, by name or number, who owns the file of a new volume. Only for pools of files.
    type: str
  group:
    description: The group, by name or number, of the file of a new volume. Only for pools of files.
    type: str
  volumes:
    description:
      - Several volumes. Each item has O(name) and what else is needed of the options O(pool), O(state), O(size),
        O(format), O(src), O(path), O(checksum), O(replace), O(mode), O(owner) and O(group).
      - None of these may be given beside it.
    type: list
    elements: dict
  used_elsewhere:
    description:
      - What the other hypervisors say about the volumes in RV(volumes[].shared). For the name of each hypervisor, the
        registered result of M(brine.virt.virt_usage_info) there, or a sentence that says why there is none.
      - One hypervisor cannot see what the machines of another one use. In a pool that several may share (such as one of
        type C(netfs), C(rbd) or C(iscsi), or on a network or cluster file system, or in a directory that this one
        exports by NFS), no volume is deleted, replaced or grown unless all others were asked and none of them uses it.
        An empty mapping says that there are no other hypervisors.
    type: dict
seealso:
  - module: brine.virt.virt_image
  - module: brine.virt.virt_init
  - module: brine.virt.virt_purge
  - module: brine.virt.virt_usage_info
    description: Asks the other hypervisors who uses volumes in shared pools.
"""

EXAMPLES = r"""
---
- name: Copy the ISO file of an installer to every hypervisor
  brine.virt.virt_volume:
    name: debian-13-netinst.iso
    format: iso
    src: debian-13-netinst.iso
    checksum: "sha256:{{ netinst_sha256 }}"

- name: Create an empty disk of 20 GiB, and grow it if it is smaller
  brine.virt.virt_volume:
    name: data1.qcow2
    size: 20GiB

- name: Create several volumes, one from a file that is already on the hypervisor
  brine.virt.virt_volume:
    volumes:
      - {name: scratch, pool: vg0, size: 100GiB}
      - {name: appliance.qcow2, path: /srv/appliance.qcow2, size: 40GiB}
      - {name: old.iso, state: absent}

- name: Replace the ISO file of drivers by a new one, as long as no machine has it
  brine.virt.virt_volume:
    name: virtio-win.iso
    src: virtio-win-0.1.271.iso
    replace: true

- name: See who else may use a volume in a pool that several hypervisors share
  brine.virt.virt_volume:
    name: data1.qcow2
    pool: nfs
    state: absent
  check_mode: true
  # In a pool that is shared, this is refused as long as the others have not been asked.
  failed_when: false
  delegate_to: hv1
  run_once: true
  register: found

- name: Ask the other hypervisors
  brine.virt.virt_usage_info:
    volumes: "{{ found.volumes | map(attribute='shared') | select }}"
  when: inventory_hostname != 'hv1'
  register: others

- name: Delete it if none of them uses it
  brine.virt.virt_volume:
    name: data1.qcow2
    pool: nfs
    state: absent
    used_elsewhere:
      hv2: "{{ hostvars['hv2'].others | default('it was not asked') }}"
  when: inventory_hostname == 'hv1'
"""

RETURN = r"""
volumes:
  description: What happened to each volume; in check mode, what would happen to it.
  returned: always, unless the options are wrong or something other than O(used_elsewhere) stands in the way
  type: list
  elements: dict
  contains:
    name:
      description: Name of the volume.
      type: str
      returned: always
      sample: data1.qcow2
    pool:
      description: The storage pool.
      type: str
      returned: always
      sample: default
    present:
      description: Whether it is there now, also after something has failed.
      type: bool
      returned: always
      sample: true
    changed:
      description: Whether anything of it was changed and not rolled back.
      type: bool
      returned: always
      sample: true
    failed:
      description: Whether something has failed. What could be rolled back was.
      type: bool
      returned: always
      sample: false
    msg:
      description: What has failed, and what to do.
      type: str
      returned: when it failed
      sample: "name: volume data1.qcow2 of pool default is kept: it is used by machine web1. Detach it there first"
    actions:
      description: What was done, in order; for one that failed, what could not be rolled back.
      type: list
      elements: str
      returned: always
      sample: [grow volume data1.qcow2 of pool default from 10.0G to 20.0G]
    pending:
      description: What takes effect only later. For volumes, nothing does.
      type: list
      elements: str
      returned: always
      sample: []
    path:
      description: Its path, or for network storage the protocol and the name. It is null if the volume is not there.
      type: str
      returned: always
      sample: /var/lib/libvirt/images/data1.qcow2
    format:
      description:
        - The format, as a machine's disk has it. An ISO file is V(raw). It is null if the volume is not there.
        - Where nobody says it (see O(format)), it is what the first bytes look like, and the size is the one that they
          say.
      type: str
      returned: always
      sample: qcow2
    size_bytes:
      description: The size of the disk that a machine sees. It is null if the volume is not there.
      type: int
      returned: always
      sample: 21474836480
    unchecked:
      description:
        - Why its content was not compared with that of O(src) or O(path). It is null if it was, and without a file.
      type: str
      returned: always
      sample: machine web1 may have written to it
    shared:
      description:
        - What other hypervisors are to be asked before the volume is deleted, replaced or grown, for
          O(brine.virt.virt_usage_info#module:volumes) on all of them. It is null if it stays as it is, and in a pool of
          this hypervisor alone.
      type: dict
      returned: always
      sample: {pool: nfs, volume: data1.qcow2, place: /srv/nfs/data1.qcow2, inode: 131077}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.images.source_file import (
    NEEDED_FILES,
    ONLY_ASKED,
    SENT_FILES,
)
from ansible_collections.brine.virt.plugins.module_utils._host.progress import (
    PROGRESS_FILE,
    ProgressMeter,
    progress_file,
)
from ansible_collections.brine.virt.plugins.module_utils._model.withheld import SecretOptions, opened
from ansible_collections.brine.virt.plugins.module_utils._module import (
    answer_of_each,
    finish,
    make_module,
    require_root,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes.answers import read_used_elsewhere
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes.change import change_volumes, read_volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes.task import VolumeTask
from ansible_collections.brine.virt.plugins.module_utils._seeding.secret_values import has_secrets

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "pool": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"]},
    "size": {"type": "str"},
    "format": {"type": "str", "choices": ["qcow2", "raw", "iso"]},
    "src": {"type": "str"},
    "path": {"type": "path"},
    "checksum": {"type": "str"},
    "replace": {"type": "bool"},
    "mode": {"type": "str"},
    "owner": {"type": "str"},
    "group": {"type": "str"},
    "volumes": {"type": "list", "elements": "dict"},
    "used_elsewhere": {"type": "dict"},
    "lock_timeout": {"type": "int", "default": 300},
}
BESIDE = (PROGRESS_FILE, SENT_FILES, ONLY_ASKED)


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Plan, act unless in check mode, and return the result for each volume."""
    params = opened(module.params)
    require_root("virt_volume", params["uri"], "volumes")
    specs = read_volumes(params)
    elsewhere = read_used_elsewhere(params["used_elsewhere"], "used_elsewhere")
    check_mode = module.check_mode
    with open_connection(params["uri"]) as conn, progress_file(params[PROGRESS_FILE]) as lines:
        task = VolumeTask(
            conn, params["lock_timeout"], elsewhere, lambda name: ProgressMeter(lines.write_line, name).at
        )
        changes = change_volumes(
            specs,
            task,
            uri=params["uri"],
            sent=params[SENT_FILES],
            only_asked=bool(params[ONLY_ASKED]),
            check_mode=check_mode,
        )
    answer = answer_of_each(module, changes.results, changes.diff, key="volumes")
    return {**answer, NEEDED_FILES: list(changes.needed)} if changes.needed else answer


def main() -> None:
    finish(make_module(ARGUMENTS, secrets=SecretOptions(left_in=has_secrets), beside=BESIDE), work)


if __name__ == "__main__":
    main()
