# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs at the same time, a cloud that changes between decision and deed, and names that mean something else.

Its machines are its own: ``race1`` and so on, ``late1``, ``gone1``, ``left1``, and a ``localhost`` that virsh defines.
"""

from __future__ import annotations

import json
import re
import socket
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ... import needs
from ...cloud import FLEET, Answer, Cloud, must
from ...driving.tasks import module
from ...runner import ScenarioRun
from ...trouble import cut

NEEDS = ("hypervisors", "tiny")
TINY: dict[str, t.Any] = {**needs.TINY, "start": False}
RACERS = ("race1", "race2", "race3")
BACKUPS = "/srv/scenario-left"
# How long a run may take to come to where another one is to meet it.
MEET_SECONDS = 300
DOMAIN = "<domain type='qemu'><name>localhost</name><memory unit='MiB'>64</memory><os><type>hvm</type></os></domain>"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("two runs make the same names on two hypervisors: each exists once", lambda: _race(cloud))
    scenario.step("what a run that was killed after its claim has left is made by the next", lambda: _left_claim(cloud))
    scenario.step("maintenance that has begun since the choice keeps new machines out", lambda: _maintenance(cloud))
    scenario.step("memory that has gone since the choice: refused, nothing made", lambda: _capacity(cloud))
    scenario.step("a machine that is moved since the choice is not made a second time", lambda: _moved(cloud))
    scenario.step("a machine of a hypervisor that has left hosts.yml is not made twice", lambda: _left(cloud))
    scenario.step("one whose new hypervisor is silent is neither made nor restored twice", lambda: _gone_away(cloud))
    scenario.step("a machine cannot be called localhost, nor like a hypervisor", lambda: _refused_names(cloud))
    scenario.step("one that is called so by others is listed under another name", lambda: _foreign_localhost(cloud))


def _provision(cloud: Cloud, machines: list[dict[str, t.Any]], *words: str, live: bool = True) -> Answer:
    wanted = {"virt_vms": [{**TINY, **machine} for machine in machines], "virt_provision_wait": False}
    return cloud.play("provision", "-e", json.dumps(wanted), *words, live=live)


def _homes(cloud: Cloud, name: str) -> list[str]:
    return [host for host in FLEET if name in cloud.on(host, "virsh list --all --name").split()]


def _volumes(cloud: Cloud, host: str, name: str) -> list[str]:
    return cloud.on(
        host, f"virsh pool-refresh default >/dev/null; ls -A /var/lib/libvirt/images | grep '^{name}-' || true"
    ).split()


def _race(cloud: Cloud) -> None:
    with ThreadPoolExecutor() as executor:
        runs = list(
            executor.map(lambda host: _provision(cloud, [{"name": name, "hypervisor": host} for name in RACERS]), FLEET)
        )
    text = "\n".join(run.text for run in runs)
    for name in RACERS:
        homes = _homes(cloud, name)
        must(len(homes) == 1, f"{name} is on {homes}\n{text}")
        cloud.on(homes[0], f"virsh dumpxml --inactive {name} | grep 'brine:machine.*status=.ready'")
        (other,) = set(FLEET) - set(homes)
        must(not _volumes(cloud, other, name), f"{other} has volumes of {name}\n{text}")
        losing = runs[FLEET.index(other)]
        must(losing.status != 0, f"the run for {other} has not made {name} and ends with 0\n{losing.text}")
        # A run that began later finds the machine, or its claim, when it chooses.
        words = (f"{name} was not provisioned", f"({name}): it is on", f"({name}): a run that has not ended")
        said = any(word in losing.one_line for word in words)
        must(said, f"the run for {other} does not say what became of {name}\n{losing.text}")


def _claim(cloud: Cloud, host: str, name: str) -> dict[str, str]:
    wanted = {"machines": [{"name": name, "memory_mib": 128, "vcpus": 1}]}
    answer = cloud.ansible(host, "brine.virt.virt_claim", json.dumps(wanted))
    must(answer.status == 0, answer.text)
    return dict(json.JSONDecoder().raw_decode(answer.text[answer.text.find("=> {") + 3 :])[0]["claims"])


def _left_claim(cloud: Cloud) -> None:
    claims = _claim(cloud, "hv2", "late1")
    must(_claim(cloud, "hv2", "late1") == claims, "the claim is not shared")
    answer = _provision(cloud, [{"name": "late1"}])
    must(answer.status == 0 and _homes(cloud, "late1") == ["hv2"], answer.text)
    must(cloud.on("hv2", "virsh domuuid late1").strip() == claims["late1"], "it was created again")
    must(len(_volumes(cloud, "hv2", "late1")) == 2, f"volumes: {_volumes(cloud, 'hv2', 'late1')}")
    answer = _provision(cloud, [{"name": "late1"}])
    must(answer.status == 0 and answer.recap("changed") == 0, answer.text)
    _remove(cloud, "late1")


def _maintenance(cloud: Cloud) -> None:
    claims = _claim(cloud, "hv1", "late1")
    cloud.play_well("maintenance", "-e", "begin=hv1", "-e", "reason=disks", live=False)
    try:
        answer, _result = cloud.init("hv1", name="late1", claims=claims, **TINY)
        must(answer.status != 0 and "is in maintenance since" in answer.text and "(disks)" in answer.text, answer.text)
        must(
            not _homes(cloud, "late1") and not _volumes(cloud, "hv1", "late1"),
            "something was made, or the claim is left",
        )
    finally:
        cloud.play_well("maintenance", "-e", "end=hv1", live=False)


def _capacity(cloud: Cloud) -> None:
    answer, _result = cloud.init("hv1", name="late1", decision={"memory_mib": 1, "vcpus": 99}, **TINY)
    must(
        answer.status != 0 and re.search(r"128 MiB of memory are needed, -?\d+ are free", answer.text) is not None,
        answer.text,
    )
    must(not _homes(cloud, "late1") and not _volumes(cloud, "hv1", "late1"), "something was made")


def _moved(cloud: Cloud) -> None:
    """A run that has looked waits before it comes to the machine, which is moved meanwhile."""
    answer = _provision(cloud, [{"name": "gone1", "hypervisor": "hv1"}])
    must(answer.status == 0 and _homes(cloud, "gone1") == ["hv1"], answer.text)
    identity = cloud.on("hv1", "virsh domuuid gone1").strip()
    waits, go_on = (cloud.build / f"scenario-gone1-{word}" for word in ("waits", "go-on"))
    for path in (waits, go_on):
        path.unlink(missing_ok=True)
    loop = f"touch {waits}; for i in $(seq {MEET_SECONDS}); do test -e {go_on} && break; sleep 1; done; echo 8"
    # An option of the task that changes the machine, asked for when that task begins. By then all has been checked.
    when = "virt_provision_plan is defined and not virt_provision_only_check"
    lazily = "{{ lookup('ansible.builtin.pipe', '" + loop + "') if " + when + " else 8 }}"
    words = ("-e", json.dumps({"virt_provision_concurrency": lazily}))
    with ThreadPoolExecutor() as executor:
        run = executor.submit(_provision, cloud, [{"name": "gone1", "title": "gone"}], *words)
        try:
            end = time.monotonic() + MEET_SECONDS
            while not waits.exists() and not run.done() and time.monotonic() < end:
                time.sleep(0.5)
            must(waits.exists(), run.result().text if run.done() else "the run does not come to the machine")
            cloud.play_well("migrate", "-e", "vm=gone1", "-e", "to=hv2", live=False)
        finally:
            go_on.touch()
        answer = run.result()
    must(_homes(cloud, "gone1") == ["hv2"], f"gone1 is on {_homes(cloud, 'gone1')}\n{answer.text}")
    must(cloud.on("hv2", "virsh domuuid gone1").strip() == identity, "it was created again")
    must(not _volumes(cloud, "hv1", "gone1"), f"hv1 has volumes of it\n{answer.text}")
    words_of_it = "virt_vms[0]: it was on this hypervisor when this run checked"
    must(answer.status != 0 and words_of_it in answer.one_line, answer.text)
    answer = _provision(cloud, [{"name": "gone1"}])
    must(answer.status == 0 and answer.recap("changed") == 0, answer.text)
    _remove(cloud, "gone1")


def _left(cloud: Cloud) -> None:
    answer = _provision(cloud, [{"name": "left1", "hypervisor": "hv2"}])
    must(answer.status == 0, answer.text)
    cloud.listed()  # writes the host keys down
    without = _without(cloud, "hv2")
    for entry, words, status, said in (
        ({}, (), 2, "left1 was not provisioned: it was seen on hv2, which is not among the hypervisors now"),
        ({"hypervisor": "hv1"}, (), 2, "left1 was not provisioned: its entry says hv1, and it was seen on hv2, which"),
        ({}, ("-e", "virt_unseen=left1", "--check"), 0, "left1 goes to hv1"),
    ):
        wanted = json.dumps({"virt_vms": [{**TINY, "name": "left1", **entry}], "virt_provision_wait": False})
        answer = cloud.run(
            str(cloud.bin / "ansible-playbook"), "-i", str(without), "brine.virt.provision", "-e", wanted, *words
        )
        must(answer.status == status and said in answer.one_line, answer.text)
    must(_homes(cloud, "left1") == ["hv2"], f"left1 is on {_homes(cloud, 'left1')}")


def _gone_away(cloud: Cloud) -> None:
    """left1 goes from hv2 to hv1, which then says nothing, or is not in the inventory any more."""
    keys = cloud.lab_files / "known_hosts_machines"
    before = keys.read_text(encoding="utf-8")
    must("brine.virt:hv2 left1" in before, before)
    # Nobody lists the machines after it.
    cloud.play_well("migrate", "-e", "vm=left1", "-e", "to=hv1", live=False)
    after = keys.read_text(encoding="utf-8")
    must("brine.virt:hv1 left1" in after and "brine.virt:hv2 left1" not in after, after)
    for known, words in (
        (after, "its entry says hv2, and it was seen on hv1, which did not answer"),
        # Somebody else has moved it.
        (before, "it was seen on hv2, which does not have it any more, so it may be on hv1, which did not answer"),
    ):
        keys.write_text(known, encoding="utf-8")
        with cut(cloud, "hv1"):
            answer = _provision(cloud, [{"name": "left1", "hypervisor": "hv2"}], "-e", "virt_answer_seconds=20")
        must(answer.status != 0 and words in answer.one_line and "virt_unseen=left1" in answer.one_line, answer.text)
        must(_homes(cloud, "left1") == ["hv1"], f"left1 is on {_homes(cloud, 'left1')}")
    keys.write_text(after, encoding="utf-8")
    cloud.on("hv1", f"mkdir -p {BACKUPS}")
    answer, _result = module(cloud, "hv1", "virt_backup", name=["left1"], dest=BACKUPS)
    must(answer.status == 0, answer.text)
    _bring(cloud)
    without = _without(cloud, "hv1")
    restore = ("brine.virt.restore", "-e", "vm=left1", "-e", f"src={BACKUPS}")
    for more, status, words in (
        ((), 2, "left1 was seen on hv1, which is not among the hypervisors now, and may run there"),
        (("-e", "virt_unseen=left1", "--check"), 0, "left1 goes to hv2"),
    ):
        answer = cloud.run(str(cloud.bin / "ansible-playbook"), "-i", str(without), *restore, *more)
        must(answer.status == status and words in answer.one_line, answer.text)
    must(_homes(cloud, "left1") == ["hv1"], f"left1 is on {_homes(cloud, 'left1')}")


def _bring(cloud: Cloud) -> None:
    """hv2 sees the backup as well."""
    data = cloud.on("hv1", f"tar -C {BACKUPS} -c . | gzip | base64 -w 0")
    cloud.on("hv2", f"rm -rf {BACKUPS} /tmp/left1; mkdir -p {BACKUPS}")
    # No longer than a command may be.
    for begin in range(0, len(data), 60_000):
        cloud.on("hv2", f"echo {data[begin : begin + 60_000]} >> /tmp/left1")
    cloud.on("hv2", f"base64 -di /tmp/left1 | gzip -d | tar -C {BACKUPS} -x; rm /tmp/left1")


def _without(cloud: Cloud, host: str) -> Path:
    """The hypervisors' inventory without one of them."""
    hosts = (cloud.inventory / "hosts.yml").read_text(encoding="utf-8")
    without = cloud.build / "scenario-hosts-without.yml"
    without.write_text(re.sub(rf"^    {host}:\n(?:      .*\n)+", "", hosts, flags=re.MULTILINE), encoding="utf-8")
    return without


