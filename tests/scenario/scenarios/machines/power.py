# SPDX-License-Identifier: GPL-3.0-or-later
"""Power states of real guests by the playbook: check, run, run again, and what virsh then says.

The small guest answers the power button. Debian has a guest agent. A machine with nothing to boot from answers nothing.
"""

from __future__ import annotations

import functools
import re
import time
import typing as t

from ...cloud import Answer, Cloud, must
from ...needs import TINY, WEB
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny", "web1")
# By name the host.
SMALL = {"power1": "hv1", "power2": "hv2"}
DEAF = "deaf1"
ONE = "power1"
LOG = "/var/log/libvirt/qemu"
UP = "tiny guest is up"
# A boot of Debian took 407 s on a busy machine without KVM.
_UP_SECONDS = 600
# In the order in which one leads to the next: the state, what virsh calls it, and what is done.
STATES = (
    ("stopped", "shut off", "shut down"),
    ("running", "running", "start"),
    ("paused", "paused", "pause"),
    ("running", "running", "resume"),
    ("saved", "shut off", "save"),
    ("running", "running", "resume from its saved state"),
)


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("two small machines, and one that has nothing to boot from", lambda: _machines(cloud), vital=True)
    for state, words, action in STATES:
        scenario.step(
            f"{state} by {action}: check, run, run again, on both hypervisors",
            functools.partial(_bring, cloud, state, words, action),
        )
    scenario.step(
        "stopped by resume, shut down: check, run, run again, on both hypervisors", lambda: _stopped_paused(cloud)
    )
    scenario.step("a guest reboots, and is reset", lambda: _reboot(cloud))
    scenario.step("Debian reboots, is saved and resumes, and shuts down", lambda: _debian(cloud))
    scenario.step("a guest that does not answer: an error, then by force", lambda: _deaf(cloud))
    scenario.step("off and on for the machine with pending memory, and for no other", lambda: _cycle(cloud))
    scenario.step("a mistake is one sentence, and changes nothing", lambda: _mistakes(cloud))


def _power(cloud: Cloud, *variables: str, check: bool = False) -> Answer:
    words = [word for variable in variables for word in ("-e", variable)]
    return cloud.play("power", *words, *(["--check"] if check else []), live=False)


def _power_well(cloud: Cloud, *variables: str, check: bool = False) -> Answer:
    answer = _power(cloud, *variables, check=check)
    must(answer.status == 0, answer.text)
    return answer


def _state(cloud: Cloud, host: str, name: str) -> str:
    return cloud.on(host, f"virsh domstate {name}").strip()


def _states(cloud: Cloud) -> dict[str, str]:
    """Those of all machines."""
    ask = 'for name in $(virsh list --all --name); do echo "$name: $(virsh domstate $name | head -n 1)"; done'
    found = {host: cloud.on(host, ask).splitlines() for host in cloud.hosts}
    return {
        f"{name} on {host}": state
        for host, lines in found.items()
        for name, _colon, state in (line.partition(": ") for line in lines)
    }


def _must_say(answer: Answer, pattern: str) -> None:
    must(re.search(f"^{pattern}", answer.text, re.MULTILINE) is not None, f"{pattern} is not in: {answer.text}")


def _machines(cloud: Cloud) -> None:
    for name, host in SMALL.items():
        answer, _result = cloud.init(host, **TINY, name=name, tags=["power"])
        must(answer.status == 0, answer.text)
    bare: dict[str, t.Any] = {"vcpus": 1, "memory": 64, "disk_profile": None, "nic_profile": None}
    disks = [{"name": "empty", "size": 16}]
    answer, _result = cloud.init("hv1", name=DEAF, **bare, disks=disks, seed={"method": "none"})
    must(answer.status == 0, answer.text)
    for name, host in SMALL.items():
        _wait_until_up(cloud, host, name, 1)


def _boots(cloud: Cloud, host: str, name: str) -> int:
    """How often the small guest has come up, by its serial console, whose log begins anew with each process."""
    return int(cloud.on(host, f"grep -c '{UP}' {LOG}/{name}-serial.log || true"))


def _wait_until_up(cloud: Cloud, host: str, name: str, boots: int) -> None:
    end = time.monotonic() + _UP_SECONDS
    while _boots(cloud, host, name) < boots:
        must(time.monotonic() < end, f"{name} has come up {_boots(cloud, host, name)} times, not {boots}")
        time.sleep(1)


