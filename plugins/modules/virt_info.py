#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: the machines of a hypervisor."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_info
short_description: Show the machines of a hypervisor
version_added: "1.0.0"
description:
  - Shows the current facts of all machines of a hypervisor, or of some of them.
  - A machine that cannot be read is still listed; RV(machines[].errors) says why.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._attributes.info_module
  - brine.virt._uri
options:
  name:
    description:
      - Names of the machines to show, or the name of a single one. Without this option, all machines are shown; with an
        empty list, none.
      - A text is split at commas. A name that has a comma in it must be in a list.
      - It is not an error if a machine does not exist. Its name is then in RV(missing).
      - If several of O(name), O(uuid), O(state) and O(tag) are given, a machine has to match all of them to be shown.
    type: list
    elements: str
    aliases: [vm]
  uuid:
    description: UUIDs of the machines to show. One that no machine has is in RV(missing).
    type: list
    elements: str
  state:
    description:
      - States of the machines to show, as in RV(machines[].state).
      - V(saved) is those with RV(machines[].saved), whose state is V(shutoff).
    type: list
    elements: str
    choices: [running, paused, shutoff, saved, crashed, pmsuspended, blocked, shutdown, nostate]
  tag:
    description: Tags. A machine is shown if it has at least one of them.
    type: list
    elements: str
  gather_subset:
    description:
      - What to find out about the machines, as in M(ansible.builtin.setup). What is not asked for is not in the
        records, and costs nothing.
      - V(min) is the names, UUIDs and states of the machines, and whether they are persistent, are saved and start with
        the hypervisor. These are always included, and take five calls to libvirt, however many machines there are.
      - V(metadata), V(hardware), V(nics) and V(console) take one more call for each machine, for all of them together.
        So does O(tag).
      - V(disks) also takes one call for each storage pool, and V(pending) one for each running machine.
      - V(addresses) takes up to four for each running machine. Only V(addresses) and V(os) ask guest agents.
      - V(snapshots) takes up to two calls for each machine and one for each snapshot, V(jobs) two for each running
        machine and one for each of its disks, and V(os) four for each running machine with a guest agent.
      - V(backing_chains) takes one for each machine, and for one that is off two for each layer below its disks. It
        includes V(disks), and is left out if V(!disks) is given.
      - V(images) takes as many as V(backing_chains), and one for each storage pool that images are in and each stored
        image of which there are several versions.
      - V(uptime) takes no further calls.
      - V(all) is everything. A name with V(!) before it is left out; where only such names are given, they are left out
        of V(all). V(!all) is V(min).
    type: list
    elements: str
    choices:
      - all
      - min
      - metadata
      - hardware
      - disks
      - nics
      - addresses
      - pending
      - console
      - snapshots
      - jobs
      - backing_chains
      - images
      - os
      - uptime
      - "!all"
      - "!metadata"
      - "!hardware"
      - "!disks"
      - "!nics"
      - "!addresses"
      - "!pending"
      - "!console"
      - "!snapshots"
      - "!jobs"
      - "!backing_chains"
      - "!images"
      - "!os"
      - "!uptime"
    default: [metadata, hardware, disks, nics, addresses, pending, console]
  addresses:
    description:
      - With V(false), addresses are not asked for, whatever O(gather_subset) says.
      - The addresses of a running machine come from its own static configuration, the DHCP leases of libvirt's
        networks, the guest agent, and the neighbour table of the hypervisor. Each of these is only consulted if the
        ones before it gave no address for a nic.
      - To ask for them, the connection to libvirt has to be read-write, because libvirt does not ask guest agents for a
        read-only one.
    type: bool
    default: true
  agent_timeout:
    description: How many seconds to wait for the answer of one guest agent.
    type: int
    default: 2
  timeout:
    description:
      - How many seconds the hypervisor may take for the whole answer. Of these it has 15 to accept the connection, so
        that a libvirt that hangs is detected early.
    type: int
    default: 30
seealso:
  - module: brine.virt.virt_host_info
    description: The hypervisor itself.
  - plugin: brine.virt.domains
    plugin_type: inventory
    description: The machines of many hypervisors as hosts.
"""

EXAMPLES = r"""
---
- name: Ask for all machines
  brine.virt.virt_info:
  register: found

- name: Show their states
  ansible.builtin.debug:
    msg: "{{ dict(found.machines | map(attribute='name') | zip(found.machines | map(attribute='state'))) }}"

