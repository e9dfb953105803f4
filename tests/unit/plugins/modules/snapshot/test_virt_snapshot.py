# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module virt_snapshot on libvirt's test driver."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import subprocess
import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, InputError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import (
    EXTERNAL,
    INTERNAL,
    KnownSnapshot,
    list_snapshots,
)
from ansible_collections.brine.virt.plugins.module_utils._host.progress import HowFar, ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._model.attachments import written_places
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import read_notes
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import (
    NAMESPACE,
    PREFIX,
    WORK_NAMESPACE,
    WORK_PREFIX,
    SetAside,
    SnapshotWork,
    read_work,
    set_aside_to_xml,
    work_to_bare_xml,
)
from ansible_collections.brine.virt.plugins.module_utils._operations import step_watch
from ansible_collections.brine.virt.plugins.module_utils._operations.power import locks
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import delete, machines, revert, take
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.clustered import note_begin
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.method import AUTO, NO, Method, choose
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.revert import steps_to_revert
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import view
from ansible_collections.brine.virt.plugins.modules import virt_snapshot
from ansible_collections.brine.virt.tests.unit.plugins.called_module import call_module


@pytest.fixture
def conn(node_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    """One connection for all calls: the driver forgets all when it is closed."""
    for module, name in ((machines, "machine_lock"), (locks, "hypervisor_lock")):
        monkeypatch.setattr(module, name, lambda *_what, **_settings: contextlib.nullcontext())
    with open_connection(node_uri) as connection:
        monkeypatch.setattr(virt_snapshot, "open_connection", lambda _uri: contextlib.nullcontext(connection))
        yield connection


def call(check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    return call_module(virt_snapshot, check_mode, params)


def names(conn: t.Any, machine: str = "web1") -> list[str]:
    return [one.facts.name for one in list_snapshots(conn.lookupByName(machine))]


def add_by_hand(conn: t.Any, name: str, machine: str = "web1") -> None:
    conn.lookupByName(machine).snapshotCreateXML(f"<domainsnapshot><name>{name}</name></domainsnapshot>")


def notes_of(conn: t.Any, machine: str = "web1") -> t.Any:
    return read_notes(parse_xml(conn.lookupByName(machine).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))


def set_tags(conn: t.Any, *tags: str) -> None:
    """As a later run of virt_init would."""
    text = "".join(f"<tag>{tag}</tag>" for tag in tags)
    volume = "<volume pool='default' name='web1-system.qcow2' role='disk'/>"
    domain = conn.lookupByName("web1")
    domain.setMetadata(
        libvirt.VIR_DOMAIN_METADATA_ELEMENT,
        f"<machine status='ready'>{volume}<disk name='system' target='vda'/>{text}</machine>",
        "brine",
        "urn:brine:virt:1",
        libvirt.VIR_DOMAIN_AFFECT_CONFIG | libvirt.VIR_DOMAIN_AFFECT_LIVE,
    )


def test_one_is_taken_once(conn: t.Any) -> None:
    ahead = call(check_mode=True, vm=["web1"], name=["a"], description="before")
    assert names(conn) == []
    done = call(vm=["web1"], name=["a"], description="before")
    assert (ahead["changed"], ahead["diff"]) == (done["changed"], done["diff"])
    assert done["diff"][0]["before"] == "snapshots: []\nstate: running\n"
    assert done["diff"][0]["after"] == "snapshots:\n- a\nstate: running\n"
    (machine,) = done["machines"]
    assert machine["actions"] == ahead["machines"][0]["actions"] == ["take snapshot a of web1 (internal, with memory)"]
    assert (machine["kind"], machine["memory"], machine["snapshot"]) == ("internal", True, "a")
    (snapshot,) = machine["snapshots"]
    assert (snapshot["description"], snapshot["own"], snapshot["current"]) == ("before", True, True)
    for check_mode in (False, True):
        again = call(check_mode, vm=["web1"], name=["a"])
        assert (again["changed"], again["diff"], again["machines"][0]["actions"]) == (False, [], [])
    assert names(conn) == ["a"]


def test_without_a_name_each_run_takes_one(conn: t.Any) -> None:
    (machine,) = call(vm=["web1"])["machines"]
    assert names(conn) == [machine["snapshot"]]
    assert machine["snapshot"].startswith("web1-20")


def test_they_go_by_name(conn: t.Any) -> None:
    for name in ("a", "b", "c"):
        call(vm=["web1"], name=[name])
    done = call(vm=["web1"], name=["a", "c", "never"], state="absent")
    assert done["machines"][0]["actions"] == ["delete snapshot c of web1", "delete snapshot a of web1"]
    assert names(conn) == ["b"]
    assert call(vm=["web1"], name=["a"], state="absent")["changed"] is False


@pytest.mark.parametrize(
    "options",
    [
        {"name": ["a"], "state": "absent"},
        {"keep": {"last": 1}, "state": "absent"},
        {"name": ["d"], "keep": {"last": 2}},
        {"name": ["d"], "keep": {"last": 1, "days": 1}},
    ],
)
def test_check_mode_before_and_after(conn: t.Any, options: dict[str, t.Any]) -> None:
    for name in ("a", "b", "c"):
        call(vm=["web1"], name=[name])
    ahead, done, again, after = (call(check_mode, vm=["web1"], **options) for check_mode in (True, False, False, True))
    assert (ahead["changed"], ahead["diff"]) == (done["changed"], done["diff"]) == (True, done["diff"])
    assert done["diff"] != []
    for settled in (again, after):
        assert (settled["changed"], settled["diff"], settled["machines"][0]["actions"]) == (False, [], [])


def test_so_many_are_kept_and_foreign_ones_always(conn: t.Any) -> None:
    add_by_hand(conn, "theirs")
    for name in ("a", "b"):
        call(vm=["web1"], name=[name])
    ahead = call(check_mode=True, vm=["web1"], name=["c"], keep={"last": 2})
    assert ahead["machines"][0]["deleted"] == ["a"]
    done = call(vm=["web1"], name=["c"], keep={"last": 2})
    assert done["machines"][0]["actions"][0].startswith("take snapshot c")
    assert names(conn) == ["theirs", "b", "c"]
    assert call(vm=["web1"], name=["c"], keep={"last": 2})["changed"] is False
    call(vm=["web1"], state="absent", keep={"last": 1})
    assert names(conn) == ["theirs", "c"]
    assert call(vm=["web1"], state="absent", keep={"days": 1})["changed"] is False


def test_the_one_that_is_asked_for_is_kept(conn: t.Any) -> None:
    for name in ("a", "b"):
        call(vm=["web1"], name=[name])
    assert call(vm=["web1"], name=["a"], keep={"last": 1})["changed"] is False
    assert names(conn) == ["a", "b"]


def test_a_machine_that_runs_is_reverted_by_force(conn: t.Any) -> None:
    conn.lookupByName("web1").destroy()
    call(vm=["web1"], name=["off"])
    conn.lookupByName("web1").create()
    refused = call(vm=["web1"], name=["off"], state="reverted")
    assert "web1: it is running, and what it does now would be lost" in refused["msg"]
    assert conn.lookupByName("web1").isActive()
    ahead = call(check_mode=True, vm=["web1"], name=["off"], state="reverted", force=True)
    assert ahead["machines"][0]["actions"] == ["revert web1 to snapshot off (running -> shutoff)"]
    assert ahead["diff"][0]["after"] == "snapshots:\n- 'off'\nstate: shutoff\nreverted: 'off'\n"
    assert conn.lookupByName("web1").isActive()
    done = call(vm=["web1"], name=["off"], state="reverted", force=True)
    assert (done["changed"], done["machines"][0]["state"]) == (True, "shutoff")
    assert not conn.lookupByName("web1").isActive()
    assert names(conn) == ["off"]


def test_one_that_may_be_frozen_and_has_no_agent_any_more_holds_nobody_up(conn: t.Any) -> None:
    """Nobody could have it thaw, and the agent may never come back; the user has to know of it."""
    note_frozen(conn.lookupByName("web1"))
    (machine,) = call(vm=["web1"], name=["b"])["machines"]
    assert names(conn) == ["b"]
    (warning,) = machine["warnings"]
    assert warning.startswith("its file systems may be frozen since snapshot a was taken, and its guest agent, which")


def test_one_that_may_be_frozen_and_is_paused_is_to_be_resumed(conn: t.Any) -> None:
    """Its agent may be well, and a reset would lose what the guest has not written yet."""
    domain = conn.lookupByName("web1")
    note_frozen(domain)
    domain.suspend()
    (machine,) = call(vm=["web1"], name=["b"])["machines"]
    assert machine["warnings"] == [
        "its file systems may be frozen since snapshot a was taken, and while it is paused its guest agent cannot thaw "
        "them: resume it, and run this again"
    ]


def note_frozen(domain: t.Any) -> None:
    domain.setMetadata(
        libvirt.VIR_DOMAIN_METADATA_ELEMENT,
        work_to_bare_xml(SnapshotWork("a", frozen=True)),
        WORK_PREFIX,
        WORK_NAMESPACE,
        libvirt.VIR_DOMAIN_AFFECT_LIVE,
    )


def note_held(domain: t.Any) -> None:
    """As a run that was killed has left it, which had paused the machine."""
    note_begin(domain, SnapshotWork("a"))
    text = work_to_bare_xml(SnapshotWork("a", paused=True))
    live = libvirt.VIR_DOMAIN_AFFECT_LIVE
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, WORK_PREFIX, WORK_NAMESPACE, live)
    domain.suspend()


@pytest.mark.parametrize(
    ("left", "options", "actions"),
    [
        (lambda domain: note_begin(domain, SnapshotWork("a")), {"name": ["b"]}, ["note that", "take snapshot b"]),
        (
            lambda domain: note_begin(domain, SnapshotWork("z")),
            {"state": "absent", "keep": {"last": 1}},
            ["note that", "delete snapshot a"],
        ),
        (
            lambda domain: note_begin(domain, SnapshotWork("z", deleting=True)),
            {"state": "reverted", "name": ["a"], "force": True},
            ["note that", "revert web1 to snapshot a (running)"],
        ),
        (note_held, {"name": ["b"]}, ["let web1 run on", "note that", "take snapshot b of web1 (internal, with"]),
    ],
)
def test_check_mode_shows_all_that_follows_on_what_a_killed_run_has_left(
    conn: t.Any, left: t.Callable[[t.Any], None], options: dict[str, t.Any], actions: list[str]
) -> None:
    for name in ("a", "c"):
        call(vm=["web1"], name=[name])
    left(conn.lookupByName("web1"))
    before = [conn.lookupByName("web1").XMLDesc(flags) for flags in (0, libvirt.VIR_DOMAIN_XML_INACTIVE)]
    ahead = call(check_mode=True, vm=["web1"], **options)
    assert before == [conn.lookupByName("web1").XMLDesc(flags) for flags in (0, libvirt.VIR_DOMAIN_XML_INACTIVE)]
    done = call(vm=["web1"], **options)
    assert (ahead["diff"], ahead["machines"][0]["actions"]) == (done["diff"], done["machines"][0]["actions"])
    assert len(actions) == len(done["machines"][0]["actions"])
    for words, action in zip(actions, done["machines"][0]["actions"]):
        assert action.startswith(words)


def test_check_mode_refuses_what_the_run_would_refuse_then(conn: t.Any) -> None:
    call(vm=["web1"], name=["a"])
    note_begin(conn.lookupByName("web1"), SnapshotWork("a"))
    for check_mode in (True, False):
        refused = call(check_mode, vm=["web1"], name=["a"], state="reverted")
        assert "web1: it is running, and what it does now would be lost" in refused["msg"]
        assert refused["machines"][0]["actions"] == (
            ["note that snapshot a of web1 is whole, which an interrupted run has taken"]
        )
        note_begin(conn.lookupByName("web1"), SnapshotWork("a"))


def test_check_mode_says_so_where_it_cannot_tell_what_follows(conn: t.Any) -> None:
    """Which snapshots libvirt has again, libvirt says then."""
    call(vm=["web1"], name=["a"])
    domain = conn.lookupByName("web1")
    domain.snapshotLookupByName("a").delete()
    text = set_aside_to_xml([SetAside("a", "<domainsnapshot/>")])
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, PREFIX, NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
    (machine,) = call(check_mode=True, vm=["web1"], name=["b"])["machines"]
    (action,), (warning,) = machine["actions"], machine["warnings"]
    assert action.startswith("put back the snapshots of web1") and machine["failed"] is False
    assert "What the task asks for follows in the same run, and is not shown here" in warning
    refused = call(check_mode=True, vm=["web1"], name=["a"], state="reverted")
    assert "web1: it is running, and what it does now would be lost" in refused["msg"]
    refused = call(check_mode=True, vm=["web1"], name=["never"], state="reverted", force=True)
    assert "it has no snapshot 'never'" in refused["msg"]
    allowed = call(check_mode=True, vm=["web1"], name=["a"], state="reverted", force=True)["machines"]
    assert allowed[0]["failed"] is False


def test_what_is_remembered_of_a_machine_stays_as_it_is(conn: t.Any) -> None:
    set_tags(conn, "old")
    call(vm=["web1"], name=["a"])
    set_tags(conn, "new")
    call(vm=["web1"], name=["a"], state="reverted", force=True)
    notes = notes_of(conn)
    assert (notes.tags, [volume.name for volume in notes.volumes]) == (("new",), ["web1-system.qcow2"])
    running = read_notes(parse_xml(conn.lookupByName("web1").XMLDesc(0)))
    assert running is not None
    assert running.tags == ("new",)


def test_a_revert_that_is_killed_half_way_forgets_nothing(conn: t.Any) -> None:
    """What comes after libvirt's part may never be done; also of an external one, which this driver is only told of."""
    set_tags(conn, "old")
    domain = conn.lookupByName("web1")
    text = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    vda = "<disk name='vda' snapshot='external' type='file'><source file='/var/lib/libvirt/images/n.qcow2'/></disk>"
    inner = f"<state>shutoff</state><creationTime>1</creationTime><memory snapshot='no'/><disks>{vda}</disks>{text}"
    xml = f"<domainsnapshot><name>a</name>{inner}</domainsnapshot>"
    domain.snapshotCreateXML(xml, libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE)
    set_tags(conn, "new")
    domain.destroy()
    found = dataclasses.replace(view(conn, "web1", "vm"), version=9_009_000)
    for step in steps_to_revert(conn, found, found.snapshots[0], force=False):
        step.apply()
        if step.description.startswith("revert"):
            break
    assert notes_of(conn).tags == ("new",)


def test_a_revert_brings_no_note_back_that_it_was_being_taken(conn: t.Any) -> None:
    """It is in the snapshot's description of the machine's next start, which no step before has to rewrite."""
    domain = conn.lookupByName("web1")
    domain.destroy()
    note_begin(domain, SnapshotWork("a"))
    text = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    vda = "<disk name='vda' snapshot='external' type='file'><source file='/var/lib/libvirt/images/n.qcow2'/></disk>"
    inner = f"<state>shutoff</state><creationTime>1</creationTime><memory snapshot='no'/><disks>{vda}</disks>{text}"
    xml = f"<domainsnapshot><name>a</name>{inner}</domainsnapshot>"
    domain.snapshotCreateXML(xml, libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE)
    found = dataclasses.replace(view(conn, "web1", "vm"), version=9_009_000)
    steps_to_revert(conn, found, found.snapshots[0], force=False)[-1].apply()
    assert read_work(view(conn, "web1", "vm").defined) is None


@pytest.fixture
def of_two_disks(conn: t.Any, tmp_path: Path) -> tuple[Path, Path]:
    """The files of web1, which is off and has a snapshot a."""
    files = (tmp_path / "one.qcow2", tmp_path / "two.qcow2")
    for file in files:
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(file), "1M"], check=True)
    domain = conn.lookupByName("web1")
    if domain.isActive():
        domain.destroy()
    text = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    disks = "".join(
        f"<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{file}'/>"
        f"<target dev='{target}' bus='virtio'/></disk>"
        for file, target in ((files[0], "vda"), (files[1], "vdb"))
    )
    conn.defineXML(re.sub(r"<disk .*</disk>", disks, text, flags=re.DOTALL))
    call(vm=["web1"], name=["a"])
    return files


