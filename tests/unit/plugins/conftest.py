# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of plugins share: a web server that counts, an image store of libvirt's test driver, and no warnings."""

from __future__ import annotations

import http.server
import subprocess
import threading
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ansible.module_utils.common import warnings

from ansible_collections.brine.virt.plugins.module_utils._host.images import prune as image_prune
from ansible_collections.brine.virt.plugins.module_utils._host.images import store as image_store
from ansible_collections.brine.virt.plugins.module_utils._host.images.provenance import keep_provenance
from ansible_collections.brine.virt.plugins.module_utils._model.image.header import HEADER_BYTES, virtual_size
from ansible_collections.brine.virt.plugins.module_utils._model.image.provenance import Provenance

VOLUME = "<volume><name>{name}</name><capacity>{size}</capacity></volume>"


@dataclass
class Web:
    """Files on the web by name, and the names that were asked for, each time. cut: how many bytes of each come.

    looked_at: the names of which the first byte was asked for; ranges: whether the server knows such a thing.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    cut: int | None = None
    looked_at: list[str] = field(default_factory=list)
    ranges: bool = True

    def put(self, name: str, content: bytes) -> str:
        """Publish a file. Gives its address back."""
        self.files[name] = content
        return f"{self.url}/{name}"


@pytest.fixture(autouse=True)
def no_warnings() -> None:
    """Forget what an earlier module has warned of in this process: ansible-core adds it to every result."""
    warnings._global_warnings.clear()
    warnings._global_deprecations.clear()


@pytest.fixture
def web() -> t.Iterator[Web]:
    """A web server on this machine, with nothing on it."""
    state = Web()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rsplit("/", 1)[-1]
            part = "Range" in self.headers
            (state.looked_at if part else state.asked).append(name)
            if name not in state.files:
                self.send_error(404)
                return
            if part and not state.ranges:
                self.send_error(501)
                return
            content = state.files[name]
            self.send_response(206 if part else 200)
            if part:
                self.send_header("Content-Range", f"bytes 0-0/{len(content)}")
                content = content[:1]
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: state.cut])

        def log_message(self, *args: t.Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        state.url = f"http://127.0.0.1:{server.server_port}"
        yield state
        server.shutdown()


def _size(path: Path) -> int:
    with path.open("rb") as file:
        return virtual_size(file.read(HEADER_BYTES), path.stat().st_size)


@dataclass(frozen=True)
class Node:
    """A hypervisor of libvirt's test driver with an image store in a real directory."""

    file: Path
    directory: Path

    def uri(self) -> str:
        """The hypervisor as it is now: this driver forgets all when it is closed, and looks into no directory."""
        files = sorted(path for path in self.directory.iterdir() if not path.name.startswith("."))
        volumes = "".join(VOLUME.format(name=path.name, size=_size(path)) for path in files)
        pool = f"<name>images</name><target><path>{self.directory}</path></target>{volumes}"
        self.file.write_text(f"<node><pool type='dir'>{pool}</pool></node>")
        return f"test://{self.file}"

    def names(self) -> list[str]:
        """All files of the store, hidden ones too."""
        return sorted(path.name for path in self.directory.iterdir())


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A hypervisor with an empty store."""

    def refresh_pool(handle: t.Any, name: str) -> None:
        """What the driver's own refresh leaves out."""
        known = handle.listVolumes()
        for path in directory.iterdir():
            if path.name not in known and not path.name.startswith("."):
                handle.createXML(VOLUME.format(name=path.name, size=_size(path)), 0)

    directory = tmp_path / "store"
    directory.mkdir()
    if not keep_provenance(str(directory), Provenance()):
        pytest.skip("no extended attributes here")
    (tmp_path / "lock").mkdir()
    monkeypatch.setattr(image_store, "refresh_pool", refresh_pool)
    monkeypatch.setattr(image_prune, "LOCK_DIR", str(tmp_path / "lock"))
    return Node(tmp_path / "node.xml", directory)


@pytest.fixture
def small_disk(tmp_path: Path) -> t.Iterator[Path]:
    """A file system of 64 MiB."""
    path = tmp_path / "small"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64M", "brine-test", str(path)], check=False, stderr=subprocess.DEVNULL
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount a file system here")
    yield path
    subprocess.run(["umount", str(path)], check=True)
