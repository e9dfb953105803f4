# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images on their way in: from files and from a real web server, plain and compressed, good and bad."""

from __future__ import annotations

import bz2
import functools
import gzip
import hashlib
import lzma
import os
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError, InputError
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import Deadline
from ansible_collections.brine.virt.plugins.module_utils._host.images.ingest import (
    ImagePreview,
    ImageSource,
    IngestedImage,
    checksums,
    ingest,
    preview,
)
from ansible_collections.brine.virt.plugins.module_utils._host.images.stream import ProgressCallback, no_progress
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import Checksum

pytestmark = pytest.mark.medium

IMAGE = b"\x01" * 512 + bytes(2 * 1024 * 1024) + os.urandom(512)
MAKERS: dict[str, t.Callable[[bytes], bytes]] = {
    "none": lambda content: content,
    "xz": lambda content: lzma.compress(content, preset=0),
    "gzip": lambda content: gzip.compress(content, mtime=0),
    "bzip2": bz2.compress,
    "zstd": lambda content: subprocess.run(["zstd"], input=content, stdout=subprocess.PIPE, check=True).stdout,
}
KINDS = [
    pytest.param(kind, marks=pytest.mark.skipif(kind == "zstd" and not shutil.which("zstd"), reason="no zstd"))
    for kind in MAKERS
]


def checksum(content: bytes, algorithm: str = "sha256") -> Checksum:
    return Checksum(algorithm, hashlib.new(algorithm, content).hexdigest())


def take(source: ImageSource, target: Path, on_progress: ProgressCallback = no_progress) -> IngestedImage:
    with open(target, "wb") as file:
        return ingest(source, file.fileno(), str(target.parent), Deadline(600), on_progress)


@pytest.fixture(params=["path", "url"])
def publish(request: t.Any, tmp_path: Path, web: t.Any) -> t.Callable[..., ImageSource]:
    """Puts bytes where they can be had from."""

    def work(content: bytes, wanted: Checksum | None = None) -> ImageSource:
        if request.param == "url":
            return ImageSource(url=web.put("image", content), checksum=wanted)
        (tmp_path / "image").write_bytes(content)
        return ImageSource(path=str(tmp_path / "image"), checksum=wanted)

    return work


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_in_is_the_image_and_its_checksum_is_the_files(
    publish: t.Callable[..., ImageSource], tmp_path: Path, kind: str, algorithm: str
) -> None:
    packed = MAKERS[kind](IMAGE)
    taken = take(publish(packed, checksum(packed, algorithm)), tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == IMAGE
    assert (tmp_path / "target").stat().st_blocks * 512 < len(IMAGE) / 2
    assert taken.how == (None if kind == "none" else kind)
    assert taken.header == IMAGE[:512]
    assert (taken.content.sha256, taken.content.size_bytes) == (checksum(IMAGE).digest, len(IMAGE))
    assert checksum(packed, algorithm) in checksums(taken.origin)
    if kind != "none":
        assert set(taken.provenance().origins) == {checksum(packed), checksum(packed, algorithm)}
    assert checksum(IMAGE) in taken.provenance().contents


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_told_how_much_of_the_file_has_come(
    publish: t.Callable[..., ImageSource], tmp_path: Path, kind: str
) -> None:
    packed = MAKERS[kind](os.urandom(3 * 1024 * 1024))
    source = publish(packed)
    told: list[tuple[str, int, int | None]] = []
    taken = take(source, tmp_path / "target", lambda *words: told.append(words))
    assert taken.how == (None if kind == "none" else kind)
    # The bytes of the file, as it is: what is in it is of unknown length.
    assert {phase for phase, _done, _all in told} == {
        "download" if source.url else "copy" if kind == "none" else "decompression"
    }
    figures = [done for _phase, done, _all in told]
    assert figures == sorted(set(figures))
    assert (len(figures) > 2, figures[-1]) == (True, len(packed))
    assert {total for _phase, _done, total in told} == {len(packed)}


@pytest.mark.parametrize("kind", KINDS)
def test_other_bytes_than_were_meant_are_refused(
    publish: t.Callable[..., ImageSource], tmp_path: Path, kind: str
) -> None:
    packed = MAKERS[kind](IMAGE)
    with pytest.raises(ConflictError, match=f"checksum: .*image has the sha256 {checksum(packed).digest}, not "):
        take(publish(packed, checksum(IMAGE + b"x")), tmp_path / "target")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.values != ("none",)])
def test_damage_that_is_in_the_original_is_told_from_damage_on_the_way(
    publish: t.Callable[..., ImageSource], tmp_path: Path, kind: str
) -> None:
    packed = MAKERS[kind](IMAGE)
    short = packed[:-9]
    with pytest.raises(ConflictError, match="has the sha256"):
        take(publish(short, checksum(packed)), tmp_path / "target")
    with pytest.raises(InputError, match=f"image cannot be decompressed as {kind}: "):
        take(publish(short, checksum(short)), tmp_path / "target")


def test_a_download_that_breaks_off_is_no_damaged_archive(tmp_path: Path, web: t.Any) -> None:
    packed = lzma.compress(os.urandom(300_000))
    source = ImageSource(url=web.put("image.xz", packed), checksum=checksum(packed))
    web.cut = 200_000
    with pytest.raises(HostError, match=f"broke off after 200000 of {len(packed)} bytes"):
        take(source, tmp_path / "target")


@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_writes_nothing_and_knows_the_same(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "image"
    path.write_bytes(MAKERS[kind](IMAGE))
    assert preview(ImageSource(path=str(path)), Deadline(600)) == ImagePreview(
        checksum(IMAGE).digest, "raw", len(IMAGE), len(IMAGE)
    )
    assert os.listdir(tmp_path) == ["image"]
    path.write_bytes(MAKERS[kind](b"KDMV" + bytes(508)))
    with pytest.raises(InputError, match="src: .*image is a vmdk image"):
        preview(ImageSource(path=str(path)), Deadline(600), "src")


@functools.cache
def bombs(kind: str) -> tuple[bytes, bytes]:
    """More than the small disk holds, and more than that of zeros, packed."""
    return MAKERS[kind](b"\x01" * (80 * 1024 * 1024)), MAKERS[kind](bytes(2**27))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.values != ("none",)])
def test_a_bomb_does_not_fill_the_disk(publish: t.Callable[..., ImageSource], small_disk: Path, kind: str) -> None:
    bomb, zeros = bombs(kind)
    assert len(bomb) < 1024 * 1024
    with pytest.raises(
        HostError, match=r"image needs more free space than there is in .*small: only .*M are still free"
    ):
        take(publish(bomb), small_disk / "target")
    found = os.statvfs(small_disk)
    assert found.f_bavail * found.f_frsize > 1024 * 1024
    # As many zeros need no space.
    assert take(publish(zeros), small_disk / "target").content.size_bytes == 2**27
