# SPDX-License-Identifier: GPL-3.0-or-later
"""Bridges on a bond and on a VLAN, one that filters VLANs, and MTUs: from bare cards to machines, and after a boot.

All on one host. The bond and the card with the VLAN are in the lab's network, so what passes between the two bridges is
on a cable, with its tag.
"""

from __future__ import annotations

import json
import typing as t

from ...cloud import Cloud, must
from ...driving.consoles import clear, tell, wait_until_up
from ...driving.tasks import role_well
from ...needs import TINY, store_tiny
from ...own_kernel import CARDS, reboot
from ...own_kernel import NEWER_HOST as HOST
from ...runner import ScenarioRun

NEEDS = ("newer_own_kernel",)
BOND, TRUNK, ACCESS = "bond0", "trunk_br", "service_br"
VLAN, OTHER_VLAN = 20, 30
# Below the lab's own, and with a tag less than that too.
MTU = 1300
OUTSIDE = "198.51.100.4"
# A route over the bridge on the VLAN, which nothing else needs.
ROUTE = {"to": "203.0.113.0/24", "via": "198.51.100.1", "metric": 200}
BRIDGES: list[dict[str, t.Any]] = [
    {"name": "br0"},
    {
        **{"name": TRUNK, "uplink": {"bond": list(CARDS[:2]), "mode": "active-backup", "name": BOND}},
        **{"vlan_filtering": True, "vlans": [VLAN, "30-32"], "dhcp4": False, "mtu": MTU},
    },
    {
        **{"name": ACCESS, "uplink": {"vlan": VLAN, "link": CARDS[2]}},
        **{"addresses": [f"{OUTSIDE}/24"], "routes": [ROUTE], "mtu": MTU},
    },
]
# name: its VLAN and its address. All in one network, so that only VLANs keep them apart.
MACHINES = {
    "vlan1": (VLAN, "198.51.100.11"),
    "vlan2": (OTHER_VLAN, "198.51.100.12"),
}
FIRST, SECOND = MACHINES


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("the role makes them, on cards without a configuration", lambda: _make(cloud), vital=True)
        scenario.step("the role again: nothing to change", lambda: _again(cloud))
        scenario.step("a bond with a bridge that carries its VLANs, and a bridge on a VLAN", lambda: _links(cloud))
        scenario.step("machines in VLANs of their own", lambda: _machines(cloud), vital=True)
        scenario.step("another VLAN leads to none of this one", lambda: _apart(cloud))
        scenario.step(
            "the VLAN leads out by the bond and in at the other card, as far as the MTU goes", lambda: _outside(cloud)
        )
        scenario.step("the bond goes on without one of its cards", lambda: _fail_over(cloud))
        scenario.step(
            "a running machine gets the other's VLAN and reaches it, both tagged, one again", lambda: _change(cloud)
        )
        scenario.step("the host boots, and all is there", lambda: _reboot(cloud))
        scenario.step("the role again: nothing to change", lambda: _again(cloud))
    finally:
        _clear(cloud)


def _role(cloud: Cloud, *, changes: bool) -> None:
    options = {"virt_bridge_bridges": BRIDGES, "virt_bridge_confirm_seconds": 180}
    role_well(cloud, "virt_bridge", HOST, changes=changes, **options)


def _make(cloud: Cloud) -> None:
    _role(cloud, changes=True)


def _again(cloud: Cloud) -> None:
    _role(cloud, changes=False)


def _link(cloud: Cloud, name: str) -> dict[str, t.Any]:
    (link,) = json.loads(cloud.on(HOST, f"ip -json -details link show dev {name}"))
    return dict(link)


def _tags(cloud: Cloud, port: str) -> dict[int, list[str]]:
    """The VLANs of a port of the trunk, with their flags."""
    (found,) = json.loads(cloud.on(HOST, f"bridge -json vlan show dev {port}"))
    return {
        number: sorted(vlan.get("flags", []))
        for vlan in found["vlans"]
        for number in range(vlan["vlan"], vlan.get("vlanEnd", vlan["vlan"]) + 1)
    }


