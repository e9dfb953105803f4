# SPDX-License-Identifier: GPL-3.0-or-later
"""A third hypervisor joins, is retired, joins again, is taken out of hosts.yml by hand, and is lost."""

from __future__ import annotations

import json
import re
import typing as t

from ...cloud import COMMAND_SECONDS, FLEET, Answer, Cloud, must
from ...needs import NEWER, RELEASES, current_hypervisors
from ...runner import ScenarioRun
from ..fleet.evacuating import names, provision

NEEDS = ("hypervisors", "alone", "tiny")
ALL = (*FLEET, NEWER)
# What a host that has left must not have any more, and what it must keep.
GONE = (
    "/etc/pki/libvirt/servercert.pem /etc/pki/libvirt/private/serverkey.pem /etc/pki/qemu/server-key.pem "
    "/etc/pki/CA/cacert.pem /etc/systemd/system/brine-virt-start-order.service /usr/local/lib/brine-virt-start-order.py"
)
MARK = "/var/lib/brine-virt/maintenance.json"
KEPT = f"virsh pool-info default && virsh pool-info images && ip link show br0 && test -e {MARK}"
# A certificate of the host before it left.
OLD = "/root/retired"
# When runs are killed, in seconds after they have begun: while they check, move, revoke and remove.
KILLS = (5, 9, 13, 18, 22, 30)
# What changes when a host gets other files, or its daemons are started anew.
_STATE = (
    "find /etc/pki /etc/libvirt /etc/systemd/system -type f -not -path '/etc/libvirt/qemu/*' -exec sha256sum {} +"
    " | sort;"
    " systemctl show --value --property ExecMainStartTimestamp libvirtd.service libvirtd-tls.socket"
)


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step(f"{NEWER} joins, and nothing changes on the others", lambda: _joins(cloud), vital=True)
    scenario.step("a machine that can be nowhere else keeps it, and nothing is changed", lambda: _kept(cloud))
    scenario.step("retire, check mode: says all of it, and changes nothing", lambda: _ahead(cloud))
    scenario.step("retire, killed again and again, and run to its end", lambda: _retired(cloud), vital=True)
    scenario.step("the others refuse the certificates that it had", lambda: _refused(cloud))
    scenario.step("retire again: nothing is left to do", lambda: _again(cloud))
    scenario.step("it joins again, and nothing changes on the others", lambda: _joins_again(cloud), vital=True)
    scenario.step("taken out of hosts.yml by hand, its machines are not made twice", lambda: _by_hand(cloud))
    scenario.step("lost: its certificates are revoked, its machines may be elsewhere", lambda: _lost(cloud))
    scenario.step("it comes back, and gets new certificates", lambda: _comes_back(cloud))


def _changed(answer: Answer, host: str) -> int:
    """The figure of the play recap for one host."""
    found = re.search(rf"^{host} .* changed=(\d+)", answer.text, re.MULTILINE)
    must(found is not None, f"{host} is not in the recap: {answer.text}")
    return int(found.group(1)) if found else 0


def _hypervisors(cloud: Cloud) -> None:
    """The playbook for all three, which changes the new one alone."""
    before = {host: cloud.on(host, _STATE) for host in FLEET}
    answer = cloud.play_well("hypervisors", live=False)
    must([_changed(answer, host) for host in FLEET] == [0, 0] and _changed(answer, NEWER) > 0, answer.text)
    must({host: cloud.on(host, _STATE) for host in FLEET} == before, "files or daemons of the others have changed")


def _joins(cloud: Cloud) -> None:
    if NEWER not in cloud.lab_hosts():
        cloud.lab_well("up", "--hosts", "3", "--release", RELEASES)
    current_hypervisors(cloud)
    cloud.use(ALL)
    _hypervisors(cloud)
    _reaches(cloud)


def _reaches(cloud: Cloud) -> None:
    for host, other in ((FLEET[0], NEWER), (NEWER, FLEET[0])):
        cloud.on(host, f"virsh -c qemu+tls://{other}/system hostname")


