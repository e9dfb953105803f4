# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file in which a module says how far it is."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.progress import progress_file


def test_lines_are_there_meanwhile_and_the_file_is_gone_after(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    old = os.umask(0o077)
    try:
        with progress_file(str(path)) as file:
            assert file.is_read
            file.write_line("web1: one")
            file.write_line("web1:\ntwo")
            assert path.read_text(encoding="utf-8") == "web1: one\nweb1: two\n"
            assert path.stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(old)
    assert not path.exists()


def test_without_a_path_nothing_happens() -> None:
    with progress_file(None) as file:
        assert not file.is_read
        file.write_line("nobody asks")


def test_a_file_or_link_that_is_there_is_left_alone_and_the_work_goes_on(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    for name in ("mine", "link", "no folder/progress"):
        with progress_file(str(tmp_path / name)) as file:
            assert not file.is_read
            file.write_line("nobody hears")
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "link").is_symlink()
    assert not (tmp_path / "new").exists()


def test_a_full_disk_and_a_strange_name_stop_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with progress_file(str(tmp_path / "progress")) as file:
        file.write_line("web\udcff1: one")
        assert (tmp_path / "progress").read_text(encoding="utf-8") == "web?1: one\n"

    def full(*_args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    with progress_file(str(tmp_path / "progress")) as file:
        file.write_line("nobody hears")
