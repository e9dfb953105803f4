# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has libvirt's daemon read its certificates again, without a restart, and ends connections of who is locked out.

The certificates that a daemon has read cannot be asked for. So a mark says from before the first change on that it is
to read them. It lies in /run, as a boot makes it read them anyway. A daemon checks a certificate when a connection is
opened, and never again: who has one open keeps it, however long.
"""

from __future__ import annotations

import contextlib
import os
import re
import typing as t
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Reload:
    """What a daemon was made to do. by: its name, None when none serves TLS now; closed: the names in the certificates
    of the connections that were ended, once for each connection."""

    by: str | None = None
    closed: tuple[str, ...] = ()


def reload_daemon(path: str = MARK, locked_out: t.Collection[str] = ()) -> Reload:
    """Have the daemon that serves TLS read its certificates, and end the connections of some. Raises HostError.

    locked_out: the names (CN) in the certificates of those. A daemon that is not running reads its certificates when it
    starts, and has no connections.
    """
    done = Reload()
    for daemon in _serving():
        _update(daemon)
        # Afterwards: they would come in again otherwise.
        done = Reload(daemon, tuple(_close(daemon, locked_out)) if locked_out else ())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return done


def end_connections(locked_out: t.Collection[str]) -> Reload:
    """End the connections of some where the daemon cannot read its certificates, and so would let them in again. Raises
    HostError."""
    done = Reload()
    for daemon in _serving():
        done = Reload(daemon, tuple(_close(daemon, locked_out)))
    return done


def is_serving() -> bool:
    """Whether a daemon serves TLS now."""
    return any(_serving())


def _serving() -> t.Iterator[str]:
    for daemon in _DAEMONS:
        if _is_active(f"{daemon}-tls.socket") and _is_active(f"{daemon}.service"):
            yield daemon


def _is_active(unit: str) -> bool:
    try:
        return run_program(["systemctl", "is-active", "--quiet", unit], timeout_seconds=_TIMEOUT_SECONDS).status == 0
    except FileNotFoundError:
        return False


def _update(daemon: str) -> None:
    # Not right away: a daemon that finds its certificates faulty, such as not yet valid, does not start again.
    hint = f"Run virt-pki-validate, and if it finds nothing, restart {daemon}.service: machines keep running"
    _administer(daemon, "server-update-tls", complaint=f"{daemon} does not accept its new certificates", hint=hint)


def _close(daemon: str, locked_out: t.Collection[str]) -> list[str]:
    """End the connections of those with one of these names in their certificate. Returns the names."""
    closed = []
    for client in _tls_clients(daemon):
        name = _name_of(daemon, client)
        if name not in locked_out:
            continue
        try:
            _administer(daemon, "client-disconnect", client, complaint=f"{daemon} does not end a connection of {name}")
        except HostError:
            # It may have ended by itself.
            if client in _tls_clients(daemon):
                raise
        closed.append(name)
    return closed


def _tls_clients(daemon: str) -> list[str]:
    """The numbers of the connections by TLS: the first column of virt-admin's table, the transport is the second."""
    text = _administer(daemon, "client-list", complaint=f"{daemon} does not say who is connected")
    rows = [line.split() for line in text.splitlines()]
    return [row[0] for row in rows if len(row) > 1 and row[0].isdigit() and row[1] == "tls"]


def _name_of(daemon: str, client: str) -> str:
    """The CN of who is connected; empty when it has gone."""
    try:
        text = _administer(daemon, "client-info", client, complaint=f"{daemon} does not say who is connected")
    except HostError:
        if client in _tls_clients(daemon):
            raise
        return ""
    found = re.search(r"^tls_x509_dname *: *(.*)$", text, re.MULTILINE)
    # As GnuTLS writes names (RFC 4514): with a backslash before what would otherwise divide them.
    name = re.search(r"(?:^|,)CN=((?:\\.|[^,\\])*)", found.group(1)) if found else None
    return re.sub(r"\\(.)", r"\1", name.group(1)) if name else ""


def _administer(daemon: str, what: str, *words: str, complaint: str, hint: str = "") -> str:
    """Ask virt-admin. Returns what it prints. Raises HostError."""
    hint = hint or f"Restart {daemon}.service, which ends all connections to it: machines keep running"
    command = ["virt-admin", "--connect", _ADMIN_URI, what, daemon, *words]
    try:
        answer = run_program(command, timeout_seconds=_TIMEOUT_SECONDS)
    except (FileNotFoundError, TimeoutError) as exc:
        raise HostError(f"{complaint}: {exc}", hint=hint) from exc
    answer.require(complaint, hint)
    return answer.text
