#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: an uplink goes into a bridge, and back unless confirmed."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_bridge_switch
short_description: Create or change a host's bridge, with automatic rollback
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - The part of the role P(brine.virt.virt_bridge#role) that runs on the host. Use the role, which calls this module in
    the right order.
  - Creates a bridge, with what the task names or else with everything that the uplink has (addresses, routes, DHCP and
    name servers), by the network manager that manages the uplink.
  - The change is rolled back automatically unless the controller confirms it over a connection that was opened after
    the change.
  - A bridge that this module has made becomes what the task names. Any other one is left as it is, and it is an error
    if the task names something that it does not have.
extends_documentation_fragment:
  - brine.virt._attributes.no_group
  - brine.virt._attributes.no_async
  - brine.virt._attributes
  - brine.virt._attributes.full
options:
  name:
    description: Name of the bridge. Required with O(phase=prepare), and of no effect with O(phase=check).
    type: str
  bridges:
    description:
      - The bridges that the host should have, in the format of C(virt_bridge_bridges) of the role
        P(brine.virt.virt_bridge#role), which describes it.
      - A bridge O(name) that is not among them has the interface with the default route as its uplink, and everything
        that this has.
    type: list
    elements: raw
    default: []
  place:
    description: What the list of bridges is called in messages.
    type: str
    default: bridges
  phase:
    description:
      - V(check) reads all O(bridges) and reports every mistake in them.
      - V(prepare) inspects the host and, if the bridge is missing or differs, starts the switch, which applies the
        change three seconds later.
      - With O(confirm) the rest follows in the same task. Otherwise M(brine.virt.virt_switch) does it.
    type: str
    choices: [check, prepare]
    default: prepare
  connection:
    description:
      - What Ansible calls the connection to the host. With one that works without the network, such as V(local),
        nothing would prove that the host can be reached, and a change is refused.
      - Where this is not named, only calls over SSH that come from the host itself are refused.
    type: str
  confirm:
    description:
      - With O(phase=prepare), whether the controller confirms the change in the same task, over new connections. If it
        cannot, the task fails once the change has been rolled back, and says what is known on both sides.
      - No host waits for another in between, so that one whose change goes wrong takes no other back with it.
    type: bool
    default: false
  confirm_seconds:
    description:
      - With O(phase=prepare), how many seconds the switch waits for the confirmation before it restores the old
        network, from 1 to 3600.
    type: int
    default: 60
seealso:
  - module: brine.virt.virt_switch
"""

EXAMPLES = r"""
---
- name: Add the uplink to br0, and confirm that the host is still reached
  brine.virt.virt_bridge_switch:
    name: br0
    confirm: true
"""

RETURN = r"""
state:
  description:
    - V(present) if the bridge exists as it should be and no change is under way.
    - V(absent) with O(phase=prepare) in check mode if the bridge would be created or changed.
    - V(checked) with O(phase=check).
    - V(armed) if a change has begun, or one that a killed run has begun was taken over.
    - V(confirmed) with O(confirm), in place of V(armed), once the change is permanent.
  returned: always
  type: str
  sample: armed
uplink:
  description: The interface that will be the bridge's port; empty if it has none.
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
change:
  description: The name of the change, for M(brine.virt.virt_switch).
  returned: when RV(state) is V(armed) or V(confirmed)
  type: str
  sample: bridge-br0
token:
  description: What M(brine.virt.virt_switch) confirms or undoes the change with. It is not a secret.
  returned: when RV(state) is V(armed) or V(confirmed)
  type: str
  sample: 5d41402abc4b2a76
apply_seconds:
  description: After how many seconds at most the change is applied, or is going back.
  returned: when RV(state) is V(armed) or V(confirmed)
  type: int
  sample: 160
settle_seconds:
  description: How many seconds it takes at most to make the change permanent, or to go back, where commands hang.
  returned: when RV(state) is V(armed) or V(confirmed)
  type: int
  sample: 385
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.files import read_text
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_plain_module
from ansible_collections.brine.virt.plugins.module_utils._network.change import (
    Expected,
    asks_for,
    expected_from,
    plan_bridge,
    remembered,
    switch_name,
)
from ansible_collections.brine.virt.plugins.module_utils._network.confirmation import begun, refuse_other
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.naming import names_uplink
from ansible_collections.brine.virt.plugins.module_utils._network.neighbours import check_free
from ansible_collections.brine.virt.plugins.module_utils._network.observe import Network, observe_network
from ansible_collections.brine.virt.plugins.module_utils._network.spec import BridgeSpec, read_bridge, read_bridges
from ansible_collections.brine.virt.plugins.module_utils._network.switch import control
from ansible_collections.brine.virt.plugins.module_utils._network.switch.connection import check_proves


def prepare(module: AnsibleModule, spec: BridgeSpec) -> dict[str, t.Any]:
    """Look, plan, and start the switch when there is something to do."""
    name = spec.name
    under_way = control.pending(switch_name(name))
    if under_way is not None:
        if not asks_for(spec, under_way):
            raise refuse_other(switch_name(name), under_way)
        check_proves(module.params["connection"])
        shown = _planned(remembered(under_way), [(path, None, text) for path, text in under_way.files])
        if module.check_mode:
            return {**shown, "state": "absent"}
        # The controller of an earlier run is gone; this one may confirm its change, and that one no longer.
        return {**shown, **begun(switch_name(name), control.take_over(switch_name(name)))}
    network = observe_network()
    if module.check_mode and _comes_first(module, network, spec):
        check_proves(module.params["connection"])
        coming = Expected(name, spec.uplink.port if spec.uplink else "", spec.addresses or (), ())
        return {**_planned(coming, ()), "state": "absent"}
    planned = plan_bridge(network, spec)
    if planned is None:
        addresses = list(network.links[name].addresses)
        return {"changed": False, "state": "present", "ports": network.ports(name), "addresses": addresses}
    check_proves(module.params["connection"])
    check_free(network, spec)
    expected = expected_from(planned.subject)
    shown = _planned(expected, [(file.lasting, read_text(file.lasting), file.text) for file in planned.files])
    if name not in network.links and expected.uplink in network.links:
        _warn_of_rules(module, name, expected.uplink)
    if module.check_mode:
        return {**shown, "state": "absent"}
    return {**shown, **begun(planned.name, control.arm(planned, module.params["confirm_seconds"]))}


def _comes_first(module: AnsibleModule, network: Network, spec: BridgeSpec) -> bool:
    """Whether the bridge has a VLAN on what only an earlier one of the list makes, which check mode cannot look at."""
    link = spec.uplink.link if spec.uplink else ""
    if not link or link in network.links:
        return False
    specs = read_bridges(module.params["bridges"], module.params["place"])
    before = specs[: next((number for number, one in enumerate(specs) if one.name == spec.name), 0)]
    return any(link in (one.name, one.uplink.made if one.uplink else "") for one in before)


def _warn_of_rules(module: AnsibleModule, name: str, uplink: str) -> None:
    rules = names_uplink(uplink)
    if rules:
        module.warn(
            f"The firewall names {uplink}, and what arrives over it will come from {name}: {', '.join(rules)}. Name "
            f"{name} there too, or such a rule no longer applies."
        )


def _planned(expected: Expected, files: t.Iterable[tuple[str, str | None, str | None]]) -> dict[str, t.Any]:
    return {
        "changed": True,
        "uplink": expected.uplink,
        "addresses": list(expected.addresses),
        "diff": [
            {"before_header": path, "after_header": path, "before": before or "", "after": after or ""}
            for path, before, after in files
        ],
    }


def read_specs(module: AnsibleModule) -> BridgeSpec | None:
    """The spec of the bridge that this call is about, None for all of them. Raises InputError for any of them."""
    name, place = module.params["name"], module.params["place"]
    specs = read_bridges(module.params["bridges"], place)
    if name is None:
        return None
    return next((spec for spec in specs if spec.name == name), None) or read_bridge({"name": name}, "")


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The phase that is asked for."""
    control.check_seconds(module.params["confirm_seconds"])
    spec = read_specs(module)
    if spec is None or module.params["phase"] == "check":
        return {"changed": False, "state": "checked"}
    return prepare(module, spec)


def main() -> None:
    module = make_plain_module(
        {
            "name": {"type": "str"},
            "bridges": {"type": "list", "elements": "raw", "default": []},
            "place": {"type": "str", "default": "bridges"},
            "phase": {"type": "str", "choices": ["check", "prepare"], "default": "prepare"},
            "connection": {"type": "str"},
            # What the controller's half reads.
            "confirm": {"type": "bool", "default": False},
            "confirm_seconds": {"type": "int", "default": 60},
        },
        required_if=[("phase", "prepare", ["name"])],
    )
    finish(module, work)


if __name__ == "__main__":
    main()
