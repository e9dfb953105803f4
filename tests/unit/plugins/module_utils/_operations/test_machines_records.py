# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of machines at the end of a run."""

from __future__ import annotations

import re

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import records_of


def test_a_connection_that_breaks_at_the_end_does_not_hide_what_was_done() -> None:
    warnings: list[str] = []
    with open_connection("test:///default") as conn:
        assert set(records_of(conn, ["test"], warnings.append)) == {"test"}
        assert warnings == []
    assert records_of(conn, ["test"], warnings.append) == {}
    assert re.match("The current state of the machines cannot be determined: .", warnings[0])
