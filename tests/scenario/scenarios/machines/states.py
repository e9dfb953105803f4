# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a machine by its state in the list: running, stopped, present, absent. Check, run, run again."""

from __future__ import annotations

import json
import re
import time
import typing as t

from ...cloud import Answer, Cloud, must
from ...moving import volumes
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HERE, THERE = "hv2", "hv1"
ONE, NEXT, DEAF = "life1", "life2", "life3"
LOG = "/var/log/libvirt/qemu"
UP = "tiny guest is up"
_UP_SECONDS = 180
NOTHING_TO_BOOT: dict[str, t.Any] = {
    **{"vcpus": 1, "memory": 64, "disk_profile": None, "nic_profile": None},
    **{"disks": [{"name": "empty", "size": 16}], "seed": {"method": "none"}},
}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("running: a new machine is started", lambda: _running(cloud), vital=True)
        scenario.step("present: it goes on running", lambda: _bring(cloud, "present", "running", None))
        scenario.step("stopped: its guest shuts down, and nobody waits for it", lambda: _stopped(cloud))
        scenario.step("present: it stays off", lambda: _bring(cloud, "present", "shut off", None))
        scenario.step("running: it starts", lambda: _bring(cloud, "running", "running", f"start {ONE}"))
        scenario.step("running: it resumes", lambda: _resumed(cloud))
        scenario.step("stopped: a guest that does not answer is an error, and stays on", lambda: _deaf(cloud))
        scenario.step("absent: one that runs is refused, as by the playbook purge", lambda: _refused(cloud))
        scenario.step("absent: it goes, and another one comes, in one run", lambda: _absent(cloud))
        scenario.step("absent: on the command line, shut down first; and by force", lambda: _one_line(cloud))
        scenario.step("absent: a name on two hypervisors", lambda: _two_homes(cloud))
        scenario.step(
            "virt_init removes nothing; start and state may not contradict each other", lambda: _mistakes(cloud)
        )
    finally:
        for name in (ONE, NEXT, DEAF):
            for host in cloud.hosts:
                cloud.on(
                    host,
                    f"virsh destroy {name}; virsh undefine {name} --managed-save --snapshots-metadata;"
                    f" rm -f /var/lib/libvirt/images/{name}-*; virsh pool-refresh default",
                )


def _machine(name: str, state: str, **options: t.Any) -> dict[str, t.Any]:
    return {**TINY, "name": name, "hypervisor": HERE, "state": state, **options}


def _provision(cloud: Cloud, *machines: dict[str, t.Any], words: t.Sequence[str] = (), live: bool = True) -> Answer:
    """The playbook on a list. The small guest has no SSH to wait for."""
    path = cloud.build / "scenario-states.yml"
    path.write_text(json.dumps({"virt_vms": machines, "virt_provision_wait": False}), encoding="utf-8")
    return cloud.play("provision", "-e", f"@{path}", *words, live=live)


def _provision_well(
    cloud: Cloud, *machines: dict[str, t.Any], words: t.Sequence[str] = (), live: bool = True
) -> Answer:
    answer = _provision(cloud, *machines, words=words, live=live)
    must(answer.status == 0, answer.text)
    return answer


def _states(cloud: Cloud) -> str:
    """All machines with their power states, volumes and files."""
    return cloud.state_of_all() + "".join(cloud.on(host, "virsh list --all") for host in cloud.hosts)


def _state(cloud: Cloud, name: str, host: str = HERE) -> str:
    return cloud.on(host, f"virsh domstate {name}").strip()


def _must_have(answer: Answer, *lines: str) -> None:
    for line in lines:
        must(line in answer.text.splitlines(), f"{line!r} is not in:\n{answer.text}")


