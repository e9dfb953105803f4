# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with a kernel of its own becomes a hypervisor, and can do what containers cannot. That it boots is in lvm."""

from __future__ import annotations

import json

from ...cloud import Cloud, must
from ...driving.consoles import ADDRESS, wait_until_up
from ...needs import TINY, store_tiny
from ...own_kernel import CARDS, DISKS, HOST
from ...runner import ScenarioRun

NEEDS = ("own_kernel",)
MODULES = "8021q bonding dm_thin_pool nfs nfsd nbd iscsi_tcp iscsi_target_mod target_core_iblock sch_netem"
GROUP, MACHINE = "scenario", "kernel1"
BOND, BRIDGE, VLAN = "bond9", "br9", 42


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("hypervisors again: nothing to change", lambda: _nothing(cloud))
        scenario.step("its kernel is its own, and has what is needed", lambda: _kernel(cloud))
        scenario.step("a volume group on a disk of its own", lambda: _group(cloud))
        scenario.step("a bond of two cards, and a bridge on it that knows VLANs", lambda: _bond(cloud))
        scenario.step("a machine runs in it, with an address by way of the bridge", lambda: _machine(cloud))
    finally:
        cloud.lab("ssh", HOST, f"virsh destroy {MACHINE}; vgremove --force {GROUP}; pvremove {DISKS[0]}")
        _drop_links(cloud)


def _nothing(cloud: Cloud) -> None:
    answer = cloud.play_well("hypervisors", live=False)
    must(answer.recap("changed") == 0, answer.text)


def _kernel(cloud: Cloud) -> None:
    cloud.on(HOST, f"modprobe --all {MODULES} && test -e /sys/fs/cgroup/cgroup.controllers")
    must(cloud.on(HOST, "uname -v") != cloud.run("uname", "-v").text, "it has this machine's kernel")


def _group(cloud: Cloud) -> None:
    cloud.on(HOST, f"vgcreate {GROUP} {DISKS[0]} && lvcreate --yes --size 64M --name data {GROUP}")
    cloud.on(HOST, f"lvcreate --yes --type thin-pool --size 256M --name thin {GROUP} && test -b /dev/{GROUP}/data")


def _bond(cloud: Cloud) -> None:
    first, second, *_others = CARDS
    try:
        cloud.on(
            HOST,
            f"ip link add {BOND} type bond mode active-backup miimon 100"
            f" && ip link set {first} master {BOND} && ip link set {second} master {BOND}"
            f" && ip link add {BRIDGE} type bridge vlan_filtering 1 && ip link set {BOND} master {BRIDGE}"
            f" && bridge vlan add vid {VLAN} dev {BOND} && ip link set {BOND} up && ip link set {BRIDGE} up"
            f" && ip link add link {BRIDGE} name {BRIDGE}.{VLAN} type vlan id {VLAN}",
        )
        (bridge,) = json.loads(cloud.on(HOST, f"ip -json -details link show {BRIDGE}"))
        must(bridge["linkinfo"]["info_data"]["vlan_filtering"] == 1, str(bridge))
        (port,) = json.loads(cloud.on(HOST, f"bridge -json vlan show dev {BOND}"))
        must(VLAN in [vlan["vlan"] for vlan in port["vlans"]], str(port))
        wait = f"for i in $(seq 20); do grep -q ^{first}$ {{0}} && exit; sleep 1; done; cat {{0}}; exit 1"
        active = f"/sys/class/net/{BOND}/bonding/active_slave"
        cloud.on(HOST, wait.format(active))
        cloud.on(HOST, f"ip link set {first} down; " + wait.replace(first, second).format(active))
    finally:
        _drop_links(cloud)


def _drop_links(cloud: Cloud) -> None:
    cloud.lab("ssh", HOST, f"ip link delete {BRIDGE}; ip link delete {BOND}")


def _machine(cloud: Cloud) -> None:
    store_tiny(cloud, HOST)
    answer, _result = cloud.init(HOST, **TINY, name=MACHINE)
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, HOST, MACHINE, ADDRESS)
