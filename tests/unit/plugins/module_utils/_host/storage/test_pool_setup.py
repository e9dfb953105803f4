# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pool_setup import PoolSpec, make_pool, plan_pools

# libvirt's test driver has one pool, of files, active and not started with the host.
EXISTING = PoolSpec("default-pool", "/default-pool")
NEW = PoolSpec("images", "/var/lib/libvirt/virt-images")


@pytest.fixture
def conn() -> t.Iterator[t.Any]:
    with open_connection("test:///default") as connection:
        yield connection


def test_a_missing_pool_is_made_once(conn: t.Any) -> None:
    (work,) = plan_pools(conn, [NEW])
    assert (work.defines, work.starts, work.autostarts, work.before()) == (True, True, True, {})
    make_pool(conn, work)
    pool = conn.storagePoolLookupByName("images")
    assert pool.isActive() and pool.autostart()
    (again,) = plan_pools(conn, [NEW])
    assert not again.changes
    assert again.before() == again.after()
    pool.destroy()
    pool.undefine()


def test_only_what_lacks_is_done(conn: t.Any) -> None:
    (work,) = plan_pools(conn, [EXISTING])
    assert (work.defines, work.starts, work.autostarts) == (False, False, True)
    pool = conn.storagePoolLookupByName("default-pool")
    pool.destroy()
    (work,) = plan_pools(conn, [EXISTING])
    assert work.starts
    make_pool(conn, work)
    assert pool.isActive() and pool.autostart()


@pytest.mark.parametrize(
    ("specs", "error", "words"),
    [
        ([PoolSpec("default-pool", "/srv/other")], ConflictError, r"pools\[0\]\.path: .* of type dir at /default-pool"),
        (
            [PoolSpec("images", "relative")],
            InputError,
            r"pools\[0\]\.path: 'relative' is not a normalized absolute path",
        ),
        ([PoolSpec("images", "/srv/images/")], InputError, "normalized absolute path"),
        ([PoolSpec("a/b", "/srv")], InputError, r"pools\[0\]\.name"),
        ([NEW, PoolSpec("images", "/srv")], InputError, r"pools\[1\]: has the same name or path as pools\[0\]"),
        ([NEW, PoolSpec("other", NEW.path)], InputError, r"pools\[1\]"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(
    conn: t.Any, specs: list[PoolSpec], error: type[VirtError], words: str
) -> None:
    with pytest.raises(error, match=words):
        plan_pools(conn, specs)
