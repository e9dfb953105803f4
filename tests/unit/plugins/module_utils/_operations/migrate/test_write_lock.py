# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that has to stay off while its disks are copied, on libvirt's test driver, with a real file."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection, run_events
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.endpoints.source_and_target import (
    read_source_machine,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.recheck import WriteGuard

XML = "<domain type='test'><name>web1</name><memory>1024</memory><os><type>hvm</type></os></domain>"


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[t.Any]:
    (tmp_path / "node.xml").write_text("<node/>", encoding="utf-8")
    (tmp_path / "disk").write_bytes(bytes(4096))
    run_events()
    with open_connection(f"test://{tmp_path}/node.xml") as connection:
        connection.defineXML(XML)
        yield connection


@pytest.fixture
def guard(conn: t.Any) -> Iterator[WriteGuard]:
    guard = WriteGuard(read_source_machine(list_domains(conn)["web1"], ""), conn)
    yield guard
    guard.end()


def test_nothing_happens(guard: WriteGuard, tmp_path: Path) -> None:
    guard.begin(str(tmp_path / "disk"))
    guard.check()


def test_it_runs_before_anything_was_copied(guard: WriteGuard, conn: t.Any, tmp_path: Path) -> None:
    conn.lookupByName("web1").create()
    with pytest.raises(ConflictError, match="web1 was started before its disks were copied, and runs here"):
        guard.begin(str(tmp_path / "disk"))


def test_it_is_started_while_its_disks_are_copied(guard: WriteGuard, conn: t.Any, tmp_path: Path) -> None:
    guard.begin(str(tmp_path / "disk"))
    conn.lookupByName("web1").create()
    with pytest.raises(ConflictError, match="web1 was started while its disks were being copied, and runs here"):
        guard.check()


def test_it_is_started_and_stopped_again(guard: WriteGuard, conn: t.Any, tmp_path: Path) -> None:
    """The disk here is like a block device: nothing on it tells."""
    guard.begin(str(tmp_path / "disk"))
    conn.lookupByName("web1").create()
    conn.lookupByName("web1").destroy()
    with pytest.raises(ConflictError, match="web1 was started, and stopped again, while its disks were being copied"):
        guard.check()


def test_its_disk_is_written_to(guard: WriteGuard, tmp_path: Path) -> None:
    guard.begin(str(tmp_path / "disk"))
    with (tmp_path / "disk").open("ab") as file:
        file.write(b"new")
    with pytest.raises(ConflictError, match="disk was changed while it was being copied, so the copy is out of"):
        guard.check()