class Reverted:
    """What libvirt's revert comes to, in its place."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, ends: BaseException, *written: Path, stops: bool = False
    ) -> None:
        self._ends = ends
        self._stops = stops
        self._written = written
        self.works: list[SnapshotWork | None] = []
        monkeypatch.setattr(libvirt.virDomain, "revertToSnapshot", self._end)

    def _end(self, snapshot: t.Any, _flags: int = 0) -> None:
        domain = snapshot.getDomain()
        self.works.append(work_of(domain))
        if self._stops:
            domain.destroy()
        for file in self._written:
            subprocess.run(["qemu-img", "snapshot", "-c", "a", str(file)], check=True)
        raise self._ends


def work_of(domain: t.Any) -> SnapshotWork | None:
    return read_work(parse_xml(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))


REVERTING = SnapshotWork("a", reverting=True)


def test_a_revert_that_ends_between_two_disks_is_finished_before_anything_else(
    conn: t.Any, of_two_disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = view(conn, "web1", "vm")
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        Reverted(killed, KeyboardInterrupt(), of_two_disks[0])
        steps_to_revert(conn, found, found.snapshots[0], force=False)[-1].apply()
    assert work_of(conn.lookupByName("web1")) == REVERTING
    for params in ({"name": ["b"]}, {"name": ["a"], "state": "absent"}):
        refused = call(vm=["web1"], **params)
        assert "it is being reverted to snapshot a, or that was interrupted" in refused["msg"]
    done = call(vm=["web1"], name=["a"], state="reverted")
    assert done["changed"] is True
    assert work_of(conn.lookupByName("web1")) is None
    assert names(conn) == ["a"]


@pytest.mark.parametrize("written", [False, True])
def test_a_revert_that_fails_is_noted_where_a_disk_was_written_to(
    conn: t.Any, of_two_disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    with monkeypatch.context() as patched:
        told = Reverted(patched, libvirt.libvirtError("no"), *of_two_disks[:1] if written else ())
        failed = call(vm=["web1"], name=["a"], state="reverted")
    assert "cannot revert machine web1 to snapshot a" in failed["msg"]
    assert told.works == [REVERTING]
    assert work_of(conn.lookupByName("web1")) == (REVERTING if written else None)


def test_a_machine_that_runs_on_after_a_failed_revert_is_not_half_reverted(
    conn: t.Any, of_two_disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes to its disks all the time."""
    conn.lookupByName("web1").create()
    with monkeypatch.context() as patched:
        told = Reverted(patched, libvirt.libvirtError("no"), *of_two_disks)
        failed = call(vm=["web1"], name=["a"], state="reverted", force=True)
    assert "cannot revert machine web1 to snapshot a" in failed["msg"]
    assert told.works == [REVERTING]
    assert work_of(conn.lookupByName("web1")) is None


