# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a volume: what they become, and what is wrong with them, by its place."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import Checksum
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields.given import GivenOptions
from ansible_collections.brine.virt.plugins.module_utils._model.spec.resources.volume import (
    VolumeSpec,
    read_volume_spec,
)


def read(**options: t.Any) -> VolumeSpec:
    return read_volume_spec(GivenOptions.of({"name": "a", **options}, "volumes[2]"))


def test_what_is_not_named_is_as_usual() -> None:
    assert read() == VolumeSpec("a", pool="default", present=True, replace=False)


def test_values_are_clean() -> None:
    digest = "ab" * 32
    spec = read(size="1.5GiB", path="/a", checksum=f"SHA256:{digest.upper()}", replace="yes", mode="0640", owner=7)
    assert (spec.size_mib, spec.size_bytes, spec.replace, spec.source) == (1536, 1536 << 20, True, "/a")
    assert spec.checksum == Checksum("sha256", digest)
    assert spec.permissions == {"mode": "0640", "owner": "7"}
    assert read(state="absent").present is False


def test_an_iso_is_a_raw_disk() -> None:
    assert (read(format="iso").disk_format, read(format="qcow2").disk_format, read().disk_format) == (
        "raw",
        "qcow2",
        None,
    )


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", "-x", "a\nb", "x" * 256, True, None, {"a": 1}])
def test_a_name_is_that_of_one_file(name: t.Any) -> None:
    with pytest.raises(VirtError, match=r"^volumes\[2\]\.name: "):
        read(name=name)


@pytest.mark.parametrize("name", ["a b.iso", "unit:0:0:1", "Win11_24H2_German_x64.iso", "_a", 5])
def test_a_name_that_files_and_volumes_have(name: t.Any) -> None:
    assert read(name=name).name == str(name)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"src": "a", "path": "/a"}, "volumes[2]: src and path are given together"),
        ({"checksum": f"sha256:{'0' * 64}"}, "volumes[2].checksum: needs src or path"),
        ({"replace": True}, "volumes[2].replace: needs src or path"),
        ({"format": "iso", "size": "1MiB"}, "volumes[2].size: an ISO file is as large as its content"),
        ({"format": "vmdk"}, "volumes[2].format: 'vmdk' is not a choice. Choose one of qcow2, raw, iso"),
        ({"mode": 0o644}, "volumes[2].mode: 420 is not a mode of four octal digits in quotes"),
        ({"mode": "644"}, "volumes[2].mode: '644' is not a mode of four octal digits in quotes"),
        ({"size": "big"}, "volumes[2].size: 'big' is not a size"),
        ({"src": ""}, "volumes[2].src: it is empty"),
        ({"path": "a"}, "volumes[2].path: 'a' is not an absolute path"),
        ({"pool": "/srv"}, "volumes[2].pool: '/srv' is a directory, not the name of a storage pool"),
        ({"owner": "a b"}, "volumes[2].owner: 'a b' is not a user's name or number"),
        ({"checksum": "md5:0", "src": "a"}, "volumes[2].checksum: 'md5:0' is not a checksum"),
        ({"colour": "red"}, "volumes[2]: unknown option 'colour'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(options: dict[str, t.Any], words: str) -> None:
    with pytest.raises(VirtError) as caught:
        read(**options)
    assert str(caught.value).startswith(words)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(VirtError) as caught:
        read(format="iso", size="1MiB", replace=True, checksum=f"sha256:{'0' * 64}")
    assert len(str(caught.value).splitlines()) == 3
