# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done so that disks are in other pools, and what speaks against it, on libvirt's test driver."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import os
import threading
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    NotFoundError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._base.xml import need, parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.identity import host_identity
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.machines.set_aside import set_aside
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    MigrationNote,
    VolumeIdentity,
    VolumeRef,
    read_migration_note,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import HypervisorView
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate import context as migration_context
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.between_pools import (
    pivots,
    settle,
    steps,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.between_pools.disks import plan_pool_disks
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.between_pools.plan import (
    plan_between_pools,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.context import (
    MigrationContext,
    MigrationPlan,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.location import (
    Endpoints,
    write_note,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.options import MigrationOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.source_and_target import (
    MigrationTarget,
    read_source_machine,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import run
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.migrate.between_pools.node import (
    DATA,
    DISKS,
    disk,
    disk_places,
    volume,
    write_node,
)


@dataclasses.dataclass
class Planner:
    """Plans the disks of the machine of a hypervisor, by the options of a move."""

    uri: str
    conn: VirConnect

    @property
    def source(self) -> HypervisorView:
        """The hypervisor as it is now."""
        return HypervisorView(self.conn)

    def __call__(self, **options: t.Any) -> MigrationPlan:
        here = MigrationTarget(self.uri, self.conn, self.source)
        ends = Endpoints(self.uri, self.uri, self.conn, self.conn)
        context = MigrationContext(
            ends, here.hypervisor, here.name, here, MigrationOptions(**options), threading.Event()
        )
        return plan_between_pools("web1", context, "", lambda *_progress: None)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[t.Callable[..., Planner]]:
    """Make a hypervisor, and get back what plans the disks of its machine."""
    with contextlib.ExitStack() as stack:

        def make(*, off: bool = False, **special: str) -> Planner:
            uri = write_node(tmp_path, **special)
            conn = stack.enter_context(open_connection(uri))
            if off:
                conn.lookupByName("web1").destroy()
            return Planner(uri, conn)

        yield make


World = t.Callable[..., Planner]


def ways(plan: MigrationPlan) -> dict[str, tuple[str, str]]:
    return {move.device: (move.method, str(move.ref_there)) for move in plan.disks}


def test_qemu_copies_what_a_running_machine_has(world: World) -> None:
    plan = world()(pool="fast")
    assert ways(plan) == {
        "vda": ("mirror", "fast/web1-system.qcow2"),
        "vdb": ("mirror", "fast/web1-data.raw"),
        "vdz": ("mirror", "fast/web1-seed.iso"),
    }
    assert plan.actions == [
        "create fast/web1-system.qcow2, fast/web1-data.raw, fast/web1-seed.iso",
        "copy slow/web1-system.qcow2, slow/web1-data.raw, slow/web1-seed.iso while web1 runs",
        "switch web1 to fast/web1-system.qcow2, fast/web1-data.raw, fast/web1-seed.iso",
        "delete slow/web1-system.qcow2, slow/web1-data.raw, slow/web1-seed.iso",
    ]
    assert [(move.base is not None, move.flattened, move.own) for move in plan.disks] == [
        (True, False, True),
        (False, False, True),
        (False, False, True),
    ]


def test_the_disks_of_a_machine_that_is_off_are_copied(world: World) -> None:
    plan = world(off=True)(disks={"data": "fast"})
    assert plan.actions == [
        "create fast/web1-data.raw",
        "copy slow/web1-data.raw to pool fast",
        "switch web1 to fast/web1-data.raw",
        "delete slow/web1-data.raw",
    ]


def test_a_disk_that_is_named_goes_elsewhere_than_the_others(world: World) -> None:
    plan = world()(pool="fast", disks={"vdb": "images"})
    assert ways(plan)["vdb"] == ("mirror", "images/web1-data.raw")
    assert ways(plan)["vda"] == ("mirror", "fast/web1-system.qcow2")


def test_what_is_there_already_needs_nothing(world: World) -> None:
    assert world()(pool="slow").actions == []


def test_an_overlay_may_be_made_whole_while_it_runs(world: World) -> None:
    (move,) = world()(disks={"system": "fast"}, copy_storage="all").disks
    assert (move.base, move.flattened) == (None, True)


def test_what_a_machine_only_reads_and_does_not_own_stays(world: World) -> None:
    drives = disk("sda", "/pools/slow/cd.iso", more="<readonly/>", kind="cdrom") + disk("sdb", "", kind="cdrom")
    plan = world(disks=DATA + drives)
    assert set(ways(plan(pool="fast"))) == {"vdb"}
    with pytest.raises(VirtError, match="disk sda: it is read-only and not the machine's own"):
        plan(disks={"sda": "fast"})
    with pytest.raises(VirtError, match="disk sdb: the drive is empty"):
        plan(disks={"sdb": "fast"})


def test_a_volume_of_somebody_else_is_kept(world: World) -> None:
    plan = world(disks=disk("vdc", "/pools/slow/others.raw"), in_slow=volume("others.raw"))(pool="fast")
    assert [move.own for move in plan.disks] == [False]
    assert plan.actions[-1] == "record that the disks of web1 have moved"


BY_VOLUME = "<disk type='volume' device='disk'><source pool='slow' volume='web1-data.raw'/><target dev='vdb'/></disk>"


@pytest.mark.parametrize(
    ("special", "options", "words"),
    [
        ({}, {"disks": {"dta": "fast"}}, "disks: web1 has no disk 'dta'. Did you mean data?"),
        (
            {},
            {"disks": {"vdb": "fast", "data": "images"}},
            "disks: data and vdb are one disk of web1, which cannot go to images and fast. Name it once",
        ),
        ({}, {"pool": "fats"}, "there is no storage pool 'fats'. Did you mean fast?"),
        ({}, {"disks": {"system": "vg"}}, "cannot hold qcow2 volumes"),
        ({"in_fast": volume("web1-data.raw")}, {"pool": "fast"}, "has a volume web1-data.raw already"),
        ({"disks": disk("vdb", "/pools/slow/web1-data.raw", more="<shareable/>")}, {"pool": "fast"}, "it is shared"),
        ({"disks": disk("vdb", "/pools/slow/web1-data.raw", more="<transient/>")}, {"pool": "fast"}, "is dropped"),
        ({"disks": BY_VOLUME}, {"pool": "fast"}, "it is defined by its pool and volume"),
        ({"disks": disk("vdb", "/nowhere/x.raw")}, {"pool": "fast"}, "is not in any storage pool"),
        (
            {"disks": DATA + disk("vdc", "/pools/images/web1-data.raw")},
            {"pool": "fast"},
            "web1-data.raw is not in any storage pool",
        ),
    ],
)
def test_what_speaks_against_it(world: World, special: dict[str, str], options: dict[str, t.Any], words: str) -> None:
    with pytest.raises(VirtError) as caught:
        world(**special)(**options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "place"), [({"pool": "fats"}, "pool"), ({"pool": "fast", "disks": {"vdb": "fats"}}, "disk vdb")]
)
def test_a_pool_that_is_not_there_is_named_where_it_is_written(
    world: World, options: dict[str, t.Any], place: str
) -> None:
    with pytest.raises(VirtError) as caught:
        world()(**options)
    assert caught.value.where == place


def test_a_snapshot_names_the_volumes(world: World) -> None:
    plan = world()
    plan.conn.lookupByName("web1").snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
    with pytest.raises(VirtError, match=r"web1 has snapshots \(before\), which name the volumes"):
        plan(pool="fast")
    # Where nothing is to be done, nothing speaks against it.
    assert plan(pool="slow").actions == []


def test_a_snapshot_that_an_interrupted_move_has_set_aside_does_so_as_well(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This driver's snapshots are nothing but metadata, and it knows no such flag.
    monkeypatch.setattr(libvirt, "VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY", 0)
    plan = world()
    domain = plan.conn.lookupByName("web1")
    domain.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
    set_aside(domain)
    with pytest.raises(VirtError, match=r"web1 has snapshots \(before\), which name the volumes"):
        plan(pool="fast")


def test_an_overlay_on_no_image_is_copied_whole_and_only_by_qemu(world: World) -> None:
    special = {"disks": disk("vda", "/pools/slow/odd.qcow2", "qcow2"), "in_slow": volume("odd.qcow2", "qcow2", "/x/y")}
    (move,) = world(**special)(pool="fast").disks
    assert (move.method, move.flattened) == ("mirror", True)
    with pytest.raises(VirtError, match="would have to be copied together with that"):
        world(off=True, **special)(pool="fast")


def note(plan: Planner, **special: t.Any) -> MigrationNote:
    name = plan.conn.getHostname()
    values: dict[str, t.Any] = {"source": name, "target": name, "uri": "test:///", "source_id": host_identity()}
    return MigrationNote(**{**values, **special})


def test_what_was_interrupted_is_ended_first_and_its_volume_is_in_nobodys_way(world: World) -> None:
    plan = world(in_fast=volume("web1-data.raw"))
    made = VolumeRef("fast", "web1-data.raw", VolumeIdentity(written="never"), "slow")
    write_note(plan.conn.lookupByName("web1"), note(plan, made=(made,)))
    # Nothing proves that it is the one.
    with pytest.raises(ConflictError, match="but nothing proves that"):
        plan(pool="fast")
    # No pool, no disk: only the end of what was interrupted.
    assert plan().actions == ["finish or undo what an interrupted run did to the disks of web1"]


def test_what_was_interrupted_into_a_pool_that_is_gone_has_a_way_out(world: World) -> None:
    plan = world()
    write_note(plan.conn.lookupByName("web1"), note(plan, made=(VolumeRef("gone", "web1-data.raw", origin="slow"),)))
    for options in ({"pool": "fast"}, {}):
        with pytest.raises(NotFoundError) as caught:
            plan(**options)
        assert caught.value.what == (
            "an interrupted run may have left volume web1-data.raw of web1 in pool gone, which is not there any more"
        )
        assert str(caught.value.hint).endswith(
            "gone for good, with what was in it: virsh metadata web1 urn:brine:virt:move:1 --live --config --remove"
        )


@pytest.mark.parametrize(("pool", "there"), [("fast", True), ("images", False)])
def test_what_an_interrupted_run_had_switched_a_machine_to_is_not_copied_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: str, there: bool
) -> None:
    locked = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(settle, "hypervisor_lock", locked)
    # Long before the switch.
    monkeypatch.setattr(pivots, "booted_at", lambda: 0.0)
    host = world(off=True)
    domain = host.conn.lookupByName("web1")
    made = VolumeRef("fast", "web1-data.raw", origin="slow", pivot="1763766000.000")
    write_note(domain, note(host, made=(made,)))
    plan = host(disks={"data": pool})
    host.conn.storagePoolLookupByName("fast").createXML(volume("web1-data.raw"))
    for name, moment in (("slow", 1763760000), ("fast", 1763770000)):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "web1-data.raw"
        path.write_text(name)
        os.utime(path, (moment, moment))
    if not there:
        with pytest.raises(ConflictError, match="in another pool than this run wants them in. Run it again"):
            plan.before[0].apply()
        return
    run(plan.before)
    assert plan.actions == ["finish or undo what an interrupted run did to the disks of web1"]
    assert disk_places(domain)[1] == "fast/web1-data.raw"
    assert plan.disks == []


def test_what_a_running_machine_was_switched_to_before_its_definition_says_so_is_not_copied_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt's daemon was killed in between."""
    monkeypatch.setattr(settle, "hypervisor_lock", functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks")))
    there = DISKS.replace("/slow/web1-data", "/fast/web1-data")
    host = world(disks=there, in_fast=volume("web1-data.raw"))
    for name in ("slow", "fast"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "web1-data.raw").touch()
    domain = host.conn.lookupByName("web1")
    made = VolumeRef("fast", "web1-data.raw", origin="slow", pivot="1763766000.000")
    write_note(domain, note(host, made=(made,)))
    defined = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    host.conn.defineXML(defined.replace("/fast/web1-data", "/slow/web1-data"))
    assert (disk_places(domain)[1], disk_places(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)[1]) == (
        "fast/web1-data.raw",
        "slow/web1-data.raw",
    )
    plan = host(disks={"data": "fast"})
    run(plan.before)
    assert plan.actions == ["finish or undo what an interrupted run did to the disks of web1"]
    assert disk_places(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)[1] == "fast/web1-data.raw"


@pytest.mark.parametrize(
    "special", [{"target": "hv2"}, {"source": "hv0", "target": "hv0"}, {"source_id": "0" * 32}], ids=str
)
def test_what_was_interrupted_elsewhere_is_ended_there(world: World, special: dict[str, str]) -> None:
    plan = world()
    write_note(plan.conn.lookupByName("web1"), note(plan, **special))
    with pytest.raises(ConflictError, match="Finish that first: virt_migrate on"):
        plan(pool="fast")


def test_a_machine_that_is_to_be_where_it_is_needs_nothing(world: World) -> None:
    plan = world()
    assert plan().actions == []
    write_note(plan.conn.lookupByName("web1"), note(plan, source="hv0"))
    assert plan().actions == []


def test_what_has_changed_since_it_was_planned_is_said(world: World) -> None:
    plan = world()
    migration = plan(pool="fast")
    plan.conn.lookupByName("web1").destroy()
    with pytest.raises(ConflictError, match="web1 has stopped since its move was planned"):
        migration.recheck()


def test_no_two_volumes_of_one_name_go_to_one_pool(world: World) -> None:
    other = volume("web1-data.raw")
    special = {"disks": DATA + disk("vdc", "/pools/images/web1-data.raw")}
    plan = world(**special)
    plan.conn.storagePoolLookupByName("images").createXML(other)
    with pytest.raises(ConflictError, match="two of its volumes are called web1-data.raw"):
        plan(pool="fast")


@pytest.mark.parametrize(("place", "refused"), [("fast", False), ("elsewhere", True)])
def test_only_the_copy_of_an_interrupted_run_may_be_under_way(
    world: World, tmp_path: Path, place: str, refused: bool
) -> None:
    plan = world()
    made = VolumeRef("fast", "web1-data.raw", origin="slow")
    view = HypervisorView(plan.conn)
    found = dataclasses.replace(read_source_machine(view.domains["web1"], ""), moving=note(plan, made=(made,)))
    running_xml = copy.deepcopy(found.running_xml)
    mirror = f"<mirror type='file' job='copy'><source file='{tmp_path}/{place}/web1-data.raw'/></mirror>"
    need(running_xml, "devices/disk/target[@dev='vdb']/..").append(parse_xml(mirror))
    machine = dataclasses.replace(found, running_xml=running_xml)
    here = MigrationTarget("test:///", view.conn, view)
    options = MigrationOptions(disks={"data": "fast"})
    if refused:
        with pytest.raises(ConflictError, match="a block job is running on it"):
            plan_pool_disks(machine, view, here, options, "")
    else:
        assert [move.device for move in plan_pool_disks(machine, view, here, options, "")] == ["vdb"]


def test_what_was_created_goes_when_it_is_rolled_back(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its note is there before anything else, and as long as anything is."""
    locked = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(settle, "hypervisor_lock", locked)
    # Each connection to the test driver has a hypervisor of its own.
    monkeypatch.setattr(Endpoints, "reconnected", lambda self: self)
    plan = world()
    domain, pool = plan.conn.lookupByName("web1"), plan.conn.storagePoolLookupByName("fast")
    make = plan(pool="fast").before[0]
    make.apply()
    assert sorted(pool.listVolumes()) == ["web1-data.raw", "web1-seed.iso", "web1-system.qcow2"]
    written = read_migration_note(parse_xml(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))
    assert written is not None and written.stays
    assert {(ref.pool, ref.origin) for ref in written.made} == {("fast", "slow")}
    assert make.undo is not None
    make.undo()
    assert pool.listVolumes() == []
    assert "brinemove" not in domain.XMLDesc(0) + domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)


@pytest.mark.parametrize("off", [False, True])
@pytest.mark.parametrize("changed", ["gone", "another"])
@pytest.mark.parametrize("step", ["copy", "switch"])
def test_a_volume_that_is_not_the_one_that_was_created_is_neither_copied_to_nor_switched_to(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, step: str, off: bool
) -> None:
    """A pool that is unmounted meanwhile, also lazily: QEMU would go on with a file that no path leads to."""
    locked = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(migration_context, "hypervisor_lock", locked)
    path = tmp_path / "fast" / "web1-data.raw"
    for file in (path, tmp_path / "slow" / path.name):
        file.parent.mkdir()
        file.touch()
    plan = world(off=off)(disks={"data": "fast"})
    make, copying, switch = plan.before
    make.apply()
    if changed == "another":
        # Made while the first is there, so that no file system gives it the first one's number.
        another = path.with_name("other")
        another.touch()
        another.replace(path)
    else:
        path.unlink()
    acting = copying if step == "copy" else switch
    with pytest.raises(ConflictError) as caught:
        acting.apply()
    assert str(caught.value).startswith(
        f"{path} is not there any more, or not the file that was created for the copy of disk vdb. web1 keeps its "
    )
    assert not plan.switched


@pytest.mark.parametrize("off", [False, True])
def test_the_note_of_a_copy_that_cannot_be_reached_stays(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: bool
) -> None:
    """Its pool was unmounted meanwhile: the next run, with the file system back, deletes it."""
    locked = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(settle, "hypervisor_lock", locked)
    monkeypatch.setattr(Endpoints, "reconnected", lambda self: self)
    path = tmp_path / "fast" / "web1-data.raw"
    for file in (path, tmp_path / "slow" / path.name):
        file.parent.mkdir()
        file.touch()
    plan = world(off=off)
    domain, pool = plan.conn.lookupByName("web1"), plan.conn.storagePoolLookupByName("fast")
    make = plan(disks={"data": "fast"}).before[0]
    make.apply()
    path.parent.rename(tmp_path / "away")
    assert make.undo is not None
    with pytest.raises(HostError, match=f"^{path} is not there any more, or another file. Once what belongs to pool "):
        make.undo()
    assert "brinemove" in domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    (tmp_path / "away").rename(path.parent)
    if off:
        # The test driver has no first bytes, by which the copy would be told from another's volume.
        with pytest.raises(HostError, match="nothing proves that it is the one that the move created"):
            make.undo()
        return
    make.undo()
    assert pool.listVolumes() == []
    assert "brinemove" not in domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)


def test_a_pool_that_rounds_sizes_is_refused(world: World) -> None:
    plan = world()
    view = HypervisorView(plan.conn)
    machine = read_source_machine(view.domains["web1"], "")
    here = MigrationTarget("test:///", view.conn, view)
    (move,) = plan_pool_disks(machine, view, here, MigrationOptions(disks={"data": "fast"}), "")
    move.target_pool.handle.createXML("<volume><name>web1-data.raw</name><capacity unit='MiB'>68</capacity></volume>")
    with pytest.raises(VirtError, match="disk vdb has 64.0M, and pool fast makes 68.0M of that"):
        steps.check_size(move)


@pytest.mark.parametrize(("pool", "refused"), [("vms", True), ("others", False)])
def test_two_clusters_with_a_pool_of_one_name_are_not_told_apart_by_their_volumes(
    world: World, pool: str, refused: bool
) -> None:
    """What has arrived is seen by the place of a disk, which is the same in both: a copy that was cut off would count
    as whole."""
    source = "<source protocol='rbd' name='vms/web1-data'><host name='old'/></source>"
    disk_there = f"<disk type='network'><driver type='raw'/>{source}<target dev='vdb'/></disk>"
    plan = world(disks=disk_there)
    for name, ceph_pool in (("old", "vms"), ("new", pool)):
        xml = f"<source><host name='{name}'/><name>{ceph_pool}</name></source><target><path>/</path></target>"
        plan.conn.storagePoolCreateXML(f"<pool type='rbd'><name>{name}</name>{xml}</pool>", 0)
    plan.conn.storagePoolLookupByName("old").createXML(volume("web1-data"), 0)
    if refused:
        with pytest.raises(UnsupportedError, match="disk vdb: it is rbd:vms/web1-data in pool old and in pool new"):
            plan(pool="new", source_volumes="none")
    else:
        assert ways(plan(pool="new", source_volumes="none")) == {"vdb": ("mirror", "new/web1-data")}
