# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's numbers for what happened, in its own words, read from the constants of libvirt-python.

So words that a later libvirt has are known as soon as its Python bindings are.
https://libvirt.org/html/libvirt-libvirt-domain.html
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ...module_utils._host.connection import libvirt

UNKNOWN = "unknown"
# Of virDomainEventType, which has no prefix of its own.
_CHANGES = ("DEFINED", "UNDEFINED", "STARTED", "SUSPENDED", "RESUMED", "STOPPED", "SHUTDOWN", "PMSUSPENDED", "CRASHED")
# Of virConnectDomainEventBlockJobStatus, whose prefix the names of other things have too.
_BLOCK_JOBS = ("COMPLETED", "FAILED", "CANCELED", "READY")
JOB_KIND = "VIR_DOMAIN_BLOCK_JOB_TYPE_"
IO_ACTION = "VIR_DOMAIN_EVENT_IO_ERROR_"
WATCHDOG_ACTION = "VIR_DOMAIN_EVENT_WATCHDOG_"
AGENT_STATE = "VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_"
AGENT_REASON = "VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_REASON_"
SHUTOFF_REASON = "VIR_DOMAIN_SHUTOFF_"
PAUSED_REASON = "VIR_DOMAIN_PAUSED_"


@functools.cache
def _words(prefix: str) -> Mapping[int, str]:
    names = [name for name in dir(libvirt) if name.startswith(prefix) and not name.endswith("_LAST")]
    return {getattr(libvirt, name): name.removeprefix(prefix).lower() for name in names}


def word(prefix: str, number: int | None) -> str:
    """The word of a number among the constants that begin with the prefix."""
    return UNKNOWN if number is None else _words(prefix).get(number, UNKNOWN)


@functools.cache
def _numbers(prefix: str, names: tuple[str, ...]) -> Mapping[int, str]:
    found = {getattr(libvirt, prefix + name, None): name.lower() for name in names}
    return {number: text for number, text in found.items() if number is not None}


def change_word(number: int) -> str:
    """What became of a machine: started, stopped and so on."""
    return _numbers("VIR_DOMAIN_EVENT_", _CHANGES).get(number, UNKNOWN)


def reason_word(change: str, number: int) -> str:
    """Why, for a change of change_word."""
    return word(f"VIR_DOMAIN_EVENT_{change.upper()}_", number)


def block_job_word(number: int) -> str:
    """What became of a block job."""
    return _numbers("VIR_DOMAIN_BLOCK_JOB_", _BLOCK_JOBS).get(number, UNKNOWN)
