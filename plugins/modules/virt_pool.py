#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: storage pools of a hypervisor."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_pool
short_description: Storage pools of a hypervisor
version_added: "1.0.0"
description:
  - Defines, starts, stops and removes libvirt's storage pools. Describe one by the options, or several in O(pools).
  - What a pool that exists has and the task does not name stays as it is, except O(state) and O(autostart), whose
    defaults count for it too. A pool is never moved. Another O(type), O(path), O(device), O(host), O(export),
    O(target), O(volume_group), O(ceph_pool) or O(dataset) is an error.
  - Nothing that is in a pool is ever deleted, and no device with anything on it is formatted. A device that a
    machine has as a disk, or a part of it, is neither formatted nor mounted.
  - Whenever libvirt's daemon starts, except at the host's boot, it takes a pool of type V(rbd) for stopped, and so may
    older ones do with one of type V(zfs) that is empty. If the pool has autostart, it is started again without counting
    as a change, here and by all modules that look at it. One that is to stay stopped gets C(autostart=false).
  - The host needs the packages for its types of pools. On Debian and Ubuntu these are C(nfs-common) for O(type=netfs),
    C(open-iscsi) for O(type=iscsi), C(lvm2) for O(type=logical), C(libvirt-daemon-driver-storage-rbd) for O(type=rbd),
    C(libvirt-daemon-driver-storage-zfs) and C(zfsutils-linux) for O(type=zfs). Debian 13 also has
    C(libvirt-daemon-driver-storage-iscsi) and C(libvirt-daemon-driver-storage-logical). The role
    P(brine.virt.virt_hypervisor#role) installs those that C(virt_hypervisor_extra_packages) names.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._lock
  - brine.virt._resources
  - brine.virt._root
  - brine.virt._uri
attributes:
  check_mode:
    support: full
    details:
      - A secret (O(secret)) that does not exist yet is not an error in check mode, since a task before this one may
        create it. It is named in RV(pools[].pending).
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  name:
    description: Name of the pool. A task needs either this option or O(pools).
    type: str
  type:
    description:
      - What the volumes are - files in a directory (V(dir)), files on a file system that the pool mounts, of a device
        (V(fs)) or a server (V(netfs)), logical volumes of LVM (V(logical)), LUNs of an iSCSI target (V(iscsi)), images
        of Ceph (V(rbd)), or volumes of ZFS (V(zfs)).
      - Without it, a pool that exists has its own type, and a new one is of type V(dir).
      - A new pool needs O(path) if it is of type V(dir), O(path) and O(device) for V(fs), O(path), O(host) and
        O(export) for V(netfs), O(host) and O(target) for V(iscsi), O(hosts) and O(ceph_pool) for V(rbd). An option that
        is for other types is an error.
    type: str
    choices: [dir, fs, netfs, logical, iscsi, rbd, zfs]
  state:
    description:
      - V(active), which is the default - the pool is defined and started.
      - V(inactive) - it is defined and stopped. For the types V(fs), V(netfs), V(logical) and V(iscsi) this is refused
        while a running machine uses a volume, or shares with its guest what the pool has mounted.
      - V(absent) - it is stopped and its definition is removed. The directory, the file system, the volume group and
        everything in them stay. This is refused, with their names, while machines use a volume of it or share what it
        has mounted, be they running or not, or have one in a snapshot or their metadata, and while the host itself uses
        a device of it.
    type: str
    choices: [active, inactive, absent]
  autostart:
    description: Whether libvirt starts the pool with the host. The default is V(true).
    type: bool
  path:
    description:
      - Absolute path of the directory for O(type=dir), where the file system is mounted for O(type=fs) and
        O(type=netfs), or where the devices are for O(type=iscsi), by default V(/dev/disk/by-path).
      - The directory is created if it is missing. A directory with files in it is refused for O(type=fs) and
        O(type=netfs).
      - A directory of the host itself, such as V(/etc) or V(/root), the home of a user with C(.ssh) in it, and, by
        whatever path, the directory of another pool are refused. All files in the directory of a pool are its volumes.
      - Of O(type=logical) and O(type=zfs), libvirt chooses the path itself.
    type: str
  owner:
    description:
      - User that the directory belongs to, by name or number, for O(type=dir), O(type=fs) and O(type=netfs).
      - Without O(owner), O(group) and O(mode), a directory that exists stays as it is, and a new one belongs to root
        and has the mode V(0711).
    type: str
  group:
    description: Group that the directory belongs to, by name or number, for O(type=dir), O(type=fs) and O(type=netfs).
    type: str
  mode:
    description:
      - Mode of the directory in octal digits, for O(type=dir), O(type=fs) and O(type=netfs). Write it in quotes.
    type: raw
  device:
    description:
      - Device with the file system, for O(type=fs). Use a path in C(/dev/disk) that stays the same after a boot.
    type: str
  devices:
    description:
      - Devices to make the volume group or the ZFS pool from if it does not exist and O(build=true), for
        O(type=logical) and O(type=zfs).
      - If the volume group exists, it is an error if one of them does not belong to it.
    type: list
    elements: str
  build:
    description:
      - Whether to make what the pool needs and does not exist - the file system on O(device) (in O(format)), the volume
        group or the ZFS pool from O(devices), or the ZFS dataset. For O(type=fs), O(type=logical) and O(type=zfs). A
        file system needs a O(format) other than V(auto).
      - Only before a pool that is not active is started. What exists as requested is used as it is.
      - Never over anything. A device is refused if C(wipefs) sees a file system, a partition table or anything else on
        it, or cannot read it, if the host has it open, or if a machine has it as a disk.
      - What was made stays if a later step fails.
      - Directories are made without it.
    type: bool
  host:
    description: Host name or address of the server, for O(type=netfs) and O(type=iscsi).
    type: str
  port:
    description: Port of O(host), if it is not the usual one, for O(type=iscsi).
    type: int
  hosts:
    description:
      - Monitors of the Ceph cluster, for O(type=rbd). Each is a host name or an address, or a mapping with C(name) and
        C(port).
    type: list
    elements: raw
  export:
    description:
      - Directory that the server exports, for O(type=netfs). With O(format=cifs) it is the name of the share, and with
        O(format=glusterfs) that of the volume.
    type: str
  format:
    description:
      - Type of the file system. V(auto) is the default.
      - Of O(type=fs), V(auto), V(ext2), V(ext3), V(ext4), V(xfs), V(vfat), V(gfs), V(gfs2), V(hfs+), V(iso9660),
        V(ocfs2), V(udf), V(ufs) or V(vmfs).
      - Of O(type=netfs), V(auto), V(nfs), V(cifs) or V(glusterfs).
    type: str
  protocol_version:
    description: Version of NFS, such as V(4.2), for O(type=netfs). Write it in quotes.
    type: str
  mount_options:
    description:
      - Options of C(mount) in addition to those that follow from the others, for O(type=fs) and O(type=netfs).
      - libvirt takes them without any check, and notes in its log that the pool has them.
      - A password is refused here. For CIFS, write it into a file that only root can read, and name that with
        C(credentials=FILE). A password that an existing pool has is not shown.
    type: list
    elements: str
  volume_group:
    description: Name of the volume group, for O(type=logical). By default it is the name of the pool.
    type: str
  target:
    description: Name (IQN) of the target, for O(type=iscsi).
    type: str
  initiator:
    description: Name (IQN) that the host has for the target, for O(type=iscsi). By default it is the host's own.
    type: str
  ceph_pool:
    description: Name of the pool in the Ceph cluster, for O(type=rbd).
    type: str
  dataset:
    description:
      - Name of the ZFS pool, or of a dataset in it, for O(type=zfs). By default it is the name of the pool.
    type: str
  user:
    description:
      - User of the Ceph cluster, without C(client.), or of the iSCSI target (CHAP), for O(type=rbd) and O(type=iscsi).
        It needs O(secret), and O(secret) needs it.
    type: str
  secret:
    description:
      - UUID or usage name of the secret in libvirt that has the key or password of O(user), for O(type=rbd) and
        O(type=iscsi). It has to exist. M(brine.virt.virt_secret) creates it, with C(usage=ceph) or C(usage=iscsi).
    type: str
  pools:
    description:
      - Several pools. Each is a mapping of the options of this module, except O(pools), O(uri) and O(lock_timeout).
      - They are changed in this order. A pool may take the place of another one, such as its path, its export or its
        volume group, if that one comes before it with C(state=absent). Otherwise it is an error if two pools would be
        at one place.
    type: list
    elements: dict
seealso:
  - module: brine.virt.virt_secret
  - module: brine.virt.virt_host_info
    description: Shows the pools of a hypervisor with their space.
  - name: Storage pools of libvirt
    description: What each type of pool is and can do.
    link: https://libvirt.org/storage.html
"""

EXAMPLES = r"""
---
- name: Create the two pools that brine.virt works with
  brine.virt.virt_pool:
    pools:
      - name: default
        path: /var/lib/libvirt/images
      - name: images
        path: /var/lib/libvirt/virt-images

- name: Create a pool on an NFS server
  brine.virt.virt_pool:
    name: nfs
    type: netfs
    host: nas.example.org
    export: /srv/vms
    path: /var/lib/libvirt/nfs
    format: nfs
    protocol_version: "4.2"
    mount_options: [noatime]

- name: Make a volume group of an empty disk, and have logical volumes in it
  brine.virt.virt_pool:
    name: fast
    type: logical
    volume_group: vg_fast
    devices: [/dev/disk/by-id/nvme-eui.0025385b71b0a2c1]
    build: true

- name: Use images of Ceph; the secret was created with virt_secret
  brine.virt.virt_pool:
    name: ceph
    type: rbd
    hosts: [mon1.example.org, mon2.example.org]
    ceph_pool: vms
    user: libvirt
    secret: client.libvirt

- name: Use the LUNs of an iSCSI target
  brine.virt.virt_pool:
    name: san
    type: iscsi
    host: san.example.org
    target: iqn.2026-01.org.example:vms

- name: Forget a pool; its files stay
  brine.virt.virt_pool:
    name: nfs
    state: absent
"""

RETURN = r"""
pools:
  description: Each pool as it is now; in check mode, as it would be.
  returned: always, unless the options are wrong or something stands in the way
  type: list
  elements: dict
  contains:
    name:
      description: Name of the pool.
      type: str
      returned: always
      sample: nfs
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
      sample: "cannot start storage pool nfs: mount.nfs: access denied by server"
    actions:
      description: What was done, in order; for one that failed, what could not be rolled back.
      type: list
      elements: str
      returned: always
      sample: [define storage pool nfs, create /var/lib/libvirt/nfs and start storage pool nfs]
    pending:
      description: What takes effect only later, and when.
      type: list
      elements: str
      returned: always
      sample: []
    type:
      description: Type of the pool.
      type: str
      returned: when it is defined
      sample: netfs
    state:
      description: V(active) or V(inactive).
      type: str
      returned: when it is defined
      sample: active
    autostart:
      description: Whether it starts with the host.
      type: bool
      returned: when it is defined
      sample: true
    path:
      description:
        - Its directory. All other options of its type are there as well, by their names, as far as the definition has
          them.
      type: str
      returned: when it is defined and its type has the option
      sample: /var/lib/libvirt/nfs
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.pool import (
    ABSENT,
    ACTIVE,
    INACTIVE,
    POOL_TYPES,
    read_pool,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.pool_fields import secrets_in
from ansible_collections.brine.virt.plugins.module_utils._model.withheld import SecretOptions
from ansible_collections.brine.virt.plugins.module_utils._module import (
    answer_of_each,
    finish,
    make_module,
    require_root,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.pools.plan import PoolPlanner
from ansible_collections.brine.virt.plugins.module_utils._operations.pools.together import require_own_names
from ansible_collections.brine.virt.plugins.module_utils._operations.resources import (
    GivenResources,
    carry_out,
    diff_of,
    plan_all,
)

# Those of one pool, which are checked by its own rules as well; without defaults, to tell what is named.
OWN_ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "type": {"type": "str", "choices": list(POOL_TYPES)},
    "state": {"type": "str", "choices": [ACTIVE, INACTIVE, ABSENT]},
    "autostart": {"type": "bool"},
    "path": {"type": "str"},
    "owner": {"type": "str"},
    "group": {"type": "str"},
    "mode": {"type": "raw"},
    "device": {"type": "str"},
    "devices": {"type": "list", "elements": "str"},
    "build": {"type": "bool"},
    "host": {"type": "str"},
    "port": {"type": "int"},
    "hosts": {"type": "list", "elements": "raw"},
    "export": {"type": "str"},
    "format": {"type": "str"},
    "protocol_version": {"type": "str"},
    "mount_options": {"type": "list", "elements": "str"},
    "volume_group": {"type": "str"},
    "target": {"type": "str"},
    "initiator": {"type": "str"},
    "ceph_pool": {"type": "str"},
    "dataset": {"type": "str"},
    "user": {"type": "str"},
    # The name of a secret.
    "secret": {"type": "str", "no_log": False},
}
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    **OWN_ARGUMENTS,
    "pools": {"type": "list", "elements": "dict"},
    "lock_timeout": {"type": "int", "default": 300},
}


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Plan all, act unless in check mode, and return the result for each."""
    params = module.params
    require_root("virt_pool", params["uri"], "storage pools")
    specs = GivenResources.of(params, "pools", list(OWN_ARGUMENTS)).read(read_pool)
    require_own_names(specs)
    with open_connection(params["uri"]) as conn:
        planner = PoolPlanner(conn, check_mode=module.check_mode, lock_seconds=params["lock_timeout"])
        results = plan_all(specs, planner.plan, planner.look)
        carry_out(results, check_mode=module.check_mode)
    return answer_of_each(module, [result.as_result() for result in results], diff_of(results), key="pools")


def main() -> None:
    finish(make_module(ARGUMENTS, secrets=SecretOptions(found_in=secrets_in)), work)


if __name__ == "__main__":
    main()
