# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An error that nobody expected, while several machines are moved."""

from __future__ import annotations

import contextlib
import functools
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host import locks
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.options import MigrationOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.plan import MigrationPlan
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.task import machines
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step


def carry_out(monkeypatch: pytest.MonkeyPatch, migrations: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
    def planned(name: str, *_rest: t.Any) -> MigrationPlan:
        if isinstance(migrations[name], Exception):
            raise migrations[name]
        return t.cast("MigrationPlan", migrations[name])

    def unlocked(*_args: t.Any, **_options: t.Any) -> t.ContextManager[None]:
        return contextlib.nullcontext()

    monkeypatch.setattr(machines, "plan_migration", planned)
    monkeypatch.setattr(machines, "machine_lock", unlocked)
    with open_connection("test:///default") as conn:
        task = machines.TaskMigrations(conn, threading.Event(), ProgressFile(None))
        specs = [machines.MigrationSpec(name, "test:///default", "", MigrationOptions()) for name in migrations]
        outcomes = task.carry_out(specs, concurrency=2)
    return {outcome.spec.name: outcome.as_result() for outcome in outcomes}


def test_an_error_while_it_is_planned_is_that_machines_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = carry_out(monkeypatch, {"a": KeyError("vendor"), "b": MigrationPlan("b", [Step("x", lambda: None)])})
    assert found["a"]["msg"].startswith("unexpected KeyError in test_machines_faults.py, line ")
    assert (found["b"]["failed"], found["b"]["changed"]) == (False, True)


@pytest.mark.parametrize("part", ["before", "after"])
def test_an_error_while_it_is_moved_is_that_machines_alone(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    undone: list[str] = []

    def fail() -> None:
        raise RuntimeError("a defect")

    steps: dict[str, t.Any] = {part: [Step("x", fail, lambda: undone.append("x"))]}
    found = carry_out(
        monkeypatch, {"a": MigrationPlan("a", **steps), "b": MigrationPlan("b", [Step("x", lambda: None)])}
    )
    assert "unexpected RuntimeError in test_machines_faults.py, line" in found["a"]["msg"]
    assert undone == (["x"] if part == "before" else [])
    assert (found["b"]["failed"], found["b"]["changed"]) == (False, True)


def test_a_machine_that_another_run_moves_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    locked = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(locks, "hypervisor_lock", locked)
    with open_connection("test:///default") as conn, locked("move-a", wait_seconds=0):
        task = machines.TaskMigrations(conn, threading.Event(), ProgressFile(None))
        spec = machines.MigrationSpec("a", "test:///default", "", MigrationOptions())
        (outcome,) = task.carry_out([spec], concurrency=1)
    said = str(outcome.error)
    assert said.startswith(
        "another run is moving, backing up, restoring or removing machine a, or changing its power state. "
        "Wait for it to end; "
    )
    assert said.endswith("/locks/move-a.lock shows its process")
