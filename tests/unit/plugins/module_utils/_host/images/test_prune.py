# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses an image, and what goes when images are pruned, on libvirt's test driver with real overlays."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.images import inspection, listing
from ansible_collections.brine.virt.plugins.module_utils._host.images import prune as image_prune
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import (
    LOCK_FILE,
    Deadline,
    locked_directory,
)
from ansible_collections.brine.virt.plugins.module_utils._host.images.provenance import keep_provenance, load_provenance
from ansible_collections.brine.virt.plugins.module_utils._host.images.prune import (
    PruneOptions,
    PruneResult,
    prune_images,
    remove_images,
)
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.storage import shared_pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import Checksum
from ansible_collections.brine.virt.plugins.module_utils._model.image.provenance import Provenance
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    ImageNote,
    MachineNotes,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")

# In the order in which they came.
OLD, NEW, OTHER = (f"debian-{'a' * 16}.qcow2", f"debian-{'b' * 16}.qcow2", f"fedora-{'c' * 16}.raw")
ALL = {OLD, NEW, OTHER}
POOL = "<pool type='{type}'><name>{name}</name>{source}<target><path>{path}</path></target></pool>"
VOLUME = "<volume><name>{name}</name><capacity>1048576</capacity>{rest}</volume>"
MACHINE = """
<domain type='test'><name>{name}</name><memory unit='MiB'>64</memory><os><type>hvm</type></os>
<metadata>{notes}</metadata><devices>{devices}</devices></domain>
"""
DISK = "<disk type='{type}'><driver type='qcow2'/><source {source}>{rest}</source><target dev='vda'/></disk>"


class Host:
    """A hypervisor of the test driver with three images in its store, and more pools beside it."""

    def __init__(self, conn: VirConnect, directory: Path) -> None:
        self.conn = conn
        self.directory = directory
        self.store = directory / "store"
        self.images = self.add_pool("images", self.store)
        for age, name in enumerate([OTHER, NEW, OLD]):
            image_format = name.rsplit(".", 1)[1]
            self.qemu_img("create", "-q", "-f", image_format, str(self.store / name), "1M")
            keep_provenance(str(self.store / name), Provenance((Checksum("sha256", name.split("-")[1][:16] * 4),)))
            (self.store / name).chmod(0o444)
            os.utime(self.store / name, (1_000_000 - age, 1_000_000 - age))
            self.images.createXML(VOLUME.format(name=name, rest=""), 0)

    def qemu_img(self, *words: str) -> None:
        subprocess.run(["qemu-img", *words], cwd=self.directory, check=True)

    def overlay(self, path: Path, backing: str) -> Path:
        self.qemu_img("create", "-q", "-f", "qcow2", "-u", "-b", backing, "-F", "qcow2", str(path), "1M")
        return path

    def add_pool(self, name: str, path: Path, *, active: bool = True, kind: str = "dir", source: str = "") -> t.Any:
        path.mkdir(exist_ok=True)
        xml = POOL.format(name=name, path=path, type=kind, source=source)
        return self.conn.storagePoolCreateXML(xml, 0) if active else self.conn.storagePoolDefineXML(xml, 0)

    def add_machine(
        self, name: str, devices: str = "", notes: MachineNotes | None = None, running: bool = False
    ) -> t.Any:
        xml = MACHINE.format(name=name, devices=devices, notes=notes_to_xml(notes) if notes else "")
        machine = self.conn.defineXML(xml)
        if running:
            machine.create()
        return machine

    def add_file(self, name: str, content: bytes, mode: int = 0o644) -> Path:
        """A file in the store that virt_image has not brought."""
        path = self.store / name
        path.write_bytes(content)
        path.chmod(mode)
        self.images.createXML(VOLUME.format(name=name, rest=""), 0)
        return path

    def users(self) -> dict[str, tuple[str, ...]]:
        found = self.prune(check_mode=True)
        assert found.unseen == ()
        return {decision.image.volume: decision.users for decision in found.decisions if decision.users}

    def volumes(self) -> set[str]:
        return set(self.images.listVolumes())

    def prune(
        self, keep: int = 0, name: str | None = None, ignore_unseen: bool = False, check_mode: bool = False
    ) -> PruneResult:
        prune_options = PruneOptions(keep, ignore_unseen)
        return prune_images(self.conn, "images", name, prune_options, Deadline(600), check_mode=check_mode)

    def remove(self, name: str, ignore_unseen: bool = False, check_mode: bool = False) -> PruneResult:
        prune_options = PruneOptions(0, ignore_unseen)
        return remove_images(self.conn, "images", name, prune_options, Deadline(600), check_mode=check_mode)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Host]:
    (tmp_path / "lock").mkdir()
    monkeypatch.setattr(image_prune, "LOCK_DIR", str(tmp_path / "lock"))
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        yield Host(conn, tmp_path)


