# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making what a pool is made from: a file system, a volume group, a ZFS pool or dataset. Never over anything."""

from __future__ import annotations

import os
import typing as t

from ..._base.errors import ConflictError, InputError, Mistakes, NotFoundError, UnsupportedError
from ..._base.xml import etree, read_description
from ..._host.connection import VirConnect, is_local, libvirt, translate_errors
from ..._host.storage.setup.devices import (
    devices_of_group,
    has_dataset,
    real_paths,
    require_blank,
    require_unused_device,
    signatures_on,
)
from ..._model.spec.resources.pool import BUILT_TYPES, PoolSpec, options_of, with_devices


def needs_building(conn: VirConnect, spec: PoolSpec, root: etree._Element) -> bool:
    """Whether something has to be made before a pool can start. root: the definition that it is to start with.

    What is there already, as it is requested, is used. Raises VirtError where something else is in its place, where it
    is missing and not to be made, and where that cannot be known.
    """
    if spec.type not in BUILT_TYPES:
        return False
    if not is_local(conn.getURI()):
        if spec.build:
            raise UnsupportedError(
                "what is on the devices of another host cannot be seen from here",
                where=spec.at("build"),
                hint="Run the task on the hypervisor itself",
            )
        return False
    have = options_of(root)
    if spec.type == "fs":
        return spec.build and _needs_file_system(conn, spec, have)
    if spec.type == "logical":
        return bool(spec.build or spec.devices) and _needs_group(conn, spec, have["volume_group"])
    return _needs_dataset(conn, spec, have["dataset"])


def _needs_file_system(conn: VirConnect, spec: PoolSpec, have: t.Mapping[str, t.Any]) -> bool:
    device = have["device"]
    if os.path.exists(device) and signatures_on(device) == [have["format"]]:
        return False
    _require_free(conn, [device], spec, "device")
    return True


def _needs_group(conn: VirConnect, spec: PoolSpec, group: str) -> bool:
    there = devices_of_group(group)
    if there is not None:
        others = [path for path in spec.devices if not real_paths([path]) <= real_paths(there)]
        if others:
            raise ConflictError(
                f"the volume group {group} exists without {', '.join(others)}",
                where=spec.at("devices"),
                hint=f"Extend it: vgextend {group} {' '.join(others)}",
            )
        return False
    if not spec.build:
        raise NotFoundError(
            f"this host has no volume group {group}",
            where=spec.at("volume_group"),
            hint="Create it, or set build: true",
        )
    _require_devices(conn, spec, f"volume group {group}")
    return True


def _needs_dataset(conn: VirConnect, spec: PoolSpec, dataset: str) -> bool:
    # libvirt starts a pool without its dataset: virStorageBackendZFSRefreshPool in src/storage/storage_backend_zfs.c.
    if has_dataset(dataset):
        return False
    if not spec.build:
        raise NotFoundError(
            f"this host has no ZFS dataset {dataset}", where=spec.at("dataset"), hint="Create it, or set build: true"
        )
    parent = dataset.rpartition("/")[0]
    if not parent:
        _require_devices(conn, spec, f"ZFS pool {dataset}")
    elif not has_dataset(parent):
        raise NotFoundError(f"this host has no ZFS dataset {parent}", where=spec.at("dataset"))
    return True


def _require_devices(conn: VirConnect, spec: PoolSpec, what: str) -> None:
    if not spec.devices:
        raise InputError(
            f"the {what} does not exist, and no device is named to make it from",
            where=spec.at("devices"),
            hint="Give devices: [/dev/disk/by-id/...]",
        )
    if len(real_paths(spec.devices)) != len(spec.devices):
        raise InputError("a device is named twice", where=spec.at("devices"))
    _require_free(conn, spec.devices, spec, "devices")


def _require_free(conn: VirConnect, paths: t.Sequence[str], spec: PoolSpec, key: str) -> None:
    mistakes = Mistakes()
    for path in paths:
        with mistakes.noted():
            require_blank(path, spec.at(key))
            require_unused_device(conn, path, spec.at(key))
    mistakes.conclude()


def building_words(spec: PoolSpec, root: etree._Element) -> str:
    """What is made, in words."""
    have = options_of(root)
    if spec.type == "fs":
        return f"make a file system of type {have['format']} on {have['device']}"
    devices = f" on {', '.join(spec.devices)}" if spec.devices else ""
    if spec.type == "logical":
        return f"create volume group {have['volume_group']}{devices}"
    return f"create ZFS {'dataset' if '/' in have['dataset'] else 'pool'} {have['dataset']}{devices}"


def build(conn: VirConnect, spec: PoolSpec, root: etree._Element, handle: t.Any) -> None:
    """Make it, for who has seen that it has to be made, and holds the hypervisor's lock."""
    # ZFS knows no flags; what is on its devices was looked at.
    flags = 0 if spec.type == "zfs" else libvirt.VIR_STORAGE_POOL_BUILD_NO_OVERWRITE
    with translate_errors(f"cannot {building_words(spec, root)}"):
        if spec.type == "fs":
            handle.build(flags)
            return
        # With its UUID, which a new pool has got from libvirt.
        now = read_description(f"storage pool {spec.name}", handle.XMLDesc(0))
        try:
            _define(conn, with_devices(now, spec.devices)).build(flags)
        finally:
            _define(conn, with_devices(now, ()))


def _define(conn: VirConnect, root: etree._Element) -> t.Any:
    return conn.storagePoolDefineXML(etree.tostring(root, encoding="unicode"), 0)
