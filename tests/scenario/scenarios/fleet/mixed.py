# SPDX-License-Identifier: GPL-3.0-or-later
"""Three hypervisors of two releases, one reached as a user with sudo: common CPU, placement, evacuation, balance."""

from __future__ import annotations

import re

from ...cloud import FLEET, Cloud, must
from ...needs import NEWER
from ...runner import ScenarioRun
from .evacuating import SPEC, names, provision

NEEDS = ("hypervisors", "alone", "tiny", "newer")
ALL = (*FLEET, NEWER)
OLDEST = FLEET[0]
# What a machine needs that runs while it moves: nothing but a CPU that all three have.
COMMON = {"start": True, "hypervisor": OLDEST}


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("a new machine gets the CPU that both releases have", lambda: _baseline(cloud), vital=True)
    scenario.step("it runs on while it moves to the newer release and back", lambda: _there_and_back(cloud))
    scenario.step("one that is made on the newer release can leave it", lambda: _leaves(cloud))
    scenario.step("one machine of a group on each hypervisor, and none for a fourth", lambda: _apart(cloud))
    scenario.step("a machine that only the newer release can run stays there and is named", lambda: _stays(cloud))
    scenario.step("evacuate: the newer release takes what the older one has", lambda: _evacuate(cloud))
    scenario.step("balance over all three, and nothing is left to do", lambda: _balance(cloud))


def _baseline(cloud: Cloud) -> None:
    spec = {"name": "mixed1", **COMMON}
    made, again = provision(cloud, spec, virt_cpu_baseline=True), provision(cloud, spec, virt_cpu_baseline=True)
    must(made.status == 0 and made.recap("changed") > 0, made.text)
    must(again.status == 0 and again.recap("changed") == 0, again.text)
    said = re.search(
        r"New machines get the CPU ([\w.-]+), which all of hv1, hv2, hv3 have, and the machine type (pc-q35-[\w.]+),",
        made.one_line,
    )
    must(said is not None, made.text)
    xml = cloud.on(OLDEST, "virsh dumpxml --inactive mixed1")
    must(said is not None and f">{said.group(1)}</model>" in xml and "<cpu mode='custom'" in xml, xml)
    must(said is not None and f"machine='{said.group(2)}'" in xml, xml)


def _leaves(cloud: Cloud) -> None:
    """Made on the newer release with what all have in common, a machine can go to an older one."""
    answer = provision(cloud, {"name": "mixed9", "hypervisor": NEWER}, virt_cpu_baseline=True)
    must(answer.status == 0 and "is not known on" not in answer.one_line, answer.text)
    answer = cloud.play_well("migrate", "-e", "vm=mixed9", "-e", f"to={FLEET[1]}", live=False)
    must("mixed9" in names(cloud, FLEET[1]) and "mixed9" not in names(cloud, NEWER), answer.text)


def _there_and_back(cloud: Cloud) -> None:
    for source, target in ((OLDEST, NEWER), (NEWER, FLEET[1]), (FLEET[1], OLDEST)):
        answer = cloud.play_well("migrate", "-e", "vm=mixed1", "-e", f"to={target}", live=False)
        must("mixed1" in names(cloud, target, "--state-running"), answer.text)
        must("mixed1" not in names(cloud, source), answer.text)


def _apart(cloud: Cloud) -> None:
    group = [{"name": f"mixed{number}", "anti_affinity": ["mixed"]} for number in (2, 3, 4)]
    answer = provision(cloud, *group)
    must(answer.status == 0, answer.text)
    bound = r"its machine type pc-q35-[\w.]+ is not known on hv1, hv2; virt_cpu_baseline gives one that all know"
    must(len(re.findall(bound, answer.one_line)) == 1, answer.text)
    for host in ALL:
        here = [name for name in names(cloud, host) if name in ("mixed2", "mixed3", "mixed4")]
        must(len(here) == 1, f"{host} has {here}")
    answer = provision(cloud, {"name": "mixed5", "anti_affinity": ["mixed"]})
    must(answer.status != 0 and "of the same anti-affinity group mixed" in answer.one_line, answer.text)
    must(all(host in answer.one_line for host in ALL), answer.text)


def _stays(cloud: Cloud) -> None:
    """The machine of the group that was made on the newer release has a machine type that the others lack."""
    (modern,) = (name for name in names(cloud, NEWER) if name in ("mixed2", "mixed3", "mixed4"))
    before = cloud.state_of_all()
    answer = cloud.play("evacuate", "-e", f"from={NEWER}", "--check", live=False)
    must(answer.status != 0 and f"{modern} stays where it is" in answer.one_line, answer.text)
    for host in FLEET:
        must(re.search(rf"{host}: [^;]*pc-q35-\S+", answer.one_line) is not None, f"{host}: {answer.text}")
    must(cloud.state_of_all() == before, "check mode has changed something")


def _evacuate(cloud: Cloud) -> None:
    here = names(cloud, OLDEST)
    answer = cloud.play(
        "evacuate", "-e", f"from={OLDEST}", "-e", f"to={NEWER}", "-e", "virt_anti_affinity=prefer", live=False
    )
    must(answer.status == 0, answer.text)
    must(names(cloud, OLDEST) == [] and set(here) <= set(names(cloud, NEWER)), answer.text)
    must("mixed1" in names(cloud, NEWER, "--state-running"), "mixed1 does not run on")
    cloud.play_well("maintenance", "-e", f"end={OLDEST}", live=False)


def _balance(cloud: Cloud) -> None:
    """The newer release has more than the others; what was made on an older one can go back."""
    answer = provision(
        cloud, *({**SPEC, "name": f"mixed{number}", "memory": 256, "hypervisor": OLDEST} for number in (6, 7, 8))
    )
    must(answer.status == 0, answer.text)
    limit = ["-e", "limit=2", "-e", "virt_anti_affinity=prefer"]
    ahead = cloud.play_well("balance", *limit, "--check", live=False)
    moves = re.findall(r"^(mixed\d+) .* (hv\d) +(hv\d) +hv\d from \d+ to \d+%", ahead.text, re.M)
    must(len(moves) > 0, f"nothing is to be moved: {ahead.text}")
    answer = cloud.play_well("balance", *limit, live=False)
    for name, source, target in moves:
        must(name in names(cloud, target) and name not in names(cloud, source), answer.text)
    again = cloud.play_well("balance", *limit, live=False)
    must(again.recap("changed") == 0 and "be moved: hv" in again.text, again.text)
