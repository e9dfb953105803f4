# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource
from ansible_collections.brine.virt.plugins.module_utils._operations.migrate.storage.shared import is_shared


def pool(ceph_pool: str, *monitors: str) -> Pool:
    hosts = tuple((name, None) for name in monitors)
    network = DiskSource("network", protocol="rbd", name=f"{ceph_pool}/", hosts=hosts)
    return Pool("ceph", "", 0, None, type="rbd", network=network)


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (pool("vms", "a", "b", "c"), True),
        (pool("vms", "c", "b"), True),
        (pool("vms", "d"), False),
        (pool("other", "a", "b", "c"), False),
        (pool("vms2", "a"), False),
        (Pool("ceph", "/p", 0, None, type="dir"), False),
    ],
    ids=["the same", "fewer monitors", "another cluster", "another pool", "a pool of a longer name", "a folder"],
)
def test_a_pool_of_a_cluster_is_the_same_by_any_of_its_monitors(there: Pool, wanted: bool) -> None:
    assert is_shared(pool("vms", "a", "b", "c"), there, seen=True, probe=True) is wanted
