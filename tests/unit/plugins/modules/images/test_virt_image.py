# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_image as a task calls it, on libvirt's test driver with a real directory and a real web server.

With a real libvirt it is proven by tests/integration/lab/virt_image.yml.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import lzma
import os
import random
import shutil
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.module_utils._host.images import files as image_files
from ansible_collections.brine.virt.plugins.module_utils._operations.images import FORGETS, have_image
from ansible_collections.brine.virt.plugins.modules import virt_image

CONTENT = b"\x01" * 1024
SHA256 = hashlib.sha256(CONTENT).hexdigest()
VOLUME = f"debian-{SHA256[:16]}.raw"
XZ = lzma.compress(CONTENT)
URL = "http://127.0.0.1:1/never-asked"

pytestmark = [pytest.mark.medium, pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")]


def sha(content: bytes, algorithm: str = "sha256") -> str:
    return f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}"


@pytest.fixture
def uri(node: t.Any) -> str:
    return str(node.uri())


@pytest.fixture
def source(tmp_path: t.Any) -> str:
    (tmp_path / "source.img").write_bytes(CONTENT)
    return f"{tmp_path}/source.img"


def run(capsys: pytest.CaptureFixture[str], **options: t.Any) -> dict[str, t.Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        virt_image.main()
    return dict(json.loads(capsys.readouterr().out))


class Endless(bytes):
    """A file that a server calls larger than any disk."""

    def __len__(self) -> int:
        return 2**63 - 1


class Task:
    """Tasks on one hypervisor, each as a module of its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str], node: t.Any) -> None:
        self._capsys = capsys
        self._node = node

    def __call__(self, *, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
        given = {"uri": self._node.uri(), "name": "debian", **options, "_ansible_check_mode": check_mode}
        result = run(self._capsys, **{key: value for key, value in given.items() if value is not None})
        assert not result.get("failed"), result
        return result


@pytest.fixture
def task(capsys: pytest.CaptureFixture[str], node: t.Any) -> Task:
    return Task(capsys, node)


def test_check_mode_knows_all_of_a_file_on_the_hypervisor(
    capsys: pytest.CaptureFixture[str], uri: str, source: str, tmp_path: t.Any
) -> None:
    (tmp_path / "source.img.xz").write_bytes(XZ)
    for path in (source, f"{source}.xz"):
        result = run(capsys, name="debian", path=path, uri=uri, _ansible_check_mode=True)
        assert result["changed"] is True
        assert result["image"] == {
            "name": "debian",
            "volume": VOLUME,
            "pool": "images",
            "path": f"{tmp_path}/store/{VOLUME}",
            "format": "raw",
            "sha256": SHA256,
            "size_bytes": 1024,
            "virtual_size_bytes": 1024,
        }
        assert result["diff"] == {"before": {"volumes": []}, "after": {"volumes": [VOLUME]}}
        assert os.listdir(tmp_path / "store") == []


def test_check_mode_downloads_nothing(capsys: pytest.CaptureFixture[str], uri: str, web: t.Any) -> None:
    url = web.put("image", CONTENT)
    for checksum in (f"sha256:{SHA256}", f"sha512:{'0' * 128}"):
        result = run(capsys, name="debian", url=url, checksum=checksum, uri=uri, _ansible_check_mode=True)
        assert result["changed"] is True
        # It may be compressed: then this is not the checksum of the image.
        assert (result["image"]["volume"], result["image"]["sha256"]) == (None, None)
        assert result["diff"]["after"] == {"volumes": [f"debian with the {checksum}"]}
    assert web.asked == []


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone", "url: cannot download {url}/gone: the server answered 404 Not Found"),
        ("huge", "{url}/huge needs 8388608.0T in {directory}, and "),
    ],
)
def test_check_mode_finds_what_cannot_be_downloaded(
    capsys: pytest.CaptureFixture[str], node: t.Any, web: t.Any, name: str, says: str, ranges: bool
) -> None:
    web.ranges = ranges
    web.put("huge", Endless(b"x"))
    options = {"url": f"{web.url}/{name}", "checksum": sha(b"")}
    result = run(capsys, name="debian", uri=node.uri(), _ansible_check_mode=True, **options)
    assert result["failed"] is True
    assert result["msg"].startswith(says.format(url=web.url, directory=node.directory))
    # A server that refuses a part of a file may have the whole of it.
    assert web.asked == ([] if ranges or name == "gone" else [name])


def test_check_mode_does_not_look_for_what_is_stored(task: Task, web: t.Any) -> None:
    spec = {"url": web.put("image", CONTENT), "checksum": sha(CONTENT)}
    task(**spec)
    web.files.clear()
    assert task(check_mode=True, **spec)["changed"] is False
    assert web.looked_at == []


def test_for_a_file_of_the_controller_the_store_is_only_asked(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    given = {"name": "debian", "src": "debian.img", "checksum": sha(XZ), "uri": uri}
    for content in (None, SHA256):
        result = run(capsys, **given, **({"content_checksum": f"sha256:{content}"} if content else {}))
        assert result["changed"] is True
        assert (result["image"]["volume"], result["image"]["sha256"]) == (None, content)


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
@pytest.mark.parametrize("packed", [XZ, gzip.compress(CONTENT, mtime=0), CONTENT], ids=["xz", "gzip", "plain"])
def test_an_image_of_the_web_comes_once(task: Task, node: t.Any, web: t.Any, packed: bytes, algorithm: str) -> None:
    spec = {"url": web.put("image", packed), "checksum": sha(packed, algorithm)}
    checked = task(check_mode=True, **spec)
    assert (checked["changed"], web.asked, node.names()) == (True, [], [])
    first = task(**spec)
    assert (first["changed"], web.asked, node.names()) == (True, ["image"], [VOLUME])
    assert (checked["stored"], first["stored"]) == (False, True)
    assert (node.directory / VOLUME).read_bytes() == CONTENT
    for check_mode in (True, False):
        again = task(check_mode=check_mode, **spec)
        assert (again["changed"], again["stored"]) == (False, True)
        assert again["image"] == first["image"]
        assert again["diff"] == {"before": {"volumes": [VOLUME]}, "after": {"volumes": [VOLUME]}}
    assert (web.asked, node.names()) == (["image"], [VOLUME])
    assert first["image"]["sha256"] == SHA256


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize("kept", ["half", "600 bytes", "half, compressed since", "half of what was compressed"])
def test_a_part_of_an_image_never_enters(
    capsys: pytest.CaptureFixture[str], node: t.Any, tmp_path: Path, kept: str, check_mode: bool
) -> None:
    image, source = tmp_path / "whole.qcow2", tmp_path / "random"
    source.write_bytes(random.Random(1).randbytes(4 * 1024 * 1024))
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(source), str(image)], check=True)
    whole = image.read_bytes()
    parts = {
        "half": whole[: len(whole) // 2],
        "600 bytes": whole[:600],
        "half, compressed since": gzip.compress(whole[: len(whole) // 2]),
        "half of what was compressed": gzip.compress(whole)[: len(whole) // 2],
    }
    image.write_bytes(parts[kept])
    result = run(capsys, uri=node.uri(), name="debian", path=str(image), _ansible_check_mode=check_mode)
    if kept == "half, compressed since" and check_mode:
        # What is in a compressed file is hashed as it comes by; nothing has all of it before it is stored.
        assert result["changed"] is True
    else:
        assert "is truncated" in result["msg"] or "is truncated" in result["msg"], result
    assert node.names() == []


def test_an_image_that_turns_out_to_be_stored_is_known_the_next_time(
    task: Task, node: t.Any, web: t.Any, source: str
) -> None:
    assert task(path=source)["changed"] is True
    spec = {"url": web.put("image.xz", XZ), "checksum": sha(XZ, "sha512")}
    result = task(**spec)
    assert (result["changed"], result["image"]["volume"], web.asked) == (False, VOLUME, ["image.xz"])
    assert task(check_mode=True, **spec)["changed"] is False
    assert task(**spec)["changed"] is False
    # The same file by another way, and by another of its checksums.
    assert task(src="x", checksum=sha(XZ))["changed"] is False
    assert (web.asked, node.names()) == (["image.xz"], [VOLUME])


def test_a_compressed_file_here_is_looked_into(task: Task, node: t.Any, source: str, tmp_path: Path) -> None:
    task(path=source)
    (tmp_path / "source.xz").write_bytes(XZ)
    # That it is stored, nobody knows but by looking into it; check mode does, and remembers nothing.
    for check_mode in (True, True, False, False):
        result = task(path=f"{tmp_path}/source.xz", check_mode=check_mode)
        assert (result["changed"], result["image"]["volume"]) == (False, VOLUME)
        # A run would still note the file, so that the next one need not look into it.
        assert result["stored"] is not check_mode
        assert task(src="x", checksum=sha(XZ), check_mode=True)["changed"] is check_mode
    assert node.names() == [VOLUME]


def test_an_image_is_known_by_what_it_is_itself(
    task: Task, capsys: pytest.CaptureFixture[str], node: t.Any, web: t.Any, source: str
) -> None:
    task(path=source)
    url = web.put("image.xz", XZ)
    spec = {"url": url, "checksum": sha(XZ), "content_checksum": sha(CONTENT)}
    for check_mode in (True, False):
        assert task(check_mode=check_mode, **spec)["changed"] is False
        twin = task(name=f"web{check_mode}", check_mode=check_mode, **spec)
        assert (twin["changed"], twin["image"]["sha256"]) == (True, SHA256)
    assert web.asked == []
    # That this image is in that file has been said, and seen by nobody: it is not noted.
    assert task(url=url, checksum=sha(XZ), check_mode=True)["changed"] is True
    assert task(name="webFalse", url=url, checksum=sha(XZ), check_mode=True)["changed"] is True
    # Nothing enters that is another one, and one that is there is not taken for another.
    wrong = {"name": "other", "url": url, "checksum": sha(XZ), "content_checksum": sha(b"")}
    assert task(check_mode=True, **wrong)["image"]["sha256"] == sha(b"")[7:]
    result = run(capsys, uri=node.uri(), **wrong)
    says = f"content_checksum: the image in {url} has the sha256 {SHA256}, not {sha(b'')[7:]}. Nothing was stored"
    assert result["msg"].startswith(says)
    task(**{**wrong, "content_checksum": sha(CONTENT)})
    result = run(capsys, uri=node.uri(), **wrong)
    assert result["msg"].startswith("content_checksum: ")
    assert [name.split("-")[0] for name in node.names()] == ["debian", "other", "webFalse"]


def test_an_image_of_another_name_is_not_transferred(task: Task, node: t.Any, web: t.Any) -> None:
    spec = {"url": web.put("image.xz", XZ), "checksum": sha(XZ)}
    task(**spec)
    checked = task(name="web", check_mode=True, **spec)
    result = task(name="web", **spec)
    assert checked["changed"] is result["changed"] is True
    assert checked["image"] == result["image"]
    assert result["image"]["volume"] == f"web-{SHA256[:16]}.raw"
    assert task(name="web", **spec)["changed"] is False
    # And for a file of the controller, which then need not be sent.
    sent = task(name="sent", src="x", checksum=sha(XZ))
    assert (sent["changed"], sent["image"]["volume"]) == (True, f"sent-{SHA256[:16]}.raw")
    assert (web.asked, len(node.names())) == (["image.xz"], 3)


def test_one_content_under_two_names_is_stored_once(task: Task, node: t.Any, source: str) -> None:
    task(path=source)
    (volume,) = (node.directory / name for name in node.names())
    result = task(name="other", path=source)
    twin = node.directory / f"other-{SHA256[:16]}.raw"
    assert (result["changed"], result["image"]["path"], result["image"]["sha256"]) == (True, str(twin), SHA256)
    assert (volume.stat().st_ino, volume.stat().st_nlink) == (twin.stat().st_ino, 2)
    assert twin.stat().st_mode & 0o777 == 0o444
    assert task(name="other", path=source)["changed"] is False
    # Each name goes by itself.
    volume.unlink()
    assert (twin.read_bytes(), node.names()) == (CONTENT, [twin.name])


@pytest.mark.parametrize("noted", [True, False])
def test_an_image_that_gets_a_name_later_is_the_newest_of_it(
    task: Task, node: t.Any, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: bool
) -> None:
    """New content as staging, then other content as prod, then the new content as prod too: as a link to the old file,
    or, where no time can be noted, as a file of its own."""
    (tmp_path / "other.img").write_bytes(b"\x02" * 1024)

    def refuse(*_args: t.Any) -> None:
        raise OSError(errno.ENOTSUP, "")

    if not noted:
        monkeypatch.setattr(os, "setxattr", refuse)
    task(name="staging", path=source)
    first = task(name="prod", path=f"{tmp_path}/other.img")["image"]["volume"]
    last = task(name="prod", path=source)["image"]["volume"]
    assert (node.directory / last).stat().st_nlink == (2 if noted else 1)
    pruned = task(name="prod", state="pruned", keep=1)
    assert [item["volume"] for item in pruned["pruned"]] == [first]
    assert last in node.names()


def test_a_damaged_image_gets_no_other_name(task: Task, node: t.Any, source: str) -> None:
    task(path=source)
    (node.directory / VOLUME).chmod(0o644)
    (node.directory / VOLUME).write_bytes(b"\x02" * len(CONTENT))
    result = task(name="other", path=source)
    assert (node.directory / result["image"]["volume"]).read_bytes() == CONTENT


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_that_somebody_still_writes_has_no_wrong_checksum(
    capsys: pytest.CaptureFixture[str],
    uri: str,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    pack: t.Callable[[bytes], bytes],
) -> None:
    Path(source).write_bytes(pack(CONTENT))

    def grow(_path: str) -> list[str]:
        with open(source, "ab") as file:
            file.write(pack(CONTENT))
        return []

    # Between the two looks at it.
    monkeypatch.setattr(image_files, "clear_parts", grow)
    result = run(capsys, name="debian", path=source, uri=uri)
    assert result["msg"] == f"path: {source} has changed since this run looked at it. Run the task again"


def test_without_links_the_image_is_copied(
    task: Task, node: t.Any, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_args: object, **_options: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unsupported)
    task(path=source)
    result = task(name="other", path=source)
    assert (node.directory / result["image"]["volume"]).read_bytes() == CONTENT
    assert (node.directory / VOLUME).stat().st_nlink == 1


def test_what_the_file_system_forgets_is_transferred_again(
    node: t.Any, web: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []

    def have(url: str, checksum: str) -> dict[str, t.Any]:
        warnings.clear()
        defaults = {name: option.get("default") for name, option in virt_image.ARGUMENTS.items()}
        spec = {**defaults, "name": "debian", "url": url, "checksum": checksum, "uri": node.uri()}
        return have_image(spec, check_mode=False, warn=warnings.append)

    def unsupported(*_args: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", unsupported)
    monkeypatch.setattr(os, "getxattr", unsupported)
    url = web.put("image.xz", XZ)
    for changed in (True, False):
        assert have(url, sha(XZ))["changed"] is changed
        assert warnings == [FORGETS.format(pool="images", name="debian")]
    assert (web.asked, node.names()) == (["image.xz"] * 2, [VOLUME])
    # What is not compressed is known by its name, or by reading it.
    for algorithm in ("sha256", "sha512"):
        result = have(URL, sha(CONTENT, algorithm))
        assert (result["changed"], result["image"]["sha256"], warnings) == (False, SHA256, [])


def test_a_checksum_file_is_fetched_first_and_the_image_when_it_has_a_new_one(
    task: Task, node: t.Any, web: t.Any
) -> None:
    url = web.put("image.raw.xz", XZ)
    sums = web.put("SHA512SUMS", f"{sha(b'', 'sha512')[7:]}  other\n{sha(XZ, 'sha512')[7:]}  image.raw.xz\n".encode())
    spec = {"url": url, "checksum": sums}
    assert task(check_mode=True, **spec)["changed"] is True
    assert web.asked == ["SHA512SUMS"]
    assert task(**spec)["changed"] is True
    assert task(**spec)["changed"] is False
    assert web.asked == ["SHA512SUMS"] * 2 + ["image.raw.xz", "SHA512SUMS"]
    newer = lzma.compress(bytes(512))
    web.put("image.raw.xz", newer)
    web.put("SHA512SUMS", f"SHA512 (image.raw.xz) = {sha(newer, 'sha512')[7:]}\n".encode())
    assert task(**spec)["changed"] is True
    assert len(node.names()) == 2


@pytest.mark.parametrize("kind", ["cut", "damaged", "another"])
def test_what_goes_wrong_on_the_way_leaves_nothing(
    capsys: pytest.CaptureFixture[str], uri: str, node: t.Any, web: t.Any, kind: str
) -> None:
    packed = XZ[:-8] if kind == "damaged" else XZ
    url = web.put("image.xz", packed)
    web.cut = 20 if kind == "cut" else None
    checksum = sha(b"another") if kind == "another" else sha(packed)
    (node.directory / ".brine-part-of-a-killed-run").touch()
    result = run(capsys, name="debian", url=url, checksum=checksum, uri=uri)
    says = {
        "cut": f"the download of {url} broke off after 20 of {len(XZ)} bytes",
        "damaged": f"{url} cannot be decompressed as xz: it is truncated",
        "another": f"checksum: {url} has the sha256 {sha(XZ)[7:]}, not {sha(b'another')[7:]}. Nothing was stored",
    }
    assert result["msg"].startswith(says[kind])
    assert node.names() == []


KILLED = """
import sys
from ansible_collections.brine.virt.plugins.module_utils._host.images.files import Deadline
from ansible_collections.brine.virt.plugins.module_utils._host.images.ingest import ImageSource
from ansible_collections.brine.virt.plugins.module_utils._host.images.store import ImageStore
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
with open_connection(sys.argv[1]) as conn:
    ImageStore(conn, "images").bring("debian", ImageSource(path=sys.argv[2]), Deadline(600))
"""


@pytest.mark.skipif(not shutil.which("zstd"), reason="zstd is not installed")
def test_what_a_killed_run_leaves_is_no_image_and_goes(
    task: Task, node: t.Any, tmp_path: Path, other_process: dict[str, str]
) -> None:
    (tmp_path / "image.zst").write_bytes(subprocess.run(["zstd"], input=CONTENT, stdout=-1, check=True).stdout)
    # One that writes something and is then never done, until there is nobody to read from any more.
    slow = tmp_path / "bin" / "zstd"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nhead -c 100000 /dev/urandom\ncat > /dev/null\nexec tail -f /dev/null --pid=$PPID\n")
    slow.chmod(0o700)
    environment = {**other_process, "PATH": f"{slow.parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-c", KILLED, node.uri(), f"{tmp_path}/image.zst"]
    with subprocess.Popen(command, env=environment) as process:
        end = time.monotonic() + 300
        while not any(path.stat().st_size for path in node.directory.iterdir()):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    assert [name.startswith(".brine-part-") for name in node.names()] == [True]
    assert task(path=f"{tmp_path}/image.zst", check_mode=True)["changed"] is True
    assert task(path=f"{tmp_path}/image.zst")["changed"] is True
    assert node.names() == [VOLUME]


@pytest.mark.parametrize("packed", [True, False], ids=["compressed", "plain"])
def test_a_full_disk_leaves_nothing(
    capsys: pytest.CaptureFixture[str], small_disk: Path, tmp_path: Path, web: t.Any, packed: bool
) -> None:
    (tmp_path / "node.xml").write_text(
        f"<node><pool type='dir'><name>images</name><target><path>{small_disk}</path></target></pool></node>"
    )
    content = b"\x01" * (80 * 1024 * 1024)
    content = gzip.compress(content, mtime=0) if packed else content
    (tmp_path / "image").write_bytes(content)
    for source in ({"url": web.put("image", content)}, {"path": f"{tmp_path}/image"}):
        result = run(capsys, name="debian", checksum=sha(content), uri=f"test://{tmp_path}/node.xml", **source)
        says = "needs more free space than there is in" if packed else "needs 80.0M in"
        assert says in result["msg"]
        assert result["msg"].endswith("Free some space, or choose another pool")
        assert list(small_disk.iterdir()) == []
    found = os.statvfs(small_disk)
    assert found.f_bfree == found.f_blocks


def test_images_are_pruned_and_removed(task: Task, node: t.Any, web: t.Any, source: str) -> None:
    task(path=source)
    task(name="other", path=source)
    other = f"other-{SHA256[:16]}.raw"
    pruned = task(name=None, state="pruned")
    assert (pruned["changed"], pruned["pruned"]) == (False, [])
    assert [item["reason"] for item in pruned["kept"]] == ["the newest of its name"] * 2
    for check_mode in (True, False):
        pruned = task(state="pruned", keep=0, check_mode=check_mode)
        assert pruned["changed"] is True
        assert pruned["pruned"] == [{"name": "debian", "volume": VOLUME, "pool": "images", "size_bytes": 1024}]
        assert (pruned["kept"], pruned["used_here"]) == ([], [])
        assert pruned["diff"] == {"before": {"volumes": [VOLUME, other]}, "after": {"volumes": [other]}}
    removed = task(name=other, state="absent")
    assert (removed["changed"], [item["volume"] for item in removed["pruned"]]) == (True, [other])
    assert "kept" not in removed
    assert task(name="nothing", state="absent")["changed"] is False


REFUSED: list[tuple[dict[str, t.Any], str]] = [
    ({}, "state is present but any of the following are missing: src, url, path"),
    ({"src": "", "checksum": f"sha256:{SHA256}"}, "src: it is empty. Give one of src, url, path and machine"),
    ({"url": "", "checksum": f"sha256:{SHA256}"}, "url: it is empty. Give one of src, url, path and machine"),
    ({"machine": ""}, "machine: it is empty. Give one of src, url, path and machine"),
    ({"path": "SOURCE", "name": None}, "state is present but all of the following are missing: name"),
    ({"state": "absent", "name": None}, "state is absent but all of the following are missing: name"),
    ({"state": "absent", "path": "SOURCE"}, "path: does not apply to state: absent. It is for state: present"),
    ({"state": "pruned", "checksum": "x"}, "checksum: does not apply to state: pruned. It is for state: present"),
    ({"path": "SOURCE", "keep": 0}, "keep: does not apply to state: present. It is for state: pruned"),
    (
        {"path": "SOURCE", "ignore_unseen": True},
        "ignore_unseen: does not apply to state: present. It is for state: abs",
    ),
    ({"url": URL, "checksum": "sha256:" + "0" * 64, "timeout": 0}, "timeout: 0 is less than 1"),
    ({"state": "pruned", "keep": -1}, "keep: -1 is not a valid number of images. 0 keeps none of the unused"),
    ({"state": "pruned", "name": f"debian-{'0' * 16}/x"}, "is not a name"),
    ({"state": "absent", "name": "a/b"}, "name: 'a/b' is not a name"),
    ({"state": "absent", "pool": "image"}, "pool: there is no storage pool 'image'. Did you mean images?"),
    ({"url": URL, "checksum": "ftp://x/y"}, "checksum: 'ftp://x/y' is not a checksum. Write it like sha256:"),
    ({"url": URL, "checksum": "https:///x"}, "checksum: 'https:///x' is not an address to download from"),
    ({"url": URL, "checksum": "http://127.0.0.1:1/SHA256SUMS"}, "cannot download http://127.0.0.1:1/SHA256SUMS: "),
    ({"path": "/a", "url": URL, "checksum": f"sha256:{SHA256}"}, "are mutually exclusive: src|url|path"),
    ({"url": URL}, "missing parameter(s) required by 'url': checksum"),
    ({"url": URL, "checksum": "md5:0"}, "checksum: 'md5:0' is not a checksum. Write it like sha256:"),
    ({"url": "ftp://x/y", "checksum": f"sha256:{SHA256}"}, "url: 'ftp://x/y' is not an address to download from"),
    ({"path": "/a/b", "name": "../x"}, "name: '../x' is not a name"),
    ({"path": "/nowhere/at/all"}, "path: there is no file /nowhere/at/all"),
    ({"path": "/"}, "path: / is not a file"),
    ({"path": "SOURCE", "pool": "image"}, "pool: there is no storage pool 'image'. Did you mean images?"),
    ({"path": "SOURCE", "uri": "qemu+ssh://elsewhere/system"}, "uri: images are stored on the host that the task runs"),
    ({"path": "SOURCE", "checksum": f"sha256:{'0' * 64}"}, f"has the sha256 {SHA256}, not {'0' * 64}"),
    ({"path": "SOURCE", "content_checksum": "x"}, "content_checksum: 'x' is not a checksum"),
    (
        {"path": "SOURCE", "content_checksum": f"sha512:{'0' * 128}"},
        "0' is not a sha256. Stored images are identified by their sha256",
    ),
    ({"path": "SOURCE", "content_checksum": f"sha256:{'0' * 64}"}, "content_checksum: the image in "),
    ({"path": "SOURCE", "sorce": "x"}, "Unsupported parameters"),
]


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(("options", "text"), REFUSED)
def test_what_is_wrong_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
    uri: str,
    source: str,
    tmp_path: t.Any,
    options: dict[str, t.Any],
    text: str,
    check_mode: bool,
) -> None:
    given = {"name": "debian", "uri": uri, **options, "_ansible_check_mode": check_mode}
    given = {key: value for key, value in given.items() if value is not None}
    if given.get("path") == "SOURCE":
        given["path"] = source
    result = run(capsys, **given)
    assert result["failed"] is True
    assert text in result["msg"]
    assert "\n" not in result["msg"]
    assert os.listdir(tmp_path / "store") == []


def test_a_null_is_no_source(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    result = run(capsys, name="debian", uri=uri, src=None, checksum=f"sha256:{SHA256}")
    assert result["msg"].startswith("there is nothing that the image is to be made of. Give one of src, url, path and")
