#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module virt_migrate."""

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_migrate
short_description: Move machines to another hypervisor
version_added: "0.1.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Moves machines from the hypervisor that this runs on to another one. Running and paused machines move without being
    stopped, machines that are off move as well.
  - Everything is checked on both hypervisors before anything is changed. What may have changed meanwhile is looked at
    again before the switch, such as the machine's own state and disks, its name and memory on the target, and whether
    the target has gone into maintenance (M(brine.virt.virt_maintenance)).
  - Whatever goes wrong afterwards, the machine is on exactly one hypervisor, and what was made for
    it on the other one is deleted.
  - A disk that is an overlay gets its image on the target, unless the store there has it, and only the difference
    travels. Other disks are copied whole, without their holes. A disk on storage that both hypervisors see stays
    where it is.
  - The machine's own volumes at the source are deleted when it is proven to be on the target. Nothing is deleted, on
    either side, that is in use, or that is not proven to be the very volume that the move was about.
  - The disks of a machine that is off are locked while they are copied, as QEMU locks those of a running one. It cannot
    be started meanwhile; what is written to them by other means makes the move fail, and nothing is lost.
  - What was sent to the target, the disks of a machine that is off and images, is on its disk before the machine
    leaves the source, and not only in its memory. For that, a transient domain C(brine-virt-sync-...) has the files
    open there for about half a second, paused from its first moment on. It is in no list of machines. When the target
    cannot confirm it, the machine stays. Volumes that are devices (LVM) have all of it when they are closed; what a
    drive of the target keeps in a cache of its own, and loses with its power, is not asked for. Not waited for is the
    seed of a running machine, which its guest has read at its first boot; a target that loses its power within half a
    minute may lose it.
  - The machine that is moved is the one that was planned. M(brine.virt.virt_init) does not change a machine that is
    being moved; what others change on record meanwhile ends the move before the switch.
  - A machine that is on the target already is left alone. A run that was cut off is finished, or cleared, by the next
    one with the same target.
  - While it works, the play's output shows how far each machine is.
  - When nobody waits for it any more (Ctrl-C, a lost connection, a killed module), the migration is called off, the
    machine runs on where it was, and the target is cleared.