def _kept(cloud: Cloud) -> None:
    cloud.on(NEWER, "ip link show br-own >/dev/null 2>&1 || ip link add br-own up type bridge")
    answer = provision(cloud, {"name": "own1", "hypervisor": NEWER, "nics": {"eth0": {"bridge": "br-own"}}})
    must(answer.status == 0, answer.text)
    before = cloud.state_of_all()
    answer = cloud.play("retire", "-e", f"from={NEWER}", live=False)
    must(answer.status != 0 and "own1 cannot leave hv3: fits on no other hypervisor" in answer.one_line, answer.text)
    must(cloud.state_of_all() == before, "something has changed")
    cloud.on(NEWER, f"! test -e {MARK} && test -e /etc/pki/libvirt/servercert.pem")
    cloud.play_well("purge", "-e", "vm=own1", live=False)
    cloud.on(NEWER, "ip link delete br-own")


def _ahead(cloud: Cloud) -> None:
    machines = ({"name": name, "hypervisor": NEWER, "start": name == "run1"} for name in ("run1", "off1", "off2"))
    answer = provision(cloud, *machines, virt_cpu_baseline=True)
    must(answer.status == 0, answer.text)
    before = cloud.state_of_all(), {host: cloud.on(host, _STATE) for host in ALL}
    answer = cloud.play_well("retire", "-e", f"from={NEWER}", "--check", live=False)
    for words in (
        "hv3 would get no new machines",
        "hv1: to refuse the certificates of hv3",
        "To be removed from hv3: port 16514 (closed)",
        "the units and the script of the start order",
        "Left on hv3:",
        "Take hv3 out of the inventory (hosts.yml) when this is done.",
    ):
        must(words in answer.one_line, f"{words}: {answer.text}")
    must(re.search(r"^run1 +running .* hv3 +hv[12] ", answer.text, re.MULTILINE) is not None, answer.text)
    must((cloud.state_of_all(), {host: cloud.on(host, _STATE) for host in ALL}) == before, "something has changed")
    cloud.on(NEWER, f"! test -e {MARK}")


def _retired(cloud: Cloud) -> None:
    cloud.on(
        NEWER,
        f"mkdir -p {OLD} && cp /etc/pki/CA/cacert.pem /etc/pki/libvirt/clientcert.pem {OLD}"
        f" && cp /etc/pki/libvirt/private/clientkey.pem {OLD}",
    )
    retire = [str(cloud.bin / "ansible-playbook"), *cloud.sources(), "brine.virt.retire", "-e", f"from={NEWER}"]
    for seconds in KILLS:
        cloud.run("timeout", "--signal", "KILL", str(seconds), *retire)
        here = [name for host in ALL for name in names(cloud, host)]
        must({"run1", "off1", "off2"} <= set(here), f"after {seconds} s a machine is gone: {here}")
        running = [host for host in ALL if "run1" in names(cloud, host, "--state-running")]
        must(len(running) == 1, f"after {seconds} s run1 runs on {running}")
    answer = cloud.run("timeout", str(COMMAND_SECONDS), *retire)
    must(answer.status == 0 and "Take hv3 out of the inventory" in answer.text, answer.text)
    must(names(cloud, NEWER) == [], f"{NEWER} still has {names(cloud, NEWER)}")
    must(sorted(name for host in FLEET for name in names(cloud, host)) == ["off1", "off2", "run1"], answer.text)
    cloud.on(NEWER, f"for file in {GONE}; do ! test -e $file || exit 1; done; {KEPT}")
    cloud.on(NEWER, "! ss -Hltn 'sport = :16514' | grep -q . && ! grep -q 'brine.virt TLS' /etc/libvirt/*.conf")
    cloud.on(NEWER, "virsh list --all && systemctl is-active libvirt-guests")
    listed = cloud.listed()["_meta"]["hostvars"]
    must(all(listed[name]["virt_hypervisor"] in FLEET for name in ("run1", "off1", "off2")), "they are not listed")


