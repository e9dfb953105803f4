# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is saved with the devices that it has: what a task may change."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host, one


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"disks": [{"name": "d", "state": "absent"}]}, "without disk d"),
        ({"disks": [{"name": "e", "pool": "default", "size": "1MiB"}]}, "create empty disk e"),
        ({"disks": [{"name": "d", "pool": "default", "size": "2MiB"}]}, "grow disk d of a to 2 MiB"),
        ({"disks": [{"name": "d", "pool": "default", "size": "1MiB", "cache": "none"}]}, "cache of disk d"),
        ({"memory": 65, "disks": []}, "memory"),
        ({"disks": [{"name": "d", "state": "absent"}], "start": True}, "without disk d"),
    ],
)
def test_a_saved_machine_keeps_its_devices(host: Host, changes: dict[str, t.Any], words: str) -> None:
    host.make(one("a", {"size": "1MiB"}, start=True))
    host.conn.lookupByName("a").managedSave(0)
    message = host.refused({"name": "a", **changes})
    assert re.match(rf"machines\[0\]: a is saved, and will resume as it was, without these changes: .*{words}", message)
    assert message.endswith("Start it first, or discard its saved state: virsh managedsave-remove a")
    host.conn.lookupByName("a").managedSaveRemove(0)
    host.plan({"name": "a", **changes})


def test_what_a_saved_machine_may_have(host: Host) -> None:
    host.make(one("a", {"size": "1MiB"}, start=True))
    host.conn.lookupByName("a").managedSave(0)
    host.make(one("a", {"size": "1MiB"}, tags=["new"]))
    host.make(one("a", {"size": "1MiB"}, start=True))
    assert host.conn.lookupByName("a").isActive()