def _bring(cloud: Cloud, state: str, words: str, action: str) -> None:
    selected = ("tag=power", f"state={state}")
    before = _states(cloud)
    ahead = _power_well(cloud, *selected, check=True)
    must(_states(cloud) == before, "check mode has changed something")
    _must_say(ahead, "This was a check: nothing was done")
    done = _power_well(cloud, *selected)
    for name, host in SMALL.items():
        for answer in (ahead, done):
            _must_say(answer, rf"{name} +{host} .*  {action} \(was ")
        must(_state(cloud, host, name) == words, f"{name} is {_state(cloud, host, name)}")
        saved = "yes" in cloud.on(host, f"virsh dominfo {name} | grep '^Managed save:'")
        must(saved is (state == "saved"), f"{name} has a saved state: {saved}")
        if action == "start":
            _wait_until_up(cloud, host, name, 1)
    must(done.recap("changed") == len(SMALL), done.text)
    untouched = {who: was for who, was in before.items() if who.split()[0] not in SMALL}
    must(untouched.items() <= _states(cloud).items(), f"others have changed: {_states(cloud)}")
    again = _power_well(cloud, *selected)
    must(again.recap("changed") == 0 and again.text.count(" already\n") == len(SMALL), again.text)


def _stopped_paused(cloud: Cloud) -> None:
    """virsh does before and after it what has been seen above."""
    for name, host in SMALL.items():
        cloud.on(host, f"virsh suspend {name}")
    _bring(cloud, "stopped", "shut off", "resume, shut down")
    for name, host in SMALL.items():
        cloud.on(host, f"virsh start {name}")


def _reboot(cloud: Cloud) -> None:
    host = SMALL[ONE]
    _wait_until_up(cloud, host, ONE, 1)
    for state, action in (("rebooted", "reboot"), ("reset", "reset")):
        boots, process = _boots(cloud, host, ONE), _process(cloud, host, ONE)
        ahead = _power_well(cloud, f"vm={ONE}", f"state={state}", check=True)
        must(_boots(cloud, host, ONE) == boots, "check mode has rebooted it")
        done = _power_well(cloud, f"vm={ONE}", f"state={state}")
        for answer in (ahead, done):
            _must_say(answer, rf"{ONE} +{host} +running .*  {action}$")
        _wait_until_up(cloud, host, ONE, boots + 1)
        must(_process(cloud, host, ONE) == process, "it is another process than before")


def _process(cloud: Cloud, host: str, name: str) -> str:
    return cloud.on(host, f"cat /run/libvirt/qemu/{name}.pid").strip()


def _debian(cloud: Cloud) -> None:
    (host,) = [host for host in cloud.hosts if WEB in cloud.on(host, "virsh list --all --name").split()]
    _wait_for_agent(cloud, host)
    # How it starts, and what check mode says, is not its own doing: the small ones have shown it.
    for state, words, action in (
        ("rebooted", "running", "reboot"),
        ("saved", "shut off", "save"),
        ("running", "running", "resume from its saved state"),
        ("stopped", "shut off", "shut down"),
    ):
        size = int(cloud.on(host, f"stat -c %s {LOG}/{WEB}-serial.log"))
        done = _power_well(cloud, f"vm={WEB}", f"state={state}")
        _must_say(done, rf"{WEB} +{host} .*  {action}( \(was |$)")
        must(_state(cloud, host, WEB) == words, f"{WEB} is {_state(cloud, host, WEB)}")
        new = cloud.on(host, f"tail -c +{size + 1} {LOG}/{WEB}-serial.log")
        if state == "stopped":
            must("Power down" in new or "Power-Off" in new, f"it has not shut down by itself: {new[-2000:]}")
        if words == "running":
            _wait_for_agent(cloud, host)


def _wait_for_agent(cloud: Cloud, host: str) -> None:
    ask = f"""virsh qemu-agent-command {WEB} '{{"execute": "guest-ping"}}' >/dev/null 2>&1"""
    cloud.on(host, f"for i in $(seq {_UP_SECONDS}); do {ask} && exit; sleep 1; done; exit 1")


