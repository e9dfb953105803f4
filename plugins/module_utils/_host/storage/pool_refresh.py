# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Letting libvirt see what others have changed in a pool."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import typing as t

from ..._base.errors import VirtError
from ..._base.xml import etree, read_description
from ..connection import is_local, libvirt, translate_errors

# How long another job in the pool (a volume that is being copied) may keep libvirt from looking into it again.
_REFRESH_WAIT_SECONDS = 120

# What libvirt takes for stopped whenever its daemon starts, but at the host's boot: their back-ends have no checkPool
# (storagePoolUpdateStateCallback in src/storage/storage_driver.c, virDriverShouldAutostart), or that of ZFS, before it
# asked zfs itself, looks for a folder that is there with the first volume (virStorageBackendZFSCheckPool).
_FORGOTTEN_TYPES = ("gluster", "iscsi-direct", "rbd", "sheepdog", "zfs")
# Under it libvirt has the devices of ZFS (virStorageBackendZFSFindVols in src/storage/storage_backend_zfs.c).
ZFS_DEVICES = "/dev/zvol/"
# Of monitors: https://docs.ceph.com/en/latest/rados/configuration/msgr2/
_CEPH_PORTS = (3300, 6789)
_CONNECT_SECONDS = 2


def is_started(pool: t.Any) -> bool:
    """Whether a pool is active. One that starts with the host, and that libvirt has only lost sight of since then, is
    started again; when that cannot be, it counts as it is. Raises libvirt's errors."""
    if pool.isActive():
        return True
    if not pool.autostart():
        return False
    root = read_description("a storage pool", pool.XMLDesc(0))
    if root.get("type") in _FORGOTTEN_TYPES and not _is_seen(pool, root) and _answers(pool, root):
        with contextlib.suppress(libvirt.libvirtError):
            _start(pool)
    return bool(pool.isActive())


def _is_seen(pool: t.Any, root: etree._Element) -> bool:
    """Whether libvirt would have found a pool of ZFS when its daemon started, so that somebody has stopped it."""
    if root.get("type") != "zfs" or not is_local(pool.connect().getURI()):
        return False
    return os.path.isdir(ZFS_DEVICES + root.findtext("source/name", ""))


def _answers(pool: t.Any, root: etree._Element) -> bool:
    """Whether one of a pool's servers can be reached, as far as that can be tried from here: libvirt would wait half a
    minute for those that cannot, and whoever asks it anything about this pool as long."""
    if root.get("type") != "rbd" or not is_local(pool.connect().getURI()):
        return True
    for server in root.iterfind("source/host"):
        given = server.get("port")
        for port in _CEPH_PORTS if given is None else (int(given),):
            with contextlib.suppress(OSError):
                socket.create_connection((server.get("name", ""), port), _CONNECT_SECONDS).close()
                return True
    return False


def _start(pool: t.Any) -> None:
    """Over a connection of its own, as that of modules which only look is for reading alone."""
    conn = libvirt.open(pool.connect().getURI())
    try:
        conn.storagePoolLookupByName(pool.name()).create(0)
    finally:
        conn.close()


def refresh_pool(pool: t.Any, name: str, wait_seconds: float = _REFRESH_WAIT_SECONDS) -> None:
    """Let libvirt see what has changed in a pool. Waits for another job in it, such as a copy that is being made."""
    end = time.monotonic() + wait_seconds
    while True:
        try:
            with translate_errors(f"cannot refresh pool {name}"):
                pool.refresh(0)
            return
        except VirtError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
