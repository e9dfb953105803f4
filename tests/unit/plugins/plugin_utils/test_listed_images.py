# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a list of a store's images tells of one that is asked for. A hypervisor wrote it, so it may be anything."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import Checksum
from ansible_collections.brine.virt.plugins.plugin_utils._listed_images import find_listed

SHA256 = "0123456789abcdef" * 4
OTHER = "f" * 64
PACKED = Checksum("sha512", "a" * 128)
IMAGE: dict[str, t.Any] = {
    "name": "debian",
    "volume": f"debian-{SHA256[:16]}.qcow2",
    "pool": "images",
    "format": "qcow2",
    "path": f"/images/debian-{SHA256[:16]}.qcow2",
    "size_bytes": 1000,
    "virtual_size_bytes": 2000,
    "provenance": f"content sha256:{SHA256}\norigin {PACKED}\nstored debian 1764271803123456789",
}
OLD = {**IMAGE, "volume": f"debian-{OTHER[:16]}.qcow2", "provenance": f"content sha256:{OTHER}"}


def find(listed: t.Any, origin: Checksum = PACKED) -> dict[str, t.Any] | None:
    return find_listed(listed, "debian", "images", origin)


@pytest.mark.parametrize("origin", [PACKED, Checksum("sha256", SHA256)])
def test_an_image_is_found_by_the_file_that_it_came_from_and_by_itself(origin: Checksum) -> None:
    volumes = {"volumes": [IMAGE["volume"], OLD["volume"]]}
    assert find([OLD, IMAGE, {**IMAGE, "name": "other", "volume": f"other-{SHA256[:16]}.qcow2"}], origin) == {
        "changed": False,
        "image": {
            "name": "debian",
            "volume": IMAGE["volume"],
            "pool": "images",
            "path": IMAGE["path"],
            "format": "qcow2",
            "sha256": SHA256,
            "size_bytes": 1000,
            "virtual_size_bytes": 2000,
        },
        "stored": True,
        "diff": {"before": volumes, "after": volumes},
    }


@pytest.mark.parametrize(
    "listed",
    [
        None,
        "debian",
        {"debian": IMAGE},
        ["debian", None, {}, []],
        [OLD],
        [{**IMAGE, "volume": f"other-{SHA256[:16]}.qcow2"}],
        [{**IMAGE, "volume": 7}],
        [{**IMAGE, "pool": "others"}],
        [{**IMAGE, "path": None}],
        [{**IMAGE, "size_bytes": None}],
        [{**IMAGE, "virtual_size_bytes": "2 GB"}],
        [{**IMAGE, "provenance": None}],
        [{**IMAGE, "provenance": ["content"]}],
        # The note of another file, which this one is a copy of.
        [{**IMAGE, "provenance": IMAGE["provenance"].replace(SHA256, OTHER)}],
        # Which sha256 it has is not noted.
        [{**IMAGE, "provenance": f"origin {PACKED}"}],
    ],
)
def test_of_anything_else_the_list_tells_nothing(listed: t.Any) -> None:
    assert find(listed) is None
