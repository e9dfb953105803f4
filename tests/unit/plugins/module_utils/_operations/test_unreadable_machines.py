# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that no parser takes stops nothing that does not touch it, and nothing is done to it."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._operations.create.claims import look_for
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._host.machines.unreadable import define_unreadable
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Disks, Host, one

WORDS = "the description of machine ent1 cannot be read as XML: Entity 'x' not defined"


def test_another_machine_is_created(host: Host) -> None:
    define_unreadable(host.conn)
    host.make(one("web1", Disks.ON_IMAGE, {"size": 64}))
    assert not host.plan(one("web1", Disks.ON_IMAGE, {"size": 64}))[0].steps


def test_a_volume_that_it_may_have_is_not_given_to_another_one(host: Host) -> None:
    define_unreadable(host.conn)
    assert WORDS in host.refused(one("web1", Disks.WRITE))


def test_its_name_is_taken_and_nothing_is_done_to_it(host: Host) -> None:
    handle = define_unreadable(host.conn)
    before = handle.XMLDesc(0)
    with pytest.raises(VirtError, match=WORDS):
        host.plan(one("ent1", {"size": 64}))
    assert look_for(host.conn, ["ent1"]) == {"ent1": {"uuid": handle.UUIDString(), "claimed": False}}
    assert handle.XMLDesc(0) == before
