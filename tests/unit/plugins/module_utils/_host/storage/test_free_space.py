# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import SpaceRequest, require_free_space

GIB = 1024**3


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ([], None),
        ([SpaceRequest("a", "x", 10 * GIB, 10 * GIB)], None),
        (
            [SpaceRequest("a", "x", 10 * GIB, 10 * GIB + 1)],
            "w: pool 'a' has 10.0G free, the new volumes need 10.0G at once",
        ),
        ([SpaceRequest("a", "x", 10 * GIB, 6 * GIB)] * 2, "pool 'a' has 10.0G free, the new volumes need 12.0G"),
        # Two pools in two places do not take from each other, two on one file system do.
        ([SpaceRequest("a", "x", 10 * GIB, 6 * GIB), SpaceRequest("b", "y", 10 * GIB, 6 * GIB)], None),
        (
            [SpaceRequest("b", "x", 10 * GIB, 6 * GIB), SpaceRequest("a", "x", 10 * GIB, 6 * GIB)],
            "pools 'a', 'b' count as one file system with 10.0G free, the new volumes need 12.0G",
        ),
        # What grows as it is written to does not count, and is not named.
        ([SpaceRequest("a", "x", 10 * GIB, 10 * GIB), SpaceRequest("b", "x", 10 * GIB, 0)], None),
        ([SpaceRequest("a", "x", 1, 2), SpaceRequest("b", "x", 1, 0)], "pool 'a' has 1.0B free"),
        # Of two checks of one place, the later one may have found less.
        ([SpaceRequest("a", "x", 10, 5), SpaceRequest("b", "x", 9, 5)], "9.0B free"),
    ],
)
def test_what_has_no_space_is_refused(requests: list[SpaceRequest], words: str | None) -> None:
    if words is None:
        require_free_space(requests, "w")
        return
    with pytest.raises(ConflictError) as caught:
        require_free_space(requests, "w")
    assert words in str(caught.value)
