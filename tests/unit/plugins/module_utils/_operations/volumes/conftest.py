# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests in this folder begin with."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._operations.volumes import growth, task
from ansible_collections.brine.virt.plugins.modules import virt_volume
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.conftest import host as purge_host
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import PurgeHost
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volumes.volume_host import (
    VolumeHost,
    play_daemon,
)

host_of_purge = purge_host


@pytest.fixture
def host(host_of_purge: PurgeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VolumeHost:
    play_daemon(monkeypatch)
    monkeypatch.setattr(task, "hypervisor_lock", lambda _what, **_settings: contextlib.nullcontext())
    monkeypatch.setattr(growth, "machine_lock", lambda _name, _seconds: contextlib.nullcontext())
    monkeypatch.setattr(virt_volume, "open_connection", lambda _uri: contextlib.nullcontext(host_of_purge.conn))
    return VolumeHost(host_of_purge, tmp_path)