@pytest.mark.parametrize("running", [False, True])
def test_a_machine_with_the_image_as_its_disk(host: Host, running: bool) -> None:
    source = f"file='{host.store}/{OLD}'"
    host.add_machine("a", DISK.format(type="file", source=source, rest=""), running=running)
    source = f"pool='images' volume='{OTHER}'"
    host.add_machine("b", DISK.format(type="volume", source=source, rest=""), running=running)
    assert host.users() == {OLD: ("machine a",), OTHER: ("machine b",)}


def test_a_machine_below_whose_disk_the_image_is_in_no_pool_at_all(host: Host) -> None:
    first = host.overlay(host.directory / "first.qcow2", f"store/{OLD}")
    second = host.overlay(host.directory / "second.qcow2", str(first))
    third = host.overlay(host.directory / "third.qcow2", f"file:{second}")
    json = f'json:{{"driver": "qcow2", "file": {{"driver": "file", "filename": "{third}"}}}}'
    top = host.overlay(host.directory / "top.qcow2", json)
    host.add_machine("a", DISK.format(type="file", source=f"file='{top}'", rest=""))
    assert host.users() == {OLD: ("machine a",)}


def test_a_path_that_leads_to_the_image_another_way(host: Host) -> None:
    (host.directory / "link").symlink_to(host.store)
    top = host.overlay(host.directory / "top.qcow2", f"{host.directory}/link/../link/{NEW}")
    (host.directory / "top-link.qcow2").symlink_to(top)
    host.add_machine("a", DISK.format(type="file", source=f"file='{host.directory}/top-link.qcow2'", rest=""))
    os.link(host.store / OLD, host.directory / "hard.qcow2")
    host.add_machine("b", DISK.format(type="file", source=f"file='{host.directory}/hard.qcow2'", rest=""))
    assert host.users() == {NEW: ("machine a",), OLD: ("machine b",)}


def test_a_machine_that_says_it_was_made_from_the_image(host: Host) -> None:
    note = ImageNote("debian", OLD, "images")
    host.add_machine("a", notes=MachineNotes(status="building", image=note))
    host.add_machine("b", notes=MachineNotes(image=ImageNote("debian", NEW, "elsewhere")))
    assert host.users() == {OLD: ("machine a",)}


def test_a_snapshot_that_goes_back_to_the_image(host: Host) -> None:
    source = f"file='{host.store}/{OLD}'"
    machine = host.add_machine("a", DISK.format(type="file", source=source, rest=""))
    machine.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>", 0)
    assert host.users() == {OLD: ("machine a", "snapshot before of machine a")}


