# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collecting who uses volumes: what fails is not taken for what has gone."""

from __future__ import annotations

import os
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import file_chain, users
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.usage import UNKNOWN, Usage
from ansible_collections.brine.virt.plugins.module_utils._host.storage.users import unless_gone
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_facts import find_volume
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
