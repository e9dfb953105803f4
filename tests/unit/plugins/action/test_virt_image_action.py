# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_image: what it finds out about a file, and when it sends it.

The other half is the module itself, on libvirt's test driver; only Ansible between the two is left out.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.action.virt_image import have_file, listed_url, look_at_file
from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts import host as host_facts
from ansible_collections.brine.virt.plugins.module_utils._host.images import decompress as image_decompress
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import Deadline
from ansible_collections.brine.virt.plugins.module_utils._host.images.ingest import ImagePreview
from ansible_collections.brine.virt.plugins.module_utils._operations.images import have_image
from ansible_collections.brine.virt.plugins.modules import virt_image

CONTENT = b"\x01" * 1024
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SHA512 = hashlib.sha512(CONTENT).hexdigest()
VOLUME = f"debian-{SHA256[:16]}.raw"
XZ = lzma.compress(CONTENT)
SOON = Deadline(3600)

needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


@pytest.mark.parametrize("checksum", [None, f"sha256:{SHA256}", f"sha512:{SHA512}"])
def test_an_image_is_hashed(tmp_path: Path, checksum: str | None) -> None:
    path = tmp_path / "image"
    path.write_bytes(CONTENT)
    found = look_at_file(str(path), checksum, None, SOON)
    assert found.checksum.digest == SHA256
    assert found.image == ImagePreview(SHA256, "raw", len(CONTENT), len(CONTENT))


def test_a_compressed_file_is_hashed_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(XZ)
    found = look_at_file(str(path), None, None, SOON)
    assert (found.checksum.digest, found.image) == (hashlib.sha256(XZ).hexdigest(), None)


def test_a_checksum_file_is_fetched_by_the_controller(tmp_path: Path, web: t.Any) -> None:
    path = tmp_path / "image.xz"
    path.write_bytes(XZ)
    sums = web.put("SHA256SUMS", f"{hashlib.sha256(XZ).hexdigest()}  image.xz\n{SHA256}  other\n".encode())
    assert look_at_file(str(path), sums, None, SOON).image is None
    path.rename(tmp_path / "other")
    with pytest.raises(VirtError, match=f"checksum: .*other has the sha256 .*, not {SHA256}"):
        look_at_file(str(tmp_path / "other"), f"sha256:{sums}", None, SOON)


@needs_qemu_img
@pytest.mark.parametrize("left", [600, 150_000])
def test_a_part_of_an_image_is_not_sent(tmp_path: Path, left: int) -> None:
    path = tmp_path / "image"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "3G"], check=True)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(VirtError, match=r"src: .*image is truncated: it has.* Download it again"):
        look_at_file(str(path), None, None, SOON)


@needs_qemu_img
def test_a_qcow2_image_is_as_large_as_its_disk(tmp_path: Path) -> None:
    path = tmp_path / "image"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "3G"], check=True)
    image = look_at_file(str(path), None, None, SOON).image
    assert image is not None
    assert (image.format, image.virtual_size_bytes, image.size_bytes) == ("qcow2", 3 << 30, path.stat().st_size)


class Controller:
    """A controller with one file, before one hypervisor; counts what is sent, and what is asked."""

    def __init__(self, node: t.Any, path: Path) -> None:
        self._node = node
        self.path = path
        self.sent = 0
        self.asked = 0

    def have(self, *, check_mode: bool = False, listed: t.Any = None, **options: t.Any) -> dict[str, t.Any]:
        def ask(args: dict[str, t.Any]) -> dict[str, t.Any]:
            self.asked += 1
            defaults = {name: option.get("default") for name, option in virt_image.ARGUMENTS.items()}
            try:
                return have_image({**defaults, **args, "uri": self._node.uri()}, check_mode=check_mode)
            except VirtError as exc:
                return {"failed": True, "msg": str(exc)}

        def send(path: str) -> str:
            self.sent += 1
            return str(shutil.copy(path, self.path.parent / "sent"))

        args = {"name": "debian", "src": self.path.name, **options}
        return have_file(str(self.path), args, ask=ask, send=send, check_mode=check_mode, listed=listed)


@needs_qemu_img
def test_what_only_the_hypervisor_finds_is_said_of_the_file_of_the_controller(tmp_path: Path, node: t.Any) -> None:
    path = tmp_path / "image"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "1M"], check=True)
    content = bytearray(path.read_bytes())
    # The length of the header.
    content[100:104] = (2**31).to_bytes(4, "big")
    path.write_bytes(gzip.compress(bytes(content), mtime=0))
    answer = Controller(node, path).have()
    assert answer["failed"] is True
    assert answer["msg"].startswith(f"qemu-img cannot read {path}: ")
    assert node.names() == []


