#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: a firewall lets in the cloud's hosts, and is as before unless confirmed."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_firewall_switch
short_description: Let the cloud's hosts through a hypervisor's firewall, with automatic rollback
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - The part of the role P(brine.virt.virt_hypervisor#role) that opens the firewall of a host. Use the role, which calls
    this module in the right order.
  - Adds rules that accept TCP connections from the sources named to libvirt's port for TLS (16514) and to the
    migration ports of C(/etc/libvirt/qemu.conf), where the host's firewall does not accept them yet. It works with
    firewalld, ufw, the rules of C(nftables.service), and rules of iptables that netfilter-persistent or
    C(iptables.service) load.
  - Rules of others are not changed, and nothing is installed or started. On a host without a firewall nothing is done.
  - The change is rolled back automatically unless the controller confirms it over a connection that was opened after
    the change. Until then it would not survive a reboot either.
extends_documentation_fragment:
  - brine.virt._attributes.no_group
  - brine.virt._attributes.no_async
  - brine.virt._attributes
  - brine.virt._attributes.full
options:
  state:
    description:
      - With V(present) the firewall has the rules that are needed, and none of an earlier run that are not.
      - With V(absent) it has none of the module's rules.
    type: str
    choices: [present, absent]
    default: present
  hypervisors:
    description:
      - Who may connect to libvirt and send machines. Addresses, networks such as V(192.0.2.0/24), or names that the
        host can resolve. The host's own addresses are ignored, and so are link-local ones, such as
        V(169.254.3.4), with a warning.
    type: list
    elements: str
    default: []
  said:
    description:
      - The RV(addresses) that other hosts have said. They are let in like O(hypervisors), but only single addresses are
        considered. Anything else is ignored with a warning, so that no host opens the firewalls of others to a network.
    type: list
    elements: str
    default: []
  operators:
    description:
      - Who may connect to libvirt, but not send machines, in the format of O(hypervisors).
    type: list
    elements: str
    default: []
  unseen:
    description:
      - Names of hypervisors that have not said their addresses. They are named in a warning, and not let in.
      - If there are any, rules of an earlier run stay, whomever they are for.
    type: list
    elements: str
    default: []
  tls:
    description: Whether libvirt is served with TLS. If not, 16514 is not opened.
    type: bool
    default: true
  phase:
    description:
      - V(look) finds out which firewall the host has, by which addresses other hosts know it, and which of the
        addresses in O(said) the firewall keeps out now.
      - V(prepare) compares the rules and, if they differ, starts the switch, which applies the change three
        seconds later.
      - With O(confirm) the rest follows in the same task. Otherwise M(brine.virt.virt_switch) does it.
    type: str
    choices: [look, prepare]
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
      - With O(phase=prepare), how many seconds the switch waits for the confirmation before it rolls the change back,
        from 1 to 3600.
    type: int
    default: 60
notes:
  - Consoles are never opened. If the firewall lets everybody in at their first port (5900), at 16514 or at the
    migration ports, a warning says so.
  - Migrations, their disks included, take all their ports from one range, C(migration_port_min) to
    C(migration_port_max), by default 49152 to 49215.
seealso:
  - module: brine.virt.virt_switch
"""

EXAMPLES = r"""
---
- name: Show what a migration network would need
  brine.virt.virt_firewall_switch:
    hypervisors: [192.0.2.0/24]
    operators: [admin.example.org]
  check_mode: true
  diff: true

- name: Let in the migration network, and confirm that the host is still reached
  brine.virt.virt_firewall_switch:
    hypervisors: [192.0.2.0/24]
    confirm: true
"""

RETURN = r"""
state:
  description:
    - V(settled) if the firewall has the rules that are needed and no change is under way.
    - V(unsettled) with O(phase=prepare) in check mode if rules would be changed.
    - V(armed) if a change has begun, or one that a killed run has begun was taken over.
    - V(confirmed) with O(confirm), in place of V(armed), once the change is permanent.
  returned: unless O(phase=look)
  type: str
  sample: armed
firewalls:
  description:
    - What filters the host's incoming packets, of C(firewalld), C(ufw), C(nftables) and C(iptables). The list is empty
      if nothing keeps anybody from the ports in question.
  returned: with O(phase=look) or O(phase=prepare)
  type: list
  elements: str
  sample: [firewalld]
addresses:
  description: The host's addresses from which its connections to other hosts come.
  returned: with O(phase=look)
  type: list
  elements: str
  sample: [192.0.2.11, "2001:db8::11"]
kept_out:
  description:
    - The addresses in O(said) that do not certainly reach libvirt and all migration ports now. What the firewall
      accepts only under other conditions, such as from an interface, does not count.
  returned: with O(phase=look)
  type: list
  elements: str
  sample: [192.0.2.12]
change:
  description: The name of the change, for M(brine.virt.virt_switch).
  returned: when RV(state) is V(armed) or V(confirmed)
  type: str
  sample: firewall
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

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.qemu_conf import migration_ports
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_plain_module
from ansible_collections.brine.virt.plugins.module_utils._network.confirmation import begun, refuse_other
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.firewalls import Firewalls
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.observe import (
    observe_firewalls,
    observe_outside,
)
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.openings import (
    CONSOLE_PORT,
    TLS_PORT,
    Ports,
    needed_openings,
)
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.plan import (
    CHANGE_NAME,
    FirewallPlan,
    FirewallSpec,
)
from ansible_collections.brine.virt.plugins.module_utils._network.firewall.sources import (
    link_local,
    read_sources,
    said_addresses,
)
from ansible_collections.brine.virt.plugins.module_utils._network.switch import control
from ansible_collections.brine.virt.plugins.module_utils._network.switch.connection import check_proves


def look(module: AnsibleModule) -> dict[str, t.Any]:
    """Which firewall the host has, its addresses, and who is kept out."""
    outside = observe_outside()
    firewalls = observe_firewalls(outside)
    return {
        "changed": False,
        "firewalls": firewalls.names(_ports()),
        "addresses": list(outside.addresses),
        "kept_out": _kept_out(module, firewalls, outside.addresses),
    }


def _kept_out(module: AnsibleModule, firewalls: Firewalls, own: tuple[str, ...]) -> list[str]:
    """Of the addresses that other hosts have said, those that do not certainly get in now."""
    found: list[str] = []
    if not firewalls.names(_ports()):
        return found
    for word in said_addresses(module.params["said"])[0]:
        sources = read_sources([word], "said", own)
        openings = needed_openings(sources, (), _migration(), tls=module.params["tls"])
        # One that this host has as well, as on a bridge inside of each, says nothing of the other host.
        if not openings or not all(map(firewalls.lets_in, openings)):
            found.append(word)
    return found


def prepare(module: AnsibleModule) -> dict[str, t.Any]:
    """Look, plan, and start the switch when there is something to do."""
    outside = observe_outside()
    spec = _spec(module, outside.addresses)
    under_way = None if module.check_mode else control.pending(CHANGE_NAME)
    if under_way is not None:
        if under_way.subject.get("spec") != spec.as_json():
            raise refuse_other(CHANGE_NAME, under_way)
        check_proves(module.params["connection"])
        # The controller of an earlier run is gone; this one may confirm its change, and that one no longer.
        taken = begun(CHANGE_NAME, control.take_over(CHANGE_NAME))
        return {"changed": True, **under_way.subject.get("shown", {}), **taken}
    firewalls = observe_firewalls(outside)
    names = firewalls.names(_ports())
    for port in (Ports(CONSOLE_PORT, CONSOLE_PORT), *_ports()):
        if names and firewalls.open_to_everybody(port, outside.versions):
            what = "consoles of machines" if port.first == CONSOLE_PORT else "libvirt and migrations"
            module.warn(
                f"The firewall of this host ({', '.join(names)}) lets everybody in at port {port.text('-')}: {what}"
            )
    plan = firewalls.plan(spec)
    if not plan.differences:
        return {"changed": False, "state": "settled", "firewalls": names}
    check_proves(module.params["connection"])
    shown = {"firewalls": names, "diff": _diff(plan)}
    if module.check_mode:
        return {"changed": True, "state": "unsettled", **shown}
    change = plan.guarded({"spec": spec.as_json(), "shown": shown})
    return {"changed": True, **shown, **begun(change.name, control.arm(change, module.params["confirm_seconds"]))}


def _ports() -> tuple[Ports, ...]:
    """The ports in question."""
    return (Ports(TLS_PORT, TLS_PORT), _migration())


def _migration() -> Ports:
    try:
        found = migration_ports()
    except ValueError as exc:
        raise HostError(
            f"/etc/libvirt/qemu.conf has migration_port_min or migration_port_max that is not a number: {exc}"
        ) from exc
    if not found or found[-1] > 65535 or found[0] < 1:
        raise HostError(
            f"/etc/libvirt/qemu.conf has no migration ports: {found.start} to {found.stop - 1}",
            hint="migration_port_min has to be at most migration_port_max, which is at most 65535",
        )
    return Ports(found[0], found[-1])


def _spec(module: AnsibleModule, own: tuple[str, ...]) -> FirewallSpec:
    if module.params["state"] == "absent":
        return FirewallSpec(())
    passed_over = link_local(module.params["hypervisors"])
    if passed_over:
        module.warn(f"The firewall is not opened to {', '.join(passed_over)}: nobody comes from there to another host")
    said, others = said_addresses(module.params["said"])
    if others:
        module.warn(
            f"The firewall is not opened to {', '.join(map(repr, others))}, which another host has said: it is no"
            " address that a host can have in a network. Look at that host"
        )
    hypervisors = read_sources(module.params["hypervisors"], "hypervisors", own, without=passed_over)
    hypervisors = list(dict.fromkeys((*hypervisors, *read_sources(said, "said", own))))
    operators = read_sources(module.params["operators"], "operators", own)
    unseen = module.params["unseen"]
    if unseen:
        module.warn(
            f"The firewall is not opened to {', '.join(unseen)}: this run has not asked for the addresses. Run again"
            " with all hypervisors"
        )
    openings = needed_openings(hypervisors, operators, _migration(), tls=module.params["tls"])
    return FirewallSpec(openings, keep_others=bool(unseen))


def _diff(plan: FirewallPlan) -> list[dict[str, str]]:
    return [
        {
            "before_header": difference.place,
            "after_header": difference.place,
            "before": "".join(f"{line}\n" for line in difference.before),
            "after": "".join(f"{line}\n" for line in difference.after),
        }
        for difference in plan.differences
    ]


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The phase that is asked for."""
    control.check_seconds(module.params["confirm_seconds"])
    return look(module) if module.params["phase"] == "look" else prepare(module)


def main() -> None:
    module = make_plain_module(
        {
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "hypervisors": {"type": "list", "elements": "str", "default": []},
            "said": {"type": "list", "elements": "str", "default": []},
            "operators": {"type": "list", "elements": "str", "default": []},
            "unseen": {"type": "list", "elements": "str", "default": []},
            "tls": {"type": "bool", "default": True},
            "phase": {"type": "str", "choices": ["look", "prepare"], "default": "prepare"},
            "connection": {"type": "str"},
            # What the controller's half reads.
            "confirm": {"type": "bool", "default": False},
            "confirm_seconds": {"type": "int", "default": 60},
        }
    )
    finish(module, work)


if __name__ == "__main__":
    main()
