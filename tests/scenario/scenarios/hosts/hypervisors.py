# SPDX-License-Identifier: GPL-3.0-or-later
"""Bare hosts become hypervisors: in check mode first, then for real, then nothing is left to do."""

from __future__ import annotations

from ...cloud import Cloud, must
from ...needs import start_lab
from ...runner import ScenarioRun

NEEDS = ()


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    if cloud.lab_hosts():
        scenario.step("the lab goes, for hosts that are bare", lambda: cloud.lab_well("down"), vital=True)
    scenario.step("the collection is built and installed from its tarball", cloud.install, vital=True)
    scenario.step("the lab comes up", lambda: start_lab(cloud), vital=True)
    scenario.step("the guest images are there", lambda: cloud.images, vital=True)
    scenario.step("hypervisors, check mode on bare hosts: succeeds, changes nothing", lambda: _check_bare(cloud))
    scenario.step("hypervisors: succeeds", lambda: cloud.play_well("hypervisors", live=False), vital=True)
    scenario.step("hypervisors again: nothing to change", lambda: _nothing(cloud))
    scenario.step("hypervisors in check mode: nothing to change", lambda: _nothing(cloud, "--check"))
    scenario.step("virsh finds pools, and the bridge has the host's address", lambda: _judge(cloud))


def _check_bare(cloud: Cloud) -> None:
    answer = cloud.play_well("hypervisors", "--check", live=False)
    must(answer.recap("changed") > 0, "check mode sees nothing to do on a bare host")
    for host in cloud.hosts:
        cloud.on(host, "! command -v virsh && ! ip link show br0")


def _nothing(cloud: Cloud, *words: str) -> None:
    answer = cloud.play_well("hypervisors", *words, live=False)
    must(answer.recap("changed") == 0, answer.text)


def _judge(cloud: Cloud) -> None:
    for host in cloud.hosts:
        pools = cloud.on(host, "virsh pool-list --autostart --name")
        must({"default", "images"} <= set(pools.split()), f"{host} has the pools {pools.split()}")
        cloud.on(host, 'bridge -json link show | grep -q \'"master":"br0"\'')
        cloud.on(host, 'ip -4 -brief address show dev br0 | grep -q "$(echo $SSH_CONNECTION | cut -d" " -f3)"')
