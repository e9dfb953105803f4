# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module says of its progress is shown while it runs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from ansible.playbook.play_context import PlayContext
from ansible.plugins.connection import ConnectionBase
from ansible.plugins.loader import connection_loader

from ansible_collections.brine.virt.plugins.plugin_utils import _progress


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(_progress, "show", lines.append)
    monkeypatch.setattr(_progress, "_LOOK_SECONDS", 0.05)
    return lines


@pytest.fixture
def connection() -> ConnectionBase:
    local = connection_loader.get("local", PlayContext())
    local._connect()
    return local


def _wait_for(lines: list[str], count: int) -> None:
    end = time.monotonic() + 10
    while len(lines) < count and time.monotonic() < end:
        time.sleep(0.02)


def test_each_whole_line_is_shown_once(tmp_path: Path, connection: ConnectionBase, shown: list[str]) -> None:
    path = tmp_path / "it's here"
    with _progress.follow(connection, str(path)):
        path.write_text("one\ntwo\nthr", encoding="utf-8")
        _wait_for(shown, 2)
        assert shown == ["one", "two"]
        with path.open("a", encoding="utf-8") as file:
            file.write("ee\x1b[31m\n")
        _wait_for(shown, 3)
    assert shown == ["one", "two", "three[31m"]


def test_a_file_that_never_comes_is_no_trouble(tmp_path: Path, connection: ConnectionBase, shown: list[str]) -> None:
    with _progress.follow(connection, str(tmp_path / "none")):
        time.sleep(0.3)
    assert shown == []


def test_lines_of_many_hosts_begin_with_the_host(tmp_path: Path, connection: ConnectionBase, shown: list[str]) -> None:
    path = tmp_path / "lines"
    path.write_text("one\n", encoding="utf-8")
    with _progress.follow(connection, str(path), "hv1"):
        _wait_for(shown, 1)
    assert shown == ["hv1: one"]


@pytest.mark.usefixtures("shown")
def test_the_size_of_a_file_that_grows_is_told(tmp_path: Path, connection: ConnectionBase) -> None:
    path = tmp_path / "it's coming"
    sizes: list[int] = []
    with _progress.follow_size(connection, str(path), sizes.append):
        time.sleep(0.2)
        assert sizes == []
        for size in (10, 20):
            path.write_bytes(b"x" * size)
            end = time.monotonic() + 10
            while size not in sizes and time.monotonic() < end:
                time.sleep(0.02)
    # A look may fall between the file's being made and its being filled.
    assert [size for size in dict.fromkeys(sizes) if size] == [10, 20]


def test_a_look_that_always_fails_is_given_up() -> None:
    calls: list[int] = []

    def look() -> None:
        calls.append(1)
        raise OSError("no")

    with _progress.every(0.01, look):
        time.sleep(0.5)
    assert len(calls) == 3
