# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests in this folder begin with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pools
from ansible_collections.brine.virt.plugins.module_utils._operations.purge import machines as purge_machines
from ansible_collections.brine.virt.plugins.modules import virt_purge
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import POOL, PurgeHost
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volume_files import (
    delete_file,
    make_file,
)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PurgeHost]:
    monkeypatch.setattr(pools, "is_local", lambda _uri: True)
    monkeypatch.setattr(libvirt.virStoragePool, "createXML", make_file)
    monkeypatch.setattr(libvirt.virStorageVol, "delete", delete_file)
    for name in ("hypervisor_lock", "machine_lock"):
        monkeypatch.setattr(purge_machines, name, lambda _what, **_settings: contextlib.nullcontext())
    (tmp_path / "pool").mkdir()
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{POOL.format('default', tmp_path / 'pool')}</node>", encoding="utf-8")
    with open_connection(f"test://{node}") as conn:
        # One connection for all calls: the driver forgets all when it is closed.
        monkeypatch.setattr(virt_purge, "open_connection", lambda _uri: contextlib.nullcontext(conn))
        yield PurgeHost(conn, tmp_path)
