# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image store as far as libvirt's test driver goes: it has pools and volumes, but does not look into directories.

Bringing images in is proven on real hypervisors by tests/integration/lab/virt_image.yml.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import time
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, NotFoundError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.images import store as image_store
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import (
    Deadline,
    locked_directory,
    partial_file,
)
from ansible_collections.brine.virt.plugins.module_utils._host.images.ingest import ImageSource
from ansible_collections.brine.virt.plugins.module_utils._host.images.prune import PruneOptions, prune_images
from ansible_collections.brine.virt.plugins.module_utils._host.images.store import ImageStore, require_own_host
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import Checksum

CONTENTS = {"debian": b"\x01" * 512, "fedora": b"\x02" * 512}


def checksum(content: bytes, algorithm: str = "sha256") -> Checksum:
    return Checksum(algorithm, hashlib.new(algorithm, content).hexdigest())


@pytest.fixture
def store(tmp_path: t.Any) -> t.Iterator[ImageStore]:
    """A store with two images whose files are there too."""
    (tmp_path / "node.xml").write_text("<node/>")
    directory = tmp_path / "store"
    directory.mkdir()
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        xml = f"<pool type='dir'><name>images</name><target><path>{directory}</path></target></pool>"
        pool = conn.storagePoolCreateXML(xml, 0)
        lost = xml.replace("images", "lost").replace(str(directory), str(tmp_path / "lost"))
        conn.storagePoolCreateXML(lost, 0)
        for name, content in CONTENTS.items():
            volume = f"{name}-{hashlib.sha256(content).hexdigest()[:16]}.raw"
            (directory / volume).write_bytes(content)
            pool.createXML(f"<volume><name>{volume}</name><capacity>512</capacity></volume>", 0)
        with pytest.raises(HostError, match="pool: there is no directory .*lost of pool lost on this host"):
            ImageStore(conn, "lost")
        with pytest.raises(NotFoundError, match="pool: there is no storage pool 'imags'. Did you mean images"):
            ImageStore(conn, "imags")
        yield ImageStore(conn, "images")


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_an_image_is_found_by_name_and_checksum(store: ImageStore, algorithm: str) -> None:
    content = CONTENTS["debian"]
    kept = store.find("debian", checksum(content, algorithm))
    assert kept is not None
    assert kept.sha256 == hashlib.sha256(content).hexdigest()
    assert kept.size_bytes == 512
    assert kept.image.volume == f"debian-{kept.sha256[:16]}.raw"
    assert store.volumes("debian") == [kept.image.volume]
    assert store.find("debian", checksum(CONTENTS["fedora"], algorithm)) is None
    assert store.find("fedora", checksum(content, algorithm)) is None


def test_a_source_with_other_bytes_leaves_nothing(store: ImageStore, tmp_path: t.Any) -> None:
    source = tmp_path / "source.raw"
    source.write_bytes(bytes(1024))
    before = sorted(os.listdir(tmp_path / "store"))
    with pytest.raises(Exception, match="has the sha256 .* not "):
        store.bring("new", ImageSource(path=str(source), checksum=checksum(b"other")), Deadline(600))
    with pytest.raises(HostError, match="cannot read .*nothing: No such file"):
        store.bring("new", ImageSource(path=str(tmp_path / "nothing")), Deadline(600))
    assert sorted(os.listdir(tmp_path / "store")) == before


def test_what_another_run_brings_meanwhile_is_not_transferred_again(
    store: ImageStore, tmp_path: t.Any, web: t.Any
) -> None:
    content = b"\x03" * 512
    volume = f"new-{hashlib.sha256(content).hexdigest()[:16]}.raw"
    source = ImageSource(url=web.put("image", content), checksum=checksum(content))
    locked = threading.Event()

    def other_run() -> None:
        with locked_directory(str(tmp_path / "store"), Deadline(600)):
            locked.set()
            time.sleep(0.3)
            (tmp_path / "store" / volume).write_bytes(content)
            store._pool.handle.createXML(f"<volume><name>{volume}</name><capacity>512</capacity></volume>", 0)

    other = threading.Thread(target=other_run)
    other.start()
    locked.wait(120)
    assert store.find("new", checksum(content)) is None
    brought = store.bring("new", source, Deadline(600))
    other.join()
    assert (brought.new, brought.kept.image.volume, web.asked) == (False, volume, [])


