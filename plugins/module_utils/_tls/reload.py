# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has libvirt's daemon read its certificates again, without a restart.

The certificates that a daemon has read cannot be asked for. So a mark says from before the first change on that it is
to read them. It lies in /run, as a boot makes it read them anyway.
"""

from __future__ import annotations

import contextlib
import os

from .._base.commands import run_program
from .._base.errors import HostError

MARK = "/run/brine-virt-tls-reload"
# The daemons that may serve TLS, by their sockets for it. https://libvirt.org/daemons.html
_DAEMONS = ("libvirtd", "virtproxyd")
# Where both are administered, /run/libvirt/libvirt-admin-sock: "sockprefix" of virtproxyd in libvirt's
# src/remote/meson.build. virtproxyd:///system would be another socket, which nobody has (getSocketPath in
# src/admin/libvirt-admin.c). The server inside is named after the daemon.
_ADMIN_URI = "libvirtd:///system"
_TIMEOUT_SECONDS = 60


def mark(path: str = MARK) -> None:
    """Note that the daemon is to read its certificates."""
    with open(path, "w", encoding="ascii"):
        pass


def is_marked(path: str = MARK) -> bool:
    """Whether the daemon is to read its certificates."""
    return os.path.exists(path)


def reload_daemon(path: str = MARK) -> bool:
    """Have the daemon that serves TLS read its certificates; False when none does now. Raises HostError.

    One that is not running reads them when it starts.
    """
    reloaded = False
    for daemon in _DAEMONS:
        if _is_active(f"{daemon}-tls.socket") and _is_active(f"{daemon}.service"):
            _update(daemon)
            reloaded = True
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return reloaded


def _is_active(unit: str) -> bool:
    try:
        return run_program(["systemctl", "is-active", "--quiet", unit], timeout_seconds=_TIMEOUT_SECONDS).status == 0
    except FileNotFoundError:
        return False


def _update(daemon: str) -> None:
    command = ["virt-admin", "--connect", _ADMIN_URI, "server-update-tls", daemon]
    # Not right away: a daemon that finds its certificates faulty, such as not yet valid, does not start again.
    hint = f"Run virt-pki-validate, and if it finds nothing, restart {daemon}.service: machines keep running"
    try:
        answer = run_program(command, timeout_seconds=_TIMEOUT_SECONDS)
    except (FileNotFoundError, TimeoutError) as exc:
        raise HostError(f"{daemon} cannot be made to reload its certificates: {exc}", hint=hint) from exc
    answer.require(f"{daemon} does not accept its new certificates", hint)
