# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock on a file: one holder, a limit to the waiting, and nothing that somebody else could have put in its place."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.file_lock import LockTimeout, locked_file


def test_the_second_one_waits_no_longer_than_its_limit(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with locked_file(path, 1):
        began = time.monotonic()
        with pytest.raises(LockTimeout, match=r"more than 0\.3 s"), locked_file(path, 0.3):
            pass
        assert 0.3 <= time.monotonic() - began < 5
    with locked_file(path, 0):
        pass


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), locked_file(str(tmp_path / "lock"), 0):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_nobody_else_may_open_it(tmp_path: Path) -> None:
    with locked_file(str(tmp_path / "lock"), 0):
        assert os.stat(tmp_path / "lock").st_mode & 0o777 == 0o600
