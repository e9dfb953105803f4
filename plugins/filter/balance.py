# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.balance."""

from __future__ import annotations

DOCUMENTATION = r"""
name: balance
short_description: Find the fewest moves that make hypervisors equally full
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Finds the fewest moves of machines after which no hypervisor is much fuller than another one.
  - The load of a hypervisor is the share of its allocatable memory (its own, less the reserve, times the ratio) that
    its machines may use, in percent. The spread is the difference between the fullest and the emptiest.
  - It contacts no hypervisor and changes nothing. The same input gives the same answer.
  - All plans of one move are tried, then all of two, and so on, and of those with the fewest moves the one that moves
    the least memory is chosen. In a large cloud that needs many moves this would take too long; then the best single
    move is chosen, one after the other. If no moves reach O(limit), those that come nearest to it are returned.
  - A machine is only moved where it fits, by the rules of P(brine.virt.moves#filter), and at most once. Hypervisors in
    maintenance, and those that did not answer, are left out.
  - The moves must be made in the given order. A later one may need the capacity that an earlier one frees.
positional: limit
options:
  _input:
    description: The hypervisors with their machines, as P(brine.virt.moves#filter) accepts them.
    type: dict
    required: true
  limit:
    description: The greatest acceptable spread, in percentage points, above 0 and up to 100.
    type: float
    default: 20.0
  settings:
    description: The inventory variables of the hypervisors, as in P(brine.virt.place#filter); V(hostvars) will do.
    type: dict
  anti_affinity:
    description: What to do with a machine that could only be moved to where others of its anti-affinity groups are.
    type: str
    choices:
      require: it stays
      prefer: it is moved where no more of them are than on its own hypervisor
    default: require
  refused:
    description:
      - Machines that are not to be moved, each with the reason, such as what M(brine.virt.virt_migrate) said of it in
        check mode.
    type: dict
  errors:
    description:
      - How mistakes in the input are reported.
    type: str
    choices:
      raise: the filter fails, with a line for each
      return: they are returned in C(errors), and nothing else is. For a task that shows them.
    default: raise
seealso:
  - plugin: brine.virt.moves
    plugin_type: filter
  - module: brine.virt.virt_migrate
"""

EXAMPLES = r"""
---
- name: What would make the hypervisors equally full?
  ansible.builtin.debug:
    msg: "{{ fleet | brine.virt.balance(10, settings=hostvars) | brine.virt.moves_table }}"
  vars:
    fleet:
      hv1:
        host: "{{ hostvars['hv1'].hypervisor_facts.host }}"
        machines: "{{ hostvars['hv1'].hypervisor_machines.machines }}"
      hv2:
        host: "{{ hostvars['hv2'].hypervisor_facts.host }}"
        machines: "{{ hostvars['hv2'].hypervisor_machines.machines }}"
"""

RETURN = r"""
_value:
  description:
    - The moves in plain data, as P(brine.virt.moves#filter) returns them, in the order in which they must be made.
      C(stay) are the machines that are tied to their hypervisor, with what ties them.
  type: dict
  contains:
    moves:
      description: The moves. C(why) says how the loads of the two hypervisors change.
      type: list
      elements: dict
      sample:
        - name: web1
          source: hv1
          target: hv2
          state: running
          memory_mib: 2048
          why: hv1 from 75 to 50%, hv2 from 10 to 35%
          refused: {}
          memory_ratio: 1.0
          memory_reserve_mib: 256
          anti_affinity: require
    spread:
      description: The spread now and after the moves, and whether that is within the limit.
      type: dict
      sample: {before: 65.0, after: 15.0, limit: 20.0, reached: true}
    loads:
      description: The load of each hypervisor now and after the moves, in percent.
      type: dict
      sample:
        hv1: {before: 75.0, after: 50.0}
        hv2: {before: 10.0, after: 35.0}
    reason:
      description:
        - Why no machine is moved, or why the limit is not reached, in one sentence. Null if the moves reach the limit.
      type: str
      sample: "No machine needs to be moved: hv1 (50.0%) is 15.0 points above hv2 (35.0%), within the limit of 20"
    errors:
      description: With O(errors=return), the mistakes, one sentence each. If there are any, this is the only key.
      type: list
      elements: str
      sample: []
"""

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.validators import any_mapping
from ansible_collections.brine.virt.plugins.plugin_utils._filter_answer import answer
from ansible_collections.brine.virt.plugins.plugin_utils._placement.balance import plan_balance
from ansible_collections.brine.virt.plugins.plugin_utils._placement.fleet import read_fleet
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import PlacementOptions, read_number


def balance_filter(
    hosts: t.Any,
    limit: t.Any = 20.0,
    settings: t.Any = None,
    errors: str = "raise",
    anti_affinity: str = "require",
    refused: t.Any = None,
) -> dict[str, t.Any]:
    """The moves; see RETURN."""

    def work() -> dict[str, t.Any]:
        fleet = read_fleet(hosts, settings, PlacementOptions(anti_affinity=anti_affinity))
        staying = any_mapping({} if refused is None else refused, "refused")
        return plan_balance(fleet, read_number(float, limit, "limit"), refused=staying)

    return answer(work, errors, "brine.virt.balance: ")


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {"balance": balance_filter}