- name: Ask for one machine
  brine.virt.virt_info:
    name: web1
  register: found

- name: Show its address
  ansible.builtin.debug:
    msg: "{{ found.machine.address | default('web1 has no address', true) }}"
  when: found.machine is not none

- name: Ask for the names and states of all machines, which is quick on a hypervisor with many of them
  brine.virt.virt_info:
    gather_subset: [min]
  register: found

- name: Ask for the snapshots and the active jobs of the web servers that are running
  brine.virt.virt_info:
    tag: [web]
    state: [running]
    gather_subset: [snapshots, jobs]
  register: found

- name: Find the machines that are backed by an old version of an image
  brine.virt.virt_info:
    gather_subset: [images]
  register: found

- name: Show them
  ansible.builtin.debug:
    msg: "{{ found.machines | selectattr('newer_images') | map(attribute='name') }}"

- name: Ask for several machines
  brine.virt.virt_info:
    name: [web1, web2]
  register: found

- name: Check that they exist
  ansible.builtin.assert:
    that: found.missing | length == 0
"""

RETURN = r"""
machine:
  description: The record of the machine O(name), as in RV(machines), or null if it does not exist.
  returned: when O(name) is a single name
  type: dict
missing:
  description: Those of O(name) and O(uuid) that do not exist on this hypervisor.
  returned: success
  type: list
  elements: str
  sample: []
known:
  description: The names of all machines of this hypervisor, for a message about RV(missing).
  returned: when RV(missing) has any
  type: list
  elements: str
  sample: [db1, web1]