def _deaf(cloud: Cloud) -> None:
    process = _process(cloud, "hv1", DEAF)
    for state, verb in (("stopped", "shut down"), ("rebooted", "reboot")):
        answer = _power(
            cloud, f"vm={DEAF},{ONE}" if state == "rebooted" else f"vm={DEAF}", f"state={state}", "timeout=8"
        )
        must(answer.status != 0, answer.text)
        words = f"{DEAF} on hv1: failed: it did not {verb} within 8 s: it is running, its guest agent is not connected"
        must(words in answer.one_line, f"the failure does not say it: {answer.text}")
        seen = re.search(
            rf"^What was seen of {DEAF}:\n  defined +ok +yes\n  running +ok +yes\n", answer.text, re.MULTILINE
        )
        must(seen is not None, f"it does not say how far the guest is: {answer.text}")
        waits = re.search(rf"^  hv1: to be {state}: .*{DEAF}.*, \d+ s so far$", answer.text, re.MULTILINE)
        must(waits is not None, f"it does not say meanwhile whom it waits for: {answer.text}")
        must(_process(cloud, "hv1", DEAF) == process, "it is another process than before")
    forced = _power_well(cloud, f"vm={DEAF}", "state=rebooted", "timeout=5", "force=true")
    _must_say(forced, rf"{DEAF} +hv1 +running .*  reset$")
    forced = _power_well(cloud, f"vm={DEAF}", "state=stopped", "timeout=5", "force=true")
    _must_say(forced, rf"{DEAF} +hv1 +shutoff .*  power off \(was running\)")
    must(_state(cloud, "hv1", DEAF) == "shut off", "it is not off")
    answer = _power(cloud, f"vm={DEAF}", "state=paused", check=True)
    must(answer.status != 0 and "it is off, so it cannot be paused" in answer.one_line, answer.text)
    _must_say(_power_well(cloud, f"vm={DEAF}", "state=running"), rf"{DEAF} +hv1 +running .*  start \(was shutoff\)")
    at_once = _power_well(cloud, f"vm={DEAF}", "state=stopped", "timeout=0", "force=true")
    _must_say(at_once, rf"{DEAF} +hv1 +shutoff .*  power off \(was running\)")


def _cycle(cloud: Cloud) -> None:
    host = SMALL[ONE]
    answer, result = cloud.init(host, **{**TINY, "memory": 160}, name=ONE)
    must(answer.status == 0 and result["machines"][0]["pending"] == ["memory"], answer.text)
    before = {who: _process(cloud, *who) for who in ((host, ONE), (SMALL["power2"], "power2"))}
    selected = ("all=true", "only_pending=true", "state=cycled")
    ahead = _power_well(cloud, *selected, check=True)
    must({who: _process(cloud, *who) for who in before} == before, "check mode has changed something")
    done = _power_well(cloud, *selected)
    for answer in (ahead, done):
        _must_say(answer, rf"{ONE} +{host} +running .*  shut down, start$")
        must(re.search("^power2 ", answer.text, re.MULTILINE) is None, answer.text)
    memory = cloud.on(host, f"virsh dominfo {ONE} | grep '^Max memory:'").split()
    must(memory[2] == str(160 * 1024), f"it has {memory}")
    after = {who: _process(cloud, *who) for who in before}
    must([after[who] == process for who, process in before.items()] == [False, True], f"{before} and {after}")
    again = _power_well(cloud, *selected)
    _must_say(again, r"No machine is selected\.")


def _mistakes(cloud: Cloud) -> None:
    before = _states(cloud)
    for variables, words in (
        (
            ("vm=power3,power1", "state=stopped"),
            "vm: there is no machine 'power3' on the hypervisors that answered. Did",
        ),
        (
            ("tag=powre", "state=stopped"),
            "tag: no machine has the tag 'powre' on the hypervisors that answered. Did you",
        ),
        (("vm=power1", "state=stoped"), "state: there is no 'stoped'. Did you mean stopped?"),
        (("state=stopped",), "No machine is named. Give its name with -e vm=NAME"),
        (("on=hv9", "state=stopped"), "on: there is no hypervisor 'hv9'."),
    ):
        answer = _power(cloud, *variables)
        must(answer.status != 0 and words in answer.one_line and "Nothing was changed." in answer.one_line, answer.text)
    must(_states(cloud) == before, "something has changed")