def _refused_names(cloud: Cloud) -> None:
    for name, words in (
        ("localhost", "virt_vms[0].name: 'localhost' is the controller itself to Ansible and SSH"),
        ("localhost.example", "virt_vms[0].name: 'localhost.example' is the controller itself"),
        ("hv1", "virt_vms[0] (hv1): hv1 is a hypervisor"),
        ("virt_provisioned", "virt_vms[0].name: 'virt_provisioned' is a group of the inventory"),
    ):
        answer = _provision(cloud, [{"name": name}])
        must(answer.status != 0 and words in answer.one_line, answer.text)
        must(not _homes(cloud, name), f"{name} was made")
    answer, _result = cloud.init("hv1", name="Localhost", **TINY)
    must(answer.status != 0 and "name: 'Localhost' is the controller" in answer.text, answer.text)


def _foreign_localhost(cloud: Cloud) -> None:
    cloud.on(
        "hv1", f'echo "{DOMAIN}" > /root/localhost.xml && virsh define /root/localhost.xml; rm /root/localhost.xml'
    )
    listed = cloud.listed()
    must("localhost_hv1" in listed["virt_machines"]["hosts"], str(listed["virt_machines"]))
    must("localhost" not in listed["_meta"]["hostvars"], "it has taken the name")
    answer = cloud.run(str(cloud.bin / "ansible-inventory"), *cloud.sources(), "--graph")
    must("is listed as localhost_hv1" in answer.one_line, answer.text)
    answer = cloud.ansible("localhost", "ansible.builtin.command", "uname -n")
    must(answer.status == 0 and socket.gethostname() in answer.text.split(), answer.text)


def _remove(cloud: Cloud, name: str) -> None:
    for host in FLEET:
        cloud.on(
            host,
            f"virsh destroy {name} >/dev/null 2>&1; virsh undefine --nvram {name} >/dev/null 2>&1;"
            f" for v in $(ls -A /var/lib/libvirt/images | grep '^{name}-'); do"
            " virsh pool-refresh default >/dev/null; virsh vol-delete $v default >/dev/null; done; true",
        )