@pytest.fixture
def controller(tmp_path: Path, node: t.Any) -> Controller:
    return Controller(node, tmp_path / "image")


@needs_qemu_img
@pytest.mark.parametrize("packed", [CONTENT, XZ, gzip.compress(CONTENT, mtime=0)], ids=["plain", "xz", "gzip"])
def test_a_file_is_sent_once_and_as_it_is(controller: Controller, node: t.Any, packed: bytes) -> None:
    controller.path.write_bytes(packed)
    checked = controller.have(check_mode=True)
    assert (controller.sent, node.names()) == (0, [])
    first = controller.have()
    assert (controller.sent, node.names()) == (1, [VOLUME])
    assert (controller.path.parent / "sent").read_bytes() == packed
    assert checked["changed"] is first["changed"] is True
    assert {**checked["image"], "path": first["image"]["path"]} == first["image"]
    for check_mode in (True, False):
        again = controller.have(check_mode=check_mode)
        assert (again["changed"], again["image"]) == (False, first["image"])
    assert controller.sent == 1


@needs_qemu_img
def test_what_is_stored_decompressed_is_not_sent_compressed(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.path.write_bytes(CONTENT)
    controller.have()
    controller.path.write_bytes(XZ)
    assert controller.have(check_mode=True)["changed"] is False
    assert controller.have()["changed"] is False
    assert controller.sent == 1
    # It is remembered where it came from: the next time nothing has to be looked into.
    monkeypatch.setattr(image_decompress, "lzma", None)
    assert controller.have()["changed"] is False
    assert controller.sent == 1


@needs_qemu_img
def test_what_the_user_says_of_a_file_is_not_taken_for_what_is_in_it(controller: Controller) -> None:
    controller.path.write_bytes(CONTENT)
    controller.have()
    controller.path.write_bytes(lzma.compress(bytes(512)))
    for name in ("debian", "other"):
        with pytest.raises(VirtError, match="content_checksum: the image in "):
            controller.have(name=name, content_checksum=f"sha256:{SHA256}")


@needs_qemu_img
def test_a_controller_that_cannot_decompress_sends_and_says_in_check_mode_that_it_does_not_know(
    controller: Controller, node: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.path.write_bytes(subprocess.run(["zstd"], input=CONTENT, stdout=subprocess.PIPE, check=True).stdout)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(controller.path.parent))
    checked = controller.have(check_mode=True)
    assert checked["changed"] is True
    assert (checked["image"]["volume"], checked["image"]["sha256"]) == (None, None)
    monkeypatch.setenv("PATH", path)
    assert controller.have()["image"]["volume"] == VOLUME
    assert (controller.sent, node.names()) == (1, [VOLUME])


@pytest.mark.parametrize(
    ("content", "checksum", "text"),
    [
        (
            CONTENT,
            f"sha512:{'0' * 128}",
            f"checksum: PATH has the sha512 {SHA512}, not {'0' * 128}. Nothing was stored",
        ),
        (CONTENT, "sha1:0", "checksum: 'sha1:0' is not a checksum. Write it like sha256:"),
        (lzma.compress(XZ), None, "src: PATH is compressed twice, the inner layer with xz. Decompress it once"),
        (lzma.compress(b"KDMV" + bytes(508)), None, "src: PATH is a vmdk image"),
        (lzma.compress(b""), None, "src: PATH is empty"),
        (XZ[:-1], None, "src: PATH cannot be decompressed as xz: it is truncated"),
        (XZ, f"sha256:{SHA256}", f"checksum: PATH has the sha256 {hashlib.sha256(XZ).hexdigest()}, not {SHA256}"),
        (b"", None, "src: PATH is empty"),
        (None, None, "src: PATH is not a file"),
    ],
)
@pytest.mark.parametrize("check_mode", [False, True])
def test_what_must_not_be_sent_is_refused_in_one_sentence(
    controller: Controller, node: t.Any, content: bytes | None, checksum: str | None, text: str, check_mode: bool
) -> None:
    if content is None:
        controller.path.mkdir()
    else:
        controller.path.write_bytes(content)
    with pytest.raises(VirtError) as caught:
        controller.have(check_mode=check_mode, **({"checksum": checksum} if checksum else {}))
    message = str(caught.value)
    start = text.replace("PATH", str(controller.path))
    assert message.startswith(start)
    assert message.count(start[:20]) == 1
    assert (controller.sent, node.names()) == (0, [])


@needs_qemu_img
@pytest.mark.parametrize("packed", [CONTENT, XZ], ids=["plain", "xz"])
def test_the_image_itself_may_be_asked_for(controller: Controller, node: t.Any, packed: bytes) -> None:
    controller.path.write_bytes(packed)
    for check_mode in (True, False):
        with pytest.raises(VirtError, match=f"content_checksum: the image in .* has the sha256 {SHA256}, not 0"):
            controller.have(check_mode=check_mode, content_checksum=f"sha256:{'0' * 64}")
    assert (controller.sent, node.names()) == (0, [])
    for changed in (True, False):
        assert controller.have(content_checksum=f"sha256:{SHA256}")["changed"] is changed
    assert controller.sent == 1


@pytest.fixture
def listed(node: t.Any, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[], list[dict[str, t.Any]]]:
    """What virt_host_info lists of the store now."""
    monkeypatch.setattr(host_facts, "is_local", lambda _uri: True)

    def images() -> list[dict[str, t.Any]]:
        with open_connection(node.uri()) as conn:
            return list(host_facts.observe_host(conn, subsets=("images",))["images"])

    return images


@needs_qemu_img
@pytest.mark.parametrize("packed", [CONTENT, XZ], ids=["plain", "xz"])
def test_of_an_image_that_is_listed_nothing_is_asked(
    controller: Controller, listed: t.Callable[[], list[dict[str, t.Any]]], packed: bytes
) -> None:
    controller.path.write_bytes(packed)
    controller.have()
    told = controller.have(check_mode=True)
    controller.asked = 0
    images = listed()
    assert controller.have(check_mode=True, listed=images) == told
    checksum = f"sha256:{hashlib.sha256(packed).hexdigest()}"
    assert controller.have(check_mode=True, listed=images, checksum=checksum, timeout="60") == told
    assert controller.asked == 0
    web = {"name": "debian", "url": "https://example.org/debian", "checksum": checksum}
    assert listed_url(web, images) == told


@needs_qemu_img
def test_what_the_list_does_not_tell_for_certain_is_asked(
    controller: Controller, node: t.Any, listed: t.Callable[[], list[dict[str, t.Any]]]
) -> None:
    controller.path.write_bytes(CONTENT)
    controller.have()
    images = listed()
    file = node.directory / VOLUME
    os.removexattr(file, "user.brine.provenance")
    nameless = listed()
    file.unlink()
    (node.directory / f"debian-{'0' * 16}.raw").write_bytes(b"other")
    cases: list[dict[str, t.Any]] = [
        {"listed": nameless},
        {"listed": images, "content_checksum": f"sha256:{SHA256}"},
        {"listed": images, "pool": "others"},
        {"listed": images, "timeout": 0},
    ]
    for options in cases:
        controller.asked = 0
        controller.have(check_mode=True, **options)
        assert controller.asked == 1, options


@needs_qemu_img
@pytest.mark.parametrize(
    "web",
    [
        {"url": "https://example.org/debian", "checksum": "https://example.org/SHA256SUMS"},
        {"url": "https://example.org/debian", "checksum": f"sha256:{'0' * 64}"},
        {"url": "https://example.org/debian", "checksum": "sha256:0"},
        {"url": "https://example.org/debian"},
        {"url": "example.org", "checksum": f"sha256:{SHA256}"},
        {"url": "https://example.org/debian", "checksum": f"sha256:{SHA256}", "path": "/image"},
        {"url": "https://example.org/debian", "checksum": f"sha256:{SHA256}", "src": "image"},
        {"url": "https://example.org/debian", "checksum": f"sha256:{SHA256}", "src": ""},
        {"url": "https://example.org/debian", "checksum": f"sha256:{SHA256}", "timeout": 2**31},
        {"url": "https://example.org/debian", "checksum": f"sha256:{SHA256}", "timeout": "soon"},
        {"url": "https://example.org/debian", "checksum": f"sha256:{SHA256}", "name": None},
        {"path": "/image", "checksum": f"sha256:{SHA256}"},
    ],
)
def test_what_only_the_hypervisor_can_tell_of_a_download_is_asked(
    controller: Controller, listed: t.Callable[[], list[dict[str, t.Any]]], web: dict[str, t.Any]
) -> None:
    controller.path.write_bytes(CONTENT)
    controller.have()
    assert listed_url({"name": "debian", **web}, listed()) is None
