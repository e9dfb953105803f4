# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Downloads from a real web server on this machine."""

from __future__ import annotations

import contextlib
import http.server
import io
import socket
import threading
import time
import typing as t
import urllib.error
from email.message import Message

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, InputError
from ansible_collections.brine.virt.plugins.module_utils._host.images import fetch as image_fetch
from ansible_collections.brine.virt.plugins.module_utils._host.images.fetch import (
    check_url,
    download,
    look_at_url,
    resolve_checksum,
)
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import Deadline

BODY = b"0123456789" * 100_000


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by path: /whole, /unsaid (no length), /squared and /nines (no number), /short (breaks off), /gzip,
    /trickle, /header (trickles too), /chunk (the same), /moved.

    /private is for me:pw alone; /inside leads there, and /outside too, by another name of this host.
    """

    def do_GET(self) -> None:
        kind = self.path[1:]
        leads = {
            "moved": "/whole",
            "round": "/round",
            "inside": "/private",
            "outside": f"http://localhost:{t.cast('t.Any', self.server).server_address[1]}/private",
        }
        sizes = {"short": 2 * len(BODY), "squared": "1\u00b2", "nines": "9" * 5000, **dict.fromkeys(leads, 0)}
        if kind == "nothing":
            self.send_error(404)
            return
        if kind.startswith("loud"):
            self.send_error(500, f"not for {kind}")
            return
        if kind == "private" and self.headers.get("Authorization") != "Basic bWU6cHc=":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="private"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(302 if kind in leads else 200)
        if kind in leads:
            self.send_header("Location", leads[kind])
        if kind == "gzip":
            self.send_header("Content-Encoding", "gzip")
        if kind == "chunk":
            self.send_header("Transfer-Encoding", "chunked")
        elif kind != "unsaid":
            self.send_header("Content-Length", str(sizes.get(kind, len(BODY))))
        if kind == "header":
            self.flush_headers()
        else:
            self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if kind in ("trickle", "header", "chunk"):
                for byte in BODY[:600]:
                    self.wfile.write(bytes([byte]))
                    time.sleep(1)
            elif kind not in leads:
                self.wfile.write(BODY)

    def log_message(self, *args: t.Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> t.Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()


def fetch(url: str, seconds: float = 600) -> tuple[int | None, bytes]:
    with download(url, Deadline(seconds)) as answer:
        return answer.size_bytes, b"".join(answer.chunks)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("whole", len(BODY)),
        ("unsaid", None),
        ("squared", None),
        ("nines", None),
        ("gzip", len(BODY)),
        ("moved", len(BODY)),
    ],
)
def test_all_bytes_come_as_they_are(server: str, kind: str, size: int | None) -> None:
    assert fetch(f"{server}/{kind}") == (size, BODY)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("nothing", "cannot download {url}: the server answered 404 Not Found"),
        ("short", "the download of {url} broke off after 1000000 of 2000000 bytes"),
    ],
)
def test_a_failure_is_one_sentence_with_the_address(server: str, kind: str, says: str) -> None:
    url = f"{server}/{kind}"
    with pytest.raises(HostError) as caught:
        fetch(url)
    assert str(caught.value) == says.format(url=url)


@pytest.mark.parametrize("kind", ["trickle", "header", "chunk"])
def test_a_trickle_does_not_get_past_the_deadline(server: str, kind: str) -> None:
    start = time.monotonic()
    with pytest.raises(HostError, match=r"was not done within 2 s\. Raise timeout"):
        fetch(f"{server}/{kind}", 2)
    assert time.monotonic() - start < 300


def test_what_a_server_says_of_the_size_is_no_number(server: str) -> None:
    assert look_at_url(f"{server}/nines", Deadline(600)) is None


def test_nobody_there_is_one_sentence() -> None:
    with pytest.raises(HostError, match=r"cannot download http://127\.0\.0\.1:1/x: .*Connection refused"):
        fetch("http://127.0.0.1:1/x")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/x", "example.org/x", "https:///x", ""])
def test_what_is_no_address_of_the_web_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="url: .* is not an address to download from. Begin it with https://"):
        check_url(url, "url")


def test_addresses_of_the_web_are_taken() -> None:
    assert check_url("https://example.org/x.qcow2") == "https://example.org/x.qcow2"


@pytest.mark.parametrize("mark", ["/", "#", "?", "[", "]"])
def test_of_a_password_that_is_cut_off_nothing_is_repeated(mark: str) -> None:
    with pytest.raises(InputError, match=r"^url: this is not an address .*In a password write %2F for /") as caught:
        check_url(f"https://user:Geheim{mark}x1@example.org/SUMS", "url")
    assert "Geheim" not in str(caught.value) and "x1" not in str(caught.value)
    assert check_url("https://user:Geheim%2Fx1@example.org:8443/SUMS", "url")


SUM = "a" * 64


@pytest.fixture
def mirrors(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A web where each address leads to the next one; what leads nowhere has the checksum."""
    leads: dict[str, str] = {}

    def open_url(url: str, *, follow_redirects: str = "urllib2", **_options: t.Any) -> t.Any:
        for _hop in range(10):
            if url in leads:
                url = leads[url]
                if follow_redirects == "none":
                    raise urllib.error.HTTPError(url, 302, "Found", Message(), io.BytesIO())
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(f"{SUM}  a.qcow2\n".encode())
            answer = ours.makefile("rb")
        answer.headers = Message()  # type: ignore[attr-defined]
        return answer

    monkeypatch.setattr(image_fetch, "open_url", open_url)
    return leads


