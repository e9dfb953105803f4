# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images and their checksums from the web, as streams of bytes with every failure as one sentence."""

from __future__ import annotations

import contextlib
import http
import http.client
import os
import posixpath
import queue
import re
import socket
import threading
import typing as t
import urllib.error
import urllib.parse
from dataclasses import dataclass

from ansible.module_utils.urls import ConnectionError as AnsibleConnectionError
from ansible.module_utils.urls import open_url

from ..._base.errors import HostError, InputError
from ..._model.image.checksum import Checksum, ChecksumFile, find_checksum, read_checksum
from ..._model.spec.fields.units import format_size
from ..._model.url import shown_url, url_secrets
from ..._model.withheld import masked, masks_of
from .files import Deadline
from .stream import CHUNK_BYTES

# A server that sends nothing for so long is taken for gone.
_SILENCE_SECONDS = 60
# What a server says of a file that another question would not bring either.
_NOT_TO_BE_HAD = frozenset({401, 403, 404, 407, 410})
_REDIRECTIONS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTIONS = 10
_AGENT = "ansible-brine.virt"
# A server may say anything in the place of one.
_SIZE = re.compile(r"[0-9]{1,20}")
# Those of distributions have some thousand bytes. Somebody may give the address of the image by mistake.
_CHECKSUM_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Download:
    """An answer whose bytes are still to come; size_bytes None: the server did not say."""

    size_bytes: int | None
    chunks: t.Iterator[bytes]


