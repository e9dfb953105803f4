# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor in maintenance, groups, labels, a balance and a common CPU."""

from __future__ import annotations

import json
import re
import typing as t

from ...cloud import Answer, Cloud, must
from ...runner import ScenarioRun
from .evacuating import BRIDGE, empty_hv1, five_machines, names, provision

NEEDS = ("hypervisors", "alone", "tiny")


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("hv1 is in maintenance and has fleet4, four others are on hv2", lambda: _begin(cloud), vital=True)
    scenario.step("a hypervisor that does not answer is named, and the others go on", lambda: _silent(cloud))
    scenario.step("in maintenance it gets no new machine, by choice or by name", lambda: _refused(cloud))
    scenario.step("the maintenance outlives a restart of libvirt, and ends once", lambda: _end(cloud))
    scenario.step("machines of a group are kept apart, living ones too", lambda: _apart(cloud))
    scenario.step("a label leads to the hypervisor that has it", lambda: _label(cloud))
    scenario.step("balance: check mode, run, and nothing is left to do", lambda: _balance(cloud))
    scenario.step("a machine with the common CPU of all moves while it runs", lambda: _baseline(cloud))
    scenario.step("two CPUs have a common one, and two makers have none", lambda: _two_cpus(cloud))


def _begin(cloud: Cloud) -> None:
    five_machines(cloud)
    empty_hv1(cloud)


def _silent(cloud: Cloud) -> None:
    inventory = cloud.build / "fleet-silent.yml"
    # Nothing listens on that port.
    silent = {"ansible_host": "127.0.0.1", "ansible_port": 9, "ansible_ssh_common_args": "-o ControlPath=none"}
    inventory.write_text(json.dumps({"hypervisors": {"hosts": {"hv8": silent}}}), encoding="utf-8")
    answer = cloud.play("evacuate", "-e", "from=hv1", "--check", "-i", str(inventory), live=False)
    must("fleet4 stays where it is" in answer.one_line and "hv8: did not answer" in answer.one_line, answer.text)
    answer = cloud.play("evacuate", "-e", "from=hv8", "--check", "-i", str(inventory), live=False)
    must(
        answer.status != 0 and "hv8" in answer.text and "Show which machine goes where" not in answer.text, answer.text
    )
    answer = cloud.play("balance", "-e", "limit=90", "-i", str(inventory), live=False)
    must("hv8 did not answer" in answer.text and "No machine needs to be moved" in answer.text, answer.text)


def _refused(cloud: Cloud) -> None:
    before = cloud.state("hv1")
    answer = provision(cloud, {"name": "fleet6", "hypervisor": "hv1"})
    must(answer.status != 0, answer.text)
    for words in ("virt_vms[0] (fleet6)", "is in maintenance since", "(fan)", "brine.virt.maintenance -e end=hv1"):
        must(words in answer.one_line, f"{words}: {answer.text}")
    answer = provision(cloud, {"name": "fleet6"})
    must(answer.status == 0 and "fleet6" in names(cloud, "hv2"), answer.text)
    # What is there already is none of its business.
    answer = provision(cloud, {"name": "fleet4", "nics": {"eth0": {"bridge": BRIDGE}}})
    must(answer.status == 0 and answer.recap("changed") == 0, answer.text)
    must(cloud.state("hv1") == before, "something has changed on hv1")


def _end(cloud: Cloud) -> None:
    cloud.on("hv1", "systemctl restart libvirtd 2>/dev/null || systemctl restart virtqemud")
    must("hv1: since 2" in cloud.play_well("maintenance", live=False).text, "it is forgotten")
    must("hv1 is in maintenance since 2" in cloud.play_well("host_info", live=False).text, "host_info does not say it")
    for words, changed in ((["--check"], 1), ([], 1), (["--check"], 0), ([], 0)):
        answer = cloud.play_well("maintenance", "-e", "end=hv1", *words, live=False)
        must(answer.recap("changed") == changed and "hv1: no" in answer.text, f"{words}: {answer.text}")
    for words, changed in ((["--check"], 1), ([], 1), ([], 0)):
        answer = cloud.play_well("maintenance", "-e", "begin=hv1", *words, live=False)
        must(answer.recap("changed") == changed and "hv1: since 2" in answer.text, f"{words}: {answer.text}")
    cloud.play_well("maintenance", "-e", "end=hv1", live=False)
    answer = cloud.play("maintenance", "-e", "begin=hv7", live=False)
    must(answer.status != 0 and "There is no hypervisor hv7. Known: hv1, hv2" in answer.one_line, answer.text)


