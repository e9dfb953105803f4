# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_init killed before and during every step: the next run ends with the machine, and no stray volume."""

from __future__ import annotations

import functools
import re
import subprocess

from ..cloud import Cloud, must
from ..teller import Teller

HOST = "hv2"
PLACE = "/var/tmp/brine-killing"
STEPS = 5
EXPECTED = ["kill1-seed.iso", "kill1-system.qcow2"]


def tell(teller: Teller, cloud: Cloud) -> None:
    teller.step("the collection is on the host", lambda: _bring(cloud), vital=True)
    clean = _volumes(cloud)
    for step in range(STEPS):
        for moment in ("before", "during"):
            teller.step(
                f"killed {moment} step {step + 1} of {STEPS}, run again",
                functools.partial(_kill, cloud, step, moment, clean),
            )
    cloud.on(HOST, f"rm -rf {PLACE}")


def _bring(cloud: Cloud) -> None:
    installed = cloud.build / "installed"
    packed = subprocess.run(
        ["tar", "-C", str(installed), "-c", "ansible_collections/brine/virt/plugins"],
        stdout=subprocess.PIPE,
        check=True,
    )
    driver = (cloud.root / "tests/scenario/kill_driver.py").read_text(encoding="utf-8")
    for command, data in (
        (f"mkdir -p {PLACE} && tar -C {PLACE} -x", packed.stdout),
        (f"cat >{PLACE}/driver.py", driver),
    ):
        answer = cloud.run(str(cloud.root / "tests/lab/lab"), "ssh", HOST, command, stdin=data)
        must(answer.status == 0, answer.text)


def _volumes(cloud: Cloud) -> list[str]:
    text = cloud.on(HOST, "for p in default images; do virsh pool-refresh $p >/dev/null; virsh vol-list $p; done")
    return sorted(re.findall(r"^ (\S+) +/", text, re.MULTILINE))


def _kill(cloud: Cloud, step: int, moment: str, clean: list[str]) -> None:
    killed = cloud.lab("ssh", HOST, f"cd {PLACE} && python3 driver.py {step} {moment}")
    must(killed.status in (137, 255), f"the run was to be killed, and ended with {killed.status}: {killed.text}")
    again = cloud.lab("ssh", HOST, f"cd {PLACE} && python3 driver.py none")
    must(again.status == 0, again.text)
    xml = cloud.on(HOST, "virsh dumpxml kill1")
    must('status="ready"' in xml, xml)
    must("kill1" in cloud.on(HOST, "virsh list --name").split(), "the machine does not run")
    must(_volumes(cloud) == sorted([*clean, *EXPECTED]), f"volumes: {_volumes(cloud)}")
    third = cloud.lab("ssh", HOST, f"cd {PLACE} && python3 driver.py none")
    must(third.status == 0 and "0 steps" in third.text, third.text)
    cloud.on(HOST, "virsh destroy kill1; virsh undefine kill1; virsh vol-delete kill1-seed.iso default;"
             " virsh vol-delete kill1-system.qcow2 default")  # fmt: skip
    must(_volumes(cloud) == clean, "the test has not cleaned up after itself")