@pytest.mark.parametrize("written", [False, True])
def test_a_machine_that_was_ended_for_a_failed_revert_is_half_reverted_only_if_a_disk_was_written_to(
    conn: t.Any, of_two_disks: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """Such as one whose network is gone: QEMU is not even started again."""
    conn.lookupByName("web1").create()
    with monkeypatch.context() as patched:
        Reverted(patched, libvirt.libvirtError("no"), *of_two_disks[:1] if written else (), stops=True)
        failed = call(vm=["web1"], name=["a"], state="reverted", force=True)
    command = "virsh metadata web1 urn:brine:virt:snapshotting:1 --config --remove"
    assert (command in failed["msg"]) is written
    assert work_of(conn.lookupByName("web1")) == (REVERTING if written else None)


def test_half_reverted_to_a_snapshot_that_is_gone_there_is_a_way_on(
    conn: t.Any, of_two_disks: tuple[Path, Path]
) -> None:
    domain = conn.lookupByName("web1")
    note_begin(domain, REVERTING)
    domain.snapshotLookupByName("a").delete()
    failed = call(vm=["web1"], name=["a"], state="reverted")
    assert "it has no snapshot 'a'" in failed["msg"]
    assert "virsh metadata web1 urn:brine:virt:snapshotting:1 --config --remove" in failed["msg"]


def test_of_one_disk_nothing_is_noted(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the snapshot's, or it is not."""
    domain = conn.lookupByName("web1")
    assert len(written_places(parse_xml(domain.XMLDesc(0)))) == 1
    domain.destroy()
    call(vm=["web1"], name=["a"])
    told = Reverted(monkeypatch, libvirt.libvirtError("no"))
    call(vm=["web1"], name=["a"], state="reverted")
    assert told.works == [None]


def test_a_disk_that_something_else_uses_is_not_reverted(conn: t.Any, tmp_path: Path) -> None:
    """An overlay of it would be of no use afterwards."""
    for name in ("web1.qcow2", "clone.qcow2"):
        backing = [] if name == "web1.qcow2" else ["-F", "qcow2", "-b", str(tmp_path / "web1.qcow2")]
        size = [] if backing else ["1M"]
        path = str(tmp_path / name)
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *backing, path, *size], check=True)
    domain = conn.lookupByName("web1")
    domain.destroy()
    image = read_places(domain)["vda"]
    conn.defineXML(domain.XMLDesc(0).replace(f"'{image}'", f"'{tmp_path}/web1.qcow2'"))
    call(vm=["web1"], name=["a"])
    assert call(vm=["web1"], name=["a"], state="reverted")["changed"] is True
    disk = f"<disk type='file'><driver type='qcow2'/><source file='{tmp_path}/clone.qcow2'/><target dev='vda'/></disk>"
    rest = f"<memory>1024</memory><os><type>hvm</type></os><devices>{disk}</devices>"
    conn.defineXML(f"<domain type='test'><name>clone</name>{rest}</domain>")
    answer = call(vm=["web1"], name=["a"], state="reverted")
    words = (
        f"web1: it cannot be reverted to a, as {tmp_path}/web1.qcow2, which libvirt would write to or delete, is used"
    )
    assert f"{words} by machine clone" in answer["msg"]
    assert answer["changed"] is False


