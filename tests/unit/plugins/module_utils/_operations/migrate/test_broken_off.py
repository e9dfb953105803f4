# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that both hypervisors have after a move that broke off at the switch; on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import functools
import subprocess
import threading
import typing as t
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.identity import host_identity
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    MigrationNote,
    VolumeIdentity,
    VolumeRef,
    read_migration_note,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import HypervisorView
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate import steps, switch
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.context import (
    MigrationContext,
    MigrationPlan,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints import location
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.location import (
    Endpoints,
    Presence,
    Presences,
    write_note,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.options import MigrationOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.source_and_target import (
    MigrationTarget,
    read_source_machine,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.plan import plan_migration

UUID = "11111111-1111-1111-1111-111111111111"
MACHINE = (
    f"<domain type='test'><name>web1</name><uuid>{UUID}</uuid><memory unit='MiB'>64</memory><os><type>hvm</type></os>"
    "<devices>{disk}</devices></domain>"
)
SHARED = "<disk type='file'><source file='/nfs/web1.raw'/><target dev='vda'/></disk>"
POOL = (
    "<pool type='logical'><name>vg</name><source><name>vg</name></source><target><path>/dev/vg</path></target></pool>"
)
VOLUME = "<volume><name>web1-data</name><capacity unit='MiB'>1</capacity></volume>"


BEGUN = "2026-11-27 08:30:34.891+0000"


@dataclass
class Both:
    """The machine on both hypervisors, running, with the note of one move; its old volume is at the source."""

    here: t.Any
    there: t.Any
    context: MigrationContext

    @property
    def source(self) -> t.Any:
        """The source's connection."""
        return self.context.endpoints.source_conn

    def plan(self, **options: t.Any) -> MigrationPlan:
        context = dataclasses.replace(
            self.context, source=HypervisorView(self.source), options=MigrationOptions(**options)
        )
        return plan_migration("web1", context, "", lambda *_progress: None)

    def has_migrated(self, migration: MigrationPlan) -> bool:
        """What the switch makes of libvirt's failure."""
        machine = read_source_machine(HypervisorView(self.source).domains["web1"], "")
        failure = HostError("End of file while reading data")
        return switch._has_migrated(failure, dataclasses.replace(machine, active=True), self.context, migration)

    def volumes(self) -> list[str]:
        return list(self.source.storagePoolLookupByName("vg").listVolumes())

    def names(self) -> list[str]:
        return [domain.name() for domain in self.source.listAllDomains(0)]


def carry_out(migration: MigrationPlan) -> None:
    for step in (*migration.before, *migration.after):
        step.apply()


def note_of(domain: t.Any) -> MigrationNote | None:
    return read_migration_note(parse_xml(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Callable[..., Both]]:
    """What makes both. The test driver pauses and ends a machine only for its user; of hv1, this says: a migration."""
    monkeypatch.setattr(steps, "hypervisor_lock", functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks")))
    monkeypatch.setattr(switch, "_SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(switch, "_ANSWER_SECONDS", 0.1)
    # The connections of a test driver know nothing of each other.
    monkeypatch.setattr(Endpoints, "reconnected", lambda self: self)
    with ExitStack() as stack:

        def connect(name: str) -> t.Any:
            (tmp_path / f"{name}.xml").write_text(f"<node>{POOL}</node>", encoding="utf-8")
            return stack.enter_context(open_connection(f"test://{tmp_path}/{name}.xml"))

        def both(disk: str = "", running: bool | None = True) -> Both:
            source, target = connect("hv1"), connect("hv2")
            key = source.storagePoolLookupByName("vg").createXML(VOLUME).key()
            ref = VolumeRef("vg", "web1-data", VolumeIdentity(key=key))
            note = MigrationNote(
                "hv1", "hv2", target.getURI(), (ref,), (ref,), running=running, source_id=host_identity(), start=BEGUN
            )
            domains = [conn.defineXML(MACHINE.format(disk=disk)) for conn in (source, target)]
            for domain in domains:
                domain.create()
                write_note(domain, note)
            there = MigrationTarget(target.getURI(), target)
            there.name = "hv2"
            endpoints = Endpoints(source.getURI(), target.getURI(), source, target)
            context = MigrationContext(
                endpoints, HypervisorView(source), "hv1", there, MigrationOptions(), threading.Event()
            )

            def state(handle: t.Any) -> tuple[int, int]:
                state, reason = handle.state(0)
                if handle.connect().getURI() != endpoints.source:
                    return state, reason
                left = {
                    libvirt.VIR_DOMAIN_PAUSED: libvirt.VIR_DOMAIN_PAUSED_MIGRATION,
                    libvirt.VIR_DOMAIN_SHUTOFF: libvirt.VIR_DOMAIN_SHUTOFF_DAEMON,
                }
                return state, left.get(state, reason)

            monkeypatch.setattr(location, "read_state", state)
            monkeypatch.setattr(location, "last_start", lambda _name: BEGUN)
            return Both(domains[0], domains[1], context)

        yield both


def test_a_machine_that_runs_there_and_is_paused_here_is_finished(make: t.Callable[..., Both]) -> None:
    both = make()
    both.here.suspend()
    migration = both.plan()
    assert migration.actions == [
        "end the paused copy of web1 on hv1",
        "delete web1-data on hv1",
        "record that web1 has arrived",
    ]
    carry_out(migration)
    assert (both.names(), both.volumes()) == ([], [])
    assert both.there.state(0)[0] == libvirt.VIR_DOMAIN_RUNNING
    assert note_of(both.there) is None


def test_what_is_still_defined_here_although_it_runs_there_goes(make: t.Callable[..., Both]) -> None:
    """libvirt's daemon was killed after it had ended the machine, and before it forgot it."""
    both = make()
    both.here.destroy()
    carry_out(both.plan())
    assert (both.names(), both.volumes()) == ([], [])
    assert note_of(both.there) is None


def test_what_was_started_here_since_is_not_deleted(
    make: t.Callable[..., Both], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it came to be off again."""
    both = make()
    both.here.destroy()
    monkeypatch.setattr(location, "last_start", lambda _name: "2026-11-27 09:12:00.004+0000")
    with pytest.raises(
        ConflictError, match="each side may have data of its own.*virsh undefine web1 --keep-nvram here"
    ):
        both.plan()
    assert (both.names(), both.volumes()) == (["web1"], ["web1-data"])


@pytest.mark.parametrize("reason", ["DESTROYED", "CRASHED", "SHUTDOWN"])
def test_what_may_have_run_here_since_is_not_deleted(
    make: t.Callable[..., Both], monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """Somebody has started it here, and stopped it the hard way; it was killed; or its host has started again."""
    both = make()
    both.here.destroy()
    number = getattr(libvirt, f"VIR_DOMAIN_SHUTOFF_{reason}")
    states = location.read_state
    monkeypatch.setattr(
        location,
        "read_state",
        lambda one: (one.state(0)[0], number) if one.state(0)[0] == OFF else states(one),
    )
    with pytest.raises(ConflictError, match="web1 is off here and runs on hv2.*each side may have data of its own"):
        both.plan()
    assert (both.names(), both.volumes()) == (["web1"], ["web1-data"])


@pytest.mark.parametrize("off", [False, True])
def test_a_definition_that_is_to_stay_stays_with_its_volumes(make: t.Callable[..., Both], off: bool) -> None:
    both = make()
    both.here.setAutostart(1)
    both.here.destroy() if off else both.here.suspend()
    migration = both.plan(undefine_source=False)
    assert migration.actions[-2:] == ["check that web1 has left hv1", "record that web1 has arrived"]
    carry_out(migration)
    assert (both.names(), both.volumes()) == (["web1"], ["web1-data"])
    assert (both.here.isActive(), both.here.autostart(), note_of(both.here)) == (0, 0, None)
    assert note_of(both.there) is None


@pytest.mark.parametrize("off", [False, True])
def test_one_that_no_longer_runs_there_keeps_all_that_is_here(make: t.Callable[..., Both], off: bool) -> None:
    """Its guest has shut it down, say, between the plan and the step; the notes stay for the next run."""
    both = make()
    both.here.destroy() if off else both.here.suspend()
    migration = both.plan()
    both.there.destroy()
    with pytest.raises(HostError, match="is off on the target, so nothing is ended or deleted here"):
        carry_out(migration)
    assert (both.names(), both.volumes()) == (["web1"], ["web1-data"])
    assert both.here.isActive() is not off
    assert note_of(both.here) is not None
    assert note_of(both.there) is not None


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda there: there.destroy(), "web1 is paused here and is off on hv2.*: virsh start web1 there"),
        (lambda there: there.suspend(), "web1 is paused here and is paused on hv2.*: virsh resume web1 there"),
        (
            lambda there: (there.destroy(), there.undefine()),
            "web1 is paused here and is not defined on hv2.*It can only go on here: virsh resume web1, and run",
        ),
    ],
    ids=["off", "paused", "gone"],
)
def test_one_that_does_not_run_there_is_left_alone(
    make: t.Callable[..., Both], spoil: t.Callable[[t.Any], t.Any], words: str
) -> None:
    both = make()
    both.here.suspend()
    spoil(both.there)
    with pytest.raises(ConflictError, match=words) as caught:
        both.plan()
    assert "undefine" not in str(caught.value)
    migration = MigrationPlan("web1")
    with pytest.raises(HostError, match=words.split(r"\.")[0]) as caught_at_once:
        both.has_migrated(migration)
    assert "End of file while reading data" in str(caught_at_once.value)
    assert migration.undecided
    assert both.here.isActive()
    assert note_of(both.here) is not None


def test_one_that_is_off_on_both_may_have_run_there_last(make: t.Callable[..., Both]) -> None:
    both = make()
    both.here.destroy()
    both.there.destroy()
    with pytest.raises(ConflictError, match="web1 is off here and is off on hv2.*virsh start web1 there"):
        both.plan()


PAUSED, RUNNING, OFF = libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_SHUTOFF


@pytest.mark.parametrize(
    ("here", "there", "words"),
    [
        (
            Presence(OFF, libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN),
            Presence(RUNNING),
            "compare the two. If what is here is not needed: virsh undefine web1 --keep-nvram here",
        ),
        (
            Presence(PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER),
            Presence(RUNNING),
            "If what is here is not needed: virsh destroy web1, virsh undefine web1 --keep-nvram here",
        ),
        (
            Presence(PAUSED, libvirt.VIR_DOMAIN_PAUSED_POSTCOPY),
            Presence(RUNNING, libvirt.VIR_DOMAIN_RUNNING_POSTCOPY),
            "Never resume it here. Compare the two; if virsh domstate --reason web1 on hv2 says nothing of post-copy",
        ),
        (
            Presence(PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION),
            Presence(RUNNING, busy=True),
            "wait until that ends",
        ),
    ],
    ids=["shut down here", "paused here", "post-copy", "a job"],
)
def test_what_is_to_be_done_is_never_against_the_one_that_runs(here: Presence, there: Presence, words: str) -> None:
    """The test driver has no such states."""
    _what, hint = switch._words("web1", Presences(here, there), "hv2")
    assert words in hint


def test_a_machine_whose_files_both_have_open_is_not_ended_here(make: t.Callable[..., Both]) -> None:
    """libvirt would take them from QEMU's user, at the target as well."""
    both = make(disk=SHARED)
    both.here.suspend()
    words = r"web1 runs on hv2, but .* \(vda\) from the one that runs.*\. Never resume the one here"
    with pytest.raises(ConflictError, match=words):
        both.plan()
    migration = MigrationPlan("web1")
    with pytest.raises(ConflictError, match=words):
        both.has_migrated(migration)
    assert migration.undecided
    assert both.here.isActive()


def test_a_copy_that_has_not_let_go_of_its_disk_is_not_ended(make: t.Callable[..., Both], tmp_path: Path) -> None:
    """QEMU holds a disk as long as it may write to it."""
    (tmp_path / "web1-data").write_bytes(bytes(512))
    both = make(disk=f"<disk type='file'><source file='{tmp_path}/web1-data'/><target dev='vda'/></disk>")
    both.here.suspend()
    migration = both.plan()
    image = f"driver=file,filename={tmp_path}/web1-data"
    writer = subprocess.Popen(
        ["qemu-io", "--image-opts", image], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert writer.stdin is not None and writer.stdout is not None
    writer.stdin.write(b"write 0 512\n")
    writer.stdin.flush()
    assert b"wrote" in writer.stdout.read(40)
    try:
        with pytest.raises(ConflictError, match="has .*/web1-data open for writing"):
            migration.before[0].apply()
        assert both.here.isActive()
    finally:
        writer.communicate(b"quit\n")
    migration.before[0].apply()
    assert both.names() == []


def test_one_that_waits_for_another_hypervisor_is_not_moved_elsewhere(make: t.Callable[..., Both]) -> None:
    both = make()
    both.here.suspend()
    both.context.target.name = "hv3"
    with pytest.raises(
        ConflictError, match="web1 is paused, as its move from hv1 to hv2 broke off. Run that one again"
    ):
        both.plan()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda here: here, "It is up on both, and each may have data of its own"),
        (
            lambda here: here.destroy(),
            "it is up there. If it is not needed here: virsh undefine web1 --keep-nvram here",
        ),
    ],
    ids=["up", "off"],
)
def test_nothing_is_said_against_the_one_that_runs(
    make: t.Callable[..., Both], spoil: t.Callable[[t.Any], t.Any], words: str
) -> None:
    both = make()
    write_note(both.here, None)
    spoil(both.here)
    with pytest.raises(ConflictError, match=f"it is defined there too.*{words}") as caught:
        both.plan()
    assert "on hv2" not in str(caught.value)


def test_at_the_switch_the_copy_that_stands_still_is_ended(make: t.Callable[..., Both]) -> None:
    both = make()
    both.here.suspend()
    migration = MigrationPlan("web1")
    assert both.has_migrated(migration)
    # The volumes are for the steps after the switch, or for the next run.
    assert (both.names(), both.volumes(), migration.undecided) == ([], ["web1-data"], False)
    assert note_of(both.there) is not None


def test_at_the_switch_a_copy_that_is_to_stay_defined_is_off(make: t.Callable[..., Both]) -> None:
    both = make()
    both.context = dataclasses.replace(both.context, options=MigrationOptions(undefine_source=False))
    both.here.setAutostart(1)
    both.here.suspend()
    assert both.has_migrated(MigrationPlan("web1"))
    assert (both.here.isActive(), both.here.autostart()) == (0, 0)
    assert note_of(both.here) is not None


def test_at_the_switch_a_machine_that_runs_here_has_not_gone(make: t.Callable[..., Both]) -> None:
    both = make()
    migration = MigrationPlan("web1")
    assert both.has_migrated(migration) is False
    assert not migration.undecided


def test_at_the_switch_a_machine_that_was_off_here_and_never_came_is_rolled_back(make: t.Callable[..., Both]) -> None:
    both = make()
    both.there.destroy()
    both.there.undefine()
    both.here.destroy()
    migration = MigrationPlan("web1")
    assert both.has_migrated(migration) is False
    assert not migration.undecided


def test_nothing_is_decided_when_the_target_does_not_answer(
    make: t.Callable[..., Both], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = make()
    both.here.suspend()

    def silent(_ends: Endpoints) -> t.Any:
        raise HostError("hv2 does not answer")

    monkeypatch.setattr(Endpoints, "open_target", silent)
    migration = MigrationPlan("web1")
    with pytest.raises(
        VirtError, match="it is not known whether it has arrived: hv2 does not answer.*Run the move again"
    ):
        both.has_migrated(migration)
    assert migration.undecided
    assert both.here.isActive()