def _bring(cloud: Cloud, state: str, words: str, actions: str | None) -> None:
    """words: what virsh calls it then. actions: what is done; None for nothing."""
    machine = _machine(ONE, state)
    before = _states(cloud)
    # Nobody asks for the machine itself.
    ahead = _provision_well(cloud, machine, words=["--check"], live=False)
    must(_states(cloud) == before, f"check mode has changed something: {ahead.text}")
    done = _provision_well(cloud, machine, live=False)
    for answer in (ahead, done):
        if actions is None:
            must("\n1 machine is already up to date.\n" in answer.text and answer.recap("changed") == 0, answer.text)
        else:
            must(re.search(rf"^{ONE} +{HERE} .*{actions}$", answer.text, re.MULTILINE) is not None, answer.text)
    must(_state(cloud, ONE) == words, f"{ONE} is {_state(cloud, ONE)}")
    if actions is not None:
        again = _provision_well(cloud, machine, live=False)
        must(again.recap("changed") == 0 and _state(cloud, ONE) == words, again.text)


def _running(cloud: Cloud) -> None:
    _bring(cloud, "running", "running", r"created +\S+ +\S+  -")


def _wait_until_up(cloud: Cloud, name: str = ONE) -> None:
    """From then on the small guest hears of the power button. Its log begins anew with each start."""
    end = time.monotonic() + _UP_SECONDS
    while not int(cloud.on(HERE, f"grep -c '{UP}' {LOG}/{name}-serial.log || true")):
        must(time.monotonic() < end, f"{name} does not come up")
        time.sleep(1)


def _stopped(cloud: Cloud) -> None:
    _wait_until_up(cloud)
    _bring(cloud, "stopped", "shut off", f"shut down {ONE}")


def _resumed(cloud: Cloud) -> None:
    cloud.on(HERE, f"virsh suspend {ONE}")
    _bring(cloud, "present", "paused", None)
    _bring(cloud, "running", "running", f"resume {ONE}")


def _deaf(cloud: Cloud) -> None:
    """The title is changed before, and stays; the other machine of the list is not kept from anything."""
    deaf = _machine(DEAF, "running", **{"image": None, **NOTHING_TO_BOOT})
    _provision_well(cloud, deaf)
    machines = ({**deaf, "state": "stopped", "title": "deaf"}, _machine(ONE, "running", title="one"))
    answer = _provision(cloud, *machines, words=["-e", "virt_provision_stop_timeout=5"])
    must(answer.status != 0, answer.text)
    for words in (
        f"{DEAF} on {HERE}: it did not shut down within 5 s: it is running, its guest agent is not connected",
        "To give it longer, set stop_timeout. virt_power with state=stopped and force=true does it without",
    ):
        must(words in answer.one_line, f"{words!r} is not in:\n{answer.text}")
    must(_state(cloud, DEAF) == "running", f"{DEAF} is {_state(cloud, DEAF)}")
    for name, title in ((DEAF, "deaf"), (ONE, "one")):
        must(cloud.on(HERE, f"virsh desc {name} --title").strip() == title, f"{name} has another title")
    cloud.on(HERE, f"virsh destroy {DEAF}")
    answer = _provision_well(cloud, *machines)
    must(answer.recap("changed") == 0, answer.text)


def _gone(name: str, **options: t.Any) -> dict[str, t.Any]:
    return {"name": name, "state": "absent", **options}


def _refused(cloud: Cloud) -> None:
    before = _states(cloud)
    for words in ([], ["--check"]):
        answer = _provision(cloud, _gone(ONE), _machine(NEXT, "present"), words=words)
        must(answer.status != 0 and f"{HERE}: {ONE} is running, so it is not removed" in answer.one_line, answer.text)
        must("Nothing was changed." in answer.one_line and _states(cloud) == before, "something has changed")


