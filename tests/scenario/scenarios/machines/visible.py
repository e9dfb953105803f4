# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operator sees: what changed, what waits for power off and on, and how far a machine is on its way."""

from __future__ import annotations

import json
import re
import typing as t

from ...cloud import Cloud, must
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
NAME = "seen1"
PENDING = "until power off and on (a reboot in the guest is not enough): memory"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    path = str(cloud.build / "scenario-seen.yml")
    scenario.step("provision says what is new, and nothing the second time", lambda: _new(cloud, path), vital=True)
    scenario.step("query has nothing pending for a machine as it was made", lambda: _query(cloud, pending=False))
    scenario.step("provision and query show what waits for power off and on", lambda: _pending(cloud, path))
    scenario.step("the picture is a file with the machine and what is pending", lambda: _picture(cloud))
    scenario.step("start: false on a running machine is reported", lambda: _running(cloud))
    scenario.step("the wait shows the stage, and ends when there is nothing to boot from", lambda: _dead_end(cloud))


def _provision(cloud: Cloud, path: str, **changes: object) -> str:
    machine = {**TINY, "name": NAME, "hypervisor": "hv1", "tags": ["front"], **changes}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"virt_vms": [machine], "virt_provision_wait": False}, file)
    return cloud.play_well("provision", "-e", f"@{path}").text


def _new(cloud: Cloud, path: str) -> None:
    text = _provision(cloud, path)
    must(re.search(rf"^{NAME} +hv1 +created ", text, re.MULTILINE) is not None, text)
    text = _provision(cloud, path)
    must("\n1 machine is already up to date.\n" in text, text)


def _query(cloud: Cloud, *, pending: bool) -> None:
    text = cloud.play_well("query", "-e", f"vm={NAME}").text
    for line in ("Hypervisor: hv1", "Tags: front", "In the guest - vda: /dev/disk/by-id/virtio-system"):
        must(f"\n  {line}\n" in text, text)
    must(re.search(r"^  Image: tiny \(tiny-[0-9a-f]{16}\.qcow2\)$", text, re.MULTILINE) is not None, text)
    must((f"\n  Pending {PENDING}\n" in text) is pending and ("Pending" in text) is pending, text)


def _pending(cloud: Cloud, path: str) -> None:
    text = _provision(cloud, path, memory=160)
    must(f"change the definition of {NAME}: memory; pending {PENDING}" in text, text)
    for said in (text, _provision(cloud, path, memory=160)):
        must(re.search(rf"^{NAME} +hv1 .* pending {re.escape(PENDING)}$", said, re.MULTILINE) is not None, said)
    _query(cloud, pending=True)


def _picture(cloud: Cloud) -> None:
    file = cloud.build / "scenario-picture.html"
    file.unlink(missing_ok=True)
    answer = cloud.play_well("picture", "-e", f"file={file}", "--check")
    must(answer.recap("changed") == 1 and not file.exists(), answer.text)
    answer = cloud.play_well("picture", "-e", f"file={file}")
    must(
        answer.recap("changed") == 1 and f"Wrote {file}: hypervisors {len(cloud.hosts)}, machines " in answer.text,
        answer.text,
    )
    page = file.read_text(encoding="utf-8")
    entry = page.partition(f'<b class="name"><bdi>{NAME}</bdi></b>')[2].partition("</li>")[0]
    for shown in ('<span class="state">running</span>', "<bdi>front</bdi>", "<bdi>tiny</bdi>", "Pending: memory"):
        must(shown in entry, f"{shown} is not in: {entry}")
    for host in cloud.hosts:
        must(f'data-name="{host}"' in page, f"{host} has no place on the page")
    must(page.count("<script>") == 1 and "certificates: " in page, page[:3000])


def _running(cloud: Cloud) -> None:
    answer, result = cloud.init("hv1", **TINY, name=NAME, start=False)
    must(answer.status == 0, answer.text)
    must(f"{NAME} is running, and start: false does not stop it" in answer.text, f"{result}\n{answer.text}")


def _dead_end(cloud: Cloud) -> None:
    """UEFI says on the serial console that there is nothing to boot from."""
    options: dict[str, t.Any] = {
        "memory": 128,
        "vcpus": 1,
        "firmware": "efi",
        "nic_profile": None,
        "seed": {"method": "none"},
    }
    answer, _result = cloud.init(
        "hv1", name="seen2", disks=[{"name": "empty", "size": 64}], disk_profile=None, **options
    )
    must(answer.status == 0, answer.text)
    answer = cloud.ansible("hv1", "brine.virt.virt_wait", json.dumps({"names": ["seen2"], "timeout": 300}))
    must(re.search(r"^  hv1: \d+ s: booting: seen2$", answer.text, re.MULTILINE) is not None, answer.text)
    must("its serial console shows that there is nothing to boot from" in answer.text, answer.text)
