# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.place."""

from __future__ import annotations

DOCUMENTATION = r"""
name: place
short_description: Choose a hypervisor for each machine, and say why
version_added: "0.1.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Decides on which hypervisor each machine of a list is to be, from what the hypervisors say of themselves now.
  - It asks nothing and changes nothing. The same input gives the same answer.
  - A machine that lives on a hypervisor stays there, whatever else would be better.
  - It may have what is offered for no new machine, such as another model of a nic, and keeps it. Whether it has that is
    known to its hypervisor alone, so that such values of its wish are left to the check of M(brine.virt.virt_init).
  - A new machine is only put where it fits. Its memory, together with that of all machines that are defined there and
    of all that this run puts there, must leave O(memory_reserve_mib) free. The hypervisor must have its CPUs, pools
    with room for its disks, its bridges and networks, its C(labels), and its image unless O(images) brings that. It
    must not be in maintenance (M(brine.virt.virt_maintenance)), and have no machine of one of its C(anti_affinity)
    groups; machines that live there count with the groups that are noted in them.
  - Machines whose wish names a hypervisor are counted in before the others, so that these do not take their room.
    All others follow in the order of the list.
  - When a machine fits nowhere, nothing is placed, and the error says for every such machine what each hypervisor
    lacks.
positional: hosts
options:
  _input:
    description:
      - The wishes, as M(brine.virt.virt_init) takes them, each with an optional C(hypervisor) to be on.
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
    description: Options of C(seed) for all machines that do not say otherwise.
    type: dict
  images:
    description: The images that can be brought to any hypervisor, by name. Only the names matter here.
    type: dict
  image_pool:
    description: The pool of the image store. A machine with an image is put where it exists and is active.
    type: str
    default: images
  policy:
    description: Which of the hypervisors that fit is taken.
    type: str
    choices:
      spread: the one with the most free memory, counting all that was placed before; of equal ones the first by name
      pack: the one with the least free memory; of equal ones the first by name
    default: spread
  memory_reserve_mib:
    description: MiB of memory that stay free on each hypervisor for itself.
    type: int
    default: 256
  memory_ratio:
    description:
      - How many times the memory of a hypervisor, less the reserve, may be promised to machines. V(1.5) promises half
        as much again as there is.
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
      - By the name of each hypervisor, its inventory variables; V(hostvars) will do. These are read, and come before
        the options of the same name.
      - C(virt_labels), what the hypervisor is, for machines that ask for it with C(labels); a list such as
        C([ssd, zone=a]), or a mapping, in which C(zone) with the value C(a) is C(zone=a), and C(ssd) with V(true) is
        C(ssd).
      - C(virt_memory_reserve_mib), C(virt_memory_ratio) and C(virt_vcpu_ratio).
    type: dict
  anti_affinity:
    description: What becomes of a machine whose anti-affinity groups leave it no hypervisor.
    type: str
    choices:
      require: it is refused
      prefer: it goes where the fewest machines of its groups are
    default: require
  unseen:
    description:
      - What becomes of a machine that lives on no hypervisor that answered, while another one did not answer.
      - It may live on that one. Made elsewhere it would exist twice, with the same addresses.
      - It does not matter for machines whose wish names a hypervisor that answered.
    type: str
    choices:
      refuse: it is given back in C(refused_machines)
      place: it is placed as any other
    default: refuse
  baseline:
    description:
      - Whether new machines get what all hypervisors that answered have in common, so that they can move to each.
      - With V(false), the first new machine on a hypervisor whose newest machine type others do not know has that in
        its C(why).
    type: bool
    default: false
  taken:
    description:
      - Names of hosts and groups of the inventory that are not machines. A new machine with one of them is an error.
        So is one with the name of a hypervisor, in any case.
    type: list
    elements: str
  last_seen:
    description:
      - By the name of a machine, the hypervisors that it is known on by the live inventory or by the file of host
        keys, as P(brine.virt.last_seen#filter) gives them. A machine that is on no hypervisor that answered, and was
        seen on one that is not in O(hosts) at all, is treated as O(unseen) says.
    type: dict
  where:
    description:
      - The name of the list of wishes, as the user knows it, for error messages.
      - Empty for a single wish that is in no list.
    type: str
    default: virt_vms
  homes:
    description:
      - By the name of each machine, the hypervisor that it lived on when the inventory was made.
      - It counts where that hypervisor did not answer, and the wish names none.
    type: dict
  errors:
    description:
      - What becomes of mistakes in what the user wrote, and of machines that cannot be placed.
    type: str
    choices:
      raise: the filter fails, with a line for each
      return: they are given back in C(errors), and nothing else is. For a task that shows them.
    default: raise
seealso:
  - module: brine.virt.virt_host_info
  - module: brine.virt.virt_init
"""

