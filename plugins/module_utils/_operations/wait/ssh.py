# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether SSH answers at a machine's address, and whether it is that machine that answers there."""

from __future__ import annotations

import socket
import time
from collections.abc import Collection, Mapping, Sequence

from ..._base.commands import run_program
from ..._host.connection import map_in_threads

# The kernel repeats the first packet to an address that nobody has yet after one second, and then after two more. To
# try anew instead notices sooner that a guest has come up meanwhile.
_CONNECT_SECONDS = 2.0
# A server that is being started may take longer for its first line than for the connection.
_GREETING_SECONDS = 3.0
_KEYSCAN_SECONDS = 5
# What ssh-keyscan calls the types of keys, the one that is the least work first, and how such keys begin.
_TYPES = {"ed25519": "ssh-ed25519 ", "ecdsa": "ecdsa-sha2-", "rsa": "ssh-rsa "}
_MOST_ANSWER_BYTES = 256 * 1024
_SCANS_AT_ONCE = 8
# RFC 4253, 4.2: the longest first line of a server.
_LONGEST_GREETING_BYTES = 255


def greeting(address: str, port: int) -> tuple[bool, str]:
    """Whether an SSH server says its first line there; an open port alone may be somebody else's. And what was seen."""
    try:
        with socket.create_connection((address, port), timeout=_CONNECT_SECONDS) as connection:
            first = _first_line(connection)
    except OSError as exc:
        return False, f"it has the address {address}, but port {port} there does not answer ({exc.strerror or exc})"
    if first.startswith(b"SSH-") and first.endswith(b"\n"):
        return True, f"SSH answers at {address} port {port}"
    return False, f"it has the address {address}, but no SSH server answers at port {port} there"


def _first_line(connection: socket.socket) -> bytes:
    """What is said until the line ends, or nothing more comes in time."""
    end = time.monotonic() + _GREETING_SECONDS
    said = b""
    while b"\n" not in said and len(said) < _LONGEST_GREETING_BYTES:
        connection.settimeout(max(0.01, end - time.monotonic()))
        more = connection.recv(1)
        if not more:
            break
        said += more
    return said


def compare_host_keys(known: Sequence[tuple[str, Collection[str]]], port: int) -> list[bool | None]:
    """Whether the server at an address has one of these keys, of each; None where that cannot be found out.

    known: address and public keys as OpenSSH writes them. All servers are asked by one ssh-keyscan, at once, for one
    key each: every further one is a connection more.
    """
    kinds = [_preferred_type(keys) for _address, keys in known]
    asked = sorted({address for (address, _keys), kind in zip(known, kinds) if kind is not None})
    wanted = sorted({kind for kind in kinds if kind is not None})
    offered: Mapping[str, set[str]] = {}
    if asked:
        try:
            offered = _scan(asked, wanted, port)
        except TimeoutError:
            # A guest that says half a sentence makes ssh-keyscan wait for all others as well.
            found = map_in_threads(lambda address: _scan([address], wanted, port), asked, threads=_SCANS_AT_ONCE)
            offered = {address: keys for one in found for address, keys in (one.value or {}).items()}
        except OSError:  # it is not installed
            offered = {}
    return [_same_key(offered.get(address, set()), {_bare(key) for key in keys}) for address, keys in known]


def _scan(addresses: Sequence[str], kinds: Sequence[str], port: int) -> dict[str, set[str]]:
    """The keys that servers offer, by address. Raises OSError and TimeoutError."""
    command = ["ssh-keyscan", "-T", str(_KEYSCAN_SECONDS), "-p", str(port), "-t", ",".join(kinds), *addresses]
    answer = run_program(command, timeout_seconds=_KEYSCAN_SECONDS + 5)
    offered: dict[str, set[str]] = {}
    for line in answer.output[:_MOST_ANSWER_BYTES].decode(errors="replace").splitlines():
        place, _blank, key = line.partition(" ")
        offered.setdefault(_address(place), set()).add(_bare(key))
    return offered


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
