# SPDX-License-Identifier: GPL-3.0-or-later
"""A hypervisor is emptied, all but a machine that can be nowhere else."""

from __future__ import annotations

import json
import re
import typing as t

from ...cloud import Answer, Cloud, must
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "alone", "tiny")
SPEC: dict[str, t.Any] = {
    "vcpus": 1,
    "memory": 128,
    "image": "tiny",
    "disks": [{"name": "system", "size": 64}],
    "seed": False,
    "start": False,
}
MARK = "/var/lib/brine-virt/maintenance.json"
# On hv1 only. The machine on it cannot be anywhere else.
BRIDGE = "br-fleet"
MOVABLE = ["fleet1", "fleet2", "fleet3", "fleet5"]


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step(
        "five machines on hv1, one of them on a bridge that hv2 does not have", lambda: five_machines(cloud), vital=True
    )
    scenario.step("evacuate, check mode: says who goes where, and changes nothing", lambda: _evacuate_ahead(cloud))
    scenario.step("evacuate: four have moved, the fifth is named", lambda: empty_hv1(cloud), vital=True)
    scenario.step("evacuate again: nothing to change", lambda: _evacuate_again(cloud))


def names(cloud: Cloud, host: str, *words: str) -> list[str]:
    return sorted(cloud.on(host, f"virsh list --name {' '.join(words) or '--all'}").split())


def provision(cloud: Cloud, *machines: dict[str, t.Any], words: t.Sequence[str] = (), **more: t.Any) -> Answer:
    variables = {
        "virt_vms": [{**SPEC, **machine} for machine in machines],
        "virt_images": {"tiny": {"src": cloud.images["tiny"]}},
        "virt_provision_wait": False,
        **more,
    }
    return cloud.play("provision", "-e", json.dumps(variables), *words, live=False)


def five_machines(cloud: Cloud) -> None:
    """fleet1 to fleet5 on hv1."""
    cloud.on("hv1", f"ip link show {BRIDGE} >/dev/null 2>&1 || ip link add {BRIDGE} up type bridge")
    answer = provision(
        cloud,
        {"name": "fleet1", "hypervisor": "hv1", "start": True},
        {"name": "fleet2", "hypervisor": "hv1", "memory": 192},
        {"name": "fleet3", "hypervisor": "hv1", "anti_affinity": "fleet"},
        {"name": "fleet4", "hypervisor": "hv1", "nics": {"eth0": {"bridge": BRIDGE}}},
        {"name": "fleet5", "hypervisor": "hv1"},
    )
    must(answer.status == 0, answer.text)
    must(names(cloud, "hv1") == ["fleet1", "fleet2", "fleet3", "fleet4", "fleet5"], str(names(cloud, "hv1")))


def _evacuate_ahead(cloud: Cloud) -> None:
    before = cloud.state_of_all()
    answer = cloud.play("evacuate", "-e", "from=hv1", "--check", live=False)
    _must_plan(answer)
    must(cloud.state_of_all() == before, "check mode has changed something")
    cloud.on("hv1", f"! test -e {MARK}")


def _must_plan(answer: Answer) -> None:
    rows = [rf"{name} .* hv1 +hv2 +the only hypervisor it fits on" for name in MOVABLE]
    rows.append(rf"fleet4 .* hv1 +- +fits on no other hypervisor: hv2: has no bridge {BRIDGE} \(has ")
    for row in rows:
        must(re.search(f"^{row}", answer.text, re.MULTILINE) is not None, f"{row} is not in: {answer.text}")
    must(answer.status != 0 and "fleet4 stays where it is" in answer.one_line, answer.text)


def empty_hv1(cloud: Cloud) -> None:
    """Only fleet4 is left on it, and it is in maintenance."""
    answer = cloud.play("evacuate", "-e", "from=hv1", "-e", "reason=fan", live=False)
    _must_plan(answer)
    must(names(cloud, "hv1") == ["fleet4"], f"on hv1: {names(cloud, 'hv1')}")
    must(names(cloud, "hv2") == MOVABLE, f"on hv2: {names(cloud, 'hv2')}")
    must(names(cloud, "hv2", "--state-running") == ["fleet1"], "fleet1 does not run on")
    volumes = cloud.on("hv1", "virsh pool-refresh default >/dev/null; virsh vol-list default")
    must("fleet4-system" in volumes and "fleet1-system" not in volumes, volumes)


def _evacuate_again(cloud: Cloud) -> None:
    before = cloud.state_of_all()
    answer = cloud.play("evacuate", "-e", "from=hv1", live=False)
    must(answer.status != 0 and "fleet4 stays where it is" in answer.one_line, answer.text)
    must(answer.recap("changed") == 0 and cloud.state_of_all() == before, answer.text)
