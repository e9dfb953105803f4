# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest agent: how long libvirt waits for it, and its own protocol."""

from __future__ import annotations

import contextlib
import json
import math
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    libvirt,
    suppress_codes,
    translate_errors,
)


@contextlib.contextmanager
def agent_limit(domain: t.Any, seconds: float) -> t.Iterator[None]:
    """In the block, libvirt waits no longer for the agent of a machine, domain, than so many seconds.

    An agent that takes a command and never answers would block libvirt's call, and all that comes after it. Raises what
    libvirt raises.
    """
    with suppress_codes(libvirt.VIR_ERR_NO_SUPPORT):
        domain.agentSetResponseTimeout(max(1, math.ceil(seconds)))
    try:
        yield
    finally:
        # The limit belongs to the machine, not to the call.
        with contextlib.suppress(libvirt.libvirtError):
            domain.agentSetResponseTimeout(libvirt.VIR_DOMAIN_AGENT_RESPONSE_TIMEOUT_BLOCK)


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
