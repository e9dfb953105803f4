# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves carried out: what becomes of a machine when something goes wrong before, at and after the switch."""

from __future__ import annotations

import contextlib
import threading
import typing as t
from types import SimpleNamespace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.machines import migration as migrating
from ansible_collections.brine.virt.plugins.module_utils._host.machines.migration import MigrationControls, migrate
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate import context as migration_context
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate import switch
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.context import MigrationPlan
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints import location
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.location import (
    Endpoints,
    MachineLocation,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.options import MigrationOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.task.machines import (
    MigrationResult,
    MigrationSpec,
    TaskMigrations,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step


class Recorder:
    """What was done, in order; each word is a thing to do."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def does(self, word: str, failure: Exception | None = None) -> t.Callable[[], t.Any]:
        def act() -> None:
            self.words.append(word)
            if failure is not None:
                raise failure

        return act


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def walk(migration: MigrationPlan) -> MigrationResult:
    """Carry out one plan, as a task does."""
    migrations = TaskMigrations(None, threading.Event(), ProgressFile(None))
    spec = MigrationSpec("web1", "hv2", "", MigrationOptions())
    migrations._targets[spec.uri] = t.cast(t.Any, type("", (), {"allocations": {}})())
    outcome = MigrationResult(spec, "hv1", "hv2", migration)
    migrations._run_migration(outcome)
    return outcome


def planned(recorder: Recorder, **special: t.Any) -> MigrationPlan:
    """A plan with a step before the switch, the switch, and one after it."""
    steps = {
        "make": Step("make", recorder.does("make"), recorder.does("unmake")),
        "move": Step("move", recorder.does("move")),
    }
    after = [Step("clear", special.pop("clear", recorder.does("clear")))]
    if "move" in special:
        steps["move"] = Step("move", special.pop("move"))
    return MigrationPlan("web1", list(steps.values()), after, release=recorder.does("release"), **special)


def test_figures_come_last_and_never_make_a_finished_move_fail(recorder: Recorder) -> None:
    """The machine may be gone by then, and find() give nothing."""
    outcome = walk(
        planned(recorder, measure=recorder.does("measure", AttributeError("'NoneType' has no attribute 'jobStats'")))
    )
    assert outcome.error is None
    assert outcome.as_result()["changed"] is True
    assert [word for word in recorder.words if word != "release"] == ["make", "move", "clear", "measure"]


def test_figures_are_part_of_the_result(recorder: Recorder) -> None:
    outcome = walk(planned(recorder, measure=lambda: {"duration_ms": 7}))
    assert outcome.as_result()["duration_ms"] == 7


@pytest.mark.parametrize("failure", [HostError("it burns"), RuntimeError("it burns")])
def test_what_fails_after_the_switch_is_never_rolled_back(recorder: Recorder, failure: Exception) -> None:
    outcome = walk(planned(recorder, clear=recorder.does("clear", failure)))
    assert "web1 is on hv2, but not everything is finished" in str(outcome.error)
    assert "it burns" in str(outcome.error)
    assert outcome.as_result()["changed"] is True
    assert "unmake" not in recorder.words


@pytest.mark.parametrize("failure", [HostError("it burns"), RuntimeError("it burns")])
def test_what_fails_before_the_switch_is_rolled_back(recorder: Recorder, failure: Exception) -> None:
    outcome = walk(planned(recorder, move=recorder.does("move", failure)))
    assert "it burns" in str(outcome.error)
    assert outcome.as_result()["changed"] is False
    assert recorder.words == ["make", "move", "unmake", "release"]


def test_what_has_changed_since_the_plan_is_an_error_before_anything_is_done(recorder: Recorder) -> None:
    outcome = walk(planned(recorder, recheck=recorder.does("look", HostError("its name is taken there now"))))
    assert str(outcome.error) == "its name is taken there now"
    assert recorder.words == ["look", "release"]


@pytest.mark.parametrize(
    ("active", "found", "undefine_source", "is_on_target"),
    [
        (False, MachineLocation(None, False), True, True),
        (False, MachineLocation(False, False), True, False),
        (False, MachineLocation(False, False), False, True),
        (False, MachineLocation(False, None), True, False),
        (True, MachineLocation(None, True), True, True),
        # libvirt forgets it here only when it is whole there: its guest has powered it off since.
        (True, MachineLocation(None, False), True, True),
        (False, MachineLocation(None, True), True, True),
    ],
)
def test_a_machine_that_is_off_and_still_here_has_not_been_moved(
    monkeypatch: pytest.MonkeyPatch, active: bool, found: MachineLocation, undefine_source: bool, is_on_target: bool
) -> None:
    """libvirt failed between defining it there and forgetting it here: it is not to be left in two places."""
    monkeypatch.setattr(switch, "settle_switch", lambda _machine, _context: None)
    monkeypatch.setattr(switch, "find_location", lambda _ends, _uuid: found)
    machine = t.cast(t.Any, SimpleNamespace(name="web1", uuid="", active=active))
    migration_options = MigrationOptions(undefine_source=undefine_source)
    context = t.cast(t.Any, SimpleNamespace(endpoints=Endpoints("", ""), options=migration_options))
    assert switch._has_migrated(HostError("it burns"), machine, context, MigrationPlan("web1")) is is_on_target


@pytest.mark.parametrize(
    ("active", "found"),
    [(True, MachineLocation(None, False)), (True, MachineLocation(False, False)), (False, MachineLocation(None, True))],
    ids=["powered off", "powered off, and on record here", "started"],
)
def test_what_a_guest_does_at_once_there_is_no_failure_of_the_move(
    monkeypatch: pytest.MonkeyPatch, active: bool, found: MachineLocation
) -> None:
    """libvirt has moved it, and nobody can say that it has to run there still, or to be off."""
    migration = switched(monkeypatch, active, found)
    migration.before[0].apply()
    assert migration.switched


@pytest.mark.parametrize(
    "found", [MachineLocation(None, None), MachineLocation(True, None), MachineLocation(True, True)]
)
def test_a_machine_that_is_not_on_the_target_after_the_switch_is_an_error(
    monkeypatch: pytest.MonkeyPatch, found: MachineLocation
) -> None:
    with pytest.raises(HostError, match="libvirt has moved web1, but it cannot be found on hv2"):
        switched(monkeypatch, True, found).before[0].apply()


def switched(monkeypatch: pytest.MonkeyPatch, active: bool, found: MachineLocation) -> MigrationPlan:
    """The switch alone, of which libvirt says that all went well."""
    monkeypatch.setattr(switch, "migrate", lambda *_words: None)
    monkeypatch.setattr(migration_context, "hypervisor_lock", lambda *_words, **_options: contextlib.nullcontext())
    monkeypatch.setattr(switch, "recheck_definition", lambda _planned: None)
    monkeypatch.setattr(switch, "recheck_running_disks", lambda _planned: None)
    monkeypatch.setattr(switch, "target_xml", lambda *_words: {})
    monkeypatch.setattr(location, "find_location", lambda _ends, _uuid: found)
    monkeypatch.setattr(location, "_SETTLE_SECONDS", 0.1)
    machine = t.cast(t.Any, SimpleNamespace(name="web1", uuid="", active=active, handle=None))
    target = SimpleNamespace(name="hv2", address="hv2")
    context = t.cast(
        t.Any,
        SimpleNamespace(endpoints=Endpoints("", ""), options=MigrationOptions(), stop=threading.Event(), target=target),
    )
    guard = look = t.cast(t.Any, SimpleNamespace(check=lambda *_words: None))
    migration = MigrationPlan("web1")
    migration.before.append(switch.move_step(migration, machine, context, lambda *_progress: None, guard, look))
    return migration


class Domain:
    """A machine whose migration takes as long as it is asked about three times."""

    def __init__(self) -> None:
        self.looks = 0
        self.enough = threading.Event()

    def migrateToURI3(self, *_words: t.Any) -> None:
        assert self.enough.wait(120)

    def jobStats(self, _flags: int = 0) -> dict[str, t.Any]:
        self.looks += 1
        if self.looks >= 3:
            self.enough.set()
        return {"memory_total": 10, "memory_remaining": 5}


def test_a_line_of_progress_that_cannot_be_told_does_not_end_a_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, it was taken for a failure while libvirt went on, and the target was cleaned up beneath the machine."""
    monkeypatch.setattr(migrating, "_LOOK_SECONDS", 0.01)

    def on_progress(*_progress: t.Any) -> None:
        raise ValueError("no words for it")

    domain, stop = Domain(), threading.Event()
    migrate(domain, "qemu+tls://hv2/system", {}, 0, MigrationControls(on_progress, stop, HostError("too late")))
    assert domain.looks >= 3


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("it burns", None),
        (
            "unable to execute QEMU command 'migrate-set-capabilities': Postcopy is not supported",
            "On the target: sysctl vm.unprivileged_userfaultfd=1",
        ),
    ],
)
def test_libvirts_failure_is_still_one(monkeypatch: pytest.MonkeyPatch, words: str, hint: str | None) -> None:
    domain = Domain()

    def fail(*_words: t.Any) -> None:
        raise libvirt.libvirtError(words)

    monkeypatch.setattr(domain, "migrateToURI3", fail)
    with pytest.raises(VirtError, match="libvirt could not move it") as caught:
        migrate(domain, "", {}, 0, MigrationControls(lambda *_progress: None, threading.Event(), HostError("too late")))
    assert caught.value.hint == hint
