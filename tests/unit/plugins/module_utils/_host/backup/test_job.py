# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's backup job, as far as its test driver goes: it has none. The lab's scenario has the rest."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import UnsupportedError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.backup import job
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection


@pytest.fixture
def conn() -> t.Iterator[t.Any]:
    with open_connection("test:///default") as connection:
        yield connection


def test_a_driver_without_backups_says_so(conn: t.Any) -> None:
    domain = conn.lookupByName("test")
    with pytest.raises(UnsupportedError, match="cannot inspect the backup of machine test"):
        job.targets_of_job(domain)
    with pytest.raises(UnsupportedError):
        job.end_job_of_killed_run(domain, "/srv/backup/test")


def test_a_job_that_cannot_begin_is_not_waited_for(conn: t.Any) -> None:
    domain = conn.lookupByName("test")
    begun: list[str] = []
    with pytest.raises(VirtError):
        job.run_backup(
            *(conn, domain, "<domainbackup/>", None, threading.Event()),
            lambda _done, _all: None,
            lambda: begun.append(""),
        )
    assert begun == []
