# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text for a pipe whose reader may go away."""

from __future__ import annotations

import multiprocessing
import os
import threading
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.plugin_utils._reports import printing
from ansible_collections.brine.virt.plugins.plugin_utils._reports.printing import Pipe, pieces, print_text

PAGE = 4096


@pytest.mark.parametrize("text", ["", "one", "a\n\nb\n", "\n" * 5000, "x" * 9000 + "\ny", "line of text\n" * 999])
def test_the_pieces_are_whole_lines_and_the_whole_text(text: str) -> None:
    found = list(pieces(text))
    assert "\n".join(found) == text
    assert all(len(piece) <= printing._PIECE or "\n" not in piece for piece in found)


def test_a_pipe_has_a_reader_until_that_one_has_gone() -> None:
    reader, writer = os.pipe()
    pipe = Pipe.at(f"/proc/self/fd/{writer}")
    assert pipe is not None
    with pipe:
        assert pipe.has_reader()
        os.set_blocking(writer, False)
        filled = 0
        while True:
            try:
                filled += os.write(writer, bytes(PAGE))
            except BlockingIOError:
                break
        # It is waited for until there is room.
        threading.Timer(0.3, os.read, (reader, filled)).start()
        assert pipe.has_reader()
        os.close(reader)
        assert not pipe.has_reader()
    # Who comes then cannot open it.
    late = Pipe.at(f"/proc/self/fd/{writer}")
    assert late is not None and not late.has_reader()
    os.close(writer)


def test_what_is_no_pipe_is_left_to_ansible(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert Pipe.at(str(tmp_path / "file")) is None
    assert Pipe.at(str(tmp_path / "none")) is None


class Leaving:
    """The pipe of a reader who goes away after some pieces."""

    def __init__(self, printed: list[str], most: int) -> None:
        self.printed = printed
        self.most = most

    def __enter__(self) -> Leaving:
        return self

    def __exit__(self, *_exc: t.Any) -> None:
        pass

    def has_reader(self) -> bool:
        return len(self.printed) < self.most


@pytest.mark.parametrize("most", [0, 3])
def test_nothing_more_is_printed_once_nobody_reads(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    printed: list[str] = []
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: types.SimpleNamespace(pid=1))
    monkeypatch.setattr(Pipe, "at", lambda _path: Leaving(printed, most))
    monkeypatch.setattr(printing.Display, "display", lambda _self, text: printed.append(text))
    text = "some words of a table\n" * 1000
    print_text(text)
    assert printed == list(pieces(text))[:most]
