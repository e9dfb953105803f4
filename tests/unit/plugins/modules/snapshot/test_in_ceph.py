# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module virt_snapshot on libvirt's test driver, for a machine whose disks are in a Ceph cluster."""

from __future__ import annotations

import contextlib
import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import read_domain
from ansible_collections.brine.virt.plugins.module_utils._host.machines.set_aside import put_back, set_aside
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import list_snapshots
from ansible_collections.brine.virt.plugins.module_utils._host.progress import HowFar
from ansible_collections.brine.virt.plugins.module_utils._host.storage.cluster import opened
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.usage import Usage
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import NAMESPACE as MOVE_NAMESPACE
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import SnapshotWork, read_work
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import _require_settled
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.snapshots import check_snapshots
from ansible_collections.brine.virt.plugins.module_utils._operations.power import locks
from ansible_collections.brine.virt.plugins.module_utils._operations.power.view import view_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import (
    clustered,
    held,
    machines,
    rolling_back,
    take,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.method import AUTO, choose
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.revert import steps_to_revert
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import view
from ansible_collections.brine.virt.plugins.modules import virt_snapshot
from ansible_collections.brine.virt.tests.unit.plugins.called_module import call_module
from ansible_collections.brine.virt.tests.unit.plugins.pretended_cluster import Image, PretendedCluster, Snapshot

UUID = "11111111-2222-3333-4444-555555555555"
_DISK = """<disk type='network' device='disk'><driver name='qemu' type='raw'/>
  <source protocol='rbd' name='vms/{0}'><host name='mon'/></source><target dev='{1}' bus='virtio'/></disk>"""
DOMAIN = f"""<domain type='test'><name>db1</name><uuid>{UUID}</uuid>
  <metadata><b:machine xmlns:b='urn:brine:virt:1' status='ready'><b:tag>old</b:tag></b:machine></metadata>
  <memory unit='MiB'>64</memory><os><type>hvm</type></os>
  <devices>{_DISK.format("db1-system", "vda")}{_DISK.format("db1-data", "vdb")}
  <disk type='file' device='cdrom'><source file='/seed.iso'/><target dev='sda' bus='sata'/><readonly/></disk></devices>
  </domain>"""
POOL = """<pool type='rbd'><name>ceph</name><source><host name='mon'/><name>vms</name></source>
  <target><path>/</path></target></pool>"""


@pytest.fixture
def rbd(monkeypatch: pytest.MonkeyPatch) -> PretendedCluster:
    """The cluster with the machine's volumes."""
    cluster = PretendedCluster("db1-system", "db1-data")
    monkeypatch.setattr(opened, "open_cluster", cluster.open)
    monkeypatch.setattr(opened, "_CLOSED_SECONDS", 0)
    monkeypatch.setattr(opened, "_LOOK_SECONDS", 0)
    monkeypatch.setattr(clustered, "require_bindings", lambda _pool: None)
    monkeypatch.setattr(clustered, "has_bindings", lambda: True)
    monkeypatch.setattr(Pools, "local", property(lambda _self: True))
    # This driver's snapshots are nothing but metadata, and it knows no such flag.
    monkeypatch.setattr(libvirt, "VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY", 0)
    return cluster


@pytest.fixture
def domain(rbd: PretendedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    """The machine, which runs."""
    for module, name in ((machines, "machine_lock"), (locks, "hypervisor_lock")):
        monkeypatch.setattr(module, name, lambda *_what, **_settings: contextlib.nullcontext())
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        monkeypatch.setattr(virt_snapshot, "open_connection", lambda _uri: contextlib.nullcontext(conn))
        conn.storagePoolCreateXML(POOL, 0)
        made = conn.defineXML(DOMAIN)
        made.create()
        yield made


def call(check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    result = call_module(virt_snapshot, check_mode, {"vm": ["db1"], **params})
    (machine,) = result["machines"]
    return dict(machine)


def names(domain: t.Any) -> list[str]:
    return [one.facts.name for one in list_snapshots(domain)]


def kept(name: str) -> str:
    return f"brine-snapshot.{UUID}.{name}"


def in_ceph(rbd: PretendedCluster) -> list[list[str]]:
    return [sorted(volume.snapshots) for volume in rbd.there.values()]


def defined(domain: t.Any) -> t.Any:
    return parse_xml(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))


def write(rbd: PretendedCluster, content: str) -> None:
    for volume in rbd.there.values():
        volume.content = content


def test_taken_while_it_runs_and_listed(domain: t.Any, rbd: PretendedCluster) -> None:
    ahead = call(check_mode=True, name=["a"], description="why")
    assert in_ceph(rbd) == [[], []]
    done = call(name=["a"], description="why")
    assert done["actions"] == ahead["actions"] == ["take snapshot a of db1 (ceph, without memory)"]
    assert (done["kind"], done["memory"], done["quiesced"], done["state"]) == ("ceph", False, False, "running")
    (record,) = done["snapshots"]
    assert {
        "kind": "ceph",
        "own": True,
        "current": True,
        "description": "why",
        "memory": False,
    }.items() <= record.items()
    assert in_ceph(rbd) == [[kept("a")], [kept("a")]]
    assert read_work(parse_xml(domain.XMLDesc(0))) is None
    assert call(name=["a"])["changed"] is False
    call(name=["b"])
    assert [one.facts.parent for one in list_snapshots(domain)] == [None, "a"]


def test_it_stands_still_while_they_are_made(
    domain: t.Any, rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []

    def look(_image: t.Any, call_: str) -> None:
        if call_ == "create":
            states.append((view_machine(domain).state, read_work(parse_xml(domain.XMLDesc(0)))))

    monkeypatch.setattr("ansible_collections.brine.virt.tests.unit.plugins.pretended_cluster.Image._note", look)
    call(name=["a"])
    assert states == [("paused", SnapshotWork("a", paused=True))] * 2
    assert view_machine(domain).state == "running"
    domain.destroy()
    call(name=["b"])
    assert states[2:] == [("shutoff", SnapshotWork("b"))] * 2
    assert read_work(defined(domain)) is None


def test_it_runs_on_if_one_cannot_be_had(domain: t.Any, rbd: PretendedCluster) -> None:
    rbd.fail.add("create db1-data")
    assert call(name=["a"])["failed"]
    assert view_machine(domain).state == "running" and read_work(parse_xml(domain.XMLDesc(0))) is None
    assert (in_ceph(rbd), names(domain)) == ([[], []], [])


def test_if_libvirt_is_not_told_there_is_none(
    domain: t.Any, rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.take.record_xml",
        lambda _record: "<no/>",
    )
    assert call(name=["a"])["failed"]
    assert (in_ceph(rbd), names(domain)) == ([[], []], [])


def test_one_that_the_cluster_has_no_more_is_not_there(domain: t.Any, rbd: PretendedCluster) -> None:
    """Whoever has it taken before an upgrade could not go back to it."""
    call(name=["a"])
    del rbd.there["db1-data"].snapshots[kept("a")]
    words = call(name=["a"])["msg"]
    assert "volume db1-data of pool ceph has no snapshot" in words and "state: absent" in words
    assert call(name=["a"], state="absent")["deleted"] == ["a"]
    assert call(name=["a"])["failed"] is False and in_ceph(rbd) == [[kept("a")]] * 2


class Killed(BaseException):
    pass


def die(*_arguments: t.Any) -> t.NoReturn:
    raise Killed


def killed_take(domain: t.Any) -> None:
    """A run that takes snapshot a, and ends in the middle of it."""
    machine = view(domain.connect(), "db1", "vm")
    step = take.step_to_take(domain.connect(), machine, "a", choose(machine, "a", AUTO, AUTO), "")
    with pytest.raises(Killed):
        step.apply()


@pytest.mark.parametrize("runs", [True, False])
def test_what_a_run_has_left_that_was_killed_before_libvirt_knew_of_it_goes(
    domain: t.Any, rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    if not runs:
        domain.destroy()
    with monkeypatch.context() as killed:
        killed.setattr(take, "record_xml", die)
        killed_take(domain)
    assert in_ceph(rbd) == [[kept("a")]] * 2
    write(rbd, "later")
    # What the cluster has afterwards is not known before.
    ahead = call(check_mode=True, name=["a"])
    assert ahead["actions"] == ["delete what an interrupted run has left of snapshot a of db1"]
    assert ["is not shown here" in warning for warning in ahead["warnings"]] == [True]
    done = call(name=["a"])
    assert done["actions"] == [
        "delete what an interrupted run has left of snapshot a of db1",
        "take snapshot a of db1 (ceph, without memory)",
    ]
    assert (names(domain), in_ceph(rbd)) == (["a"], [[kept("a")]] * 2)
    assert {volume.snapshots[kept("a")].content for volume in rbd.there.values()} == {"later"}
    assert read_work(defined(domain)) is None and read_work(parse_xml(domain.XMLDesc(0))) is None


def test_what_is_known_by_then_stays(domain: t.Any, rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(take, "forget", die)
        killed_take(domain)
    # So it is while a move that was interrupted has set it aside.
    note = "<move target='hv2' source='hv1' uuid='x'/>"
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, note, "m", MOVE_NAMESPACE, 3)
    set_aside(domain)
    assert "moved" in call(name=["b"])["msg"]
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, None, "m", MOVE_NAMESPACE, 3)
    call(name=["b"])
    assert (names(domain), in_ceph(rbd)) == (["a", "b"], [[kept("a"), kept("b")]] * 2)
    assert read_work(defined(domain)) is None


def test_one_that_libvirt_does_not_know_is_not_replaced(domain: t.Any, rbd: PretendedCluster) -> None:
    """Its hypervisor is gone, and the machine was defined here by hand: nobody knows what it is worth."""
    rbd.there["db1-data"].snapshots[kept("a")] = Snapshot("of last year")
    words = call(name=["a"])["msg"]
    assert "its Ceph cluster has a snapshot a of it already, which libvirt does not know" in words
    assert "state: absent" in words
    assert rbd.there["db1-data"].snapshots[kept("a")].content == "of last year"
    assert call(name=["a"], state="absent")["deleted"] == ["a"]
    assert call(name=["a"])["failed"] is False


def test_a_run_that_was_killed_while_it_held_the_machine(
    domain: t.Any, rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(held, "let_go", die)
        # Who is killed takes nothing back.
        killed.setattr(rbd, "fail", {"create db1-data", "remove db1-system"})
        killed_take(domain)
    assert (view_machine(domain).state, in_ceph(rbd)) == ("paused", [[kept("a")], []])
    write(rbd, "later")
    done = call(name=["a"])
    assert done["actions"] == [
        "let db1 run on, which an interrupted run has held for snapshot a",
        "delete what an interrupted run has left of snapshot a of db1",
        "take snapshot a of db1 (ceph, without memory)",
    ]
    assert done["state"] == "running" and read_work(parse_xml(domain.XMLDesc(0))) is None
    assert rbd.there["db1-system"].snapshots[kept("a")].content == "later"


def test_what_cannot_be_let_go_is_said(domain: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    domain.suspend()
    monkeypatch.setattr(type(domain), "resume", lambda _self: domain.suspend())
    with pytest.raises(
        HostError, match="db1 was paused for a snapshot, and cannot be resumed.*By hand: virsh resume db1"
    ):
        held.let_go(domain, SnapshotWork("a", paused=True))


def test_it_is_not_held_for_as_long_as_a_cluster_hangs(
    domain: t.Any, rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one whose monitors have no quorum, while its machines go on."""
    states = []

    def hang(_image: t.Any, call_: str) -> None:
        end = time.monotonic() + 5
        while call_ == "create" and view_machine(domain).state != "running" and time.monotonic() < end:
            time.sleep(0.01)
        states.append(view_machine(domain).state)

    monkeypatch.setattr("ansible_collections.brine.virt.tests.unit.plugins.pretended_cluster.Image._note", hang)
    monkeypatch.setattr(held, "HOLD_SECONDS", 0.05, raising=False)
    done = call(name=["a"])
    assert set(states) == {"running"}, "it is paused still"
    assert "took longer than 0.05 s, so machine db1 runs on and there is no snapshot" in done["msg"]
    assert (names(domain), in_ceph(rbd)) == ([], [[], []])
    assert read_work(defined(domain)) is None and read_work(parse_xml(domain.XMLDesc(0))) is None


def test_file_systems_are_frozen_and_thawed(domain: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for name in ("fsFreeze", "suspend", "resume", "fsThaw"):
        real = getattr(type(domain), name)

        def noted(self: t.Any, *given: t.Any, name: str = name, real: t.Any = real) -> t.Any:
            calls.append(name)
            return real(self, *given)

        monkeypatch.setattr(type(domain), name, noted)
    work = SnapshotWork("a", frozen=True, paused=True)
    with held.held_still(domain, work, "it", "so"):
        assert calls == ["fsFreeze", "suspend"]
    assert calls == ["fsFreeze", "suspend", "resume", "fsThaw"]
    calls.clear()
    with pytest.raises(ZeroDivisionError), held.held_still(domain, work, "it", "so"):
        raise ZeroDivisionError
    assert calls == ["fsFreeze", "suspend", "resume", "fsThaw"]


def test_reverted_with_the_description_of_that_time(domain: t.Any, rbd: PretendedCluster) -> None:
    call(name=["a"])
    call(name=["b"])
    write(rbd, "later")
    domain.setMetadata(
        libvirt.VIR_DOMAIN_METADATA_ELEMENT,
        "<machine status='ready'><tag>new</tag></machine>",
        "b",
        "urn:brine:virt:1",
        3,
    )
    domain.setMemoryFlags(128 << 10, libvirt.VIR_DOMAIN_AFFECT_CONFIG | libvirt.VIR_DOMAIN_MEM_MAXIMUM)
    assert call(name=["a"], state="reverted")["failed"], "it runs"
    ahead = call(check_mode=True, name=["a"], state="reverted", force=True)
    assert domain.isActive() and {volume.content for volume in rbd.there.values()} == {"later"}
    done = call(name=["a"], state="reverted", force=True)
    assert done["actions"] == ahead["actions"] == ["revert db1 to snapshot a (running -> shutoff)"]
    assert (done["failed"], done["state"]) == (False, "shutoff")
    assert {volume.content for volume in rbd.there.values()} == {"new"}
    xml = defined(domain)
    assert xml.findtext("memory") == str(64 << 10) and "new" in [tag.text for tag in xml.iter("{urn:brine:virt:1}tag")]
    assert xml.find("devices/disk/source/snapshot") is None and read_work(xml) is None
    assert names(domain) == ["a", "b"] and domain.snapshotCurrent().getName() == "a"


def test_one_of_before_the_monitors_were_replaced_is_reverted_and_deleted(domain: t.Any, rbd: PretendedCluster) -> None:
    """The machine goes on to ask those that are there now, as before the revert."""
    call(name=["a"])
    domain.destroy()
    conn, pool = domain.connect(), domain.connect().storagePoolLookupByName("ceph")
    pool.destroy()
    conn.storagePoolCreateXML(POOL.replace("'mon'", "'new'"), 0)
    conn.defineXML(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE).replace("<host name='mon'/>", "<host name='new'/>"))
    write(rbd, "later")
    done = call(name=["a"], state="reverted")
    assert not done["failed"], done["msg"]
    assert [volume.content for volume in rbd.there.values()] == ["new", "new"]
    assert [host.get("name") for host in defined(domain).iterfind("devices/disk/source/host")] == ["new", "new"]
    assert not defined(domain).findall("devices/disk/source/snapshot")
    assert call(name=["a"], state="absent")["deleted"] == ["a"]
    assert in_ceph(rbd) == [[], []]


def test_which_disk_is_rolled_back_is_told(
    domain: t.Any, rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(name=["a"])
    domain.destroy()
    seen: list[t.Any] = []
    found = view(domain.connect(), "db1", "vm")
    (step,) = steps_to_revert(domain.connect(), found, found.snapshots[0], force=False)
    assert step.look is not None
    seen.append(step.look())
    really = Image.rollback_to_snap

    def slowly(image: Image, name: str) -> None:
        seen.append(step.look and step.look())
        really(image, name)

    monkeypatch.setattr(Image, "rollback_to_snap", slowly)
    step.apply()
    words = ["volume db1-system of pool ceph, 1 of 2", "volume db1-data of pool ceph, 2 of 2"]
    assert seen == [None, *(HowFar(one) for one in words)]


def test_half_reverted_it_cannot_be_started_and_the_next_run_finishes(domain: t.Any, rbd: PretendedCluster) -> None:
    call(name=["a"])
    call(name=["other"])
    write(rbd, "later")
    domain.destroy()
    rbd.fail.add("rollback db1-data")
    assert call(name=["a"], state="reverted")["failed"]
    assert [volume.content for volume in rbd.there.values()] == ["new", "later"]
    sources = [one.get("name") for one in defined(domain).iterfind("devices/disk/source/snapshot")]
    assert sources == ["brine-reverting"] * 2, "QEMU would start it"
    with pytest.raises(Exception, match="it is being reverted to snapshot a, or that was interrupted"):
        view_machine(domain).require_changeable()
    for more in ({"name": ["c"]}, {"name": ["a"], "state": "absent"}):
        assert "being reverted to snapshot a" in call(**more)["msg"]
    with pytest.raises(ConflictError, match="db1 is being reverted to snapshot a, or .* so it is not changed"):
        _require_settled(read_domain(domain), "")
    rbd.fail.clear()
    assert call(name=["a"], state="reverted")["failed"] is False
    assert [volume.content for volume in rbd.there.values()] == ["new", "new"]
    assert defined(domain).find("devices/disk/source/snapshot") is None
    view_machine(domain).require_changeable()


def test_nothing_is_noted_where_nothing_can_be_rolled_back(domain: t.Any, rbd: PretendedCluster) -> None:
    call(name=["a"])
    domain.destroy()
    rbd.there["db1-data"].watchers.append("10.0.0.2:0/1")
    assert "is open on 10.0.0.2:0/1" in call(name=["a"], state="reverted")["msg"]
    assert read_work(defined(domain)) is None
    rbd.there["db1-data"].watchers.clear()
    del rbd.there["db1-data"].snapshots[kept("a")]
    assert "volume db1-data of pool ceph has no snapshot" in call(name=["a"], state="reverted")["msg"]


def test_what_libvirt_does_not_define_any_more_is_refused_before_a_disk_is_changed(
    domain: t.Any, rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a machine type that this QEMU has no more. Its disks would be of then, and it could not be started."""
    call(name=["a"])
    write(rbd, "later")
    domain.destroy()
    domain.setMemoryFlags(128 << 10, libvirt.VIR_DOMAIN_AFFECT_CONFIG | libvirt.VIR_DOMAIN_MEM_MAXIMUM)
    before, real = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), rolling_back.redefine

    def refuse(conn: t.Any, xml: str, *more: str) -> None:
        if parse_xml(xml).findtext("memory") == str(64 << 10):
            raise HostError("unsupported machine type")
        real(conn, xml, *more)

    monkeypatch.setattr(rolling_back, "redefine", refuse)
    assert "unsupported machine type" in call(name=["a"], state="reverted")["msg"]
    assert {volume.content for volume in rbd.there.values()} == {"later"}
    assert domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE) == before


@pytest.mark.parametrize("who", ["another hypervisor", "this one"])
def test_started_just_before_the_first_disk_it_stays_as_it_is(
    domain: t.Any, rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    call(name=["a"])
    write(rbd, "later")
    domain.destroy()
    domain.setMemoryFlags(128 << 10, libvirt.VIR_DOMAIN_AFFECT_CONFIG | libvirt.VIR_DOMAIN_MEM_MAXIMUM)
    before, real = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), rolling_back.redefine

    def start(*arguments: t.Any) -> None:
        if who == "this one" and not domain.isActive():
            domain.create()
        elif who != "this one":
            rbd.there["db1-data"].watchers.append("10.0.0.2:0/1")
        real(*arguments)

    monkeypatch.setattr(rolling_back, "redefine", start)
    words = "db1 was started since this run looked" if who == "this one" else "is open on 10.0.0.2:0/1"
    assert words in call(name=["a"], state="reverted")["msg"]
    assert {volume.content for volume in rbd.there.values()} == {"later"}
    assert domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE) == before


def test_a_machine_that_was_renamed_since_then_keeps_its_name(domain: t.Any, rbd: PretendedCluster) -> None:
    call(name=["a"])
    write(rbd, "later")
    domain.destroy()
    domain.rename("db2", 0)
    done = call(vm=["db2"], name=["a"], state="reverted")
    assert done["failed"] is False, done["msg"]
    assert {volume.content for volume in rbd.there.values()} == {"new"}


def test_half_reverted_to_one_that_is_gone_there_is_a_way_on(domain: t.Any, rbd: PretendedCluster) -> None:
    call(name=["a"])
    call(name=["b"])
    write(rbd, "later")
    domain.destroy()
    rbd.fail.add("rollback db1-data")
    assert call(name=["a"], state="reverted")["failed"]
    rbd.fail.clear()
    del rbd.there["db1-data"].snapshots[kept("a")]
    words = call(name=["a"], state="reverted")["msg"]
    assert "no snapshot" in words and "state: absent" not in words, "that is refused"
    assert "Revert it to another one" in words and "virsh edit db1" in words
    assert call(name=["b"], state="reverted")["failed"] is False
    assert {volume.content for volume in rbd.there.values()} == {"new"}
    view_machine(domain).require_changeable()


def test_not_while_another_machine_has_a_disk_of_it(domain: t.Any, rbd: PretendedCluster) -> None:
    call(name=["a"])
    domain.destroy()
    domain.connect().defineXML(DOMAIN.replace("db1<", "db2<").replace(UUID, UUID.replace("1", "9")))
    assert "rbd:vms/db1-system" in call(name=["a"], state="reverted")["msg"]


def test_they_go_by_name_and_by_number(domain: t.Any, rbd: PretendedCluster) -> None:
    for name in "abc":
        call(name=[name])
    assert call(name=["b"], state="absent")["deleted"] == ["b"]
    assert (names(domain), in_ceph(rbd)) == (["a", "c"], [[kept("a"), kept("c")]] * 2)
    assert call(name=["d"], keep={"last": 2})["deleted"] == ["a"]
    assert in_ceph(rbd) == [[kept("c"), kept("d")]] * 2


def test_what_libvirt_deletes_and_reports_an_error_about_is_deleted(
    domain: t.Any, rbd: PretendedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As libvirt 9.0 does where one that follows has other disks."""
    call(name=["a"])
    real, deletes = libvirt.virDomainSnapshot.delete, [False, True]

    def delete(self: t.Any, flags: int) -> None:
        if deletes.pop(0):
            real(self, flags)
        raise libvirt.libvirtError("disk 'vdb' not found in domain")

    monkeypatch.setattr(libvirt.virDomainSnapshot, "delete", delete)
    assert call(name=["a"], state="absent")["failed"] and names(domain) == ["a"]
    assert call(name=["a"], state="absent")["failed"] is False and names(domain) == []


def test_one_with_a_clone_stays(domain: t.Any, rbd: PretendedCluster) -> None:
    call(name=["a"])
    rbd.there["db1-data"].snapshots[kept("a")].clones.append("copy")
    assert "vms/copy" in call(name=["a"], state="absent")["msg"]
    done = call(name=["b"], keep={"last": 1})
    assert (done["failed"], done["deleted"]) == (False, []) and "snapshot a stays" in done["warnings"][0]
    assert names(domain) == ["a", "b"]


def test_what_libvirt_does_not_know_is_named_and_deleted_by_name(domain: t.Any, rbd: PretendedCluster) -> None:
    for volume in rbd.there.values():
        volume.snapshots.update(
            {kept("a"): Snapshot("x"), "libvirt-1": Snapshot("y"), "brine-snapshot.o.b": Snapshot("z")}
        )
    done = call(name=["c"])
    assert len(done["warnings"]) == 1 and "has a snapshot a of it, which libvirt does not know" in done["warnings"][0]
    done = call(name=["a"], state="absent")
    assert done["deleted"] == ["a"] and "as libvirt does not know it" in done["actions"][0]
    assert in_ceph(rbd) == [[kept("c"), "brine-snapshot.o.b", "libvirt-1"]] * 2
    assert call(name=["a"], state="absent")["changed"] is False


def test_the_volume_of_a_snapshot_is_used(domain: t.Any) -> None:
    call(name=["a"])
    users = {user.words for user in Usage(domain.connect()).users_at("rbd:vms/db1-data")}
    assert "snapshot a of machine db1" in users


def test_they_travel_with_a_machine_that_runs(domain: t.Any) -> None:
    for name in "ab":
        call(name=[name])
    check_snapshots("db1", domain, active=True, undefine_source=True, where="here")
    before = [one.getXMLDesc(0) for one in domain.listAllSnapshots(0)]
    set_aside(domain)
    assert names(domain) == [] and "urn:brine:virt:snapshots:1" in domain.XMLDesc(0)
    # A run that was killed there: the next one puts them back, and nothing counts as left behind.
    assert "put back the snapshots of db1" in call(name=["a"])["actions"][0]
    assert [one.getXMLDesc(0) for one in domain.listAllSnapshots(0)] == before
    assert put_back(domain) == []
