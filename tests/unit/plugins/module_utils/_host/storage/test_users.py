# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collecting who uses volumes: what fails is not taken for what has gone."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import read_description
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import file_chain, users
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.setup.pool_users import users_of_pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.usage import UNKNOWN, UNUSED, USED, Usage
from ansible_collections.brine.virt.plugins.module_utils._host.storage.users import unless_gone
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_facts import find_volume
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volumes import volume_names
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import NAMESPACE
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.machines.unreadable import define_unreadable


def test_an_error_without_a_code_is_nothing_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    # As an older libvirt.
    monkeypatch.delattr(libvirt, "VIR_ERR_NO_DOMAIN_CHECKPOINT")
    with (
        pytest.raises(HostError, match=r"^cannot list checkpoints: it failed"),
        unless_gone("DOMAIN_CHECKPOINT", "cannot list checkpoints"),
    ):
        raise libvirt.libvirtError("it failed")


def test_a_machine_that_cannot_be_read_may_use_anything(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        define_unreadable(conn)
        (unknown,) = [found for found in users.collect_users(conn).unknown if found.machine == "ent1"]
    assert unknown.words.startswith("the description of machine ent1 cannot be read as XML: Entity 'x' not defined")
    assert unknown.writes


def test_a_snapshot_that_cannot_be_read_is_told_from_its_machine(node_uri: str) -> None:
    """It has the machine's XML one level deeper."""
    nested = "<f:a xmlns:f='http://f'>" + "<a>" * 253 + "</a>" * 253 + "</f:a>"
    deep = f"""<domain type='test'><name>deep1</name><memory>1024</memory><os><type>hvm</type></os>
        <metadata>{nested}</metadata></domain>"""
    with open_connection(node_uri) as conn:
        machine = conn.defineXML(deep)
        before = users.collect_users(conn).unknown
        machine.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>")
        (unknown,) = [found for found in users.collect_users(conn).unknown if found not in before]
    assert unknown.words.startswith(
        "the description of snapshot before of machine deep1 cannot be read as XML: Excessive depth"
    )
    assert unknown.machine == "deep1"


POOL = "<pool type='{}'><name>{}</name><target><path>{}</path></target></pool>"
DISK = "<disk type='file'><driver type='qcow2'/><source file='{}'/><target dev='vda'/></disk>"
VOLUME = "<volume><name>{}</name><capacity>1048576</capacity><target><format type='qcow2'/></target></volume>"
GUEST = (
    "<domain type='test'><name>{}</name><memory>1024</memory><os><type>hvm</type></os><devices>{}</devices></domain>"
)


@pytest.fixture
def silenced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Path]:
    """A directory whose server is gone: who asks for anything in it waits until the test ends."""
    directory, ended = tmp_path / "nfs", threading.Event()
    (directory / "below").mkdir(parents=True)
    for place in (directory / "web1.qcow2", directory / "below" / "db1.qcow2"):
        place.write_bytes(b"")

    def waiting(call: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
        def wait(path: t.Any, *arguments: t.Any, **named: t.Any) -> t.Any:
            if str(path).startswith(str(directory)) and threading.current_thread() is not threading.main_thread():
                ended.wait(60)
            assert not str(path).startswith(str(directory)) or ended.is_set(), f"{path} would never have answered"
            return call(path, *arguments, **named)

        return wait

    with monkeypatch.context() as patched:
        for name in ("listdir", "stat", "open"):
            patched.setattr(os, name, waiting(getattr(os, name)))
        patched.setattr(file_chain.Watch.__init__, "__defaults__", (0.2,))
        yield directory
        ended.set()


def test_a_pool_whose_server_is_gone_is_named_and_keeps_everything(tmp_path: Path, silenced: Path) -> None:
    (tmp_path / "node.xml").write_text("<node/>")
    (tmp_path / "disks").mkdir()
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        for kind, name, place in (("netfs", "nfs", silenced), ("dir", "disks", tmp_path / "disks")):
            source = "<source><host name='nas'/><dir path='/x'/></source><target>" if kind == "netfs" else "<target>"
            conn.storagePoolCreateXML(POOL.format(kind, name, place).replace("<target>", source), 0)
        for number, file in enumerate(("web1.qcow2", "below/db1.qcow2")):
            conn.defineXML(GUEST.format(f"guest{number}", DISK.format(silenced / file)))
        begun, before = time.monotonic(), threading.active_count()
        usage = Usage(conn, local=True)
        use = usage.of(Pools(conn).get("disks"), "web2.qcow2")
        assert use.state == UNKNOWN
        assert f"storage pool nfs does not answer: {silenced}: no answer within 0.2 s" in use.reasons
        # One time limit, however many files are in there: nothing in it is asked for a second time.
        assert time.monotonic() - begun < 2
        assert usage.identity_at(f"{silenced}/other") == f"{silenced}/other"
        assert threading.active_count() <= before + 1


def test_a_disk_on_a_share_that_is_no_pool_is_not_waited_for(tmp_path: Path, silenced: Path) -> None:
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        conn.defineXML(GUEST.format("guest", DISK.format(silenced / "web1.qcow2")))
        words = [unknown.words for unknown in users.collect_users(conn, local=True).unknown]
    assert f"{silenced} cannot be read (no answer within 0.2 s)" in words


def test_a_libvirt_that_waits_for_a_pool_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn, monkeypatch.context() as patched:
        patched.setattr(file_chain.Watch.__init__, "__defaults__", (0.2,))
        patched.setattr(type(conn), "listAllStoragePools", lambda *_arguments: ended.wait(60) and [])
        with pytest.raises(HostError, match=r"^libvirt does not list the storage pools: no answer within 0\.2 s"):
            users.collect_users(conn)
        ended.set()


def test_the_backups_in_a_pool_are_a_directory_that_nothing_uses(tmp_path: Path) -> None:
    """As libvirt lists it: a volume of type dir. What is in there is in no pool, and keeps nothing of others."""
    backup = tmp_path / "pool" / "web1" / "20261123T020000Z-full"
    backup.mkdir(parents=True)
    (backup / "vda.qcow2").write_bytes(b"QFI\xfb")
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        pool = conn.storagePoolCreateXML(POOL.format("dir", "backups", tmp_path / "pool"), 0)
        pool.createXML("<volume type='dir'><name>web1</name><capacity>0</capacity></volume>", 0)
        found = users.collect_users(conn, local=True)
        with pytest.raises(UnsupportedError, match="volume web1 of pool backups is of type dir, not a disk"):
            find_volume(Pools(conn).get("backups"), "web1", image_format="raw")
    assert (found.unknown, list(found.paths), found.by_file) == ([], [("backups", "web1")], {})


class Disks:
    """A pool with the image base.qcow2, and an overlay on it in another pool, which is on a disk of its own."""

    def __init__(self, tmp_path: Path) -> None:
        (tmp_path / "node.xml").write_text("<node/>")
        self.uri = f"test://{tmp_path}/node.xml"
        self.base, self.overlay = tmp_path / "disks" / "base.qcow2", tmp_path / "ssd" / "web1.qcow2"
        for file in (self.base, self.overlay):
            file.parent.mkdir()
        qemu_img(self.base)
        qemu_img(self.overlay, self.base)

    def add(self, conn: t.Any) -> None:
        for file in (self.base, self.overlay):
            pool = conn.storagePoolCreateXML(POOL.format("dir", file.parent.name, file.parent), 0)
            pool.createXML(VOLUME.format(file.name), 0)

    def use_of_base(self, conn: t.Any) -> t.Any:
        return Usage(conn, local=True).of(Pools(conn).get("disks"), "base.qcow2")


def qemu_img(file: Path, backing: Path | str | None = None, image_format: str = "qcow2") -> None:
    words = ["-u", "-b", str(backing), "-F", "qcow2"] if backing else []
    subprocess.run(["qemu-img", "create", "-q", "-f", image_format, *words, str(file), "1M"], check=True)


def test_a_disk_that_is_missing_may_be_backed_by_anything(tmp_path: Path) -> None:
    """As where the file system that it is on is not mounted, and somebody has put a note into the empty directory."""
    disks = Disks(tmp_path)
    with open_connection(disks.uri) as conn:
        disks.add(conn)
        conn.defineXML(GUEST.format("web1", DISK.format(disks.overlay)))
        assert disks.use_of_base(conn).state == USED
        disks.overlay.unlink()
        (disks.overlay.parent / "NOT-MOUNTED").touch()
        conn.storagePoolLookupByName("ssd").destroy()
        use = disks.use_of_base(conn)
        # Its own disks go with the machine all the same.
        own = Usage(conn, local=True).of(Pools(conn).get("disks"), "base.qcow2", besides="web1")
    missing = f"{disks.overlay} of machine web1 is missing, and what it is backed by is not known"
    assert use.state == UNKNOWN
    assert any(reason.startswith(missing) for reason in use.reasons), use
    assert not any(reason.startswith(missing) for reason in own.reasons), own


@pytest.mark.parametrize(
    ("xml", "known"),
    [
        (DISK.replace("qcow2'/><source", "raw'/><source").format("/nowhere/web1.raw"), True),
        (DISK.format("/nowhere/web1.qcow2"), False),
        (
            "<disk type='volume'><driver type='qcow2'/><source pool='gone' volume='web1'/><target dev='vda'/></disk>",
            False,
        ),
    ],
)
def test_of_which_missing_disks_it_is_known_what_backs_them(tmp_path: Path, xml: str, known: bool) -> None:
    """Nothing backs a raw one."""
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        conn.defineXML(GUEST.format("web1", xml))
        unknown = users.collect_users(conn, local=True).unknown
        # libvirt's test driver has no files, and none of them is missed.
        assert users.collect_users(conn).unknown == []
    assert (unknown == []) == known
    assert all("of machine web1 is missing" in one.words and one.machine == "web1" for one in unknown)


def test_of_a_machine_that_is_being_created_no_disk_is_missed(tmp_path: Path) -> None:
    """It is defined first, with all its disks; a killed run leaves it so."""
    notes = f"<metadata><b:machine xmlns:b='{NAMESPACE}' status='building'/></metadata>"
    xml = GUEST.format("web1", DISK.format("/nowhere/web1.qcow2")).replace("<memory>", f"{notes}<memory>")
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        conn.defineXML(xml)
        assert users.collect_users(conn, local=True).unknown == []
        conn.defineXML(xml.replace("'building'", "'ready'").replace("web1", "web2"))
        assert len(users.collect_users(conn, local=True).unknown) == 1


def test_a_pool_of_which_all_volumes_are_gone_is_not_mounted(tmp_path: Path) -> None:
    disks = Disks(tmp_path)
    with open_connection(disks.uri) as conn:
        disks.add(conn)
        assert disks.use_of_base(conn).state == USED
        disks.overlay.rename(tmp_path / "elsewhere.qcow2")
        use = disks.use_of_base(conn)
        (tmp_path / "elsewhere.qcow2").unlink()
        # One that was deleted beside others is no sign of it.
        conn.storagePoolLookupByName("ssd").createXML(VOLUME.format("web2.qcow2"), 0)
        qemu_img(disks.overlay.parent / "web2.qcow2")
        assert disks.use_of_base(conn).state == UNUSED
    assert use.state == UNKNOWN
    assert f"of the volumes of storage pool ssd, none is in {disks.overlay.parent}: mount" in str(use.reasons)


@pytest.mark.parametrize("active", [True, False])
def test_a_pool_that_is_not_active_may_have_anything(tmp_path: Path, active: bool) -> None:
    """Whatever is in its directory: a disk may have to be mounted there."""
    disks = Disks(tmp_path)
    disks.overlay.unlink()
    (disks.overlay.parent / "NOT-MOUNTED").touch()
    with open_connection(disks.uri) as conn:
        conn.storagePoolDefineXML(POOL.format("dir", "ssd", disks.overlay.parent), 0)
        if active:
            conn.storagePoolLookupByName("ssd").create(0)
        conn.storagePoolCreateXML(POOL.format("dir", "disks", disks.base.parent), 0)
        use = disks.use_of_base(conn)
    assert use.state == (UNUSED if active else UNKNOWN), use


@pytest.mark.parametrize("way", ["qed", "quorum"])
def test_an_overlay_of_a_rare_kind(tmp_path: Path, way: str) -> None:
    disks = Disks(tmp_path)
    disks.overlay.unlink()
    if way == "qed":
        qemu_img(disks.overlay, disks.base, "qed")
    else:
        child = {"driver": "qcow2", "file": {"driver": "file", "filename": str(disks.base)}}
        quorum = {"driver": "quorum", "vote-threshold": 1, "children": [child]}
        qemu_img(disks.overlay, f"json:{json.dumps(quorum)}")
    with open_connection(disks.uri) as conn:
        disks.add(conn)
        use = disks.use_of_base(conn)
    assert (use.state, use.users) == (USED, ("volume ssd/web1.qcow2",))


NOT_TEXT = UnicodeDecodeError("utf-8", b"/\xff", 1, 2, "invalid start byte")


def say_no_text(monkeypatch: pytest.MonkeyPatch, method: str, file: str) -> None:
    """What libvirt's bindings do with bytes that are not UTF-8. Its test driver has none of them."""
    real, path = getattr(libvirt.virStorageVol, method), libvirt.virStorageVol.path

    def answer(volume: t.Any, *arguments: t.Any) -> t.Any:
        if os.path.basename(path(volume)) == file:
            raise NOT_TEXT
        return real(volume, *arguments)

    monkeypatch.setattr(libvirt.virStorageVol, method, answer)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("method", ["name", "XMLDesc"])
def test_a_name_that_is_no_text_hides_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, local: bool
) -> None:
    """That of a file, or what a guest has written into its raw disk as the name of a backing file."""
    disks = Disks(tmp_path)
    with open_connection(disks.uri) as conn:
        disks.add(conn)
        (tmp_path / "ssd" / "odd").write_bytes(b"")
        conn.storagePoolLookupByName("ssd").createXML(VOLUME.format("odd"), 0)
        say_no_text(monkeypatch, method, "odd")
        pool = Pools(conn).get("ssd")
        assert Usage(conn, local=True).of(Pools(conn).get("disks"), "base.qcow2").users == ("volume ssd/web1.qcow2",)
        unknown = [one.words for one in users.collect_users(conn, local=local).unknown if "UTF-8" in one.words]
        assert bool(unknown) != local
        assert volume_names(pool) == ({"web1.qcow2"} if method == "name" else {"odd", "web1.qcow2"})
        root = read_description("pool", pool.handle.XMLDesc(0))
        assert users_of_pool(conn, pool.handle, root).machines == frozenset()


