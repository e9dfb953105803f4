# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who would lose something if a storage pool were stopped."""

from __future__ import annotations

import contextlib
import os
import posixpath
import typing as t
from dataclasses import dataclass

from ...._base.xml import attribute, etree
from ...connection import VirConnect, by_name, is_local, libvirt, translate_errors
from ..usage import Usage
from ..users import VolumeUser
from ..volume_facts import is_busy

# Directories in which only the pool has its volumes; devices of other pools are in /dev/disk/by-path as well.
_OWN_DIRECTORY = ("dir", "fs", "netfs", "vstorage", "logical", "zfs")
_LISTED = ("dir", "fs", "netfs", "vstorage")
# Pools that take their directory away when they are stopped, also from a machine that shares it as a whole.
_MOUNTED = ("fs", "netfs", "vstorage")
# How libvirt calls the volumes of network pools in a machine's definition, and what of the source stands first there.
_PLACES = {"rbd": ("rbd", "name"), "gluster": ("gluster", "name"), "iscsi-direct": ("iscsi", "device")}
# Pools that take their devices away from the host when they are stopped, whoever else has them open.
_DEVICES_GO = ("iscsi", "logical")


@dataclass(frozen=True)
class PoolUsers:
    """Who uses volumes of a pool.

    machines: those that have one in any definition, a snapshot or their metadata. running: those of them that run.
    others: in words, what else uses one. unknown: in words, the machines that could not be looked at.
    """

    machines: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    others: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def users_of_pool(conn: VirConnect, handle: t.Any, root: etree._Element) -> PoolUsers:
    """Who uses volumes of a pool, be it active or not. root: its definition."""
    name, usage = root.findtext("name", ""), Usage(conn)
    with translate_errors(f"cannot list the volumes of storage pool {name}"):
        volumes = by_name(handle.listAllVolumes(0)) if handle.isActive() else {}
        paths = [volume.path() for volume in volumes.values()]
    with translate_errors("cannot list the running machines"):
        active = {domain.name() for domain in conn.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)}
    found = _that_name(usage, name, root, local=is_local(conn.getURI()))
    for path in {*paths, *_files_of(conn, root)}:
        found |= usage.users_at(path)
    machines = frozenset(user.machine for user in found if user.machine is not None)
    others = {user.words for user in found if user.machine is None and (user.volume or ("",))[0] != name}
    # Devices that this host has mounted, or made something of.
    busy = sorted(filter(is_busy, paths)) if root.get("type") in _DEVICES_GO and is_local(conn.getURI()) else []
    return PoolUsers(
        machines=machines,
        running=machines & active,
        others=(*sorted(others), *(f"this host itself ({path} is open)" for path in busy)),
        unknown=tuple(unknown.words for unknown in usage.unknown if unknown.machine is not None),
    )


def _that_name(usage: Usage, name: str, root: etree._Element, *, local: bool) -> set[VolumeUser]:
    """All that name the pool, a path in it, or a place in its network storage. local: paths can be followed here."""
    users, kind = usage.collected, root.get("type", "")

    def real(path: str) -> str:
        # A share that does not answer has been named as unknown.
        with contextlib.suppress(TimeoutError):
            return str(users.watch.call(path, os.path.realpath, path)) if local else path
        return path

    found = {user for (pool, _volume), those in users.by_volume.items() if pool == name for user in those}
    directory = posixpath.normpath(root.findtext("target/path") or "/nowhere")
    directories = {directory, real(directory)}
    for path, those in users.by_path.items():
        if any(_is_inside(one, kind, root, home) for one in (path, real(path)) for home in directories):
            found |= those
    if kind in _PLACES:
        protocol, word = _PLACES[kind]
        source = root.findtext("source/name") if word == "name" else attribute(root, "source/device", "path")
        for place, those in users.by_place.items():
            if place.startswith(f"{protocol}:{source}/"):
                found |= those
    return found


def _is_inside(path: str, kind: str, root: etree._Element, directory: str) -> bool:
    if kind in _OWN_DIRECTORY and path.startswith(f"{directory}/"):
        return True
    if kind in _MOUNTED and f"{directory}/".startswith(f"{path}/"):
        return True
    if kind == "logical":
        # The device mapper doubles the dashes of a name, and LVM puts one between group and volume.
        return path.startswith(f"/dev/mapper/{root.findtext('source/name', '').replace('-', '--')}-")
    target = attribute(root, "source/device", "path")
    return bool(kind == "iscsi" and target and f"-iscsi-{target}-lun-" in path)


def _files_of(conn: VirConnect, root: etree._Element) -> list[str]:
    """Files that are in the directory of a pool, be it active or not; none where it cannot be read from here."""
    directory = root.findtext("target/path", "")
    if root.get("type") not in _LISTED or not is_local(conn.getURI()):
        return []
    try:
        return [posixpath.join(directory, name) for name in os.listdir(directory)]
    except OSError:
        return []
