# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a machine that does not answer."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._work.arrival import _why_no_address

TABLE = "the hypervisor's neighbour table does not know its MAC address"


@pytest.mark.parametrize(
    ("errors", "words", "not_words"),
    [
        ([], TABLE, "besides"),
        (["cannot read the neighbour table: wrong nlmsg len"], "besides, cannot read the neighbour table", TABLE),
    ],
)
def test_a_table_that_could_not_be_read_is_not_said_to_lack_something(
    errors: list[str], words: str, not_words: str
) -> None:
    with open_connection("test:///default") as conn:
        said = _why_no_address(conn, {"name": "test", "errors": errors})
    assert words in said
    assert not_words not in said
