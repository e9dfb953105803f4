# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The internal snapshots in qcow2 files, of real ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.images.inner_snapshots import snapshots_in


@pytest.mark.parametrize("in_use", [True, False])
def test_they_are_found_by_name_also_two_of_one(tmp_path: Path, in_use: bool) -> None:
    path = str(tmp_path / "disk.qcow2")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "1M"], check=True)
    assert snapshots_in(path, in_use=in_use) == []
    for name in ("a", "b", "a"):
        subprocess.run(["qemu-img", "snapshot", "-c", name, path], check=True)
    assert snapshots_in(path, in_use=in_use) == ["a", "b", "a"]


def test_what_is_no_qcow2_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(bytes(1024))
    with pytest.raises(HostError, match="qemu-img cannot read"):
        snapshots_in(str(tmp_path / "raw"))
