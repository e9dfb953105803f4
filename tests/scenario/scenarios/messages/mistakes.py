# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user gets wrong is said once, all of it in one run, and nothing is changed anywhere."""

from __future__ import annotations

import json
import shlex
import typing as t

from ...cloud import Answer, Cloud, must
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
SPEC: dict[str, t.Any] = {
    "vcpus": 1,
    "memory": 128,
    "image": "tiny",
    "disks": [{"name": "system", "size": 64}],
    "seed": False,
    "start": False,
}
# As on a command line: texts.
TEXTS = ("-e", "virt_provision_wait=false", "-e", "virt_cpu_baseline=no", "-e", "virt_provision_conclude=1")


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("all mistakes on all hypervisors are reported in one run, nothing is changed", lambda: _all(cloud))
    scenario.step("a mistake is reported once, together with what fits nowhere", lambda: _once(cloud))
    scenario.step("the other playbooks report mistakes once, too", lambda: _others(cloud))
    scenario.step("booleans of the command line are taken as such", lambda: _booleans(cloud))
    scenario.step("the command of the guide for a reason of two words stores both", lambda: _reason(cloud))
    scenario.step(
        "--limit: what belongs elsewhere is named; what may live elsewhere is an error", lambda: _limit(cloud)
    )
    scenario.step("the machines of this scenario go", lambda: _forget(cloud))


def _provision(cloud: Cloud, *machines: dict[str, t.Any], words: t.Sequence[str] = (), live: bool = False) -> Answer:
    given = {
        "virt_vms": [{**SPEC, **machine} for machine in machines],
        "virt_images": {"tiny": {"src": cloud.images["tiny"]}, "gone": {"src": "/nowhere/gone.qcow2"}},
    }
    return cloud.play("provision", "-e", json.dumps(given), *TEXTS, *words, live=live)


def _said_once(answer: Answer, *sentences: str) -> None:
    must(answer.status != 0, f"it was accepted:\n{answer.text}")
    for sentence in sentences:
        lines = [line for line in answer.text.splitlines() if sentence in line]
        count = sum(line.startswith("fatal: ") for line in lines)
        must(count == 1, f"{sentence!r} is in {count} failures:\n{answer.text}")
        # Ansible prints the message of a failure twice; one of several mistakes has a line of its own besides.
        must(len(lines) <= 3, f"{sentence!r} is said {len(lines)} times:\n{answer.text}")
    for words in ("Finalization", "Traceback"):
        must(words not in answer.text, answer.text)


def _all(cloud: Cloud) -> None:
    here, there = cloud.hosts
    before = cloud.state_of_all()
    answer = _provision(
        cloud,
        {"name": "wrong1", "hypervisor": there},
        {"name": "wrong2", "hypervisor": here, "disks": [{"name": "system", "size": "1MiB"}]},
        {"name": "wrong3", "hypervisor": here, "image": "gone"},
        {"name": "wrong4", "hypervisor": there, "image": "gone", "machine_type": "q36"},
    )
    _said_once(
        answer,
        "virt_images.gone.src: there is no file /nowhere/gone.qcow2 on the controller",
        f"{here}: virt_vms[1].disks[0].size: 1 MiB is less than",
        f"{there}: virt_vms[3].machine_type: ",
    )
    must(answer.recap("changed") == 0 and cloud.state_of_all() == before, f"something has changed:\n{answer.text}")


def _once(cloud: Cloud) -> None:
    answer = _provision(cloud, {"name": "wrong1", "memroy": 1}, {"name": "wrong2", "memory": "9TiB"})
    _said_once(
        answer,
        "virt_vms[0]: unknown option 'memroy'. Did you mean memory?",
        "virt_vms[1] (wrong2): fits no hypervisor: hv1: needs",
    )


def _others(cloud: Cloud) -> None:
    for playbook, variable, sentence in (
        ("migrate", "vm=nobody", "there is no machine 'nobody' on the hypervisors that answered"),
        ("balance", "limit=many", "limit: 'many' is not a number"),
    ):
        _said_once(cloud.play(playbook, "-e", variable, live=False), sentence)
    for target, sentence in (
        ("hv9", "There is no hypervisor hv9"),
        ("hv1", "hv1 is the hypervisor to empty"),
    ):
        answer = cloud.play("evacuate", "-e", f"from=hv1 to={target}", live=False)
        must(answer.status != 0 and sentence in answer.one_line, answer.text)
    must("hv1: no" in cloud.play_well("maintenance", live=False).text, "hv1 is in maintenance")


def _booleans(cloud: Cloud) -> None:
    for changed in (True, False):
        answer = _provision(cloud, {"name": "wrong5", "hypervisor": "hv1"})
        must(answer.status == 0 and (answer.recap("changed") > 0) is changed, answer.text)
        must("interpreter" not in answer.text, f"a warning about Python:\n{answer.text}")


def _reason(cloud: Cloud) -> None:
    page = (cloud.root / "docs/docsite/rst/moving.rst").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if "brine.virt.evacuate" in line and "reason" in line)
    reason = next(word for word in shlex.split(line) if word.startswith("reason"))
    answer = cloud.play_well("maintenance", "-e", "begin=hv1", "-e", reason, live=False)
    must("(new disks)" in answer.text, answer.text)
    cloud.play_well("maintenance", "-e", "end=hv1", live=False)


def _limit(cloud: Cloud) -> None:
    """wrong5 lives on hv1."""
    elsewhere = {"name": "wrong6", "hypervisor": "hv1"}
    answer = _provision(cloud, elsewhere, words=["--limit", "hv2"])
    must(answer.status == 0 and "wrong6 is left out: it is meant for hv1" in answer.one_line, answer.text)
    answer = _provision(cloud, {"name": "wrong5"}, words=["--limit", "hv2"])
    must(
        answer.status != 0 and "wrong5 was not provisioned: it was seen on hv1, which was not" in answer.one_line,
        answer.text,
    )
    # The live inventory knows where it lives, and then nothing is in doubt.
    answer = _provision(cloud, {"name": "wrong5"}, words=["--limit", "hv2"], live=True)
    must(answer.status == 0 and "wrong5 is left out: it is on hv1" in answer.one_line, answer.text)
    playbook = cloud.build / "mistakes-role.yml"
    playbook.write_text(
        "- {hosts: hypervisors, become: true, gather_facts: false, roles: [brine.virt.virt_provision]}\n",
        encoding="utf-8",
    )
    given = {"virt_vms": [{**SPEC, "name": "wrong5"}], "virt_images": {"tiny": {"src": cloud.images["tiny"]}}}
    words = ["-e", json.dumps(given), *TEXTS, "--limit", "hv2"]
    answer = cloud.run(str(cloud.bin / "ansible-playbook"), *cloud.sources(live=False), str(playbook), *words)
    must(
        answer.status != 0 and "wrong5 was not provisioned: it was seen on hv1, which was not" in answer.one_line,
        answer.text,
    )


def _forget(cloud: Cloud) -> None:
    for host in cloud.hosts:
        cloud.on(
            host,
            "for m in $(virsh list --all --name | grep ^wrong || true); do"
            " virsh undefine $m --nvram --remove-all-storage || exit 1; done",
        )
