# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources as people name them: addresses, networks, and names that this host can resolve."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from collections.abc import Callable, Collection, Iterable, Sequence

from ..._base.errors import InputError, Mistakes
from .openings import Source

Resolve = Callable[[str], Sequence[str]]
# The shortest prefixes, by version of IP: 10.0.0.0/8 is the widest private network.
_WIDEST = {4: 8, 6: 16}
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")


def resolve(name: str) -> list[str]:
    """The addresses of a name, as this host finds them; none where it finds none."""
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []


def link_local(words: Iterable[str]) -> list[str]:
    """Those of the words that are addresses of a link alone (169.254.0.0/16, fe80::/10)."""
    found = []
    for word in words:
        with contextlib.suppress(ValueError):
            found += [word] if ipaddress.ip_address(word).is_link_local else []
    return found


def said_addresses(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """What hosts say their addresses are: those that can be let in, and what is passed over.

    Who says it may be in somebody else's hands, so a network or a name is none, whatever it would lead to.
    """
    found: list[str] = []
    others: list[str] = []
    for word in words:
        try:
            address = ipaddress.ip_address(word)
            nobody = address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
        except ValueError:
            nobody = True
        (others if nobody or "%" in word else found).append(word)
    return found, others


def read_sources(
    words: Iterable[str], where: str, own: Iterable[str], resolve: Resolve = resolve, without: Collection[str] = ()
) -> list[Source]:
    """The sources that an option names, without this host's own addresses. Raises InputError, one for all mistakes.

    without: words that are passed over.
    """
    mistakes = Mistakes()
    ours = {ipaddress.ip_network(address) for address in own}
    found: list[Source] = []
    for position, word in enumerate(words):
        if word in without:
            continue
        with mistakes.noted():
            found += _sources(word, f"{where}[{position}]", resolve)
    mistakes.conclude()
    return list(dict.fromkeys(source for source in found if source not in ours))


def _sources(word: str, where: str, resolve: Resolve) -> list[Source]:
    try:
        source = ipaddress.ip_network(word)
    except ValueError as exc:
        return _of_no_network(word, where, resolve, exc)
    if source.prefixlen == 0:
        raise InputError(
            f"{word} is the whole internet", where=where, hint="Name the addresses or networks of the cloud's hosts"
        )
    if source.prefixlen < _WIDEST[source.version]:
        raise InputError(
            f"{word} is wider than any cloud: at least /{_WIDEST[4]} for IPv4 and /{_WIDEST[6]} for IPv6 is needed",
            where=where,
            hint="Name the addresses or networks of the cloud's hosts",
        )
    if source.is_loopback or source.is_link_local:
        raise InputError(f"nobody comes to another host from {word}", where=where, hint="Use an address of its network")
    return [source]


def _of_no_network(word: str, where: str, resolve: Resolve, exc: ValueError) -> list[Source]:
    """The addresses of a name; of what looks like a network, what is wrong with it."""
    if "/" in word or not _NAME.fullmatch(word):
        try:
            hint = f"Did you mean {ipaddress.ip_network(word, strict=False)}?"
        except ValueError:
            hint = "Use an address, a network such as 192.0.2.0/24, or a name that the hypervisor can resolve"
        raise InputError(f"{word!r} is not an address, network or name", where=where, hint=hint) from exc
    addresses = [ipaddress.ip_address(address.partition("%")[0]) for address in resolve(word)]
    found = [
        ipaddress.ip_network(address) for address in addresses if not (address.is_loopback or address.is_link_local)
    ]
    if not found:
        raise InputError(
            f"this host finds no address of {word!r}", where=where, hint="Use an address or a network"
        ) from exc
    return found