def read_places(domain: t.Any) -> dict[str, str]:
    return written_places(parse_xml(domain.XMLDesc(0)))


def test_a_snapshot_from_a_move_brings_no_move_back(conn: t.Any) -> None:
    domain = conn.lookupByName("web1")
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, "<migration/>", "brinemove", "urn:brine:virt:move:1", 3)
    add_by_hand(conn, "moving")
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, None, None, "urn:brine:virt:move:1", 3)
    call(vm=["web1"], name=["moving"], state="reverted", force=True)
    assert "urn:brine:virt:move" not in conn.lookupByName("web1").XMLDesc(0)
    assert notes_of(conn).tags == ("web", "front end")


def test_a_snapshot_from_before_the_machine_was_ours(conn: t.Any) -> None:
    domain = conn.lookupByName("web1")
    text = domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, "urn:brine:virt:1")
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, None, None, "urn:brine:virt:1", 3)
    add_by_hand(conn, "theirs")
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, "brine", "urn:brine:virt:1", 3)
    before = notes_of(conn)
    call(vm=["web1"], name=["theirs"], state="reverted", force=True)
    assert notes_of(conn) == before


@pytest.mark.parametrize("state", ["present", "absent", "reverted"])
def test_one_that_fails_does_not_stop_the_others(conn: t.Any, state: str) -> None:
    for machine in ("half", "web1"):
        add_by_hand(conn, "a", machine)
    name, force = ("b", None) if state == "present" else ("a", True if state == "reverted" else None)
    answer = call(vm=["half", "web1"], name=[name], state=state, force=force)
    assert answer["failed" if "failed" in answer else "msg"]
    assert "half: it is unfinished: a run is creating it, or was interrupted" in answer["msg"]
    assert [one["changed"] for one in answer["machines"]] == [False, True]
    assert names(conn, "half") == ["a"]


