# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests in this folder begin with: the hypervisor of purge's tests, with all that deletes on it."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.images import prune
from ansible_collections.brine.virt.plugins.module_utils._host.storage import volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.adopt import machines as adopt_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.create import machine as create_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.update import machine as update_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes import task as volume_task
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.conftest import host as purge_host
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.traps.deletions import SEED, undefine

host = purge_host


@pytest.fixture(autouse=True)
def daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the daemon does and the test driver does not: it writes to volumes, and deletes a machine's NVRAM."""

    def write_start(volume: t.Any, _conn: t.Any, content: bytes) -> None:
        with Path(volume.path()).open("r+b") as file:
            file.write(content)

    monkeypatch.setattr(create_machine, "is_local", lambda _uri: True)
    monkeypatch.setattr(libvirt.virDomain, "undefineFlags", undefine)
    monkeypatch.setattr(volumes, "write_start", write_start)
    monkeypatch.setattr(update_machine, "seed_image", lambda _documents: SEED)
    for locked, name in (
        (prune, "hypervisor_lock"),
        (volume_task, "hypervisor_lock"),
        (adopt_machines, "hypervisor_lock"),
        (adopt_machines, "machine_lock"),
    ):
        monkeypatch.setattr(locked, name, lambda _what, **_settings: contextlib.nullcontext())