@pytest.mark.parametrize("why", [NOT_TEXT, HostError("the description of volume odd cannot be read as XML")])
def test_a_volume_whose_header_is_no_text_is_a_raw_disk_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: Exception
) -> None:
    disks = Disks(tmp_path)
    with open_connection(disks.uri) as conn:
        disks.add(conn)
        pool = Pools(conn).get("ssd")

        def fail(*_arguments: t.Any) -> t.NoReturn:
            raise why

        monkeypatch.setattr(libvirt.virStorageVol, "XMLDesc", fail)
        monkeypatch.setattr(libvirt.virStorageVol, "infoFlags", lambda _volume, _flags: [0, 1 << 40, 4096])
        here, there = dataclasses.replace(pool, local=True), pool
        found = find_volume(here, "web1.qcow2", image_format="raw")
        assert found is not None
        assert (found.capacity_bytes, found.looks_like) == (disks.overlay.stat().st_size, "qcow2")
        assert (found.source.place, found.backing_path) == (str(disks.overlay), None)
        # The size of the file, and not what a guest has written into it.
        away = find_volume(there, "web1.qcow2", image_format="raw")
        assert away is not None and away.capacity_bytes == 4096
        with pytest.raises(HostError, match=r"web1\.qcow2 of pool ssd: the name of what it is backed by"):
            find_volume(here, "web1.qcow2", image_format="qcow2")


