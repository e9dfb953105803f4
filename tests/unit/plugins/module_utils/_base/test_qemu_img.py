# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What qemu-img says of images."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.qemu_img import measure_qcow2

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


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "none").write_bytes(bytes(512))
    with pytest.raises(HostError, match="qemu-img cannot read .*none: "):
        measure_qcow2(str(tmp_path / "none"), "qcow2")
