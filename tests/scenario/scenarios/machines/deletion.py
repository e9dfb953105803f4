# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing that is in use is deleted: after a move, when what killed runs have left is removed, and whoever runs stays.

The users are such as only virsh and qemu-img know of: a disk that was attached to a running machine until it stops, and
an overlay that somebody has laid on a disk by hand.
"""

from __future__ import annotations

import functools
import re

from ...cloud import Cloud, must
from ...driving.users import USERS, User
from ...kill_runs import KillDriver
from ...moving import forget, has_moved, migrate, refused, volumes
from ...needs import TINY
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")
HERE, THERE = "hv2", "hv1"
OWNER, OTHER, UNFINISHED = "del1", "del2", "kill1"
IMAGES = "/var/lib/libvirt/images"
PLACE = "/var/tmp/brine-deletion"
DRIVER = KillDriver(HERE, PLACE)
# The steps of the driver's specs, by their number: see tests/scenario/kill_driver.py.
MARK_AS_READY, SECOND_NEW_DISK = "3", "2"


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    try:
        scenario.step("two machines, and runs that can be killed", lambda: _prepare(cloud), vital=True)
        for words, user in USERS:
            scenario.step(
                f"a machine stays where it is when {words} its disk", functools.partial(_move_refused, cloud, user)
            )
        scenario.step("without them it moves, and its volumes go", lambda: _move(cloud))
        scenario.step(
            "a run is killed before its machine is finished", lambda: DRIVER.run_killed(cloud, "new", MARK_AS_READY)
        )
        for words, user in USERS:
            scenario.step(f"it is not removed when {words} its disk", functools.partial(_not_removed, cloud, user))
        scenario.step("it is not removed when somebody has started it, and can be kept", lambda: _started(cloud))
        scenario.step(
            "a run is killed while it adds disks, and another machine gets one of them", lambda: _half_added(cloud)
        )
    finally:
        for name in (OWNER, OTHER, UNFINISHED):
            forget(cloud, name)
        DRIVER.remove(cloud)


def _prepare(cloud: Cloud) -> None:
    for name, start in ((OWNER, False), (OTHER, True)):
        answer, _result = cloud.init(HERE, **{**TINY, "name": name, "start": start, "seed": {"method": "none"}})
        must(answer.status == 0, answer.text)
    DRIVER.install(cloud)


def _move_refused(cloud: Cloud, user: User) -> None:
    with user(cloud, HERE, OTHER, f"{IMAGES}/{OWNER}-system.qcow2") as who:
        refused(cloud, OWNER, THERE, f"could not be deleted here afterwards: it is used by {who}")


def _move(cloud: Cloud) -> None:
    had = volumes(cloud, HERE, OWNER)
    answer, _result = migrate(cloud, HERE, name=OWNER, target=THERE)
    must(answer.status == 0, answer.text)
    has_moved(cloud, OWNER, HERE, THERE, had)


def _not_removed(cloud: Cloud, user: User) -> None:
    volume = f"{UNFINISHED}-system.qcow2"
    with user(cloud, HERE, OTHER, f"{IMAGES}/{volume}") as who:
        before = cloud.state(HERE)
        answer = DRIVER.run(cloud, "new", "none")
        words = f"machine {UNFINISHED} was never finished, and cannot be removed: volume {volume}"
        must(answer.status != 0 and words in answer.text and f"it is used by {who}" in answer.text, answer.text)
        must(cloud.state(HERE) == before, "something has changed")


def _started(cloud: Cloud) -> None:
    cloud.on(HERE, f"virsh start {UNFINISHED}")
    process = cloud.on(HERE, f"cat /run/libvirt/qemu/{UNFINISHED}.pid")
    answer = DRIVER.run(cloud, "new", "none")
    must(answer.status != 0 and "but it runs, so it is left as it is" in answer.text, answer.text)
    found = re.search(r"To keep it as it is: (virsh metadata .*?)\. To have it", answer.one_line)
    must(found is not None, answer.text)
    cloud.on(HERE, found.group(1) if found else "")
    answer = DRIVER.run(cloud, "new", "none")
    must(answer.status == 0 and "new, 0 steps" in answer.text, answer.text)
    must(cloud.on(HERE, f"cat /run/libvirt/qemu/{UNFINISHED}.pid") == process, "it is another process than before")


def _half_added(cloud: Cloud) -> None:
    DRIVER.run_killed(cloud, "more", SECOND_NEW_DISK)
    volume = f"{UNFINISHED}-data.qcow2"
    must(volume in volumes(cloud, HERE, UNFINISHED), f"the killed run has made no {volume}")
    cloud.on(HERE, f"virsh attach-disk {OTHER} {IMAGES}/{volume} vdc --subdriver qcow2 --config")
    answer = DRIVER.run(cloud, "more", "none")
    must(answer.status != 0 and f"has a volume '{volume}' already" in answer.text, answer.text)
    answer = DRIVER.run(cloud, "new", "none")
    must(answer.status == 0, answer.text)
    must(volume in volumes(cloud, HERE, UNFINISHED), f"{volume} was deleted")
    must(volume not in cloud.on(HERE, f"virsh dumpxml {UNFINISHED}"), "it still counts as the machine's own")
