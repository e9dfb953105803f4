# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests in this folder begin with."""

from __future__ import annotations

import contextlib
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.proof import mark_volume
from ansible_collections.brine.virt.plugins.module_utils._operations.backup import machines
from ansible_collections.brine.virt.plugins.module_utils._operations.restore import machine as restore_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.restore import volumes
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.backup.backup_host import BackupHost
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host


@pytest.fixture
def machine(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BackupHost:
    """A machine that is off, and has a backup."""
    for module in (machines, restore_machine):
        monkeypatch.setattr(module, "machine_lock", lambda _name, **_settings: contextlib.nullcontext())
    monkeypatch.setattr(restore_machine, "hypervisor_lock", lambda _what, **_settings: contextlib.nullcontext())
    make = volumes.create_empty

    def create_empty(pool: Pool, name: str, **settings: t.Any) -> None:
        # The test driver makes no file.
        make(pool, name, **settings)
        size, image_format = str(settings["size_bytes"]), settings["image_format"]
        path = pool.volume_path(name)
        subprocess.run(["qemu-img", "create", "-q", "-f", image_format, path, size], check=True)
        mark_volume(pool, pool.handle.storageVolLookupByName(name), image_format, settings["mark"])

    monkeypatch.setattr(volumes, "create_empty", create_empty)
    made = BackupHost(host, tmp_path)
    made.made()
    return made
