#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: an uplink goes into a bridge, and back unless confirmed."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_bridge_switch
short_description: Put a host's uplink into a bridge, with automatic rollback
version_added: "0.1.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - The part of the role P(brine.virt.virt_bridge#role) that runs on the host. Use the role, which calls this module in
    the right order.
  - Creates a bridge and moves everything that the uplink has to it (addresses, routes, DHCP and name servers), with
    systemd-networkd files next to the uplink's own, which are not touched.
  - The change is rolled back automatically unless the controller confirms it over a connection that was opened after
    the change.
  - A bridge that exists is left as it is.
extends_documentation_fragment:
  - brine.virt._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
  action_group:
    support: none
    membership: []
options:
  name:
    description: Name of the bridge.
    type: str
    required: true
  uplink:
    description:
      - Interface that becomes the bridge's port.
      - By default the one with the default route.
    type: str
  phase:
    description:
      - V(prepare) inspects the host and, if the bridge is missing, starts the switch, which applies the change three
        seconds later.
      - V(wait) waits until the change is applied.
      - V(confirm) makes the change permanent if the bridge has everything that the uplink had. It has to come after
        V(wait) and over a new connection, which proves that the host can be reached.
      - V(report) reports how the last switch ended.
    type: str
    choices: [prepare, wait, confirm, report]
    default: prepare
  confirm_seconds:
    description:
      - With O(phase=prepare), how many seconds the switch waits for the confirmation before it restores the old
        network.
    type: int
    default: 60
"""

EXAMPLES = r"""
---
- name: Start adding the uplink to br0
  brine.virt.virt_bridge_switch:
    name: br0
  register: switch

- name: Wait until it is done, and confirm over a new connection
  brine.virt.virt_bridge_switch:
    name: br0
    phase: "{{ item }}"
  loop: [wait, confirm]
  vars:
    ansible_ssh_extra_args: -o ControlPath=none
  when: switch.state == 'armed'
"""

RETURN = r"""
state:
  description:
    - V(present) if the bridge exists and no change is under way.
    - V(absent) with O(phase=prepare) in check mode if the bridge would be created, and with O(phase=report) if no
      switch was started.
    - V(armed), V(applied), V(confirmed), V(rolling_back) or V(rolled_back) if a switch is or was under way.
  returned: always
  type: str
  sample: armed
uplink:
  description: The interface that will be the bridge's port.
  returned: when a change is planned or under way
  type: str
  sample: eth0
ports:
  description: The bridge's ports.
  returned: when RV(state) is V(present)
  type: list
  elements: str
  sample: [eth0]
addresses:
  description: Global addresses that the bridge has, or will have.
  returned: with O(phase=prepare)
  type: list
  elements: str
  sample: ["192.0.2.10/24"]
log:
  description: The log of the switch.
  returned: with O(phase=report)
  type: list
  elements: str
  sample: ["10:15:02 adding eth0 to br0", "10:16:02 not confirmed within 60 s"]
"""

import re
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    InputError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._network import rollback
from ansible_collections.brine.virt.plugins.module_utils._network.change import Change, missing_on_bridge, plan_bridge
from ansible_collections.brine.virt.plugins.module_utils._network.observe import NETWORKD_FOLDERS, observe_network

# A DHCP client on the new bridge may take this long to have its lease again.
_COMPLETE_SECONDS = 20


def prepare(module: AnsibleModule, name: str, uplink: str | None) -> dict[str, t.Any]:
    """Look, plan, and start the switch when there is something to do."""
    change = rollback.pending(name)
    if change is not None:
        # The controller of an earlier run is gone; this one may confirm its change.
        if uplink not in (None, change.uplink):
            raise ConflictError(
                f"a change of {name} with the uplink {change.uplink} is under way", hint="Run again when it is over"
            )
        return _planned(change, rollback.ARMED)
    network = observe_network()
    change = plan_bridge(network, name, uplink)
    if change is None:
        ports = [link.name for link in network.links.values() if link.master == name]
        addresses = list(network.links[name].addresses)
        return {"changed": False, "state": "present", "ports": ports, "addresses": addresses}
    if module.check_mode:
        return _planned(change, "absent")
    rollback.arm(change, module.params["confirm_seconds"])
    return _planned(change, rollback.ARMED)


def _planned(change: Change, state: str) -> dict[str, t.Any]:
    paths = [(f"{NETWORKD_FOLDERS[0]}/{file.name}", file.text) for file in change.files]
    return {
        "changed": True,
        "state": state,
        "uplink": change.uplink,
        "addresses": list(change.addresses),
        "diff": [{"before_header": path, "after_header": path, "before": "", "after": text} for path, text in paths],
    }


def wait(name: str) -> dict[str, t.Any]:
    """Wait until a change is applied."""
    rollback.wait_until_applied(name)
    return {"changed": False, "state": _expect(name, rollback.APPLIED)}


def confirm(name: str) -> dict[str, t.Any]:
    """Make an applied change last, when the bridge has all that the uplink had."""
    change = rollback.pending(name)
    if change is None:
        return {"changed": False, "state": _expect(name, rollback.CONFIRMED)}
    deadline = time.monotonic() + _COMPLETE_SECONDS
    missing = missing_on_bridge(observe_network(), change)
    while missing and time.monotonic() < deadline:
        time.sleep(0.5)
        missing = missing_on_bridge(observe_network(), change)
    if missing:
        rollback.abort(name, f"{name} came up without {', '.join(missing)}")
        raise HostError(f"{name} came up without {', '.join(missing)}", hint="The old network is back")
    rollback.confirm(name)
    return {"changed": True, "state": _expect(name, rollback.CONFIRMED)}


def _expect(name: str, wanted: str) -> str:
    state = rollback.state(name)
    if state != wanted:
        raise HostError(f"the change of {name} is {state or 'absent'}, not {wanted}")
    return wanted


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "uplink": {"type": "str"},
            "phase": {"type": "str", "choices": ["prepare", "wait", "confirm", "report"], "default": "prepare"},
            "confirm_seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    name, phase = module.params["name"], module.params["phase"]
    try:
        # The kernel's limit is 15 characters; a name ends up in file names and in a unit's name.
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,14}", name):
            raise InputError(
                f"{name!r} is not a valid name for a bridge",
                where="name",
                hint="Use up to 15 letters, digits, _ and -, such as br0",
            )
        if phase == "prepare":
            result = prepare(module, name, module.params["uplink"])
        elif phase == "report":
            result = {"changed": False, "state": rollback.state(name) or "absent", "log": rollback.log(name)}
        elif module.check_mode:
            result = {"changed": False, "state": rollback.state(name) or "absent"}
        else:
            result = wait(name) if phase == "wait" else confirm(name)
    except VirtError as exc:
        module.fail_json(msg=str(exc), exception=exc)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
