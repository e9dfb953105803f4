# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest agent: how long libvirt waits for it."""

from __future__ import annotations

import contextlib
import math
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, suppress_codes


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
