# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What several of the tests in this folder begin with."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host import locks
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pools
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host, open_host


@pytest.fixture(autouse=True)
def _own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The locks of machines are not those of this machine's own hypervisor."""
    own = functools.partial(locks.hypervisor_lock, lock_dir=str(tmp_path / "locks"))
    monkeypatch.setattr(locks, "hypervisor_lock", own)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Host]:
    """A hypervisor with real image files that machines may share."""
    # The pools of the test driver count as ones of this machine, whose files can be read.
    monkeypatch.setattr(pools, "is_local", lambda _uri: True)
    with open_host(tmp_path) as opened:
        yield opened