def test_what_is_no_disk_is_not_opened(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(host.directory / "pipe")
    top = host.overlay(host.directory / "eth0", str(host.store / OLD))
    devices = f"""
    <filesystem type='mount'><source dir='{host.directory}'/><target dir='share'/></filesystem>
    <interface type='direct'><source dev='{top.name}' mode='bridge'/></interface>
    <disk type='file'><source file='{host.directory}/pipe'/><target dev='vda'/></disk>
    """
    host.add_machine("a", devices)
    monkeypatch.chdir(host.directory)
    assert host.users() == {}


def test_an_overlay_that_no_machine_has(host: Host) -> None:
    pool = host.add_pool("default", host.directory / "default")
    # One that libvirt says, one that only its header says, one that is two steps away.
    rest = f"<backingStore><path>{host.store}/{OLD}</path><format type='qcow2'/></backingStore>"
    pool.createXML(VOLUME.format(name="said.qcow2", rest=rest), 0)
    middle = host.overlay(host.directory / "middle.qcow2", str(host.store / NEW))
    host.overlay(host.directory / "default" / "unsaid.qcow2", str(middle))
    pool.createXML(VOLUME.format(name="unsaid.qcow2", rest=""), 0)
    os.mkfifo(host.directory / "default" / "pipe")
    pool.createXML(VOLUME.format(name="pipe", rest=""), 0)
    assert host.users() == {OLD: ("volume default/said.qcow2",), NEW: ("volume default/unsaid.qcow2",)}


def test_an_image_that_a_program_of_qemu_has_open_of_which_libvirt_knows_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the disk of a machine whose daemon was killed, and that is said to be off or is not there any more."""
    monkeypatch.setattr(
        image_prune,
        "unseen_users",
        lambda _conn, volumes: {index: "QEMU" for index, (_pool, volume) in enumerate(volumes) if volume == OLD},
    )
    assert host.users() == {OLD: ("QEMU",)}
    host.prune()
    assert host.volumes() == {OLD}


def test_what_nothing_uses_goes_and_check_mode_knows_it_before(host: Host) -> None:
    host.add_machine("a", notes=MachineNotes(image=ImageNote("debian", OLD, "images")))
    (host.store / ".brine-part-left").touch()
    host.images.createXML(VOLUME.format(name="by-hand.qcow2", rest=""), 0)
    checked = host.prune(check_mode=True)
    assert host.volumes() == {*ALL, "by-hand.qcow2"}
    assert (host.store / ".brine-part-left").exists()
    found = host.prune()
    assert found == checked
    assert found.before == (OLD, NEW, OTHER)
    assert found.gone == (NEW, OTHER)
    assert [decision.reason for decision in found.decisions] == ["used by machine a", None, None]
    assert [decision.size_bytes for decision in found.decisions][2] == 1024 * 1024
    assert host.volumes() == {OLD, "by-hand.qcow2"}
    assert not (host.store / ".brine-part-left").exists()
    assert host.prune().gone == ()


@pytest.mark.parametrize(
    ("keep", "name", "stays"),
    [
        (0, None, set()),
        (1, None, {NEW, OTHER}),
        (2, None, ALL),
        (1, "debian", {NEW, OTHER}),
        (0, "debian", {OTHER}),
        (0, "fedora", {OLD, NEW}),
        (0, "nothing", ALL),
    ],
)
def test_the_newest_stay(host: Host, keep: int, name: str | None, stays: set[str]) -> None:
    assert set(host.prune(keep, name).gone) == ALL - stays
    assert host.volumes() == stays


def test_the_newest_are_counted_whether_used_or_not(host: Host) -> None:
    host.add_machine("a", notes=MachineNotes(image=ImageNote("debian", NEW, "images")))
    found = host.prune(1, "debian")
    assert found.gone == (OLD,)
    assert found.decisions[1].reason == "used by machine a"


def test_where_nothing_can_be_seen_nothing_goes(host: Host) -> None:
    host.add_pool("asleep", host.directory / "asleep", active=False)
    found = host.prune()
    assert (found.gone, found.blocked, found.unseen) == ((), True, ("storage pool asleep is not active",))
    assert {decision.reason for decision in found.decisions} == {"storage pool asleep is not active"}
    with pytest.raises(ConflictError) as caught:
        host.remove(OLD)
    assert str(caught.value) == (
        f"name: image {OLD} may be in use where that cannot be checked: storage pool asleep is not active. "
        "Make it possible to check, or set ignore_unseen: true"
    )
    assert host.volumes() == ALL
    assert not host.prune(2).blocked
    assert host.remove(OLD, ignore_unseen=True).gone == (OLD,)
    assert host.prune(ignore_unseen=True).gone == (NEW, OTHER)


def test_a_pool_that_cannot_hold_overlays_is_not_waited_for(host: Host) -> None:
    source = "<source><host name='x'/><device path='y'/></source>"
    host.add_pool("far", host.directory / "far", active=False, kind="iscsi", source=source)
    assert set(host.prune().gone) == ALL


def test_a_disk_that_cannot_be_read_may_stand_on_anything(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    top = host.overlay(host.directory / "top.qcow2", str(host.store / NEW))
    host.add_machine("a", DISK.format(type="file", source=f"file='{top}'", rest=""))
    host.add_machine("gone", DISK.format(type="file", source=f"file='{host.directory}/gone.qcow2'", rest=""))
    opened = os.open

    def refused(path: t.Any, *args: t.Any, **options: t.Any) -> int:
        # As root is on NFS.
        if path == str(top):
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refused)
    found = host.prune()
    assert found.unseen == (f"{top} of machine a cannot be read (Permission denied)",)
    assert found.gone == ()


class TestWhatOnlyHasTheNameOfAnImage:
    DUMPS = ("db-2026112718535300.raw", "db-2026112819000000.raw")
    WHY = "nothing shows that it is an image which was brought there: it only has the name of one"

    def test_it_is_kept(self, host: Host) -> None:
        for name in self.DUMPS:
            host.add_file(name, b"the only dump")
        for check_mode in (True, False):
            found = host.prune(keep=0, name="db", check_mode=check_mode)
            assert [decision.reason for decision in found.decisions] == [self.WHY] * 2
        with pytest.raises(ConflictError) as caught:
            host.remove("db")
        assert str(caught.value) == (
            f"name: volume {self.DUMPS[0]} of pool images is kept: {self.WHY}. "
            f"If nobody needs it: virsh vol-delete {self.DUMPS[0]} --pool images"
        )
        assert {*self.DUMPS} < host.volumes()

    def test_it_is_not_counted_among_the_newest(self, host: Host) -> None:
        host.add_file(f"debian-{'d' * 16}.qcow2", b"newer than all of them")
        assert host.prune(keep=1, name="debian").gone == (OLD,)

    @pytest.mark.parametrize("mode", [0o644, 0o600])
    def test_an_image_that_a_move_has_sent_is_one_by_its_content(self, host: Host, mode: int) -> None:
        content = b"sent with a machine"
        sha256 = hashlib.sha256(content).hexdigest()
        path = host.add_file(f"moved-{sha256[:16]}.raw", content, mode)
        assert host.prune(name="moved", check_mode=True).gone == (path.name,)
        assert load_provenance(str(path), sha256[:16]) == Provenance()
        assert host.prune(keep=1, name="moved").gone == ()
        # Then it need not be read again.
        if not keep_provenance(str(host.store), Provenance()):
            pytest.skip("no extended attributes here")
        assert load_provenance(str(path), sha256[:16]).content("sha256") == sha256
        assert host.remove(path.name).gone == (path.name,)

    def test_it_is_one_by_its_note(self, host: Host) -> None:
        noted = host.add_file(f"noted-{'d' * 16}.raw", b"as the note says")
        if not keep_provenance(str(noted), Provenance((Checksum("sha256", "d" * 64),))):
            noted.chmod(0o444)
        assert len(host.prune(name="noted").gone) == 1

    @pytest.mark.parametrize("attributes", [True, False])
    def test_its_mode_tells_one_only_where_it_cannot_have_a_note(
        self, host: Host, monkeypatch: pytest.MonkeyPatch, attributes: bool
    ) -> None:
        """Root's dumps are read-only as well, with umask 077 or by chmod."""
        monkeypatch.setattr(inspection, "can_have_provenance", lambda _path: attributes)
        host.add_file(f"published-{'d' * 16}.raw", b"read-only", 0o444)
        host.add_file(f"private-{'d' * 16}.raw", b"read-only", 0o400)
        for name in ("published", "private"):
            found = host.prune(name=name)
            assert len(found.gone) == (0 if attributes else 1)
            assert [decision.reason for decision in found.decisions] == ([self.WHY] if attributes else [None])


class TestInAPoolThatOtherHypervisorsSee:
    SHARED = "storage pool images lies on a file system of type nfs4"

    @pytest.fixture(autouse=True)
    def shared(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shared_pools, "shared_because", lambda _pool: self.SHARED)
        # They have been there for long.
        monkeypatch.setattr(listing, "RECENT_SECONDS", 0)

    def prune(self, host: Host, used_elsewhere: frozenset[str] | None = None) -> PruneResult:
        prune_options = PruneOptions(0, ignore_unseen=True, used_elsewhere=used_elsewhere)
        return prune_images(host.conn, "images", None, prune_options, Deadline(600), check_mode=False)

    def test_nothing_goes_until_all_of_them_were_asked(self, host: Host) -> None:
        host.add_machine("a", notes=MachineNotes(image=ImageNote("debian", OLD, "images")))
        found = self.prune(host)
        reason = f"{self.SHARED}, and what machines of other hypervisors use there cannot be seen from this one"
        assert (found.gone, found.blocked, found.shared, found.unseen) == ((), True, True, (reason,))
        # What is said to each of them, so that the one that prunes can be told.
        assert [decision.users for decision in found.decisions] == [("machine a",), (), ()]
        assert [decision.reason for decision in found.decisions] == ["used by machine a", reason, reason]
        with pytest.raises(ConflictError) as caught:
            host.remove(NEW, ignore_unseen=True)
        assert str(caught.value) == (
            f"name: image {NEW} may be in use where that cannot be checked: {reason}. Ask all hypervisors that share "
            "the pool, and list what they return as used_here in used_elsewhere"
        )
        assert host.volumes() == ALL

    def test_then_what_they_use_stays(self, host: Host) -> None:
        host.add_machine("a", notes=MachineNotes(image=ImageNote("debian", OLD, "images")))
        found = self.prune(host, frozenset({OTHER}))
        assert found.gone == (NEW,)
        assert [decision.reason for decision in found.decisions][2] == "used by another hypervisor"
        with pytest.raises(ConflictError, match=f"image {OTHER} is used by another hypervisor"):
            remove_images(
                host.conn, "images", OTHER, PruneOptions(0, False, frozenset({OTHER})), Deadline(600), check_mode=False
            )
        assert self.prune(host, frozenset()).gone == (OTHER,)

    def test_what_another_one_may_have_begun_to_use_since_stays(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nobody asks and removes in one moment."""
        monkeypatch.setattr(listing, "RECENT_SECONDS", 600)
        found = self.prune(host, frozenset())
        assert (found.gone, found.blocked) == ((), False)
        reason = "it has come or been taken into use in the last 10 minutes, perhaps after the others were asked"
        assert {decision.reason for decision in found.decisions} == {reason}
        with pytest.raises(ConflictError) as caught:
            remove_images(
                host.conn, "images", NEW, PruneOptions(0, False, frozenset()), Deadline(600), check_mode=False
            )
        assert str(caught.value) == f"name: image {NEW} is kept: {reason}. Ask them again later"
        assert host.volumes() == ALL

    def begin_to_use(self, monkeypatch: pytest.MonkeyPatch, *volumes: str) -> None:
        """Others begin to use these while the first image is deleted, which takes time with large files."""
        delete = image_prune.delete_volume
        used: set[str] = set()

        def slowly(pool: Pool, volume: str) -> None:
            delete(pool, volume)
            used.update(volumes)

        monkeypatch.setattr(image_prune, "delete_volume", slowly)
        monkeypatch.setattr(image_prune, "used_lately", lambda path: Path(path).name in used)

    def test_what_another_one_begins_to_use_while_others_are_deleted_stays(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.begin_to_use(monkeypatch, NEW)
        found = self.prune(host, frozenset())
        assert (set(found.gone), host.volumes()) == ({OLD, OTHER}, {NEW})
        assert next(one for one in found.decisions if one.image.volume == NEW).reason == image_prune._RECENT

    def test_one_of_several_that_were_named_stays_then_as_well(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.begin_to_use(monkeypatch, OLD, NEW)
        asked = PruneOptions(0, False, frozenset())
        with pytest.raises(ConflictError, match="is kept: it has come or been taken into use") as caught:
            remove_images(host.conn, "images", "debian", asked, Deadline(600), check_mode=False)
        (gone,) = {OLD, NEW} - host.volumes()
        assert f". Done before that: remove image {gone}. Ask them again later" in str(caught.value)

    def test_what_is_gone_is_said_when_another_one_cannot_be_removed(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        delete = image_prune.delete_volume
        gone: list[str] = []

        def fail_at_last(pool: Pool, volume: str) -> None:
            if gone:
                raise HostError(f"cannot delete {volume}")
            delete(pool, volume)
            gone.append(volume)

        monkeypatch.setattr(image_prune, "delete_volume", fail_at_last)
        with pytest.raises(HostError) as caught:
            self.prune(host, frozenset())
        assert str(caught.value).endswith(f". Done before that: remove image {gone[0]}")

    def test_to_look_whether_it_was_brought_is_no_use_of_an_image(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that a move has sent is read for that."""
        content = b"sent by a move"
        sent = f"sent-{hashlib.sha256(content).hexdigest()[:16]}.raw"
        host.add_file(sent, content)
        monkeypatch.setattr(listing, "RECENT_SECONDS", 0.3)
        time.sleep(0.4)
        assert sent in self.prune(host, frozenset()).gone

    def test_a_new_machine_takes_its_image_into_use(self, host: Host) -> None:
        path = host.store / NEW
        before = path.stat()
        listing.note_use(str(path))
        after = path.stat()
        assert after.st_ctime_ns > before.st_ctime_ns
        # By these the newest one is found.
        assert (after.st_atime_ns, after.st_mtime_ns) == (before.st_atime_ns, before.st_mtime_ns)

    def ask(
        self, host: Host, keep: int = 0, ignore_unseen: bool = False, there: frozenset[str] = frozenset()
    ) -> set[str]:
        prune_options = PruneOptions(keep, ignore_unseen, there or None)
        return set(prune_images(host.conn, "images", None, prune_options, Deadline(600), check_mode=True).used_here)

    def test_each_of_them_says_what_it_uses_or_may_use(self, host: Host) -> None:
        assert self.ask(host) == set()
        host.add_machine("a", notes=MachineNotes(image=ImageNote("debian", OLD, "images")))
        # That an image is the newest of its name, or that others use it, is not what is asked.
        assert self.ask(host) == self.ask(host, keep=1) == self.ask(host, there=frozenset({OTHER})) == {OLD}
        host.add_pool("data", host.directory / "data", active=False)
        assert self.ask(host) == self.ask(host, keep=1) == ALL
        assert self.ask(host, ignore_unseen=True) == {OLD}

    def test_it_says_so_of_an_image_that_another_one_has_brought_meanwhile(self, host: Host) -> None:
        """libvirt looks into a directory when the pool is started, or when it is told to."""
        brought = [f"new-{digit * 16}.qcow2" for digit in "de"]
        for volume in brought:
            shutil.copy(host.store / OLD, host.store / volume)
        assert self.ask(host) == set()
        top = host.overlay(host.directory / "top.qcow2", str(host.store / brought[0]))
        host.add_machine("by-hand", DISK.format(type="file", source=f"file='{top}'", rest=""))
        assert self.ask(host) == {brought[0]}
        host.add_pool("data", host.directory / "data", active=False)
        assert self.ask(host) == {*ALL, *brought}

    def test_what_another_cannot_check_stays(self, host: Host, tmp_path: Path) -> None:
        """The recipe of virt_image, of two hypervisors: a machine made by hand has an overlay in a pool that is not
        mounted on the other one."""
        (tmp_path / "other.xml").write_text("<node/>")
        with open_connection(f"test://{tmp_path}/other.xml") as conn:
            images = conn.storagePoolCreateXML(POOL.format(type="dir", name="images", path=host.store, source=""), 0)
            for volume in ALL:
                images.createXML(VOLUME.format(name=volume, rest=""), 0)
            conn.storagePoolDefineXML(POOL.format(type="dir", name="data", path=tmp_path / "data", source=""), 0)
            source = "pool='data' volume='db1.qcow2'"
            devices = DISK.format(type="volume", source=source, rest="")
            conn.defineXML(MACHINE.format(name="db1", notes="", devices=devices))
            seen = prune_images(conn, "images", None, PruneOptions(0, False), Deadline(600), check_mode=True)
        assert self.prune(host, frozenset(seen.used_here)).gone == ()
        assert host.volumes() == ALL


def test_an_image_is_removed_by_its_volume_or_with_all_of_its_name(host: Host) -> None:
    assert host.remove("nothing").gone == ()
    assert host.remove(OLD, check_mode=True).gone == (OLD,)
    assert host.volumes() == ALL
    assert host.remove(OLD).gone == (OLD,)
    assert host.remove(OLD).gone == ()
    assert host.remove("debian").gone == (NEW,)
    assert host.volumes() == {OTHER}


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize("name", [NEW, "debian"])
def test_an_image_in_use_is_not_removed_and_its_user_is_named(host: Host, name: str, check_mode: bool) -> None:
    for machine in ("a", "b"):
        host.add_machine(machine, notes=MachineNotes(image=ImageNote("debian", NEW, "images")))
    with pytest.raises(ConflictError) as caught:
        host.remove(name, check_mode=check_mode)
    assert str(caught.value) == f"name: image {NEW} is used by machine a, machine b. Remove these first"
    assert host.volumes() == ALL


def test_pruning_waits_for_machines_that_are_being_made_and_images_that_come(host: Host) -> None:
    prune_options = PruneOptions(0, False)

    def prune(seconds: float = 0.1) -> None:
        prune_images(host.conn, "images", None, prune_options, Deadline(seconds), check_mode=False)

    with (
        hypervisor_lock("init", wait_seconds=600, lock_dir=str(host.directory / "lock")),
        pytest.raises(ConflictError, match="another run has been at work on this hypervisor"),
    ):
        prune()
    with (
        locked_directory(str(host.store), Deadline(600)),
        pytest.raises(HostError, match="another run is working on the images"),
    ):
        prune()
    assert host.volumes() == ALL
    # And neither can begin while it is at work.
    with image_prune._alone(Pools(host.conn).get("images"), Deadline(600), check_mode=False):
        for path in (host.directory / "lock" / "init.lock", host.store):
            fd = os.open(path, os.O_RDONLY)
            with pytest.raises(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(fd)
    prune(600)
    assert host.volumes() == set()


def test_machines_are_made_while_pruning_waits_for_a_download(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one of another hypervisor that shares the store."""
    real = image_prune.image_files.locked_directory

    @contextlib.contextmanager
    def waits(*given: t.Any, **more: t.Any) -> t.Iterator[None]:
        with hypervisor_lock("init", wait_seconds=0, lock_dir=str(host.directory / "lock")):
            pass
        with real(*given, **more):
            yield

    monkeypatch.setattr(image_prune.image_files, "locked_directory", waits)
    host.prune()
    assert host.volumes() == set()


def test_pruning_a_shared_pool_waits_for_other_hypervisors(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_prune, "shared_because", lambda _pool: "it is NFS")
    with image_prune._alone(Pools(host.conn).get("images"), Deadline(600), check_mode=False):
        fd = os.open(host.store / LOCK_FILE, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(fd)
