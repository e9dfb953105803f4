# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines may be removed, and what becomes of a run that is killed, overtaken, or fails half-way."""

from __future__ import annotations

import dataclasses
import functools
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host import locks as host_locks
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import affect
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._host.storage import usage
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    NAMESPACE,
    PREFIX,
    MigrationNote,
    migration_note_to_xml,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.create.claims import Claim, make_claims
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import HypervisorView
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._operations.purge import machines as purge_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.purge import plan as purge_plan
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.machines import carry_out, plan_purges
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.plan import plan_purge, steps_to_purge
from ansible_collections.brine.virt.plugins.module_utils._operations.purge.volumes import PurgeOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.step_watch import StepWatch
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.machines.unreadable import define_unreadable
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    POOL,
    PurgeHost,
    decided,
    disk,
)

pytestmark = pytest.mark.medium

SYSTEM = "web1-system.qcow2"
TWO_DISKS: dict[str, t.Any] = {"disks": [{"name": "system", "size": 64}, {"name": "data", "size": "1MiB"}]}


class Killed(BaseException):
    """What a kill is to the code: nothing runs after it."""


def refused(host: PurgeHost, obstacle: str | None = None, **params: t.Any) -> str:
    """The message; check mode has the same, and nothing is changed. obstacle: what an option would allow."""
    before = (host.files(), host.names())
    result = host.one(**params)
    assert (result["failed"], result["changed"], result["present"]) == (True, False, True)
    assert (host.files(), host.names()) == before
    assert result.get("obstacle") == obstacle
    assert obstacle is None or str(result["msg"]).startswith(f"{result['reason']}. ")
    return str(result["msg"])


