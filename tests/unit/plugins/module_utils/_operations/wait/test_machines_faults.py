# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that cannot be read while several are waited for."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._operations.wait import machines as waiting
from ansible_collections.brine.virt.plugins.module_utils._operations.wait import ssh

OTHER = "<domain type='test'><name>other</name><memory>1</memory><os><type>hvm</type></os></domain>"


def test_its_error_does_not_hide_what_was_seen_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def greeting(_address: str, _port: int) -> tuple[bool, str]:
        raise KeyError("name")

    monkeypatch.setattr(ssh, "greeting", greeting)
    with open_connection("test:///default") as conn:
        conn.createXML(OTHER, 0)
        found = waiting.wait_for_machines(conn, ["test", "other"], port=22, timeout_seconds=0)
    seen = {one.name: one.seen for one in found}
    assert seen["other"].startswith("no address was found for it")
    assert seen["test"].startswith("it cannot be inspected (unexpected KeyError in test_machines_faults.py, line ")
