# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cloud-init says of its run, by way of a guest agent."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.cloud_init import read_status


def _stage(*errors: str, finished: float | None = 2.0) -> dict[str, t.Any]:
    return {"errors": list(errors), "start": 1.0, "finished": finished, "recoverable_errors": {}}


class Agent:
    """Answers as a guest agent does that has one file."""

    def __init__(self, contents: t.Any) -> None:
        self.contents = contents if isinstance(contents, bytes) else json.dumps(contents).encode()
        self.open: set[int] = set()

    def __call__(self, command: str, given: t.Mapping[str, t.Any]) -> t.Any:
        if command == "guest-file-open":
            self.open.add(1000)
            return 1000
        if command == "guest-file-close":
            self.open.remove(given["handle"])
            return {}
        assert command == "guest-file-read"
        read = self.contents[: given["count"]]
        return {"count": len(read), "buf-b64": base64.b64encode(read).decode(), "eof": True}


@pytest.mark.parametrize(
    ("run", "answer"),
    [
        ({"stage": None, "init": _stage(), "modules-final": _stage()}, (True, "it has ended without an error")),
        ({"stage": "modules-final", "init": _stage()}, (None, "it is running (modules-final)")),
        ({"stage": None, "init": _stage(finished=None)}, (None, "it has not run yet")),
        (
            {"stage": None, "init": _stage(), "modules-final": _stage("('scripts-user', RuntimeError('1 failed'))")},
            (False, "('scripts-user', RuntimeError('1 failed'))"),
        ),
        ({"stage": None, "init": _stage("a\x1b[2J\nb"), "x": _stage("c", "d", "e")}, (False, "a b; c; d; and 1 more")),
    ],
)
def test_what_the_status_file_says(run: dict[str, t.Any], answer: tuple[bool | None, str]) -> None:
    agent = Agent({"v1": {"datasource": "DataSourceNoCloud", **run}})
    assert read_status(agent) == answer
    assert agent.open == set()


@pytest.mark.parametrize(
    "contents", [b"", b"[]", b"{}", b'{"v1": []}', b'{"v1": {"init": {"errors": 3}}}', b"[" * 65536, b"\xff" * 100_000]
)
def test_whatever_a_guest_has_there_is_one_sentence(contents: bytes) -> None:
    agent = Agent(contents)
    with pytest.raises(HostError, match="has not the contents that cloud-init gives it"):
        read_status(agent)
    assert agent.open == set()


def test_an_agent_that_answers_something_else() -> None:
    with pytest.raises(HostError):
        read_status(lambda _command, _given: {"buf-b64": 7})


def test_a_handle_that_is_none_goes_nowhere() -> None:
    asked: list[str] = []

    def ask(command: str, _given: t.Mapping[str, t.Any]) -> t.Any:
        asked.append(command)
        return [[[]]]

    with pytest.raises(HostError, match="the guest agent's answer cannot be read"):
        read_status(ask)
    assert asked == ["guest-file-open"]
