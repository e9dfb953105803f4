# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a volume, and what is deleted, on libvirt's test driver with real image files."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import shared_pools, usage
from ansible_collections.brine.virt.plugins.module_utils._host.storage.disk_lock import first_open
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.usage import (
    UNKNOWN,
    UNUSED,
    USED,
    Usage,
    VolumeUse,
    delete_those_unused,
    delete_unused,
    require_unused,
    why_kept,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    BUILDING,
    ImageNote,
    MachineNotes,
    VolumeNote,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import NAMESPACE
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import (
    NAMESPACE as SNAPSHOTS_NAMESPACE,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.snapshots import (
    SetAside,
    set_aside_to_xml,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")

POOL = "<pool type='dir'><name>{name}</name><target><path>{path}</path></target></pool>"
VOLUME = "<volume><name>{name}</name><capacity>1048576</capacity></volume>"
MACHINE = """
<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<metadata>{notes}</metadata><devices>{devices}</devices></domain>
"""
DISK = "<disk type='file'><driver type='{format}'/><source file='{path}'/><target dev='{device}'/>{rest}</disk>"
MOVE = "<m:move xmlns:m='{space}' source='{source}' target='{target}' uri='x'>{volumes}</m:move>"


class Host:
    """A hypervisor of the test driver with the volume in question, default/web1-system.qcow2."""

    def __init__(self, conn: VirConnect, directory: Path) -> None:
        self.conn = conn
        self.directory = directory
        self.add_pool("default")
        self.path = self.add_volume("web1-system.qcow2")

    @property
    def pool(self) -> Pool:
        return Pools(self.conn).get("default")

    def qemu_img(self, *words: str) -> None:
        subprocess.run(["qemu-img", *words], cwd=self.directory, check=True)

    def add_pool(self, name: str, active: bool = True) -> Path:
        path = self.directory / name
        path.mkdir(exist_ok=True)
        xml = POOL.format(name=name, path=path)
        (self.conn.storagePoolCreateXML if active else self.conn.storagePoolDefineXML)(xml, 0)
        return path

    def add_volume(self, name: str, *create: str, pool: str = "default", known: bool = True) -> Path:
        path = self.directory / pool / name
        self.qemu_img("create", "-q", "-f", "qcow2", *create, str(path), "1M")
        if known:
            self.conn.storagePoolLookupByName(pool).createXML(VOLUME.format(name=name), 0)
        return path

    def disk(self, path: Path | None = None, device: str = "vda", image_format: str = "qcow2", rest: str = "") -> str:
        return DISK.format(path=path or self.path, device=device, format=image_format, rest=rest)

    def add_machine(self, name: str, devices: str = "", notes: MachineNotes | str = "", running: bool = False) -> t.Any:
        text = notes_to_xml(notes) if isinstance(notes, MachineNotes) else notes
        uuid = uuid5(NAMESPACE_DNS, name)
        machine = self.conn.defineXML(MACHINE.format(name=name, uuid=uuid, devices=devices, notes=text))
        if running:
            machine.create()
        return machine

    def use(self, **options: t.Any) -> VolumeUse:
        return Usage(self.conn).of(self.pool, "web1-system.qcow2", **options)

    def delete(self, *names: str, **options: t.Any) -> list[str]:
        volumes = [(self.pool, name) for name in names or ("web1-system.qcow2",)]
        return delete_unused(self.conn, volumes, **options)


@pytest.fixture
def host(tmp_path: Path) -> t.Iterator[Host]:
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        yield Host(conn, tmp_path)


def volumes_of(host: Host) -> list[str]:
    return sorted(host.conn.storagePoolLookupByName("default").listVolumes())


def test_what_nobody_uses_is_deleted_and_what_is_gone_is_no_error(host: Host) -> None:
    host.add_machine("other", host.disk(host.add_volume("other-system.qcow2")), running=True)
    assert host.use() == VolumeUse()
    assert host.use().state == UNUSED
    assert host.delete() == ["web1-system.qcow2"]
    assert host.delete() == []
    assert volumes_of(host) == ["other-system.qcow2"]


@pytest.mark.parametrize("running", [False, True])
def test_a_machine_that_has_it(host: Host, running: bool) -> None:
    host.add_machine("b", host.disk(), running=running)
    assert host.use() == VolumeUse(("machine b",), frozenset({"b"}))
    with pytest.raises(ConflictError) as caught:
        host.delete(fresh=True)
    assert str(caught.value) == (
        "volume web1-system.qcow2 of pool default is kept: it is used by machine b. Detach it there first"
    )
    assert volumes_of(host) == ["web1-system.qcow2"]


def test_a_running_machine_that_has_it_only_until_it_stops(host: Host) -> None:
    machine = host.add_machine("b", host.disk(), running=True)
    host.add_machine("b")
    assert "web1-system" not in machine.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    assert host.use().users == ("machine b",)


def test_a_machine_that_has_it_only_from_its_next_start_on(host: Host) -> None:
    machine = host.add_machine("b", running=True)
    host.add_machine("b", host.disk())
    assert "web1-system" not in machine.XMLDesc(0)
    assert host.use().users == ("machine b",)


def test_all_machines_that_have_it_count_and_not_only_one_of_them(host: Host) -> None:
    host.add_machine("b", host.disk())
    host.add_machine("web1", host.disk())
    assert host.use().machines == {"b", "web1"}
    assert host.use(besides="web1").users == ("machine b",)
    assert host.use(besides="b").users == ("machine web1",)


def test_a_linked_clone_in_another_pool_or_in_no_pool_at_all(host: Host) -> None:
    host.add_pool("elsewhere")
    host.add_volume("clone.qcow2", "-b", str(host.path), "-F", "qcow2", pool="elsewhere", known=False)
    assert host.use().users == ("volume elsewhere/clone.qcow2",)
    first = host.directory / "first.qcow2"
    host.qemu_img("create", "-q", "-f", "qcow2", "-b", "default/web1-system.qcow2", "-F", "qcow2", str(first))
    top = host.directory / "top.qcow2"
    host.qemu_img("create", "-q", "-f", "qcow2", "-b", "first.qcow2", "-F", "qcow2", str(top))
    host.add_machine("b", host.disk(top))
    assert host.use().users == ("machine b", "volume elsewhere/clone.qcow2")
    with pytest.raises(ConflictError, match=r"is kept: it is used by machine b, volume elsewhere/clone\.qcow2\."):
        host.delete()


def test_a_clone_that_goes_together_with_it_is_no_reason(host: Host) -> None:
    host.add_volume("web1-data.qcow2", "-b", str(host.path), "-F", "qcow2")
    with pytest.raises(ConflictError, match=r"is used by volume default/web1-data\.qcow2"):
        host.delete()
    assert sorted(host.delete("web1-system.qcow2", "web1-data.qcow2")) == ["web1-data.qcow2", "web1-system.qcow2"]


def test_one_that_may_not_go_keeps_the_others(host: Host) -> None:
    host.add_machine("b", host.disk(host.add_volume("web1-data.qcow2")))
    with pytest.raises(ConflictError, match=r"web1-data\.qcow2 of pool default is kept: it is used by machine b"):
        host.delete("web1-system.qcow2", "web1-data.qcow2")
    assert volumes_of(host) == ["web1-data.qcow2", "web1-system.qcow2"]


def test_what_stays_keeps_what_it_is_backed_by_and_the_rest_goes(host: Host) -> None:
    for name, below in (("web1-a.qcow2", "web1-system.qcow2"), ("web1-b.qcow2", "web1-a.qcow2")):
        host.add_volume(name, "-b", str(host.directory / "default" / below), "-F", "qcow2")
    host.add_machine("b", host.disk(host.directory / "default" / "web1-b.qcow2"))
    host.add_volume("web1-free.qcow2")
    names = ["web1-system.qcow2", "web1-free.qcow2", "web1-a.qcow2", "web1-b.qcow2", "web1-gone.qcow2"]
    kept = delete_those_unused(host.conn, [(host.pool, name) for name in names])
    assert {names[index] for index in kept} == {"web1-a.qcow2", "web1-b.qcow2", "web1-system.qcow2"}
    assert {why_kept(use) for use in kept.values()} == {"it is used by machine b"}
    assert volumes_of(host) == ["web1-a.qcow2", "web1-b.qcow2", "web1-system.qcow2"]
    assert delete_those_unused(host.conn, []) == {}


def test_an_image_whose_data_are_in_it(host: Host) -> None:
    raw = host.directory / "default" / "web1-raw"
    host.qemu_img("create", "-q", "-f", "qcow2", "-o", f"data_file={raw},data_file_raw=on", "front.qcow2", "1M")
    host.conn.storagePoolLookupByName("default").createXML(VOLUME.format(name="web1-raw"), 0)
    host.add_machine("b", host.disk(host.directory / "front.qcow2"))
    assert Usage(host.conn).of(host.pool, "web1-raw").users == ("machine b",)


def test_an_image_of_vmware_that_consists_of_it(host: Host) -> None:
    host.qemu_img("create", "-q", "-f", "vmdk", "-o", "subformat=monolithicFlat", "front.vmdk", "1M")
    front = host.directory / "front.vmdk"
    front.write_bytes(front.read_bytes().replace(b"front-flat.vmdk", b"default/web1-raw"))
    host.conn.storagePoolLookupByName("default").createXML(VOLUME.format(name="web1-raw"), 0)
    (host.directory / "default" / "web1-raw").touch()
    host.add_machine("b", host.disk(front))
    assert Usage(host.conn).of(host.pool, "web1-raw").users == ("machine b",)


def test_images_in_a_circle_and_a_long_chain(host: Host) -> None:
    for name, below in (("a", "b"), ("b", "a")):
        host.qemu_img("create", "-q", "-f", "qcow2", "-u", "-b", f"{below}.qcow2", "-F", "qcow2", f"{name}.qcow2", "1M")
    host.add_machine("circle", host.disk(host.directory / "a.qcow2"))
    below = str(host.path)
    for number in range(30):
        name = f"{number}.qcow2"
        host.qemu_img("create", "-q", "-f", "qcow2", "-u", "-b", below, "-F", "qcow2", name, "1M")
        below = name
    host.add_machine("long", host.disk(host.directory / below))
    assert host.use().users == ("machine long",)


def test_snapshots_and_checkpoints(host: Host) -> None:
    machine = host.add_machine("b", host.disk(), running=True)
    machine.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>", 0)
    machine.destroy()
    host.add_machine("b")
    assert host.use().users == ("snapshot before of machine b",)
    machine = host.add_machine("c", host.disk(), running=True)
    disks = "<disks><disk name='vda' checkpoint='bitmap'/></disks>"
    machine.checkpointCreateXML(f"<domaincheckpoint><name>first</name>{disks}</domaincheckpoint>", 0)
    machine.destroy()
    host.add_machine("c")
    assert host.use().users == ("checkpoint first of machine c", "snapshot before of machine b")
    # It only remembers what has changed since, and a machine with a copy of the volume needs no more.
    assert host.use(left_by="c").users == ("snapshot before of machine b",)
    assert host.use(left_by="b").users == host.use(owner="c").users == host.use().users


def test_snapshots_that_a_move_has_set_aside(host: Host) -> None:
    machine = host.add_machine("b", host.disk(), running=True)
    snapshot = machine.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>", 0)
    aside = set_aside_to_xml([SetAside("before", snapshot.getXMLDesc(0))])
    machine.destroy()
    snapshot.delete(0)
    other = host.add_machine("b")
    assert host.use().users == ()
    other.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, aside, "brinesnapshots", SNAPSHOTS_NAMESPACE, 0)
    assert host.use().users == ("snapshot before of machine b",)


def test_a_volume_named_by_pool_and_by_other_ways_to_its_file(host: Host) -> None:
    (host.directory / "link").symlink_to(host.directory / "default")
    host.add_machine("link", host.disk(host.directory / "link" / "web1-system.qcow2"))
    os.link(host.path, host.directory / "hard.qcow2")
    host.add_machine("hard", host.disk(host.directory / "hard.qcow2"))
    host.conn.storagePoolCreateXML(POOL.format(name="same", path=host.directory / "link"), 0)
    host.conn.storagePoolLookupByName("same").createXML(VOLUME.format(name=host.path.name), 0)
    source = f"<disk type='volume'><source pool='same' volume='{host.path.name}'/><target dev='vda'/></disk>"
    host.add_machine("pool", source)
    xml = MACHINE.format(name="kernel", uuid=uuid5(NAMESPACE_DNS, "kernel"), devices="", notes="")
    host.conn.defineXML(xml.replace("</os>", f"<kernel>{host.path}</kernel></os>"))
    # The other name that a pool has for the same file is no user of it.
    assert host.use().users == tuple(f"machine {name}" for name in ("hard", "kernel", "link", "pool"))


def test_the_target_of_a_running_block_copy(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test driver has no block jobs: the mirror is put where libvirt says that it is."""
    machine = host.add_machine("b", host.disk(host.add_volume("b-system.qcow2")), running=True)
    mirror = f"<mirror type='file' job='copy'><format type='qcow2'/><source file='{host.path}'/></mirror></disk>"
    original = type(machine).XMLDesc

    def described(domain: t.Any, flags: int = 0) -> str:
        return str(original(domain, flags)).replace("</disk>", mirror if flags == 0 else "</disk>")

    monkeypatch.setattr(type(machine), "XMLDesc", described)
    assert host.use().users == ("machine b",)


@pytest.mark.parametrize(
    "notes",
    [
        MachineNotes(volumes=(VolumeNote("default", "web1-system.qcow2", "disk"),)),
        MachineNotes(status=BUILDING, volumes=(VolumeNote("default", "web1-system.qcow2", "disk", building=True),)),
        MachineNotes(image=ImageNote("x", "web1-system.qcow2", "default")),
    ],
)
def test_a_machine_whose_notes_speak_of_it(host: Host, notes: MachineNotes) -> None:
    host.add_machine("b", notes=notes)
    assert host.use().users == ("machine b",)
    assert host.use(owner="b").state == UNUSED
    # That it is the owner's disk is another thing than that it is noted.
    host.add_machine("b", host.disk(), notes=notes)
    assert host.use(owner="b").users == ("machine b",)
    assert host.use(besides="b").state == UNUSED


@pytest.mark.parametrize(("here", "kind", "counts"), [("target", "made", True), ("source", "made", False),
                                                      ("source", "left", True), ("target", "left", False)])  # fmt: skip
def test_the_note_of_a_move_speaks_of_two_hypervisors(host: Host, here: str, kind: str, counts: bool) -> None:
    ends = {"source": "elsewhere", "target": "elsewhere", here: host.conn.getHostname()}
    volumes = f"<m:{kind} pool='default' name='web1-system.qcow2'/>"
    host.add_machine("b", notes=MOVE.format(space=NAMESPACE, volumes=volumes, **ends))
    assert host.use().state == (USED if counts else UNUSED)


def test_a_guest_that_writes_the_mark_of_an_overlay_into_its_raw_disk_claims_nothing(host: Host) -> None:
    claim = host.add_volume("b-system.raw", "-b", str(host.path), "-F", "qcow2")
    notes = MachineNotes(volumes=(VolumeNote("default", "b-system.raw", "disk"),))
    machine = host.add_machine("b", host.disk(claim, image_format="raw"), notes, running=True)
    assert host.use() == VolumeUse()
    machine.destroy()
    # Whoever has made it, this machine's guest writes what it likes into it.
    host.add_machine("b", host.disk(claim, image_format="raw"))
    assert host.use() == VolumeUse()
    # Taken out by virsh detach-disk, it is still what we have made.
    host.add_machine("b", notes=notes)
    assert host.use() == VolumeUse()
    # In what no guest may write to, somebody else has written it.
    host.add_machine("b", host.disk(claim, image_format="raw").replace("</disk>", "<readonly/></disk>"))
    assert host.use().users == ("machine b", "volume default/b-system.raw")
    # Whoever has it as what it looks like really uses what it names.
    host.add_machine("b", host.disk(claim, image_format="raw"), notes)
    host.add_machine("c", host.disk(claim))
    assert host.use().users == ("machine b", "machine c", "volume default/b-system.raw")


def test_a_guest_cannot_keep_all_volumes_by_what_it_writes_into_its_raw_disk(host: Host) -> None:
    """A header that leads to what cannot be checked would make the use of every volume here unknown."""
    circle = host.directory / "circle"
    circle.symlink_to(circle)
    claim = host.add_volume("b-system.raw", "-u", "-b", str(circle), "-F", "qcow2")
    host.add_machine("b", host.disk(claim, image_format="raw"))
    assert host.use() == VolumeUse()


@contextlib.contextmanager
def opened(path: Path, *words: str) -> t.Iterator[subprocess.Popen[str]]:
    """A QEMU has the file open."""
    command = ["qemu-io", *words, "-f", "qcow2", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("length\n")
        process.stdin.flush()
        assert process.stdout.readline()
        yield process
        process.stdin.close()


@pytest.mark.parametrize("words", [[], ["-r"]], ids=["writes", "reads"])
def test_what_a_qemu_has_open_that_libvirt_does_not_know_of(
    host: Host, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """A daemon that was killed says afterwards that a machine is off, while its QEMU goes on."""
    monkeypatch.setattr(usage, "is_local", lambda _uri: True)
    monkeypatch.setattr(usage, "first_open", functools.partial(first_open, wait_seconds=0))
    host.add_machine("web1", host.disk())
    host.add_volume("data.qcow2")
    said = rf"a QEMU program that libvirt does not know of \(fuser {host.path} shows it\)"
    with opened(host.path, *words):
        with pytest.raises(ConflictError, match=f"web1-system.qcow2 of pool default is kept: it is used by {said}"):
            host.delete("data.qcow2", "web1-system.qcow2", owner="web1", clearing="web1", fresh=True)
        assert len(volumes_of(host)) == 2
        host.conn.lookupByName("web1").undefine()
        kept = delete_those_unused(host.conn, [(host.pool, "data.qcow2"), (host.pool, "web1-system.qcow2")])
        assert [re.fullmatch(said, user) is not None for user in kept[1].users] == [True]
    assert volumes_of(host) == ["web1-system.qcow2"]
    assert host.delete() == ["web1-system.qcow2"]


def test_what_its_qemu_closes_in_a_moment_goes(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a disk was detached."""
    monkeypatch.setattr(usage, "is_local", lambda _uri: True)
    with opened(host.path) as process, ThreadPoolExecutor() as threads:
        deleting = threads.submit(host.delete)
        time.sleep(0.5)
        assert not deleting.done()
        process.kill()
        assert deleting.result() == ["web1-system.qcow2"]


def test_what_cannot_be_looked_into_keeps_it_unless_it_was_made_a_moment_ago(host: Host) -> None:
    host.add_pool("asleep", active=False)
    assert host.use().state == UNKNOWN
    with pytest.raises(ConflictError) as caught:
        host.delete()
    assert str(caught.value) == (
        "volume web1-system.qcow2 of pool default is kept: it cannot be determined whether something uses it: "
        "storage pool asleep is not active. If nothing does: virsh vol-delete web1-system.qcow2 --pool default"
    )
    assert volumes_of(host) == ["web1-system.qcow2"]
    # Where nothing is, nothing has to be known.
    assert host.delete("never-made.qcow2") == []
    assert host.delete(fresh=True) == ["web1-system.qcow2"]


def test_a_disk_that_cannot_be_read_may_be_backed_by_anything(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.add_machine("b", host.disk(host.directory / "b.qcow2"))
    host.qemu_img("create", "-q", "-f", "qcow2", "b.qcow2", "1M")
    opened = os.open

    def refused(path: t.Any, *args: t.Any, **options: t.Any) -> int:
        if str(path).endswith("/b.qcow2"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refused)
    assert host.use().unknown == (f"{host.directory}/b.qcow2 of machine b cannot be read (Permission denied)",)
    assert host.use(besides="b").state == UNUSED


def test_a_pool_that_other_hypervisors_see(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = replace(host.pool, local=True)
    mounts = host.directory / "mountinfo"
    mounts.write_text(
        f"36 35 98:0 / / rw - ext4 /dev/sda1 rw\n37 36 0:40 / {host.directory}/default rw - nfs4 x:/y rw\n"
    )
    monkeypatch.setattr(shared_pools, "MOUNTS", str(mounts))
    usage = Usage(host.conn)
    with pytest.raises(ConflictError) as caught:
        require_unused(usage, [(shared, "web1-system.qcow2")], owner="web1")
    assert str(caught.value) == (
        "volume web1-system.qcow2 of pool default is kept: it cannot be determined whether something uses it: "
        "storage pool default lies on a file system of type nfs4, and what machines of other hypervisors use there "
        "cannot be seen from this one. If nothing does: virsh vol-delete web1-system.qcow2 --pool default"
    )
    require_unused(usage, [(shared, "web1-system.qcow2")], owner="web1", fresh=True)
    require_unused(usage, [(replace(shared, path=str(host.directory)), "web1-system.qcow2")], owner="web1")


def test_a_saved_machine_has_what_it_was_saved_with(host: Host) -> None:
    """The test driver saves machines and does not tell with what."""
    host.add_machine("b", running=True).managedSave(0)
    assert host.use().unknown == ("the saved state of machine b cannot be read",)
    assert host.use(besides="b").state == UNUSED


def test_a_volume_that_libvirt_cannot_check_is_checked_here(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    top = host.add_volume("top.qcow2", "-b", str(host.path), "-F", "qcow2")

    def broken(_volume: t.Any, _flags: int = 0) -> str:
        raise libvirt.libvirtError("no")

    monkeypatch.setattr(libvirt.virStorageVol, "XMLDesc", broken)
    assert host.use() == VolumeUse((f"volume default/{top.name}",))


class TestFromAfar:
    """Another machine's libvirt: no file can be read, libvirt's own words are all there is."""

    def use(self, host: Host) -> VolumeUse:
        return Usage(host.conn, local=False).of(host.pool, "web1-system.qcow2")

    def test_what_libvirt_says_that_volumes_are_backed_by(self, host: Host) -> None:
        pool = host.conn.storagePoolLookupByName("default")
        backing = "<backingStore><path>{}</path><format type='qcow2'/></backingStore></volume>"
        for name, below in (("middle.qcow2", "web1-system.qcow2"), ("top.qcow2", "middle.qcow2")):
            path = f"{host.directory}/default/{below}"
            pool.createXML(VOLUME.format(name=name).replace("</volume>", backing.format(path)), 0)
        host.add_machine("b", host.disk(host.directory / "default" / "top.qcow2"))
        assert self.use(host) == VolumeUse(
            ("machine b", "volume default/middle.qcow2", "volume default/top.qcow2"),
            frozenset({"b"}),
        )

    def test_a_disk_in_no_pool_may_be_backed_by_anything(self, host: Host) -> None:
        host.add_machine("b", host.disk(host.directory / "b.qcow2"))
        host.add_machine("c", host.disk(host.directory / "c.raw", image_format="raw"))
        assert self.use(host).unknown == (f"{host.directory}/b.qcow2 of machine b is not in an active storage pool",)
