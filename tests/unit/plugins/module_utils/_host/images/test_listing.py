# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding stored images, on libvirt's own test driver."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, NotFoundError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.images.listing import StoredImage, find_image

A, B = "a" * 16, "b" * 16
VOLUMES = [f"debian-{A}.qcow2", f"fedora-{A}.qcow2", f"fedora-{B}.raw", "by-hand.qcow2", f"debian-12-{B}.raw"]


@pytest.fixture
def conn(tmp_path: t.Any) -> t.Iterator[VirConnect]:
    """A hypervisor with two image pools: one with volumes, one that is not active."""
    # A node of one's own: the connections to test:///default within one process share their pools.
    node = tmp_path / "node.xml"
    node.write_text("<node/>")
    with open_connection(f"test://{node}") as conn:
        xml = "<pool type='dir'><name>{}</name><target><path>{}</path></target></pool>"
        pool = conn.storagePoolCreateXML(xml.format("images", tmp_path), 0)
        conn.storagePoolDefineXML(xml.format("asleep", tmp_path / "asleep"), 0)
        for name in VOLUMES:
            pool.createXML(f"<volume><name>{name}</name><capacity unit='MiB'>2</capacity></volume>", 0)
        yield conn


@pytest.mark.parametrize("asked", ["debian", f"debian-{A}.qcow2"])
def test_an_image_is_found_by_its_plain_name_and_by_its_volume(conn: VirConnect, tmp_path: t.Any, asked: str) -> None:
    volume = f"debian-{A}.qcow2"
    assert find_image(conn, asked) == StoredImage(
        name="debian",
        volume=volume,
        pool="images",
        path=f"{tmp_path}/{volume}",
        format="qcow2",
        virtual_size_bytes=2 * 1024 * 1024,
        digest=A,
    )


def test_a_name_with_dashes_is_not_taken_for_a_shorter_one(conn: VirConnect) -> None:
    assert find_image(conn, "debian-12").volume == f"debian-12-{B}.raw"


def test_one_of_several_is_found_by_its_volume_alone(conn: VirConnect) -> None:
    assert find_image(conn, f"fedora-{B}.raw").format == "raw"
    with pytest.raises(ConflictError) as caught:
        find_image(conn, "fedora", where="machines[0].image")
    assert str(caught.value) == (
        "machines[0].image: pool images has 2 images called 'fedora'. "
        f"Name one of the volumes: fedora-{A}.qcow2, fedora-{B}.raw"
    )


@pytest.mark.parametrize(
    ("asked", "pool", "error", "text"),
    [
        ("debain", "images", NotFoundError, "there is no image 'debain' in pool images. Did you mean debian?"),
        ("by-hand", "images", NotFoundError, "Known are: debian, debian-12, fedora"),
        ("by-hand.qcow2", "images", NotFoundError, "Known are: debian, debian-12, fedora"),
        ("debian", "imags", NotFoundError, "there is no storage pool 'imags'. Did you mean images?"),
        ("debian", "asleep", ConflictError, "storage pool 'asleep' is not active"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    conn: VirConnect, asked: str, pool: str, error: type[VirtError], text: str
) -> None:
    with pytest.raises(error) as caught:
        find_image(conn, asked, pool)
    assert text in str(caught.value)
