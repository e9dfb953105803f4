# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move whose disks are copied waits for another run as long as its own time limit allows."""

from __future__ import annotations

import functools
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError, StoppedError
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate import context
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.context import (
    MigrationPlan,
    hold_hypervisor,
)

Lock = t.Callable[..., t.ContextManager[None]]


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lock:
    here = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(context, "hypervisor_lock", here)
    monkeypatch.setattr(context, "_LOOK_SECONDS", 0.01)
    return functools.partial(here, "init", wait_seconds=0)


def migration(timeout_seconds: float | None = None) -> MigrationPlan:
    found = MigrationPlan("web1", timeout_seconds=timeout_seconds)
    found.began = time.monotonic()
    return found


def test_it_is_held_for_the_block(locked: Lock) -> None:
    told: list[bool] = []
    move = migration(0.0)
    move.waiting = told.append
    # A lock that is free is taken, however late it is.
    with hold_hypervisor(move, threading.Event()), pytest.raises(ConflictError), locked():
        pass
    with locked():
        pass
    assert told == []


def test_without_a_time_limit_it_waits_until_the_other_run_ends(locked: Lock) -> None:
    told: list[bool] = []
    ended = threading.Event()
    move = migration()

    def waiting(first: bool) -> None:
        told.append(first)
        if len(told) == 3:
            ended.set()

    move.waiting = waiting
    held, began = threading.Event(), time.monotonic()

    def other_run() -> None:
        with locked():
            held.set()
            assert ended.wait(60)

    thread = threading.Thread(target=other_run)
    thread.start()
    assert held.wait(60)
    with hold_hypervisor(move, threading.Event()):
        assert told[:3] == [True, False, False]
    thread.join()
    assert time.monotonic() - began < 60


def test_its_time_limit_ends_the_wait_and_says_why(locked: Lock, tmp_path: Path) -> None:
    with locked(), pytest.raises(ConflictError) as caught, hold_hypervisor(migration(0.1), threading.Event()):
        pass
    assert str(caught.value) == (
        "it did not finish within 0.1 s, as another run is at work on this hypervisor. Wait for it to end; fuser "
        f"{tmp_path}/locks/init.lock shows its process"
    )


def test_who_stops_the_task_does_not_wait_for_it(locked: Lock) -> None:
    stop = threading.Event()
    stop.set()
    with locked(), pytest.raises(StoppedError), hold_hypervisor(migration(), stop):
        pass


def test_what_fails_while_it_is_held_is_no_wait(locked: Lock) -> None:
    for error in (ConflictError("changed meanwhile"), HostError("broken")):
        with pytest.raises(type(error), match=error.what), hold_hypervisor(migration(), threading.Event()):
            raise error
    with locked():
        pass
