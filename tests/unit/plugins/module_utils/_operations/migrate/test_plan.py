# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What speaks against a move, and how each disk goes, between two hypervisors of libvirt's test driver."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import threading
import typing as t
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    InputError,
    NotFoundError,
    UnreachableError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host import connection
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.maintenance import Maintenance
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import write_notes
from ansible_collections.brine.virt.plugins.module_utils._host.machines.set_aside import set_aside
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import list_snapshots
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    BUILDING,
    MachineNotes,
    VolumeNote,
    read_notes,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import NAMESPACE, MigrationNote
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor_view import HypervisorView
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate import context as migration_context
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate import plan as migrations
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate import (
    recheck,
    steps,
    switch,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints import (
    options as migration_options,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints import source_and_target
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.location import (
    Endpoints,
    write_note,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.options import MigrationOptions
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.source_and_target import (
    MigrationTarget,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.plan import (
    MigrationContext,
    MigrationPlan,
    plan_migration,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.recheck import WriteGuard
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage import disks as disks_module
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage import volume_identity as identity
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.machines.unreadable import define_unreadable
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml

IMAGE = "debian-0123456789abcdef.qcow2"
MEMORY_KIB = 1024 * 1024
NOTES = MachineNotes(
    volumes=(VolumeNote("default", "web1-system.qcow2", "disk"), VolumeNote("default", "web1-seed.iso", "seed"))
)


def disk(device: str, path: str, image_format: str = "qcow2", more: str = "", kind: str = "disk") -> str:
    source = f"<source file='{path}'/>" if path else ""
    return (
        f"<disk type='file' device='{kind}'><driver name='qemu' type='{image_format}'/>{source}"
        f"<target dev='{device}'/>{more}</disk>"
    )


SYSTEM = disk("vda", "/pools/default/web1-system.qcow2")
SEED = disk("vdz", "/pools/default/web1-seed.iso", "raw", "<readonly/>")
# As libvirt writes it.
SEED_LINES = re.compile(r"<disk type='file' device='disk'>(?:(?!</disk>).)*web1-seed\.iso.*?</disk>", re.DOTALL)


@dataclass
class World:
    """What the two hypervisors have; each test says what is special."""

    disks: str = SYSTEM + SEED
    devices: str = "<interface type='network'><mac address='52:54:00:00:00:01'/><source network='net1'/></interface>"
    machine: str = ""
    note: str = ""
    source_volumes: str = ""
    target: str = ""
    target_volumes: str = ""
    target_networks: str = "<network><name>net1</name><bridge name='br1'/></network>"
    target_images: str = ""
    target_pools: tuple[str, ...] = ("default", "images")

    def source_xml(self) -> str:
        domain = f"""
        <domain type='test'><name>web1</name><uuid>11111111-1111-1111-1111-111111111111</uuid>
        <metadata>{notes_to_xml(NOTES)}{self.note}</metadata>
        <memory unit='KiB'>{MEMORY_KIB}</memory><vcpu>1</vcpu><os><type>hvm</type></os>{self.machine}
        <devices>{self.disks}{self.devices}</devices></domain>"""
        volumes = "".join(
            [
                volume("web1-system.qcow2", "qcow2", f"/pools/images/{IMAGE}"),
                volume("web1-seed.iso", "raw"),
                volume("data.raw", "raw"),
                self.source_volumes,
            ]
        )
        pools = pool("default", volumes) + pool("images", volume(IMAGE, "qcow2"))
        small = OTHER.format(name="web2", uuid=THREE, memory=MEMORY_KIB, devices="")
        return f"<node>{domain}{small}{pools}<network><name>net1</name><bridge name='br1'/></network></node>"

    def target_xml(self) -> str:
        volumes = {"default": self.target_volumes, "images": self.target_images}
        pools = "".join(pool(name, volumes.get(name, "")) for name in self.target_pools)
        return f"<node>{self.target}{pools}{self.target_networks}</node>"


def volume(name: str, image_format: str, backing: str = "") -> str:
    under = f"<backingStore><path>{backing}</path><format type='qcow2'/></backingStore>" if backing else ""
    return (
        f"<volume><name>{name}</name><capacity unit='MiB'>64</capacity><allocation unit='MiB'>4</allocation>"
        f"<target><format type='{image_format}'/></target>{under}</volume>"
    )


def pool(name: str, volumes: str) -> str:
    return f"<pool type='dir'><name>{name}</name><target><path>/pools/{name}</path></target>{volumes}</pool>"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Callable[..., t.Callable[..., MigrationPlan]]]:
    """Make two hypervisors, and get back what plans a migration between them."""
    locked = functools.partial(hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(migration_context, "hypervisor_lock", locked)
    # The one file that is read past libvirt.
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / IMAGE).write_bytes(b"image")
    with ExitStack() as stack:

        def make(**special: t.Any) -> t.Callable[..., MigrationPlan]:
            here = World(**special)
            for name, text in (("source", here.source_xml()), ("target", here.target_xml())):
                (tmp_path / f"{name}.xml").write_text(text.replace("/pools", str(tmp_path)), encoding="utf-8")
            endpoints = Endpoints(f"test://{tmp_path / 'source.xml'}", f"test://{tmp_path / 'target.xml'}")
            source = HypervisorView(stack.enter_context(open_connection(endpoints.source)))
            target = MigrationTarget(endpoints.target, stack.enter_context(open_connection(endpoints.target)))
            # Both are this machine.
            target.name = "hv2"

            def plan(name: str = "web1", **migration_options: t.Any) -> MigrationPlan:
                context = MigrationContext(
                    endpoints,
                    source,
                    "hv1",
                    target,
                    MigrationOptions(**migration_options),
                    threading.Event(),
                    check_mode=True,
                )
                return plan_migration(name, context, "", lambda *_progress: None)

            plan.source, plan.target = source, target  # type: ignore[attr-defined]
            return plan

        yield make


World_ = t.Callable[..., t.Callable[..., MigrationPlan]]


def ways(migration: MigrationPlan) -> dict[str, str]:
    return {disk.device: disk.method for disk in migration.disks}


def test_a_volume_of_its_own_that_is_no_disk_of_it_any_more_is_named_as_it_stays(world: World_) -> None:
    """Somebody has detached it, and the machine's notes on the target will not have it."""
    plan = world(disks=SYSTEM)
    assert plan().kept == [
        "volume web1-seed.iso of pool default is kept: it is no disk of web1. If it is not needed: "
        f"virsh -c {plan.source.conn.getURI()} vol-delete --pool default web1-seed.iso"  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize(("disks", "undefine_source"), [(SYSTEM + SEED, True), (SYSTEM, False)])
def test_others_are_not_named(world: World_, disks: str, undefine_source: bool) -> None:
    """As where the machine stays defined here, whose notes have it."""
    assert world(disks=disks)(undefine_source=undefine_source).kept == []


def test_a_running_machine_has_its_disks_mirrored_and_its_seed_copied(world: World_) -> None:
    migration = world()()
    assert ways(migration) == {"vda": "mirror", "vdz": "content"}
    assert migration.actions == [
        f"copy image {IMAGE} to hv2",
        "create web1-system.qcow2, web1-seed.iso on hv2",
        "copy web1-seed.iso to hv2",
        "move web1 to hv2",
        "delete web1-system.qcow2, web1-seed.iso on hv1",
        "record that web1 has arrived",
    ]


@pytest.mark.parametrize(("image_format", "brought"), [("qcow2", False), ("raw", True)], ids=["whole", "half"])
def test_an_image_that_is_only_half_there_is_brought(world: World_, image_format: str, brought: bool) -> None:
    """A run that was killed has left it: what it has in the place of its beginning is the mark of that run."""
    migration = world(target_images=volume(IMAGE, image_format))()
    assert (f"copy image {IMAGE} to hv2" in migration.actions) is brought


def test_a_stopped_machine_has_all_copied(world: World_) -> None:
    plan = world()
    plan.source.conn.lookupByName("web1").destroy()  # type: ignore[attr-defined]
    migration = plan()
    assert ways(migration) == {"vda": "content", "vdz": "content"}
    # Nothing here is let go of that is in the target's memory only.
    assert migration.before[-2].description == "flush web1-system.qcow2, web1-seed.iso to the disk of hv2"


def test_what_a_running_machine_has_for_its_next_start_is_on_the_targets_disk_as_well(world: World_) -> None:
    """Not its seed, which its guest has read, and which would have every live move take longer."""
    plan = world()
    domain = plan.source.conn.lookupByName("web1")  # type: ignore[attr-defined]
    record = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    path = plan.source.pools.get("default").volume_path("data.raw")  # type: ignore[attr-defined]
    plan.source.conn.defineXML(record.replace("</devices>", disk("vdb", path, "raw") + "</devices>"))  # type: ignore[attr-defined]
    assert "flush data.raw to the disk of hv2" in plan().actions


def test_volumes_of_others_stay_at_the_source(world: World_) -> None:
    disks = SYSTEM + disk("vdb", "/pools/default/data.raw", "raw") + disk("sda", "", "raw", "<readonly/>", "cdrom")
    own = world(disks=disks)()
    assert {move.device: move.own for move in own.disks} == {"vda": True, "vdb": False}
    everything = world(disks=disks)(source_volumes="all")
    assert {move.device: move.own for move in everything.disks} == {"vda": True, "vdb": True}
    nothing = world(disks=disks)(source_volumes="none")
    assert not any(move.own for move in nothing.disks)


def test_a_disk_on_nothing_stored_is_flattened(world: World_) -> None:
    alone = volume("odd.qcow2", "qcow2", "/elsewhere/base.qcow2")
    migration = world(disks=disk("vda", "/pools/default/odd.qcow2"), source_volumes=alone)()
    assert [(move.method, move.flattened, move.base) for move in migration.disks] == [("mirror", True, None)]


def test_what_a_guest_wrote_into_a_raw_disk_is_not_believed(world: World_) -> None:
    odd = volume("odd.raw", "qcow2", "/etc/shadow")
    migration = world(disks=disk("vda", "/pools/default/odd.raw", "raw"), source_volumes=odd)()
    assert [(move.format, move.flattened, move.base) for move in migration.disks] == [("raw", False, None)]


FAST_POOLS = ("default", "images", "fast")


def places_there(migration: MigrationPlan) -> dict[str, str]:
    return {move.device: str(move.ref_there) for move in migration.disks}


def test_disks_go_to_the_pools_that_are_named_at_the_target(world: World_) -> None:
    both = {"vda": "fast/web1-system.qcow2", "vdz": "fast/web1-seed.iso"}
    assert places_there(world(target_pools=FAST_POOLS)(pool="fast")) == both
    migration = world(target_pools=FAST_POOLS)(disks={"vda": "fast"})
    assert places_there(migration) == {**both, "vdz": "default/web1-seed.iso"}
    # The overlay stays on its image, in the image's own pool.
    (base,) = (move.base for move in migration.disks if move.base is not None)
    assert (base.pool, base.path_there.split("/")[-2]) == ("images", "images")


def test_an_image_whose_pool_is_not_there_goes_along(world: World_) -> None:
    migration = world(target_pools=("fast",))(pool="fast")
    (base,) = (move.base for move in migration.disks if move.base is not None)
    assert base.pool == "fast"


def test_what_many_machines_read_is_not_sent_to_another_pool(world: World_) -> None:
    cd = disk("sda", "/pools/default/data.raw", "raw", "<readonly/>", "cdrom")
    there = {"target_pools": FAST_POOLS, "target_volumes": volume("data.raw", "raw")}
    assert ways(world(disks=cd, **there)(pool="fast")) == {"sda": "there"}


@pytest.mark.parametrize("pool", ["fast", "nosuchpool"])
def test_a_pool_that_is_named_for_what_does_not_go_there_is_an_error(world: World_, pool: str) -> None:
    """As between the pools of one hypervisor."""
    drives = disk("sda", "/pools/default/data.raw", "raw", "<readonly/>", "cdrom") + disk("sdb", "", kind="cdrom")
    plan = world(disks=drives, target_pools=FAST_POOLS, target_volumes=volume("data.raw", "raw"))
    with pytest.raises(VirtError, match="disk sda: it is read-only and not the machine's own"):
        plan(disks={"sda": pool})
    with pytest.raises(VirtError, match="disk sdb: the drive is empty"):
        plan(disks={"sdb": pool})
    assert ways(plan(disks={"sda": "default"})) == {"sda": "there"}


ENCRYPTION = (
    "<encryption format='luks'><secret type='passphrase' uuid='66666666-6666-4666-8666-666666666666'/></encryption>"
)


def test_an_encrypted_disk_is_not_mirrored(world: World_, monkeypatch: pytest.MonkeyPatch) -> None:
    """QEMU would find an empty volume on the target, where it looks for what an encrypted one begins with."""
    encrypted = disk("vda", "/pools/default/data.raw", "raw", ENCRYPTION)
    plan = world(disks=encrypted)
    with pytest.raises(VirtError, match="disk vda: it is encrypted, and not copied while the machine runs. Shut the"):
        plan()
    plan.source.conn.lookupByName("web1").destroy()  # type: ignore[attr-defined]
    del plan.source.domains  # type: ignore[attr-defined]
    assert ways(plan()) == {"vda": "content"}
    monkeypatch.setattr(disks_module, "is_shared", lambda *_pools, **_seen: True)
    assert ways(world(disks=encrypted)()) == {"vda": "shared"}


def test_the_note_and_the_record_name_the_pools_of_each_side(world: World_) -> None:
    plan = world(target_pools=FAST_POOLS)
    migration = plan(disks={"vda": "fast"})
    machine = source_and_target.read_source_machine(plan.source.domains["web1"], "")  # type: ignore[attr-defined]
    texts = switch.target_xml(machine, migration.disks)
    for text in texts.values():
        found = read_notes(parse_xml(text))
        assert found is not None
        assert [(note.pool, note.name) for note in found.volumes] == [
            ("fast", "web1-system.qcow2"),
            ("default", "web1-seed.iso"),
        ]
        assert "/fast/web1-system.qcow2" in text


def test_a_pool_that_both_hypervisors_share_may_have_another_name_on_the_target(
    world: World_, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine keeps its volumes there, which a purge would not find in a pool of the name that it has here."""
    monkeypatch.setattr(disks_module, "is_shared", lambda *_pools, **_seen: True)
    plan = world(target_pools=FAST_POOLS)
    migration = plan(pool="fast")
    assert ways(migration) == {"vda": "shared", "vdz": "shared"}
    machine = source_and_target.read_source_machine(plan.source.domains["web1"], "")  # type: ignore[attr-defined]
    texts = switch.target_xml(machine, migration.disks)
    assert texts
    for text in texts.values():
        found = read_notes(parse_xml(text))
        assert found is not None
        assert {note.pool for note in found.volumes} == {"fast"}


@pytest.mark.parametrize("more", ["", "<readonly/>"])
def test_what_the_target_does_not_see_is_not_looked_for_among_the_devices_of_a_server(world: World_, more: str) -> None:
    """Where names are numbers: another device may have this one."""
    san = """<pool type='iscsi'><name>default</name><source><host name='nas'/>
    <device path='iqn.2026-01.org.example:vms'/></source><target><path>/dev/disk/by-path</path></target>
    <volume type='block'><name>data.raw</name><capacity unit='MiB'>64</capacity></volume></pool>"""
    plan = world(disks=disk("vdb", "/pools/default/data.raw", "raw", more), target=san, target_pools=("images",))
    with pytest.raises(VirtError, match=r"hv2 does not see this volume data\.raw, and none can be created in its pool"):
        plan()


HOSTDEV = "<hostdev mode='subsystem' type='usb'><source><address bus='1' device='2'/></source></hostdev>"
HOSTDEV_NIC = (
    "<interface type='hostdev'><mac address='52:54:00:00:00:01'/><source>"
    "<address type='pci' domain='0' bus='1' slot='0' function='1'/></source></interface>"
)
FOLDER = "<filesystem><source dir='/srv'/><target dir='srv'/></filesystem>"
OTHER = (
    "<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory unit='KiB'>{memory}</memory>"
    "<os><type>hvm</type></os><devices>{devices}</devices></domain>"
)
THREE = "33333333-3333-3333-3333-333333333333"
TWO = "22222222-2222-2222-2222-222222222222"
ONE = "11111111-1111-1111-1111-111111111111"
NIC = "<interface type='network'><mac address='52:54:00:00:00:01'/><source network='net1'/></interface>"


@pytest.mark.parametrize(
    ("special", "words"),
    [
        ({"devices": HOSTDEV}, "it has a device of the hypervisor"),
        ({"devices": HOSTDEV_NIC}, "it has a network card of the hypervisor"),
        ({"devices": FOLDER}, "it has a folder of the hypervisor"),
        ({"target": OTHER.format(name="web1", uuid=TWO, memory=1024, devices="")}, "another machine has its name"),
        ({"target": OTHER.format(name="web1", uuid=ONE, memory=1024, devices="")}, "it is defined there too"),
        ({"target": OTHER.format(name="web2", uuid=ONE, memory=1024, devices="")}, "web2 there has the same UUID"),
        ({"target": OTHER.format(name="web2", uuid=TWO, memory=1024, devices=NIC)}, "web2 there has its MAC address"),
        ({"target": OTHER.format(name="big", uuid=TWO, memory=3_000_000, devices="")}, "MiB of memory, 0 MiB are free"),
        ({"target_networks": "<network><name>net2</name><bridge name='br2'/></network>"}, "no libvirt network 'net1'"),
        ({"target_pools": ("images",)}, "on hv2, there is no storage pool 'default'"),
        ({"target_pools": ("default",)}, "there is no storage pool 'images'"),
        ({"target_volumes": volume("web1-seed.iso", "raw")}, "has a volume web1-seed.iso already"),
        ({"disks": disk("vda", "/nowhere/x.qcow2")}, "is not in any storage pool"),
        ({"disks": disk("vda", "/pools/default/data.raw", "qcow2")}, "the volume looks like raw"),
        ({"disks": disk("sda", "/pools/default/data.raw", "raw", "<readonly/>", "cdrom")}, "hv2 has no data.raw"),
        ({"disks": disk("vda", "/pools/default/data.raw", "raw", "<shareable/>")}, "it is shared with other machines"),
    ],
)
def test_what_speaks_against_it_is_said_before_anything_is_done(
    world: World_, special: dict[str, t.Any], words: str
) -> None:
    with pytest.raises(VirtError) as caught:
        world(**special)()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("notes", "words"),
    [
        (
            MachineNotes(status=BUILDING),
            "web1 is not moved, as it is not finished: a run is creating it, or was interrupted",
        ),
        (
            MachineNotes(status=BUILDING, claimed=True),
            "web1 is not moved, as it is only a name that a run has reserved for a new machine",
        ),
        (
            dataclasses.replace(NOTES, volumes=(*NOTES.volumes, VolumeNote("default", "web1-new.raw", "disk", True))),
            "web1 is not moved, as a run is adding volume web1-new.raw to it, or was interrupted while doing so",
        ),
    ],
    ids=["building", "claimed", "adding"],
)
def test_a_machine_that_is_being_made_stays(world: World_, notes: MachineNotes, words: str) -> None:
    """Also when that begins after the move was planned: then another run recreates it, or adds to it."""
    plan = world()
    migration = plan()
    write_notes(plan.source.conn.lookupByName("web1"), notes)  # type: ignore[attr-defined]
    with pytest.raises(ConflictError) as caught:
        migration.recheck()
    assert str(caught.value).startswith(words)
    del plan.source.domains  # type: ignore[attr-defined]
    with pytest.raises(ConflictError) as caught:
        plan()
    assert str(caught.value).startswith(words)


def test_snapshots_stay_where_they_are(world: World_) -> None:
    plan = world()
    plan.source.conn.lookupByName("web1").snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")  # type: ignore[attr-defined]
    with pytest.raises(VirtError, match=r"has snapshots \(before\)"):
        plan()


def test_snapshots_go_along_with_a_machine_that_is_off(world: World_) -> None:
    plan = world()
    domain = plan.source.conn.lookupByName("web1")  # type: ignore[attr-defined]
    domain.destroy()
    domain.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
    actions = plan().actions
    first = actions.index("set aside the snapshots of web1")
    assert actions[first + 1 : first + 3] == [
        "move the record of web1 to hv2",
        "put back the snapshots of web1 on hv2",
    ]


@pytest.mark.parametrize("active", [True, False])
def test_snapshots_that_an_interrupted_move_has_set_aside_keep_a_running_machine_here(
    world: World_, monkeypatch: pytest.MonkeyPatch, active: bool
) -> None:
    """It was killed, and the machine was started since, by its hypervisor or by hand: its old volume has the only copy
    of what they hold, and would have been deleted."""
    # This driver's snapshots are nothing but metadata, and it knows no such flag.
    monkeypatch.setattr(libvirt, "VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY", 0)
    # Both hypervisors are this machine, where nothing is cleared.
    monkeypatch.setattr(steps, "clear_target", lambda *_words: [])
    plan: t.Any = world(note=_note("hv1", "hv2"))
    domain = plan.source.conn.lookupByName("web1")
    domain.destroy()
    domain.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
    set_aside(domain)
    if active:
        domain.create()
        with pytest.raises(VirtError, match=r"has snapshots \(before\), .* an interrupted move has set them aside"):
            plan()
        return
    # Off, it goes there with them. Whatever fails on the way, they come back first.
    migration = plan()
    assert {"set aside the snapshots of web1", "put back the snapshots of web1 on hv2"} <= set(migration.actions)
    migration.before[0].apply()
    assert [one.facts.name for one in list_snapshots(domain)] == ["before"]


def _note(source: str, target: str) -> str:
    made = "<m:made pool='default' name='web1-system.qcow2'/>"
    return (
        f"<m:move xmlns:m='{NAMESPACE}' source='{source}' target='{target}' uri='qemu+tls://{target}/system'"
        f" autostart='no'>{made}</m:move>"
    )


# The machine's volumes, as the target sees them in a shared pool.
BOTH = volume("web1-system.qcow2", "qcow2") + volume("web1-seed.iso", "raw")
HELD = "disable autostart of web1 on hv1"


def starts_with_its_host(plan: t.Any, shared: bool, monkeypatch: pytest.MonkeyPatch) -> t.Any:
    """Have the machine start with its host, and both hypervisors see its disks. Returns it."""
    monkeypatch.setattr(disks_module, "is_shared", lambda *_pools, **_seen: shared)
    domain = plan.source.conn.lookupByName("web1")
    domain.setAutostart(1)
    return domain


def test_what_is_in_the_way_may_be_the_disk_itself(world: World_) -> None:
    """Two folders can be one without anybody being able to tell: nobody is told to remove what may be the only disk."""
    with pytest.raises(ConflictError) as caught:
        world(target_volumes=BOTH)()
    assert str(caught.value) == (
        "disk vda: pool default of hv2 has a volume web1-system.qcow2 already. It may be this very disk, in storage "
        "that both hypervisors see: find that out first. Nothing is ever overwritten; if it is another volume, remove "
        "or rename it"
    )


@pytest.mark.parametrize("shared", [True, False])
def test_on_disks_that_both_have_it_does_not_start_with_its_host_while_it_moves(
    world: World_, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """At the switch its host may lose its power; the target writes to the disks by then."""
    plan = world(target_volumes=BOTH if shared else "")
    starts_with_its_host(plan, shared, monkeypatch)
    actions = plan().actions
    assert (HELD in actions) is shared
    if shared:
        assert actions[:3] == ["record that web1 is moving to hv2", HELD, "move web1 to hv2"]


@pytest.mark.parametrize("state", [None, "switched", "undecided"])
def test_it_starts_with_its_host_again_only_where_it_stays(
    world: World_, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    plan = world(target_volumes=BOTH)
    domain = starts_with_its_host(plan, True, monkeypatch)
    migration = plan()
    held = next(step for step in migration.before if step.description == HELD)
    # Another connection to the test driver would not see the change.
    monkeypatch.setattr(Endpoints, "reconnected", lambda self: dataclasses.replace(self, source_conn=domain.connect()))
    held.apply()
    assert not domain.autostart()
    if state is not None:
        setattr(migration, state, True)
    assert held.undo is not None
    held.undo()
    assert bool(domain.autostart()) is (state is None)


def test_what_a_run_that_was_killed_has_held_back_starts_with_its_host_again(
    world: World_, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both hypervisors are this machine, where nothing is cleared.
    monkeypatch.setattr(steps, "clear_target", lambda *_words: [])
    plan: t.Any = world(note=_note("hv1", "hv2").replace("autostart='no'", "autostart='yes'"))
    migration = plan()
    assert "enable autostart of web1 on hv2" in migration.actions
    migration.before[0].apply()
    assert plan.source.conn.lookupByName("web1").autostart()


def test_what_a_run_has_left_in_a_pool_that_is_gone_has_a_way_out(
    world: World_, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clear(*_words: t.Any) -> t.NoReturn:
        raise NotFoundError("there is no storage pool 'fast'")

    monkeypatch.setattr(steps, "clear_target", clear)
    plan: t.Any = world(note=_note("hv1", "hv2"))
    with pytest.raises(NotFoundError) as caught:
        plan().before[0].apply()
    assert str(caught.value) == (
        "an interrupted run may have left volumes of web1 on hv2, where they cannot be looked for: there is no storage "
        "pool 'fast'. Define the pool there again, and run it again. If it is gone for good, with what was in it: "
        f"virsh metadata web1 {NAMESPACE} --live --config --remove"
    )
    assert NAMESPACE in plan.source.conn.lookupByName("web1").XMLDesc(0)


def test_what_a_run_that_was_cut_off_has_left_there_is_removed_first(world: World_) -> None:
    migration = world(note=_note("hv1", "hv3"))()
    assert migration.actions[0] == "remove what an interrupted run left on hv3"


# libvirt's test driver has pools of 100 GiB.
BIG_GIB = 60


def big_volume(name: str) -> str:
    text = volume(name, "qcow2")
    return text.replace("unit='MiB'>64<", f"unit='GiB'>{BIG_GIB}<").replace("unit='MiB'>4<", f"unit='GiB'>{BIG_GIB}<")


def _broken_off(world: World_, monkeypatch: pytest.MonkeyPatch, disk_of_web2: str) -> t.Any:
    """A machine whose move broke off when all of its large disk was there, and another one, web2."""
    monkeypatch.setattr(identity, "last_written", lambda _volume: "at noon")
    note = _note("hv1", "hv2").replace("qemu+tls://hv2/system", "test:///pools/target.xml")
    plan: t.Any = world(
        disks=disk("vda", "/pools/default/web1-big.qcow2"),
        source_volumes=big_volume("web1-big.qcow2") + big_volume("web2-big.qcow2"),
        note=note.replace("web1-system.qcow2'", "web1-big.qcow2' written='at noon'"),
        target_volumes=big_volume("web1-big.qcow2"),
    )
    image_format = "raw" if disk_of_web2.endswith(".raw") else "qcow2"
    device = disk("vda", plan.source.pools.get("default").volume_path(disk_of_web2), image_format)
    plan.source.conn.defineXML(OTHER.format(name="web2", uuid=THREE, memory=MEMORY_KIB, devices=device))
    return plan


NO_ROOM = r"on hv2, pool 'default' has 40\.0G free, the new volumes need 60\.0G at once"


def test_what_a_run_that_was_cut_off_has_left_there_takes_no_room_from_the_next_one(
    world: World_, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed before anything is created, so it counts neither against this machine nor against the next."""
    plan = _broken_off(world, monkeypatch, "data.raw")
    migration = plan()
    assert migration.actions[:2] == ["remove what an interrupted run left on hv2", "create web1-big.qcow2 on hv2"]
    assert "create data.raw on hv2" in plan("web2").actions
    # As long as it is there, nothing is created.
    with pytest.raises(ConflictError, match=NO_ROOM):
        migration.before[1].apply()


def test_no_more_than_what_was_left_there_is_expected_to_be_free(
    world: World_, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _broken_off(world, monkeypatch, "web2-big.qcow2")
    plan()
    with pytest.raises(ConflictError, match=NO_ROOM):
        plan("web2")


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("source", ["hv0", "hv2"])
def test_the_volumes_of_a_machine_that_has_arrived_are_no_left_overs(world: World_, source: str, active: bool) -> None:
    """It came here, and the run that brought it was cut off before the end: its note speaks of what it has here."""
    plan = world(note=_note(source, "hv1"))
    if not active:
        plan.source.conn.lookupByName("web1").destroy()  # type: ignore[attr-defined]
    with pytest.raises(VirtError, match=f"web1 came here from {source}, where a run that was interrupted") as caught:
        plan()
    flags = "--live --config" if active else "--config"
    assert f"If {source} is gone for good: virsh metadata web1 {NAMESPACE} {flags} --remove" in str(caught.value)


def test_a_volume_that_only_has_the_name_of_a_left_over_is_somebody_elses(world: World_) -> None:
    """The target was cleaned up by hand after a kill, and somebody has made another volume there."""
    note = _note("hv1", "hv2").replace("qemu+tls://hv2/system", "test:///pools/target.xml")
    with pytest.raises(VirtError, match=r"has a volume web1-system\.qcow2 already"):
        world(note=note, target_volumes=volume("web1-system.qcow2", "qcow2"))()


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        ("", r", as a raw volume has no place for a mark, and so it is kept\. If it is not needed: virsh -c test://"),
        (" mark='word'", r" nothing proves that, and so it is kept\. If it is not needed: virsh -c test://"),
    ],
    ids=["raw", "with a mark that is gone"],
)
def test_what_a_killed_move_may_have_left_is_said_with_the_command_that_deletes_it(
    world: World_, mark: str, why: str
) -> None:
    note = _note("hv1", "hv2").replace("name='web1-system.qcow2'", f"name='web1-system.qcow2'{mark}")
    with pytest.raises(VirtError, match=r"has a volume web1-system\.qcow2 already.*" + why) as caught:
        world(note=note, target_volumes=volume("web1-system.qcow2", "qcow2"))()
    assert str(caught.value).endswith("vol-delete --pool default web1-system.qcow2")


def _half_moved(
    world: World_, monkeypatch: pytest.MonkeyPatch, there: str = "hv2", uri: str = "", written: str = "at noon"
) -> t.Any:
    """A machine that is off, on both hypervisors: a run was killed between defining it there and forgetting it here.

    written: when the volume there was written to last, by the note.
    """
    # The test driver does not tell the time.
    monkeypatch.setattr(identity, "last_written", lambda _volume: "at noon")
    note = _note("hv1", there).replace("autostart='no'", "autostart='no' running='no'")
    note = note.replace("qcow2'/>", f"qcow2' written='{written}'/>")
    note = note.replace("qemu+tls://hv2/system", uri or "test:///pools/target.xml")
    copy = OTHER.format(name="web1", uuid=ONE, memory=MEMORY_KIB, devices=NIC)
    copy = copy.replace("<os>", f"<metadata>{note}</metadata><os>")
    plan = world(note=note, target=copy, target_volumes=volume("web1-system.qcow2", "qcow2"))
    for side in (plan.source, plan.target.hypervisor):  # type: ignore[attr-defined]
        side.conn.lookupByName("web1").destroy()
    return plan


@pytest.mark.parametrize("uri", ["", "qemu+tls://192.0.2.2/system"], ids=["the same URI", "another URI"])
def test_what_a_killed_move_of_a_stopped_machine_has_defined_there_is_removed_first(
    world: World_, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    """What it has of memory and disks there is its own, and is free again by then."""
    plan = _half_moved(world, monkeypatch, uri=uri)
    total_mib = plan.target.hypervisor.memory_mib
    migration = plan(memory_reserve_mib=total_mib - 1024 - 100)
    assert migration.actions == [
        "remove what an interrupted run left on hv2",
        f"copy image {IMAGE} to hv2",
        "create web1-system.qcow2, web1-seed.iso on hv2",
        "copy web1-system.qcow2 to hv2",
        "copy web1-seed.iso to hv2",
        "flush web1-system.qcow2, web1-seed.iso to the disk of hv2",
        "move the record of web1 to hv2",
        "delete web1-system.qcow2, web1-seed.iso on hv1",
        "record that web1 has arrived",
    ]
    # Before anything is made, it must be gone.
    with pytest.raises(VirtError, match="it is defined there too"):
        migration.before[2].apply()
    migration.recheck()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda there: there.create(),
        lambda there: there.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, None, "m", NAMESPACE, 2),
    ],
    ids=["it was started there", "it is no left-over"],
)
def test_a_copy_there_that_somebody_has_come_to_use_is_none_of_a_killed_move(
    world: World_, monkeypatch: pytest.MonkeyPatch, spoil: t.Callable[[t.Any], t.Any]
) -> None:
    plan = _half_moved(world, monkeypatch)
    spoil(plan.target.hypervisor.conn.lookupByName("web1"))
    with pytest.raises(VirtError, match="it is defined there too"):
        plan()


def test_a_copy_there_whose_disk_is_another_one_now_is_none_of_a_killed_move(
    world: World_, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(VirtError, match="it is defined there too"):
        _half_moved(world, monkeypatch, written="at ten")()


def test_what_was_left_on_a_hypervisor_that_is_lost_keeps_nobody_for_ever(
    world: World_, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = world()
    domain = plan.source.conn.lookupByName("web1")  # type: ignore[attr-defined]
    write_note(domain, MigrationNote("hv1", "hv3", "qemu+tcp://127.0.0.1:9/system"))
    plan.source.__dict__.pop("domains", None)  # type: ignore[attr-defined]
    monkeypatch.setattr(connection, "_AGAIN_SECONDS", 0.0)
    step = plan().before[0]
    assert step.description == "remove what an interrupted run left on hv3"
    with pytest.raises(UnreachableError, match="may have left volumes of web1 on hv3, which does not answer") as caught:
        step.apply()
    hint = "If hv3 is gone for good: virsh metadata web1 urn:brine:virt:move:1 --live --config --remove"
    assert str(caught.value).endswith(hint)


@pytest.mark.parametrize("state", ["switched", "undecided"])
def test_nothing_is_rolled_back_when_libvirt_has_moved_it_or_may_have(world: World_, state: str) -> None:
    migration = world()()
    undo = migration.before[1].undo
    assert undo is not None
    with pytest.raises(VirtError, match="nothing is deleted"):
        undo()
    setattr(migration, state, True)
    undo()


def test_a_volume_that_somebody_makes_there_before_this_run_does_stays(
    world: World_, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever kept this run from making its own: here, the seed's file is not there to be copied."""
    plan = world()
    step = plan().before[1]
    pool = plan.target.hypervisor.conn.storagePoolLookupByName("default")  # type: ignore[attr-defined]
    pool.createXML(volume("web1-seed.iso", "raw"))
    with pytest.raises(VirtError, match="has had a volume web1-seed.iso"):
        step.apply()
    cleared: list[str] = []

    def clear(_ends: Endpoints, _uuid: str, note: MigrationNote, **_more: t.Any) -> list[str]:
        cleared.extend(ref.name for ref in note.made)
        return []

    monkeypatch.setattr(steps, "clear_target", clear)
    assert step.undo is not None
    step.undo()
    assert cleared == ["web1-system.qcow2"]


def test_what_the_plan_is_based_on_is_checked_again(world: World_) -> None:
    plan = world()
    migration = plan()
    migration.recheck()
    there = plan.target.hypervisor.conn  # type: ignore[attr-defined]
    other = there.defineXML(OTHER.format(name="web1", uuid=TWO, memory=1024, devices=""))
    with pytest.raises(VirtError, match="another machine has its name there"):
        migration.recheck()
    other.undefine()
    migration.recheck()
    big = there.defineXML(OTHER.format(name="big", uuid=TWO, memory=3_000_000, devices=""))
    with pytest.raises(VirtError, match="MiB of memory, 0 MiB are free"):
        migration.recheck()
    big.undefine()
    here = plan.source.conn.lookupByName("web1")  # type: ignore[attr-defined]
    here.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
    with pytest.raises(VirtError, match=r"has snapshots \(before\)"):
        migration.recheck()
    here.snapshotLookupByName("before").delete()
    migration.recheck()
    here.destroy()
    with pytest.raises(VirtError, match="web1 has stopped since its move was planned"):
        migration.recheck()


@pytest.mark.parametrize(("image_there", "looks"), [(True, 1), (False, 2)], ids=["at once", "after an image was sent"])
def test_the_target_is_checked_again_once_and_after_what_takes_long(
    world: World_, monkeypatch: pytest.MonkeyPatch, image_there: bool, looks: int
) -> None:
    seen: list[str] = []

    class Counted(MigrationTarget):
        def __init__(self, uri: str, conn: t.Any) -> None:
            seen.append(uri)
            super().__init__(uri, conn)

    monkeypatch.setattr(recheck, "MigrationTarget", Counted)
    monkeypatch.setattr(steps, "copy_image_to_target", lambda *_words: None)
    monkeypatch.setattr(switch, "is_stored", lambda *_words: True)
    migration = world(disks=SYSTEM, target_images=volume(IMAGE, "qcow2") if image_there else "")()
    assert len(migration.before) == (2 if image_there else 3)
    migration.recheck()
    for step in migration.before[:-1]:
        step.apply()
    # This driver cannot move anything.
    with pytest.raises(VirtError, match="was not moved"):
        migration.before[-1].apply()
    assert len(seen) == looks


def test_a_target_in_maintenance_gets_nothing(world: World_, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the move is planned, and when it has begun since; the test driver cannot show one."""
    migration = world()()
    monkeypatch.setattr(source_and_target, "find_maintenance", lambda _conn: Maintenance("2026-11-21T10:00:00Z", "fan"))
    with pytest.raises(
        VirtError, match=r"web1 cannot go to hv2: it is in maintenance since 2026-11-21T10:00:00Z \(fan\)"
    ):
        migration.recheck()
    with pytest.raises(VirtError, match="in maintenance"):
        world()()


def test_a_machine_that_gets_another_disk_after_the_plan(world: World_) -> None:
    plan = world()
    migration = plan()
    conn = plan.source.conn  # type: ignore[attr-defined]
    record = conn.lookupByName("web1").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    conn.defineXML(record.replace("</devices>", disk("vdb", "/srv/new.qcow2") + "</devices>"))
    with pytest.raises(VirtError, match="web1 has different disks than when its move was planned"):
        migration.recheck()


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("</devices>", disk("vdb", "/srv/new.qcow2") + "</devices>"),
        (SEED_LINES, ""),
        ("<vcpu placement='static'>1</vcpu>", "<vcpu placement='static'>2</vcpu>"),
        ("status=\"ready\"|status='ready'", "status='ready' changed='yes'"),
    ],
    ids=["a new disk", "a disk less", "a CPU more", "its notes"],
)
def test_what_is_moved_is_what_was_planned(world: World_, old: str | re.Pattern[str], new: str, active: bool) -> None:
    """A change while it was copied would be lost, and a new disk be left at the source."""
    plan = world(disks=SYSTEM + SEED, target_images=volume(IMAGE, "qcow2"))
    domain = plan.source.conn.lookupByName("web1")  # type: ignore[attr-defined]
    if not active:
        domain.destroy()
    migration = plan()
    write_note(domain, MigrationNote("hv1", "hv2", "qemu+tls://hv2/system"))
    # Its own note is no change; and this driver cannot move anything.
    with pytest.raises(VirtError, match="web1 was not moved"):
        migration.before[-1].apply()
    record = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    changed = re.sub(old, new, record, count=1)
    assert changed != record
    plan.source.conn.defineXML(changed)  # type: ignore[attr-defined]
    with pytest.raises(ConflictError, match=r"web1 has been changed since its move was planned.* Run the move again"):
        migration.before[-1].apply()


def test_a_disk_that_was_attached_to_the_running_machine_alone_is_nothing_that_the_target_has(world: World_) -> None:
    """virsh attach-disk --live: a device of that name on the target is another one."""
    plan: t.Any = world(disks=SYSTEM + disk("sda", "", kind="cdrom"), target_images=volume(IMAGE, "qcow2"))
    known = plan.source.domains["web1"]

    class WithMore:
        """The test driver attaches nothing."""

        more = ""

        def XMLDesc(self, flags: int = 0) -> str:
            text = str(known.handle.XMLDesc(flags))
            defined = flags & libvirt.VIR_DOMAIN_XML_INACTIVE
            return text if defined else text.replace("</disk>", f"</disk>{self.more}", 1)

        def __getattr__(self, name: str) -> t.Any:
            return getattr(known.handle, name)

    handle = WithMore()
    plan.source.domains["web1"] = dataclasses.replace(known, handle=t.cast(t.Any, handle))
    move = plan().before[-1]
    with pytest.raises(VirtError, match="web1 was not moved to hv2"):
        move.apply()
    handle.more = "<disk type='block' device='disk'><source dev='/dev/vg0/extra'/><target dev='vdb'/></disk>"
    with pytest.raises(ConflictError) as caught:
        move.apply()
    assert str(caught.value) == (
        "web1 has got another disk since its move was planned: vdb. Nothing is lost: it is here, with that disk. "
        "Detach it, or run the move again, which checks it too"
    )


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("what", ["its disk was written to", "the target is in maintenance"])
def test_what_happens_while_it_waits_for_the_lock_counts(
    world: World_, monkeypatch: pytest.MonkeyPatch, what: str, active: bool
) -> None:
    """Whoever has it may take five minutes to make other machines."""
    plan = world(disks=SYSTEM + SEED)
    if not active:
        plan.source.conn.lookupByName("web1").destroy()  # type: ignore[attr-defined]
    migration = plan()

    def written(_guard: t.Any) -> None:
        raise ConflictError("/pools/default/web1-system.qcow2 was changed while it was being copied")

    @contextlib.contextmanager
    def lock(_purpose: str, **_options: t.Any) -> t.Iterator[None]:
        if what == "its disk was written to":
            monkeypatch.setattr(WriteGuard, "check", written)
        else:
            monkeypatch.setattr(source_and_target, "find_maintenance", lambda _conn: Maintenance(None, None))
            monkeypatch.setattr(switch, "_SHORT_SECONDS", 0)
        yield

    monkeypatch.setattr(migration_context, "hypervisor_lock", lock)
    words = "was changed while it was being copied" if "disk" in what else "web1 cannot go to hv2: it is in maintenance"
    with pytest.raises(ConflictError, match=words):
        migration.before[-1].apply()


@pytest.mark.parametrize("active", [True, False])
def test_an_image_that_has_gone_from_the_target_meanwhile(world: World_, active: bool) -> None:
    """virt_image prunes what nothing there uses: an overlay does so only when all of it has been copied."""
    plan = world(disks=SYSTEM, target_images=volume(IMAGE, "qcow2"))
    if not active:
        plan.source.conn.lookupByName("web1").destroy()  # type: ignore[attr-defined]
    migration = plan()
    with pytest.raises(VirtError, match="web1 was not moved"):
        migration.before[-1].apply()
    there = plan.target.hypervisor.conn.storagePoolLookupByName("images")  # type: ignore[attr-defined]
    there.storageVolLookupByName(IMAGE).delete(0)
    with pytest.raises(ConflictError) as caught:
        migration.before[-1].apply()
    assert str(caught.value) == (
        f"image {IMAGE}, which backs web1, is no longer on hv2. Nothing was changed here. Run it again: the "
        "image is then copied there"
    )


def test_memory_of_machines_that_are_still_on_their_way_counts_when_looked_again(world: World_) -> None:
    plan = world()
    first, second = plan(), plan("web2")
    first.recheck()
    second.recheck()
    plan.target.allocations["web1"] = 3_000_000  # type: ignore[attr-defined]
    first.recheck()
    with pytest.raises(VirtError, match="MiB of memory, 0 MiB are free"):
        second.recheck()


def test_nothing_is_copied_that_is_not_to_be(world: World_) -> None:
    with pytest.raises(VirtError, match="copy_storage is none"):
        world()(copy_storage="none")


def test_two_machines_do_not_get_the_same_memory(world: World_) -> None:
    plan = world()
    plan(memory_reserve_mib=1500)
    with pytest.raises(VirtError, match=r"1024 MiB of memory, \d+ MiB are free"):
        plan("web2", memory_reserve_mib=1500)


@pytest.mark.parametrize(
    ("active", "postcopy", "hint"),
    [(True, False, "Raise timeout, or allow postcopy"), (True, True, "Raise timeout"), (False, False, "Raise timeout")],
)
def test_what_helps_against_the_time_limit(world: World_, active: bool, postcopy: bool, hint: str) -> None:
    plan = world()
    if not active:
        plan.source.conn.lookupByName("web1").destroy()  # type: ignore[attr-defined]
    migration = plan(timeout_seconds=5, postcopy=postcopy)
    assert str(migration.timed_out()) == f"it did not finish within 5 s. {hint}"


def test_a_machine_that_is_nowhere_is_said(world: World_) -> None:
    with pytest.raises(VirtError, match="there is no machine nobody here or on hv2"):
        world()("nobody")


@pytest.mark.parametrize(("identity", "finished"), [("", True), ("ours", True), ("theirs", False)])
def test_what_is_left_of_a_move_is_finished_on_the_hypervisor_that_it_began_on(
    world: World_, monkeypatch: pytest.MonkeyPatch, identity: str, finished: bool
) -> None:
    """Several hypervisors may call themselves localhost. Notes of earlier versions say no more than the name."""
    monkeypatch.setattr(migrations, "host_identity", lambda: "ours")
    note = _note("hv1", "hv2").replace("autostart='no'", f"autostart='no' source_id='{identity}'")
    there = OTHER.format(name="db1", uuid=TWO, memory=1024, devices="").replace(
        "<os>", f"<metadata>{note}</metadata><os>"
    )
    plan = world(target=there)
    if finished:
        assert plan("db1").actions == ["check that db1 has left hv1", "record that db1 has arrived"]
        return
    with pytest.raises(ConflictError, match="db1 is on hv2, and came there from another hypervisor with the host name"):
        plan("db1")


def test_a_machine_on_the_target_is_left_alone(world: World_) -> None:
    there = OTHER.format(name="db1", uuid=TWO, memory=1024, devices="")
    assert world(target=there)("db1").actions == []


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"persistent": False}, "persistent"),
        ({"timeout_seconds": 0.0}, "timeout"),
        ({"max_downtime_ms": -1}, "max_downtime"),
        ({"memory_ratio": 0.0}, "memory_ratio"),
        ({"memory_reserve_mib": -1}, "memory_reserve_mib"),
        ({"parameters": {"bandwidth": 0}}, "bandwidth"),
    ],
)
def test_options_that_make_no_sense(values: dict[str, t.Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        MigrationOptions(**values)
    assert caught.value.where == where


def _names(flags: int) -> set[str]:
    return {
        name[len("VIR_MIGRATE_") :]
        for name, value in vars(libvirt).items()
        if name.startswith("VIR_MIGRATE_") and isinstance(value, int) and flags & value
    }


def test_flags() -> None:
    usual = migration_options.flags(MigrationOptions(), active=True, copied=True, whole=False)
    assert {"PEER2PEER", "LIVE", "TLS", "PERSIST_DEST", "UNDEFINE_SOURCE", "NON_SHARED_INC"} <= _names(usual)
    assert not {"NON_SHARED_DISK", "OFFLINE", "POSTCOPY", "UNSAFE", "TUNNELLED"} & _names(usual)
    off = migration_options.flags(MigrationOptions(), active=False, copied=False, whole=False)
    assert _names(off) == {"PEER2PEER", "OFFLINE", "PERSIST_DEST", "UNDEFINE_SOURCE"}
    special = MigrationOptions(auto_converge=False, tls=False, postcopy=True, compressed=True, undefine_source=False)
    flags = migration_options.flags(special, active=True, copied=True, whole=True)
    assert {"POSTCOPY", "COMPRESSED", "NON_SHARED_DISK"} <= _names(flags)
    assert not {"AUTO_CONVERGE", "TLS", "UNDEFINE_SOURCE", "NON_SHARED_INC"} & _names(flags)
    paused = migration_options.flags(MigrationOptions(live=False), active=True, copied=True, whole=False)
    assert not {"LIVE", "AUTO_CONVERGE"} & _names(paused)


def test_parameters() -> None:
    words = MigrationOptions(parameters={"bandwidth": 5, "compression.methods": ["xbzrle"]})
    found = migration_options.parameters(words, address="fd00::1", active=True, disks=["vda"])
    assert found == {
        "migrate_uri": "tcp://[fd00::1]",
        "bandwidth": 5,
        "compression": ["xbzrle"],
        "migrate_disks": ["vda"],
    }
    assert migration_options.parameters(words, address="hv2", active=False, disks=[]) == {}


def test_what_only_the_running_machine_has_counts_too(world: World_) -> None:
    plan = world(target_networks="")
    conn = plan.source.conn  # type: ignore[attr-defined]
    record = conn.lookupByName("web1").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    # Of a machine that runs, this is how it will be after its next start.
    conn.defineXML(re.sub("<interface.*?</interface>", "", record, flags=re.DOTALL))
    with pytest.raises(VirtError, match="there is no libvirt network 'net1'"):
        plan()


CLONE = (
    "<volume><name>clone.qcow2</name><capacity unit='MiB'>64</capacity><target><format type='qcow2'/></target>"
    "<backingStore><path>/pools/default/web1-system.qcow2</path><format type='qcow2'/></backingStore></volume>"
)


@pytest.mark.parametrize("live", [False, True], ids=["permanent", "running"])
def test_a_machine_whose_volume_somebody_else_uses_is_not_moved(world: World_, live: bool) -> None:
    plan = world()
    source: HypervisorView = plan.source  # type: ignore[attr-defined]
    other = {"name": "other", "uuid": TWO, "memory": 1024}
    device = SYSTEM.replace("/pools/default", source.pools.get("default").path)
    machine = source.conn.defineXML(OTHER.format(**other, devices=device))
    if live:
        machine.create()
        source.conn.defineXML(OTHER.format(**other, devices=""))
        assert "web1-system" not in machine.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    with pytest.raises(VirtError) as caught:
        plan()
    assert str(caught.value) == (
        "web1 is not moved, as its volume web1-system.qcow2 of pool default could not be deleted here afterwards: it "
        "is used by machine other. Change that, or move it and keep its old volumes: source_volumes: none"
    )
    assert plan(source_volumes="none").actions


def test_a_machine_whose_volume_is_below_another_one_is_not_moved(world: World_) -> None:
    with pytest.raises(VirtError, match=r"afterwards: it is used by volume default/clone\.qcow2\. Change that"):
        world(source_volumes=CLONE)()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_machine_that_no_parser_takes_is_in_nobodys_way(world: World_, side: str) -> None:
    """But what it may use is not deleted."""
    plan = world()
    view = plan.source if side == "source" else plan.target.hypervisor  # type: ignore[attr-defined]
    define_unreadable(view.conn)
    words = "the description of machine ent1 cannot be read as XML"
    if side == "source":
        with pytest.raises(ConflictError, match=rf"could not be deleted here afterwards: .*{words}"):
            plan()
    assert "move web1 to hv2" in plan(source_volumes="none" if side == "source" else "own").actions
    with pytest.raises(HostError, match=words):
        plan("ent1")
