# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_init killed before and during every step, and every step made to fail, for new machines and for existing ones.

After a kill the next run ends with the machine, and no stray volume. After a failure all is as before. The stored
image is never touched.
"""

from __future__ import annotations

import functools
import re

from ...cloud import Cloud, must
from ...kill_runs import KillDriver
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HOST = "hv2"
DRIVER = KillDriver(HOST, "/var/tmp/brine-killing")
# How many steps each spec of the driver has; see _must_fail.
NEW_STEPS = 5
MORE_STEPS = 8
NEW = ["kill1-seed.iso", "kill1-system.qcow2"]
MORE = ["kill1-copy.qcow2", "kill1-data.qcow2", *NEW]


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step("the collection is on the host", lambda: DRIVER.install(cloud), vital=True)
    clean, image = _volumes(cloud), _image(cloud)
    for step in range(NEW_STEPS):
        for moment in ("before", "during"):
            scenario.step(
                f"killed {moment} step {step + 1} of {NEW_STEPS}, run again",
                functools.partial(_kill_new, cloud, step, moment, clean),
            )
        scenario.step(f"step {step + 1} fails: nothing is left", functools.partial(_fail_new, cloud, step))
    scenario.step("a machine to change", lambda: _drive_well(cloud, "new", "none"), vital=True)
    for step in range(MORE_STEPS):
        scenario.step(
            f"step {step + 1} of {MORE_STEPS} of a change fails: all is as before",
            functools.partial(_fail_more, cloud, step),
        )
    for step in range(MORE_STEPS):
        for moment in ("before", "during"):
            scenario.step(
                f"killed {moment} step {step + 1} of {MORE_STEPS} of a change, run again",
                functools.partial(_kill_more, cloud, step, moment, clean),
            )
    scenario.step("the stored image has the same sha256 as before all this", lambda: _same(cloud, image))
    _remove_machine(cloud)
    DRIVER.remove(cloud)


def _drive_well(cloud: Cloud, *words: str) -> str:
    answer = DRIVER.run(cloud, *words)
    must(answer.status == 0, answer.text)
    return answer.text


def _volumes(cloud: Cloud) -> list[str]:
    text = cloud.on(HOST, "for p in default images; do virsh pool-refresh $p >/dev/null; virsh vol-list $p; done")
    return sorted(re.findall(r"^ (\S+) +/", text, re.MULTILINE))


def _image(cloud: Cloud) -> str:
    return cloud.on(HOST, "sha256sum $(virsh vol-list images | awk '/tiny-/ {print $2}')")


def _same(cloud: Cloud, image: str) -> None:
    must(_image(cloud) == image, "the image has changed")


def _must_be_whole(cloud: Cloud, spec: str, expected: list[str], clean: list[str]) -> None:
    """The next run ends with the machine, one more has nothing to do, and there is no volume too many."""
    _drive_well(cloud, spec, "none")
    xml = cloud.on(HOST, "virsh dumpxml kill1")
    must('status="ready"' in xml and 'status="building"' not in xml, xml)
    must("kill1" in cloud.on(HOST, "virsh list --name").split(), "the machine does not run")
    must(_volumes(cloud) == sorted([*clean, *expected]), f"volumes: {_volumes(cloud)}")
    must(", 0 steps" in _drive_well(cloud, spec, "none"), "a third run has something to do")


def _must_fail(cloud: Cloud, *words: str) -> None:
    failed = DRIVER.run(cloud, *words)
    must(failed.status == 1 and "was to fail" in failed.text, failed.text)
    must("could not be rolled back" not in failed.text, failed.text)
    count = {"new": NEW_STEPS, "more": MORE_STEPS}[words[0]]
    must(f", {count} steps" in failed.text, f"not every step is proved: {failed.text}")


def _kill_new(cloud: Cloud, step: int, moment: str, clean: list[str]) -> None:
    DRIVER.run_killed(cloud, "new", str(step), moment)
    _must_be_whole(cloud, "new", NEW, clean)
    _remove_machine(cloud)
    must(_volumes(cloud) == clean, "the test has not cleaned up after itself")


def _fail_new(cloud: Cloud, step: int) -> None:
    before = cloud.state(HOST)
    _must_fail(cloud, "new", str(step), "after")
    must(cloud.state(HOST) == before, "something is left")


def _fail_more(cloud: Cloud, step: int) -> None:
    # A guest that is still booting does not let go of a device.
    log = "/var/log/libvirt/qemu/kill1-serial.log"
    cloud.on(HOST, f"for i in $(seq 60); do grep -q 'guest has' {log} && break; sleep 1; done")
    before = cloud.state(HOST)
    _must_fail(cloud, "more", str(step), "after")
    must(cloud.state(HOST) == before, "something is left")


def _kill_more(cloud: Cloud, step: int, moment: str, clean: list[str]) -> None:
    DRIVER.run_killed(cloud, "more", str(step), moment)
    _must_be_whole(cloud, "more", MORE, clean)
    live = cloud.on(HOST, "virsh domblklist kill1; virsh domiflist kill1")
    must("kill1-data" in live and "kill1-copy" in live and live.count("br0") == 2, live)
    _remove_machine(cloud)
    _drive_well(cloud, "new", "none")


def _remove_machine(cloud: Cloud) -> None:
    cloud.on(
        HOST,
        "virsh destroy kill1; virsh undefine kill1; rm -f /var/log/libvirt/qemu/kill1-serial.log;"
        " for v in $(virsh vol-list default | awk '/kill1-/ {print $1}'); do virsh vol-delete $v default; done",
    )
