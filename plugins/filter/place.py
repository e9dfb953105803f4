# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.place."""

from __future__ import annotations

DOCUMENTATION = r"""
name: place
short_description: Choose a hypervisor for each machine, and say why
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Decides which hypervisor each machine of a list goes to, based on the current facts of the hypervisors.
  - It contacts no hypervisor and changes nothing. The same input gives the same answer.
  - A machine that already exists stays on its hypervisor, even if another one would be better. It is an error if there
    is no room there for what it grows by, which is memory, vCPUs and the disks that are added. How much its disks grow
    is left to M(brine.virt.virt_init) to check, as it takes looking at each of them.
  - An existing machine may have what is not offered for new ones, such as another nic model, and keeps it. Only its
    hypervisor knows whether it has that, so such values are left to M(brine.virt.virt_init) to check.
  - A new machine is only put where it fits. Its memory, together with that of all machines that are defined there and
    of all that this run puts there, must leave O(memory_reserve_mib) free. The hypervisor must have its CPUs, pools
    with enough free space for its disks, its bridges and networks, its C(labels), and its image, unless that is among
    O(images). It must not be in maintenance (M(brine.virt.virt_maintenance)), and must not have a machine in any of its
    C(anti_affinity) groups; for existing machines the groups stored with them count.
  - What a machine takes of storage that several hypervisors share (C(shared_storage) of their pools) is no longer free
    on any of them.
  - Machines whose entry names a hypervisor are placed first, so that others do not use up the capacity that they need.
    All others follow in the order of the list.
  - A machine with C(state=absent) is not placed. Its memory and its vCPUs count as free; the space of its disks does
    not, as long as they are there.
  - If a machine fits nowhere, nothing is placed, and the error says for every such machine what each hypervisor lacks.
positional: hosts
options:
  _input:
    description:
      - The requested machines, as M(brine.virt.virt_init) accepts them, each with an optional C(hypervisor) to be on.
    type: list
    elements: dict
    required: true
  hosts:
    description:
      - By the name of each hypervisor, the facts that M(brine.virt.virt_host_info) returned as C(host).
      - For a hypervisor that did not answer, or was not asked, a sentence that says why.
    type: dict
    required: true
  disk_profiles:
    description: Disk profiles by name.
    type: dict
  nic_profiles:
    description: Nic profiles by name.
    type: dict
  seed_defaults:
    description: Default options of C(seed) for all machines.
    type: dict
  images:
    description: The images that can be stored on any hypervisor, by name. Only the names matter here.
    type: dict
  image_pool:
    description: The pool of the image store. A machine with an image is put where it exists and is active.
    type: str
    default: images
  policy:
    description: Which of the suitable hypervisors is chosen.
    type: str
    choices:
      spread: >-
        the one with the lowest load after everything placed so far, which is how much of the memory that may be
        committed is committed; among those within 10 percentage points of it the one with the fewest machines, then the
        one with the lower load, then the first by name
      pack: the one with the least free memory; among equal ones the first by name
    default: spread
  memory_reserve_mib:
    description: MiB of memory to keep free on each hypervisor for itself.
    type: int
    default: 256
  memory_ratio:
    description:
      - How many times the memory of a hypervisor, less the reserve, may be committed to machines. V(1.5) allows half as
        much again as there is.
      - One machine never gets more memory than the hypervisor has.
    type: float
    default: 1.0
  vcpu_ratio:
    description:
      - How many virtual CPUs may share one CPU of a hypervisor.
      - One machine never gets more CPUs than the hypervisor has.
    type: float
    default: 8.0
  settings:
    description:
      - By the name of each hypervisor, its inventory variables; V(hostvars) will do. The following are read, and take
        precedence over the options of the same name.
      - C(virt_labels), the labels of the hypervisor, for machines that require them with C(labels); a list such as
        C([ssd, zone=a]), or a mapping, in which C(zone) with the value C(a) is C(zone=a), and C(ssd) with V(true) is
        C(ssd).
      - C(virt_memory_reserve_mib), C(virt_memory_ratio) and C(virt_vcpu_ratio).
    type: dict
  anti_affinity:
    description: What to do with a machine whose anti-affinity groups leave no hypervisor for it.
    type: str
    choices:
      require: it is refused
      prefer: it goes where the fewest machines of its groups are
    default: require
  unseen:
    description:
      - What to do with a machine that is on none of the hypervisors that answered, if another one did not answer.
      - It may be on that one. If it were created elsewhere, it would exist twice, with the same addresses.
      - The same applies to a machine that is to be started, is off on a hypervisor that answered, and was seen before
        on one that did not (O(homes), O(last_seen)). What is there may be an old definition, and the machine would run
        twice.
      - A machine whose entry names a hypervisor that answered is only refused if it was seen on one that did not, or
        that is not in O(hosts).
      - With V(refuse) it is returned in C(refused_machines). The names of machines, in a list or with commas between
        them, are of those that are placed like any other, because you know that they are not there. With V(place) all
        are.
    type: raw
    default: refuse
  baseline:
    description:
      - Whether new machines get what all hypervisors that answered have in common, so that they can move to each.
      - With V(false), C(why) of the first new machine on a hypervisor says so if others do not know the newest machine
        type there.
    type: bool
    default: false
  taken:
    description:
      - Names of hosts and groups of the inventory that are not machines. A new machine with one of them is an error.
        The name of a hypervisor is an error in any case.
    type: list
    elements: str
  last_seen:
    description:
      - By the name of a machine, the hypervisors where the live inventory or the file of host keys has seen it, as
        P(brine.virt.last_seen#lookup) returns them. A machine that is on none of the hypervisors that answered, and was
        seen on one that is not in O(hosts) at all, is treated according to O(unseen), also if it is to be removed, and
        if its entry names another one.
    type: dict
  where:
    description:
      - The name of the list of machines, as the user knows it, for error messages.
      - Empty for a single machine that is not in a list.
    type: str
    default: virt_vms
  homes:
    description:
      - By the name of each machine, the hypervisor that it was on when the inventory was read.
      - It is used if that hypervisor did not answer, and the entry names none.
    type: dict
  errors:
    description:
      - How mistakes in the input, and machines that cannot be placed, are reported.
    type: str
    choices:
      raise: the filter fails, with a line for each
      return: they are returned in C(errors), and nothing else is. For a task that shows them.
    default: raise
seealso:
  - module: brine.virt.virt_host_info
  - module: brine.virt.virt_init
"""

