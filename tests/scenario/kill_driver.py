# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a hypervisor of the lab: plans and makes one machine as virt_init does, and fails at a chosen moment.

Arguments: the spec, by its name in SPECS, or ``purge``, which removes the machine as virt_purge does with force; the
number of the step, from 0, or ``none``; and what happens: death ``before`` it or ``during`` it, or a failure ``after``
it. Or, in place of a spec, ``present``, ``absent`` or ``reverted`` with a machine and a snapshot after a colon each,
for virt_snapshot with force; or ``aside`` with a machine, which is as far as a move comes with its snapshots.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
import time
import typing as t

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.machines.set_aside import set_aside
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import HypervisorView
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans, run_plans
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.plan import plan_purge, steps_to_purge
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.volumes import PurgeOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.method import NO
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.plan import SnapshotRequest
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.plan import plan as plan_snapshot

NEW: dict[str, t.Any] = {
    "name": "kill1",
    "vcpus": 1,
    "memory": 128,
    "image": "tiny",
    "disks": [{"name": "system", "size": 256}],
}
# For a machine that is there and runs: volumes, the record, the running machine and the notes all change.
MORE: dict[str, t.Any] = {
    **NEW,
    "clock": "localtime",
    "tags": ["more"],
    "disks": [
        {"name": "system", "size": 256},
        {"name": "data", "size": 16},
        {"name": "copy", "image": "tiny", "clone": "copy"},
    ],
    "nics": [{"name": "eth0"}, {"name": "eth1"}],
}
SPECS = {"new": NEW, "more": MORE}
# Long enough for the call to reach the daemon, short enough for it to be still at work.
DURING_SECONDS = 0.004


def die() -> None:
    """No handler, no cleaning up: what a power cut is to a process."""
    os.kill(os.getpid(), signal.SIGKILL)


def deadly(apply: t.Callable[[], t.Any], moment: str) -> t.Callable[[], t.Any]:
    """The step with death before it, or in it."""

    def die_soon() -> None:
        time.sleep(DURING_SECONDS)
        die()

    def wrapped() -> None:
        if moment == "before":
            die()
        if moment == "after":
            apply()
            raise HostError("this step was to fail")
        threading.Thread(target=die_soon, daemon=True).start()
        apply()
        time.sleep(1)

    return wrapped


def purge(number: str, moment: str) -> int:
    """Remove the machine, or die trying."""
    with open_connection("qemu:///system") as conn, hypervisor_lock("init", wait_seconds=30):
        plan = plan_purge(NEW["name"], HypervisorView(conn), PurgeOptions(force=True))
        steps = [] if plan is None else steps_to_purge(conn, plan)
        for index, step in enumerate(steps):
            (deadly(step.apply, moment) if str(index) == number else step.apply)()
    print(f"purge, {len(steps)} steps")
    return 0


def snapshot(words: str, number: str, moment: str) -> int:
    """Do to a snapshot what virt_snapshot does, or die trying."""
    state, machine, *names = words.split(":")
    with open_connection("qemu:///system") as conn, hypervisor_lock("init", wait_seconds=30):
        if state == "aside":
            set_aside(conn.lookupByName(machine))
            return 0
        # Without the memory, it has a file of its own where that can be.
        request = SnapshotRequest(state, time.time(), tuple(names), memory=NO, force=True)
        steps = plan_snapshot(conn, machine, request).steps
        for index, step in enumerate(steps):
            (deadly(step.apply, moment) if str(index) == number else step.apply)()
    print(f"{state}, {len(steps)} steps")
    return 0


def main(spec: str, number: str, moment: str = "before") -> int:
    """Make the machine, or die trying."""
    if spec == "purge":
        return purge(number, moment)
    if ":" in spec:
        return snapshot(spec, number, moment)
    with open_connection("qemu:///system") as conn, hypervisor_lock("init", wait_seconds=30):
        plans = make_plans([read_machine(SPECS[spec])], Hypervisor(conn, image_pool="images"), "")
        if number != "none":
            steps = list(plans[0].steps)
            index = int(number)
            steps[index] = dataclasses.replace(steps[index], apply=deadly(steps[index].apply, moment))
            plans = [dataclasses.replace(plans[0], steps=steps)]
        outcome = run_plans(plans, concurrency=1)[0]
    print(f"{spec}, {len(outcome.steps)} steps, error: {outcome.error}")
    return 0 if outcome.error is None else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
