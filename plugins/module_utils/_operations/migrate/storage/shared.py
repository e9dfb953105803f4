# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether both hypervisors of a move see the same storage."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import posixpath
import uuid

from ...._base.errors import VirtError
from ...._base.xml import attribute, etree, read_description
from ...._host.connection import by_name, translate_errors
from ...._host.storage.pools import Pool
from ...._model.xml.disk_source import FILE
from .volume_identity import last_change

# An NFS client may say of a file what it knew so many seconds ago: acregmax in nfs(5).
_STALE_SECONDS = 60
# Pools that are a way to storage elsewhere: two of them with the same source show the same volumes.
_NETWORKED = frozenset({"netfs", "gluster", "iscsi", "iscsi-direct"})
_SAN = frozenset({"scsi", "mpath"})


def is_shared(here: Pool, there: Pool, volume: str, *, seen: bool, probe: bool) -> bool:
    """Whether the target sees the very volume that is in this pool at the source.

    here, there: the pool at the source, and the one of its name on the target. seen: whether that one has a volume of
    this name. probe: whether it may be tried out, by making a file for a moment; without that, of two folders it is
    only what it looks like, and nothing may be done by it.
    """
    if here.type != there.type:
        return False
    if here.type == "rbd":
        # Of its monitors, each hypervisor may have been told others.
        return here.name_at(there.source_of("")) == ""
    if here.type in _NETWORKED and not _is_mounted_from_itself(here) and _origin(here) == _origin(there):
        return here.path == there.path
    if here.type in _SAN:
        return seen
    if not seen or here.path != there.path or here.source_type != FILE or not here.local:
        return False
    # The same name in a folder of the same name: one file, or two.
    return _same_folder(here, there) if probe else _looks_the_same(here, there, volume)


def _source(pool: Pool) -> etree._Element | None:
    with translate_errors(f"cannot inspect storage pool {pool.name}"):
        return read_description(f"storage pool {pool.name}", pool.handle.XMLDesc(0)).find("source")


def _is_mounted_from_itself(pool: Pool) -> bool:
    """Whether the hypervisor mounts what it exports itself, so that the same words mean another export elsewhere.

    GlusterFS is asked where it is, and each host of a volume leads to all of it.
    """
    source = _source(pool) if pool.type == "netfs" else None
    if source is None or attribute(source, "format", "type") == "glusterfs":
        return False
    return any(_is_loopback(host.get("name", "")) for host in source.iterfind("host"))


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name.lower().partition(".")[0] in ("localhost", "ip6-localhost")


def _origin(pool: Pool) -> bytes:
    """Where a pool's storage is, in libvirt's words, without what each hypervisor has of its own."""
    source = _source(pool)
    if source is None:
        return b""
    for own in [*source.findall("auth"), *source.findall("initiator")]:
        source.remove(own)
    return bytes(etree.tostring(source, method="c14n")).replace(b" ", b"").replace(b"\n", b"")


def _looks_the_same(here: Pool, there: Pool, volume: str) -> bool:
    """Whether a volume was last changed at the same time, and has the same size, in both pools.

    The guest may write to it meanwhile, so it is looked at here once more after that; and the target may know of an
    earlier change only.
    """
    before, found, after = last_change(here, volume), last_change(there, volume), last_change(here, volume)
    if before is None or found is None or after is None:
        return False
    return before.size == found.size == after.size and before.time - _STALE_SECONDS <= found.time <= after.time


def _same_folder(here: Pool, there: Pool) -> bool:
    """Whether a file that is made here is seen there."""
    name = f"brine-virt-probe-{uuid.uuid4().hex}"
    path = posixpath.join(here.path, name)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return False
    try:
        with contextlib.suppress(VirtError), translate_errors(f"cannot refresh pool {there.name}"):
            there.handle.refresh(0)
            return name in by_name(there.handle.listAllVolumes(0))
        return False
    finally:
        os.unlink(path)
