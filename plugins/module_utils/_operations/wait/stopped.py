# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a machine does not run: libvirt's reason for its state, and the end of QEMU's own log."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from ..._host.connection import VirConnect, is_local, libvirt
from ..._host.machines.record import state_name
from .log_text import read_end, visible_lines

# By name, because an older libvirt lacks the newest ones. Sources: virDomainShutoffReason, virDomainCrashedReason and
# virDomainPausedReason, https://libvirt.org/html/libvirt-libvirt-domain.html
_REASONS: Mapping[str, Mapping[str, str]] = {
    "shutoff": {
        "VIR_DOMAIN_SHUTOFF_SHUTDOWN": "its guest shut down",
        "VIR_DOMAIN_SHUTOFF_DESTROYED": "somebody powered it off",
        "VIR_DOMAIN_SHUTOFF_CRASHED": "it crashed",
        "VIR_DOMAIN_SHUTOFF_MIGRATED": "it was migrated to another hypervisor",
        "VIR_DOMAIN_SHUTOFF_SAVED": "it was saved",
        "VIR_DOMAIN_SHUTOFF_FAILED": "QEMU failed to start or ended with an error",
        "VIR_DOMAIN_SHUTOFF_FROM_SNAPSHOT": "it was reverted to a snapshot",
        "VIR_DOMAIN_SHUTOFF_DAEMON": "libvirt's daemon powered it off",
    },
    "crashed": {"VIR_DOMAIN_CRASHED_PANICKED": "its guest panicked"},
    "paused": {
        "VIR_DOMAIN_PAUSED_USER": "somebody paused it",
        "VIR_DOMAIN_PAUSED_IOERROR": "an I/O error of a disk",
        "VIR_DOMAIN_PAUSED_WATCHDOG": "its watchdog paused it",
        "VIR_DOMAIN_PAUSED_CRASHED": "its guest crashed",
        "VIR_DOMAIN_PAUSED_POSTCOPY_FAILED": "its migration failed half-way",
        "VIR_DOMAIN_PAUSED_API_ERROR": "an error in libvirt",
        "VIR_DOMAIN_PAUSED_FROM_SNAPSHOT": "it was reverted to a snapshot",
        "VIR_DOMAIN_PAUSED_MIGRATION": "it is being migrated",
        "VIR_DOMAIN_PAUSED_POSTCOPY": "it is being migrated",
        "VIR_DOMAIN_PAUSED_SAVE": "it is being saved",
        "VIR_DOMAIN_PAUSED_DUMP": "its memory is being dumped",
        "VIR_DOMAIN_PAUSED_SNAPSHOT": "a snapshot is being taken",
        "VIR_DOMAIN_PAUSED_SHUTTING_DOWN": "it is shutting down",
        "VIR_DOMAIN_PAUSED_STARTING_UP": "it is starting",
    },
}
# libvirt pauses a machine for these itself, and lets it go on after them.
_PASSING = (
    "VIR_DOMAIN_PAUSED_MIGRATION",
    "VIR_DOMAIN_PAUSED_POSTCOPY",
    "VIR_DOMAIN_PAUSED_SAVE",
    "VIR_DOMAIN_PAUSED_DUMP",
    "VIR_DOMAIN_PAUSED_SNAPSHOT",
    "VIR_DOMAIN_PAUSED_SHUTTING_DOWN",
    "VIR_DOMAIN_PAUSED_STARTING_UP",
)
# libvirt's system daemon logs there, src/qemu/qemu_conf.c (logDir).
_QEMU_LOGS = "/var/log/libvirt/qemu"
_LOG_BYTES = 32 * 1024
_LOG_LINES = 5


def state_words(number: int | None, reason: int | None) -> str:
    """A state as virDomainGetState has it, with libvirt's reason where it has one: «shutoff (it crashed)»."""
    state = state_name(number)
    words = next(
        (text for name, text in _REASONS.get(state, {}).items() if getattr(libvirt, name, None) == reason), None
    )
    return f"{state} ({words})" if words else state


def is_passing(number: int | None, reason: int | None) -> bool:
    """Whether it is paused for something that libvirt does with it, after which it goes on."""
    return state_name(number) == "paused" and reason in [getattr(libvirt, name, None) for name in _PASSING]


def qemu_log_end(conn: VirConnect, name: str) -> tuple[list[str], str | None]:
    """The last lines of QEMU's log of the machine's latest start, and why there are none.

    Only root may read the log, and only on the hypervisor itself.
    """
    if not is_local(conn.getURI()) or not urlsplit(conn.getURI()).path.endswith("/system"):
        return [], "QEMU's log is not on this host"
    return read_qemu_log(os.path.join(_QEMU_LOGS, os.path.basename(name) + ".log"))


def read_qemu_log(path: str) -> tuple[list[str], str | None]:
    """The same from a file; QEMU's command line is left out."""
    try:
        lines = read_end(path, _LOG_BYTES).splitlines()
    except OSError as exc:
        return [], f"QEMU's log {path} cannot be read ({exc.strerror or exc})"
    starts = [number for number, line in enumerate(lines) if "starting up libvirt version:" in line]
    said: list[str] = []
    # The environment and the command line follow, a line each, all but the last with a backslash at its end.
    continued = False
    for line in lines[starts[-1] + 1 :] if starts else lines:
        before, continued = continued, line.endswith("\\")
        if not before and not continued:
            said.append(line)
    shown = visible_lines("\n".join(said))
    return shown[-_LOG_LINES:], None if shown else f"QEMU's log {path} says nothing of it"
