# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mark in a qcow2 header: qemu-img takes the image for sound, finds what it is backed by, and keeps the mark."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._model.image.marks import (
    HEAD_BYTES,
    add_qcow2_mark,
    read_qcow2_mark,
)

needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def mark(path: Path, word: str) -> None:
    new = add_qcow2_mark(head(path), word)
    assert new is not None
    with path.open("r+b") as file:
        file.write(new)


@needs_qemu_img
@pytest.mark.parametrize("options", ["compat=1.1", "compat=1.1,cluster_size=512", "compat=1.1,extended_l2=on"])
@pytest.mark.parametrize("backed", [False, True])
def test_a_marked_image_is_the_same_image(tmp_path: Path, options: str, backed: bool) -> None:
    base, image = tmp_path / "base.qcow2", tmp_path / "image.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", str(base), "8M")
    backing = ["-b", str(base), "-F", "qcow2"] if backed else []
    run("qemu-img", "create", "-q", "-f", "qcow2", "-o", options, *backing, str(image), "8M")
    before = json.loads(run("qemu-img", "info", "--output", "json", str(image)))
    assert read_qcow2_mark(head(image)) is None
    mark(image, "a" * 32)
    run("qemu-img", "check", "-q", str(image))
    after = json.loads(run("qemu-img", "info", "--output", "json", str(image)))
    assert {**after, "actual-size": 0} == {**before, "actual-size": 0}
    assert read_qcow2_mark(head(image)) == "a" * 32


@needs_qemu_img
def test_qemu_keeps_the_mark_when_it_writes(tmp_path: Path) -> None:
    base, image = tmp_path / "base.qcow2", tmp_path / "image.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", str(base), "8M")
    run("qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", "qcow2", str(image), "8M")
    mark(image, "mine")
    run("qemu-io", "-f", "qcow2", "-c", "write -q -P 7 0 4M", str(image))
    # Both of these write the header again.
    run("qemu-img", "rebase", "-q", "-u", "-F", "qcow2", "-b", "base.qcow2", str(image))
    run("qemu-img", "amend", "-q", "-f", "qcow2", "-o", "lazy_refcounts=on", str(image))
    run("qemu-img", "check", "-q", str(image))
    assert read_qcow2_mark(head(image)) == "mine"


@needs_qemu_img
def test_another_mark_takes_the_place_of_the_first(tmp_path: Path) -> None:
    image = tmp_path / "image.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", str(image), "8M")
    mark(image, "first")
    mark(image, "second")
    assert read_qcow2_mark(head(image)) == "second"
    run("qemu-img", "check", "-q", str(image))


@needs_qemu_img
def test_version_2_has_no_place_for_it(tmp_path: Path) -> None:
    image = tmp_path / "image.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", "-o", "compat=0.10", str(image), "8M")
    assert add_qcow2_mark(head(image), "mine") is None


@pytest.mark.parametrize("content", [b"", b"QFI\xfb", b"\0" * 4096, b"QFI\xfb\0\0\0\x03" + b"\xff" * 4096])
def test_what_is_no_image_has_no_mark(content: bytes) -> None:
    assert read_qcow2_mark(content) is None
    assert add_qcow2_mark(content, "mine") is None