options:
  name:
    description: The machine.
    type: str
  target:
    description:
      - The hypervisor to move to, as libvirt's URI (C(qemu+tls://hv2.example.org/system)), as the name of a host in the
        inventory, or as any other host name, which is reached by TLS.
      - The hypervisor that the machine is on opens this URI by itself. With TLS, the certificates of both have to fit,
        see the role P(brine.virt.virt_tls#role).
    type: str
  machines:
    description: Several machines instead of one, each with its O(machines[].name).
    type: list
    elements: dict
    suboptions:
      name:
        description: The machine.
        type: str
        required: true
      target:
        description: Where this machine is to go, instead of O(target).
        type: str
      memory_ratio:
        description: The O(memory_ratio) of its target.
        type: float
      memory_reserve_mib:
        description: The O(memory_reserve_mib) of its target.
        type: int
  concurrency:
    description: How many machines are moved at the same time.
    type: int
    default: 2
  live:
    description: Whether a running machine runs on while it is moved. Otherwise it is paused meanwhile.
    type: bool
    default: true
  copy_storage:
    description: What is done with disks on storage that only the source sees.
    type: str
    choices:
      auto: copied; an overlay stays an overlay
      inc: Salt's word for V(auto)
      incremental: Salt's word for V(auto)
      all: copied whole; an overlay becomes a disk of its own. For machines that are up.
      none: not copied; a machine that has such disks is not moved
    default: auto
  source_volumes:
    description:
      - Which volumes at the source are deleted when the machine is on the target.
      - A volume that something else uses never is, nor one of which that cannot be known, as in a pool that other
        hypervisors see. Before anything is moved it is looked for machines that have it (running or not), snapshots,
        checkpoints, and images in any pool that it is below. The move is refused then, unless the volumes are to stay.
    type: str
    choices:
      own: those that this collection made for the machine
      all: all that were copied
      none: none
    default: own
  tls:
    description:
      - Whether memory and disks travel encrypted, by QEMU's native TLS.
      - Salt's word C(tunnel) means the same. libvirt's tunnel itself cannot copy disks, and is not used.
    type: bool
    default: true
    aliases: [tunnel]
  timeout:
    description:
      - Seconds after which a machine that is still on its way is called off. It runs on at the source then.
      - With O(postcopy=true) it is switched to the target instead, once its disks are there.
      - Without it there is no limit.
    type: float
  bandwidth:
    description: The most that a machine may take of the network, in MiB/s.
    type: int
    aliases: [max_bandwidth]
  max_downtime:
    description: How long a machine may stand still at the switch, in milliseconds. QEMU's own choice is 300.
    type: int
  auto_converge:
    description: Whether a machine that changes its memory faster than it can be sent is slowed down.
    type: bool
    default: true
  postcopy:
    description:
      - Whether a machine is switched to the target after one pass over its memory, and gets the rest of it there.
      - It ends every migration. But when the network fails in that phase, the machine is lost.
      - The kernel of the target has to allow it to QEMU, on many systems by C(vm.unprivileged_userfaultfd=1).
    type: bool
    default: false
  postcopy_bandwidth:
    description: The same as O(bandwidth) for that phase.
    type: int
  parallel_connections:
    description: Send memory over so many connections.
    type: int
  compressed:
    description: Whether memory is sent compressed.
    type: bool
    default: false
  comp_methods:
    description: How it is compressed. Which of them there are is QEMU's matter.
    type: list
    elements: str
    choices: [mt, xbzrle, zlib, zstd]
  comp_mt_level:
    description: Level of C(mt), 0 to 9.
    type: int
  comp_mt_threads:
    description: Threads that compress, of C(mt).
    type: int
  comp_mt_dthreads:
    description: Threads that decompress, of C(mt).
    type: int
  comp_xbzrle_cache:
    description: Size of the cache of C(xbzrle), in bytes.
    type: int
  persistent:
    description: Whether the target has the machine on record, so that it is there after it was shut down.
    type: bool
    default: true
  undefinesource:
    description:
      - Whether the source forgets the machine. Otherwise it stays on record there, off, with its disks as they were.
      - Never start it there while it runs on the target.
    type: bool
    default: true
  migration_address:
    description:
      - The target's address for memory and disks, for example in a network of its own. The target's certificate has to
        name it.
      - Without it, the address in the target's URI.
    type: str
  memory_ratio:
    description: How much memory the machines of the target may have together, as a multiple of its own.
    type: float
    default: 1.0
  memory_reserve_mib:
    description: MiB of memory that stay free on the target.
    type: int
    default: 256
  progress_file:
    description:
      - Where to write lines about the progress, in a file that is made and removed again.
      - The play's output has them without it, where Ansible's connection is V(ssh) or V(local). They are read over a
        second connection; over others nothing is said about progress.
    type: path
extends_documentation_fragment:
  - brine.virt._uri
  - brine.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - The whole of the checks is made. Only whether two folders are the same shared storage is not tried out; they
        count as two.
  diff_mode:
    support: none
    details:
      - C(actions) says what changes.
  idempotent:
    support: full
notes:
  - When the target does not answer any more, or a migration that was called off does not end by itself, what the
    machine's QEMU has open to ports 49152 to 49215 of other hosts, which are libvirt's for migrations, is closed by
    C(ss --kill). QEMU would otherwise wait for a broken network for a quarter of an hour.
  - Machines with snapshots, with devices or folders of the hypervisor, and machines that are off but have UEFI
    variables or a TPM, are not moved, nor are machines that a run is still making or adding a disk to, or was cut off
    while it did. What is said then is what to do.
  - A machine that powers itself off as soon as it is on the target has been moved.
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

- name: Move two machines, in a network of their own, and give up after ten minutes each
  brine.virt.virt_migrate:
    machines:
      - {name: web1, target: hv2}
      - {name: db1, target: hv3}
    migration_address: 10.20.0.2
    timeout: 600
"""

RETURN = r"""
machines:
  description: What became of each machine, in the order of the task.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: The machine.
      type: str
      sample: web1
    changed:
      description: Whether it was moved, or would be in check mode.
      type: bool
    failed:
      description: Whether it could not be moved.
      type: bool
    msg:
      description: Why not.
      returned: when it failed
      type: str
    source:
      description: The hypervisor that it was on, as that calls itself.
      type: str
      sample: hv1.example.org
    target:
      description: The hypervisor that it is on now, as that calls itself.
      type: str
      sample: hv2.example.org
    actions:
      description: The steps.
      type: list
      elements: str
      sample: ["make web1-system.qcow2 on hv2.example.org", "move web1 to hv2.example.org"]
    disks:
      description:
        - The way of each disk. C(mirror) was copied while the machine ran, C(content) while nobody wrote to it,
          C(shared) lies where both hypervisors see it, C(there) was on the target before.
        - C(kept_at_source) says that it was copied and the volume at the source not deleted.
      type: list
      elements: dict
      sample: [{device: vda, pool: default, volume: web1-system.qcow2, way: mirror, kept_at_source: false}]
    kept_volumes:
      description:
        - Volumes that were to be deleted and were not, each with the reason and with what to do. They are warnings too.
      type: list
      elements: str
      sample: []
    time_ms:
      description: How long libvirt took to move it.
      returned: when it was up and libvirt says it
      type: int
      sample: 2714
    downtime_ms:
      description: How long it stood still.
      returned: when it was up and libvirt says it
      type: int
      sample: 41
    memory_bytes:
      description: How much memory was sent.
      returned: when it was up and libvirt says it
      type: int
    disk_bytes:
      description: How much of its disks was sent.
      returned: when it was up and libvirt says it
      type: int
"""

import threading
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.child_process import run_guarded
from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import is_local, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.progress import progress_file
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.machines import Removal, Wish
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.options import read_terms

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "target": {"type": "str"},
    "machines": {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "target": {"type": "str"},
            "memory_ratio": {"type": "float"},
            "memory_reserve_mib": {"type": "int"},
        },
    },
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
    "compressed": {"type": "bool", "default": False},
    "comp_methods": {"type": "list", "elements": "str", "choices": ["mt", "xbzrle", "zlib", "zstd"]},
    "comp_mt_level": {"type": "int"},
    "comp_mt_threads": {"type": "int"},
    "comp_mt_dthreads": {"type": "int"},
    "comp_xbzrle_cache": {"type": "int"},
    "persistent": {"type": "bool", "default": True},
    "undefinesource": {"type": "bool", "default": True},
    "migration_address": {"type": "str"},
    "memory_ratio": {"type": "float", "default": 1.0},
    "memory_reserve_mib": {"type": "int", "default": 256},
    "progress_file": {"type": "path"},
}


def read_wishes(params: dict[str, t.Any]) -> list[Wish]:
    """Who is to go where, and how. Raises InputError for what makes no sense."""
    machines = params["machines"]
    if machines is None:
        machines = [{"name": params["name"]}]
    wishes: list[Wish] = []
    for index, machine in enumerate(machines):
        where = "" if params["machines"] is None else f"machines[{index}]"
        own = {key: value for key, value in machine.items() if value is not None}
        target = own.get("target") or params["target"]
        if not target:
            raise InputError(f"{own['name']} has no target", where=where or None, hint="Name a hypervisor with target")
        if any(wish.name == own["name"] for wish in wishes):
            raise InputError(f"{own['name']} stands there twice", where=where)
        wish = Wish(own["name"], target, where, read_terms({**params, **own}))
        wish.check()
        wishes.append(wish)
    return wishes


def move(module: AnsibleModule, stop: threading.Event) -> dict[str, t.Any]:
    """Move the machines, unless in check mode, and say what became of each."""
    params = module.params
    wishes = read_wishes(params)
    if not is_local(params["uri"]):
        raise InputError(
            f"{params['uri']} is another host", where="uri", hint="Run this on the hypervisor that the machines are on"
        )
    path = None if module.check_mode else params["progress_file"]
    with open_connection(params["uri"]) as conn, progress_file(path) as progress:
        removal = Removal(conn, stop, progress, bool(module.check_mode))
        outcomes = removal.carry_out(wishes, concurrency=params["concurrency"])
    results = [outcome.as_result() for outcome in outcomes]
    return {"changed": any(result["changed"] for result in results), "machines": results}


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The module's result; failed, with all of it, when a machine could not be moved."""
    result = move(module, threading.Event()) if module.check_mode else run_guarded(lambda stop: move(module, stop))
    for machine in result["machines"]:
        for words in machine["kept_volumes"]:
            module.warn(f"{machine['name']}: {words}")
    failed = [machine for machine in result["machines"] if machine["failed"]]
    if failed:
        moved = [machine["name"] for machine in result["machines"] if not machine["failed"]]
        if len(result["machines"]) == 1:
            module.fail_json(msg=failed[0]["msg"], **result)
        words = "; ".join(f"{machine['name']}: {machine['msg']}" for machine in failed)
        module.fail_json(msg=f"{words}. These are on their target: {', '.join(moved) or 'none'}", **result)
    return result


def main() -> None:
    module = make_module(
        ARGUMENTS,
        required_one_of=[("name", "machines")],
        mutually_exclusive=[("name", "machines")],
    )
    finish(module, lambda: work(module))


if __name__ == "__main__":
    main()
