# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier versions wrote into and beside volumes is read by this one: recorded samples."""

from __future__ import annotations

import dataclasses
import os
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.images.listing import noted_time
from ansible_collections.brine.virt.plugins.module_utils._host.images.provenance import load_provenance
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.proof import is_proven, require_proven
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import Checksum
from ansible_collections.brine.virt.plugins.module_utils._model.image.marks import (
    Upload,
    add_qcow2_mark,
    read_mark,
    read_qcow2_mark,
    read_upload,
)
from ansible_collections.brine.virt.plugins.module_utils._model.image.name import ImageName, parse_image_volume
from ansible_collections.brine.virt.plugins.module_utils._model.image.provenance import (
    Provenance,
    provenance_to_text,
    read_provenance,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    CreationNote,
    VolumeNote,
    read_notes,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import VolumeIdentity, VolumeRef
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.volume_identity import is_the_one

MARK = "8d" * 16
FIRST_UPLOAD = Upload("6f" * 16, "hv1.example.org", "0e1d2c3b-0000-4000-8000-000000000000", 4711, 123456789)
UPLOADS = {"1-first": FIRST_UPLOAD, "2-machine": dataclasses.replace(FIRST_UPLOAD, machine="7e" * 16)}
SHA256 = "0123456789abcdef" * 4
PROVENANCE = Provenance(
    (Checksum("sha256", SHA256), Checksum("sha512", SHA256 * 2)),
    (Checksum("sha512", "fe" * 64), Checksum("sha256", "dc" * 32)),
)
POOL = "<pool type='dir'><name>files</name><target><path>{}</path></target></pool>"


def dump(path: Path) -> bytes:
    return bytes.fromhex(path.read_text(encoding="ascii"))


@pytest.fixture
def conn(node_uri: str, tmp_path: Path) -> Iterator[t.Any]:
    with open_connection(node_uri) as connection:
        connection.storagePoolCreateXML(POOL.format(tmp_path), 0)
        yield connection


@pytest.fixture
def files(conn: t.Any) -> Pool:
    """A pool of files of this machine."""
    return dataclasses.replace(Pools(conn).get("files"), local=True)


@pytest.mark.parametrize("sample", UPLOADS)
def test_mark_of_a_transfer(fixtures: Path, sample: str) -> None:
    assert read_upload(dump(fixtures / f"formats/upload/{sample}.hex")) == UPLOADS[sample]


def test_every_mark_of_a_transfer_is_read_and_the_newest_is_written(fixtures: Path) -> None:
    folder = fixtures / "formats/upload"
    assert {path.stem for path in folder.iterdir()} == set(UPLOADS)
    assert UPLOADS["2-machine"].to_bytes() == dump(folder / "2-machine.hex")


def test_what_a_newer_version_says_of_a_transfer_is_passed_over(fixtures: Path) -> None:
    newer = dump(fixtures / "formats/upload/2-machine.hex").replace(b"}\n" + bytes(12), b', "n": [1]}\n' + bytes(2))
    assert b'"n": [1]' in newer
    assert read_upload(newer) == UPLOADS["2-machine"]


def test_mark_in_a_qcow2_header(fixtures: Path) -> None:
    head = dump(fixtures / "formats/volume/1-qcow2-header.hex")
    assert read_qcow2_mark(head) == MARK
    assert add_qcow2_mark(head, MARK) == head


def test_mark_of_a_volume_that_is_not_whole(fixtures: Path) -> None:
    mark = (fixtures / "formats/volume/2-unfinished.txt").read_text(encoding="ascii").rstrip("\n")
    assert read_mark(mark) == UPLOADS["2-machine"]
    assert UPLOADS["2-machine"].to_mark() == mark
    assert read_mark(mark.replace("}", ', "n": [1]}')) == UPLOADS["2-machine"]
    assert read_mark(MARK) is None


def test_a_qcow2_volume_is_proven_by_its_header(fixtures: Path, files: Pool, tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(dump(fixtures / "formats/volume/1-qcow2-header.hex"))
    assert is_proven(files, VolumeNote("files", "disk", "disk", format="qcow2", making=CreationNote(MARK)))
    assert not is_proven(files, VolumeNote("files", "disk", "disk", format="qcow2", making=CreationNote("9" * 32)))


def test_a_raw_volume_is_proven_by_its_attribute(files: Pool, tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(b"content")
    note = VolumeNote("files", "disk", "disk", format="raw", making=CreationNote(MARK))
    assert not is_proven(files, note)
    os.setxattr(tmp_path / "disk", "user.brine.build", MARK.encode())
    assert is_proven(files, note)


def test_a_volume_that_a_move_leaves_is_known_by_its_attribute(conn: t.Any, files: Pool, tmp_path: Path) -> None:
    files.handle.createXML("<volume><name>disk</name><capacity>4096</capacity></volume>", 0)
    (tmp_path / "disk").write_bytes(b"content")
    ref = VolumeRef("files", "disk", VolumeIdentity(mark=MARK))
    assert is_the_one(files, ref, conn) is False
    os.setxattr(tmp_path / "disk", "user.brine.move", MARK.encode())
    assert is_the_one(files, ref, conn) is True


@pytest.mark.parametrize("sample", ["1-first-building", "5-format-building"])
def test_an_unfinished_machine_of_a_version_without_marks_loses_no_volume(
    fixtures: Path, files: Pool, tmp_path: Path, sample: str
) -> None:
    """Nothing tells its volumes from others of their names: the message says what to do."""
    notes = read_notes(parse_xml((fixtures / f"formats/machine/{sample}.xml").read_text(encoding="utf-8")))
    assert notes is not None and len(notes.volumes) == 3
    for volume in notes.volumes:
        (tmp_path / volume.name).write_bytes(b"")
        with pytest.raises(ConflictError) as caught:
            require_proven(files, volume)
        assert caught.value.what.startswith(
            f"nothing proves that volume {volume.name} of pool default was created for it"
        )
        assert f"virsh vol-delete {volume.name} --pool default; otherwise rename it first" in str(caught.value)


def test_provenance_of_an_image(fixtures: Path, tmp_path: Path) -> None:
    text = (fixtures / "formats/image/1-provenance.txt").read_text(encoding="ascii")
    assert read_provenance(text, SHA256[:16]) == PROVENANCE
    assert provenance_to_text(PROVENANCE) == text
    image = tmp_path / "image"
    image.write_bytes(b"")
    assert load_provenance(str(image), SHA256[:16]) == Provenance()
    os.setxattr(image, "user.brine.provenance", text.encode())
    assert load_provenance(str(image), SHA256[:16]) == PROVENANCE


def test_provenance_of_an_image_with_the_times_of_its_names(fixtures: Path, tmp_path: Path) -> None:
    text = (fixtures / "formats/image/1-stored.txt").read_text(encoding="ascii")
    names = (("debian-12", 1_764_000_000_000_000_000), ("prod", 1_764_271_803_123_456_789))
    provenance = dataclasses.replace(PROVENANCE, stored=names)
    assert read_provenance(text, SHA256[:16]) == provenance
    assert provenance_to_text(provenance) == text
    image = tmp_path / "image"
    image.write_bytes(b"")
    os.setxattr(image, "user.brine.provenance", text.encode())
    assert noted_time(str(image), ImageName("prod", SHA256[:16], "qcow2")) == 1_764_271_803_123_456_789
    assert noted_time(str(image), ImageName("debian", SHA256[:16], "qcow2")) is None
    assert noted_time(str(image), ImageName("prod", "f" * 16, "qcow2")) is None


def test_what_a_newer_version_says_of_an_image_is_passed_over(fixtures: Path) -> None:
    text = (fixtures / "formats/image/1-provenance.txt").read_text(encoding="ascii")
    newer = f"signed-by somebody\n{text}\ncontent sha3-256:{'0' * 64}"
    assert read_provenance(newer, SHA256[:16]) == PROVENANCE


@pytest.mark.parametrize(
    ("volume", "parts"),
    [
        ("debian-12-0123456789abcdef.qcow2", ImageName("debian-12", "0123456789abcdef", "qcow2")),
        ("cirros-fedcba9876543210.raw", ImageName("cirros", "fedcba9876543210", "raw")),
        ("debian-12-0123456789abcdef.qcow2.part", None),
        ("debian-12-0123456789ABCDEF.qcow2", None),
        ("debian-12-0123456789abcdef0123.qcow2", None),
    ],
)
def test_name_of_a_stored_image(volume: str, parts: ImageName | None) -> None:
    found = parse_image_volume(volume)
    assert found == parts
    assert found is None or found.volume == volume