def check_url(url: str, where: str | None = None) -> str:
    """The address itself, when it is one to download from. Raises InputError."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        # Part of a password, perhaps, which ends for an address at the first of these, or has a bracket, as otherwise
        # only IPv6 has; so nothing of it is repeated.
        raise InputError(
            "this is not an address to download from: what stands before its first /, ? or # is not a host with a port",
            where=where,
            hint="In a password write %2F for /, %3F for ?, %23 for #, %5B for [ and %5D for ]",
        ) from None
    if not is_address:
        raise InputError(
            f"{shown_url(url)!r} is not an address to download from", where=where, hint="Begin it with https://"
        )
    return url


@contextlib.contextmanager
def download(url: str, deadline: Deadline, *, never_in_clear: bool = False) -> t.Iterator[Download]:
    """Ask for what lies at an address. Certificates are verified.

    never_in_clear: from an address with https it may lead to others with https only. Raises HostError when it leads
    elsewhere, and when the server refuses, breaks off, or is not done at the deadline; the last two while the chunks
    are read.
    """
    with _web_errors(url, deadline):
        answer = _ask_encrypted(url, deadline) if never_in_clear and _is_encrypted(url) else _ask(url, deadline)
    with contextlib.closing(answer), _cut_at(deadline, answer):
        size_bytes = _size(answer.headers.get("Content-Length", ""))
        yield Download(size_bytes, _read(answer, url, size_bytes, deadline))


def look_at_url(url: str, deadline: Deadline, where: str | None = None) -> int | None:
    """How many bytes lie at an address, None when the server does not say; hardly any of them is transferred.

    The first byte is asked for, and not HEAD: many an address with a token in it is good for GET alone. A server that
    refuses a part of a file is asked for the whole, and left when it begins to send.
    Raises HostError when the file cannot be had. where: path in the user's input, for this.
    """
    with _web_errors(url, deadline, where):
        try:
            answer = _ask(url, deadline, {"Range": "bytes=0-0"})
        except urllib.error.HTTPError as exc:
            if exc.code in _NOT_TO_BE_HAD:
                raise
            answer = _ask(url, deadline)
    with contextlib.closing(answer):
        whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
        partial = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        return _size(whole if partial else answer.headers.get("Content-Length", ""))


def _size(said: str) -> int | None:
    return int(said) if _SIZE.fullmatch(said) else None


def _ask(url: str, deadline: Deadline, headers: dict[str, str] | None = None, *, follow: str = "urllib2") -> t.Any:
    outcome: queue.SimpleQueue[tuple[t.Any, Exception | None]] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer = open_url(
                url,
                timeout=min(_SILENCE_SECONDS, deadline.seconds),
                http_agent=_AGENT,
                headers=headers or {},
                decompress=False,
                follow_redirects=follow,
            )
            outcome.put((answer, None))
        except Exception as exc:  # raised by who asked
            outcome.put((None, exc))

    # The beginning of an answer may trickle for ever, each byte an end of the silence. The thread is left behind then.
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer, error = outcome.get(timeout=deadline.left)
    except queue.Empty:
        raise _late(url, deadline) from None
    if error is not None:
        raise error
    return answer


@contextlib.contextmanager
def _cut_at(deadline: Deadline, answer: t.Any) -> t.Iterator[None]:
    """For the block: the connection ends at the deadline, even while somebody waits for the next byte of it."""
    with socket.socket(fileno=os.dup(answer.fileno())) as connection:

        def cut() -> None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(deadline.left, cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _ask_encrypted(url: str, deadline: Deadline) -> t.Any:
    """The answer at the end of all redirections, each of which has to be encrypted itself.

    urllib follows https to http, where anybody on the way may answer.
    """
    place = url
    for _hop in range(_MOST_REDIRECTIONS):
        try:
            return _ask(place, deadline, follow="none")
        except urllib.error.HTTPError as exc:
            led_to = _with_user_of(place, exc.url or place)
            if exc.code not in _REDIRECTIONS or led_to == place:
                raise
            place = led_to
        if not _is_encrypted(place):
            raise HostError(
                f"{shown_url(url)} leads to {shown_url(place)}, which is not encrypted",
                hint="Anybody on the network path could have changed the download. "
                "Give the checksum itself, or the "
                "address of a server that stays on https://",
            )
    raise HostError(f"{shown_url(url)} redirects without end")


def _with_user_of(url: str, led_to: str) -> str:
    """Where an address leads, with its user and password while the server is the same: they are for no other."""
    user, at, _host = urllib.parse.urlsplit(url).netloc.rpartition("@")
    parts = urllib.parse.urlsplit(led_to)
    if not at or "@" in parts.netloc or _server_of(url) != _server_of(led_to):
        return led_to
    return parts._replace(netloc=f"{user}@{parts.netloc}").geturl()


def _server_of(url: str) -> tuple[str, str | None, int | None]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _is_encrypted(url: str) -> bool:
    return urllib.parse.urlsplit(url).scheme == "https"


def name_in_url(url: str) -> str:
    """What a file is called at an address: the last part of its path."""
    return urllib.parse.unquote(posixpath.basename(urllib.parse.urlsplit(url).path))


def resolve_checksum(value: t.Any, file_name: str, deadline: Deadline, where: str) -> Checksum:
    """The checksum that a user gave, or that the checksum file at the given address has for a file of this name.

    Raises InputError for a wrong one and when the checksum file has none, HostError when it cannot be had.
    """
    wanted = read_checksum(value, where)
    if isinstance(wanted, Checksum):
        return wanted
    check_url(wanted.url, where)
    text = _small_text(wanted, deadline, where)
    return find_checksum(text, file_name, wanted.algorithm, shown_url(wanted.url), where)


def _small_text(wanted: ChecksumFile, deadline: Deadline, where: str) -> str:
    text = b""
    # What it says decides what is taken for the image, and its address is all that it is trusted for.
    with download(wanted.url, deadline, never_in_clear=True) as answer:
        for chunk in answer.chunks:
            text += chunk
            if len(text) > _CHECKSUM_FILE_BYTES:
                raise InputError(
                    f"{shown_url(wanted.url)} is not a checksum file: "
                    f"it is larger than {format_size(_CHECKSUM_FILE_BYTES)}",
                    where=where,
                    hint="Is this the address of the image?",
                )
    return text.decode(errors="replace")


def _read(answer: t.Any, url: str, size_bytes: int | None, deadline: Deadline) -> t.Iterator[bytes]:
    read_bytes = 0
    while True:
        with _web_errors(url, deadline):
            # What has come, without waiting for a whole chunk: a trickle must not get past the deadline.
            chunk = answer.read1(CHUNK_BYTES)
        if deadline.passed:
            raise _late(url, deadline)
        if not chunk:
            break
        read_bytes += len(chunk)
        yield chunk
    if size_bytes is not None and read_bytes != size_bytes:
        raise HostError(f"the download of {shown_url(url)} broke off after {read_bytes} of {size_bytes} bytes")


def _late(url: str, deadline: Deadline) -> HostError:
    return HostError(
        f"the download of {shown_url(url)} was not done within {deadline.seconds:g} s", hint="Raise timeout"
    )


@contextlib.contextmanager
def _web_errors(url: str, deadline: Deadline, where: str | None = None) -> t.Iterator[None]:
    """Failures as one sentence. What lies behind is not handed on: it may repeat the whole address."""
    what = f"cannot download {shown_url(url)}"
    try:
        yield
    except urllib.error.HTTPError as exc:
        said = f"{exc.code} {_cleaned(exc.reason, url)}".rstrip()
        raise HostError(f"{what}: the server answered {said}", where=where) from None
    except (OSError, http.client.HTTPException, AnsibleConnectionError, ValueError) as exc:
        if deadline.passed:
            raise _late(url, deadline) from None
        reason = exc.reason if isinstance(exc, urllib.error.URLError) else exc
        raise HostError(f"{what}: {_reason(reason, url)}", where=where) from None


def _reason(reason: t.Any, url: str) -> str:
    return _cleaned(reason, url) or type(reason).__name__


def _cleaned(said: t.Any, url: str) -> str:
    """What was said, on one line and without the address's secrets, which a server may repeat."""
    query = urllib.parse.urlsplit(url).query
    masks = masks_of(url_secrets(url)) | ({query} if query else set())
    return " ".join(masked(str(said), masks).split())
