#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_init
short_description: Create and update machines on a hypervisor, from profiles and images
version_added: "1.0.0"
description:
  - Creates one machine, or all those in O(machines), on the hypervisor that the task runs on. Each gets its disks as
    overlays on a stored image, its nics, and a seed that cloud-init reads at the first boot; then it is started,
    unless O(state) says otherwise.
  - An existing machine is never recreated, only updated to what the task asks for. What libvirt has filled in does not
    count as a difference, and what the task does not mention stays as it is. The exception is O(state), which defaults
    to V(running), so that a machine which is off is started. A change that cannot be made while the machine runs
    takes effect when it is powered off and on, and is reported in RV(machines[].pending) until then. A change that
    would lose data or leave the machine unable to boot is an error.
  - An existing machine may have what is not offered for new machines, such as another nic model, a disk on the bus
    V(ide), or a disk outside any storage pool. The task may state it in the terms that M(brine.virt.virt_info) and
    libvirt use, and it does not count as a difference. For a new machine it is an error.
  - Everything is checked before anything is changed. If creating a machine fails, that machine is rolled back, the
    others are kept, and the task fails at the end.
  - A machine that is saved (C(virsh managedsave)) keeps its devices, because it resumes with those that it had. A task
    that would change them is refused.
  - A run that was killed half-way leaves a machine marked as unfinished. The next run removes what that run had
    created, which it recognises by the marks of the volumes, and starts over. A volume of such a name without the mark
    is kept, and so is one in a pool of block devices, which cannot carry a mark. In a pool that other hypervisors may
    see, it is kept unless all of them were asked (O(used_elsewhere)). A machine that somebody has started in the
    meantime is never removed, nor is a volume that anything else uses. The error names the machine or volume, and says
    what to do.
  - An unexpected error (a bug in the collection) fails only the machine where it occurs, both while planning and while
    creating. Mistakes in the task itself are found before anything is changed.
  - A machine that is being moved (M(brine.virt.virt_migrate)), or whose move was interrupted, is not changed. That is
    an error, unless the machine is already as the task asks for.
  - A hypervisor in maintenance (M(brine.virt.virt_maintenance)) gets no new machine. This is checked while the task
    holds the hypervisor's lock, however long ago the hypervisor was chosen.
author: brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._lock
  - brine.virt._root
  - brine.virt._uri
  - brine.virt._devices
  - brine.virt._hardware
  - brine.virt._seed
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Shows the declared fields as YAML. Seeds and passwords are not shown.
  idempotent:
    support: full
notes:
  - Secrets in the options appear neither in the hypervisor's log nor in the output of Ansible, at any verbosity and in
    check mode too. In O(seed), O(graphics) and O(variables) these are the values of all keys named after a password, a
    hash, a token, a private key or another secret key (C(secret_access_key), C(registration_key)); the passwords of
    C(chpasswd); private keys in any text; the contents of files with C(secret=true), and in other files the lines with
    such a key; a C(user_data) given as text; C(passwd) in O(xml); and the password or query in an address.
  - The controller removes them from the options and sends them separately. A task that runs the module in a way that
    bypasses this is refused before anything is logged or done. Any other secret, such as a password in C(run_commands),
    is recognised only where the same text also occurs in one of these places.
  - While it takes long, the play's output shows every few seconds which steps the machines are at. The lines are read
    over a second connection, if Ansible's connection is V(ssh) or V(local); over other connections, in check mode and
    with C(async) or C(no_log), no progress is shown.
requirements:
  - cryptography (package C(python3-cryptography)) on the host that the task runs on
  - bsdtar (package C(libarchive-tools) on Debian and Ubuntu, C(bsdtar) elsewhere) for O(seed)
  - PyYAML (package C(python3-yaml)) where the user-data of O(seed) is given as text
  - guestfish for seeds of method V(guestfs)
  - qemu-img (package C(qemu-utils) on Debian and Ubuntu, C(qemu-img) elsewhere) on the host that the task runs on, for
    disks that are copied from images
