# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of stored images."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._model.image.name import (
    ImageName,
    image_name,
    parse_image_volume,
)

D = "0123456789abcdef"


def test_a_name_says_the_content() -> None:
    assert image_name("debian", D.upper() + "f" * 48, "qcow2").volume == f"debian-{D}.qcow2"


@pytest.mark.parametrize(
    ("volume", "name"),
    [
        (f"debian-{D}.qcow2", ImageName("debian", D, "qcow2")),
        (f"debian-12.5_x-{D}.raw", ImageName("debian-12.5_x", D, "raw")),
        (f"a-{D}-{D}.raw", ImageName(f"a-{D}", D, "raw")),
    ],
)
def test_a_volume_of_the_store_is_read(volume: str, name: ImageName) -> None:
    assert parse_image_volume(volume) == name


@pytest.mark.parametrize(
    "volume",
    [
        "debian.qcow2",
        f"debian-{D}.vmdk",
        f"debian-{D[1:]}.qcow2",
        f"debian-{D.upper()}.qcow2",
        f"-{D}.qcow2",
        f".brine-part-{D}.qcow2",
        f"debian-{D}.qcow2\n",
        f"debian-{D}.qcow2.bak",
        f"a/b-{D}.raw",
        "",
    ],
)
def test_any_other_volume_is_none_of_ours(volume: str) -> None:
    assert parse_image_volume(volume) is None


@given(
    st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z"),
    st.from_regex(r"\A[0-9a-f]{64}\Z"),
    st.sampled_from(["raw", "qcow2"]),
)
def test_every_name_that_is_made_is_read_again(name: str, sha256: str, image_format: str) -> None:
    made = image_name(name, sha256, image_format)
    assert parse_image_volume(made.volume) == made
