#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: what a hypervisor has, and what of it is allocated already."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_host_info
short_description: Show the resources of a hypervisor, and how much of them its machines use
version_added: "1.0.0"
description:
  - Shows CPUs, memory, storage pools, bridges, networks, machines and stored images of one hypervisor, as they are now.
  - Also shows when its TLS certificates expire.
  - Memory and CPUs count as committed as soon as a machine is defined, whether it runs or not, at the maximum that it
    may use now or once it is powered off and on. The filter P(brine.virt.place#filter) is based on these numbers.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._attributes.info_module
  - brine.virt._uri
options:
  image_pool:
    description: Name of the storage pool that stored images are looked for in.
    type: str
    default: images
  gather_subset:
    description:
      - What to find out about the hypervisor, as in M(ansible.builtin.setup). What is not asked for is not in
        RV(host), and costs nothing.
      - V(min), which is always included, is the hypervisor's name, distribution, architecture, CPU and uptime, the
        versions of libvirt and QEMU, its domain types, its total CPUs and memory, and whether it is in maintenance.
      - V(machines) reads all machines, and adds to RV(host.vcpus) and RV(host.memory) what is committed and what is
        free; V(capabilities) adds the machine types, V(networks) the networks and bridges, V(pools) the storage pools,
        V(images) the stored images, and V(certificates) the certificates and the revocation lists.
      - The filters that choose hypervisors need V(machines), V(pools) and V(networks), and V(images) for machines with
        an image.
      - A name with V(!) before it is left out; where only such names are given, they are left out of V(all). V(!all) is
        V(min).
    type: list
    elements: str
    choices:
      - all
      - min
      - capabilities
      - machines
      - pools
      - networks
      - images
      - certificates
      - "!all"
      - "!capabilities"
      - "!machines"
      - "!pools"
      - "!networks"
      - "!images"
      - "!certificates"
    default: [all]
  guest_cpu:
    description:
      - Whether to return RV(host.guest_cpu) too. That needs a read-write connection to libvirt, which root has.
    type: bool
    default: false
  timeout:
    description:
      - How many seconds the hypervisor may take for the whole answer. Of these it has 15 to accept the connection, so
        that a libvirt that hangs is detected early.
    type: int
    default: 30
seealso:
  - module: brine.virt.virt_info
    description: The machines themselves.
"""

EXAMPLES = r"""
---
- name: Ask the hypervisor
  brine.virt.virt_host_info:
  register: hypervisor

- name: Show how much memory is available for new machines
  ansible.builtin.debug:
    msg: "{{ hypervisor.host.memory.free_mib }} MiB free of {{ hypervisor.host.memory.total_mib }} MiB"

- name: Ask only for versions and certificates
  brine.virt.virt_host_info:
    gather_subset: [certificates]
  register: hypervisor
"""

RETURN = r"""
host:
  description: The facts of the hypervisor. Which keys there are depends on O(gather_subset).
  returned: success
  type: dict
  contains:
    name:
      description: Host name that libvirt gives the hypervisor.
      returned: always
      type: str
      sample: hv1
    uuid:
      description: UUID that libvirt gives the hypervisor, or null if it gives none.
      type: str
      sample: 4c4c4544-0042-3510-8054-b4c04f4d3233
    uri:
      description: The connection that was used.
      returned: always
      type: str
      sample: qemu:///system
    libvirt_version:
      description: Version of libvirt.
      returned: always
      type: str
      sample: 9.0.0
    qemu_version:
      description: Version of QEMU, or null if machines do not run in QEMU.
      returned: always
      type: str
      sample: 7.2.19
    release:
      description: The distribution of the hypervisor. Null if O(uri) leads to another host.
      returned: always
      type: dict
      sample: {id: debian, name: Debian GNU/Linux 12 (bookworm), version: "12"}
    uptime_seconds:
      description: How long the hypervisor has been up. Null if O(uri) leads to another host.
      returned: always
      type: int
      sample: 86400
    arch:
      description: Architecture of the hypervisor.
      returned: always
      type: str
      sample: x86_64
    domain_types:
      description: The domain types for machines of the hypervisor's own architecture, C(kvm) first if it is available.
      returned: always
      type: list
      elements: str
      sample: [kvm, qemu]
    kvm:
      description: Whether machines can run with KVM. If not, they are emulated, and slow.
      returned: always
      type: bool
      sample: true
    machine_types:
      description: Machine types that QEMU knows for this architecture, aliases such as C(q35) among them.
      returned: with V(capabilities) in O(gather_subset)
      type: list
      elements: str
      sample: [pc, pc-i440fx-7.2, pc-q35-7.2, q35]
    default_machine_type:
      description: The full name of the machine type that a new machine gets by default. Null if there is no C(q35).
      returned: with V(capabilities) in O(gather_subset)
      type: str
      sample: pc-q35-7.2
    cpu:
      description: The CPU. C(sockets) is that of the whole hypervisor, C(cores) is per socket, C(threads) is per core.
      returned: always
      type: dict
      sample: {model: EPYC-Rome, vendor: AMD, mhz: 2994, sockets: 1, cores: 8, threads: 2, numa_nodes: 1}
    guest_cpu:
      description:
        - The best CPU that machines can have here and still be moved, for M(brine.virt.virt_cpu_baseline). C(features)
          are those that differ from the model. Null unless O(guest_cpu) is V(true), or if it cannot be determined.
      returned: always
      type: dict
      sample:
        arch: x86_64
        domain_type: kvm
        model: EPYC-Rome
        vendor: AMD
        features: {x2apic: require, svm: disable}
    vcpus:
      description:
        - Logical CPUs of the hypervisor (C(total)). With V(machines) in O(gather_subset), also the virtual CPUs of all
          defined machines (C(committed)) and of those that are running (C(running)).
      returned: always
      type: dict
      sample: {total: 16, committed: 6, running: 4}
    memory:
      description:
        - Memory of the hypervisor in MiB (C(total_mib)). With V(machines) in O(gather_subset), also the maximum memory
          of all defined machines (C(committed_mib)) and of those that are running (C(running_mib)), and what is left to
          commit (C(free_mib), never below 0).
      returned: always
      type: dict
      sample: {total_mib: 32093, committed_mib: 6144, running_mib: 4096, free_mib: 25949}
    pools:
      description:
        - The storage pools. Sizes are null while a pool is not active, and if its directory gives no answer, which
          RV(host.errors) then says.
        - The free space in a directory of the hypervisor itself is measured now; for other pools it is as of their last
          refresh.
        - C(shared_storage) says which storage several hypervisors may see through their pools, such as
          V(rbd 192.0.2.1,192.0.2.2/vms) (the monitors, sorted, and the Ceph pool) or
          V(netfs nas.example.org:/srv/vms), also if the directory of a pool is mounted from there. Null for the
          hypervisor's own storage, and if it cannot be determined.
        - C(file_system) is the device number of the file system that the directory of a pool is on, as C(findmnt -o
          MAJ:MIN) shows it. Pools with the same one have the same free space. Null for other pools, while a pool is not
          active, and if O(uri) leads to another host.
      returned: with V(pools) in O(gather_subset)
      type: list
      elements: dict
      sample:
        - name: default
          type: dir
          active: true
          autostart: true
          path: /var/lib/libvirt/images
          shared_storage: null
          file_system: "8:1"
          capacity_mib: 102400
          allocation_mib: 20480
          available_mib: 81920
    bridges:
      description: Bridges, including those of active libvirt networks. Null if they cannot be determined.
      returned: with V(networks) in O(gather_subset)
      type: list
      elements: str
      sample: [br0, virbr0]
    bridge_details:
      description:
        - The same bridges, each with the interfaces that are attached to it (C(ports)), and with its own addresses,
          except link-local ones. Null if O(uri) leads to another host, or if they cannot be determined.
      returned: with V(networks) in O(gather_subset)
      type: list
      elements: dict
      sample: [{name: br0, ports: [enp1s0, vnet0], addresses: [192.0.2.11/24]}]
    networks:
      description: libvirt's networks. C(forward) is null for an isolated one.
      returned: with V(networks) in O(gather_subset)
      type: list
      elements: dict
      sample: [{name: default, active: true, autostart: true, bridge: virbr0, forward: nat}]
    machines:
      description:
        - The machines. C(vcpus) and C(memory_mib) are the maximum that a machine may use; null for one that cannot be
          read.
        - C(building) is true while M(brine.virt.virt_init) creates the machine, or if that was interrupted; C(claimed)
          and C(moving) as in M(brine.virt.virt_info).
        - C(anti_affinity) are the groups of which no two machines should be on the same hypervisor.
        - C(disks) are the names of the disks in the entry of the machine, also of those that it gets with its next
          start; null for a machine that cannot be read. A disk without such a name is not included.
      returned: with V(machines) in O(gather_subset)
      type: list
      elements: dict
      sample:
        - name: web1
          uuid: 7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11
          state: running
          vcpus: 2
          memory_mib: 2048
          building: false
          claimed: false
          moving: null
          anti_affinity: [web]
          disks: [system]
    arriving:
      description:
        - The machines that are being moved here from another hypervisor. They are not in RV(host.machines) until they
          run here, but their memory and vCPUs already count as committed.
      returned: with V(machines) in O(gather_subset)
      type: list
      elements: str
      sample: []
    arriving_anti_affinity:
      description: The anti-affinity groups of the machines in RV(host.arriving), by their names.
      returned: with V(machines) in O(gather_subset)
      type: dict
      sample: {}
    images:
      description:
        - The stored images. C(size_mib) is the space that the image uses, C(virtual_size_mib) the size of the disk that
          a machine sees.
        - C(provenance) is what the image's file notes of itself, a line for each checksum of the image (C(content)),
          for each file that it was made of (C(origin)), and for when it was stored. It is null if it notes nothing, if
          the image is still arriving, and if the user may not read the file.
          It and C(size_bytes) are null if O(uri) leads to another host than the one that the module runs on,
          and for a file that gives no answer, as on a file server that is gone.
      returned: with V(images) in O(gather_subset)
      type: list
      elements: dict
      sample:
        - name: debian
          volume: debian-0123456789abcdef.qcow2
          pool: images
          format: qcow2
          size_mib: 512
          virtual_size_mib: 2048
          path: /var/lib/libvirt/virt-images/debian-0123456789abcdef.qcow2
          size_bytes: 536870912
          virtual_size_bytes: 2147483648
          provenance: |-
            content sha256:0123456789abcdefc0a2b1d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718
            stored debian 1764271803123456789
    maintenance:
      description:
        - Since when (C(since)) and why (C(reason)) the hypervisor is in maintenance, as M(brine.virt.virt_maintenance)
          recorded it; null if it is not.
        - Also null if O(uri) leads to another host than the one that the module runs on.
      returned: always
      type: dict
      sample: {since: "2026-11-21T10:00:00Z", reason: new disks}
    certificates:
      description:
        - The certificates in libvirt's and QEMU's directories on the host that the module runs on. Empty if O(uri)
          leads to another host.
        - C(kind) is V(authority), V(libvirt_server), V(libvirt_client), V(qemu_server) or V(qemu_client). C(not_after)
          is in UTC; C(days_left) is negative after that.
      returned: with V(certificates) in O(gather_subset)
      type: list
      elements: dict
      sample:
        - path: /etc/pki/libvirt/servercert.pem
          kind: libvirt_server
          subject: O=brine.virt,OU=hypervisor,CN=hv1
          names: [192.0.2.11, hv1]
          issuer: O=brine.virt,OU=authority 3fa91c02,CN=brine.virt
          serial: 6f2c1d0a3b5e4f60718293a4b5c6d7e8f9012345
          not_before: "2026-03-01T09:00:00+00:00"
          not_after: "2027-03-01T10:00:00+00:00"
          days_left: 364
    revocation_lists:
      description: What authorities have revoked, and until when each list is valid.
      returned: with V(certificates) in O(gather_subset)
      type: list
      elements: dict
      sample:
        - path: /etc/pki/CA/cacrl.pem
          issuer: O=brine.virt,OU=authority 3fa91c02,CN=brine.virt
          next_update: "2036-02-27T10:00:00+00:00"
          revoked: 2
    errors:
      description: What could not be determined, one sentence each.
      returned: always
      type: list
      elements: str
      sample: []
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, is_local
from ansible_collections.brine.virt.plugins.module_utils._host.facts.host import (
    DEFAULT_IMAGE_POOL,
    SUBSETS,
    observe_host,
)
from ansible_collections.brine.virt.plugins.module_utils._module import (
    ask_in_time,
    chosen_subsets,
    finish,
    make_module,
    subset_choices,
)
from ansible_collections.brine.virt.plugins.module_utils._tls.observe import observe_certificates, observe_revocations

_CERTIFICATES = "certificates"
SUBSETS_OF_ALL = (*SUBSETS, _CERTIFICATES)


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The facts of the hypervisor."""
    image_pool, guest_cpu = module.params["image_pool"], module.params["guest_cpu"]
    subsets = chosen_subsets(module.params["gather_subset"], SUBSETS_OF_ALL)

    def observe(conn: VirConnect, seconds: float) -> dict[str, t.Any]:
        return observe_host(conn, image_pool=image_pool, guest_cpu=guest_cpu, subsets=subsets, timeout_seconds=seconds)

    host = ask_in_time(module.params, observe, read_only=not guest_cpu)
    if _CERTIFICATES in subsets:
        local = is_local(host["uri"])
        certificates, errors = observe_certificates() if local else ([], [])
        host.update(certificates=certificates, revocation_lists=observe_revocations() if local else [])
        host["errors"] += errors
    return {"changed": False, "host": host}


def main() -> None:
    module = make_module(
        {
            "image_pool": {"type": "str", "default": DEFAULT_IMAGE_POOL},
            "gather_subset": {
                "type": "list",
                "elements": "str",
                "choices": subset_choices(SUBSETS_OF_ALL),
                "default": ["all"],
            },
            "guest_cpu": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 30},
        }
    )
    finish(module, work)


if __name__ == "__main__":
    main()