@pytest.mark.parametrize("known", [True, False], ids=["known by its checksum", "known by its bytes"])
def test_what_another_hypervisor_has_brought_to_a_shared_store_is_not_replaced(
    store: ImageStore, tmp_path: t.Any, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """libvirt here has not seen it yet. Who has it open over NFS would lose it, though the new one is the same."""
    content = b"\x03" * 512
    volume = f"new-{hashlib.sha256(content).hexdigest()[:16]}.raw"
    path, source = tmp_path / "store" / volume, tmp_path / "source.raw"
    source.write_bytes(content)
    path.write_bytes(content)

    def look_again(handle: t.Any, _name: str) -> None:
        """What the driver leaves out."""
        if volume not in handle.listVolumes() and path.exists():
            handle.createXML(f"<volume><name>{volume}</name><capacity>512</capacity></volume>", 0)

    monkeypatch.setattr(image_store, "refresh_pool", look_again)
    before = path.stat().st_ino
    wanted = ImageSource(path=str(source), checksum=checksum(content) if known else None)
    brought = store.bring("new", wanted, Deadline(600))
    assert (brought.new, brought.kept.image.volume) == (False, volume)
    assert path.stat().st_ino == before


def test_two_hypervisors_do_not_take_each_others_half_image_from_a_shared_store(
    store: ImageStore, tmp_path: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them has a lock of its own of the directory there: see locked_directory."""
    flock, directory, source = fcntl.flock, tmp_path / "store", tmp_path / "source.raw"
    source.write_bytes(b"\x03" * 512)
    monkeypatch.setattr(image_store, "shared_because", lambda _pool: "it is NFS")
    monkeypatch.setattr(
        fcntl, "flock", lambda fd, how: None if os.path.isdir(f"/proc/self/fd/{fd}") else flock(fd, how)
    )
    with locked_directory(str(directory), Deadline(600), shared=True), partial_file(str(directory)) as part:
        with pytest.raises(HostError, match="another run is working on the images"):
            store.bring("new", ImageSource(path=str(source)), Deadline(0))
        assert os.path.exists(part.path)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_sha512_is_found_out_once(store: ImageStore, tmp_path: t.Any, read_only: bool) -> None:
    wanted = checksum(CONTENTS["debian"], "sha512")
    store._read_only = read_only
    assert store.find("debian", checksum(b"other", "sha512")) is None
    stored = next((tmp_path / "store").glob("debian-*"))
    # Whoever reads it now finds other bytes.
    stored.write_bytes(b"\x04" * 512)
    assert (store.find("debian", wanted) is None) == read_only


def test_a_store_is_in_a_pool_of_files(tmp_path: t.Any) -> None:
    source = "<source><name>vg</name></source>"
    pool = f"<pool type='logical'><name>vg</name>{source}<target><path>{tmp_path}</path></target></pool>"
    (tmp_path / "node.xml").write_text(f"<node>{pool}</node>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        for work in (
            lambda: ImageStore(conn, "vg"),
            lambda: prune_images(conn, "vg", None, PruneOptions(0, True), Deadline(1), check_mode=True),
        ):
            with pytest.raises(
                UnsupportedError, match="^pool: storage pool 'vg' is of type logical, and images are sto"
            ):
                work()


@pytest.mark.parametrize("uri", ["qemu+ssh://hv2/system", "qemu+tls://hv2.example.org/system"])
def test_a_connection_to_another_host_is_refused(uri: str) -> None:
    with pytest.raises(UnsupportedError, match="uri: images are stored on the host that the task runs on"):
        require_own_host(uri)


@pytest.mark.parametrize("uri", ["qemu:///system", "qemu:///system?socket=/run/x", "qemu+unix:///system"])
def test_a_connection_to_this_host_is_taken(uri: str) -> None:
    require_own_host(uri)