machines:
  description:
    - The records of the machines, sorted by name. Unknown values are null.
    - Which keys there are depends on O(gather_subset).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the machine.
      returned: always
      type: str
      sample: web1
    uuid:
      description: libvirt's UUID of the machine.
      returned: always
      type: str
      sample: 7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11
    state:
      description:
        - One of V(running), V(paused), V(shutoff), V(crashed), V(pmsuspended), V(blocked), V(shutdown) and V(nostate).
      returned: always
      type: str
      sample: running
    vcpus:
      description: Current number of virtual CPUs.
      returned: with V(hardware) in O(gather_subset)
      type: int
      sample: 2
    vcpus_max:
      description: Maximum number of virtual CPUs that it can have without being powered off and on.
      returned: with V(hardware) in O(gather_subset)
      type: int
      sample: 2
    memory_mib:
      description: Current memory, in MiB.
      returned: with V(hardware) in O(gather_subset)
      type: int
      sample: 2048
    memory_max_mib:
      description: Maximum memory that it can have without being powered off and on, in MiB.
      returned: with V(hardware) in O(gather_subset)
      type: int
      sample: 2048
    autostart:
      description: Whether it starts with its hypervisor.
      returned: always
      type: bool
      sample: true
    persistent:
      description: Whether it stays defined when it is stopped.
      returned: always
      type: bool
      sample: true
    paused_by:
      description:
        - Why it is paused, if nobody paused it, such as V(because of an I/O error), which is mostly a storage that is
          full. Null otherwise.
      returned: always
      type: str
      sample: null
    saved:
      description: >-
        Whether its memory is saved on disk, as by O(brine.virt.virt_power#module:state=saved). Its state is V(shutoff)
        then, and it goes on where it was when it is started.
      returned: always
      type: bool
      sample: false
    managed:
      description: Whether this collection created it.
      returned: with V(metadata) in O(gather_subset)
      type: bool
      sample: true
    building:
      description: Whether it is still being created, or its creation was interrupted.
      returned: with V(metadata) in O(gather_subset)
      type: bool
      sample: false
    claimed:
      description:
        - Whether only its name is claimed, by a run that has not yet decided whether to create the machine here, or
          that was interrupted before it had.
      returned: with V(metadata) in O(gather_subset)
      type: bool
      sample: false
    moving:
      description:
        - The hypervisors that it is being moved between, by their own host names (C(source), C(target)), and whether it
          was up when that began (C(running)). Null when it is not being moved.
        - The same hypervisor twice when its disks are being moved to other storage pools.
        - It remains set when a run of M(brine.virt.virt_migrate) was interrupted, until the next run finishes or cleans
          up the move.
      returned: with V(metadata) in O(gather_subset)
      type: dict
      sample: null
    pending:
      description:
        - What is set in its definition but not in effect yet, by the option names of M(brine.virt.virt_init). It takes
          effect when the machine is powered off and on; a reboot in the guest is not enough.
        - Disks and nics that it still has and its definition has no more are named too.
        - What libvirt itself changes in a running machine is not compared. So these are not seen here, C(host-model)
          instead of a CPU model that was named, and what a fragment of C(xml) changes in an element that was there.
        - Null when it is unknown.
      returned: with V(pending) in O(gather_subset)
      type: list
      elements: str
      sample: [memory]
    title:
      description: Title.
      returned: with V(metadata) in O(gather_subset)
      type: str
      sample: Web server
    description:
      description: Description.
      returned: with V(metadata) in O(gather_subset)
      type: str
      sample: Serves the shop
    domain_type:
      description: Its domain type in libvirt, such as V(kvm) or V(qemu).
      returned: with V(hardware) in O(gather_subset)
      type: str
      sample: kvm
    machine_type:
      description: Machine type.
      returned: with V(hardware) in O(gather_subset)
      type: str
      sample: pc-q35-7.2
    arch:
      description: Architecture.
      returned: with V(hardware) in O(gather_subset)
      type: str
      sample: x86_64
    firmware:
      description: V(bios) or V(efi).
      returned: with V(hardware) in O(gather_subset)
      type: str
      sample: bios
    secure_boot:
      description: Whether its firmware has secure boot.
      returned: with V(hardware) in O(gather_subset)
      type: bool
      sample: false
    tpm:
      description: Its TPM, null if it has none. C(version) is null if libvirt reports none.
      returned: with V(hardware) in O(gather_subset)
      type: dict
      sample: {model: tpm-crb, version: "2.0"}
    cpu_mode:
      description: Its CPU mode.
      returned: with V(hardware) in O(gather_subset)
      type: str
      sample: host-model
    disks:
      description:
        - Its disks. C(backing_chain) is there with V(backing_chains) in O(gather_subset). It is everything that the
          disk is backed by, the nearest layer first, and null if that is unknown.
        - C(name) is the name in M(brine.virt.virt_init), and null for a disk that this collection did not
          name. C(pool) and C(volume) are set if the source is a volume of a known pool. C(backing) is what an overlay
          is backed by, as far as libvirt reports it. C(guest_path) is the path of a virtio disk in a Linux guest.
        - What C(source) is depends on C(type), which is libvirt's. It is a path for V(file), V(block), V(dir) and
          V(vhostuser); C(protocol:name) for V(network), such as V(rbd:vms/web1), and C(protocol:) where the protocol
          needs no name; C(pool/volume) for V(volume); and C(nvme:), the PCI address of the drive, a slash and the
          number of the namespace for V(nvme), such as V(nvme:0000:01:00.0/1). It is null for a drive without a medium,
          and for types without such a form. C(backing) is given in the same way.
        - C(own) is true if this collection has created the volume for this machine alone.
      returned: with V(disks) or V(backing_chains) in O(gather_subset)
      type: list
      elements: dict
      sample:
        - name: system
          target: vda
          device: disk
          bus: virtio
          guest_path: /dev/disk/by-id/virtio-system
          type: file
          source: /var/lib/libvirt/images/web1-system.qcow2
          pool: default
          volume: web1-system.qcow2
          format: qcow2
          size_bytes: 8589934592
          allocation_bytes: 524288000
          backing: /var/lib/libvirt/virt-images/debian-0123456789abcdef.qcow2
          backing_chain: [{source: /var/lib/libvirt/virt-images/debian-0123456789abcdef.qcow2, format: qcow2}]
          readonly: false
          own: true
    nics:
      description:
        - Its network interfaces. C(origin) of an address is V(static), V(lease), V(agent) or V(arp).
        - What C(source) is depends on C(type), which is libvirt's. It is the name of the bridge, the network or the
          hypervisor's device for V(bridge), V(network) and V(direct), and the name of what it is connected to for
          V(internal) and V(vds); a path for V(vdpa) and V(vhostuser); a PCI address such as V(0000:03:00.1) for
          V(hostdev); and C(address:port) for V(client), V(server), V(mcast) and V(udp), either part of which may be
          empty. It is null for V(ethernet) and V(null), for V(user) unless it is bound to a device of the hypervisor,
          and for types that are not known here.
        - C(model) is null if libvirt reports none.
      returned: with V(nics) in O(gather_subset)
      type: list
      elements: dict
      sample:
        - name: eth0
          mac: "52:54:00:12:34:56"
          type: bridge
          source: br0
          model: virtio
          target: vnet0
          addresses: [{address: 192.0.2.17, prefix: 24, family: ipv4, origin: agent}]
    graphics:
      description: Its graphical consoles. Ports are null while it is not running.
      returned: with V(console) in O(gather_subset)
      type: list
      elements: dict
      sample: [{type: vnc, listen: 127.0.0.1, port: 5900, tls_port: null}]
    address:
      description: The address to reach it by; IPv4 before IPv6, never loopback, never link-local.
      returned: with V(addresses) in O(gather_subset)
      type: str
      sample: 192.0.2.17
    addresses:
      description: All addresses that another host may reach it by, best first.
      returned: with V(addresses) in O(gather_subset)
      type: list
      elements: str
      sample: [192.0.2.17, "2001:db8::17"]
    user:
      description: The user that its seed created for Ansible.
      returned: with V(metadata) in O(gather_subset)
      type: str
      sample: ansible
    tags:
      description: Its tags.
      returned: with V(metadata) in O(gather_subset)
      type: list
      elements: str
      sample: [web]
    labels:
      description: The labels that its hypervisor must have.
      returned: with V(metadata) in O(gather_subset)
      type: list
      elements: str
      sample: [ssd, zone=a]
    anti_affinity:
      description: The groups of which no two machines should be on the same hypervisor.
      returned: with V(metadata) in O(gather_subset)
      type: list
      elements: str
      sample: [web]
    order:
      description: Its place in the start order, the lowest first. Null if it has none, so that it starts last.
      returned: with V(metadata) in O(gather_subset)
      type: int
      sample: 10
    delay_seconds:
      description: How many seconds to wait after it has been started, before machines of the next order are started.
      returned: with V(metadata) in O(gather_subset)
      type: int
      sample: 30
    variables:
      description: Variables that the inventory sets for it.
      returned: with V(metadata) in O(gather_subset)
      type: dict
      sample: {http_port: 8080}
    image:
      description: The stored image that its first disk was created from.
      returned: with V(metadata) in O(gather_subset)
      type: dict
      sample: {name: debian, volume: debian-0123456789abcdef.qcow2, pool: images}
    seed:
      description:
        - How it was seeded, the hash of what the seed was made from, and its user. Null without a seed.
      returned: with V(metadata) in O(gather_subset)
      type: dict
      sample: {method: nocloud, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, user: ansible}
    host_keys:
      description: Its public SSH host keys.
      returned: with V(metadata) in O(gather_subset)
      type: list
      elements: str
      sample: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2p]
    serial_log:
      description: Path of the log of its serial console on the hypervisor.
      returned: with V(console) in O(gather_subset)
      type: str
      sample: /var/log/libvirt/qemu/web1-serial.log
    serial_console:
      description:
        - The type of its text console in libvirt. C(virsh console) opens it if it is V(pty). Null if it has none.
      returned: with V(console) in O(gather_subset)
      type: str
      sample: pty
    snapshots:
      description:
        - Its snapshots, each after the one that it was taken from (C(parent)); C(current) is true for the one that the
          next one would follow. C(time) is in UTC.
        - C(state) is that of the machine then, V(running), V(paused) or V(shutoff), or V(disk-snapshot) if it was
          running and only its disks were kept. C(memory) says whether its memory was kept.
        - C(kind) is V(internal) (in the disks' own files), V(external) (what is written since then is in new files) or
          V(ceph) (in the Ceph cluster that has the disks).
          C(own) is true for those that M(brine.virt.virt_snapshot) has taken.
      returned: with V(snapshots) in O(gather_subset)
      type: list
      elements: dict
      sample: [{name: before-upgrade, current: true, time: "2026-03-01T09:30:00Z", state: running, kind: internal,
        memory: true, parent: null, description: before Debian 13, own: true}]
    newer_images:
      description:
        - The disks that are backed by a stored image of which the store has a newer version, that is, one of the same
          name that was stored later. The newest one is C(newest); both are names of volumes.
        - M(brine.virt.virt_rebase) moves such disks to the newest version. Full copies of an image are not listed, as
          they no longer need it.
        - Null if what one of its disks is backed by is unknown, and if one is in a Ceph cluster, as libvirt does not
          tell what it is a clone of. M(brine.virt.virt_rebase) has nothing to do with such disks.
      returned: with V(images) in O(gather_subset)
      type: list
      elements: dict
      sample: [{disk: vda, image: debian-0123456789abcdef.qcow2, newest: debian-fedcba9876543210.qcow2}]
    jobs:
      description:
        - The active jobs of the machine, and of its disks (C(disk)). Null if libvirt does not tell, as on the
          hypervisor that a machine is being moved to.
        - C(type) is V(migration_out), V(migration_in), V(backup), V(save), V(restore), V(dump), V(start), V(snapshot),
          V(snapshot_revert) or V(snapshot_delete); for a disk V(pull), V(copy), V(commit), V(active_commit) or
          V(backup); and V(unknown) for what is not known here. C(percent) and C(elapsed_seconds) are null if unknown.
      returned: with V(jobs) in O(gather_subset)
      type: list
      elements: dict
      sample: [{type: migration_out, disk: null, percent: 48, elapsed_seconds: 12}]
    os:
      description:
        - The operating system of a running machine, as its guest agent reports it. Null without an agent.
        - The guest can report anything here, so do not rely on it.
      returned: with V(os) in O(gather_subset)
      type: dict
      sample: {id: debian, name: Debian GNU/Linux 12 (bookworm), version: "12", kernel: 6.1.0-37-cloud-amd64}
    uptime_seconds:
      description:
        - How long the QEMU process of a running machine has been running on this hypervisor. A reboot in the guest does
          not reset it; a move to another hypervisor does.
        - Null if the machine is not running, or if O(uri) leads to another host than the one that the module runs on.
      returned: with V(uptime) in O(gather_subset)
      type: int
      sample: 86400
    tied_by:
      description: What ties it to its hypervisor, so that it cannot be moved to another one, or not while it is off.
      returned: with V(hardware) in O(gather_subset)
      type: list
      elements: str
      sample: [a device of the hypervisor]
    errors:
      description: What could not be determined, one sentence each.
      returned: always
      type: list
      elements: str
      sample: []
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect
from ansible_collections.brine.virt.plugins.module_utils._host.info.machines import (
    DEFAULT_SUBSETS,
    SUBSETS,
    Found,
    MachineSelection,
    completed,
    find_machines,
    needs_writing,
    read_uuids,
)
from ansible_collections.brine.virt.plugins.module_utils._host.machines.pending import pending_of
from ansible_collections.brine.virt.plugins.module_utils._module import (
    ask_in_time,
    chosen_subsets,
    finish,
    make_module,
    subset_choices,
)

_STATES = ["running", "paused", "shutoff", "saved", "crashed", "pmsuspended", "blocked", "shutdown", "nostate"]


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The records of the machines."""
    params = module.params
    left_out = {word[1:] for word in params["gather_subset"] if word.startswith("!")}
    subsets = completed(chosen_subsets(params["gather_subset"], SUBSETS), left_out)
    if not params["addresses"]:
        subsets -= {"addresses"}
    selection = MachineSelection(
        names=_values(params["name"]),
        uuids=read_uuids(params["uuid"]),
        states=_values(params["state"]),
        tags=_values(params["tag"]),
    )

    def ask(conn: VirConnect, seconds: float) -> Found:
        agent_seconds = params["agent_timeout"]
        return find_machines(
            conn, selection, subsets, pending=pending_of, agent_timeout_seconds=agent_seconds, timeout_seconds=seconds
        )

    found = ask_in_time(params, ask, read_only=not needs_writing(subsets))
    result: dict[str, t.Any] = {"changed": False, "machines": found.records, "missing": found.missing}
    if found.known is not None:
        result["known"] = found.known
    if selection.names is not None and len(selection.names) == 1:
        result["machine"] = found.records[0] if found.records else None
    return result


def _values(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)


def main() -> None:
    module = make_module(
        {
            "name": {"type": "list", "elements": "str", "aliases": ["vm"]},
            "uuid": {"type": "list", "elements": "str"},
            "state": {"type": "list", "elements": "str", "choices": _STATES},
            "tag": {"type": "list", "elements": "str"},
            "gather_subset": {
                "type": "list",
                "elements": "str",
                "choices": subset_choices(SUBSETS),
                "default": list(DEFAULT_SUBSETS),
            },
            "addresses": {"type": "bool", "default": True},
            "agent_timeout": {"type": "int", "default": 2},
            "timeout": {"type": "int", "default": 30},
        }
    )
    finish(module, work)


if __name__ == "__main__":
    main()
