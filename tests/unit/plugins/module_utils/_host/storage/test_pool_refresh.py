# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools that libvirt has lost sight of since its daemon started. Its test driver has none: they are stopped here."""

from __future__ import annotations

import socket
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pool_refresh
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools

CLUSTER = "<pool type='rbd'><name>p</name><source><name>vms</name><host name='m'/></source></pool>"
ZFS = "<pool type='zfs'><name>p</name><source><name>tank</name></source></pool>"
FOLDER = "<pool type='dir'><name>p</name><target><path>/p</path></target></pool>"


@pytest.fixture
def conn(node_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    # A host of this test alone. All connections of a process to test:///default are to one, until the last is closed.
    with open_connection(node_uri) as opened:
        # Each connection to this one is another host: there is no second one to it.
        monkeypatch.setattr(pool_refresh, "_start", lambda pool: pool.create(0))
        yield opened


def define(conn: t.Any, xml: str, *, autostart: bool) -> t.Any:
    pool = conn.storagePoolDefineXML(xml, 0)
    pool.setAutostart(int(autostart))
    return pool


@pytest.mark.parametrize("xml", [CLUSTER, ZFS])
def test_a_pool_that_libvirt_loses_sight_of_and_that_starts_with_the_host_is_started(conn: t.Any, xml: str) -> None:
    pool = define(conn, xml, autostart=True)
    assert Pools(conn).get("p").name == "p"
    assert pool.isActive() and pool_refresh.is_started(pool)


@pytest.mark.parametrize(("xml", "autostart"), [(CLUSTER, False), (FOLDER, True), (FOLDER, False)])
def test_any_other_stays_stopped(conn: t.Any, xml: str, autostart: bool) -> None:
    pool = define(conn, xml, autostart=autostart)
    with pytest.raises(ConflictError, match="storage pool 'p' is not active"):
        Pools(conn).get("p")
    assert not pool.isActive()


def test_a_pool_of_zfs_that_libvirt_does_not_lose_sight_of_stays_stopped(
    conn: t.Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It has a volume."""
    monkeypatch.setattr(pool_refresh, "is_local", lambda _uri: True)
    monkeypatch.setattr(pool_refresh, "ZFS_DEVICES", f"{tmp_path}/")
    pool = define(conn, ZFS, autostart=True)
    (tmp_path / "tank").mkdir()
    assert not pool_refresh.is_started(pool)
    (tmp_path / "tank").rmdir()
    assert pool_refresh.is_started(pool)


def test_one_that_cannot_be_started_counts_as_stopped(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(pool: t.Any) -> None:
        # What libvirt says of a cluster that does not answer.
        pool.connect().storagePoolLookupByName("nobody")

    monkeypatch.setattr(pool_refresh, "_start", fail)
    pool = define(conn, CLUSTER, autostart=True)
    assert not pool_refresh.is_started(pool)


def test_a_cluster_that_cannot_be_reached_is_not_waited_for(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_refresh, "is_local", lambda _uri: True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        pool = define(
            conn, CLUSTER.replace("<host name='m'/>", f"<host name='127.0.0.1' port='{port}'/>"), autostart=True
        )
        assert pool_refresh.is_started(pool)
        pool.destroy()
    assert not pool_refresh.is_started(pool), "nobody listens any more"
