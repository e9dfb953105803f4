# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image that a move brings, beside others that store the same one: volumes as files, through libvirt's calls."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import threading
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.identity import process_start_ticks
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.flush import SentFile
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.upload import (
    Sender,
    ask_sender,
    new_upload,
    send_file,
    send_mark,
)
from ansible_collections.brine.virt.plugins.module_utils._model.image.marks import Upload, read_upload
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.location import Endpoints
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage import images as migrated_images
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.disks import BaseImage
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.images import (
    copy_image_to_target,
    delete_upload,
)

NAME = "debian-0123456789abcdef.qcow2"
WHOLE = b"QFI\xfb\0\0\0\x03" + b"image" * 1000


class Stream:
    """Of a libvirt that has files: what test drivers and machines without its daemon lack."""

    def __init__(self) -> None:
        self.file: t.Any = None
        self.left = 0

    def send(self, data: bytes) -> int:
        return int(self.file.write(data))

    def sendAll(self, read: t.Callable[..., bytes], opaque: t.Any) -> None:
        while data := read(self, 1000, opaque):
            self.send(data)

    def recv(self, count: int) -> bytes:
        return bytes(self.file.read(count))

    def finish(self) -> None:
        self.file.close()

    def abort(self) -> None:
        self.file.close()


class Files:
    """A connection, a pool and a volume at once: a directory."""

    def __init__(self, directory: Path, name: str = "") -> None:
        self.directory = directory
        self.path_of = directory / name

    def newStream(self, _flags: int) -> Stream:
        return Stream()

    def storageVolLookupByName(self, name: str) -> Files:
        if not (self.directory / name).exists():
            error = libvirt.libvirtError("no volume")
            error.err = (libvirt.VIR_ERR_NO_STORAGE_VOL, 0, "no volume", 2, "", "", "", 0, 0)
            raise error
        return Files(self.directory, name)

    def name(self) -> str:
        return self.path_of.name

    def info(self) -> list[int]:
        return [0, self.path_of.stat().st_size, 0]

    def upload(self, stream: Stream, offset: int, _length: int, _flags: int) -> None:
        stream.file = self.path_of.open("r+b")
        stream.file.seek(offset)

    def download(self, stream: Stream, offset: int, _length: int, _flags: int) -> None:
        stream.file = self.path_of.open("rb")
        stream.file.seek(offset)

    def delete(self, _flags: int) -> None:
        self.path_of.unlink()

    def getURI(self) -> str:
        return "qemu+tls://hv2/system"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / NAME).write_bytes(bytes(len(WHOLE)))
    return Files(tmp_path)


def pool_of(files: Files) -> Pool:
    return Pool("images", str(files.directory), 1 << 40, files)


def content(files: Files) -> bytes:
    return (files.directory / NAME).read_bytes()


