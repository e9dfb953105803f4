# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storage pools of a hypervisor: their space, and the storage behind those that several hypervisors may share."""

from __future__ import annotations

import os
import posixpath
import re
import typing as t

from ..._base.files import MOUNTS, Mount, mount_of, read_mounts
from ..._base.xml import MIB, attribute, etree, read_description
from ..connection import VirConnect, libvirt, map_in_threads, of_those_there, translate_errors
from ..storage.pool_refresh import is_started

# So long all directories together have to say how much space they have.
_ANSWER_SECONDS = 5
# Pools whose space is that of a mounted file system.
_FILE_SYSTEM_POOLS = frozenset({"dir", "fs", "netfs"})
# Pools whose source is some servers of one cluster, any of them, and the name that the storage has there.
_CLUSTERS = frozenset({"rbd", "gluster", "sheepdog"})
# File systems whose source is a server and what it exports, as of netfs pools; the types as the kernel names them.
_EXPORTS = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.glusterfs"})
# server:/srv/vms, [2001:db8::1]:/srv/vms, server:volume and //server/share.
_EXPORT = re.compile(r"(?://)?(\[[^]]+\]|[^:/]+)[:/]/*(.*)")


def observe_pools(conn: VirConnect, errors: list[str], *, local: bool) -> list[dict[str, t.Any]]:
    """The pools by name, as the module's documentation has them. local: their paths are those of this host.

    errors: gets a line for each whose directory gives no answer; its space is not known then. Raises VirtError.
    """
    with translate_errors("cannot list the storage pools"):
        active = {p.name() for p in conn.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE)}
        starting = conn.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_AUTOSTART)
        autostart = {p.name() for p in starting}
        lost = [p for p in starting if p.name() not in active]
        active |= {name for name, is_up in of_those_there(lost, lambda p: (p.name(), is_started(p))) if is_up}
        described = of_those_there(
            conn.listAllStoragePools(),
            lambda p: (p.name(), read_description(f"storage pool {p.name()}", p.XMLDesc())),
        )
    of_files = [
        (name, root.findtext("target/path") or "")
        for name, root in described
        if local and name in active and root.get("type") in _FILE_SYSTEM_POOLS
    ]
    # A server that is gone lets whoever asks wait for ever, and is not to hide all else of the hypervisor.
    answers = map_in_threads(
        lambda of_one: _seen_at(of_one[1]), of_files, threads=len(of_files), timeout_seconds=_ANSWER_SECONDS
    )
    seen = {name: answer for (name, _path), answer in zip(of_files, answers)}  # noqa: B905 - not in Python 3.9
    errors += [f"storage pool {name}: {answer.error}" for name, answer in seen.items() if answer.error is not None]
    pools = []
    for name, root in sorted(described, key=lambda pair: pair[0]):
        is_active = name in active
        answer = seen.get(name)
        there = _Seen() if answer is None or answer.value is None else answer.value
        space = there.space
        if space is None and is_active and (answer is None or answer.error is None):
            space = {key: int(root.findtext(key) or 0) // MIB for key in ("capacity", "allocation", "available")}
        pools.append(
            {
                "name": name,
                "type": root.get("type"),
                "active": is_active,
                "autostart": name in autostart,
                "path": root.findtext("target/path"),
                "shared_storage": shared_storage_of(root) or there.shared_storage,
                "file_system": there.file_system,
                "capacity_mib": space["capacity"] if space else None,
                "allocation_mib": space["allocation"] if space else None,
                "available_mib": space["available"] if space else None,
            }
        )
    return pools


class _Seen(t.NamedTuple):
    """What a directory says of itself."""

    space: dict[str, int] | None = None
    file_system: str | None = None
    shared_storage: str | None = None


def _seen_at(path: str) -> _Seen:
    space, file_system = _live_space(path), _file_system(path)
    # Read now: what is only mounted when it is used is mounted since its space has been asked for.
    return _Seen(space, file_system, shared_storage_at(path, read_mounts(MOUNTS)) if path else None)


def _live_space(path: str) -> dict[str, int] | None:
    """The space of a file system as libvirt counts it, but now: libvirt itself only counts when a pool is refreshed,
    and sparse volumes have grown since."""
    try:
        seen = os.statvfs(path)
    except OSError:
        return None
    capacity, available = seen.f_blocks * seen.f_frsize, seen.f_bavail * seen.f_frsize
    return {"capacity": capacity // MIB, "allocation": (capacity - available) // MIB, "available": available // MIB}


def _file_system(path: str) -> str | None:
    """The device that a directory is on, as findmnt writes it: pools with the same one have one free space."""
    try:
        device = os.stat(path).st_dev
    except OSError:
        return None
    return f"{os.major(device)}:{os.minor(device)}"


def shared_storage_of(root: etree._Element) -> str | None:
    """The storage behind a pool, in words that are the same on every hypervisor, by the source in the pool's XML.

    ``rbd MONITORS/POOL`` with the monitors sorted, and so for other clusters; ``netfs SERVER:/EXPORT``;
    ``iscsi TARGET``. None for storage of one hypervisor alone, and for what the source does not tell (scsi, mpath).
    https://libvirt.org/formatstorage.html#source-elements
    """
    kind, source = root.get("type"), root.find("source")
    if source is None:
        return None
    servers = sorted({str(host.get("name")).lower() for host in source.iterfind("host") if host.get("name")})
    name = source.findtext("name")
    device, folder = attribute(source, "device", "path"), attribute(source, "dir", "path")
    if kind in _CLUSTERS and name:
        inner = (folder or "").strip("/")
        return f"{kind} {','.join(servers)}/{name}{f'/{inner}' if inner else ''}"
    if kind == "netfs" and servers and folder:
        return _export(servers[0], folder)
    if kind in ("iscsi", "iscsi-direct") and device:
        # The name of a target is the only one of its kind.
        return f"iscsi {device}"
    return f"vstorage {name}" if kind == "vstorage" and name else None


def shared_storage_at(path: str, mounts: t.Sequence[Mount]) -> str | None:
    """The same for a directory: what a server exports, or a CephFS, that is mounted there or above.

    None for any other file system: the name of a device says nothing on another hypervisor.
    """
    mount = mount_of(path, mounts)
    if mount is None:
        return None
    inner = posixpath.relpath(os.path.realpath(path), mount.place)
    # Bytes that are no text have no place in an answer.
    source = mount.source.encode("utf-8", "replace").decode()
    if mount.kind == "ceph":
        return f"ceph {posixpath.normpath(posixpath.join(source, inner))}"
    found = _EXPORT.fullmatch(source) if mount.kind in _EXPORTS else None
    return _export(found.group(1), posixpath.join(found.group(2), inner)) if found else None


def _export(server: str, folder: str) -> str:
    path = posixpath.normpath(f"/{folder.strip('/')}")
    return f"netfs {server.strip('[]').lower()}:{path}"
