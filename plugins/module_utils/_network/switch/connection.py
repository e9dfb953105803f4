# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The SSH connection by which a module is called: since when it is there, and whether it comes from another host.

Told by the process of the SSH server among the ancestors of this one, whatever the options of the client are. Where
there is none, as below machinectl or a connection that is not SSH, nothing is known.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import typing as t
from dataclasses import dataclass

from ..._base.errors import HostError, UnsupportedError
from ..._base.files import read_text
from ..commands import run

# OpenSSH, since 9.8 with a program of its own for each connection, and Dropbear. The kernel cuts names at 15 letters.
_SERVERS = ("sshd", "sshd-session", "dropbear")
# The kernel counts a process's start in ticks.
_TICK_SECONDS = 0.02
# What Ansible calls its connections by SSH. With any other one, that a call gets through says nothing of the network.
_BY_NETWORK = ("ssh", "smart", "paramiko", "paramiko_ssh", "libssh")
_PROC = "/proc"
_HEX_DIGITS_OF_WORD = 8
_ESTABLISHED = "01"


@dataclass(frozen=True)
class SshConnection:
    """A connection. started: in seconds since the host booted; peer: the address it comes from, None if unknown."""

    started: float
    peer: str | None


def check_proves(connection: str | None) -> None:
    """Raise UnsupportedError where calls get through whatever becomes of the network, so that they prove nothing.

    connection: Ansible's name of the connection, None if nobody has said it.
    """
    if connection is not None and connection.rpartition(".")[2] not in _BY_NETWORK:
        raise UnsupportedError(
            f"Ansible reaches this host by the connection {connection}, which works without the network, so nobody "
            "would notice that the change has cut the host off",
            hint="Run the playbook from another host, over SSH",
        )
    found = ssh_connection()
    if found is not None and found.peer is not None and _is_own(found.peer):
        raise UnsupportedError(
            f"this call comes from the host itself ({found.peer}), so nobody would notice that the change has cut the "
            "host off",
            hint="Run the playbook from another host, over SSH",
        )


def check_newer(since: float) -> None:
    """Raise HostError where the connection was there at this time, in seconds since the host booted."""
    found = ssh_connection()
    if found is not None and found.started < since - _TICK_SECONDS:
        raise HostError(
            "this call came over a connection that is older than the change, and so proves nothing",
            hint="The client shares connections: do not set ControlPath by an ssh wrapper, or use the role, which "
            "switches it off",
        )


def ssh_connection() -> SshConnection | None:
    """The connection by which this process was started, None where that is not known."""
    number = os.getpid()
    while number > 1:
        stat = read_text(f"{_PROC}/{number}/stat")
        if stat is None:
            return None
        # The name may have blanks and brackets in it.
        name, _bracket, rest = stat.partition("(")[2].rpartition(")")
        fields = rest.split()
        if name in _SERVERS:
            return SshConnection(int(fields[19]) / os.sysconf("SC_CLK_TCK"), _peer(number))
        number = int(fields[1])
    return None


def _peer(number: int) -> str | None:
    """The other end of the first TCP connection of a process: a server has that of its client before any other."""
    remote = {}
    for table in ("tcp", "tcp6"):
        for line in (read_text(f"{_PROC}/{number}/net/{table}") or "").splitlines()[1:]:
            words = line.split()
            if words[3] == _ESTABLISHED:
                remote[words[9]] = words[2].partition(":")[0]
    try:
        files = sorted(map(int, os.listdir(f"{_PROC}/{number}/fd")))
    except OSError:
        return None
    for file in files:
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"{_PROC}/{number}/fd/{file}"))
        except OSError:
            continue
        if found is not None and found.group(1) in remote:
            return _address(remote[found.group(1)])
    return None


def _address(digits: str) -> str:
    """An address of the kernel's table, whose words of 32 bits are in the order of the processor."""
    words = [digits[at : at + _HEX_DIGITS_OF_WORD] for at in range(0, len(digits), _HEX_DIGITS_OF_WORD)]
    address = ipaddress.ip_address(b"".join(socket.ntohl(int(word, 16)).to_bytes(4, "big") for word in words))
    mapped: t.Any = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _is_own(address: str) -> bool:
    links = json.loads(run("ip", "-json", "address", "show") or "[]")
    own = {entry.get("local") for link in links for entry in link.get("addr_info", [])}
    return ipaddress.ip_address(address).is_loopback or address in own
