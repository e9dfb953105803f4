# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding stored images, on libvirt's own test driver."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.images.listing import StoredImage, find_image_in
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools

A, B = "a" * 16, "b" * 16
VOLUMES = [f"debian-{A}.qcow2", f"fedora-{A}.qcow2", f"fedora-{B}.raw", "by-hand.qcow2", f"debian-12-{B}.raw"]


@pytest.fixture
def pool(tmp_path: t.Any) -> t.Iterator[Pool]:
    """A pool with images."""
    # A node of one's own: the connections to test:///default within one process share their pools.
    node = tmp_path / "node.xml"
    node.write_text("<node/>")
    with open_connection(f"test://{node}") as conn:
        xml = f"<pool type='dir'><name>images</name><target><path>{tmp_path}</path></target></pool>"
        handle = conn.storagePoolCreateXML(xml, 0)
        for name in VOLUMES:
            handle.createXML(f"<volume><name>{name}</name><capacity unit='MiB'>2</capacity></volume>", 0)
        yield Pools(conn).get("images")


@pytest.mark.parametrize("asked", ["debian", f"debian-{A}.qcow2", f"debian-{A}.raw"])
def test_an_image_is_found_by_its_plain_name_and_by_its_volume(pool: Pool, tmp_path: t.Any, asked: str) -> None:
    volume = f"debian-{A}.qcow2"
    assert find_image_in(pool, asked) == StoredImage(
        name="debian",
        volume=volume,
        pool="images",
        path=f"{tmp_path}/{volume}",
        format="qcow2",
        virtual_size_bytes=2 * 1024 * 1024,
        digest=A,
    )


def test_a_name_with_dashes_is_not_taken_for_a_shorter_one(pool: Pool) -> None:
    assert find_image_in(pool, "debian-12").volume == f"debian-12-{B}.raw"


def test_one_of_several_is_found_by_its_volume_alone(pool: Pool) -> None:
    assert find_image_in(pool, f"fedora-{B}.raw").format == "raw"
    with pytest.raises(ConflictError) as caught:
        find_image_in(pool, "fedora")
    assert str(caught.value) == (
        f"pool images has 2 images called 'fedora'. Name one of the volumes: fedora-{A}.qcow2, fedora-{B}.raw"
    )


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("debain", "there is no image 'debain' in pool images. Did you mean debian?"),
        ("by-hand", "Known: debian, debian-12, fedora"),
        ("by-hand.qcow2", "Known: debian, debian-12, fedora"),
    ],
)
def test_what_is_not_there_is_one_sentence(pool: Pool, asked: str, text: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        find_image_in(pool, asked)
    assert text in str(caught.value)
