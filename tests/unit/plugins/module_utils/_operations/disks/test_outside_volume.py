# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that is being filled is no disk of a machine before it is whole."""

from __future__ import annotations

import shutil

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.upload import new_upload
from ansible_collections.brine.virt.plugins.module_utils._operations.disks.outside_volume import outside_volume
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.conftest import host as purge_host
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import PurgeHost

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
host = purge_host


@pytest.mark.parametrize("requested", [None, "raw"])
def test_one_that_is_not_whole_is_refused(host: PurgeHost, requested: str | None) -> None:
    path = host.image(host.pool / "a")
    path.write_bytes(bytes(1024 * 1024))
    hypervisor = Hypervisor(host.conn, image_pool="default")
    pool = hypervisor.pools.get("default")
    assert outside_volume(pool, "a", requested, hypervisor, "disks[0].source").format == "raw"
    path.write_bytes(new_upload("hv1").to_bytes() + bytes(1024 * 1024))
    with pytest.raises(ConflictError, match=r"^disks\[0\]\.source: volume a of pool default is incomplete: process "):
        outside_volume(pool, "a", requested, hypervisor, "disks[0].source")
