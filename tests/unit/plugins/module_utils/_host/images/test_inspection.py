# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images that are what they seem, and those that are not, as qemu-img makes them."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base import commands
from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, InputError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.images.inspection import (
    Inspection,
    inspect_file,
    require_file,
)

pytestmark = pytest.mark.medium

needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


@needs_qemu_img
@pytest.mark.parametrize("image_format", ["qcow2", "raw"])
def test_an_image_is_told_by_its_content_and_not_by_its_name(tmp_path: t.Any, image_format: str) -> None:
    path = str(tmp_path / "image.vmdk")
    subprocess.run(["qemu-img", "create", "-q", "-f", image_format, path, "3M"], check=True)
    assert inspect_file(path, "it") == Inspection(image_format, 3 * 1024 * 1024)


@needs_qemu_img
@pytest.mark.parametrize("begin", [b"", b"\xeb\x63"])
def test_a_vhd_of_fixed_size_is_none_though_qemu_img_takes_it_for_raw(tmp_path: t.Any, begin: bytes) -> None:
    path = tmp_path / "image"
    subprocess.run(["qemu-img", "create", "-q", "-f", "vpc", "-o", "subformat=fixed", str(path), "3M"], check=True)
    with path.open("r+b") as file:
        file.write(begin)
    with pytest.raises(InputError, match=r"^src: it is a vhd image\. Convert it first with qemu-img convert -f vpc "):
        inspect_file(str(path), "it", "src")


@needs_qemu_img
def test_an_image_that_qemu_img_cannot_read_is_refused(tmp_path: t.Any) -> None:
    path = tmp_path / "broken.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "1M"], check=True)
    content = bytearray(path.read_bytes())
    # Where its table of reference counts begins: in the middle of a cluster.
    content[48:56] = (65537).to_bytes(8, "big")
    path.write_bytes(content)
    with pytest.raises(HostError, match="qemu-img cannot read FILE: qemu-img: Could not open"):
        inspect_file(str(path), "FILE")


@needs_qemu_img
@pytest.mark.parametrize("options", [(), ("-c",)], ids=["plain", "compressed"])
@pytest.mark.parametrize("left", [0.97, 0.5, 600], ids=str)
def test_a_part_of_an_image_is_refused(tmp_path: t.Any, options: tuple[str, ...], left: float) -> None:
    source, path = tmp_path / "source.raw", tmp_path / "image.qcow2"
    source.write_bytes(os.urandom(8 * 1024 * 1024))
    subprocess.run(["qemu-img", "convert", *options, "-f", "raw", "-O", "qcow2", source, path], check=True)
    assert inspect_file(str(path), "FILE").format == "qcow2"
    os.truncate(path, int(left if left > 1 else path.stat().st_size * left))
    with pytest.raises(InputError, match=r"^FILE is truncated: it has .* Download it again, and give its checksum$"):
        inspect_file(str(path), "FILE")


@needs_qemu_img
def test_a_damaged_image_is_refused(tmp_path: t.Any) -> None:
    path = tmp_path / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "1M"], check=True)
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write 0 128k", str(path)], check=True, stdout=subprocess.DEVNULL)
    content = bytearray(path.read_bytes())
    # The second entry of the only table of clusters becomes the same as the first.
    table = int.from_bytes(content[int.from_bytes(content[40:48], "big") :][:8], "big") & ~(1 << 63)
    content[table + 8 : table + 16] = content[table : table + 8]
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"^FILE is damaged, according to qemu-img check: ERROR.*Download it again"):
        inspect_file(str(path), "FILE")


@needs_qemu_img
def test_the_unused_rest_of_an_image_is_no_damage(tmp_path: t.Any) -> None:
    """Clusters that belong to nobody are a leak to qemu-img check, as in images of a writer that was killed."""
    path = tmp_path / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "1M"], check=True)
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write 0 128k", str(path)], check=True, stdout=subprocess.DEVNULL)
    content = bytearray(path.read_bytes())
    table = int.from_bytes(content[int.from_bytes(content[40:48], "big") :][:8], "big") & ~(1 << 63)
    content[table + 8 : table + 16] = bytes(8)
    path.write_bytes(content)
    checked = subprocess.run(["qemu-img", "check", "-f", "qcow2", str(path)], check=False, capture_output=True)
    assert checked.returncode == 3
    assert inspect_file(str(path), "FILE").format == "qcow2"


def _lying_header(**fields: int) -> bytes:
    """Of a version 3 qcow2 file with its tables at the clusters 1 (references), 2 and 3 (clusters)."""
    bits = fields["cluster_bits"]
    words = (3, 0, 0, bits, 1 << 20, 0, fields["l1_entries"], 3 << bits, 1 << bits, 1, 0, 0, 0, 0, 0)
    return struct.pack(">4sIQIIQIIQQIIQQQQII", b"QFI\xfb", *words, fields["refcount_order"], 104)


@needs_qemu_img
def test_an_image_with_damage_without_end_is_refused(tmp_path: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kilobytes as bzip2: qemu-img check has a complaint for each of a million million entries."""
    monkeypatch.setattr(commands, "_MOST_ERRORS_BYTES", 1 << 20)
    path, cluster, entries = tmp_path / "image.qcow2", 1 << 21, 1 << 18
    with path.open("wb") as file:
        file.write(_lying_header(cluster_bits=21, l1_entries=entries, refcount_order=4))
        file.seek(2 * cluster)
        # One table, all of whose entries are damaged, and to which all of the other table's lead.
        file.write(struct.pack(">Q", 1 << 63 | 4096) * (cluster // 8))
        file.write(struct.pack(">Q", 1 << 63 | 2 * cluster) * entries)
    with pytest.raises(InputError, match=r"^FILE is damaged, according to qemu-img check: ERROR.{1,200}Download it"):
        inspect_file(str(path), "FILE")


def test_an_image_that_takes_all_memory_to_check_is_refused(tmp_path: t.Any) -> None:
    path = tmp_path / "image.qcow2"
    path.write_bytes(_lying_header(cluster_bits=9, l1_entries=1, refcount_order=6))
    os.truncate(path, 128 << 30)
    with pytest.raises(InputError, match=r"^FILE has 128\.0G in such small clusters that .* take 2\.0G of memory"):
        inspect_file(str(path), "FILE")


def test_without_qemu_img_the_package_is_named(tmp_path: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "image.raw"
    path.write_bytes(bytes(512))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="qemu-img is not installed on this host.*qemu-utils"):
        inspect_file(str(path), "it")


@pytest.mark.parametrize(("name", "says"), [("", "is not a file"), ("nothing", "there is no file")])
def test_what_is_no_file_is_refused(tmp_path: t.Any, name: str, says: str) -> None:
    with pytest.raises(InputError, match=f"path: .*{says}"):
        require_file(str(tmp_path / name), "path")