EXAMPLES = r"""
---
- name: Decide where the machines go
  ansible.builtin.set_fact:
    plan: "{{ virt_vms | brine.virt.place(facts_by_host, images=virt_images, disk_profiles=virt_disk_profiles) }}"
  vars:
    facts_by_host:
      hv1: "{{ hostvars['hv1'].hypervisor_facts.host }}"
      hv2: "{{ hostvars['hv2'].hypervisor_facts.host }}"

- name: Show the decisions
  ansible.builtin.debug:
    msg: "{{ item.name }} on {{ item.hypervisor }}: {{ item.why }}"
  loop: "{{ plan.assignments }}"

- name: Create the machines of each hypervisor
  brine.virt.virt_init:
    machines: "{{ virt_vms | selectattr('name', 'in', plan.by_host[inventory_hostname]) }}"
"""

RETURN = r"""
_value:
  description: The decisions, in plain data.
  type: dict
  contains:
    assignments:
      description: One decision for each machine that has a place, in the order of the list.
      type: list
      elements: dict
      contains:
        name:
          description: The machine.
          type: str
          sample: web1
        hypervisor:
          description: The hypervisor that it goes to.
          type: str
          sample: hv1
        existing:
          description: Whether it is already there.
          type: bool
          sample: false
        why:
          description: Why it was chosen, and what could not be checked.
          type: str
          sample: "lowest load: 37% of memory committed including this machine, next hv3 with 62%"
        refused:
          description: For every other hypervisor, why it was not chosen.
          type: dict
          sample:
            hv2: has no bridge dmz_br (has br0)
            hv3: "a higher load: 62% of memory committed including this machine"
    by_host:
      description:
        - For every hypervisor that answered, the names of the machines for it, as they were given and in the order of
          the list.
        - The decisions contain only names and reasons, so that they can be printed. The entries of the machines, which
          may contain passwords and keys, are not returned.
      type: dict
      sample:
        hv1: [web1]
        hv2: []
    new_by_host:
      description:
        - For every hypervisor that answered, the machines to be created or finished there, as M(brine.virt.virt_claim)
          accepts them.
      type: dict
      sample:
        hv1: [{name: web1, memory_mib: 1024, vcpus: 1}]
        hv2: []
    withdraw:
      description:
        - Claims that interrupted runs have left behind, for machines that are elsewhere, or on a hypervisor that cannot
          have the machine now, by hypervisor, as O(brine.virt.virt_claim#module:withdraw) accepts them.
      type: dict
      sample: {}
    decisions:
      description:
        - For every hypervisor that answered, why it was chosen, as O(brine.virt.virt_init#module:decision) accepts it.
          For pools that several of them share, C(shared_pools_mib) is what the machines of all of them need there.
          With O(anti_affinity=require), C(apart) has the groups of new machines.
      type: dict
      sample:
        hv1: {memory_mib: 15744, vcpus: 64, pools_mib: {default: 8192}, machines: {}}
    images_by_host:
      description: For every hypervisor that answered, the names in O(images) that its machines need.
      type: dict
      sample:
        hv1: [debian]
        hv2: []
    places_by_host:
      description:
        - For every hypervisor that answered, what messages call its machines' entries, to be used for
          O(brine.virt.virt_init#module:places).
      type: dict
      sample:
        hv1: ["virt_vms[0]"]
        hv2: []
    machine_type:
      description:
        - With O(baseline=true), the newest C(q35) machine type that all hypervisors that answered know, to be used for
          O(brine.virt.virt_init#module:default_machine_type). Null if there is none.
      type: str
      sample: pc-q35-7.2
    not_started:
      description: The machines that have a place and should not be started (C(state) other than V(running)).
      type: list
      elements: str
      sample: []
    stopped:
      description: Those of them that should be off (C(state=stopped)).
      type: list
      elements: str
      sample: []
    removals:
      description: The machines to be removed (C(state=absent)), by the hypervisor that has them.
      type: dict
      sample: {hv1: [old1]}
    not_there:
      description: The machines to be removed that no hypervisor has.
      type: list
      elements: str
      sample: []
    silent:
      description: The hypervisors that did not answer, and why.
      type: dict
      sample: {}
    refused_machines:
      description:
        - The machines that have no place because a hypervisor did not answer, those that are to be removed and may be
          on one, those that an interrupted run has begun on a hypervisor in maintenance, and those that a move has
          defined on two hypervisors, by C(name) and C(why).
        - If the entry names that hypervisor, or the machine is on it (O(homes)), it is given in C(hypervisor).
        - If the machine may be on it, see O(unseen) and O(last_seen), that is null.
      type: list
      elements: dict
      sample: []
    errors:
      description: With O(errors=return), the mistakes, one sentence each. If there are any, this is the only key.
      type: list
      elements: str
      sample: []
"""

