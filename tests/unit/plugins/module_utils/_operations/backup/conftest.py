# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests in this folder begin with."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._operations.backup import machines, retain
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.backup.backup_host import BackupHost
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host


@pytest.fixture
def machine(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BackupHost:
    """A machine that is off."""
    for module, name in ((machines, "machine_lock"), (retain, "hypervisor_lock")):
        monkeypatch.setattr(module, name, lambda _name, **_settings: contextlib.nullcontext())
    return BackupHost(host, tmp_path)
