# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What qemu-img says of images."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base import qemu_img
from ansible_collections.brine.virt.plugins.module_utils._base.commands import Answer
from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.qemu_img import (
    Complaint,
    complaint_of,
    measure_qcow2,
    run_qemu_img,
)

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
MIB = 1024 * 1024


def test_what_is_compressed_or_in_the_base_is_measured_as_it_will_be(tmp_path: Path) -> None:
    base, overlay = tmp_path / "base.qcow2", tmp_path / "overlay.qcow2"
    (tmp_path / "raw").write_bytes(b"a" * MIB + bytes(7 * MIB))
    for words in (
        ["convert", "-c", "-f", "raw", "-O", "qcow2", str(tmp_path / "raw"), str(base)],
        ["create", "-q", "-f", "qcow2", "-b", str(base), "-F", "qcow2", str(overlay)],
    ):
        subprocess.run(["qemu-img", *words], check=True)
    assert base.stat().st_size < MIB // 2
    assert MIB <= measure_qcow2(str(overlay), "qcow2") < 2 * MIB
    assert MIB <= measure_qcow2(str(tmp_path / "raw"), "raw") < 9 * MIB


def test_a_layer_is_checked_without_what_it_is_backed_by(tmp_path: Path) -> None:
    base, overlay = tmp_path / "base.qcow2", tmp_path / "overlay.qcow2"
    for words in ([str(base), "1M"], ["-b", str(base), "-F", "qcow2", str(overlay)]):
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *words], check=True)
    base.unlink()
    assert "base.qcow2" in str(complaint_of(str(overlay), timeout_seconds=60))
    assert complaint_of(str(overlay), timeout_seconds=60, alone=True) is None
    overlay.write_bytes(b"QFI\xfb")
    said = complaint_of(str(overlay), timeout_seconds=60, alone=True)
    assert said is not None and str(overlay) in said.words and "json" not in said.words, said


def test_a_check_that_did_not_come_to_its_end_is_not_taken_for_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        Answer(2, b"", b"ERROR cluster 3 refcount=0 reference=1\n\n1 errors were found on the image.\n"),
        Answer(1, b"", b"qemu-img: Could not open '/x': Cannot allocate memory\n"),
        Answer(-9, b"", b""),
    ]
    monkeypatch.setattr(qemu_img, "run_qemu_img", lambda *_words, **_settings: answers.pop(0))
    assert complaint_of("/x", timeout_seconds=60) == Complaint("ERROR cluster 3 refcount=0 reference=1", True)
    short = complaint_of("/x", timeout_seconds=60)
    assert short is not None and "memory" in short.words and not short.checked
    assert complaint_of("/x", timeout_seconds=60) == Complaint("qemu-img check ended with status -9", False)


def test_how_far_it_is_is_told_by_its_own_word(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    # With a hole: that is not copied, and does not count.
    source.write_bytes(os.urandom(16 * MIB))
    os.truncate(source, 64 * MIB)
    told: list[float] = []
    words = ["-m", "1", "-r", "8M", "-O", "raw", str(source), str(target)]
    answer = run_qemu_img("convert", "raw", *words, timeout_seconds=60, on_percent=told.append)
    assert (answer.status, answer.output.strip()) == (0, b"")
    assert (told[0], told) == (0.0, sorted(told))
    assert any(20 < percent < 90 for percent in told), told


def test_what_it_says_of_a_comparison_is_without_figures(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"a" * 8 * MIB)
    other.write_bytes(b"a" * 7 * MIB + b"b" * MIB)
    told: list[float] = []
    for path, status, words in ((one, 0, "Images are identical."), (other, 1, "Content mismatch at offset 7340032!")):
        how = ["-F", "raw", str(one), str(path)]
        answer = run_qemu_img("compare", "raw", *how, timeout_seconds=60, on_percent=told.append)
        assert (answer.status, answer.complaint) == (status, words)
    assert told[0] == 0.0


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "none").write_bytes(bytes(512))
    with pytest.raises(HostError, match="qemu-img cannot read .*none: "):
        measure_qcow2(str(tmp_path / "none"), "qcow2")
