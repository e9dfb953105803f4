#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_init
short_description: Make machines on a hypervisor, from profiles and images
version_added: "0.1.0"
description:
  - Makes one machine, or the many of O(machines), on the hypervisor that the task runs on. Each gets its disks as
    overlays on a stored image, its nics, and a seed that cloud-init reads at the first boot; then it is started.
  - A machine that is there already is never made anew. What differs from the wish is changed where that is possible;
    what
    cannot be changed without losing something is an error.
  - Everything is checked before anything is changed. A machine whose building fails is taken back, the others are
    kept,
    and the task fails at the end.
  - A run that was killed half-way leaves a machine marked as unfinished. The next run clears exactly what it had
    made,
    and starts again.
author: brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._uri
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Shows the declared fields. Seeds are not shown, because they may hold secrets.
  idempotent:
    support: full
requirements:
  - cryptography (package C(python3-cryptography)) for the SSH host keys of O(seed)
  - bsdtar (package C(libarchive-tools) on Debian and Ubuntu, C(bsdtar) elsewhere) for O(seed)
  - PyYAML (package C(python3-yaml)) only where the user-data of O(seed) is a text
options:
  name:
    description:
      - Name of the machine, unique in the whole cloud. It is also its host name, unless O(seed) says otherwise.
      - Up to 63 letters, digits, dots, dashes and underscores, the first a letter or digit.
    type: str
  vcpus:
    description: Number of virtual CPUs.
    type: int
  memory:
    description: Memory as a whole number of MiB, or with a unit such as V(512MiB) or V(2GiB).
    type: raw
  image:
    description:
      - Image for the first disk, as M(brine.virt.virt_image) stored it. Its name is enough where the store holds one
        version of it; the name of its volume names one version.
    type: str
  disk_profile:
    description:
      - Name of the disk profile. V(none) is no profile at all.
      - The profile V(default) is one disk C(system) of 8192 MiB, unless O(disk_profiles) has another one of that
        name.
    type: str
    default: default
  disk_profiles:
    description:
      - Disk profiles by name. Each is a list of disks, in the shapes that O(disks) takes.
      - The data may be what a Salt configuration has under C(virt.disk) or C(virt) C(disk).
    type: dict
    default: {}
  disks:
    description:
      - Disks of this machine alone, laid over the profile's by name. A disk names only the keys that it changes; one
        with a new
        name is added.
      - Either a list of mappings with C(name), or a list of one-key mappings, or a mapping, from the name to the
        keys.
      - C(size), as O(memory); no less than the image's. Without it a disk is as large as its image.
      - C(format), V(qcow2) (default) or V(raw).
      - C(model), V(virtio) (default), V(scsi), V(sata) or V(usb).
      - C(pool), the storage pool, by default V(default). It has to exist, and to hold files.
      - C(image), the disk's own image. Only the first disk gets the machine's O(image).
      - C(clone), V(overlay) (default), which keeps only the difference to the image, or V(copy).
    type: raw
  nic_profile:
    description:
      - Name of the nic profile. V(none) is no profile at all.
      - The profile V(default) is one nic C(eth0) on bridge C(br0), unless O(nic_profiles) has another one of that
        name.
    type: str
    default: default
  nic_profiles:
    description:
      - Nic profiles by name. Each is a list or a mapping of nics, in the shapes that O(nics) takes.
      - The data may be what a Salt configuration has under C(virt.nic) or C(virt) C(nic).
    type: dict
    default: {}
  nics:
    description:
      - Nics of this machine alone, laid over the profile's by name, as O(disks) are. In the machine they have these
        names.
      - C(bridge) or C(network), the bridge of the hypervisor or the libvirt network that the nic is plugged into. It
        has to exist.
      - C(model), V(virtio) (default), V(e1000e), V(e1000) or V(rtl8139).
      - C(mac), by default made from the names of machine and nic, so that a machine made again has the same one.
      - C(addresses), static addresses with prefix, such as V(192.0.2.10/24). Without them the machine asks DHCP.
      - C(gateway) and C(nameservers), for static addresses.
    type: raw
  seed:
    description:
      - What the machine finds at its first boot.
      - C(method), V(nocloud) (default) for images with cloud-init, or V(none).
      - C(user), the user that Ansible logs in as, by default V(ansible). It may use sudo without a password.
      - C(authorized_keys), the public SSH keys of this user.
      - C(hostname), by default the machine's name.
      - C(packages), packages to install.
      - C(run_commands), commands to run once, each a line for the shell or a list of words.
      - C(user_data), cloud-init's user-data, as data or as text. Data and cloud-config texts are merged with what
        this module writes, key
        by key, lists appended.
      - C(pool), the storage pool of the seed volume, by default V(default).
      - The machine's SSH host keys are made here as well. Their public halves stand in the machine's metadata, from
        where
        P(brine.virt.domains#inventory) takes them.
    type: dict
    default: {}
  graphics:
    description:
      - V(vnc) or V(spice) for a console with a picture, V(none) for none, which is the default for a new machine.
      - Also a mapping with C(type) and C(listen), the address that it listens on, by default 127.0.0.1.
    type: raw
  machine_type:
    description: Machine type of QEMU. The default is q35 where the hypervisor has it.
    type: str
  cpu_mode:
    description:
      - CPU mode. The default is V(host-model) with KVM.
      - Without KVM the default is a model of the level x86-64-v2, which is quick to emulate. An image that needs more,
        such as those of RHEL 10, needs V(maximum) there.
    type: str
    choices: [host-model, host-passthrough, maximum]
  firmware:
    description: Firmware of a new machine.
    type: str
    choices: [bios, efi]
    default: bios
  start:
    description:
      - Whether the machine is to be running. With V(false) a machine stays as it is, and a new one is not started.
    type: bool
    default: true
  autostart:
    description: Whether the machine starts with its hypervisor. Left as it is when not named.
    type: bool
  title:
    description: A short title. Left as it is when not named.
    type: str
  description:
    description: A longer description. Left as it is when not named.
    type: str
  tags:
    description: Tags; the live inventory has a group for each. Left as they are when not named.
    type: list
    elements: str
  variables:
    description:
      - Variables that the live inventory gives the machine. They can be read by everybody who may read the machine's
        definition, so they are no place for secrets. Left as they are when not named.
    type: dict
  machines:
    description:
      - Many machines in one task. Each is a mapping with the options from O(name) to O(variables), except
        O(disk_profiles) and O(nic_profiles), which stand beside O(machines) for all of them. The key C(hypervisor),
        which
        P(brine.virt.place#filter) reads, is accepted and has no meaning here.
      - O(seed) beside O(machines) has the defaults for the seed of each machine.
    type: list
    elements: dict
  concurrency:
    description: How many of O(machines) are built at the same time.
    type: int
    default: 8
  images:
    description:
      - Images by the names that O(image) and C(image) of O(disks) have for them, each as M(brine.virt.virt_image)
        returned it. Names that are not in here are looked up in the image store.
      - In check mode such an image counts as stored, even if it only would be.
    type: dict
    default: {}
  image_pool:
    description: The storage pool that is the image store.
    type: str
    default: images
  lock_timeout:
    description: How many seconds to wait for another run that is at work on this hypervisor.
    type: int
    default: 300
seealso:
  - module: brine.virt.virt_image
  - module: brine.virt.virt_info
"""

EXAMPLES = r"""
---
- name: One machine with the default profiles
  brine.virt.virt_init:
    name: web1
    vcpus: 2
    memory: 1024
    image: debian
    seed:
      authorized_keys: "{{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}"

- name: A database with its own profiles, one disk larger than its profile says
  brine.virt.virt_init:
    name: db1
    vcpus: 4
    memory: 8GiB
    image: debian
    disk_profile: database
    disk_profiles:
      database:
        - system: {size: 8192}
        - data: {size: 30720}
    disks:
      - {name: data, size: 60GiB}
    nic_profile: dual
    nic_profiles:
      dual:
        eth0: {bridge: service_br}
        eth1: {bridge: storage_br}
    nics:
      - {name: eth1, addresses: [192.0.2.10/24]}
    autostart: true
    tags: [db]

- name: Many machines in one task, their seeds alike
  brine.virt.virt_init:
    machines:
      - {name: web1, vcpus: 1, memory: 512, image: debian, tags: [web]}
      - {name: web2, vcpus: 1, memory: 512, image: debian, tags: [web]}
    seed:
      user: admin
      authorized_keys: "{{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}"
"""

RETURN = r"""
machine:
  description: The machine's record, read again after the run, in the words of M(brine.virt.virt_info).
  returned: when O(name) is used and the machine is there
  type: dict
  sample: {"name": "web1", "state": "running", "vcpus": 2, "memory_mib": 1024}
machines:
  description: What became of each machine, in the order of the wish.
  returned: always, once everything has been checked
  type: list
  elements: dict
  contains:
    name:
      description: Name of the machine.
      type: str
      returned: always
      sample: web1
    changed:
      description: Whether something was, or would be, changed.
      type: bool
      returned: always
      sample: true
    failed:
      description: Whether it failed and was taken back.
      type: bool
      returned: always
      sample: false
    created:
      description: Whether the machine is, or would be, a new one.
      type: bool
      returned: always
      sample: true
    msg:
      description: Why it failed.
      type: str
      returned: on failure
      sample: cannot start machine web1
    actions:
      description: What was, or would be, done.
      type: list
      elements: str
      returned: always
      sample: ["define machine web1", "start web1"]
    pending:
      description: What the machine gets at its next boot only.
      type: list
      elements: str
      returned: always
      sample: ["memory"]
    restart_required:
      description: Whether something waits for the next boot.
      type: bool
      returned: always
      sample: false
    outdated:
      description: C(image) and C(seed), where the wish names another one than the machine was made from.
      type: list
      elements: str
      returned: always
      sample: []
    machine:
      description: The machine's record, as RV(machine).
      type: dict
      returned: when the machine is there
      sample: {"name": "web1", "state": "running"}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.brine.virt.plugins.module_utils._arguments import finish, make_module
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.observe_machines import observe_machines
from ansible_collections.brine.virt.plugins.module_utils._model.spec import (
    MACHINE_RULES,
    Machine,
    read_machine,
    read_machines,
)
from ansible_collections.brine.virt.plugins.module_utils._seeding.host_keys import CRYPTOGRAPHY_IMPORT_ERROR
from ansible_collections.brine.virt.plugins.module_utils._work.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._work.machines import carry_out, look_ahead, make_plans

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "vcpus": {"type": "int"},
    "memory": {"type": "raw"},
    "image": {"type": "str"},
    "disk_profile": {"type": "str", "default": "default"},
    "disk_profiles": {"type": "dict", "default": {}},
    "disks": {"type": "raw"},
    "nic_profile": {"type": "str", "default": "default"},
    "nic_profiles": {"type": "dict", "default": {}},
    "nics": {"type": "raw"},
    "seed": {"type": "dict", "default": {}},
    "graphics": {"type": "raw"},
    "machine_type": {"type": "str"},
    "cpu_mode": {"type": "str", "choices": ["host-model", "host-passthrough", "maximum"]},
    "firmware": {"type": "str", "choices": ["bios", "efi"], "default": "bios"},
    "start": {"type": "bool", "default": True},
    "autostart": {"type": "bool"},
    "title": {"type": "str"},
    "description": {"type": "str"},
    "tags": {"type": "list", "elements": "str"},
    "variables": {"type": "dict"},
    "machines": {"type": "list", "elements": "dict"},
    "concurrency": {"type": "int", "default": 8},
    "images": {"type": "dict", "default": {}},
    "image_pool": {"type": "str", "default": "images"},
    "lock_timeout": {"type": "int", "default": 300},
}

# These make no sense for a list; the others have defaults, or serve both.
MACHINE_OPTIONS = ("name", "vcpus", "memory", "image", "disks", "nics", "graphics", "tags", "variables")


def read_wishes(params: dict[str, t.Any]) -> list[Machine]:
    """The machines that the task asks for: one by the module's own options, or the list."""
    profiles = {"disk_profiles": params["disk_profiles"], "nic_profiles": params["nic_profiles"]}
    if params["machines"] is not None:
        return read_machines(params["machines"], seed_defaults=params["seed"], where="machines", **profiles)
    wish = {key: params[key] for key in MACHINE_RULES if params.get(key) is not None}
    return [read_machine(wish, **profiles)]


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Plan, act unless in check mode, and say what is true afterwards."""
    params = module.params
    machines = read_wishes(params)
    where = "" if params["machines"] is None else "machines"
    with open_connection(params["uri"]) as conn, hypervisor_lock("init", patience_seconds=params["lock_timeout"]):
        hypervisor = Hypervisor(
            conn, image_pool=params["image_pool"], offered=params["images"], check_mode=module.check_mode
        )
        plans = make_plans(machines, hypervisor, where)
        if any(todo.created for todo in plans) and hypervisor.guests.emulated:
            module.warn("This hypervisor has no KVM. New machines are emulated, which is many times slower.")
        outcomes = look_ahead(plans) if module.check_mode else carry_out(plans, concurrency=params["concurrency"])
        names = [machine.name for machine in machines]
        records = {record["name"]: record for record in observe_machines(conn, addresses=False, names=names)}
    results = [outcome.as_result() for outcome in outcomes]
    for result in results:
        if result["name"] in records:
            result["machine"] = records[result["name"]]
    answer: dict[str, t.Any] = {
        "changed": any(result["changed"] for result in results),
        "machines": results,
        "diff": [
            {"before": todo.before, "after": todo.after, "before_header": name, "after_header": name}
            for todo, name in zip(plans, names)  # noqa: B905 - Python 3.9 has no strict
            if todo.before != todo.after
        ],
    }
    failed = [result for result in results if result["failed"]]
    if failed:
        kept = [result["name"] for result in results if not result["failed"]]
        words = "; ".join(f"{result['name']}: {result['msg']}" for result in failed)
        module.fail_json(msg=f"{words}. These are as wished: {', '.join(kept) or 'none'}", **answer)
    if params["machines"] is None and names[0] in records:
        answer["machine"] = records[names[0]]
    return answer


def main() -> None:
    module = make_module(
        ARGUMENTS,
        required_one_of=[("name", "machines")],
        mutually_exclusive=[("machines", option) for option in MACHINE_OPTIONS],
    )
    if CRYPTOGRAPHY_IMPORT_ERROR is not None:
        module.fail_json(
            msg=missing_required_lib("cryptography", reason="(package python3-cryptography)"),
            exception=CRYPTOGRAPHY_IMPORT_ERROR,
        )
    finish(module, lambda: work(module))


if __name__ == "__main__":
    main()
