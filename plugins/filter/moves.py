# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.moves."""

from __future__ import annotations

DOCUMENTATION = r"""
name: moves
short_description: Choose where to move machines, and say why
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Decides where existing machines can be moved to, based on the current facts of the hypervisors.
  - It contacts no hypervisor and changes nothing. The same input gives the same answer.
  - A machine is only moved where it fits, by the same rules as in P(brine.virt.place#filter), and where its
    architecture, its kind of virtualisation and its machine type are known. What the facts do not show, such as whether
    the CPU is the same, is checked by M(brine.virt.virt_migrate) before it moves anything.
  - The largest machines are placed first. What one machine needs is no longer free for the next. What it frees at its
    source is not counted, so that the moves can be made in any order.
positional: names
options:
  _input:
    description:
      - By the name of each hypervisor, C(host) as M(brine.virt.virt_host_info) returned it, and C(machines) as
        M(brine.virt.virt_info) returned them.
      - For a hypervisor that did not answer, or was not asked, a sentence that says why.
    type: dict
    required: true
  names:
    description: The machines to move. Either this or O(source) is needed.
    type: list
    elements: str
  source:
    description: The hypervisor to move all machines away from.
    type: str
  target:
    description: The hypervisor to move them to, instead of the best one for each.
    type: str
  pool:
    description: The storage pool that their disks go to on the target, as in M(brine.virt.virt_migrate).
    type: str
  disks:
    description: The storage pools of single disks, as in M(brine.virt.virt_migrate).
    type: dict
  settings:
    description: The inventory variables of the hypervisors, as in P(brine.virt.place#filter); V(hostvars) will do.
    type: dict
  policy:
    description: Which of the suitable hypervisors is chosen, as in P(brine.virt.place#filter).
    type: str
    choices: [spread, pack]
    default: spread
  anti_affinity:
    description:
      - What to do with a machine whose anti-affinity groups leave no hypervisor for it, as in
        P(brine.virt.place#filter).
    type: str
    choices: [require, prefer]
    default: require
  errors:
    description:
      - How mistakes in the input are reported.
    type: str
    choices:
      raise: the filter fails, with a line for each
      return: they are returned in C(errors), and nothing else is. For a task that shows them.
    default: raise
seealso:
  - plugin: brine.virt.balance
    plugin_type: filter
  - plugin: brine.virt.disk_moves
    plugin_type: filter
  - module: brine.virt.virt_migrate
"""

EXAMPLES = r"""
---
- name: Where could web1 go?
  ansible.builtin.debug:
    msg: "{{ fleet | brine.virt.moves(['web1'], settings=hostvars) }}"
  vars:
    fleet:
      hv1:
        host: "{{ hostvars['hv1'].hypervisor_facts.host }}"
        machines: "{{ hostvars['hv1'].hypervisor_machines.machines }}"
      hv2: "ssh: connect to host hv2 port 22: No route to host"

- name: Where could all machines of hv1 go?
  ansible.builtin.debug:
    msg: "{{ fleet | brine.virt.moves(source='hv1', settings=hostvars) | brine.virt.moves_table }}"
"""

RETURN = r"""
_value:
  description: The decisions, in plain data.
  type: dict
  contains:
    moves:
      description: The machines that can be moved, those with the most memory first.
      type: list
      elements: dict
      contains:
        name:
          description: The machine.
          type: str
          sample: web1
        source:
          description: The hypervisor that it is on.
          type: str
          sample: hv1
        target:
          description: The hypervisor to move it to.
          type: str
          sample: hv2
        state:
          description: Its state.
          type: str
          sample: running
        memory_mib:
          description: The maximum memory that it can have.
          type: int
          sample: 2048
        why:
          description: Why it was chosen, and what could not be checked.
          type: str
          sample: "lowest load: 37% of memory committed including this machine, next hv4 with 62%"
        refused:
          description: For every other hypervisor, why it was not chosen.
          type: dict
          sample:
            hv3: has no bridge dmz_br (has br0)
            hv4: "a higher load: 62% of memory committed including this machine"
        memory_ratio:
          description:
            - How many times the memory of the target, less the reserve, may be committed, by its inventory variables.
          type: float
          sample: 1.0
        memory_reserve_mib:
          description: MiB of memory to keep free on the target, by its inventory variables.
          type: int
          sample: 256
        anti_affinity:
          description: The option of that name.
          type: str
          sample: require
    stay:
      description: The machines that cannot be moved, with C(why).
      type: list
      elements: dict
      sample:
        - name: db1
          hypervisor: hv1
          state: running
          memory_mib: 4096
          why: "fits on no other hypervisor: hv2: has no pool fast (has default)"
    there:
      description:
        - The machines that are already on O(target), as in C(stay).
        - With O(pool) or O(disks) they are in C(by_source) as well, without a target, so that their disks go to these
          pools.
      type: list
      elements: dict
      sample: []
    by_source:
      description:
        - For every hypervisor that answered, the moves away from it, as M(brine.virt.virt_migrate) accepts them in
          C(machines).
      type: dict
      sample:
        hv1: [{name: web1, target: hv2, memory_ratio: 1.0, memory_reserve_mib: 256, anti_affinity: require}]
        hv2: []
    ahead:
      description:
        - The part of C(by_source) that M(brine.virt.virt_migrate) can check before any machine is moved.
        - Not in it are machines in C(unfinished), and those that go where an earlier move has to make room first.
      type: dict
      sample:
        hv1: [{name: web1, target: hv2, memory_ratio: 1.0, memory_reserve_mib: 256}]
        hv2: []
    unfinished:
      description:
        - By the hypervisor that they came from, machines that have been moved, but whose old volumes an interrupted run
          has left behind. M(brine.virt.virt_migrate) with the same target finishes the move.
      type: dict
      sample:
        hv1: [{name: web2, target: hv2}]
    silent:
      description: The hypervisors that did not answer, and why.
      type: dict
      sample: {}
    errors:
      description: With O(errors=return), the mistakes, one sentence each. If there are any, this is the only key.
      type: list
      elements: str
      sample: []
"""

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._filter_answer import answer
from ansible_collections.brine.virt.plugins.plugin_utils._placement.fleet import read_fleet
from ansible_collections.brine.virt.plugins.plugin_utils._placement.moves import plan_moves, read_disk_pools
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import PlacementOptions


def moves_filter(
    hosts: t.Any,
    names: t.Any = None,
    source: str | None = None,
    target: str | None = None,
    settings: t.Any = None,
    policy: str = "spread",
    anti_affinity: str = "require",
    errors: str = "raise",
    pool: str | None = None,
    disks: t.Any = None,
) -> dict[str, t.Any]:
    """The decisions for machines that live somewhere; see RETURN."""

    def work() -> dict[str, t.Any]:
        options = PlacementOptions(policy=policy, anti_affinity=anti_affinity)
        if isinstance(names, str) or not (names is None or isinstance(names, (list, tuple))):
            raise InputError(f"{names!r} is not a list of names", where="names")
        single = read_disk_pools(disks)
        fleet = read_fleet(hosts, settings, options)
        return plan_moves(fleet, options, names=names, source=source, target=target, pool=pool, disks=single)

    return answer(work, errors, "brine.virt.moves: ")


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {"moves": moves_filter}
