# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""A small caching HTTP proxy for Debian packages.

Two hosts that install libvirt and QEMU at once, and every later lab, download each file once. apt verifies signatures
and checksums itself, so the proxy may be simple. A shared /var/cache/apt/archives would not do: apt locks it, and one
of two hosts would fail.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

from brine_lab.base.lab import cache

PORT = 9142
KEEP_DAYS = 30
CHUNK = 1 << 18
TIMEOUT_SECONDS = 60
WAIT_FOR_OTHER_SECONDS = 25  # less than the 30 s after which apt gives up on a silent server
PASSED_ON = ("If-Modified-Since", "Range", "If-Range", "Cache-Control", "User-Agent")
HANDED_BACK = ("Content-Type", "Content-Length", "Content-Range", "Last-Modified", "Location")

_busy: dict[Path, threading.Lock] = defaultdict(threading.Lock)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = self.path
        if not url.startswith("http://"):
            self.send_error(400, "This is a proxy for http:// addresses of package archives")
            return
        # Files of these kinds never change under their names; all else is asked for each time.
        forever = url.endswith(".deb") or "/by-hash/" in url
        stored = _directory() / hashlib.sha256(url.encode()).hexdigest() if forever else None
        if stored is None or "Range" in self.headers:
            self._fetch(url, None)
            return
        if _busy[stored].acquire(timeout=WAIT_FOR_OTHER_SECONDS):
            try:
                self._answer_from(stored) if stored.exists() else self._fetch(url, stored)
            finally:
                _busy[stored].release()
        else:
            self._fetch(url, None)

    def _answer_from(self, stored: Path) -> None:
        os.utime(stored)
        with stored.open("rb") as file:
            self.send_response(200)
            self.send_header("Content-Length", str(os.fstat(file.fileno()).st_size))
            self.end_headers()
            shutil.copyfileobj(file, self.wfile, CHUNK)

    def _fetch(self, url: str, stored: Path | None) -> None:
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        try:
            answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS)
        except urllib.error.HTTPError as exc:
            answer = exc
        except (urllib.error.URLError, OSError) as exc:
            self.send_error(502, f"{url}: {exc}".replace("\n", " "))
            return
        with answer:
            status = answer.status or 502
            self.send_response(status)
            for name in HANDED_BACK:
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            if "Content-Length" not in answer.headers and status != 304:
                self.close_connection = True
                self.send_header("Connection", "close")
            self.end_headers()
            self._copy(answer, stored if status == 200 else None, answer.headers.get("Content-Length"))

    def _copy(self, answer: IO[bytes], stored: Path | None, length: str | None) -> None:
        new = stored.with_name(f"{stored.name}.{os.getpid()}.{threading.get_ident()}") if stored else None
        copied = 0
        try:
            with new.open("wb") if new else open(os.devnull, "wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    self.wfile.write(chunk)
                    copied += len(chunk)
            if length is not None and copied != int(length):
                self.close_connection = True  # cut short: the client must not take it for whole
            elif new and stored:
                new.replace(stored)
        finally:
            if new:
                new.unlink(missing_ok=True)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's name)
        """Say nothing: hundreds of lines for each host help nobody."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no event."""


def _directory() -> Path:
    return cache() / "packages"


def _server(address: str, port: int) -> _Server:
    _directory().mkdir(parents=True, exist_ok=True)
    for file in _directory().iterdir():
        if time.time() - file.stat().st_mtime > KEEP_DAYS * 86400:
            file.unlink(missing_ok=True)
    return _Server((address, port), _Handler)


def serve(address: str) -> None:
    """Serve the lab's hosts at its bridge until killed."""
    _server(address, PORT).serve_forever()


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Serve this machine's own builds for as long as the block runs; gives the environment that makes apt use it."""
    server = _server("127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {"http_proxy": f"http://127.0.0.1:{server.server_address[1]}"}
    finally:
        server.shutdown()
        server.server_close()
