# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong input ends in one clear sentence, and nothing is changed."""

from __future__ import annotations

import functools
import json
import typing as t

from ...cloud import Cloud, must
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny", "web1")
GOOD: dict[str, t.Any] = {"name": "bad1", "vcpus": 1, "memory": 128, "image": "tiny"}

# What is wrong, the spec, and words that the sentence has to have.
SPECS: list[tuple[str, dict[str, t.Any], list[str]]] = [
    ("an unknown option", {"vcpu": 1}, ["virt_vms[0]", "'vcpu'", "Did you mean vcpus?"]),
    (
        "an unknown option of a disk",
        {"disks": [{"name": "system", "sise": 1}]},
        ["virt_vms[0].disks[0]", "'sise'", "size"],
    ),
    ("an unknown disk profile", {"disk_profile": "dafault"}, ["virt_vms[0].disk_profile", "'dafault'", "default"]),
    ("an unknown nic profile", {"nic_profile": "dual"}, ["virt_vms[0].nic_profile", "'dual'", "default"]),
    ("an unknown pool", {"disks": [{"name": "system", "pool": "defualt"}]}, ["virt_vms[0]", "defualt", "default"]),
    ("an unknown bridge", {"nics": [{"name": "eth0", "bridge": "br9"}]}, ["virt_vms[0]", "br9", "br0"]),
    ("an unknown network", {"nics": [{"name": "eth0", "network": "nonet"}]}, ["virt_vms[0]", "nonet"]),
    ("an unknown image", {"image": "tinny"}, ["virt_vms[0]", "tinny", "tiny"]),
    ("more memory than any host has", {"memory": "9TiB"}, ["virt_vms[0]", "hv1", "hv2", "MiB"]),
    ("more CPUs than any host has", {"vcpus": 4000}, ["virt_vms[0]", "hv1", "hv2", "4000"]),
    ("an invalid size", {"disks": [{"name": "system", "size": "8 parsecs"}]}, ["size", "parsecs"]),
    ("an invalid name", {"name": "../../etc"}, ["virt_vms[0].name", "../../etc"]),
    ("a disk smaller than its image", {"disks": [{"name": "system", "size": "1MiB"}]}, ["1 MiB", "tiny"]),
    ("an unknown hypervisor", {"hypervisor": "hv3"}, ["virt_vms[0]", "hv3", "hv1"]),
]


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    before = cloud.state_of_all()
    for title, wrong, words in SPECS:
        scenario.step(f"{title} is refused", functools.partial(_refused, cloud, {**GOOD, **wrong}, words))
    scenario.step(
        "the same name twice is refused", lambda: _refused_list(cloud, [GOOD, GOOD], ["virt_vms[1].name", "bad1"])
    )
    scenario.step("a name that lives elsewhere is refused", lambda: _taken(cloud))
    scenario.step("no machine at all is refused", lambda: _refused_list(cloud, [], ["virt_vms", "-e vm=NAME"]))
    scenario.step("a bad checksum is refused", lambda: _bad_checksum(cloud))
    scenario.step("an image with a backing file is refused", lambda: _backing_file(cloud))
    scenario.step("after all this, nothing has changed on any host", lambda: _unchanged(cloud, before))


def _unchanged(cloud: Cloud, before: str) -> None:
    must(cloud.state_of_all() == before, "something has changed")


def _refused(cloud: Cloud, spec: dict[str, t.Any], words: list[str], images: dict[str, t.Any] | None = None) -> None:
    _refused_list(cloud, [spec], words, images)


def _refused_list(
    cloud: Cloud, specs: list[dict[str, t.Any]], words: list[str], images: dict[str, t.Any] | None = None
) -> None:
    given = {"virt_vms": specs, "virt_images": images or {"tiny": {"src": cloud.images["tiny"]}}}
    # What is wrong is said before the machines matter, so the live inventory is spared.
    answer = cloud.play("provision", "-e", json.dumps(given), live=False)
    must(answer.status != 0, f"it was accepted:\n{answer.text}")
    for word in words:
        must(word in answer.one_line, f"{word!r} is not said:\n{answer.text}")
    must("Traceback" not in answer.text, answer.text)


def _taken(cloud: Cloud) -> None:
    home = cloud.listed()["_meta"]["hostvars"]["web1"]["virt_hypervisor"]
    other = next(host for host in cloud.hosts if host != home)
    _refused(cloud, {**GOOD, "name": "web1", "hypervisor": other}, ["virt_vms[0]", "web1", home])


def _bad_checksum(cloud: Cloud) -> None:
    images = {"tiny2": {"src": cloud.images["tiny"], "checksum": f"sha256:{'0' * 64}"}}
    _refused(cloud, {**GOOD, "image": "tiny2"}, ["checksum", "0" * 64], images)


def _backing_file(cloud: Cloud) -> None:
    path = cloud.build / "scenario-overlay.qcow2"
    path.unlink(missing_ok=True)
    answer = cloud.run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", cloud.images["tiny"], str(path))
    must(answer.status == 0, answer.text)
    _refused(cloud, {**GOOD, "image": "tiny3"}, ["backing file"], {"tiny3": {"src": str(path)}})
