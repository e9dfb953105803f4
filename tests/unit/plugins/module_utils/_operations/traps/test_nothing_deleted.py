# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What takes something from a machine, or a name, and deletes no volume at all, whoever uses it or nobody."""

from __future__ import annotations

import shutil
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._operations.adopt import machines as adopt_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.create.claims import (
    Claim,
    make_claims,
    withdraw_claims,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import (
    SPEC,
    PurgeHost,
    disk,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.traps.deletions import (
    TWO_DISKS,
    plan_and_run,
)

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


def take_a_disk_out(host: PurgeHost) -> None:
    host.make(**TWO_DISKS)
    before = host.files()
    disks = [*SPEC["disks"], {"name": "more", "state": "absent"}]
    assert "which stays as" in plan_and_run(host, lambda: None, False, disks=disks)
    assert [note.name for note in host.notes().volumes] == ["web1-system.qcow2"]
    assert host.files() == before


def withdraw_a_claim(host: PurgeHost) -> None:
    """Somebody has given it a disk."""
    claims = make_claims(host.conn, [Claim("web1", 128, 1)], {})
    host.attach("web1", disk(host.image(host.pool / "theirs.qcow2")))
    before = host.files()
    assert withdraw_claims(host.conn, claims) == ["web1"]
    assert host.files() == before


def adopt(host: PurgeHost) -> None:
    host.guest("web1", disk(host.image(host.pool / "theirs.qcow2")))
    before = host.files()
    results = adopt_machines.plan_adoptions(host.conn, ["web1"], ["vda"])
    adopt_machines.carry_out(host.conn, results, ["vda"], lock_seconds=1)
    assert results[0].error is None
    assert [note.name for note in host.notes().volumes] == ["theirs.qcow2"]
    assert host.files() == before


@pytest.mark.parametrize("work", [take_a_disk_out, withdraw_a_claim, adopt])
def test_all_files_are_as_before(host: PurgeHost, work: t.Callable[[PurgeHost], None]) -> None:
    work(host)
