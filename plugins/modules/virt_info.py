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
version_added: "0.1.0"
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
    type: list
    elements: str
  addresses:
    description:
      - Whether to find out the addresses of running machines.
      - They come from the machine's own static configuration, the DHCP leases of libvirt's networks, the guest agent,
        and the neighbour table of the hypervisor. Each of these is only consulted if the ones before it gave no address
        for a nic.
      - With V(true) the connection to libvirt is read-write, because guest agents do not answer on a read-only one.
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
  description: Those of O(name) that do not exist on this hypervisor.
  returned: success
  type: list
  elements: str
  sample: []
machines:
  description: The records of the machines, sorted by name. Unknown values are null.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the machine.
      type: str
      sample: web1
    uuid:
      description: libvirt's UUID of the machine.
      type: str
      sample: 7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11
    state:
      description:
        - One of V(running), V(paused), V(shutoff), V(crashed), V(pmsuspended), V(blocked), V(shutdown) and V(nostate).
      type: str
      sample: running
    vcpus:
      description: Current number of virtual CPUs.
      type: int
      sample: 2
    vcpus_max:
      description: Maximum number of virtual CPUs that it can have without being powered off and on.
      type: int
      sample: 2
    memory_mib:
      description: Current memory, in MiB.
      type: int
      sample: 2048
    memory_max_mib:
      description: Maximum memory that it can have without being powered off and on, in MiB.
      type: int
      sample: 2048
    autostart:
      description: Whether it starts with its hypervisor.
      type: bool
      sample: true
    persistent:
      description: Whether it stays defined when it is stopped.
      type: bool
      sample: true
    managed:
      description: Whether this collection created it.
      type: bool
      sample: true
    building:
      description: Whether it is still being created, or its creation was interrupted.
      type: bool
      sample: false
    claimed:
      description:
        - Whether only its name is claimed, by a run that has not yet decided whether to create the machine here, or
          that was interrupted before it had.
      type: bool
      sample: false
    moving:
      description:
        - The hypervisors that it is being moved between, by their own host names. Null when it is not being moved.
        - It remains set when a run of M(brine.virt.virt_migrate) was interrupted, until the next run finishes or cleans
          up the move.
      type: dict
      sample: null
    pending:
      description:
        - What is set in its definition but not in effect yet, by the option names of M(brine.virt.virt_init). It takes
          effect when the machine is powered off and on; a reboot in the guest is not enough.
        - Null when it is unknown.
      type: list
      elements: str
      sample: [memory]
    title:
      description: Title.
      type: str
      sample: Web server
    description:
      description: Description.
      type: str
      sample: Serves the shop
    domain_type:
      description: Its domain type in libvirt, such as V(kvm) or V(qemu).
      type: str
      sample: kvm
    machine_type:
      description: Machine type.
      type: str
      sample: pc-q35-7.2
    arch:
      description: Architecture.
      type: str
      sample: x86_64
    firmware:
      description: V(bios) or V(efi).
      type: str
      sample: bios
    cpu_mode:
      description: Its CPU mode.
      type: str
      sample: host-model
    disks:
      description:
        - Its disks. C(name) is the name in M(brine.virt.virt_init), and null for a disk that this collection did not
          name. C(pool) and C(volume) are set if the source is a volume of a known pool. C(backing) is what an overlay
          is backed by, as far as libvirt reports it. C(guest_path) is the path of a virtio disk in a Linux guest.
        - What C(source) is depends on C(type), which is libvirt's. It is a path for V(file), V(block), V(dir) and
          V(vhostuser); C(protocol:name) for V(network), such as V(rbd:vms/web1), and C(protocol:) where the protocol
          needs no name; C(pool/volume) for V(volume); and C(nvme:), the PCI address of the drive, a slash and the
          number of the namespace for V(nvme), such as V(nvme:0000:01:00.0/1). It is null for a drive without a medium,
          and for types without such a form. C(backing) is given in the same way.
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
          readonly: false
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
      type: list
      elements: dict
      sample: [{type: vnc, listen: 127.0.0.1, port: 5900, tls_port: null}]
    address:
      description: The address to reach it by; IPv4 before IPv6, never loopback, never link-local.
      type: str
      sample: 192.0.2.17
    addresses:
      description: All addresses that another host may reach it by, best first.
      type: list
      elements: str
      sample: [192.0.2.17, "2001:db8::17"]
    user:
      description: The user that its seed created for Ansible.
      type: str
      sample: ansible
    tags:
      description: Its tags.
      type: list
      elements: str
      sample: [web]
    labels:
      description: The labels that its hypervisor must have.
      type: list
      elements: str
      sample: [ssd, zone=a]
    anti_affinity:
      description: The groups of which no two machines should be on the same hypervisor.
      type: list
      elements: str
      sample: [web]
    variables:
      description: Variables that the inventory sets for it.
      type: dict
      sample: {http_port: 8080}
    image:
      description: The stored image that its first disk was created from.
      type: dict
      sample: {name: debian, volume: debian-0123456789abcdef.qcow2, pool: images}
    seed:
      description:
        - How it was seeded, the hash of what the seed was made from, and its user. Null without a seed.
      type: dict
      sample: {method: nocloud, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08, user: ansible}
    host_keys:
      description: Its public SSH host keys.
      type: list
      elements: str
      sample: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2p]
    serial_log:
      description: Path of the log of its serial console on the hypervisor.
      type: str
      sample: /var/log/libvirt/qemu/web1-serial.log
    tied_by:
      description: What ties it to its hypervisor, so that it cannot be moved to another one.
      type: list
      elements: str
      sample: [a device of the hypervisor]
    errors:
      description: What could not be determined, one sentence each.
      type: list
      elements: str
      sample: []
"""

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._host.connection import OPEN_SECONDS, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.listing import observe_machines
from ansible_collections.brine.virt.plugins.module_utils._host.machines.pending import pending_of
from ansible_collections.brine.virt.plugins.module_utils._host.parallel import run_in_time
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module

# Of the time limit, the part that single machines may take: one that does not answer must not hide the others.
MACHINES_SHARE = 0.8


def main() -> t.NoReturn:
    """Answer with the records of the machines."""
    module = make_module(
        {
            "name": {"type": "list", "elements": "str"},
            "addresses": {"type": "bool", "default": True},
            "agent_timeout": {"type": "int", "default": 2},
            "timeout": {"type": "int", "default": 30},
        }
    )
    names = module.params["name"]
    addresses = module.params["addresses"]
    seconds = module.params["timeout"]
    if seconds < 1:
        module.fail_json(msg=f"timeout: {seconds} is less than a second")

    def observe() -> list[dict[str, t.Any]]:
        # libvirt refuses questions to guest agents on a read-only connection.
        with open_connection(
            module.params["uri"], read_only=not addresses, timeout_seconds=min(seconds, OPEN_SECONDS)
        ) as conn:
            return observe_machines(
                conn,
                addresses=addresses,
                pending=pending_of,
                names=names,
                agent_timeout_seconds=module.params["agent_timeout"],
                timeout_seconds=seconds * MACHINES_SHARE,
            )

    def work() -> dict[str, t.Any]:
        machines = run_in_time(observe, seconds)
        found = {machine["name"] for machine in machines}
        missing = [name for name in dict.fromkeys(names or ()) if name not in found]
        result: dict[str, t.Any] = {"changed": False, "machines": machines, "missing": missing}
        if names is not None and len(names) == 1:
            result["machine"] = machines[0] if machines else None
        return result

    finish(module, work)


if __name__ == "__main__":
    main()
