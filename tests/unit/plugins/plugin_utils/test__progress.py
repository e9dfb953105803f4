# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module says of its progress is shown while it runs."""

from __future__ import annotations

import os
import time
import typing as t
from pathlib import Path

import pytest
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.plugins.connection import ConnectionBase
from ansible.plugins.loader import become_loader, connection_loader
from ansible.utils.display import Display

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
    end = time.monotonic() + 120
    while len(lines) < count and time.monotonic() < end:
        time.sleep(0.02)


def test_each_whole_line_is_shown_once(tmp_path: Path, connection: ConnectionBase, shown: list[str]) -> None:
    path = tmp_path / "it's here"
    with _progress.follow(connection, str(path)):
        path.write_text("one\ntwo\nthr", encoding="utf-8")
        _wait_for(shown, 2)
        assert shown == ["one", "two"]
        with path.open("a", encoding="utf-8") as file:
            file.write("ee\n")
        _wait_for(shown, 3)
    assert shown == ["one", "two", "three"]


def test_what_a_shell_says_of_its_own_is_not_shown(
    tmp_path: Path, connection: ConnectionBase, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = type(connection).exec_command

    def greeting(own: t.Any, command: str, **words: t.Any) -> t.Any:
        return plain(own, f"echo Welcome to hv1; echo 7; {command}", **words)

    monkeypatch.setattr(type(connection), "exec_command", greeting)
    path, sizes = tmp_path / "lines", list[int]()
    with _progress.follow(connection, str(path)), _progress.follow_size(connection, str(path), sizes.append):
        for lines in ("one\n", "one\ntwo\n"):
            path.write_text(lines, encoding="utf-8")
            _wait_for(shown, len(lines) // 4)
            _wait_for(t.cast("list[str]", sizes), 1)
    assert shown == ["one", "two"]
    assert set(sizes) <= {0, 4, 8}


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_another_user_has_put_in_the_files_place_is_not_read(
    tmp_path: Path, connection: ConnectionBase, shown: list[str], kind: str
) -> None:
    (tmp_path / "secret").write_text("secret\n", encoding="utf-8")
    if kind == "link":
        (tmp_path / "lines").symlink_to("secret")
    else:
        os.mkfifo(tmp_path / "lines")
    began = time.monotonic()
    with _progress.follow(connection, str(tmp_path / "lines")):
        time.sleep(0.5)
    assert shown == []
    # Nobody waits for a look that does not end.
    assert time.monotonic() - began < _progress._WAIT_SECONDS


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
            end = time.monotonic() + 120
            while size not in sizes and time.monotonic() < end:
                time.sleep(0.02)
    # It may be read between its being created and its being filled.
    assert [size for size in dict.fromkeys(sizes) if size] == [10, 20]


def test_a_look_that_always_fails_is_given_up() -> None:
    calls: list[int] = []

    def look() -> None:
        calls.append(1)
        raise OSError("no")

    with _progress.every(0.01, look):
        time.sleep(0.5)
    assert len(calls) == 3


def test_the_look_has_a_connection_of_its_own(
    tmp_path: Path, connection: ConnectionBase, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: t.Any, **_more: t.Any) -> t.NoReturn:
        raise AssertionError("the module's own connection is used")

    monkeypatch.setattr(connection, "exec_command", refuse)
    (tmp_path / "lines").write_text("one\n", encoding="utf-8")
    with _progress.follow(connection, str(tmp_path / "lines")):
        _wait_for(shown, 1)
    assert shown == ["one"]


def test_another_connection_has_the_same_options_and_none_of_the_state() -> None:
    context = PlayContext()
    context.remote_addr = "hv1"
    theirs = connection_loader.get("ssh", context)
    given = {
        "host": "hv1",
        "password": "p",
        "remote_user": "me",
        "port": 2222,
        "ssh_common_args": "-o A=b",
        "timeout": 7,
    }
    theirs.set_options(direct={**given, "reconnection_retries": 5})
    theirs.set_become_plugin(become_loader.get("sudo"))
    own = _progress.own_connection(theirs)
    assert own is not None
    assert own is not theirs
    assert own.get_options() == {**theirs.get_options(), "reconnection_retries": 0}
    assert {name: own.get_option(name) for name in given} == given
    assert own.become is None
    assert own._play_context is not theirs._play_context
    shared = [name for name, value in vars(own).items() if value is vars(theirs).get(name) and isinstance(value, list)]
    assert shared == []


def test_over_a_connection_that_shares_its_session_nothing_is_shown(
    tmp_path: Path, connection: ConnectionBase, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet: list[str] = []
    monkeypatch.setattr(_progress, "_write_quietly", quiet.append)
    connection.ansible_name = "ansible.netcommon.libssh"
    (tmp_path / "lines").write_text("one\n", encoding="utf-8")
    with _progress.follow(connection, str(tmp_path / "lines")):
        time.sleep(0.3)
    assert (shown, quiet) == ([], ["no progress is shown over the connection ansible.netcommon.libssh"])


def test_a_password_is_not_tried_twice(monkeypatch: pytest.MonkeyPatch, shown: list[str]) -> None:
    calls: list[int] = []
    theirs = connection_loader.get("ssh", PlayContext())
    theirs.set_options(direct={"host": "hv1", "password": "wrong"})

    def fail(*_args: t.Any, **_more: t.Any) -> t.NoReturn:
        calls.append(1)
        raise OSError("Permission denied")

    monkeypatch.setattr(type(theirs), "exec_command", fail)
    with _progress.follow(theirs, "/nowhere"):
        time.sleep(0.5)
    assert (len(calls), shown) == (1, [])


def test_lines_go_where_they_are_in_no_programs_way(capsys: pytest.CaptureFixture[str]) -> None:
    _progress.show("a line")
    said = capsys.readouterr()
    assert said.out == ""
    assert "a line\n" in said.err


def test_what_a_host_says_does_not_draw_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _progress.show("web1: moved\x1b]0;mine\x07\x9b2J")
    assert "  web1: moved ]0;mine  2J\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keywords", "watched"),
    [({}, True), ({"check_mode": True}, False), ({"async_val": 5}, False), ({"no_log": True}, False)],
)
def test_of_what_nobody_waits_for_or_is_to_see_nothing_is_shown(keywords: dict[str, t.Any], *, watched: bool) -> None:
    task = Task()
    for name, value in keywords.items():
        setattr(task, name, value)
    assert _progress.is_watched(task) is watched


def test_the_host_is_the_one_that_the_task_works_on() -> None:
    task, variables = Task(), {"inventory_hostname": "web1"}
    assert [_progress.host_of(task, given) for given in (variables, {}, None)] == ["web1", "", ""]
    task.delegate_to = "hv1"
    assert _progress.host_of(task, variables) == "hv1"


def test_a_line_that_cannot_be_shown_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: t.Any, **_more: t.Any) -> t.NoReturn:
        raise BrokenPipeError("nobody reads")

    monkeypatch.setattr(Display, "display", fail)
    _progress.show("a line")


@pytest.mark.usefixtures("shown")
def test_a_connection_that_cannot_be_made_fails_nothing(
    connection: ConnectionBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_loader, "get", lambda *_args, **_more: None)
    with _progress.follow(connection, "/nowhere"):
        pass
