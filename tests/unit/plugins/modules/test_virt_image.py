# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_image as a task calls it, on libvirt's test driver: what check mode says, and what is refused before anything.

The real run is proven on real hypervisors by tests/integration/lab/virt_image.yml.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.modules import virt_image

CONTENT = b"\x01" * 1024
SHA256 = hashlib.sha256(CONTENT).hexdigest()
URL = "http://127.0.0.1:1/never-asked"


@pytest.fixture
def uri(tmp_path: t.Any) -> str:
    """A node of libvirt's test driver with a pool in tmp_path/store."""
    (tmp_path / "store").mkdir()
    pool = f"<pool type='dir'><name>images</name><target><path>{tmp_path}/store</path></target></pool>"
    (tmp_path / "node.xml").write_text(f"<node>{pool}</node>")
    return f"test://{tmp_path}/node.xml"


@pytest.fixture
def source(tmp_path: t.Any) -> str:
    (tmp_path / "source.img").write_bytes(CONTENT)
    return f"{tmp_path}/source.img"


def run(capsys: pytest.CaptureFixture[str], **options: t.Any) -> dict[str, t.Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        virt_image.main()
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
def test_check_mode_knows_all_of_a_file_on_the_hypervisor(
    capsys: pytest.CaptureFixture[str], uri: str, source: str, tmp_path: t.Any
) -> None:
    result = run(capsys, name="debian", path=source, uri=uri, _ansible_check_mode=True)
    volume = f"debian-{SHA256[:16]}.raw"
    assert result["changed"] is True
    assert result["image"] == {
        "name": "debian",
        "volume": volume,
        "pool": "images",
        "path": f"{tmp_path}/store/{volume}",
        "format": "raw",
        "sha256": SHA256,
        "size_bytes": 1024,
        "virtual_size_bytes": 1024,
    }
    assert result["diff"] == {"before": {"volumes": []}, "after": {"volumes": [volume]}}
    assert os.listdir(tmp_path / "store") == []


def test_check_mode_downloads_nothing(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    for checksum in (f"sha256:{SHA256}", f"sha512:{'0' * 128}"):
        result = run(capsys, name="debian", url=URL, checksum=checksum, uri=uri, _ansible_check_mode=True)
        assert result["changed"] is True
        assert result["image"]["volume"] is None
        assert result["diff"]["after"] == {"volumes": [f"debian with the {checksum}"]}


def test_for_a_file_of_the_controller_the_store_is_only_asked(capsys: pytest.CaptureFixture[str], uri: str) -> None:
    result = run(capsys, name="debian", src="debian.img", checksum=f"sha256:{SHA256}", uri=uri)
    assert result["changed"] is True
    assert (result["image"]["volume"], result["image"]["sha256"]) == (None, SHA256)


REFUSED: list[tuple[dict[str, t.Any], str]] = [
    ({}, "one of the following is required: src, url, path"),
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
    if given.get("path") == "SOURCE":
        given["path"] = source
    result = run(capsys, **given)
    assert result["failed"] is True
    assert text in result["msg"]
    assert "\n" not in result["msg"]
    assert os.listdir(tmp_path / "store") == []