def _absent(cloud: Cloud) -> None:
    cloud.listed()
    keys = cloud.lab_files / "known_hosts_machines"
    must(f" {ONE}\n" in keys.read_text(encoding="utf-8"), "its host keys are not known")
    cloud.on(HERE, f"virsh destroy {ONE}")
    machines = (_gone(ONE), _gone(DEAF), _machine(NEXT, "present"))
    before = _states(cloud)
    ahead = _provision_well(cloud, *machines, words=["--check"])
    must(_states(cloud) == before, f"check mode has changed something: {ahead.text}")
    done = _provision_well(cloud, *machines)
    for answer in (ahead, done):
        _must_have(
            answer,
            f"{ONE} on {HERE} (shutoff):",
            f"  delete default/{ONE}-system.qcow2: it belongs to this machine",
            f"  delete default/{ONE}-seed.iso: it belongs to this machine",
            f"{DEAF} on {HERE} (shutoff):",
            f"  delete default/{DEAF}-empty.qcow2: it belongs to this machine",
            "  delete the machine itself",
        )
        must(re.search(rf"^{NEXT} +{HERE} .*created ", answer.text, re.MULTILINE) is not None, answer.text)
    for name in (ONE, DEAF):
        must(name not in cloud.on(HERE, "virsh list --all --name").split(), f"{name} is still there")
        must(volumes(cloud, HERE, name) == set(), f"left: {volumes(cloud, HERE, name)}")
    must(f" {ONE}\n" not in keys.read_text(encoding="utf-8"), "its host keys are still known")
    must(_state(cloud, NEXT) == "shut off", f"{NEXT} is {_state(cloud, NEXT)}")
    again = _provision_well(cloud, *machines)
    hosts = ", ".join(sorted(cloud.hosts))
    _must_have(again, f"{ONE}, {DEAF}: there is no such machine on {hosts}")
    must(again.recap("changed") == 0, again.text)


def _one_line(cloud: Cloud) -> None:
    cloud.on(HERE, f"virsh start {NEXT}")
    words = ("-e", f"vm={NEXT}", "-e", "state=absent")
    answer = cloud.play("provision", *words)
    must(answer.status != 0 and f"{NEXT} is running, so it is not removed" in answer.one_line, answer.text)
    _wait_until_up(cloud, NEXT)
    answer = cloud.play_well("provision", *words, "-e", "stop=true")
    _must_have(answer, f"{NEXT} on {HERE} (running):")
    must(volumes(cloud, HERE, NEXT) == set(), f"left: {volumes(cloud, HERE, NEXT)}")
    must(cloud.play_well("provision", *words).recap("changed") == 0, "a second run has changed something")
    _provision_well(cloud, _machine(DEAF, "running", **{"image": None, **NOTHING_TO_BOOT}))
    deaf = ("-e", f"vm={DEAF}", "-e", "state=absent", "-e", "virt_provision_stop_timeout=5")
    answer = cloud.play("provision", *deaf, "-e", "stop=true")
    sentence = f"{DEAF} on {HERE} was not removed: it did not shut down within 5 s"
    must(answer.status != 0 and sentence in answer.one_line, answer.text)
    must(_state(cloud, DEAF) == "running", f"{DEAF} is {_state(cloud, DEAF)}")
    cloud.play_well("provision", *deaf, "-e", "force=true")
    must(volumes(cloud, HERE, DEAF) == set(), f"left: {volumes(cloud, HERE, DEAF)}")


def _two_homes(cloud: Cloud) -> None:
    for host in (HERE, THERE):
        answer, _result = cloud.init(host, **TINY, name=NEXT, state="present", seed={"method": "none"})
        must(answer.status == 0, answer.text)
    before = _states(cloud)
    answer = _provision(cloud, _gone(NEXT))
    must(answer.status != 0 and f"there is a machine '{NEXT}' on each of" in answer.one_line, answer.text)
    must(_states(cloud) == before, "something has changed")
    _provision_well(cloud, _gone(NEXT, hypervisor=HERE))
    must(volumes(cloud, HERE, NEXT) == set(), f"{HERE} still has it")
    must(volumes(cloud, THERE, NEXT) == {f"{NEXT}-system.qcow2"}, f"{THERE} does not have it")
    _provision_well(cloud, _gone(NEXT))
    must(volumes(cloud, THERE, NEXT) == set(), f"{THERE} still has it")


def _mistakes(cloud: Cloud) -> None:
    before = _states(cloud)
    answer, result = cloud.init(HERE, name=ONE, state="absent")
    must(
        answer.status != 0 and result["msg"] == "state: virt_init removes no machine. Remove it with virt_purge",
        answer.text,
    )
    answer = _provision(cloud, _machine(ONE, "stopped", start=True))
    words = "virt_vms[0].start: start: true contradicts virt_vms[0].state: stopped. Leave out start"
    must(answer.status != 0 and words in answer.one_line, answer.text)
    must(_states(cloud) == before, "something has changed")
