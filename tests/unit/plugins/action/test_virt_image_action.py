# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller's half of virt_image finds out about a file before it asks the hypervisor."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
import typing as t

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.brine.virt.plugins.action.virt_image import LocalImage, look_at_image

CONTENT = b"\x01" * 1024
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SHA512 = hashlib.sha512(CONTENT).hexdigest()


@pytest.mark.parametrize("checksum", [None, f"sha256:{SHA256}", f"sha512:{SHA512}"])
def test_an_image_is_hashed(tmp_path: t.Any, checksum: str | None) -> None:
    path = tmp_path / "image"
    path.write_bytes(CONTENT)
    found = look_at_image(str(path), checksum)
    assert found == LocalImage(SHA256, "raw", len(CONTENT), len(CONTENT))
    assert found.as_result("debian")["volume"] == f"debian-{SHA256[:16]}.raw"


def test_a_qcow2_image_is_as_large_as_its_disk(tmp_path: t.Any) -> None:
    if shutil.which("qemu-img") is None:
        pytest.skip("qemu-img is not installed (package qemu-utils)")
    path = tmp_path / "image"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "3G"], check=True)
    found = look_at_image(str(path), None)
    assert (found.format, found.virtual_size_bytes, found.size_bytes) == ("qcow2", 3 << 30, path.stat().st_size)


@pytest.mark.parametrize(
    ("content", "checksum", "text"),
    [
        (
            CONTENT,
            f"sha512:{'0' * 128}",
            f"checksum: PATH has the sha512 {SHA512}, not {'0' * 128}. Nothing was stored",
        ),
        (CONTENT, "sha1:0", "checksum: 'sha1:0' is not a checksum. Write it like sha256:"),
        (gzip.compress(CONTENT, mtime=0), None, "src: PATH is compressed with gzip. Give the image itself: gunzip"),
        (b"", None, "src: PATH is empty"),
        (None, None, "src: PATH is not a file"),
    ],
)
def test_what_must_not_be_sent_is_refused_in_one_sentence(
    tmp_path: t.Any, content: bytes | None, checksum: str | None, text: str
) -> None:
    path = tmp_path / "image"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(AnsibleActionFail) as caught:
        look_at_image(str(path), checksum)
    message = str(caught.value)
    assert message.startswith(text.replace("PATH", str(path)))
    assert message.count(text[:20].replace("PATH", str(path))) == 1
