# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of the guest agent's own protocol."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.agent import ask_agent


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
