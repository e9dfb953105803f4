# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose snapshots nobody may touch now, and what a machine is asked."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import write_notes
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot import view as module
from ansible_collections.brine.virt.plugins.module_utils._operations.snapshot.view import require_settled, view


@pytest.fixture
def conn(node_uri: str) -> Iterator[t.Any]:
    """The hypervisor."""
    with open_connection(node_uri) as connection:
        yield connection


def test_a_machine_that_nobody_is_at(conn: t.Any) -> None:
    found = view(conn, "web1", "vm")
    require_settled(found)
    assert (found.active, found.agent, found.snapshots, found.checkpoints) == (True, False, (), ())
    with pytest.raises(NotFoundError, match="vm: "):
        view(conn, "web9", "vm")


def test_a_machine_that_gets_a_disk(conn: t.Any) -> None:
    found = view(conn, "web1", "vm")
    assert found.notes is not None
    volumes = (*found.notes.volumes, VolumeNote("default", "web1-more.qcow2", "disk", building=True))
    write_notes(conn.lookupByName("web1"), dataclasses.replace(found.notes, volumes=volumes))
    with pytest.raises(ConflictError, match="a run is adding volume web1-more.qcow2 to it, or was interrupted"):
        require_settled(view(conn, "web1", "vm"))


def test_a_machine_that_is_not_defined(conn: t.Any) -> None:
    conn.lookupByName("web1").undefine()
    with pytest.raises(ConflictError, match="it is running but not defined here, so its snapshots would be forgotten"):
        require_settled(view(conn, "web1", "vm"))


def test_a_machine_whose_state_is_saved(conn: t.Any) -> None:
    conn.lookupByName("web1").managedSave()
    with pytest.raises(ConflictError, match="its state is saved, and its disks are of no use without it. Start it"):
        require_settled(view(conn, "web1", "vm"))


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        (
            [{"type": "copy", "disk": "vda", "percent": 40}],
            "libvirt is at work on it: job copy of disk vda .40%.",
        ),
        ([{"type": "backup", "disk": None, "percent": None}], "libvirt is at work on it: job backup. Wait until that"),
    ],
)
def test_a_machine_that_libvirt_is_at_work_on(
    conn: t.Any, monkeypatch: pytest.MonkeyPatch, jobs: list[dict[str, t.Any]], words: str
) -> None:
    """The test driver knows no jobs."""
    monkeypatch.setattr(module, "read_jobs", lambda _handle, _xml: jobs)
    with pytest.raises(ConflictError, match=words):
        require_settled(view(conn, "web1", "vm"))