import typing as t
from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.module_utils._base.errors import Mistakes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.validators import yes_or_no
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import places_of
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_good_machines
from ansible_collections.brine.virt.plugins.plugin_utils._filter_answer import answer, without_omitted
from ansible_collections.brine.virt.plugins.plugin_utils._placement.homes import find_existing
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import (
    PlacementOptions,
    read_number,
    read_unseen,
)
from ansible_collections.brine.virt.plugins.plugin_utils._placement.place import place
from ansible_collections.brine.virt.plugins.plugin_utils._withhold import Withheld

# The names that the role virt_provision has for the list.
_ROLE_LISTS = ("virt_vms", "")


def place_filter(
    specs: t.Any,
    hosts: t.Any,
    disk_profiles: t.Any = None,
    nic_profiles: t.Any = None,
    seed_defaults: t.Any = None,
    images: t.Any = None,
    policy: str = "spread",
    memory_reserve_mib: t.Any = 256,
    vcpu_ratio: t.Any = 8.0,
    where: str = "virt_vms",
    unseen: t.Any = "refuse",
    image_pool: str = "images",
    settings: t.Any = None,
    memory_ratio: t.Any = 1.0,
    anti_affinity: str = "require",
    taken: t.Any = None,
    last_seen: t.Any = None,
    homes: t.Any = None,
    errors: str = "raise",
    baseline: t.Any = False,
) -> dict[str, t.Any]:
    """The decisions for a list of specs; see RETURN."""
    specs, disk_profiles, nic_profiles, seed_defaults, images = (
        without_omitted(value) for value in (specs, disk_profiles, nic_profiles, seed_defaults, images)
    )

    def work() -> dict[str, t.Any]:
        # The variables of the role, whose names these are.
        prefix = "virt_" if where in _ROLE_LISTS else ""
        names = [spec.get("name") for spec in specs if isinstance(spec, Mapping)] if isinstance(specs, list) else []
        options = PlacementOptions(
            policy=policy,
            memory_reserve_mib=read_number(int, memory_reserve_mib, "memory_reserve_mib"),
            memory_ratio=read_number(float, memory_ratio, "memory_ratio"),
            vcpu_ratio=read_number(float, vcpu_ratio, "vcpu_ratio"),
            unseen=read_unseen(unseen, f"{prefix}unseen", names),
            anti_affinity=anti_affinity,
            image_pool=image_pool,
            baseline=yes_or_no(baseline, "baseline"),
        )
        mistakes = Mistakes()
        machines = read_good_machines(
            specs,
            mistakes,
            disk_profiles=disk_profiles,
            nic_profiles=nic_profiles,
            seed_defaults=seed_defaults,
            where=where,
            prefix=prefix,
            existing=find_existing(hosts, homes, last_seen),
        )
        places = places_of(len(specs), where)
        # Those that are right are placed all the same, so that what hinders them is said in the same run.
        with mistakes.noted():
            placed = place(
                list(machines.values()),
                [specs[index] for index in machines],
                hosts,
                images=images,
                images_where=f"{prefix}images",
                settings=settings,
                options=options,
                places=[places[index] for index in machines],
                homes=homes,
                taken=frozenset(taken or ()),
                last_seen=last_seen or {},
            )
        mistakes.conclude()
        return placed

    written = {
        "machines": specs,
        "seed": seed_defaults,
        "images": images,
        "disk_profiles": disk_profiles,
        "nic_profiles": nic_profiles,
    }
    return answer(work, errors, clean=Withheld(written).cleaned_text)


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {"place": place_filter}