options:
  name:
    description:
      - Name of the machine, unique in the whole cloud. It is also its host name, unless O(seed) sets another one.
      - A task needs either this option or O(machines).
      - Up to 63 letters, digits, dots, dashes and underscores, the first a letter or digit. Names with another meaning
        for Ansible are refused, such as C(localhost), an address, C(all), C(hypervisors) or C(virt_running).
    type: str
  image:
    description:
      - Image for the first disk, as M(brine.virt.virt_image) stored it. Its name is enough if the store holds only one
        version of it; the name of its volume selects a particular version.
      - It replaces the image that this disk has from a profile. A machine without a disk, or whose first disk has
        another origin (C(source), C(backing), or an image of its own in O(disks)), is refused.
    type: str
  clone:
    description:
      - How disks are created from an image, unless a disk sets this itself. V(overlay) stores only the difference from
        the image; V(copy) is a full copy, which shares its blocks with the image where the file system supports it.
      - The default is V(overlay) in pools of files, except for disks with C(format=raw), and in pools of type C(rbd),
        which hold the image themselves and clone it there. It is V(copy) in other pools, which have no overlays.
    type: str
    choices: [overlay, copy]
  disk_profile:
    description:
      - Name of the disk profile. Null, or the word V(none) in upper or lower case, means no profile. The word is
        refused if O(disk_profiles) has a profile of that name; null always means no profile.
      - The profile V(default) is one disk C(system) of 8192 MiB, unless O(disk_profiles) has another profile of that
        name. A new machine that names no profile is created with it. It is not applied to an existing machine that
        names no profile, whose disks stay as they are. A machine in O(machines) that names V(default) itself is
        compared with it.
    type: raw
    default: default
    aliases: [disk]
  disk_profiles:
    description:
      - Disk profiles by name. Each is a list of disks, in the formats that O(disks) accepts. All of them are checked,
        even those that no machine uses.
      - The data may be what a Salt configuration has under C(virt.disk) or C(virt) C(disk), or that configuration as a
        whole. A configuration without disk profiles is refused, and so is a profile next to these keys.
    type: dict
    default: {}
  nic_profile:
    description:
      - Name of the nic profile. Null, or the word V(none) in upper or lower case, means no profile. The word is refused
        if O(nic_profiles) has a profile of that name; null always means no profile.
      - The profile V(default) is one nic C(eth0) on bridge C(br0), unless O(nic_profiles) has another profile of that
        name. A new machine that names no profile is created with it. It is not applied to an existing machine that
        names no profile, whose nics stay as they are. A machine in O(machines) that names V(default) itself is compared
        with it.
    type: raw
    default: default
    aliases: [nic]
  nic_profiles:
    description:
      - Nic profiles by name. Each is a list or a mapping of nics, in the formats that O(nics) accepts. All of them are
        checked, even those that no machine uses.
      - The data may be what a Salt configuration has under C(virt.nic) or C(virt) C(nic), or that configuration as a
        whole. A configuration without nic profiles is refused, and so is a profile next to these keys.
    type: dict
    default: {}
  seed_policy:
    description:
      - V(keep) leaves the seed of an existing machine alone, and reports V(seed) in RV(machines[].outdated) when the
        task asks for a different one. C(authorized_keys) given for all machines of a task, and nothing else, do not
        count as a difference.
      - V(refresh) rewrites it. cloud-init applies all of it again the next time the machine starts. What the machine
        has, including its SSH host keys, it keeps. Only for seeds of method V(nocloud). The task has to name all nics
        of the machine, whose configuration is part of the seed, unless they are those of the default profile.
    type: str
    choices: [keep, refresh]
    default: keep
  enable_vnc:
    description: Salt's name for O(graphics) V(vnc).
    type: bool
  enable_qcow:
    description: Salt's name for O(clone). V(true) is V(clone=overlay), V(false) is V(clone=copy).
    type: bool
  boot_dev:
    description: Salt's name for C(devices) of O(boot), as text, separated by spaces.
    type: str
  stop_on_reboot:
    description: Salt's name for C(reboot) of O(events). V(true) is V(destroy), V(false) is V(restart).
    type: bool
  state:
    description:
      - The state that the machine is brought to. Without this option and O(start), it is V(running).
      - V(running) starts a machine that is off, and resumes one that is paused or saved.
      - V(stopped) does not start a new machine, and shuts down one that is running. Its operating system is asked
        through the guest agent if it answers, else with the power button (ACPI). One that is paused is resumed first;
        one that is saved counts as stopped, and stays saved. One that has not shut down within O(stop_timeout) is an
        error of that machine, and it is never powered off. All other changes are made before the machine is shut down.
      - V(present) leaves the power state as it is. A new machine is not started.
      - V(absent) is for the machines in C(virt_vms). The playbook C(brine.virt.provision) removes them with the volumes
        that were created for them, by the rules of M(brine.virt.virt_purge). Such a machine needs only a name. This
        module itself refuses it.
      - If an existing machine cannot be brought to the state, for instance because it has crashed, that is an error of
        this machine, and the others are created and updated.
    type: str
    choices: [running, stopped, present, absent]
  start:
    description:
      - An older word for O(state). V(true) is V(state=running), V(false) is V(state=present). Beside O(state) it must
        not contradict it; V(false) contradicts only V(state=running).
      - With V(false) and no O(state), a warning names each machine that is running anyway.
    type: bool
  autostart:
    description: Whether the machine starts with its hypervisor. Unchanged if not given.
    type: bool
  title:
    description: A short title. Unchanged if not given.
    type: str
  description:
    description: A longer description. Unchanged if not given.
    type: str
  tags:
    description: Tags; the live inventory has a group for each. Unchanged if not given.
    type: list
    elements: str
  labels:
    description:
      - What a hypervisor must have in its variable C(virt_labels) to run this machine. A list such as C([ssd, zone=a]),
        or a mapping, in which C(zone) with the value C(a) is C(zone=a), and C(ssd) with V(true) is C(ssd).
      - They are stored with the machine, and P(brine.virt.place#filter) and P(brine.virt.moves#filter) respect them.
        This module itself does not enforce them. Unchanged if not given.
    type: raw
  anti_affinity:
    description:
      - Names of groups. No two machines of a group are put on the same hypervisor, so that one failure does not affect
        both.
      - They are stored with the machine, and P(brine.virt.place#filter) and P(brine.virt.moves#filter) respect them.
        This module itself does not enforce them. Unchanged if not given.
    type: list
    elements: str
  order:
    description:
      - The place of the machine in the start order, a whole number from 0 to 9999. Machines of the lowest order start
        first, those of the same order together, and those without an order after all others. They are stopped in the
        reverse order. V(none) removes the order. Unchanged if not given.
      - It is stored with the machine. This module keeps to it where it starts or stops several machines,
        M(brine.virt.virt_power) where it starts, stops or saves them, and the role P(brine.virt.virt_provision#role)
        where it starts machines of several hypervisors. The role P(brine.virt.virt_hypervisor#role) makes a hypervisor
        start the machines with O(autostart) in this order when it boots, and stop its machines in the reverse one when
        it shuts down.
    type: raw
  delay_seconds:
    description:
      - How many seconds to wait after this machine has been started, before machines of the next O(order) are started.
        If several machines were started together, the longest wait counts. It needs an O(order), because machines
        without one start last. At most 3600; 0 for a new machine. Unchanged if not given.
      - The hypervisor's lock is held while this module waits.
    type: int
  variables:
    description:
      - Variables that the live inventory gives the machine. Everybody who may read the machine's definition can read
        them, so do not put secrets here. Unchanged if not given. What JSON cannot hold, such as C(.inf), is refused.
    type: dict
  machines:
    description:
      - Many machines in one task. Each is a mapping with the options of a single machine and their aliases, except
        O(disk_profiles) and O(nic_profiles), which are given next to O(machines) for all of them. The key
        C(hypervisor), which P(brine.virt.place#filter) reads, is accepted and has no effect here.
      - Every option of a single machine but O(name) can be given next to O(machines), and is then the default for each
        of them. A machine's own value replaces the whole default; a null in a machine unsets it. Only O(seed) is merged
        with its default key by key.
    type: list
    elements: dict
  places:
    description:
      - What messages call the items of O(machines), one name for each, if they come from another list in the user's
        files.
      - Without it they are called C(machines[0]) and so on. Not without O(machines).
    type: list
    elements: str
  concurrency:
    description: How many of O(machines) are created or updated at the same time.
    type: int
    default: 8
  stop_timeout:
    description:
      - How many seconds an operating system may take to shut down (O(state=stopped)), 1 at least. Other runs do
        not wait for that.
    type: int
    default: 180
  images:
    description:
      - Images by the names that O(image) and C(image) of O(disks) use, each as M(brine.virt.virt_image) returned it.
        Other names are looked up in the image store.
      - In check mode such an image counts as stored, even if it has not been stored yet.
    type: dict
    default: {}
  image_pool:
    description: The storage pool that is the image store.
    type: str
    default: images
  default_authorized_keys:
    description:
      - C(authorized_keys) of seeds for which neither the machine nor O(seed) gives any, for example the public keys of
        the person who runs the play. With a null there, the seed has none.
      - Other ones than those that an existing machine was created with make no difference to it, so that two people
        can run the same play. Keys that are given in O(seed) do.
    type: list
    elements: str
  default_cpu:
    description:
      - The CPU of new machines that give neither a mode nor a model in O(cpu), in the same format; for example what
        M(brine.virt.virt_cpu_baseline) found, so that they can move to every hypervisor.
      - Existing machines keep the CPU that they have.
    type: dict
  default_machine_type:
    description:
      - The machine type of new machines that give none in O(machine_type); for example the C(machine_type) that
        P(brine.virt.place#filter) found, which every hypervisor knows.
      - Existing machines keep the type that they have.
    type: str
  claims:
    description:
      - The names that the same run has claimed on this hypervisor, as M(brine.virt.virt_claim) returned them. A claim
        becomes the machine. If a claim no longer exists, the task fails, and nothing is created.
      - If the machines cannot be created, their claims are withdrawn.
    type: dict
    default: {}
  decision:
    description:
      - Why this hypervisor was chosen, as P(brine.virt.place#filter) returned it in C(decisions). It is checked again
        while the task holds the hypervisor's lock; if something is no longer true, the task fails, and nothing is
        created.
      - C(memory_mib) and C(vcpus), how much may be committed to machines in total; C(pools_mib), by the name of a pool,
        the free MiB that the new machines need there. For a pool that other hypervisors share, C(shared_pools_mib) is
        what the run needs for all of them; this is checked before machines are created, that is, in check mode and by
        M(brine.virt.virt_claim).
      - C(machines), by the names of the machines that were here, their UUIDs, or null for any. A machine that is no
        longer here is not recreated, because it may have been moved; nor is another machine of the same name mistaken
        for it. This fails only the machine in question.
      - C(leaving), the names of machines that are removed before this task. In check mode, what they have counts as
        free.
      - C(new), the names of machines that are to be created, and not changed if there is one by now. This fails only
        the machine in question. What an interrupted run has left of one is not a machine.
      - C(apart), by the names of new machines, the anti-affinity groups of which no other machine may be here. The
        machines of the task and those in C(machines) do not count.
    type: dict
    default: {}
  used_elsewhere:
    description:
      - What the other hypervisors say about the volumes in RV(shared) of a run that failed. For the name of each
        hypervisor, the registered result of M(brine.virt.virt_usage_info) there, or a sentence that says why there is
        none.
      - In a pool that several hypervisors may share, what an interrupted run has left is removed, and an existing
        volume is given to a machine that writes to it, only if all others were asked and none of them uses it. An empty
        mapping says that there are no other hypervisors.
      - The role P(brine.virt.virt_provision#role) does this by itself.
    type: dict
seealso:
  - module: brine.virt.virt_image
  - module: brine.virt.virt_info
  - module: brine.virt.virt_usage_info
    description: Asks the other hypervisors who uses volumes in shared pools.
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

- name: A database with its own profiles and one disk larger than in its profile
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

- name: A machine with a static address, a DHCP address, an admin of its own and a secret file
  brine.virt.virt_init:
    name: db2
    vcpus: 2
    memory: 2GiB
    image: debian
    nics:
      - {name: eth0, bridge: br0, addresses: [192.0.2.10/24], gateway: 192.0.2.1, nameservers: [192.0.2.53]}
      - {name: eth1, bridge: storage_br}
    seed:
      fqdn: db2.example.org
      authorized_keys: "{{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}"
      users:
        - {name: ops, sudo: true, groups: [adm], password_hash: "{{ ops_password_hash }}"}
      files:
        - {path: /etc/app/token, content: "{{ app_token }}", mode: "0600", secret: true}

- name: UEFI with secure boot and a TPM, CPUs pinned, a console with a password
  brine.virt.virt_init:
    name: win1
    vcpus: {current: 4, maximum: 8}
    memory: {current: 4GiB, maximum: 16GiB, hugepages: true}
    cpu: {mode: host-passthrough, tuning: {vcpupin: {0: "2", 1: "3"}, emulatorpin: "0-1"}}
    secure_boot: true
    tpm: true
    clock: {offset: localtime, timers: {hpet: false}}
    graphics: {type: vnc, password: "{{ console_password }}"}
    disks:
      - {name: system, size: 64GiB, cache: none, io: native}
      - {name: cd, device: cdrom, pool: iso, source: installer.iso}
    seed: false

- name: A task with Salt's names
  brine.virt.virt_init:
    name: centos1
    cpu: 2
    mem: 512
    image: centos
    disk: default
    interfaces:
      eth0: {bridge: br0}
    enable_vnc: true

- name: Many machines in one task, with the same seed
  brine.virt.virt_init:
    machines:
      - {name: web1, vcpus: 1, memory: 512, image: debian, tags: [web], anti_affinity: [web]}
      - {name: web2, vcpus: 1, memory: 512, image: debian, tags: [web], anti_affinity: [web]}
    seed:
      user: admin
      authorized_keys: "{{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}"
"""

RETURN = r"""
machine:
  description: The machine's record, read again after the run, in the format of M(brine.virt.virt_info).
  returned: when O(name) is used, the machine exists and the task has not failed
  type: dict
  sample: {"name": "web1", "state": "running", "vcpus": 2, "memory_mib": 1024}
machines:
  description: The result for each machine, in the order of the task.
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
      description: Whether anything was, or would be, changed.
      type: bool
      returned: always
      sample: true
    failed:
      description:
        - Whether it failed and was rolled back. A machine that could only not be brought to its power state is not
          rolled back; what was changed in it is in RV(machines[].actions).
      type: bool
      returned: always
      sample: false
    created:
      description: Whether the machine is, or would be, a new one.
      type: bool
      returned: always
      sample: true
    bootable:
      description:
        - Whether the new machine has anything that it could boot from. If V(false), its disks are all empty, and it has
          no installation medium and does not boot from the network.
      type: bool
      returned: when RV(machines[].created) is true
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
      description: What changes only when the machine is powered off and on. A reboot in the guest is not enough.
      type: list
      elements: str
      returned: always
      sample: ["memory"]
    restart_required:
      description: Whether any change takes effect only when the machine is powered off and on.
      type: bool
      returned: always
      sample: true
    outdated:
      description:
        - What the machine was created with and the task now gives differently, such as V(image), V(seed) or
          V(disks.data.pool). It stays as it is.
      type: list
      elements: str
      returned: always
      sample: []
    seconds:
      description: How many seconds it took, including the wait for its turn in the start order; 0 in check mode.
      type: float
      returned: always
      sample: 1.2
    order:
      description: Its place in the start order; null if it has none.
      type: int
      returned: when the machine was, or would be, started, and did not fail
      sample: 10
    delay_seconds:
      description: How many seconds the machines of the next order wait after it was started.
      type: int
      returned: with RV(machines[].order)
      sample: 30
    machine:
      description: The machine's record, as RV(machine).
      type: dict
      returned: when the machine exists
      sample: {"name": "web1", "state": "running"}
checked:
  description: Whether this is what would be done, as in check mode.
  returned: with RV(machines)
  type: bool
  sample: false
shared:
  description:
    - What an interrupted run has left in pools that other hypervisors may see as well, and the existing volumes there
      that disks are to write to; for O(brine.virt.virt_usage_info#module:volumes) on all the others, whose answers are
      for O(used_elsewhere).
  returned: when there is such a thing, and the task has failed before anything was changed
  type: list
  elements: dict
  sample: [{pool: ceph, volume: web1-system, place: "rbd:vms/web1-system", inode: null, serial: null}]
wanted:
  description:
    - What the disks of this task are to do with existing volumes in pools that other hypervisors may see as well. Tasks
      that run on several hypervisors at the same time must not use the same one, unless all share it or read it.
  returned: when there is such a disk
  type: list
  elements: dict
  contains:
    pool:
      description: Name of the storage pool.
      type: str
      returned: always
      sample: san
    volume:
      description: Name of the volume.
      type: str
      returned: always
      sample: unit:0:0:1
    place:
      description: Its path; or, for network storage, the protocol and the name.
      type: str
      returned: always
      sample: /dev/disk/by-path/ip-192.0.2.9:3260-iscsi-iqn.2026-01.org.example:san-lun-1
    inode:
      description: The inode number of its file.
      type: int
      returned: always
      sample: 131077
    serial:
      description: The serial number of its LUN.
      type: str
      returned: always
      sample: 360000000000000000e00000000010001
    use:
      description: What the disk is to do with it, V(writes), V(shares) or V(reads); V(backed) for an overlay on it.
      type: str
      returned: always
      sample: writes
    machine:
      description: Name of the machine.
      type: str
      returned: always
      sample: db1
    where:
      description: The place of the disk in the input.
      type: str
      returned: always
      sample: virt_vms[0].disks[1].source
"""

import contextlib
import functools
import typing as t

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError, Mistakes, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE, progress_file
from ansible_collections.brine.virt.plugins.module_utils._host.storage.usage import AskElsewhere
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing, FindExisting, none_exists
from ansible_collections.brine.virt.plugins.module_utils._model.spec.hardware.cpu import CPU
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import Machine
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine_state import STATES
from ansible_collections.brine.virt.plugins.module_utils._model.spec.names import DirectoryAsPoolError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine, read_machines
from ansible_collections.brine.virt.plugins.module_utils._model.withheld import HOST_NAME, SecretOptions, opened
from ansible_collections.brine.virt.plugins.module_utils._model.yaml_text import yaml_diff
from ansible_collections.brine.virt.plugins.module_utils._module import (
    check_at_least,
    finish,
    make_module,
    named_options,
    require_root,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.create.claims import withdrawn_on_error
from ansible_collections.brine.virt.plugins.module_utils._operations.create.decision import machines_gone, read_decision
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import (
    check_still_chosen,
    further_consoles,
    left_running,
    machines_taken,
    make_plans,
    read_specs_here,
    records_of,
    run_plans,
    unbootable,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes.answers import read_used_elsewhere
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes.volume import WantedVolume
from ansible_collections.brine.virt.plugins.module_utils._operations.step_watch import StepWatch
from ansible_collections.brine.virt.plugins.module_utils._operations.update.power import STOP_SECONDS, change_power
from ansible_collections.brine.virt.plugins.module_utils._seeding.host_keys import CRYPTOGRAPHY_IMPORT_ERROR
from ansible_collections.brine.virt.plugins.module_utils._seeding.secret_values import has_secrets

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "vcpus": {"type": "raw"},
    "memory": {"type": "raw", "aliases": ["mem"]},
    "cpu": {"type": "raw"},
    "cpu_mode": {"type": "str", "choices": ["host-model", "host-passthrough", "maximum"]},
    "numatune": {"type": "dict"},
    "features": {"type": "dict", "aliases": ["hypervisor_features"]},
    "machine_type": {"type": "str"},
    "firmware": {"type": "str", "choices": ["bios", "efi"]},
    "secure_boot": {"type": "bool"},
    "tpm": {"type": "raw"},
    "boot": {"type": "dict"},
    "clock": {"type": "raw"},
    "events": {"type": "dict"},
    "serials": {"type": "raw"},
    "consoles": {"type": "raw"},
    "graphics": {"type": "raw"},
    "video": {"type": "raw"},
    "rng": {"type": "raw"},
    "watchdog": {"type": "raw"},
    "shared_folders": {"type": "list", "elements": "dict"},
    "host_devices": {"type": "list", "elements": "str"},
    "xml": {"type": "str"},
    "image": {"type": "str"},
    "clone": {"type": "str", "choices": ["overlay", "copy"]},
    "disk_profile": {"type": "raw", "default": "default", "aliases": ["disk"]},
    "disk_profiles": {"type": "dict", "default": {}},
    "disks": {"type": "raw"},
    "nic_profile": {"type": "raw", "default": "default", "aliases": ["nic"]},
    "nic_profiles": {"type": "dict", "default": {}},
    "nics": {"type": "raw", "aliases": ["interfaces"]},
    "seed": {"type": "raw", "default": {}},
    "seed_policy": {"type": "str", "choices": ["keep", "refresh"], "default": "keep"},
    "enable_vnc": {"type": "bool"},
    "enable_qcow": {"type": "bool"},
    "boot_dev": {"type": "str"},
    "stop_on_reboot": {"type": "bool"},
    "state": {"type": "str", "choices": list(STATES)},
    "start": {"type": "bool"},
    "autostart": {"type": "bool"},
    "title": {"type": "str"},
    "description": {"type": "str"},
    "tags": {"type": "list", "elements": "str"},
    "labels": {"type": "raw"},
    "anti_affinity": {"type": "list", "elements": "str"},
    "order": {"type": "raw"},
    "delay_seconds": {"type": "int"},
    "variables": {"type": "dict"},
    "machines": {"type": "list", "elements": "dict"},
    "places": {"type": "list", "elements": "str"},
    "concurrency": {"type": "int", "default": 8},
    "stop_timeout": {"type": "int", "default": STOP_SECONDS},
    "images": {"type": "dict", "default": {}},
    "image_pool": {"type": "str", "default": "images"},
    "default_authorized_keys": {"type": "list", "elements": "str", "no_log": False},
    "default_cpu": {"type": "dict"},
    "default_machine_type": {"type": "str"},
    "claims": {"type": "dict", "default": {}},
    "decision": {"type": "dict", "default": {}},
    "used_elsewhere": {"type": "dict"},
    "lock_timeout": {"type": "int", "default": 300},
}

# Of the task. All others are options of a machine, and beside a list of machines the defaults for it.
TASK_OPTIONS = (
    "machines",
    "places",
    "concurrency",
    "stop_timeout",
    "images",
    "image_pool",
    "default_authorized_keys",
    "default_cpu",
    "default_machine_type",
    "claims",
    "decision",
    "used_elsewhere",
    "lock_timeout",
    "disk_profiles",
    "nic_profiles",
)
MACHINE_OPTIONS = tuple(name for name in ARGUMENTS if name not in TASK_OPTIONS)


def read_specs(params: dict[str, t.Any], existing: FindExisting = none_exists) -> list[Machine]:
    """The machines that the task asks for: one by the module's own options, or the list with these as its defaults.

    existing: the machines that are there already.
    """
    profiles = {
        "disk_profiles": params["disk_profiles"],
        "nic_profiles": params["nic_profiles"],
        "default_keys": params["default_authorized_keys"],
    }
    named = named_options(ARGUMENTS, params, MACHINE_OPTIONS)
    # Of the role's list, the profiles and the seed are the role's variables.
    places = params["places"]
    prefix = "virt_" if places and all(place == "" or place.startswith("virt_vms[") for place in places) else ""
    if params["machines"] is None:
        return _staying([read_machine(named, existing=existing, **profiles)])
    machines = read_machines(
        params["machines"],
        seed_defaults=named.pop("seed", None),
        defaults=named,
        where="machines",
        places=places,
        prefix=prefix,
        existing=existing,
        **profiles,
    )
    return _staying(machines)


def _staying(machines: list[Machine]) -> list[Machine]:
    """The machines. Raises InputError with a line for each that is to be removed."""
    mistakes = Mistakes()
    for machine in machines:
        with mistakes.noted():
            if machine.absent:
                raise InputError(
                    "virt_init removes no machine", where=machine.given.at("state"), hint="Remove it with virt_purge"
                )
    mistakes.conclude()
    return machines


def check_ahead(params: dict[str, t.Any]) -> None:
    """Raise InputError for what is wrong whatever machines there are, without waiting for the hypervisor."""
    # A directory where a pool is to be named is complained of when the pool's name can be told.
    with contextlib.suppress(DirectoryAsPoolError):
        read_specs(params, lambda _name: Existing())


def check_images(images: t.Mapping[str, t.Any]) -> None:
    """Raise InputError unless each is what virt_image returned, or empty where that is not known."""
    for name, image in images.items():
        if not isinstance(image, dict):
            raise InputError(
                f"{image!r} is not an image", where=f"images.{name}", hint="Give what virt_image returned as image"
            )


def make_all_plans(
    module: AnsibleModule, params: dict[str, t.Any], conn: VirConnect, left_elsewhere: AskElsewhere | None
) -> tuple[list[MachinePlan], list[WantedVolume]]:
    """The plans for the machines of the task, and what they use of shared pools, for who holds the hypervisor's lock;
    warns of what they come to.

    left_elsewhere: as of Hypervisor. An error carries what the other hypervisors are to be asked first.
    """
    default_cpu = None if params["default_cpu"] is None else CPU.check(params["default_cpu"], "default_cpu")
    decision = read_decision(params["decision"], "decision")
    where = "" if params["machines"] is None else "machines"
    hypervisor = Hypervisor(
        conn,
        image_pool=params["image_pool"],
        offered=params["images"],
        check_mode=module.check_mode,
        default_cpu=default_cpu,
        default_machine_type=params["default_machine_type"] or None,
        claims=params["claims"],
        left_elsewhere=left_elsewhere,
    )
    with noted_in_error(hypervisor), withdrawn_on_error(conn, hypervisor.claims, check_mode=module.check_mode):
        gone = {**machines_gone(decision, hypervisor.domains), **machines_taken(decision, hypervisor.domains)}
        machines = read_specs_here(functools.partial(read_specs, params), hypervisor, gone)
        here = [machine for machine in machines if machine.name not in gone]
        # A run that does not only check has removed them by now.
        leaving = decision.leaving if module.check_mode else ()
        # A check comes before all that is created; several hypervisors create their machines at the same time.
        check_still_chosen(here, hypervisor, decision, leaving=leaving, ahead=module.check_mode)
        plans = make_plans(machines, hypervisor, where, params["places"], gone, stop_seconds=params["stop_timeout"])
    if any(todo.created for todo in plans) and hypervisor.guests.emulated:
        host = params[HOST_NAME] or "This hypervisor"
        module.warn(f"{host} has no KVM. New machines are emulated there, which is many times slower.")
    for name in unbootable(plans):
        module.warn(
            f"New machine {name} has nothing to boot from: its disks are empty. Name an image, or an installation "
            "medium (source of a cdrom), or boot from the network (boot)."
        )
    for name, consoles in further_consoles(plans, hypervisor).items():
        module.warn(
            f"Machine {name} has more than one console, and graphics is the first. Those that stay as they are: "
            f"{', '.join(consoles)}. To remove one: virsh edit {name}"
        )
    for name in left_running(plans, hypervisor):
        module.warn(f"Machine {name} is running, and start: false does not stop it. To stop it, set state: stopped.")
    return plans, hypervisor.wanted


@contextlib.contextmanager
def noted_in_error(hypervisor: Hypervisor) -> t.Iterator[None]:
    """An error of the block takes along, for the module's result, what the other hypervisors are to be asked about, and
    what they may want as well."""
    try:
        yield
    except VirtError as exc:
        result: dict[str, t.Any] = {}
        if hypervisor.to_ask:
            result["shared"] = [one.as_result() for one in hypervisor.to_ask]
        if hypervisor.wanted:
            result["wanted"] = [one.as_result() for one in hypervisor.wanted]
        exc.result = result
        raise


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Plan, act unless in check mode, and say what is true afterwards."""
    params = opened(module.params)
    require_root("virt_init", params["uri"])
    check_ahead(params)
    check_images(params["images"])
    check_at_least(params, stop_timeout=1)
    left_elsewhere = read_used_elsewhere(params["used_elsewhere"], "used_elsewhere")
    limits = {
        "concurrency": params["concurrency"],
        "lock_seconds": params["lock_timeout"],
        "stop_seconds": params["stop_timeout"],
    }
    at_work: dict[str, t.Any] = {}
    with open_connection(params["uri"]) as conn, progress_file(params[PROGRESS_FILE]) as progress:
        with StepWatch(progress) as watch:
            watch.turn_to("wait for other runs to let go of this hypervisor")
            with hypervisor_lock("init", wait_seconds=params["lock_timeout"]):
                watch.turn_to("compare the machines with what is requested")
                plans, wanted = make_all_plans(module, params, conn, left_elsewhere)
                watch.follow("create and change machines", at_work)
                outcomes = plans
                if not module.check_mode:
                    outcomes = run_plans(plans, concurrency=params["concurrency"], at_work=at_work)
            if not module.check_mode:
                # It may take a guest minutes to shut down: nobody else waits for it.
                watch.wait_for("to get the state that is requested", at_work, "the next")
                outcomes = change_power(conn, outcomes, at_work=at_work, **limits)
        names = [todo.machine.name for todo in plans]
        records = records_of(conn, names, module.warn)
    results = [outcome.as_result() for outcome in outcomes]
    for result in results:
        if result["name"] in records:
            result["machine"] = records[result["name"]]
    answer: dict[str, t.Any] = {
        "changed": any(result["changed"] for result in results),
        "checked": module.check_mode,
        "machines": results,
        "diff": [
            yaml_diff(name, todo.before, todo.after)
            for todo, name in zip(plans, names)  # noqa: B905 - Python 3.9 has no strict
            if todo.before != todo.after
        ],
    }
    if wanted:
        answer["wanted"] = [one.as_result() for one in wanted]
    failed = [result for result in results if result["failed"]]
    if failed:
        kept = [result["name"] for result in results if not result["failed"]]
        words = "; ".join(f"{result['name']}: {result['msg']}" for result in failed)
        module.fail_json(msg=f"{words}. Succeeded: {', '.join(kept) or 'none'}", **answer)
    if params["machines"] is None and names[0] in records:
        answer["machine"] = records[names[0]]
    return answer


def main() -> None:
    module = make_module(
        ARGUMENTS,
        required_one_of=[("name", "machines")],
        required_by={"places": "machines"},
        mutually_exclusive=[("machines", "name")],
        secrets=SecretOptions(left_in=has_secrets),
        beside=[HOST_NAME, PROGRESS_FILE],
    )
    if CRYPTOGRAPHY_IMPORT_ERROR is not None:
        module.fail_json(
            msg=missing_required_lib("cryptography", reason="(package python3-cryptography)"),
            exception=CRYPTOGRAPHY_IMPORT_ERROR,
        )
    finish(module, work)


if __name__ == "__main__":
    main()
