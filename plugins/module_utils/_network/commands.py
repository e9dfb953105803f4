# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of a host that tell of its network or change it: ip, networkctl, nmcli and others."""

from __future__ import annotations

from .._base.commands import run_program
from .._base.errors import HostError

_TIMEOUT_SECONDS = 30
# For a shell: whether the interface $1 is a port of the bridge, or of the bond, $2.
IS_PORT = 'ip -oneline link show dev "$1" | grep -qF " master $2 "'


def run(*command: str) -> str:
    """The output of a command in plain English. Raises HostError with what it said when it fails."""
    try:
        answer = run_program(
            command,
            timeout_seconds=_TIMEOUT_SECONDS,
            environment={"SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""},
        )
    except FileNotFoundError as exc:
        raise HostError(
            f"the command {command[0]} is not installed", hint=f"Install the package that contains {command[0]}"
        ) from exc
    except TimeoutError as exc:
        raise HostError(f"{' '.join(command)} did not answer within {_TIMEOUT_SECONDS} s") from exc
    return answer.require(f"{' '.join(command)} failed").text


def is_active(unit: str) -> bool:
    """Whether a unit of systemd runs."""
    try:
        return run("systemctl", "is-active", unit).strip() == "active"
    except HostError:
        return False