EXAMPLES = r"""
---
- name: Decide where the machines are to be
  ansible.builtin.set_fact:
    plan: "{{ virt_vms | brine.virt.place(facts_by_host, images=virt_images, disk_profiles=virt_disk_profiles) }}"
  vars:
    facts_by_host:
      hv1: "{{ hostvars['hv1'].hypervisor_facts.host }}"
      hv2: "ssh: connect to host hv2 port 22: No route to host"

- name: Say it
  ansible.builtin.debug:
    msg: "{{ item.name }} on {{ item.hypervisor }}: {{ item.why }}"
  loop: "{{ plan.assignments }}"

- name: Make the machines of each hypervisor
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
          description: Where it is to be.
          type: str
          sample: hv1
        existing:
          description: Whether it lives there already.
          type: bool
          sample: false
        why:
          description: Why there. What could not be checked is said here too.
          type: str
          sample: "most free memory: 20000 MiB after this machine, next hv2 with 12000 MiB"
        refused:
          description: For every other hypervisor, why not there.
          type: dict
          sample:
            hv2: has no bridge dmz_br (has br0)
    by_host:
      description:
        - For every hypervisor that answered, the names of the machines for it, as they were given and in the order of
          the list.
        - The decisions hold names and reasons only, so that they can be printed. The descriptions of machines, in which
          passwords and keys may stand, stay where they are.
      type: dict
      sample:
        hv1: [web1]
        hv2: []
    new_by_host:
      description:
        - For every hypervisor that answered, the machines that are to be made there, or to be finished, as
          M(brine.virt.virt_claim) takes them.
      type: dict
      sample:
        hv1: [{name: web1, memory_mib: 1024, vcpus: 1}]
        hv2: []
    withdraw:
      description:
        - Claims that runs which were cut off have left of machines that live elsewhere, by hypervisor, as
          O(brine.virt.virt_claim#module:withdraw) takes them.
      type: dict
      sample: {}
    decisions:
      description:
        - For every hypervisor that answered, what it was chosen by, as O(brine.virt.virt_init#module:decision) takes
          it.
      type: dict
      sample:
        hv1: {memory_mib: 15744, vcpus: 64, pools_mib: {default: 8192}, machines: {}}
    images_by_host:
      description: For every hypervisor that answered, the names out of O(images) that its machines stand on.
      type: dict
      sample:
        hv1: [debian]
        hv2: []
    places_by_host:
      description:
        - For every hypervisor that answered, what messages call the wishes for it, to be used for
          O(brine.virt.virt_init#module:places).
      type: dict
      sample:
        hv1: ["virt_vms[0]"]
        hv2: []
    machine_type:
      description:
        - With O(baseline=true), the newest machine type of the kind C(q35) that all hypervisors which answered know,
          to be used for O(brine.virt.virt_init#module:default_machine_type). Null when there is none.
      type: str
      sample: pc-q35-7.2
    not_started:
      description: The machines that have a place, and are not to be started (C(start=false)).
      type: list
      elements: str
      sample: []
    silent:
      description: The hypervisors that did not answer, and why.
      type: dict
      sample: {}
    refused_machines:
      description:
        - The machines that have no place because a hypervisor did not answer, by C(name) and C(why).
        - The wish names that hypervisor, or they live on it (O(homes)), and then it stands in C(hypervisor).
        - Or they may live on it, see O(unseen) and O(last_seen), and then that is null.
      type: list
      elements: dict
      sample: []
    errors:
      description: With O(errors=return), the mistakes, a sentence each. When there is one, this is the only key.
      type: list
      elements: str
      sample: []
"""

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.errors import Mistakes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.validators import yes_or_no
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import places_of, read_good_machines
from ansible_collections.brine.virt.plugins.plugin_utils._filter_answer import answer
from ansible_collections.brine.virt.plugins.plugin_utils._placement.existing import find_existing
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import Terms, read_number
from ansible_collections.brine.virt.plugins.plugin_utils._placement.place import place
from ansible_collections.brine.virt.plugins.plugin_utils._withhold import Withheld

# The names that the role virt_provision has for the list.
_ROLE_LISTS = ("virt_vms", "")


def place_filter(
    wishes: t.Any,
    hosts: t.Any,
    disk_profiles: t.Any = None,
    nic_profiles: t.Any = None,
    seed_defaults: t.Any = None,
    images: t.Any = None,
    policy: str = "spread",
    memory_reserve_mib: t.Any = 256,
    vcpu_ratio: t.Any = 8.0,
    where: str = "virt_vms",
    unseen: str = "refuse",
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
    """The decisions for a list of wishes; see RETURN."""

    def work() -> dict[str, t.Any]:
        terms = Terms(
            policy=policy,
            memory_reserve_mib=read_number(int, memory_reserve_mib, "memory_reserve_mib"),
            memory_ratio=read_number(float, memory_ratio, "memory_ratio"),
            vcpu_ratio=read_number(float, vcpu_ratio, "vcpu_ratio"),
            unseen=unseen,
            anti_affinity=anti_affinity,
            image_pool=image_pool,
            baseline=yes_or_no(baseline, "baseline"),
        )
        mistakes = Mistakes()
        # The variables of the role, whose names these are.
        prefix = "virt_" if where in _ROLE_LISTS else ""
        machines = read_good_machines(
            wishes,
            mistakes,
            disk_profiles=disk_profiles,
            nic_profiles=nic_profiles,
            seed_defaults=seed_defaults,
            where=where,
            prefix=prefix,
            existing=find_existing(hosts, homes, last_seen),
        )
        places = places_of(len(wishes), where)
        # Those that are right are placed all the same, so that what hinders them is said in the same run.
        with mistakes.noted():
            placed = place(
                list(machines.values()),
                [wishes[index] for index in machines],
                hosts,
                images=images,
                images_where=f"{prefix}images",
                settings=settings,
                terms=terms,
                places=[places[index] for index in machines],
                homes=homes,
                taken=frozenset(taken or ()),
                last_seen=last_seen or {},
            )
        mistakes.conclude()
        return placed

    written = {
        "machines": wishes,
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
