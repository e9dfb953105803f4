# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bitmaps in qcow2 files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.images.bitmaps import Bitmap, bitmaps_in, remove_bitmap


def test_those_of_a_file_and_one_less(tmp_path: Path) -> None:
    path = str(tmp_path / "disk.qcow2")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "1M"], check=True)
    assert bitmaps_in(path) == []
    for name in ("two", "one"):
        subprocess.run(["qemu-img", "bitmap", "-f", "qcow2", "--add", path, name], check=True)
    assert bitmaps_in(path) == [Bitmap("one", 65536, ("auto",)), Bitmap("two", 65536, ("auto",))]
    remove_bitmap(path, "one")
    assert [one.name for one in bitmaps_in(path, in_use=True)] == ["two"]
    with pytest.raises(HostError, match=f"qemu-img cannot delete bitmap one from {path}: .*one"):
        remove_bitmap(path, "one")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="qemu-img cannot read"):
        bitmaps_in(str(tmp_path / "gone.qcow2"))
