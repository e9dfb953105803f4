# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses on the web that have a password or a token in them, as they may be shown."""

from __future__ import annotations

import re
import typing as t
from urllib.parse import unquote, unquote_plus

from .withheld import HIDDEN

# RFC 3986: what stands before an @ in the authority, and a slash that should have been escaped in a password.
_USERINFO = re.compile(r"(?P<before>://)(?P<userinfo>[^/?#\s]*|[^/?#\s:]+:(?!\d+/)[^?#\s]*)@")
_QUERY = re.compile(r"(?P<before>://[^?#\s]*[?#])(?P<query>[^\s\"'<>]+)")
# A text that is one address, with an algorithm before it perhaps, ends where it ends, with whatever is wrong in it.
_ADDRESS = re.compile(r"^\s*(\w+:)?[A-Za-z][\w+.-]*://")
_LAST_QUERY = re.compile(r"(?P<before>://[^?#]*[?#])(?P<query>.+)", re.DOTALL)
# In a query each value, or all of it where it has no names.
_VALUE = re.compile(r"(?P<name>[^=&;?#]*=)?(?P<value>[^=&;?#][^&;?#]*)")
# What a value is called that nobody else may know, and how long one is that hardly means anything else.
_TOKEN = re.compile(r"(token|sig|key|pass|secret|credential|auth|code)", re.IGNORECASE)
_TOKEN_LENGTH = 20


def shown_url(text: str) -> str:
    """An address, or a text with addresses, without passwords and tokens; what is hidden is eight asterisks.

    User names and the names of a query stay, its values do not: nobody can tell which of them is a token.
    """
    return replace_url_secrets(text, lambda _part, _secrets: HIDDEN)


def url_secrets(text: str) -> set[str]:
    """The passwords and tokens of the addresses in a text, as they are written and as they are meant.

    Not all that shown_url hides: of a query what is called a token or as long as one.
    """
    found: set[str] = set()

    def note(part: str, secrets: t.Collection[str]) -> str:
        found.update(secrets)
        return part

    replace_url_secrets(text, note)
    return found


def replace_url_secrets(text: str, replace: t.Callable[[str, t.Collection[str]], str]) -> str:
    """The text with parts of its addresses replaced.

    replace: is called with each such part and with what is secret in it.
    """
    if "://" not in text:
        return text
    text = _USERINFO.sub(lambda match: _of_userinfo(match, replace), text)
    query = _LAST_QUERY if _ADDRESS.match(text) else _QUERY
    return query.sub(lambda match: f"{match['before']}{_of_query(match['query'], replace)}", text)


def _of_userinfo(match: re.Match[str], replace: t.Callable[[str, t.Collection[str]], str]) -> str:
    user, colon, password = match["userinfo"].partition(":")
    if password:
        return f"{match['before']}{user}:{replace(password, _unquoted(password))}@"
    # A name without a password is a token, as some servers take it.
    return f"{match['before']}{replace(user, _unquoted(user)) if user else ''}{colon}@"


def _of_query(query: str, replace: t.Callable[[str, t.Collection[str]], str]) -> str:
    def of(match: re.Match[str]) -> str:
        name, value = match["name"] or "", match["value"]
        secret = _TOKEN.search(name) or len(value) >= _TOKEN_LENGTH
        return name + replace(value, _unquoted(value) if secret else ())

    return _VALUE.sub(of, query)


def _unquoted(part: str) -> set[str]:
    return {part, unquote(part), unquote_plus(part)}
