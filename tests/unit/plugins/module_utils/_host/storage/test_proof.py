# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What proves that a volume is a killed run's own: real files, made by qemu-img."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.proof import (
    by_hand,
    is_proven,
    mark_of,
    unfinished_of,
)
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer import copy as volume_copy
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.copy import create_copy
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.upload import new_upload
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volumes import create_empty, create_filled
from ansible_collections.brine.virt.plugins.module_utils._model.image.marks import (
    HEAD_BYTES,
    add_qcow2_mark,
    read_qcow2_mark,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import CreationNote, VolumeNote

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")

MIB = 1024 * 1024
MARK = "5" * 32
ATTRIBUTE = "user.brine.build"
POOL = "<pool type='{}'><name>{}</name>{}<target><path>{}</path></target></pool>"


@pytest.fixture
def conn(node_uri: str, tmp_path: Path) -> Iterator[t.Any]:
    with open_connection(node_uri) as connection:
        connection.storagePoolCreateXML(POOL.format("dir", "files", "", tmp_path), 0)
        connection.storagePoolCreateXML(POOL.format("logical", "vg", "<source><name>vg</name></source>", "/dev/vg"), 0)
        yield connection


@pytest.fixture
def far(conn: t.Any) -> Pool:
    """A pool of files that are another machine's."""
    return Pools(conn).get("files")


@pytest.fixture
def files(far: Pool) -> Pool:
    return dataclasses.replace(far, local=True)


def note(size_bytes: int | None = MIB, image_format: str = "qcow2", backing: str = "") -> VolumeNote:
    return VolumeNote("files", "disk", "disk", format=image_format, making=CreationNote(MARK, size_bytes, backing))


def has_mark(disk: Path) -> bool:
    with disk.open("rb") as file:
        if read_qcow2_mark(file.read(HEAD_BYTES)) == MARK:
            return True
    try:
        return os.getxattr(disk, ATTRIBUTE) == MARK.encode()
    except OSError:
        return False


def qemu_img(tmp_path: Path, *arguments: t.Any) -> None:
    subprocess.run(["qemu-img", *map(str, arguments)], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)


def write(tmp_path: Path, at: str = "0") -> None:
    """A guest writes a few bytes."""
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", f"write {at} 512", "disk"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("size", ["1M", "64M", "20G", "10T"])
@pytest.mark.parametrize("options", [[], ["-o", "lazy_refcounts=on"], ["-o", "cluster_size=2M"]])
def test_a_new_image_holds_nothing(files: Pool, tmp_path: Path, size: str, options: list[str]) -> None:
    qemu_img(tmp_path, "create", "-f", "qcow2", *options, "disk", size)
    size_bytes = int(size[:-1]) << {"M": 20, "G": 30, "T": 40}[size[-1]]
    assert is_proven(files, note(size_bytes))
    assert not is_proven(files, note(size_bytes + MIB))
    assert not is_proven(files, note(size_bytes, backing="/image"))
    assert not is_proven(files, note(size_bytes, image_format="raw"))


def test_an_overlay_holds_nothing_as_long_as_it_is_on_what_it_was_made_on(files: Pool, tmp_path: Path) -> None:
    qemu_img(tmp_path, "create", "-f", "raw", "image", "1M")
    qemu_img(tmp_path, "create", "-f", "qcow2", "-b", tmp_path / "image", "-F", "raw", "disk", "1M")
    assert is_proven(files, note(backing=str(tmp_path / "image")))
    assert not is_proven(files, note())
    assert not is_proven(files, note(backing=str(tmp_path / "other")))


@pytest.mark.skipif(not shutil.which("qemu-io"), reason="qemu-io is not installed")
@pytest.mark.parametrize("at", ["0", "1023k"])
def test_an_image_that_somebody_has_written_to_is_known_by_its_mark_alone(files: Pool, tmp_path: Path, at: str) -> None:
    qemu_img(tmp_path, "create", "-f", "qcow2", "disk", "1M")
    write(tmp_path, at)
    assert not is_proven(files, note())
    os.setxattr(tmp_path / "disk", ATTRIBUTE, MARK.encode())
    assert is_proven(files, note())
    os.setxattr(tmp_path / "disk", ATTRIBUTE, b"another")
    assert not is_proven(files, note())


def test_a_mark_in_the_header(files: Pool, tmp_path: Path) -> None:
    """Where files take no attributes; a raw disk's first bytes are its guest's."""
    qemu_img(tmp_path, "create", "-f", "qcow2", "disk", "1M")
    with (tmp_path / "disk").open("r+b") as file:
        head = add_qcow2_mark(file.read(HEAD_BYTES), MARK)
        assert head is not None
        file.seek(0)
        file.write(head)
    qemu_img(tmp_path, "snapshot", "-c", "first", "disk")
    assert is_proven(files, note())
    assert not is_proven(files, note(image_format="raw"))


def test_the_mark_of_a_volume_that_is_not_whole(files: Pool, tmp_path: Path) -> None:
    """A guest can write a header into its raw disk: there only the attribute counts."""
    upload = new_upload("hv1")
    qemu_img(tmp_path, "create", "-f", "qcow2", "disk.qcow2", "1M")
    assert mark_of(files, "disk.qcow2") is None
    with (tmp_path / "disk.qcow2").open("r+b") as file:
        head = add_qcow2_mark(file.read(HEAD_BYTES), upload.to_mark())
        assert head is not None
        file.seek(0)
        file.write(head)
    assert unfinished_of(files, "disk.qcow2") == upload
    (tmp_path / "disk.raw").write_bytes((tmp_path / "disk.qcow2").read_bytes())
    assert mark_of(files, "disk.raw") is None
    os.setxattr(tmp_path / "disk.raw", ATTRIBUTE, upload.to_mark().encode())
    assert unfinished_of(files, "disk.raw") == upload
    os.setxattr(tmp_path / "disk.raw", ATTRIBUTE, MARK.encode())
    assert (mark_of(files, "disk.raw"), unfinished_of(files, "disk.raw")) == (MARK, None)
    assert mark_of(files, "nothing.raw") is None


def test_snapshots_are_something(files: Pool, tmp_path: Path) -> None:
    qemu_img(tmp_path, "create", "-f", "qcow2", "disk", "1M")
    qemu_img(tmp_path, "snapshot", "-c", "first", "disk")
    assert not is_proven(files, note())


@pytest.mark.parametrize("preallocation", ["metadata", "falloc", "full"])
def test_what_this_collection_does_not_make_is_somebody_elses(files: Pool, tmp_path: Path, preallocation: str) -> None:
    qemu_img(tmp_path, "create", "-f", "qcow2", "-o", f"preallocation={preallocation}", "disk", "1M")
    assert not is_proven(files, note())


def test_a_raw_file_holds_nothing_as_long_as_it_is_one_hole(files: Pool, tmp_path: Path) -> None:
    """So libvirt makes it."""
    with (tmp_path / "disk").open("wb") as file:
        file.truncate(MIB)
    raw = note(image_format="raw")
    assert is_proven(files, raw)
    assert is_proven(files, note(None, image_format="raw"))
    assert not is_proven(files, note(2 * MIB, image_format="raw"))
    assert not is_proven(files, note())
    with (tmp_path / "disk").open("r+b") as file:
        file.seek(MIB // 2)
        file.write(b"\0")
    assert not is_proven(files, raw)


def test_a_link_leads_to_somebody_elses(files: Pool, tmp_path: Path) -> None:
    qemu_img(tmp_path, "create", "-f", "qcow2", "theirs", "1M")
    os.setxattr(tmp_path / "theirs", ATTRIBUTE, MARK.encode())
    (tmp_path / "disk").symlink_to("theirs")
    assert not is_proven(files, note())


def test_without_a_note_of_how_it_was_made_nothing_proves_it(files: Pool, tmp_path: Path) -> None:
    qemu_img(tmp_path, "create", "-f", "qcow2", "disk", "1M")
    assert not is_proven(files, dataclasses.replace(note(), making=None))
    (tmp_path / "disk").write_bytes(b"")
    assert not is_proven(files, note())


def test_files_of_another_machine_are_known_by_what_libvirt_says(far: Pool) -> None:
    create_empty(far, "disk", size_bytes=MIB, image_format="qcow2", mark=MARK)
    assert is_proven(far, note())
    assert not is_proven(far, note(2 * MIB))
    assert not is_proven(far, note(image_format="raw"))
    assert not is_proven(far, note(backing="/image"))
    far.handle.storageVolLookupByName("disk").delete(0)
    xml = "<volume><name>disk</name><capacity>1048576</capacity><allocation>4096</allocation>{}</volume>"
    far.handle.createXML(xml.format("<target><format type='qcow2'/></target>"))
    assert not is_proven(far, note())


def test_nothing_proves_a_block_device(conn: t.Any) -> None:
    vg = Pools(conn).get("vg")
    create_empty(vg, "disk", size_bytes=MIB, image_format="raw", mark=MARK)
    assert not is_proven(vg, note(image_format="raw"))


class TestMaking:
    """Volumes as the daemon makes them: the test driver makes no files."""

    @pytest.fixture(autouse=True)
    def _daemon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        make: t.Any = libvirt.virStoragePool.createXML

        def make_file(pool: t.Any, xml: str, flags: int = 0) -> t.Any:
            root, made = parse_xml(xml), make(pool, xml, flags)
            (image_format,) = [str(element.get("type")) for element in root.iterfind("target/format")]
            size = root.findtext("capacity", "")
            subprocess.run(["qemu-img", "create", "-q", "-f", image_format, made.path(), size], check=True)
            return made

        monkeypatch.setattr(libvirt.virStoragePool, "createXML", make_file)

    def test_the_mark_comes_before_the_content(self, files: Pool, conn: t.Any, tmp_path: Path) -> None:
        with pytest.raises(VirtError, match="cannot write volume disk"):
            create_filled(files, "disk", b"seed", conn, MARK)
        assert os.getxattr(tmp_path / "disk", ATTRIBUTE) == MARK.encode()

    @pytest.mark.parametrize("image_format", ["qcow2", "raw"])
    @pytest.mark.parametrize("source_format", ["qcow2", "raw"])
    def test_a_copy_has_its_mark_before_its_content(
        self, files: Pool, tmp_path: Path, image_format: str, source_format: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create_empty(files, "image", size_bytes=MIB, image_format=source_format)
        (tmp_path / "bytes").write_bytes(os.urandom(MIB))
        qemu_img(tmp_path, "convert", "-n", "-f", "raw", "-O", source_format, "bytes", "image")
        run: t.Any = volume_copy.run_qemu_img
        marked: list[bool] = []

        def look_and_run(*arguments: t.Any, **options: t.Any) -> t.Any:
            marked.append(has_mark(tmp_path / "disk"))
            return run(*arguments, **options)

        monkeypatch.setattr(volume_copy, "run_qemu_img", look_and_run)
        monkeypatch.setattr(volume_copy, "shares_blocks", lambda *_words: False)
        told: list[float] = []
        create_copy(
            files,
            "disk",
            size_bytes=2 * MIB,
            image_format=image_format,
            source=files.handle.storageVolLookupByName("image"),
            source_format=source_format,
            mark=MARK,
            on_percent=told.append,
        )
        assert (marked, told[0]) == ([True], 0.0)
        assert has_mark(tmp_path / "disk")
        assert is_proven(files, note(2 * MIB, image_format))
        qemu_img(tmp_path, "resize", "-f", "raw", "bytes", "2M")
        qemu_img(tmp_path, "compare", "-f", image_format, "-F", "raw", "disk", "bytes")

    @pytest.mark.parametrize(
        ("image_format", "options"), [("raw", []), ("qcow2", []), ("qcow2", ["-o", "compat=0.10"])]
    )
    def test_a_copy_that_shares_blocks_has_its_mark_at_the_end(
        self, files: Pool, tmp_path: Path, image_format: str, options: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every byte is replaced by the image's, and a header of version 2 has no space for a mark."""

        def share(_fd: int, request: int, source: int) -> None:
            assert request == volume_copy._FICLONE
            (tmp_path / "disk").write_bytes(os.pread(source, 64 * MIB, 0))

        create_empty(files, "image", size_bytes=MIB, image_format=image_format)
        qemu_img(tmp_path, "create", "-f", image_format, *options, "image", "1M")
        (tmp_path / "bytes").write_bytes(os.urandom(MIB))
        qemu_img(tmp_path, "convert", "-n", "-f", "raw", "-O", image_format, "bytes", "image")
        monkeypatch.setattr(volume_copy, "shares_blocks", lambda *_words: True)
        monkeypatch.setattr(volume_copy.fcntl, "ioctl", share)
        source = files.handle.storageVolLookupByName("image")
        create_copy(
            files,
            "disk",
            size_bytes=MIB,
            image_format=image_format,
            source=source,
            source_format=image_format,
            mark=MARK,
        )
        assert has_mark(tmp_path / "disk")
        assert is_proven(files, note(image_format=image_format))
        qemu_img(tmp_path, "compare", "-f", image_format, "-F", "raw", "disk", "bytes")

    def test_an_image_that_somebody_copies_over_it_is_theirs(self, files: Pool, tmp_path: Path) -> None:
        """The file is the same, with all that is on it."""
        create_empty(files, "disk", size_bytes=MIB, image_format="qcow2", mark=MARK)
        assert has_mark(tmp_path / "disk")
        qemu_img(tmp_path, "create", "-f", "qcow2", "theirs", "2M")
        with (tmp_path / "theirs").open("rb") as theirs, (tmp_path / "disk").open("r+b") as disk:
            disk.truncate(0)
            shutil.copyfileobj(theirs, disk)
        assert not is_proven(files, note())

    def test_the_mark_leaves_the_image_as_it_is(self, files: Pool, tmp_path: Path) -> None:
        create_empty(files, "disk", size_bytes=MIB, image_format="qcow2", mark=MARK)
        qemu_img(tmp_path, "check", "-f", "qcow2", "disk")
        qemu_img(tmp_path, "resize", "-f", "qcow2", "disk", "2M")
        assert has_mark(tmp_path / "disk")
        qemu_img(tmp_path, "check", "-f", "qcow2", "disk")

    def test_what_cannot_be_marked_is_made_all_the_same(
        self, files: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_words: t.Any) -> None:
            raise OSError(95, "Operation not supported")

        monkeypatch.setattr(os, "setxattr", refuse)
        create_empty(files, "disk", size_bytes=MIB, image_format="raw", mark=MARK)
        with (tmp_path / "disk").open("r+b") as file:
            file.truncate(0)
            file.truncate(MIB)
        assert is_proven(files, note(image_format="raw"))
        (tmp_path / "disk").write_bytes(b"x" * MIB)
        assert not is_proven(files, note(image_format="raw"))


def test_a_command_that_is_shown_does_nothing_else_whatever_a_volume_is_called() -> None:
    """Whoever writes to a share chooses the names of its files, and root copies the command."""
    note = VolumeNote("nfs", "a; reboot #.raw", "disk")
    assert by_hand(note) == "If nobody needs it: virsh vol-delete 'a; reboot #.raw' --pool nfs"