class TestRefused:
    @pytest.mark.parametrize("paused", [False, True])
    def test_one_that_runs(self, host: PurgeHost, paused: bool) -> None:
        machine = host.make(start=True)
        if paused:
            machine.suspend()
        assert refused(host, "active") == (
            f"web1 is {'paused' if paused else 'running'}, so it is not removed. Set stop: true to have it shut "
            "down first, or force: true, which powers it off at once"
        )
        assert machine.isActive()

    def test_one_that_is_not_ours(self, host: PurgeHost) -> None:
        host.guest("web1", disk(host.image(host.pool / "theirs.qcow2")))
        assert refused(host, "foreign", force=True) == (
            "web1 was not created by this collection, so it is not removed. With adopt: true it is. Its disks are "
            "kept, except those that disks names"
        )

    def test_one_that_cannot_be_read(self, host: PurgeHost) -> None:
        handle = define_unreadable(host.conn, "web1")
        before = handle.XMLDesc(0)
        assert refused(host, force=True, adopt=True) == (
            "the description of machine web1 cannot be read as XML: Entity 'x' not defined, line 5, column 32. "
            "Correct its XML: virsh edit web1"
        )
        assert handle.XMLDesc(0) == before

    def test_one_that_is_being_moved(self, host: PurgeHost) -> None:
        machine = host.make()
        note = migration_note_to_xml(MigrationNote("hv1", "hv2", "qemu+tls://hv2/system"))
        machine.setMetadata(2, note, PREFIX, NAMESPACE, affect(machine))
        assert refused(host, force=True).startswith(
            "web1 is being moved from hv1 to hv2, or its move was interrupted, so it is not removed. Wait until the "
            "move ends. If nobody is moving it, move it from hv1 to hv2 again, which finishes the move; if one "
            "of the two is gone for good: virsh metadata web1 urn:brine:virt:move:1 --config --remove"
        )

    def test_a_name_that_is_only_claimed(self, host: PurgeHost) -> None:
        claims = make_claims(host.conn, [Claim("web1", 128, 1)], {})
        assert refused(host).endswith(f"To give the name up: virt_claim with withdraw: {{web1: {claims['web1']}}}")

    def test_one_that_is_only_running(self, host: PurgeHost) -> None:
        """Stopped, it would be forgotten, and with it what it owns."""
        machine = host.make(start=True)
        machine.undefine()
        assert "web1 is running but not defined here, so what it owns is forgotten" in refused(host, force=True)
        assert machine.isActive()

    def test_one_that_a_move_holds_the_lock_of(
        self, host: PurgeHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """A move that has not written its note yet."""
        host.make()

        locked = functools.partial(host_locks.hypervisor_lock, lock_dir=str(tmp_path / "locks"))
        monkeypatch.setattr(host_locks, "hypervisor_lock", locked)
        monkeypatch.setattr(purge_machines, "machine_lock", host_locks.machine_lock)
        with host_locks.machine_lock("web1", wait_seconds=0):
            result = host.purge()["machines"][0]
        assert result["msg"].startswith(
            "another run is moving, backing up, restoring or removing machine web1, or changing its power state. W"
        )
        assert (result["changed"], set(host.files())) == (False, {SYSTEM})


@pytest.mark.parametrize("paused", [False, True])
def test_force_powers_it_off(host: PurgeHost, paused: bool) -> None:
    machine = host.make(start=True)
    if paused:
        machine.suspend()
    result = host.one(force=True)
    assert result["actions"] == ["power off web1", f"delete volume {SYSTEM} of pool default", "undefine web1"]
    assert (host.names(), host.files()) == (set(), {})


def test_one_that_was_never_finished_goes_too(host: PurgeHost) -> None:
    host.make()
    host.write(dataclasses.replace(host.notes(), status="building"))
    assert not host.one()["failed"]
    assert host.names() == set()


def test_snapshots_and_saved_state_go_with_it(host: PurgeHost) -> None:
    machine = host.make(start=True)
    machine.snapshotCreateXML("<domainsnapshot><name>s1</name></domainsnapshot>", 0)
    machine.managedSave(0)
    result = host.one()
    assert (result["failed"], result["snapshots"]) == (False, ["s1"])
    assert (host.names(), host.files()) == (set(), {})


def test_a_saved_state_is_not_lost_where_disks_stay(host: PurgeHost) -> None:
    host.make(start=True).managedSave(0)
    assert refused(host, "saved", keep_disks=True) == (
        "the state of web1 is saved, so it is not removed: its disks would be as after a power cut. Start it and shut "
        "it down first, or set force: true, which drops the saved state"
    )
    assert not host.one(keep_disks=True, force=True)["failed"]
    assert (host.names(), set(host.files())) == (set(), {SYSTEM})


class TestSeveral:
    def test_one_that_fails_does_not_stop_the_others(self, host: PurgeHost) -> None:
        host.make()
        host.make(name="web2", start=True)
        host.make(name="web3")
        answer = host.purge("web1", "web2", "nobody", "web3", "web1")
        assert [(one["name"], one["changed"], one["failed"]) for one in answer["machines"]] == [
            ("web1", True, False),
            ("web2", False, True),
            ("nobody", False, False),
            ("web3", True, False),
        ]
        assert (answer["failed"], answer["changed"]) == (True, True)
        assert answer["msg"].startswith("web2: web2 is running, so it is not removed. ")
        assert answer["msg"].endswith(". Succeeded: web1, nobody, web3")
        assert (host.names(), set(host.files())) == ({"web2"}, {"web2-system.qcow2"})

    def test_an_error_that_nobody_expected_is_that_of_its_machine(
        self, host: PurgeHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host.make()
        host.make(name="web2")
        steps = purge_machines.steps_to_purge

        def fail(conn: t.Any, plan: t.Any, deleted: list[str]) -> list[Step]:
            return steps(conn, plan, deleted) if plan.name == "web2" else [Step("divide", lambda: 1 / 0)]

        monkeypatch.setattr(purge_machines, "steps_to_purge", fail)
        first, second = host.purge("web1", "web2")["machines"]
        assert "unexpected ZeroDivisionError" in first["msg"]
        assert (first["changed"], second["failed"], host.names()) == (False, False, {"web1"})

    def test_what_a_machine_of_the_same_task_uses_stays_as_it_was_shown(self, host: PurgeHost) -> None:
        host.make()
        host.make(name="web2")
        clone = str(host.pool / "web2-system.qcow2")
        rebase = ["qemu-img", "rebase", "-u", "-b", str(host.pool / SYSTEM), "-F", "qcow2", clone]
        subprocess.run(rebase, check=True)
        names = ("web2", "web1")
        ahead = host.purge(*names, check_mode=True)["machines"]
        assert host.purge(*names)["machines"] == ahead
        reason = "it is used by machine web2, volume default/web2-system.qcow2"
        assert decided(ahead[1]) == {SYSTEM: f"keep: {reason}"}
        assert (host.names(), set(host.files())) == (set(), {SYSTEM})


class TestKilled:
    """At any moment: the next run finishes, and nothing else is lost."""

    @pytest.mark.parametrize("after", range(3))
    def test_between_the_steps(self, host: PurgeHost, after: int) -> None:
        host.make(**TWO_DISKS, start=True)
        kept = host.image(host.pool / "kept.qcow2").read_bytes()
        plan = plan_purge("web1", HypervisorView(host.conn), PurgeOptions(force=True))
        assert plan is not None
        steps = steps_to_purge(host.conn, plan)
        for step in steps[:after]:
            step.apply()
        assert "web1" in host.names()
        assert not host.purge(force=True)["failed"]
        assert (host.names(), set(host.files())) == (set(), {"kept.qcow2"})
        assert (host.pool / "kept.qcow2").read_bytes() == kept

    def test_between_two_volumes(self, host: PurgeHost, monkeypatch: pytest.MonkeyPatch) -> None:
        host.make(**TWO_DISKS)
        delete = usage.delete_volume
        gone: list[str] = []

        def delete_one(pool: t.Any, volume: str) -> bool:
            if gone:
                raise Killed
            gone.append(volume)
            return delete(pool, volume)

        with monkeypatch.context() as killed, pytest.raises(Killed):
            killed.setattr(usage, "delete_volume", delete_one)
            host.purge()
        assert (len(host.files()), host.names()) == (1, {"web1"})
        assert not host.one()["failed"]
        assert (host.names(), host.files()) == (set(), {})

    def test_a_machine_of_others_is_finished_with_the_same_options(self, host: PurgeHost) -> None:
        host.guest("web1", disk(host.image(host.pool / "theirs.qcow2")))
        options = PurgeOptions(adopt=True, disks=("vda",))
        plan = plan_purge("web1", HypervisorView(host.conn), options)
        assert plan is not None
        steps_to_purge(host.conn, plan)[0].apply()
        assert (host.files(), host.names()) == ({}, {"web1"})
        result = host.one(adopt=True, disks=["vda"])
        assert (result["failed"], result["actions"], host.names()) == (False, ["undefine web1"], set())


class TestChangedSincePlanned:
    """Decided without the lock, and checked again under it."""

    def run(self, host: PurgeHost, change: t.Callable[[], t.Any], **options: t.Any) -> str:
        results = plan_purges(host.conn, ["web1"], PurgeOptions(**options))
        change()
        before = (host.files(), host.names())
        carry_out(host.conn, results, PurgeOptions(**options), StepWatch(ProgressFile(None)), lock_seconds=1)
        assert (host.files(), host.names()) == before
        assert not results[0].done
        return str(results[0].error)

    @pytest.mark.parametrize("force", [False, True])
    def test_it_has_been_started(self, host: PurgeHost, force: bool) -> None:
        machine = host.make()
        text = self.run(host, machine.create, force=force)
        assert "has been started since this run looked" in text if force else "web1 is running" in text
        assert machine.isActive()

    def test_it_is_gone(self, host: PurgeHost) -> None:
        machine = host.make()
        assert "machine web1 has gone since this run looked" in self.run(host, machine.undefine)

    def test_another_machine_has_its_name(self, host: PurgeHost) -> None:
        machine = host.make()

        def replace() -> None:
            machine.undefine()
            host.guest("web1", disk(host.pool / SYSTEM))

        assert "has gone since this run looked" in self.run(host, replace, adopt=True, disks=("vda",))

    def test_somebody_has_come_to_use_a_volume(self, host: PurgeHost) -> None:
        host.make()
        text = self.run(host, lambda: host.guest("other", disk(host.pool / SYSTEM)))
        assert text == (
            f"machine web1 has changed since this run looked, so it is not removed: volume {SYSTEM} of pool default "
            "would now be kept: it is used by machine other. Run it again to see what goes now"
        )

    def test_a_volume_has_been_replaced(self, host: PurgeHost) -> None:
        host.make()

        def replace() -> None:
            (host.pool / SYSTEM).unlink()
            host.image(host.pool / SYSTEM)

        assert "would now be kept: nothing proves that it is the volume" in self.run(host, replace)

    def test_it_has_got_a_volume(self, host: PurgeHost) -> None:
        """As from a run that was creating the machine all the time."""
        host.make()
        spec = {"disks": [{"name": "system", "size": 64}, {"name": "more", "size": "1MiB"}]}
        results = plan_purges(host.conn, ["web1"], PurgeOptions())
        host.make(**spec)
        carry_out(host.conn, results, PurgeOptions(), StepWatch(ProgressFile(None)), lock_seconds=1)
        assert "so it is not removed: volume web1-more.qcow2 of pool default is new" in str(results[0].error)
        assert (host.names(), len(host.files())) == ({"web1"}, 2)

    def test_the_files_of_a_new_snapshot_are_its_own_by_now(self, host: PurgeHost) -> None:
        """libvirt had taken it, and its files were not noted yet: all disks would have stayed, as nobody's."""
        host.make()
        overlay = host.image(host.pool / "web1-vda.s1.qcow2", below=host.pool / SYSTEM)
        host.detach("web1", SYSTEM)
        host.attach("web1", disk(overlay))

        def note() -> None:
            (system,) = host.notes().volumes
            of_snapshot = dataclasses.replace(system, name=overlay.name, identity="")
            host.write(dataclasses.replace(host.notes(), volumes=(system, of_snapshot)))

        assert self.run(host, note) == (
            "machine web1 has changed since this run looked, so it is not removed: volume web1-vda.s1.qcow2 of pool "
            "default is its own now. Run it again to see what goes now"
        )

    def test_what_could_go_now_and_was_shown_to_stay_stays(self, host: PurgeHost) -> None:
        host.make()
        other = host.guest("other", disk(host.pool / SYSTEM))
        results = plan_purges(host.conn, ["web1"], PurgeOptions())
        other.undefine()
        carry_out(host.conn, results, PurgeOptions(), StepWatch(ProgressFile(None)), lock_seconds=1)
        assert (results[0].error, host.names(), set(host.files())) == (None, set(), {SYSTEM})


class TestLastLook:
    """What happens under the lock, while it is powered off or right before a volume goes."""

    def steps(self, host: PurgeHost, **options: t.Any) -> list[Step]:
        plan = plan_purge("web1", HypervisorView(host.conn), PurgeOptions(**options))
        assert plan is not None
        return steps_to_purge(host.conn, plan)

    def test_it_is_started_again(self, host: PurgeHost) -> None:
        machine = host.make()
        steps = self.steps(host)
        machine.create()
        for step in steps:
            with pytest.raises(ConflictError, match="machine web1 is running, and so"):
                step.apply()
        assert (set(host.files()), machine.isActive()) == ({SYSTEM}, True)

    def test_a_volume_is_replaced(self, host: PurgeHost) -> None:
        host.make()
        steps = self.steps(host)
        (host.pool / SYSTEM).unlink()
        host.image(host.pool / SYSTEM)
        with pytest.raises(ConflictError, match="has been replaced by another one"):
            steps[0].apply()
        assert set(host.files()) == {SYSTEM}

    def test_a_pool_becomes_unknown_and_neither_volume_goes(self, host: PurgeHost) -> None:
        host.make(**TWO_DISKS)
        steps = self.steps(host)
        host.conn.storagePoolDefineXML(POOL.format("asleep", "/x"), 0)
        with pytest.raises(ConflictError, match="cannot be determined whether something uses it"):
            steps[0].apply()
        assert len(host.files()) == 2


def test_a_failure_half_way_says_what_was_done(host: PurgeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: t.Any, **_options: t.Any) -> None:
        raise HostError("cannot undefine machine web1: the NVRAM cannot be deleted")

    host.make()
    with monkeypatch.context() as failing:
        failing.setattr(purge_plan, "undefine", fail)
        result = host.purge()["machines"][0]
    assert (result["failed"], result["changed"]) == (True, True)
    assert result["msg"] == (
        "cannot undefine machine web1: the NVRAM cannot be deleted. Done before that: delete volume "
        f"{SYSTEM} of pool default. Run it again to finish"
    )
    assert not host.one()["failed"]
    assert host.names() == set()


def test_a_volume_that_cannot_be_deleted_does_not_hide_those_that_were(
    host: PurgeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their content is lost, whatever becomes of the rest."""
    delete = usage.delete_volume

    def delete_one(pool: t.Any, volume: str) -> bool:
        if volume == "web1-data.qcow2":
            raise HostError(f"cannot delete volume {volume} of pool default: it is busy")
        return delete(pool, volume)

    host.make(**TWO_DISKS)
    with monkeypatch.context() as failing:
        failing.setattr(usage, "delete_volume", delete_one)
        result = host.purge()["machines"][0]
    assert set(host.files()) == {"web1-data.qcow2"}
    assert (result["failed"], result["changed"]) == (True, True)
    assert result["actions"] == [f"delete volume {SYSTEM} of pool default"]
    assert result["msg"] == (
        "cannot delete volume web1-data.qcow2 of pool default: it is busy. Done before that: delete volume "
        f"{SYSTEM} of pool default. Run it again to finish"
    )
    assert not host.one()["failed"]
    assert (host.names(), host.files()) == (set(), {})


@pytest.mark.parametrize(
    ("wrong", "similar"), [("wbe1", ["web1"]), ("web", ["web1"]), ("web2", []), ("database", []), ("web1", None)]
)
def test_who_is_not_there_may_be_misspelled(host: PurgeHost, wrong: str, similar: list[str] | None) -> None:
    """web2 that is gone is not web1 misspelled: only its number is another one."""
    host.make(**TWO_DISKS)
    (result,) = plan_purges(host.conn, [wrong], PurgeOptions())
    assert result.as_result().get("similar") == similar
