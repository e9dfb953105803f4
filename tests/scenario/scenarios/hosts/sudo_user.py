# SPDX-License-Identifier: GPL-3.0-or-later
"""Every playbook does what it is for, with a hypervisor that Ansible logs in to as a user with sudo."""

from __future__ import annotations

import json
import typing as t

from ...cloud import Answer, Cloud, must
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "alone", "tiny")
USER = "sudoer"
NAMES = ("sudo1", "sudo2", "sudo3")
MAKE_USER = f"""
id {USER} 2>/dev/null || useradd --create-home --shell=/bin/bash {USER}
echo '{USER} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{USER}
install -d -o {USER} -m 0700 /home/{USER}/.ssh
install -o {USER} -m 0600 /root/.ssh/authorized_keys /home/{USER}/.ssh/authorized_keys
"""
DROP_USER = f"loginctl terminate-user {USER}; userdel --force --remove {USER}; rm -f /etc/sudoers.d/{USER}; true"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step(f"hv2 has a user {USER}, whom the inventory names", lambda: _user(cloud), vital=True)
        scenario.step("libvirt does not know the user yet: the inventory says so", lambda: _stranger(cloud))
        scenario.step("hypervisors: puts the user into libvirt's group, once", lambda: _hypervisors(cloud), vital=True)
        scenario.step("the inventory lists hv2", lambda: _listed(cloud))
        scenario.step("provision: the image is sent, three machines are made, one runs", lambda: _provision(cloud))
        scenario.step("list, query, host_info: show them", lambda: _shown(cloud))
        scenario.step("migrate: the running one goes, and runs on", lambda: _migrate(cloud))
        scenario.step("evacuate and maintenance: all go, and hv2 comes back", lambda: _evacuate(cloud))
        scenario.step("balance: check mode, run, and nothing is left to do", lambda: _balance(cloud))
    finally:
        _forget(cloud)


def _sources(cloud: Cloud, *, live: bool = False) -> list[str]:
    hosts, cloud_words = cloud.sources(live=False), cloud.sources()[2:]
    return [*hosts, "-i", str(cloud.build / "sudo-user.yml"), *(cloud_words if live else [])]


def _play(cloud: Cloud, name: str, *words: str) -> Answer:
    answer = cloud.run(str(cloud.bin / "ansible-playbook"), *_sources(cloud), f"brine.virt.{name}", *words)
    must(answer.status == 0, answer.text)
    return answer


def _names(cloud: Cloud, host: str, *words: str) -> list[str]:
    return sorted(cloud.on(host, f"virsh list --name {' '.join(words) or '--all'}").split())


def _user(cloud: Cloud) -> None:
    cloud.on("hv2", MAKE_USER)
    variables = {"hypervisors": {"hosts": {"hv2": {"ansible_user": USER}}}}
    (cloud.build / "sudo-user.yml").write_text(json.dumps(variables), encoding="utf-8")
    answer = cloud.run(
        str(cloud.bin / "ansible"), *_sources(cloud), "hv2", "-m", "ansible.builtin.command", "-a", "id -un"
    )
    must(USER in answer.text.split(), answer.text)


def _inventory(cloud: Cloud) -> str:
    return cloud.run(str(cloud.bin / "ansible-inventory"), *_sources(cloud, live=True), "--graph").text


def _stranger(cloud: Cloud) -> None:
    must("Hypervisor hv2 did not answer" in _inventory(cloud), "there is nothing to prove")


def _hypervisors(cloud: Cloud) -> None:
    for changed in (1, 0):
        answer = _play(cloud, "hypervisors", "--limit", "hv2")
        must(answer.recap("changed") == changed, answer.text)


def _listed(cloud: Cloud) -> None:
    text = _inventory(cloud)
    must("WARNING" not in text and "hv2" in text, text)


def _provision(cloud: Cloud) -> None:
    cloud.on(
        "hv2", "virsh pool-refresh images; for v in $(virsh vol-list images | awk '/tiny-/ {print $1}'); do"
        " virsh vol-delete $v images; done",
    )  # fmt: skip
    spec: dict[str, t.Any] = {
        "vcpus": 1,
        "memory": 128,
        "image": "tiny",
        "disks": [{"name": "system", "size": 64}],
        "seed": False,
        "hypervisor": "hv2",
    }
    given = {
        # Those that are off need none of it, and count for more than two points of a large machine's memory.
        "virt_vms": [
            {**spec, "name": NAMES[0], "start": True},
            *({**spec, "name": name, "start": False, "memory": 1024} for name in NAMES[1:]),
        ],
        "virt_images": {"tiny": {"src": cloud.images["tiny"]}},
        "virt_provision_wait": False,
    }
    # The image, the machines, and where they are in the file of host keys; then nothing.
    for changed in (3, 0):
        answer = _play(cloud, "provision", "-e", json.dumps(given))
        must(answer.recap("changed") == changed, answer.text)
    must(set(NAMES) <= set(_names(cloud, "hv2")), answer.text)


def _shown(cloud: Cloud) -> None:
    must(NAMES[0] in _play(cloud, "list").text, "list does not name it")
    must(f"{NAMES[0]}\n  CPU: 1" in _play(cloud, "query", "-e", f"vm={NAMES[0]}").text, "query does not show it")
    must("hv2" in _play(cloud, "host_info").text, "host_info does not name hv2")


def _migrate(cloud: Cloud) -> None:
    answer = _play(cloud, "migrate", "-e", f"vm={NAMES[0]}", "-e", "to=hv1")
    must(_names(cloud, "hv1", "--state-running") == [NAMES[0]], answer.text)
    answer = _play(cloud, "migrate", "-e", f"vm={NAMES[0]}", "-e", "to=hv2")
    must(NAMES[0] in _names(cloud, "hv2", "--state-running"), answer.text)


def _evacuate(cloud: Cloud) -> None:
    answer = _play(cloud, "evacuate", "-e", "from=hv2")
    must(_names(cloud, "hv2") == [] and _names(cloud, "hv1") == list(NAMES), answer.text)
    must("hv2: since 2" in _play(cloud, "maintenance").text, "it is in no maintenance")
    must("hv2: no" in _play(cloud, "maintenance", "-e", "end=hv2").text, "its maintenance does not end")


def _balance(cloud: Cloud) -> None:
    ahead = _play(cloud, "balance", "-e", "limit=2", "--check")
    must(_names(cloud, "hv2") == [], f"check mode has moved something: {ahead.text}")
    answer = _play(cloud, "balance", "-e", "limit=2")
    moved = _names(cloud, "hv2")
    must(0 < len(moved) < len(NAMES) and answer.recap("changed") > 0, answer.text)
    must(all(f"{name}: moved from hv1" in answer.text for name in moved), answer.text)
    again = _play(cloud, "balance", "-e", "limit=2")
    must(again.recap("changed") == 0 and "be moved: hv" in again.text, again.text)


def _forget(cloud: Cloud) -> None:
    for host in cloud.hosts:
        cloud.on(
            host,
            "for m in $(virsh list --all --name | grep ^sudo || true); do virsh destroy $m;"
            " virsh undefine $m --nvram --remove-all-storage; done >/dev/null 2>&1; true",
        )
    cloud.lab("ssh", "hv2", DROP_USER)
