# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with a kernel of its own becomes a hypervisor, and can do what containers cannot. That it boots is in lvm.

Its settings are here as far as they need such a kernel; the others are in `settings`.
"""

from __future__ import annotations

import json
import typing as t

from ...cloud import Cloud, must
from ...driving.consoles import ADDRESS, wait_until_up
from ...driving.tasks import have, module, refused
from ...needs import TINY, store_tiny
from ...own_kernel import CARDS, DISKS, HOST
from ...runner import ScenarioRun

NEEDS = ("own_kernel",)
MODULES = "8021q bonding dm_thin_pool nfs nfsd nbd iscsi_tcp iscsi_target_mod target_core_iblock sch_netem"
GROUP, MACHINE = "scenario", "kernel1"
BOND, BRIDGE, VLAN = "bond9", "br9", 42
SETTINGS = "/etc/sysctl.d/99-zz-brine-virt.conf /etc/udev/rules.d/99-brine-virt-bridge.rules"
# The kernel's own, and another one.
SWAPPINESS = (60, 7)
_PAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
FILTERS = "/proc/sys/net/bridge/bridge-nf-call-iptables"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("hypervisors again: nothing to change", lambda: _nothing(cloud))
        scenario.step("its kernel is its own, and has what is needed", lambda: _kernel(cloud))
        scenario.step("a volume group on a disk of its own", lambda: _group(cloud))
        scenario.step("a bond of two cards, and a bridge on it that knows VLANs", lambda: _bond(cloud))
        scenario.step("sysctl, and the netfilter of bridges before its module is loaded", lambda: _settings(cloud))
        scenario.step("without the options the files go, once, and values stay", lambda: _no_settings(cloud))
        scenario.step("KSM and huge pages, or that it has none", lambda: _memory(cloud))
        scenario.step("a machine runs in it, with an address by way of the bridge", lambda: _machine(cloud))
    finally:
        cloud.lab("ssh", HOST, f"virsh destroy {MACHINE}; vgremove --force {GROUP}; pvremove {DISKS[0]}")
        _drop_links(cloud)
        cloud.lab("ssh", HOST, f"rm -f {SETTINGS}; echo {SWAPPINESS[0]} > /proc/sys/vm/swappiness; rmmod br_netfilter")


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


def _settings(cloud: Cloud) -> None:
    """The kernel sets bridges to 1 as it loads the module, and the rule of udev to 0 at once."""
    cloud.on(HOST, f"! test -e {FILTERS} || rmmod br_netfilter")
    options: dict[str, t.Any] = {"sysctl": {"vm.swappiness": SWAPPINESS[1]}, "bridge_netfilter": False}
    answer, result = module(cloud, HOST, "virt_kernel", "--check", **options)
    must(answer.status == 0 and result["changed"] and "br_netfilter is not loaded" in str(result["notes"]), answer.text)
    cloud.on(HOST, f"! ls {SETTINGS} 2>/dev/null")
    have(cloud, HOST, "virt_kernel", **options)
    must(cloud.on(HOST, "cat /proc/sys/vm/swappiness").split() == [str(SWAPPINESS[1])], "vm.swappiness is another")
    cloud.on(HOST, f"modprobe br_netfilter && udevadm settle && grep -x 0 {FILTERS}")
    answer, result = module(cloud, HOST, "virt_kernel", **options)
    must(answer.status == 0 and not result["changed"], answer.text)


def _no_settings(cloud: Cloud) -> None:
    have(cloud, HOST, "virt_kernel")
    cloud.on(HOST, f"! ls {SETTINGS} 2>/dev/null && grep -x {SWAPPINESS[1]} /proc/sys/vm/swappiness")


def _memory(cloud: Cloud) -> None:
    """User Mode Linux has neither."""
    for option, value, path, words in (
        ("ksm", True, "/sys/kernel/mm/ksm/run", "the kernel cannot merge pages (no KSM)"),
        ("hugepages", {"2M": 8}, _PAGES, "the kernel has no pages of this size"),
    ):
        if cloud.lab("ssh", HOST, f"test -e {path}").status != 0:
            refused(cloud, HOST, "virt_kernel", words, **{option: value})
            continue
        off = False if option == "ksm" else {"2M": 0}
        for wanted, number in ((value, "8" if option == "hugepages" else "1"), (off, "0")):
            have(cloud, HOST, "virt_kernel", **{option: wanted})
            must(cloud.on(HOST, f"cat {path}").strip() == number, f"{option} is another")
        have(cloud, HOST, "virt_kernel")


def _machine(cloud: Cloud) -> None:
    store_tiny(cloud, HOST)
    answer, _result = cloud.init(HOST, **TINY, name=MACHINE)
    must(answer.status == 0, answer.text)
    wait_until_up(cloud, HOST, MACHINE, ADDRESS)
