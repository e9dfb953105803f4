# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of the next backup."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import next_id

NOW = datetime(2026, 11, 23, 2, 0, 0, 999, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("there", "name"),
    [
        ([], "20261123T020000Z-full"),
        (["20261122T020000Z-full"], "20261123T020000Z-full"),
        (["20261123T020000Z-incremental", "20261122T020000Z-full"], "20261123T020001Z-full"),
        (["20991231T235959Z-full"], "21000101T000000Z-full"),
    ],
)
def test_it_is_later_than_all(there: list[str], name: str) -> None:
    assert next_id(there, "full", NOW) == name


def test_nothing_is_later_than_the_end_of_time() -> None:
    with pytest.raises(ConflictError, match=r"no backup can be later than 99991231T235959Z-full.*move it away"):
        next_id(["99991231T235959Z-full"], "full", NOW)