def _refused(cloud: Cloud) -> None:
    for host in FLEET:
        uri = f"qemu+tls://{host}/system?pkipath={OLD}"
        answer = cloud.lab("ssh", NEWER, f"virsh -c '{uri}' hostname 2>&1")
        must(answer.status != 0 and f"{host}.virt.internal" not in answer.text, answer.text)
        cloud.on(host, f"virsh -c qemu+tls://{next(one for one in FLEET if one != host)}/system hostname")


def _again(cloud: Cloud) -> None:
    for words in ((), ("--check",)):
        answer = cloud.play_well("retire", "-e", f"from={NEWER}", *words, live=False)
        must("hv3 is retired. Nothing is left to do." in answer.text and answer.recap("changed") == 0, answer.text)


def _joins_again(cloud: Cloud) -> None:
    _hypervisors(cloud)
    cloud.play_well("maintenance", "-e", f"end={NEWER}", live=False)
    _reaches(cloud)


def _lone(cloud: Cloud, *, live: bool = True) -> Answer:
    """Provision a machine without a seed, and so without host keys."""
    variables: dict[str, t.Any] = {
        "virt_vms": [{"name": "lone1", "vcpus": 1, "memory": 128, "image": "tiny", "seed": False, "start": False}],
        "virt_images": {"tiny": {"src": cloud.images["tiny"]}},
        "virt_provision_wait": False,
    }
    return cloud.play("provision", "-e", json.dumps(variables), live=live)


def _by_hand(cloud: Cloud) -> None:
    answer = provision(cloud, {"name": "lone1", "hypervisor": NEWER})
    must(answer.status == 0 and "lone1" in names(cloud, NEWER), answer.text)
    # It lists the machine, and so notes where it is.
    must("lone1" in cloud.listed()["_meta"]["hostvars"], "it is not listed")
    cloud.use(FLEET)
    for live in (True, False):
        answer = _lone(cloud, live=live)
        must(answer.status != 0 and "lone1 was not provisioned: it was seen on hv3" in answer.one_line, answer.text)
        must("brine.virt.retire -e from=hv3 -e lost=true" in answer.one_line, answer.text)
        must(not any("lone1" in names(cloud, host) for host in FLEET), "it was made a second time")


def _lost(cloud: Cloud) -> None:
    cloud.use(ALL)
    answer = cloud.play("retire", "-e", f"from={NEWER}", "-e", "lost=true", live=False)
    must(answer.status != 0 and "hv3 answers." in answer.one_line, answer.text)
    cloud.use(FLEET)
    answer = cloud.play("retire", "-e", "from=hv7", "-e", "lost=true", live=False)
    must(
        answer.status != 0 and "hv7: no certificate was issued to a hypervisor of this name" in answer.one_line,
        answer.text,
    )
    answer = cloud.play_well("retire", "-e", f"from={NEWER}", "-e", "lost=true", live=False)
    must("lone1: last seen on hv3; to be forgotten" in answer.one_line, answer.text)
    must(cloud.lab("ssh", NEWER, f"virsh -c qemu+tls://{FLEET[0]}/system hostname").status != 0, "it is let in")
    answer = cloud.play_well("retire", "-e", f"from={NEWER}", "-e", "lost=true", live=False)
    must("Nothing is left to do." in answer.text and answer.recap("changed") == 0, answer.text)
    answer = _lone(cloud)
    must(answer.status == 0 and any("lone1" in names(cloud, host) for host in FLEET), answer.text)


def _comes_back(cloud: Cloud) -> None:
    cloud.on(NEWER, "virsh undefine lone1")
    cloud.use(ALL)
    _hypervisors(cloud)
    _reaches(cloud)
    answer = cloud.play_well("hypervisors", live=False)
    must(answer.recap("changed") == 0, answer.text)