def checksum_at(url: str) -> str:
    return resolve_checksum(url, "a.qcow2", Deadline(600), "checksum").digest


@pytest.mark.parametrize(
    "leads",
    [
        {},
        {"https://a.example/SUMS": "https://b.example/SUMS", "https://b.example/SUMS": "https://c.example/SUMS"},
    ],
)
def test_a_checksum_file_may_lie_elsewhere(mirrors: dict[str, str], leads: dict[str, str]) -> None:
    mirrors.update(leads)
    assert checksum_at("https://a.example/SUMS") == SUM


@pytest.mark.parametrize(
    "leads",
    [
        {"https://a.example/SUMS": "http://b.example/SUMS?token=secret-word"},
        # What was in the clear once may have been led anywhere.
        {
            "https://a.example/SUMS": "http://b.example/SUMS?token=secret-word",
            "http://b.example/SUMS?token=secret-word": "https://evil.example/SUMS",
        },
    ],
)
def test_a_checksum_from_an_encrypted_address_comes_encrypted(mirrors: dict[str, str], leads: dict[str, str]) -> None:
    mirrors.update(leads)
    with pytest.raises(
        HostError, match=r"https://a\.example/SUMS leads to http://b\.example/SUMS.* not encrypted"
    ) as got:
        checksum_at("https://a.example/SUMS")
    assert "secret-word" not in str(got.value)
    # Who gives such an address takes it as it is.
    mirrors["http://plain.example/SUMS"] = "http://b.example/SUMS"
    assert checksum_at("http://plain.example/SUMS") == SUM


def test_redirections_come_to_an_end(mirrors: dict[str, str]) -> None:
    mirrors.update({"https://a.example/1": "https://a.example/2", "https://a.example/2": "https://a.example/1"})
    with pytest.raises(HostError, match="redirects without end"):
        checksum_at("https://a.example/1")


def test_what_a_server_says_is_one_line_without_the_secrets_of_its_address(server: str) -> None:
    with pytest.raises(HostError) as caught:
        fetch(f"{server}/loud?token=Geheim99")
    assert caught.value.what.endswith("loud?token=********: the server answered 500 not for loud?********")
    with pytest.raises(HostError, match="would lead to an infinite loop. The last 30x error message was: Found"):
        fetch(f"{server}/round")


def test_a_real_server_is_followed_step_by_step_as_well(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_fetch, "_is_encrypted", lambda _url: True)
    with download(f"{server}/moved", Deadline(600), never_in_clear=True) as answer:
        assert b"".join(answer.chunks) == BODY


def test_a_password_goes_along_while_the_server_is_the_same(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_fetch, "_is_encrypted", lambda _url: True)
    url = server.replace("://", "://me:pw@")
    with download(f"{url}/inside", Deadline(600), never_in_clear=True) as answer:
        assert b"".join(answer.chunks) == BODY
    refused = pytest.raises(HostError, match="the server answered 401")
    with refused, download(f"{url}/outside", Deadline(600), never_in_clear=True):
        pass


def test_a_password_goes_along_in_whatever_words_the_server_names_itself(mirrors: dict[str, str]) -> None:
    mirrors.update(
        {"https://me:pw@a.example/1": "https://A.example:443/2", "https://me:pw@A.example:443/2": "http://b.example/3"}
    )
    with pytest.raises(HostError, match=r"leads to http://b\.example/3"):
        checksum_at("https://me:pw@a.example/1")