NOTE = f"<brine:machine xmlns:brine='{NAMESPACE}' status='ready'><brine:volume pool='second' name='data' role='disk'/>"
OF_CLUSTER = """<pool type='rbd'><name>{}</name><source><host name='mon1'/><name>vms</name></source>
<volume><name>data</name><capacity>64</capacity></volume></pool>"""


@pytest.mark.parametrize("noted", [True, False])
def test_a_volume_of_a_cluster_is_used_by_whatever_pool_of_libvirt_it_is_named(tmp_path: Path, noted: bool) -> None:
    """There may be several of one pool of the cluster, as different users."""
    disk = "<disk type='volume'><driver type='raw'/><source pool='second' volume='data'/><target dev='vda'/></disk>"
    guest = GUEST.format("db1", "" if noted else disk)
    if noted:
        guest = guest.replace("<memory>", f"<metadata>{NOTE}</brine:machine></metadata><memory>")
    (tmp_path / "node.xml").write_text(f"<node>{OF_CLUSTER.format('first')}{OF_CLUSTER.format('second')}</node>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        conn.defineXML(guest)
        pools, usage = Pools(conn), Usage(conn)
        for name in ("first", "second"):
            assert usage.of(pools.get(name), "data").machines == {"db1"}
        assert usage.of(pools.get("first"), "other").machines == set()