def test_the_real_first_bytes_come_last(files: Files, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(WHOLE)
    volume, upload, seen = files.storageVolLookupByName(NAME), new_upload("hv1"), []
    send_mark(volume, files, upload)

    def look(_done: int, _total: int) -> None:
        seen.append(read_upload(content(files)))

    send_file(str(source), volume, files, sparse=False, on_progress=look, stop=threading.Event())
    assert set(seen) == {upload}
    assert content(files) == WHOLE


def test_what_is_half_there_and_its_own_is_deleted(files: Files) -> None:
    upload = new_upload("hv1")
    send_mark(files.storageVolLookupByName(NAME), files, upload)
    assert delete_upload(pool_of(files), NAME, files, upload) is True
    assert not (files.directory / NAME).exists()
    assert delete_upload(pool_of(files), NAME, files, upload) is False


def test_the_same_image_that_somebody_has_stored_meanwhile_stays(files: Files) -> None:
    """virt_image puts its own file in the place of the half one, and machines may be backed by it at once."""
    upload = new_upload("hv1")
    send_mark(files.storageVolLookupByName(NAME), files, upload)
    (files.directory / "stored").write_bytes(WHOLE)
    (files.directory / "stored").rename(files.directory / NAME)
    assert delete_upload(pool_of(files), NAME, files, upload) is False
    assert content(files) == WHOLE


def test_what_another_run_sends_stays(files: Files) -> None:
    send_mark(files.storageVolLookupByName(NAME), files, new_upload("hv3"))
    assert delete_upload(pool_of(files), NAME, files, new_upload("hv1")) is False
    assert (files.directory / NAME).exists()


@dataclasses.dataclass
class Found:
    """What libvirt says of the volume."""

    allocation_bytes: int = 4096
    looks_like: str = "raw"


@pytest.fixture
def wait(files: Files, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., None]:
    """Wait for the image that somebody brings, with a short timeout; told is called at every check."""
    monkeypatch.setattr(migrated_images, "_WAIT_SECONDS", 0.3)
    monkeypatch.setattr(migrated_images, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(
        migrated_images, "Pools", lambda _conn: type("", (), {"get": lambda _self, _name: pool_of(files)})()
    )
    monkeypatch.setattr(
        migrated_images,
        "find_volume",
        lambda _pool, _name, *, image_format: Found() if (files.directory / NAME).exists() else None,
    )
    base = BaseImage("images", NAME, "/images/" + NAME, "/images/" + NAME, len(WHOLE), 1 << 30, "qcow2")

    def wait(told: t.Callable[..., None] = lambda *_progress: None) -> None:
        migrated_images._wait_or_clear(base, files, "hv1", told, threading.Event())

    return wait


def mark_as(files: Files, **words: t.Any) -> Upload:
    upload = dataclasses.replace(new_upload("hv1"), **words)
    send_mark(files.storageVolLookupByName(NAME), files, upload)
    return upload


def test_a_sender_that_is_alive_is_waited_for_however_long_it_sends_nothing(
    files: Files, wait: t.Callable[..., None]
) -> None:
    """It may be reading through a hole of many gigabytes."""
    with subprocess.Popen(["sleep", "60"]) as sender:
        mark_as(files, pid=sender.pid, started=process_start_ticks(sender.pid))
        looks = iter(range(20))

        def told(*_progress: t.Any) -> None:
            if next(looks, None) is None:
                sender.kill()
                sender.wait()

        wait(told)
    assert not (files.directory / NAME).exists()


def test_what_another_thread_of_this_run_sends_is_waited_for(
    files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One target under two URIs, for two machines of a task: each has a lock of its own."""
    (files.directory / NAME).unlink()
    source, asked = tmp_path / "source", []
    source.write_bytes(WHOLE)
    on_disk, flushes = [], iter([True, False])

    @contextlib.contextmanager
    def flushed(_conn: t.Any, sent: t.Sequence[SentFile]) -> t.Iterator[None]:
        assert [(file.name, file.size_bytes) for file in sent] == [(NAME, len(WHOLE))]
        on_disk.append(read_upload(content(files)) is not None)
        yield
        on_disk.append(read_upload(content(files)) is not None)

    def send(*words: t.Any, **options: t.Any) -> None:
        upload = read_upload(content(files))
        assert upload is not None
        asked.append(ask_sender(upload, "hv1"))
        send_file(*words, **{**options, "sparse": False})

    def make(*_words: t.Any) -> Files:
        (files.directory / NAME).write_bytes(bytes(len(WHOLE)))
        return files.storageVolLookupByName(NAME)

    monkeypatch.setattr(migrated_images, "Pools", lambda _conn: SimpleNamespace(get=lambda _name: pool_of(files)))
    monkeypatch.setattr(migrated_images, "is_stored", lambda *_words: (files.directory / NAME).exists())
    monkeypatch.setattr(migrated_images, "_make", make)
    monkeypatch.setattr(migrated_images, "refresh_pool", lambda *_words: None)
    monkeypatch.setattr(migrated_images, "send_file", send)
    monkeypatch.setattr(migrated_images, "flushed", flushed)
    monkeypatch.setattr(migrated_images, "is_being_flushed", lambda _conn, _path: next(flushes))
    # Of no digest in its name, so that none is compared.
    monkeypatch.setattr(migrated_images, "parse_image_volume", lambda _name: None)
    base = BaseImage("images", NAME, str(source), "/images/" + NAME, len(WHOLE), 1 << 30, "qcow2")
    copy_image_to_target(
        base, Endpoints("", "test:///default"), files, "hv1", lambda *_progress: None, threading.Event()
    )
    assert asked == [Sender.ALIVE]
    assert content(files) == WHOLE
    # All but the first bytes are on the disk before anybody takes it for an image, and those are in the end.
    assert on_disk == [True, True, True, False]
    assert next(flushes, None) is None


@pytest.mark.parametrize(("stored", "flushes"), [(False, [1, 1]), (True, [0])], ids=["sent", "stored by somebody else"])
def test_what_virt_image_has_stored_meanwhile_is_not_opened(
    files: Files, monkeypatch: pytest.MonkeyPatch, stored: bool, flushes: list[int]
) -> None:
    """It is read-only, machines may be backed by it, and it is on the disk already."""
    upload, seen = new_upload("hv1"), []

    def flushed(_conn: t.Any, sent: t.Sequence[SentFile]) -> t.ContextManager[None]:
        seen.append(len(sent))
        return contextlib.nullcontext()

    monkeypatch.setattr(migrated_images, "flushed", flushed)
    send_mark(files.storageVolLookupByName(NAME), files, upload)
    if stored:
        (files.directory / "stored").write_bytes(WHOLE)
        (files.directory / "stored").rename(files.directory / NAME)
    with migrated_images._on_disk(t.cast(t.Any, files), SentFile(pool_of(files), NAME, len(WHOLE)), upload):
        pass
    assert seen == flushes


def test_what_a_sender_has_left_that_is_gone_is_deleted_at_once(files: Files, wait: t.Callable[..., None]) -> None:
    mark_as(files, pid=os.getpid(), started=1)
    wait()
    assert not (files.directory / NAME).exists()


@pytest.mark.parametrize("marked", [True, False])
def test_what_nobody_can_be_asked_about_stays_with_a_hint(
    files: Files, wait: t.Callable[..., None], marked: bool
) -> None:
    if marked:
        mark_as(files, host="hv3")
    with pytest.raises(ConflictError) as caught:
        wait()
    assert ("of hv3" in str(caught.value)) is marked
    assert f"virsh -c qemu+tls://hv2/system vol-delete --pool images {NAME}" in str(caught.value)
    assert (files.directory / NAME).exists()


def test_a_flush_that_nobody_ends_is_not_waited_for_for_ever(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target's libvirt was started again meanwhile: its domain goes with no connection any more, and keeps every
    machine from the image."""
    begun: list[str] = []

    @contextlib.contextmanager
    def flushed(_conn: t.Any, sent: t.Sequence[SentFile]) -> t.Iterator[None]:
        begun.extend(file.name for file in sent)
        yield

    monkeypatch.setattr(migrated_images, "_WAIT_SECONDS", 0.3)
    monkeypatch.setattr(migrated_images, "Pools", lambda _conn: SimpleNamespace(get=lambda _name: pool_of(files)))
    monkeypatch.setattr(migrated_images, "is_stored", lambda *_words: True)
    monkeypatch.setattr(migrated_images, "flushed", flushed)
    monkeypatch.setattr(migrated_images, "is_being_flushed", lambda _conn, _path: True)
    base = BaseImage("images", NAME, "/images/" + NAME, "/images/" + NAME, len(WHOLE), 1 << 30, "qcow2")
    stop, failures = threading.Event(), []

    def bring() -> None:
        try:
            copy_image_to_target(base, Endpoints("", "test:///default"), files, "hv1", lambda *_progress: None, stop)
        except VirtError as exc:
            failures.append(exc)

    bringing = threading.Thread(target=bring)
    bringing.start()
    bringing.join(120)
    stop.set()
    bringing.join(120)
    assert failures == []
    # What is there for this ends the other one first.
    assert begun == [NAME]


@pytest.mark.parametrize(("there", "mode"), [(0o444, "0644"), (0o400, "0600"), (None, "0644")])
def test_what_others_cannot_read_here_they_cannot_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: int | None, mode: str
) -> None:
    source = tmp_path / NAME
    if there is not None:
        source.touch()
        source.chmod(there)
    base = BaseImage("images", NAME, str(source), "/images/" + NAME, len(WHOLE), 1 << 30, "qcow2")
    monkeypatch.setattr(migrated_images.volumes, "make_volume", lambda _pool, _name, element: element)
    element = migrated_images._make(Pool("images", "/images", 0, None, local=True), base)
    assert element.findtext("target/permissions/mode") == mode
