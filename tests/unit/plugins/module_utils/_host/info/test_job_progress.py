# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far libvirt's jobs are, by what it says of them."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.info.job_progress import (
    look_at_memory,
    look_at_merges,
    memory_in,
    merges_in,
)
from ansible_collections.brine.virt.plugins.module_utils._host.progress import HowFar

# virDomainGetJobStats, virDomainGetBlockJobInfo: names and meaning are libvirt's, the figures are made up.
SAVING = {"type": 2, "operation": 6, "memory_total": 1000, "memory_processed": 640, "memory_remaining": 300}
COMMIT = {"type": 4, "bandwidth": 0, "cur": 30, "end": 100}


@pytest.mark.parametrize(
    ("stats", "far"),
    [
        (SAVING, HowFar("memory", 700, 1000)),
        # It has not begun to write; it takes the disks; there is none.
        ({**SAVING, "memory_total": 0, "memory_remaining": 0}, None),
        ({"type": 2, "operation": 6, "time_elapsed": 30}, None),
        ({"type": 0}, None),
    ],
)
def test_memory(stats: dict[str, t.Any], far: HowFar | None) -> None:
    assert memory_in(stats) == far


@pytest.mark.parametrize(
    ("jobs", "far"),
    [
        ({"vda": COMMIT}, HowFar("merge of disk vda", 30, 100)),
        ({"vda": COMMIT, "vdb": {**COMMIT, "end": 300}}, HowFar("merge of disks vda, vdb", 60, 400)),
        ({"vda": None, "vdb": COMMIT, "vdc": {}}, HowFar("merge of disk vdb", 30, 100)),
        # QEMU does not know yet how much it is.
        ({"vda": {**COMMIT, "cur": 0, "end": 0}}, None),
        ({}, None),
    ],
)
def test_merges(jobs: dict[str, t.Any], far: HowFar | None) -> None:
    assert merges_in(jobs) == far


def test_of_a_machine_that_is_off_no_merge_is_asked_for(node_uri: str) -> None:
    """libvirt would write an error into its log each time. This driver knows no such jobs at all."""
    with open_connection(node_uri) as conn:
        domain = conn.lookupByName("web1")
        for look in (lambda: look_at_merges(domain, ["vda"]), lambda: look_at_memory(domain)):
            with pytest.raises(libvirt.libvirtError, match="not supported"):
                look()
        domain.destroy()
        assert look_at_merges(domain, ["vda"]) is None
