#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: libvirt's networks."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_network
short_description: Create, change and remove libvirt networks
version_added: "1.0.0"
description:
  - Defines networks, starts them, and has them start with the host. Machines use them by C(network) of a nic
    (M(brine.virt.virt_init)).
  - A task describes one network by the options of the module, or several in O(networks). The role
    P(brine.virt.virt_hypervisor#role) takes the same list as C(virt_hypervisor_networks).
  - What an existing network has and the task does not name stays as it is, except O(state) and O(autostart), whose
    defaults count for it too. A list that is given replaces the one that is there; an empty list removes all of it.
  - In a network that runs, DHCP ranges and leases, DNS records, port groups and uplinks change at once, where libvirt
    can do that. Everything else is changed in its definition. Then the network is started again, if no machine that
    runs has a nic on it (O(restart)). Otherwise RV(networks[].pending) says what is not in effect yet.
  - A network is never stopped while a machine that runs has a nic on it, and not removed while any machine has one. If
    O(uri) is that of the host itself, the interfaces on the network's bridge count as well, such as those of containers
    and of machines of a user's own session.
  - An address range that another libvirt network has, or that the host has on one of its interfaces, is refused before
    anything is changed, and so is the name of a bridge that exists already. So is a range, or the destination of a
    route, in which the other end of one of the host's TCP connections is that it reaches over a gateway, such as the
    controller. The host's own routes, interfaces and connections are checked only if O(uri) is that of the host itself.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._attributes.full
  - brine.virt._lock
  - brine.virt._resources
  - brine.virt._uri
requirements:
  - dnsmasq on the hypervisor (package C(dnsmasq-base) on Debian and Ubuntu, C(dnsmasq) elsewhere), which the role
    P(brine.virt.virt_hypervisor#role) installs
notes:
  - With the default O(uri) the task has to run as root on the hypervisor, so with C(become=true) unless Ansible logs in
    as root; not in check mode.
  - The options are those of U(https://libvirt.org/formatnetwork.html). What has no option here and stands in a
    network's XML stays there.
options:
  networks:
    description:
      - Several networks. Each is a mapping of the options of this module, except O(networks), O(uri) and
        O(lock_timeout).
      - Those with C(state=absent) are removed first.
    type: list
    elements: dict
  name:
    description: Name of the network. A task needs either this option or O(networks).
    type: str
  state:
    description:
      - V(active) defines the network and starts it. This is the default.
      - V(inactive) defines it and stops it, unless a machine that runs has a nic on it, which is an error.
      - V(absent) stops it and removes its definition, unless a machine has a nic on it, whether it runs or not, or has
        one in a snapshot or a saved state, which is an error that names the machines.
    type: str
    choices: [active, inactive, absent]
  autostart:
    description: Whether the network starts with the host. The default is V(true).
    type: bool
  restart:
    description:
      - Whether a network that runs is started again for a change that needs it. V(if_unused), the default, does so if
        no machine that runs has a nic on it. V(never) does not.
      - What is not in effect yet is in RV(networks[].pending).
    type: str
    choices: [if_unused, never]
  mode:
    description:
      - How the network is connected. A new network needs it.
      - V(nat) hides the machines behind the host's address. V(route) has them reached by their own addresses, if the
        routers around know the way. V(open) is V(route) without any firewall rules of libvirt. V(isolated) leads
        nowhere but to the host and the other machines on it. With these, libvirt makes the bridge.
      - V(bridge) plugs machines into a bridge that the host has already, or with O(device) into interfaces by macvtap.
      - V(routed) and V(bridged) are accepted for V(route) and V(bridge).
      - A network is not changed from or to V(bridge); that is an error. A network of another mode (C(hostdev) or the
        like), which somebody else has defined, keeps it.
    type: str
  bridge:
    description:
      - Name of the bridge, up to 15 characters. With O(mode=bridge) it is one that the host has; otherwise libvirt
        makes it, and chooses a name if none is given.
    type: str
  device:
    description:
      - With O(mode=nat) and O(mode=route), the only interface of the host that packets may leave by. Without it, any
        may be used.
      - With O(mode=bridge), the interfaces for macvtap, instead of O(bridge).
    type: list
    elements: str
  domain:
    description:
      - The DNS domain of the network, as text or as a mapping of C(name) and C(local_only). With C(local_only), queries
        for names in it that are not known here are not passed on.
      - V(false) removes it.
    type: raw
  mac:
    description: MAC address of the bridge. libvirt chooses one if none is given.
    type: str
  mtu:
    description:
      - Largest packet in bytes, of the bridge and of the machines on it. IPv6 needs at least 1280. Not with
        O(mode=bridge).
    type: int
  stp:
    description: Whether the bridge takes part in the spanning tree protocol. libvirt's default is V(true).
    type: bool
  zone:
    description: The zone of firewalld that the bridge is put into. libvirt chooses one if none is given.
    type: str
  addresses:
    description:
      - The host's own addresses on the network, each with its prefix, such as V(192.0.2.1/24) and V(2001:db8::1/64).
        They are the machines' gateways, and say what the network's prefixes are.
      - O(mode=nat), O(mode=route) and O(mode=open) need at least one.
    type: list
    elements: str
  dhcp:
    description:
      - What DHCP hands out, a mapping. libvirt has DHCP for one IPv4 and one IPv6 address of a network. Each range and
        lease has to be in the prefix of one of O(addresses); of IPv6, dnsmasq takes a C(/64) or a smaller one.
      - C(ranges) is a list of C(start) and C(end), the first and the last address of each. Ranges must not overlap.
      - C(leases) is a list of fixed addresses. Each has C(address), and C(mac) or C(name) for IPv4, C(duid) or C(name)
        for IPv6; C(name) is also the name that the address gets in DNS. No address, C(mac), C(duid) or C(name) may
        be there twice (a name has at most one address of each family).
      - C(lease_seconds) is for how long an address is handed out, V(0) for ever, else at least 120. It is for all
        ranges and leases, and needs one of them. Without it, dnsmasq's default counts, an hour.
      - C(boot_file), C(boot_server) and C(tftp_root) are for machines that boot over the network, by IPv4 alone. A
        C(boot_file) needs a range or a lease of IPv4, C(boot_server) a C(boot_file); C(tftp_root) is a directory of the
        host that is served by TFTP.
    type: dict
  dns:
    description:
      - What the network's DNS server does, a mapping.
      - C(enabled) is V(true) by default. With V(false) there is no DNS server.
      - C(forwarders) are the servers that are asked for what is not known here, in order, instead of those of the host.
        Each is an address, or a mapping of C(address) and C(domain); with C(domain) it is asked for that domain alone,
        and without C(address) the host's own servers are.
      - C(forward_plain_names) says whether names without a dot are passed on.
      - C(hosts) is a list of C(address) and C(names).
      - C(txt) is a list of C(name) and C(value). dnsmasq reads a value as part of its configuration file, where a comma
        begins the next string of the record; in double quotes it does not.
      - C(srv) is a list of C(service), C(protocol) (V(tcp) or V(udp)), C(domain), C(target), C(port), C(priority) and
        C(weight). The first two are needed, and C(target) with any of the last three.
    type: dict
  routes:
    description:
      - Networks behind machines on this one, which the host reaches by them. Each has C(to), a network with its prefix,
        C(via), an address in one of the network's prefixes, and optionally C(metric).
    type: list
    elements: dict
  nat_ports:
    description: The first and the last port (C(start), C(end)) that O(mode=nat) uses. libvirt's are 1024 to 65535.
    type: dict
  nat_addresses:
    description:
      - The first and the last IPv4 address (C(start), C(end)) that O(mode=nat) hides the machines behind, instead of
        the one of the interface.
    type: dict
  nat_ipv6:
    description: Whether O(mode=nat) is for IPv6 too, which is routed otherwise. Needs libvirt 6.5.
    type: bool
  portgroups:
    description:
      - Settings that a nic takes by the name of their group (C(portgroup) of a nic). Each has C(name), and may have
        C(default) (for nics that name no group), C(vlan), C(virtualport), C(bandwidth) and C(trust_guest_rx_filters).
      - A change is for nics that are plugged in afterwards. A group in which a machine has a nic is not removed.
      - A C(vlan) is possible on Open vSwitch alone, with O(mode=bridge) and V(openvswitch) as C(virtualport) of the
        group or of the network.
    type: list
    elements: dict
  virtualport:
    description: The kind of port that nics are plugged into, as at a nic; V(openvswitch) for a bridge of Open vSwitch.
    type: raw
  vlan:
    description:
      - VLAN tags of all nics on the network, as at a nic, such as V([42]). On Open vSwitch alone (see O(portgroups)).
    type: list
    elements: raw
  isolated_ports:
    description:
      - Whether machines on the network reach each other. With V(true) they reach the host, and what it passes on, but
        no other machine. Needs libvirt 6.1.
    type: bool
  bandwidth:
    description:
      - Limits for the network as a whole, C(inbound) and C(outbound) of the host's bridge, each with C(average) and
        C(peak) (kB, 1000 bytes, per second) and C(burst) (KiB). The last two need the first.
      - V(false) removes them.
    type: raw
  dnsmasq_options:
    description:
      - Lines for dnsmasq's own configuration, such as V(dhcp-option=option:ntp-server,192.0.2.1). libvirt does not
        check them, and a wrong one keeps the network from starting.
    type: list
    elements: str
seealso:
  - module: brine.virt.virt_init
    description: Has machines with nics on networks.
  - module: brine.virt.virt_host_info
    description: Lists the networks and bridges of a hypervisor.
  - name: Network XML format
    description: What libvirt says of each of them.
    link: https://libvirt.org/formatnetwork.html
"""

EXAMPLES = r"""
---
- name: Create a network with NAT, DHCP and names
  brine.virt.virt_network:
    name: lab
    mode: nat
    bridge: virbr-lab
    domain: lab.example.org
    addresses: [192.0.2.1/24, 2001:db8:0:1::1/64]
    dhcp:
      ranges:
        - {start: 192.0.2.100, end: 192.0.2.199}
      leases:
        - {mac: "52:54:00:12:34:56", name: db1, address: 192.0.2.10}
    dns:
      hosts:
        - {address: 192.0.2.1, names: [gateway.lab.example.org]}

- name: Create two networks, and remove a third one
  brine.virt.virt_network:
    networks:
      - {name: storage, mode: isolated, addresses: [198.51.100.1/24], mtu: 9000}
      - {name: lan, mode: bridge, bridge: br0}
      - {name: old, state: absent}

- name: Create a network of Open vSwitch with a port group for each VLAN
  brine.virt.virt_network:
    name: switch
    mode: bridge
    bridge: ovsbr0
    virtualport: openvswitch
    portgroups:
      - {name: office, default: true, vlan: [10]}
      - {name: servers, vlan: [20]}

- name: Say what would change, and what would have to wait
  brine.virt.virt_network:
    name: lab
    mtu: 1400
    restart: never
  check_mode: true
  register: lab_network
"""

RETURN = r"""
networks:
  description: Result for each network, in the order of the task; in check mode, what it would be.
  returned: always, unless the options are wrong or something stands in the way
  type: list
  elements: dict
  contains:
    name:
      description: Name of the network.
      type: str
      returned: always
      sample: lab
    present:
      description: Whether it is there now, also after something has failed.
      type: bool
      returned: always
      sample: true
    changed:
      description: Whether anything of it was changed and not rolled back.
      type: bool
      returned: always
      sample: true
    failed:
      description: Whether something has failed. What could be rolled back was.
      type: bool
      returned: always
      sample: false
    msg:
      description: What has failed, and what to do.
      type: str
      returned: when it failed
      sample: "cannot start network lab: internal error: Network is already in use by interface eth1"
    actions:
      description: What was done, in order; for one that failed, what could not be rolled back.
      type: list
      elements: str
      returned: always
      sample: [add the DHCP lease 192.0.2.10 52:54:00:12:34:56 db1 in network lab]
    pending:
      description: What takes effect only later, and when, and which machines are concerned.
      type: list
      elements: str
      returned: always
      sample:
        - mtu is in effect when the network is started again (virsh net-destroy lab, then virsh net-start lab); machine
          web1 loses its connection until it is shut down and started again
    state:
      description: V(active) or V(inactive).
      type: str
      returned: when it is there
      sample: active
    autostart:
      description: Whether it starts with the host.
      type: bool
      returned: when it is there
      sample: true
    mode:
      description:
        - Its mode. All other options that its definition has are there as well, in the form of the options of this
          module.
      type: str
      returned: when it is there
      sample: nat
    bridge:
      description: Its bridge.
      type: str
      returned: when it has one; not for a new one in check mode for which libvirt will choose it
      sample: virbr-lab
"""

import contextlib
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._module import (
    answer_of_each,
    finish,
    make_module,
    require_root,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.networks.plan import (
    current,
    look,
    plan_network,
    read_spec,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.networks.view import NetworkView
from ansible_collections.brine.virt.plugins.module_utils._operations.resources import (
    GivenResources,
    carry_out,
    diff_of,
    plan_all,
)

# Of one network. No defaults: those would count as given beside a list.
OWN: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str"},
    "state": {"type": "str", "choices": ["active", "inactive", "absent"]},
    "autostart": {"type": "bool"},
    "restart": {"type": "str", "choices": ["if_unused", "never"]},
    "mode": {"type": "str"},
    "bridge": {"type": "str"},
    "device": {"type": "list", "elements": "str"},
    "domain": {"type": "raw"},
    "mac": {"type": "str"},
    "mtu": {"type": "int"},
    "stp": {"type": "bool"},
    "zone": {"type": "str"},
    "addresses": {"type": "list", "elements": "str"},
    "dhcp": {"type": "dict"},
    "dns": {"type": "dict"},
    "routes": {"type": "list", "elements": "dict"},
    "nat_ports": {"type": "dict"},
    "nat_addresses": {"type": "dict"},
    "nat_ipv6": {"type": "bool"},
    "portgroups": {"type": "list", "elements": "dict"},
    "virtualport": {"type": "raw"},
    "vlan": {"type": "list", "elements": "raw"},
    "isolated_ports": {"type": "bool"},
    "bandwidth": {"type": "raw"},
    "dnsmasq_options": {"type": "list", "elements": "str"},
}
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "networks": {"type": "list", "elements": "dict"},
    **OWN,
    "lock_timeout": {"type": "int", "default": 300},
}


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Plan all of them, act unless in check mode, and return the result for each."""
    params, check_mode = module.params, module.check_mode
    given = GivenResources.of(params, "networks", list(OWN))
    if not check_mode:
        require_root("virt_network", params["uri"], "networks")
    with open_connection(params["uri"], read_only=check_mode) as conn:
        view = NetworkView.of(conn, params["uri"])
        specs = given.read(lambda options: read_spec(view, options))
        results = plan_all(specs, lambda spec: plan_network(view, spec), lambda spec: look(view, spec.name))
        changes = not check_mode and any(result.plan.steps for result in results)
        lock = hypervisor_lock("init", wait_seconds=params["lock_timeout"]) if changes else contextlib.nullcontext()
        with lock:
            # What goes may have what another one gets.
            carry_out(sorted(results, key=lambda result: result.plan.after is not None), check_mode=check_mode)
        answers = [result.as_result() for result in results]
        if not check_mode:
            answers = [
                {**current(view, answer["name"]), **answer} if answer["present"] else answer for answer in answers
            ]
    return answer_of_each(module, answers, diff_of(results), key="networks")


def main() -> None:
    finish(make_module(ARGUMENTS), work)


if __name__ == "__main__":
    main()
