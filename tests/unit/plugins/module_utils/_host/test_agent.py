# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long libvirt waits for a guest agent, and answers of the agent's own protocol."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.agent import ask_agent
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    _AGENT_REST_SECONDS,
    agent_limit,
    open_connection,
)


class Machine:
    """Notes the limits that are set."""

    def __init__(self) -> None:
        self.limits: list[int] = []

    def agentSetResponseTimeout(self, limit: int) -> None:  # noqa: N802 - libvirt's name
        self.limits.append(limit)


@pytest.mark.parametrize(("seconds", "limit"), [(2.5, 3), (0.01, 1), (60, 60)])
def test_the_limit_is_a_long_one_afterwards(seconds: float, limit: int) -> None:
    machine = Machine()
    with pytest.raises(ValueError, match="inside"), agent_limit(machine, seconds):
        assert machine.limits == [limit]
        raise ValueError("inside")
    assert machine.limits == [limit, _AGENT_REST_SECONDS]


def test_a_driver_without_agents() -> None:
    with open_connection("test:///default") as connection, agent_limit(connection.lookupByName("test"), 5):
        pass


def test_an_answer_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    import libvirt_qemu

    def answer(text: str) -> None:
        monkeypatch.setattr(libvirt_qemu, "qemuAgentCommand", lambda _domain, _command, _seconds, _flags: text)

    answer('{"return": {"pid": 7}}')
    assert ask_agent(None, {"execute": "guest-exec"}, 5) == {"pid": 7}
    for nonsense in ("", "{}", "[]", "7", "{" * 9, "[" * 100_000):
        answer(nonsense)
        with pytest.raises(HostError, match="the guest agent's answer cannot be read"):
            ask_agent(None, {"execute": "guest-exec"}, 5)
