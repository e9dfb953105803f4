# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest agent's own protocol."""

from __future__ import annotations

import json
import typing as t

from .._base.errors import HostError, UnsupportedError
from .connection import translate_errors


def ask_agent(domain: t.Any, command: t.Mapping[str, t.Any], timeout_seconds: int) -> t.Any:
    """The guest agent's answer to a command of its own protocol (QEMU, qga/qapi-schema.json), parsed.

    libvirt may mark the running machine for it (taint custom-ga-command). Raises VirtError, also for what is no answer.
    """
    try:
        import libvirt_qemu
    except ImportError as exc:
        raise UnsupportedError("Python cannot import libvirt_qemu") from exc
    with translate_errors("the guest agent did not answer"):
        text = libvirt_qemu.qemuAgentCommand(domain, json.dumps(command), timeout_seconds, 0)
    try:
        return json.loads(text)["return"]
    except (KeyError, TypeError, ValueError, RecursionError) as exc:
        raise HostError("the guest agent's answer cannot be read") from exc
