#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: confirm or undo a change of a host's network or firewall that undoes itself otherwise."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_switch
short_description: Confirm or undo a change of a host's network or firewall that is rolled back automatically
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - The second half of M(brine.virt.virt_bridge_switch) and M(brine.virt.virt_firewall_switch), which begin a change.
    With their option C(confirm), as in the roles P(brine.virt.virt_bridge#role) and
    P(brine.virt.virt_hypervisor#role), they do this themselves.
  - The host rolls the change back unless it is confirmed in time, over an SSH connection that was opened after the
    change. That proves that the controller still reaches the host.
  - Only the run that has begun a change, or has taken it over from a killed one, knows its O(token), and only with that
    a change is confirmed or undone. Whichever comes first (confirmation, O(phase=abort) or timeout) wins.
extends_documentation_fragment:
  - brine.virt._attributes
attributes:
  check_mode:
    support: full
    details:
      - In check mode every phase is V(report), and does not wait.
  diff_mode:
    support: none
  idempotent:
    support: full
  action_group:
    support: none
    membership: []
options:
  change:
    description: The name of the change, as the module that has begun it returns it, such as V(bridge-br0).
    type: str
    required: true
  token:
    description:
      - The token of the change, as the module that has begun it returns it. Needed for all phases but V(report).
      - It is not a secret. It keeps two operators from confirming each other's changes.
    type: str
  phase:
    description:
      - V(wait) waits until the change is applied.
      - V(confirm) makes the change permanent if the host has everything that it should have, and otherwise undoes it at
        once. It has to come after V(wait), over a new connection.
      - V(abort) undoes the change at once unless it has been confirmed, and waits until that is done.
      - V(report) waits until the change is over, and reports how it has ended.
    type: str
    choices: [wait, confirm, abort, report]
    default: report
seealso:
  - module: brine.virt.virt_bridge_switch
  - module: brine.virt.virt_firewall_switch
"""

EXAMPLES = r"""
---
- name: Start adding the uplink to br0
  brine.virt.virt_bridge_switch:
    name: br0
  register: switch

- name: Wait until it is done, and confirm over a new connection
  brine.virt.virt_switch:
    change: "{{ switch.change }}"
    token: "{{ switch.token }}"
    phase: "{{ item }}"
  loop: [wait, confirm]
  vars:
    ansible_ssh_extra_args: -S none
  when: switch.state == 'armed'
"""

RETURN = r"""
state:
  description:
    - V(absent) if there was no such change since the host booted.
    - V(armed), V(applied), V(confirmed), V(rolling_back) or V(rolled_back) otherwise.
  returned: success
  type: str
  sample: confirmed
log:
  description: What was done, line by line.
  returned: success
  type: list
  elements: str
  sample: ["10:15:02 adding eth0 to br0", "10:16:02 not confirmed within 60 s"]
missing:
  description:
    - What is not as it was before the change, when that was rolled back. The list is empty if everything is as before.
  returned: success
  type: list
  elements: str
  sample: ["eth0 has no address 192.0.2.10/24"]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_plain_module
from ansible_collections.brine.virt.plugins.module_utils._network.confirmation import confirm, wait
from ansible_collections.brine.virt.plugins.module_utils._network.switch import control


def act(name: str, token: str, phase: str) -> bool:
    """Carry out a phase. Whether it has changed the host."""
    if phase == "wait":
        wait(name, token)
    elif phase == "confirm":
        return confirm(name, token)
    elif phase == "abort":
        control.check_token(name, token)
        under_way = control.pending(name) is not None
        control.abort(name, token, "phase=abort")
        return under_way and control.state(name) == control.ROLLED_BACK
    else:
        control.wait_until_over(name)
    return False


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Carry out the phase, and say where the change is then."""
    name = module.params["change"]
    control.check_name(name)
    changed = not module.check_mode and act(name, module.params["token"] or "", module.params["phase"])
    state = control.state(name) or "absent"
    return {"changed": changed, "state": state, "log": control.log(name), "missing": control.missing(name)}


def main() -> None:
    module = make_plain_module(
        {
            "change": {"type": "str", "required": True},
            "token": {"type": "str", "no_log": False},
            "phase": {"type": "str", "choices": ["wait", "confirm", "abort", "report"], "default": "report"},
        },
        required_if=[("phase", phase, ["token"]) for phase in ("wait", "confirm", "abort")],
    )
    finish(module, work)


if __name__ == "__main__":
    main()