def test_a_machine_on_a_raw_disk_has_its_reasons(conn: t.Any) -> None:
    add_by_hand(conn, "a", "db1")
    answer = call(vm=["db1"], name=["b"])
    assert (
        "db1: no snapshot that could be reverted can be taken of it. Internal: they need disks of format qcow2, and"
        in (answer["msg"])
    )
    assert names(conn, "db1") == ["a"]


def define_with_memory(
    conn: t.Any, path: Path, image_format: str, now: str = "", more: str = "", *, name: str = "mem1"
) -> None:
    """A machine, which runs, with a petabyte of memory and a disk in this file.

    now: what it has of its memory; this driver says of a machine with a balloon that its process holds half of that.
    """
    path.write_bytes(b"")
    disk = f"<driver name='qemu' type='{image_format}'/><source file='{path}'/><target dev='vda'/>"
    balloon = "<memballoon model='virtio'/>" if now else ""
    conn.defineXML(
        f"<domain type='test'><name>{name}</name><memory unit='TiB'>1024</memory>{now}{more}<os><type>hvm</type></os>"
        f"<devices><disk type='file'>{disk}</disk>{balloon}</devices></domain>"
    ).create()


LITTLE_NOW = "<currentMemory unit='KiB'>64</currentMemory>"


@pytest.fixture
def local(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> t.Any:
    """As on a hypervisor: this driver's files are nobody's otherwise."""
    monkeypatch.setattr(take, "is_local", lambda _uri: True)
    return conn


@pytest.mark.parametrize("check_mode", [True, False])
def test_memory_that_may_fill_the_pool_is_refused(local: t.Any, tmp_path: Path, check_mode: bool) -> None:
    """Where it did fill it, the next write of any machine there would pause that machine."""
    define_with_memory(local, tmp_path / "system.qcow2", "qcow2")
    refused = call(check_mode, vm=["mem1"], name=["a"])
    words = rf"mem1: its memory may need up to 1024.0T in {tmp_path}, where [0-9.]+[KMGT] are free. "
    # libvirt 9.0 could not revert one without memory.
    assert re.fullmatch(words + "Free some space there, or shut the machine down first", refused["msg"])
    assert names(local, "mem1") == []
    local.lookupByName("mem1").destroy()
    assert call(vm=["mem1"], name=["a"])["machines"][0]["memory"] is False


def test_memory_that_was_never_written_to_needs_no_room(local: t.Any, tmp_path: Path) -> None:
    define_with_memory(local, tmp_path / "system.qcow2", "qcow2", LITTLE_NOW)
    assert call(vm=["mem1"], name=["a"])["machines"][0]["memory"] is True


def test_huge_pages_are_not_counted_in_what_a_process_holds(local: t.Any, tmp_path: Path) -> None:
    huge = "<memoryBacking><hugepages/></memoryBacking>"
    define_with_memory(local, tmp_path / "system.qcow2", "qcow2", LITTLE_NOW, huge)
    assert "its memory may need up to 1024.0T" in call(vm=["mem1"], name=["a"])["msg"]


def test_memory_in_a_file_of_its_own_needs_room_there(local: t.Any, tmp_path: Path) -> None:
    define_with_memory(local, tmp_path / "system.raw", "raw")
    found = dataclasses.replace(view(local, "mem1", "vm"), version=11_003_000)
    words = rf"its memory may need up to 1024.0T in {tmp_path}, .* Free some space there, or set memory=false$"
    memory = take.find_memory_place(local, found, "a", choose(found, "a", AUTO, AUTO))
    assert memory is not None
    with pytest.raises(HostError, match=words):
        memory.require_room()
    assert take.find_memory_place(local, found, "a", choose(found, "a", NO, AUTO)) is None


def test_several_machines_share_what_is_free(local: t.Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are taken at the same time, so that each of them alone would find room."""
    monkeypatch.setattr(take, "free_in", lambda _path: 100 * 1024)
    for name in ("mem1", "mem2", "mem3", "mem4"):
        define_with_memory(local, tmp_path / f"{name}.qcow2", "qcow2", LITTLE_NOW, name=name)
    refused = call(vm=["mem1", "mem2", "mem3", "mem4"], name=["a"])
    words = (
        f"mem4: its memory may need up to 32.0K in {tmp_path}, where 100.0K are free, and those before it up to 96.0K"
    )
    assert refused["msg"].startswith(words)
    assert [names(local, name) for name in ("mem1", "mem2", "mem3", "mem4")] == [["a"], ["a"], ["a"], []]


def test_a_machine_whose_disks_are_others_is_not_reverted(conn: t.Any) -> None:
    domain = conn.lookupByName("web1")
    domain.destroy()
    call(vm=["web1"], name=["a"])
    text = domain.XMLDesc(0)
    more = "<disk type='file'><driver type='qcow2'/><source file='/p/more'/><target dev='vdb'/></disk>"
    conn.defineXML(text.replace("</disk>", f"</disk>{more}", 1))
    answer = call(vm=["web1"], name=["a"], state="reverted")
    assert "its disk vdb was attached after snapshot a, and a revert would take it away" in answer["msg"]
    conn.defineXML(text.replace("web1-system.qcow2'/>\n      <target", "other.qcow2'/>\n      <target"))
    answer = call(vm=["web1"], name=["a"], state="reverted")
    assert "its disk vda is /var/lib/libvirt/images/other.qcow2 now, and was" in answer["msg"]
    conn.defineXML(text.replace("'vda'", "'vdc'"))
    answer = call(vm=["web1"], name=["a"], state="reverted")
    assert "its disk vdc was attached after snapshot a" in answer["msg"]


def test_one_that_fails_says_what_was_done_and_no_more(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        call(vm=["web1"], name=[name])
    really = delete._delete

    def fail(machine: t.Any, snapshot: t.Any) -> None:
        if snapshot.facts.name == "a":
            raise HostError("it is stuck")
        really(machine, snapshot)

    monkeypatch.setattr(delete, "_delete", fail)
    answer = call(vm=["web1"], name=["d"], keep={"last": 1})
    (machine,) = answer["machines"]
    assert (machine["failed"], machine["snapshot"], machine["kind"]) == (True, "d", "internal")
    assert machine["deleted"] == ["b", "c"]
    assert answer["diff"][0]["after"] == "snapshots:\n- a\n- d\nstate: running\n"
    (machine,) = call(vm=["web1"], name=["a"], state="absent")["machines"]
    assert (machine["failed"], machine["deleted"], machine["changed"]) == (True, [], False)

    def refuse(*_what: t.Any) -> None:
        raise HostError("it is full")

    monkeypatch.setattr(take, "_take", refuse)
    (machine,) = call(vm=["web1"], name=["e"])["machines"]
    assert [machine[key] for key in ("snapshot", "kind", "memory", "quiesced", "warnings")] == [None] * 4 + [[]]
    monkeypatch.setattr(revert, "_revert", refuse)
    conn.lookupByName("web1").destroy()
    (machine,) = call(vm=["web1"], name=["a"], state="reverted")["machines"]
    assert (machine["snapshot"], machine["state_before"], machine["state"]) == (None, "shutoff", "shutoff")


def test_a_look_that_fails_makes_no_failure(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_domain: t.Any) -> None:
        raise ValueError("what libvirt says makes no sense")

    monkeypatch.setattr(machines, "snapshot_records", fail)
    answer = call(vm=["web1"], name=["a"])
    (machine,) = answer["machines"]
    assert "msg" not in answer
    assert (machine["changed"], machine["failed"], machine["snapshot"], machine["snapshots"]) == (
        True,
        False,
        "a",
        None,
    )
    assert "its snapshots could not be listed afterwards: " in machine["warnings"][0]
    assert names(conn) == ["a"]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[str], None]:
    """The lines that whoever waits is shown. Called with words, it waits until one has them."""
    monkeypatch.setattr(step_watch, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(step_watch, "QUIET_SECONDS", 0.0)
    path = tmp_path / "progress"
    file = ProgressFile(str(path))
    monkeypatch.setattr(virt_snapshot, "progress_file", lambda _path: contextlib.nullcontext(file))

    def await_line(words: str) -> None:
        end = time.monotonic() + 20
        while not any(words in line for line in path.read_text(encoding="utf-8").splitlines()):
            assert time.monotonic() < end, (words, path.read_text(encoding="utf-8"))
            time.sleep(0.01)

    return await_line


@pytest.mark.parametrize(
    ("slow", "name", "more", "words"),
    [
        (take, "_take", {"name": ["b"]}, "take snapshot b of web1 (internal, with memory)"),
        (delete, "_delete", {"name": ["a"], "state": "absent"}, "delete snapshot a of web1"),
        (
            revert,
            "_revert",
            {"name": ["a"], "state": "reverted", "force": True},
            "revert web1 to snapshot a (running)",
        ),
        (machines, "machine_lock", {"name": ["b"]}, "wait for other runs to let go of web1"),
        (machines, "plan", {"name": ["b"]}, "look at web1"),
    ],
)
def test_what_takes_long_is_told_meanwhile(
    conn: t.Any,
    told: t.Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    slow: t.Any,
    name: str,
    more: dict[str, t.Any],
    words: str,
) -> None:
    call(vm=["web1"], name=["a"])
    really, asked = getattr(slow, name), []

    def slowly(*what: t.Any, **settings: t.Any) -> t.Any:
        asked.append(name)
        # All machines are planned once before the first is changed.
        if (name, len(asked)) != ("plan", 1):
            told(f"{words}: ")
        return really(*what, **settings)

    monkeypatch.setattr(slow, name, slowly)
    answer = call(vm=["web1"], **more)
    assert ("msg" not in answer, answer["changed"]) == (True, True)


def test_libvirt_is_asked_how_far_it_is_only_where_it_tells(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """While an internal one is taken, nobody may ask it (qemuSnapshotCreateXML): each question would wait half a minute
    for nothing, and leave an error in libvirt's log."""
    monkeypatch.setattr(take, "look_at_memory", lambda _handle: HowFar("memory"))
    monkeypatch.setattr(delete, "look_at_merges", lambda _handle, targets: HowFar(",".join(targets)))
    monkeypatch.setattr(delete, "require_unused_files", lambda *_what: None)
    found = view(conn, "web1", "vm")
    for kind, memory, far in (
        (INTERNAL, True, None),
        (EXTERNAL, False, None),
        (EXTERNAL, True, HowFar("memory")),
    ):
        step = take.step_to_take(conn, found, "a", Method(kind, memory, False, ("vda",)), "")
        assert (step.look and step.look()) == far
    call(vm=["web1"], name=["a"])
    (there,) = list_snapshots(conn.lookupByName("web1"))
    outside = dataclasses.replace(there.facts, kind=EXTERNAL, disks=(("vda", "/new"), ("vdb", "/newer")))
    for one, far in ((there, None), (KnownSnapshot(there.handle, outside, True), HowFar("vda,vdb"))):
        (step,) = delete.steps_to_delete(conn, dataclasses.replace(found, snapshots=(one,)), [one])
        assert (step.look and step.look()) == far


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"vm": []}, "vm: no machine is named"),
        ({"vm": [""]}, "vm: no machine is named"),
        ({"vm": ["web1"], "name": [""]}, "name: no snapshot is named. Give its name, or leave name out"),
        ({"vm": ["web1"], "name": ["a", "b"]}, "name: 2 are named, but a machine can have only one present"),
        ({"vm": ["web1"], "name": ["a/b"]}, "name: 'a/b' cannot be the name of a snapshot. Use up to 100 letters"),
        ({"vm": ["web1"], "name": ["7"]}, "name: '7' has no letter, and QEMU would take it for the number of another"),
        ({"vm": ["web1"], "state": "reverted"}, "name: no snapshot is named to revert to. Give the name"),
        ({"vm": ["web1"], "state": "absent"}, "name: no snapshot is named. Give their names, or keep"),
        (
            {"vm": ["web1"], "state": "absent", "name": ["a"], "memory": "auto"},
            "memory: it means nothing with state: ab",
        ),
        (
            {"vm": ["web1"], "state": "reverted", "name": ["a"], "keep": {"last": 1}},
            "keep: it means nothing with state",
        ),
        ({"vm": ["web1"], "force": False}, "force: it means nothing with state: present. Leave it out"),
        ({"vm": ["web1"], "keep": {}}, "keep: it does not say what to keep. Give last, days or both"),
        ({"vm": ["web1"], "description": "a\nb\x1b"}, "description: the text has a control character ('\\x1b') in it"),
        ({"vm": ["web1"], "concurrency": 0}, "concurrency: 0 is less than 1"),
        ({"vm": ["web1"], "lock_timeout": -1}, "lock_timeout: -1 is less than 0"),
    ],
)
def test_mistakes(conn: t.Any, params: dict[str, t.Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        call(**params)
    assert str(caught.value).startswith(sentence)
    assert names(conn) == []


def test_a_machine_that_is_not_there_stops_all(conn: t.Any) -> None:
    with pytest.raises(NotFoundError, match="vm: there is no machine 'web2' on this hypervisor. Did you mean web1?"):
        call(vm=["web1", "web2"])
    assert names(conn) == []


def test_a_snapshot_that_is_not_there(conn: t.Any) -> None:
    call(vm=["web1"], name=["upgrade"])
    answer = call(vm=["web1"], name=["upgrad"], state="reverted", force=True)
    assert "web1: name: it has no snapshot 'upgrad'. Did you mean upgrade?" in answer["msg"]


def test_the_documentation_has_every_option() -> None:
    options = yaml.safe_load(virt_snapshot.DOCUMENTATION)["options"]
    assert set(options) == set(virt_snapshot.ARGUMENTS)