def _links(cloud: Cloud) -> None:
    vlan_link = f"{CARDS[2]}.{VLAN}"
    for name in (ACCESS, vlan_link, TRUNK, BOND):
        link = _link(cloud, name)
        must(link["mtu"] == MTU and "UP" in link["flags"], str(link))
    vlan = _link(cloud, vlan_link)
    must((vlan["master"], vlan["link"], vlan["linkinfo"]["info_data"]["id"]) == (ACCESS, CARDS[2], VLAN), str(vlan))
    must(OUTSIDE in cloud.on(HOST, f"ip -4 -brief address show dev {ACCESS}"), "it has no address")
    route = cloud.on(HOST, f"ip route show {ROUTE['to']}").split()
    must(["via", ROUTE["via"], "dev", ACCESS] == route[1:5] and str(ROUTE["metric"]) in route, f"its route: {route}")
    bond = _link(cloud, BOND)
    must((bond["master"], bond["linkinfo"]["info_data"]["mode"]) == (TRUNK, "active-backup"), str(bond))
    for card in CARDS[:2]:
        link = _link(cloud, card)
        must((link["master"], link["mtu"]) == (BOND, MTU), str(link))
    must(_link(cloud, TRUNK)["linkinfo"]["info_data"]["vlan_filtering"] == 1, "it looks at no VLANs")
    carried = _tags(cloud, BOND)
    must(carried == {1: ["Egress Untagged", "PVID"], 20: [], 30: [], 31: [], 32: []}, str(carried))


def _init(cloud: Cloud, name: str, vlan: t.Any) -> None:
    nic = {"name": "eth0", "bridge": TRUNK, "vlan": vlan}
    for changes in (True, False):
        # With the host one alone starts: it has a single processor for all.
        answer, result = cloud.init(HOST, **TINY, name=name, autostart=name == FIRST, nics=[nic])
        must(answer.status == 0 and result["changed"] is changes, answer.text)


def _address(cloud: Cloud, name: str) -> None:
    """The guest has no cloud-init, and there is no DHCP."""
    status, said = tell(cloud, HOST, name, f"ip addr add {MACHINES[name][1]}/24 dev eth0; ip link set eth0 up")
    must(status == 0, said)


def _machines(cloud: Cloud) -> None:
    store_tiny(cloud, HOST)
    for name, (vlan, _address_of_it) in MACHINES.items():
        _init(cloud, name, vlan)
        wait_until_up(cloud, HOST, name)
        _address(cloud, name)
        must(_tags(cloud, _tap(cloud, name)) == {vlan: ["Egress Untagged", "PVID"]}, f"{name} is in another VLAN")


def _tap(cloud: Cloud, name: str) -> str:
    return cloud.on(HOST, f"virsh domiflist {name} | awk '/bridge/ {{print $1}}'").strip()


def _reaches(cloud: Cloud, name: str, address: str, claim: bool, words: str = "") -> None:
    """Whether one gets an answer from there."""
    # A bridge and a bond need some seconds until they forward.
    tries = f"for i in 1 2 3 4 5 6 7 8; do ping -q -c 1 -W 2 {words} {address} && break; done"
    if not claim:
        tries = f"ping -q -c 4 -W 2 {words} {address}"
    status, said = tell(cloud, HOST, name, tries)
    must(("1 packets received" in said) is claim and (claim or status != 0), f"{name} to {address}: {said}")


def _apart(cloud: Cloud) -> None:
    (_v, first), (_v, second) = MACHINES.values()
    _reaches(cloud, FIRST, second, False)
    _reaches(cloud, SECOND, first, False)


def _outside(cloud: Cloud) -> None:
    _reaches(cloud, FIRST, OUTSIDE, True)
    _reaches(cloud, SECOND, OUTSIDE, False)
    # With the headers of IP and ICMP just the MTU. The guest has it as well, and takes larger ones apart.
    _reaches(cloud, FIRST, OUTSIDE, True, f"-s {MTU - 28}")


