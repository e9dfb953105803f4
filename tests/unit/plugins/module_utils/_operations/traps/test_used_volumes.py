# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing that somebody else uses is deleted or written over: every deletion, with every user that there can be."""

from __future__ import annotations

import shutil

import pytest

from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import PurgeHost
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.traps.deletions import (
    DELETIONS,
    MOMENTS,
    Deletion,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.traps.users import USERS, Trap

pytestmark = [pytest.mark.medium, pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")]


@pytest.mark.parametrize("trap", USERS, ids=lambda trap: trap.__name__)
@pytest.mark.parametrize(
    ("deletion", "late"), MOMENTS, ids=[f"{each.name}{', planned before' if late else ''}" for each, late in MOMENTS]
)
def test_it_stays_and_its_user_is_named(host: PurgeHost, deletion: Deletion, late: bool, trap: Trap) -> None:
    before: dict[str, str] = {}
    users: list[str] = []

    def spring() -> None:
        users.append(trap(host, host.pool / deletion.volume))
        before.update(host.files())

    deletion.prepare(host)
    words = deletion.run(host, spring, late)
    after = host.files()
    assert users[0] in words
    assert deletion.volume in before
    # What is the deletion's alone may go.
    kept = {name for name in before if name == deletion.volume or not name.startswith("web1-")}
    assert {name: after.get(name) for name in kept} == {name: before[name] for name in kept}


@pytest.mark.parametrize("deletion", DELETIONS, ids=lambda deletion: str(deletion.name))
def test_without_a_user_it_goes(host: PurgeHost, deletion: Deletion) -> None:
    """Or the rows above would say nothing."""
    before: dict[str, str] = {}
    deletion.prepare(host)
    deletion.run(host, lambda: before.update(host.files()), False)
    assert host.files().get(deletion.volume) != before[deletion.volume]
