# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a hypervisor of the lab: takes or reverts a snapshot in a Ceph cluster, and ends itself by SIGKILL.

Arguments: when, the machine, and the snapshot. When: the cluster has the snapshot and libvirt does not know it
(``described``); the machine is held (``held``); between its two disks (``half``); all is rolled back, and the
description is not (``back``).
"""

from __future__ import annotations

import os
import signal
import sys
import time
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.progress import progress_file
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import (
    held,
    machines,
    plan,
    rolling_back,
    take,
)

_roll_back = rolling_back.in_cluster.roll_back
_redefine = rolling_back.redefine
_redefined: list[t.Any] = []


def die(*_words: t.Any, **_more: t.Any) -> t.NoReturn:
    """End this process in place of the step."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came back")


def half(volumes: t.Any, *more: t.Any) -> None:
    """Roll back the first disk alone."""
    _roll_back(volumes[:1], *more)
    die()


def back(*words: t.Any) -> None:
    """Define the machine once, and not a second time."""
    if _redefined:
        die()
    _redefined.append(words)
    _redefine(*words)


INSTEAD: dict[str, tuple[t.Any, str, t.Any]] = {
    "described": (take, "record_xml", die),
    "held": (held, "let_go", die),
    "half": (rolling_back.in_cluster, "roll_back", half),
    "back": (rolling_back, "redefine", back),
}


def main() -> None:
    """Run what the command line says."""
    when, machine, name = sys.argv[1:]
    setattr(*INSTEAD[when])
    state = "reverted" if when in ("half", "back") else "present"
    request = plan.SnapshotRequest(state, time.time(), (name,), force=True)
    with open_connection("qemu:///system") as conn, progress_file(None) as progress:
        results = machines.plan_snapshots(conn, [machine], request)
        machines.carry_out(conn, results, request, progress, concurrency=1, lock_seconds=60)
    print(results)


if __name__ == "__main__":
    main()