def _fail_over(cloud: Cloud) -> None:
    active = f"cat /sys/class/net/{BOND}/bonding/active_slave"
    first = cloud.on(HOST, active).strip()
    cloud.on(HOST, f"ip link set dev {first} down; for i in $(seq 30); do [ $({active}) != {first} ] && exit; done")
    try:
        must(cloud.on(HOST, active).strip() not in ("", first), "no other card carries it")
        _reaches(cloud, FIRST, OUTSIDE, True)
    finally:
        cloud.on(HOST, f"ip link set dev {first} up")


def _change(cloud: Cloud) -> None:
    first = MACHINES[FIRST][1]
    access = ["Egress Untagged", "PVID"]
    for vlans, tags, claim in (
        (VLAN, {VLAN: access}, True),
        # Without its tag, nothing gets through.
        ([VLAN, OTHER_VLAN], {VLAN: [], OTHER_VLAN: []}, False),
        (VLAN, {VLAN: access}, True),
    ):
        _init(cloud, SECOND, vlans)
        must(_tags(cloud, _tap(cloud, SECOND)) == tags, f"its port is not that of {vlans}")
        _reaches(cloud, SECOND, first, claim)
        if isinstance(vlans, list):
            _tagged(cloud, first)


def _tagged(cloud: Cloud, first: str) -> None:
    """The other machine in both VLANs of its port, each by its tag."""
    address = f"{MACHINES[SECOND][1]}/24"
    before = "eth0"
    for vlan in (VLAN, OTHER_VLAN):
        link = f"eth0.{vlan}"
        # Its DHCP client begins with every new card, and takes its addresses away.
        _say(
            cloud,
            f"modprobe 8021q && ip link add link eth0 name {link} type vlan id {vlan} && ip link set {link} up"
            f" && until test -e /run/udhcpc.{link}.pid; do sleep 1; done; sleep 2",
        )
        _say(cloud, f"ip addr del {address} dev {before} && ip addr add {address} dev {link}")
        _reaches(cloud, SECOND, first, vlan == VLAN)
        before = link
    links = " && ".join(f"ip link del eth0.{vlan}" for vlan in (VLAN, OTHER_VLAN))
    _say(cloud, f"{links} && ip addr add {address} dev eth0")


def _say(cloud: Cloud, command: str) -> None:
    """A command in the other machine, which has to end well."""
    status, said = tell(cloud, HOST, SECOND, command)
    must(status == 0, f"{command}: {said}")


def _reboot(cloud: Cloud) -> None:
    # Machines that shut down with the host take it a minute each, and have nothing to do with VLANs.
    cloud.on(HOST, "; ".join(f"virsh destroy {name}" for name in MACHINES))
    clear(cloud, HOST, FIRST)
    reboot(cloud, HOST)
    _links(cloud)
    wait_until_up(cloud, HOST, FIRST)
    _address(cloud, FIRST)
    must(_tags(cloud, _tap(cloud, FIRST)) == {VLAN: ["Egress Untagged", "PVID"]}, f"{FIRST} is in another VLAN")
    _reaches(cloud, FIRST, OUTSIDE, True)


def _clear(cloud: Cloud) -> None:
    """Back to bare cards: as the role's README says, by its files, and without a boot."""
    for name in MACHINES:
        cloud.lab("ssh", HOST, f"virsh destroy {name}; virsh undefine {name} --nvram")
    cloud.lab(
        "ssh",
        HOST,
        f"rm -rf /etc/systemd/network/*brine-{TRUNK}* /etc/systemd/network/*brine-{ACCESS}*"
        f" /etc/systemd/network/95-brine-*; networkctl reload;"
        f" for link in {TRUNK} {BOND} {ACCESS} {CARDS[2]}.{VLAN}; do ip link delete $link; done",
    )
