# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether SSH answers at a machine's address, and whether it is that machine that answers there."""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping

from ansible_collections.brine.virt.plugins.module_utils._base.commands import run_program

# The kernel repeats the first packet to an address that nobody has yet after one second, and then after two more. To
# try anew instead notices sooner that a guest has come up meanwhile.
_CONNECT_SECONDS = 2.0
# A server that is being started may take longer for its first line than for the connection.
_GREETING_SECONDS = 3.0
_KEYSCAN_SECONDS = 5
# What ssh-keyscan calls the types of keys, the one that is the least work first, and how such keys begin.
_TYPES = {"ed25519": "ssh-ed25519 ", "ecdsa": "ecdsa-sha2-", "rsa": "ssh-rsa "}
_MOST_ANSWER_BYTES = 256 * 1024


def greeting(address: str, port: int) -> tuple[bool, str]:
    """Whether an SSH server says its first line there; an open port alone may be somebody else's. And what was seen."""
    try:
        with socket.create_connection((address, port), timeout=_CONNECT_SECONDS) as connection:
            connection.settimeout(_GREETING_SECONDS)
            first = connection.recv(64)
    except OSError as exc:
        return False, f"it has the address {address}, but port {port} there does not answer ({exc.strerror or exc})"
    if first.startswith(b"SSH-"):
        return True, f"SSH answers at {address} port {port}"
    return False, f"it has the address {address}, but no SSH server answers at port {port} there"


def compare_host_keys(known: Mapping[str, Collection[str]], port: int) -> dict[str, bool | None]:
    """Whether the server at each address has one of these keys; None where that cannot be found out.

    known: public keys as OpenSSH writes them, by address. All servers are asked by one ssh-keyscan, at once, for one
    key each: every further one is a connection more.
    """
    types = {address: _preferred_type(keys) for address, keys in known.items()}
    asked = [address for address, kind in types.items() if kind is not None]
    if not asked:
        return dict.fromkeys(known)
    wanted = ",".join(sorted({kind for kind in types.values() if kind is not None}))
    command = ["ssh-keyscan", "-T", str(_KEYSCAN_SECONDS), "-p", str(port), "-t", wanted, *asked]
    try:
        answer = run_program(command, timeout_seconds=_KEYSCAN_SECONDS + 5)
    except (OSError, TimeoutError):  # it is not installed, or hangs
        return dict.fromkeys(known)
    offered: dict[str, set[str]] = {}
    for line in answer.output[:_MOST_ANSWER_BYTES].decode(errors="replace").splitlines():
        place, _blank, key = line.partition(" ")
        offered.setdefault(_address(place), set()).add(_bare(key))
    return {
        address: _same_key(offered.get(address, set()), {_bare(key) for key in keys}) for address, keys in known.items()
    }


def _same_key(offered: set[str], known: set[str]) -> bool | None:
    """None where no key was offered of a type that is known: that says nothing of the machine."""
    types = {key.split()[0] for key in known if key}
    comparable = {key for key in offered if key and key.split()[0] in types}
    return bool(comparable & known) if comparable else None


def _preferred_type(keys: Collection[str]) -> str | None:
    """The type of key that its server is asked for, as ssh-keyscan names it; None where it knows none of them."""
    return next((kind for kind, prefix in _TYPES.items() if any(key.startswith(prefix) for key in keys)), None)


def _bare(key: str) -> str:
    """Type and key, without a comment."""
    return " ".join(key.split()[:2])


def _address(place: str) -> str:
    """The address out of C([address]:port), which ssh-keyscan writes for other ports than 22."""
    return place[1:].partition("]")[0] if place.startswith("[") else place