def _apart(cloud: Cloud) -> None:
    """fleet3, of the same group, lives on hv2."""
    answer = provision(cloud, {"name": "fleet7", "anti_affinity": ["fleet"]})
    must(answer.status == 0 and "fleet7" in names(cloud, "hv1"), answer.text)
    third = {"name": "fleet8", "anti_affinity": ["fleet"]}
    answer = provision(cloud, third)
    must(answer.status != 0, answer.text)
    for words in (
        "hv1: has fleet7, of the same anti-affinity group fleet",
        "hv2: has fleet3",
        "virt_anti_affinity: prefer",
    ):
        must(words in answer.one_line, f"{words}: {answer.text}")
    answer = provision(cloud, third, virt_anti_affinity="prefer")
    must(answer.status == 0, answer.text)
    must("fleet8" in [*names(cloud, "hv1"), *names(cloud, "hv2")], "it is nowhere")


def _label(cloud: Cloud) -> None:
    inventory = cloud.build / "fleet-labels.yml"
    inventory.write_text("hypervisors: {hosts: {hv2: {virt_labels: {disk: ssd}}}}\n", encoding="utf-8")
    words = ["-i", str(inventory)]
    answer = provision(cloud, {"name": "fleet9", "labels": {"disk": "ssd"}}, words=words)
    must(answer.status == 0 and "fleet9" in names(cloud, "hv2"), answer.text)
    answer = provision(cloud, {"name": "fleet10", "labels": ["disk=tape"]}, words=words)
    must(answer.status != 0 and "hv2: has no label disk=tape (has disk=ssd)" in answer.one_line, answer.text)


def _balance(cloud: Cloud) -> None:
    before = cloud.state_of_all()
    # Three machines on hv1 and six on hv2, or two and seven, of less than one percent each.
    limit = ["-e", "limit=1"]
    ahead = cloud.play_well("balance", *limit, "--check", live=False)
    moves = re.findall(r"^(fleet\d+) .* hv2 +hv1 +hv2 from \d+ to \d+%, hv1 from", ahead.text, re.M)
    must(len(moves) > 0, f"hv2 has all the machines, and nothing is to be moved: {ahead.text}")
    must(cloud.state_of_all() == before, "check mode has changed something")
    there = names(cloud, "hv1")
    answer = cloud.play_well("balance", *limit, live=False)
    must(names(cloud, "hv1") == sorted([*there, *moves]), answer.text)
    again = cloud.play_well("balance", *limit, live=False)
    must(again.recap("changed") == 0 and "be moved: hv" in again.text, again.text)


def _baseline(cloud: Cloud) -> None:
    spec = {"name": "fleet11", "start": True, "hypervisor": "hv1"}
    made, again = provision(cloud, spec, virt_cpu_baseline=True), provision(cloud, spec, virt_cpu_baseline=True)
    must(made.status == 0 and made.recap("changed") > 0, made.text)
    must(again.status == 0 and again.recap("changed") == 0, again.text)
    must("New machines get" not in again.text, again.text)
    said = re.search(r"New machines get the CPU ([\w.-]+), which all of hv1, hv2 have", made.text)
    must(said is not None, made.text)
    xml = cloud.on("hv1", "virsh dumpxml --inactive fleet11")
    must(said is not None and f">{said.group(1)}</model>" in xml and "<cpu mode='custom'" in xml, xml)
    answer = cloud.play_well("migrate", "-e", "vm=fleet11", live=False)
    must(names(cloud, "hv2", "--state-running").count("fleet11") == 1, answer.text)
    must("fleet11" not in names(cloud, "hv1"), answer.text)


def _two_cpus(cloud: Cloud) -> None:
    kind = {"arch": "x86_64", "domain_type": "qemu", "vendor": "Intel"}
    skylake = {**kind, "model": "Skylake-Client", "features": {"avx2": "disable"}}
    haswell = {**kind, "model": "Haswell"}

    def ask(**cpus: t.Any) -> Answer:
        return cloud.ansible("hv1", "brine.virt.virt_cpu_baseline", json.dumps({"cpus": cpus}))

    answer = ask(hv1=skylake, hv2=haswell)
    must(answer.status == 0, answer.text)
    result = json.loads(answer.text[answer.text.index("=> {") + 3 :])
    must(result["cpu"]["model"].startswith("Haswell"), answer.text)
    must(result["cpu"]["features"]["avx2"] == "disable" and result["missing"]["hv1"] == ["avx2"], answer.text)
    must("mpx" in result["missing"]["hv2"], answer.text)
    answer = ask(hv1=haswell, hv2={**kind, "model": "EPYC", "vendor": "AMD"})
    must(answer.status != 0 and "CPUs of different makers (hv1: Intel, hv2: AMD)" in answer.text, answer.text)
