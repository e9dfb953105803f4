#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module virt_migrate."""

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_migrate
short_description: Move machines to another hypervisor, or their disks to other storage pools
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Moves machines from the hypervisor that this runs on to another one. Running and paused machines are moved without
    stopping them; machines that are off can be moved as well.
  - With O(pool) or O(disks), the disks go to the storage pools that are named, on the other hypervisor or, without a
    target, on the one that the machine is on. There, QEMU copies the disks of a running machine and goes on with the
    copies, without a pause that its guest would notice; the disks of one that is off are copied, and then the machine
    is defined with the copies.
  - Everything is checked on both hypervisors before anything is changed. What may have changed in the meantime is
    checked again before the switch, such as the machine's own state and disks, its name and memory on the target, and
    whether the target has gone into maintenance (M(brine.virt.virt_maintenance)).
  - The bridges and libvirt networks of the machine's nics have to be on the target under the same names, with the same
    port groups. A network there has to be of the same mode as here, have the same VLANs and keep its nics apart in the
    same way, or the machine stays; only the names of bridges and devices behind it may differ. Whether a bridge on
    another hypervisor is VLAN-aware cannot be told from here (C(vlan_filtering) of the role
    P(brine.virt.virt_bridge#role)).
  - Whatever goes wrong after that, the machine is on exactly one hypervisor, and what was created for it on the other
    one is deleted.
  - Only where libvirt's daemon at the source dies during the switch may both have it. If the target runs it, the copy
    at the source, which is paused or off, is ended, by this run or the next one with the same target. Otherwise nothing
    is touched, and the task says what each side has and what to do.
  - For a disk that is an overlay, the image is copied to the target unless the image store there already has it, and
    only the difference is copied in addition. Other disks are copied in full, without their holes. A disk on storage
    that both hypervisors share stays where it is.
  - The machine's own volumes at the source are deleted once it is proven to be on the target. On neither side is
    anything deleted that is in use, or that is not proven to be the very volume that the move concerns.
  - The disks of a machine that is off are locked while they are copied, as QEMU locks those of a running one. It cannot
    be started during that time; if something else writes to the disks, the move fails, and nothing is lost.
  - Images and the disks of a machine that is off are flushed to the target's disk before the machine leaves the source.
    For that, a transient domain C(brine-virt-sync-...) keeps the files open there for about half a second, paused from
    the start. It is not shown in any list of machines. If the target cannot confirm the flush, the machine stays.
    Volumes that are devices (LVM) are flushed when they are closed; a volatile write cache in a drive of the target is
    not taken into account. The seed of a running machine, which its guest has read at its first boot, is not waited
    for; a target that loses power within half a minute may lose it.
  - The machine that is moved is the one that was planned. M(brine.virt.virt_init) does not change a machine that is
    being moved; if something else changes its definition during the move, the move fails before the switch.
  - A machine that is already on the target is left alone. An interrupted run is finished, or cleaned up, by the next
    one with the same target.
  - When libvirt's daemon is killed while it switches a running machine to the copy of a disk in another pool, it may
    not know afterwards which of the two volumes the machine is on. No volume that QEMU has open is deleted then,
    whatever libvirt says. Each run fails and says so until the machine is off (M(brine.virt.virt_power) with
    O(brine.virt.virt_power#module:state=stopped)). Then the next one gives the machine the newer volume, or keeps both
    if it cannot tell which one that is.
  - The play's output shows the progress of each machine. It is read over a second connection, if Ansible's connection
    is V(ssh) or V(local); over other connections, and with C(async) or C(no_log), no progress is shown.
  - When nobody waits for it any more (Ctrl-C, a lost connection, a killed module), the migration is cancelled, the
    machine keeps running where it was, and the target is cleaned up.
options:
  name:
    description: Name of the machine to move. A task needs either this option or O(machines).
    type: str
    aliases: [vm]
  target:
    description:
      - The hypervisor to move to, as a libvirt URI (C(qemu+tls://hv2.example.org/system)), as the name of a host in the
        inventory, or as any other host name, which is reached over TLS. A host of the inventory is reached at its
        variable C(virt_tls_address), else at its C(ansible_host), else by its name there.
      - It is given for every machine, here or in O(machines[].target).
      - It is not needed with O(pool) or O(disks). Without it, the disks go to other pools of the same hypervisor.
      - The hypervisor that the machine is on opens this URI itself. With TLS, each must accept the other's certificate,
        see the role P(brine.virt.virt_tls#role).
    type: str
  machines:
    description: The machines to move, if there are several.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the machine.
        type: str
        required: true
      target:
        description: The target of this machine, instead of O(target).
        type: str
      memory_ratio:
        description: The O(memory_ratio) of its target.
        type: float
      memory_reserve_mib:
        description: The O(memory_reserve_mib) of its target.
        type: int
      anti_affinity:
        description: The O(anti_affinity) of this machine.
        type: str
        choices: [require, prefer]
      pool:
        description: The O(pool) of its disks.
        type: str
      disks:
        description: The O(disks) of this machine.
        type: dict
  pool:
    description:
      - The storage pool that the disks go to, whatever pools they are in now. Without this option, a disk goes to the
        pool of the same name on the target.
      - What a machine only reads and does not own, such as the CD in a drive, stays where it is, and on another
        hypervisor is expected in the pool of the same name. Its seed is moved too.
      - A disk keeps its format and its size. An overlay stays one, on the same image; see O(copy_storage).
    type: str
  disks:
    description:
      - "The pools of single disks, by the disk's name or its device in the guest, as in C({data: {pool: fast}}). A disk
        that is not named goes to O(pool); without that, on the same hypervisor, it stays. Naming an empty drive, or
        another pool for what the machine only reads and does not own, is an error."
    type: dict
  concurrency:
    description: How many machines are moved at the same time.
    type: int
    default: 2
  live:
    description: Whether a running machine keeps running while it is moved. With V(false) it is paused during the move.
    type: bool
    default: true
  copy_storage:
    description: What is done with disks on storage that only the source can access.
    type: str
    choices:
      auto: copied; an overlay stays an overlay
      inc: Salt's name for V(auto)
      incremental: Salt's name for V(auto)
      all: copied in full; an overlay becomes a disk without a backing image. Only for machines that are not off.
      none: not copied; a machine that has such disks is not moved
    default: auto
  source_volumes:
    description:
      - Which volumes at the source are deleted when the machine is on the target.
      - A volume is never deleted if something else uses it, or if that cannot be determined, as in a pool that other
        hypervisors share. This is checked before anything is moved, for machines that use it (running or not),
        snapshots, checkpoints, and images in any pool that it backs. If there are any, the move is refused, unless the
        volumes are to be kept.
    type: str
    choices:
      own: those that this collection created for the machine
      all: all that were copied
      none: none
    default: own
  tls:
    description:
      - Whether memory and disks are encrypted in transit, by QEMU's native TLS.
      - Salt's name C(tunnel) means the same. libvirt's tunnel itself cannot copy disks, and is not used.
    type: bool
    default: true
    aliases: [tunnel]
  timeout:
    description:
      - Seconds after which the migration of a machine is cancelled. The machine then keeps running at the source.
      - With O(postcopy=true) a running machine is switched to the target instead, or, while its disks are being copied,
        as soon as they are there.
      - It includes the wait for other runs that are changing machines on the hypervisor, such as one that deletes a
        large snapshot. Disks that have been copied by then stay up to date, or are kept from being written to.
      - The default is no limit.
    type: float
  bandwidth:
    description:
      - The most network bandwidth that one machine may use, in MiB/s. The default is no limit.
      - On the same hypervisor, how fast the disks of a running machine may be copied.
    type: int
    aliases: [max_bandwidth]
  max_downtime:
    description: How long a machine may be paused for the switch, in milliseconds. The default is QEMU's own, 300.
    type: int
  auto_converge:
    description: Whether to slow down a machine that changes its memory faster than it can be sent.
    type: bool
    default: true
  postcopy:
    description:
      - Whether to switch a machine to the target after one pass over its memory, and to fetch the rest of its memory
        afterwards.
      - With it, every migration completes eventually. But if the network fails in that phase, the machine is lost.
      - Not together with O(live=false).
      - The kernel of the target must allow QEMU to do this, on many systems with C(vm.unprivileged_userfaultfd=1).
    type: bool
    default: false
  postcopy_bandwidth:
    description: The same as O(bandwidth), in MiB/s, for the post-copy phase. The default is no limit.
    type: int
  parallel_connections:
    description: The number of connections to send memory over. Without this option there is a single one.
    type: int
  compression:
    description:
      - How memory is compressed while it is sent. Without this option it is not; with an empty mapping, C({}), libvirt
        chooses the method.
      - Which methods are available depends on QEMU.
    type: dict
    suboptions:
      methods:
        description:
          - The methods. V(zlib) and V(zstd) need O(parallel_connections), one of them at a time; the others do not work
            with it.
        type: list
        elements: str
        choices: [mt, xbzrle, zlib, zstd]
      mt_level:
        description: Level of V(mt), 0 to 9.
        type: int
      mt_threads:
        description: Number of compression threads of V(mt).
        type: int
      mt_dthreads:
        description: Number of decompression threads of V(mt).
        type: int
      xbzrle_cache:
        description: Size of the cache of V(xbzrle), in bytes.
        type: int
  compressed:
    description: Salt's name for O(compression). V(true) is an empty mapping. Not together with O(compression).
    type: bool
    default: false
  comp_methods:
    description: Salt's name for O(compression.methods).
    type: list
    elements: str
    choices: [mt, xbzrle, zlib, zstd]
  comp_mt_level:
    description: Salt's name for O(compression.mt_level).
    type: int
  comp_mt_threads:
    description: Salt's name for O(compression.mt_threads).
    type: int
  comp_mt_dthreads:
    description: Salt's name for O(compression.mt_dthreads).
    type: int
  comp_xbzrle_cache:
    description: Salt's name for O(compression.xbzrle_cache).
    type: int
  persistent:
    description:
      - Whether the machine is defined on the target, so that it still exists there after it is shut down.
      - V(false) needs O(undefine_source=false).
    type: bool
    default: true
  undefine_source:
    description:
      - Whether the machine is undefined at the source. With V(false) it stays defined there, off, with its disks as
        they were.
      - Never start it there while it runs on the target.
    type: bool
    default: true
    aliases: [undefinesource]
  migration_address:
    description:
      - The target's address for memory and disks, for example in a dedicated network. The target's certificate must
        include it.
      - The default is the address in the target's URI.
    type: str
  memory_ratio:
    description:
      - How many times the memory of the target, less O(memory_reserve_mib), may be committed to machines, as in
        P(brine.virt.place#filter).
    type: float
    default: 1.0
  memory_reserve_mib:
    description: MiB of memory to keep free on the target for itself.
    type: int
    default: 256
  anti_affinity:
    description:
      - What to do with a machine if one of its anti-affinity groups is on the target, or has come there since the move
        was planned.
    type: str
    choices:
      require: it is not moved
      prefer: it is moved all the same
    default: require
extends_documentation_fragment:
  - brine.virt._root
  - brine.virt._root.own_host
  - brine.virt._uri
  - brine.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - All checks are made, except that it is not tried out whether two directories are the same shared storage. They
        count as the same if the volume of the disk has the same size and the same time of its last change in both, or,
        as an NFS client may tell it, a time up to a minute before on the target.
  diff_mode:
    support: full
    details:
      - It shows the hypervisor and the volume of each disk, before and after. C(actions) lists the steps.
  idempotent:
    support: full
notes:
  - When the target no longer answers, or a cancelled migration does not end by itself, the connections of the machine's
    QEMU to the migration ports of other hosts are closed with C(ss --kill). Otherwise QEMU would wait for a broken
    network for a quarter of an hour. The migration ports are those from C(migration_port_min) to
    C(migration_port_max) in this hypervisor's C(/etc/libvirt/qemu.conf), by default 49152 to 49215; they have to be the
    same on the target.
  - Internal snapshots move with a machine that is off, and those of disks on Ceph also with one that runs. A machine
    with others is not moved while it runs, and one with external snapshots is not moved at all.
  - Machines with devices or directories of the hypervisor, with persistent memory in a file, and
    machines that are off but have UEFI variables or a TPM, are not moved. The kernel of one that is off, and other
    files that its start reads, have to be in a storage pool of the target. libvirt there has to have the network
    filters of its nics, and the secrets of its encrypted disks, which are not copied while the machine runs. Machines
    that a run is still creating or adding a disk to, or was interrupted while doing so, are not moved either. The error
    says how to proceed.
  - The disks of a machine with snapshots, or with a saved state, cannot go to other pools, as both name the volumes.
    The next backup of a disk that has moved is a full one (M(brine.virt.virt_backup)).
  - When the disks of a machine go to other pools, its entry in the list of machines has to name these pools as well, or
    M(brine.virt.virt_init) reports the difference.
  - A machine that powers itself off as soon as it is on the target counts as moved.
seealso:
  - module: brine.virt.virt_info
  - plugin: brine.virt.place
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Move a machine to another hypervisor
  brine.virt.virt_migrate:
    name: web1
    target: hv2

- name: Move two machines over a dedicated network, and give up after ten minutes each
  brine.virt.virt_migrate:
    machines:
      - {name: web1}
      - {name: db1}
    target: hv2
    migration_address: 10.20.0.2
    timeout: 600

- name: Move the disks of a machine to another pool of its hypervisor, while it runs
  brine.virt.virt_migrate:
    name: web1
    pool: fast

- name: Move one of its disks, with at most 100 MiB/s
  brine.virt.virt_migrate:
    name: web1
    disks: {data: {pool: fast}}
    bandwidth: 100

- name: Move a machine to a hypervisor where its disks are in other pools
  brine.virt.virt_migrate:
    name: web1
    target: hv2
    pool: default
    disks: {data: {pool: fast}}

- name: Move a machine over a slow link, with its memory compressed
  brine.virt.virt_migrate:
    name: web1
    target: hv2
    compression: {methods: [xbzrle]}
"""

RETURN = r"""
machines:
  description: The result for each machine, in the order of the task.
  returned: always, unless the options are wrong
  type: list
  elements: dict
  contains:
    name:
      description: The machine.
      returned: always
      type: str
      sample: web1
    changed:
      description: Whether it was moved, or would be in check mode.
      returned: always
      type: bool
    failed:
      description: Whether it could not be moved.
      returned: always
      type: bool
    msg:
      description: Why it could not be moved.
      returned: when it failed
      type: str
    source:
      description: The hypervisor that it was on, by its own host name.
      returned: always
      type: str
      sample: hv1.example.org
    target:
      description: The hypervisor that it is on now, by its own host name. The same one when only its disks moved.
      returned: always
      type: str
      sample: hv2.example.org
    actions:
      description: The steps.
      returned: always
      type: list
      elements: str
      sample: ["make web1-system.qcow2 on hv2.example.org", "move web1 to hv2.example.org"]
    disks:
      description:
        - How each disk was moved (C(method)). V(mirror) was copied while the machine ran, V(content) was copied while
          nothing wrote to it, V(shared) is on storage that both hypervisors share, V(there) was on the target before.
        - C(pool) and C(volume) say where it is now, C(from_pool) and C(from_volume) where it was, C(size_bytes) how
          large it is for its guest.
        - C(kept_at_source) is true if it was copied and the old volume was not deleted.
        - On the same hypervisor, only the disks that moved.
      returned: always
      type: list
      elements: dict
      sample:
        - device: vda
          pool: fast
          volume: web1-system.qcow2
          from_pool: default
          from_volume: web1-system.qcow2
          size_bytes: 10737418240
          method: mirror
          kept_at_source: false
    kept_volumes:
      description:
        - Volumes that should have been deleted and were not, and those that were made for the machine and are none of
          its disks any more, each with the reason and what to do. These are also shown as warnings.
      returned: always
      type: list
      elements: str
      sample: []
    duration_ms:
      description: How long libvirt took to move it.
      returned: when it was not off and libvirt reports it
      type: int
      sample: 2714
    downtime_ms:
      description: How long it was paused.
      returned: when it was not off and libvirt reports it
      type: int
      sample: 41
    memory_bytes:
      description: How much memory was sent.
      returned: when it was not off and libvirt reports it
      type: int
    disk_bytes:
      description: How much of its disks was copied while it ran.
      returned: when it was not off and libvirt reports it, while it is copied or afterwards
      type: int
"""

import threading
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.child_process import run_guarded
from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection, require_local
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE, progress_file
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module, require_root
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.options import (
    read_migration_options,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.task.machines import (
    MigrationSpec,
    TaskMigrations,
)

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str", "aliases": ["vm"]},
    "target": {"type": "str"},
    "machines": {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "target": {"type": "str"},
            "memory_ratio": {"type": "float"},
            "memory_reserve_mib": {"type": "int"},
            "anti_affinity": {"type": "str", "choices": ["require", "prefer"]},
            "pool": {"type": "str"},
            "disks": {"type": "dict"},
        },
    },
    "pool": {"type": "str"},
    "disks": {"type": "dict"},
    "concurrency": {"type": "int", "default": 2},
    "live": {"type": "bool", "default": True},
    "copy_storage": {"type": "str", "choices": ["auto", "inc", "incremental", "all", "none"], "default": "auto"},
    "source_volumes": {"type": "str", "choices": ["own", "all", "none"], "default": "own"},
    "tls": {"type": "bool", "default": True, "aliases": ["tunnel"]},
    "timeout": {"type": "float"},
    "bandwidth": {"type": "int", "aliases": ["max_bandwidth"]},
    "max_downtime": {"type": "int"},
    "auto_converge": {"type": "bool", "default": True},
    "postcopy": {"type": "bool", "default": False},
    "postcopy_bandwidth": {"type": "int"},
    "parallel_connections": {"type": "int"},
    "compression": {
        "type": "dict",
        "options": {
            "methods": {"type": "list", "elements": "str", "choices": ["mt", "xbzrle", "zlib", "zstd"]},
            "mt_level": {"type": "int"},
            "mt_threads": {"type": "int"},
            "mt_dthreads": {"type": "int"},
            "xbzrle_cache": {"type": "int"},
        },
    },
    "compressed": {"type": "bool", "default": False},
    "comp_methods": {"type": "list", "elements": "str", "choices": ["mt", "xbzrle", "zlib", "zstd"]},
    "comp_mt_level": {"type": "int"},
    "comp_mt_threads": {"type": "int"},
    "comp_mt_dthreads": {"type": "int"},
    "comp_xbzrle_cache": {"type": "int"},
    "persistent": {"type": "bool", "default": True},
    "undefine_source": {"type": "bool", "default": True, "aliases": ["undefinesource"]},
    "migration_address": {"type": "str"},
    "memory_ratio": {"type": "float", "default": 1.0},
    "memory_reserve_mib": {"type": "int", "default": 256},
    "anti_affinity": {"type": "str", "choices": ["require", "prefer"], "default": "require"},
}


def read_specs(params: dict[str, t.Any]) -> list[MigrationSpec]:
    """Who is to go where, and how. Raises InputError for what makes no sense."""
    machines = params["machines"]
    if machines is None:
        machines = [{"name": params["name"]}]
    specs: list[MigrationSpec] = []
    for index, machine in enumerate(machines):
        where = "" if params["machines"] is None else f"machines[{index}]"
        own = {key: value for key, value in machine.items() if value is not None}
        target = own.get("target") or params["target"] or ""
        if any(spec.name == own["name"] for spec in specs):
            raise InputError(f"{own['name']} is given twice", where=where)
        spec = MigrationSpec(own["name"], target, where, read_migration_options({**params, **own}))
        spec.check()
        specs.append(spec)
    return specs


def move(module: AnsibleModule, stop: threading.Event) -> dict[str, t.Any]:
    """Move the machines, unless in check mode, and return the result for each."""
    params = module.params
    require_root("virt_migrate", params["uri"])
    specs = read_specs(params)
    require_local(params["uri"], "that the machines are on")
    with open_connection(params["uri"]) as conn, progress_file(params[PROGRESS_FILE]) as progress:
        migrations = TaskMigrations(conn, stop, progress, bool(module.check_mode))
        outcomes = migrations.carry_out(specs, concurrency=params["concurrency"])
    results = [outcome.as_result() for outcome in outcomes]
    diff = [as_diff(result) for result in results if result["changed"]]
    return {"changed": any(result["changed"] for result in results), "machines": results, "diff": diff}


def as_diff(result: dict[str, t.Any]) -> dict[str, t.Any]:
    """Where a machine and its disks were and are, as Ansible shows it; of the result of one machine."""

    def words(hypervisor: str, prefix: str) -> str:
        disks = [f"{disk['device']}: {disk[f'{prefix}pool']}/{disk[f'{prefix}volume']}" for disk in result["disks"]]
        return "\n".join([f"hypervisor: {hypervisor}", *disks, ""])

    return {
        "before_header": result["name"],
        "after_header": result["name"],
        "before": words(result["source"], "from_"),
        "after": words(result["target"], ""),
    }


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The module's result; failed, with all of it, when a machine could not be moved."""
    result = move(module, threading.Event()) if module.check_mode else run_guarded(lambda stop: move(module, stop))
    # Where they are to stay, nobody has to be told.
    told = module.params["undefine_source"] and module.params["source_volumes"] == "own"
    for machine in result["machines"]:
        for words in machine["kept_volumes"]:
            module.warn(f"{machine['name']}: {words}")
        for disk in machine["disks"] if machine["changed"] and told else ():
            if disk["kept_at_source"]:
                module.warn(
                    f"{machine['name']}: volume {disk['from_volume']} stays in pool {disk['from_pool']} of "
                    f"{machine['source']}, as it was not created for this machine"
                )
    failed = [machine for machine in result["machines"] if machine["failed"]]
    if failed:
        moved = [machine["name"] for machine in result["machines"] if not machine["failed"]]
        if len(result["machines"]) == 1:
            module.fail_json(msg=failed[0]["msg"], **result)
        words = "; ".join(f"{machine['name']}: {machine['msg']}" for machine in failed)
        rest = "These can be moved" if module.check_mode else "Already on their target"
        module.fail_json(msg=f"{words}. {rest}: {', '.join(moved) or 'none'}", **result)
    return result


def main() -> None:
    module = make_module(
        ARGUMENTS,
        required_one_of=[("name", "machines")],
        mutually_exclusive=[("name", "machines")],
        beside=[PROGRESS_FILE],
    )
    finish(module, work)


if __name__ == "__main__":
    main()
