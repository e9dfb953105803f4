# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec for a storage pool: its words, what belongs to which type, and its XML."""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...._base.errors import InputError, Mistakes
from ...._base.xml import etree
from ..fields import validators
from ..fields.given import GivenOptions
from ..fields.table import check_field, covers, drop, make, read_table, write_table
from ..names import pool_name
from .pool_fields import POOL_TABLES, device_path

ACTIVE, INACTIVE, ABSENT = "active", "inactive", "absent"
POOL_TYPES = tuple(POOL_TABLES)
# Pools whose volumes are files of one directory, with an owner and a mode.
DIRECTORY_TYPES = ("dir", "fs", "netfs")
# What `build` makes where it is missing: a file system, a volume group, a ZFS pool or dataset.
BUILT_TYPES = ("fs", "logical", "zfs")

_REQUIRED = {
    "dir": ("path",),
    "fs": ("path", "device"),
    "netfs": ("path", "host", "export"),
    "iscsi": ("host", "target"),
    "rbd": ("hosts", "ceph_pool"),
}
# By another one of these a pool would be another storage. All others may change.
_IDENTITY = ("path", "device", "host", "export", "target", "volume_group", "ceph_pool", "dataset")
_TYPES_OF: dict[str, tuple[str, ...]] = {
    **{
        field.key: tuple(kind for kind in POOL_TYPES if field.key in {other.key for other in POOL_TABLES[kind]})
        for table in POOL_TABLES.values()
        for field in table
    },
    # They are in no definition for long: see PoolSpec.
    "devices": ("logical", "zfs"),
    "build": BUILT_TYPES,
}
_RULES: dict[str, validators.Rule] = {
    "name": pool_name,
    "type": validators.choice(*POOL_TYPES),
    "state": validators.choice(ACTIVE, INACTIVE, ABSENT),
    "autostart": validators.yes_or_no,
}
POOL_OPTIONS = (*_RULES, *_TYPES_OF)


@dataclass(frozen=True)
class PoolSpec:
    """A storage pool as it is requested.

    type: None where it is not named: what an existing one has, else a directory. devices: what a volume group or a ZFS
    pool is made from. They are in the definition only while it is: later, libvirt would compare them as texts with what
    LVM calls them now, and not start the pool (virStorageBackendLogicalMatchPoolSource in its
    src/storage/storage_backend_logical.c). options: by the fields of the type. given: where all this comes from.
    """

    name: str
    type: str | None = None
    state: str = ACTIVE
    autostart: bool = True
    build: bool = False
    devices: tuple[str, ...] = ()
    options: Mapping[str, t.Any] = field(default_factory=dict)
    given: GivenOptions = field(default=GivenOptions({}), compare=False, repr=False)

    def at(self, key: str) -> str:
        """The place of an option in the input."""
        return self.given.at(key)


def read_pool(given: GivenOptions) -> PoolSpec:
    """A pool out of the options of a task. What depends on the type is checked by ``complete``. Raises InputError."""
    given.check_words(POOL_OPTIONS)
    values = given.only(_RULES).read(_RULES)
    if not values.get("name"):
        raise InputError("name is missing", where=given.place or None, hint="Give the pool a name")
    return PoolSpec(
        name=values["name"],
        type=values.get("type"),
        state=values.get("state", ACTIVE),
        autostart=values.get("autostart", True),
        given=given,
    )


def complete(spec: PoolSpec, existing: str | None, have: Mapping[str, t.Any]) -> PoolSpec:
    """The spec with its type and all that belongs to it.

    existing: the type of the pool of this name, None where there is none; have: what that one has, as options_of reads
    it. Raises InputError for everything that does not belong to the type, is missing or wrong.
    """
    kind = existing or spec.type or "dir"
    given, mistakes = spec.given, Mistakes()
    options: dict[str, t.Any] = {}
    fields = {field.key: field for field in POOL_TABLES.get(kind, ())}
    for key, value in given.values.items():
        if key in _RULES or value is None:
            continue
        with mistakes.noted():
            if kind not in _TYPES_OF[key]:
                types = _TYPES_OF[key]
                way = f"Set type: {' or '.join(types)}" if spec.type is None and existing is None else "Leave it out"
                raise InputError(
                    f"{given.word(key)} is for pools of type {', '.join(types)}, and this one is of type {kind}",
                    where=given.at(key),
                    hint=way,
                )
            if key == "devices":
                options[key] = validators.list_of(device_path)(value, given.at(key))
            elif key == "build":
                options[key] = validators.yes_or_no(value, given.at(key))
            else:
                options[key] = check_field(fields[key], value, given.at(key), have.get(key))
    mistakes.conclude()
    build, devices = options.pop("build", False), options.pop("devices", ())
    if existing is None:
        options = {**_defaults(kind, spec.name), **options}
        for key in _REQUIRED.get(kind, ()):
            if not options.get(key):
                with mistakes.noted():
                    raise InputError(f"a pool of type {kind} needs {key}", where=given.at(key))
    spec = replace(spec, type=kind, options=options, build=build, devices=devices)
    together = {**have, **options}
    for check in (_check_authentication, _check_address, _check_version, _check_build):
        with mistakes.noted():
            check(spec, together)
    mistakes.conclude()
    return spec


def _defaults(kind: str, name: str) -> dict[str, t.Any]:
    """libvirt takes the pool's name for what it has no name of, too; paths of devices are those that survive a boot."""
    return {
        "logical": {"volume_group": name},
        "zfs": {"dataset": name},
        "iscsi": {"path": "/dev/disk/by-path"},
    }.get(kind, {})


def _check_authentication(spec: PoolSpec, together: Mapping[str, t.Any]) -> None:
    for key, other in (("user", "secret"), ("secret", "user")):
        if key in spec.options and other not in together:
            raise InputError(f"{other} is missing beside {key}", where=spec.at(other), hint="Give both, or neither")


def _check_address(spec: PoolSpec, together: Mapping[str, t.Any]) -> None:
    """What is mounted is the host, a colon and the path: nfs(5). That of CIFS has no colon there."""
    host = spec.options.get("host", "")
    if spec.type == "netfs" and together.get("format", "auto") in ("auto", "nfs") and ":" in host and host[0] != "[":
        raise InputError(
            f"{host!r} is an address of IPv6 without brackets", where=spec.at("host"), hint=f"Write it as [{host}]"
        )


def _check_version(spec: PoolSpec, together: Mapping[str, t.Any]) -> None:
    kind = together.get("format", "auto")
    if "protocol_version" in spec.options and kind not in ("auto", "nfs"):
        raise InputError(f"only NFS has a version, and the format is {kind}", where=spec.at("protocol_version"))


def _check_build(spec: PoolSpec, together: Mapping[str, t.Any]) -> None:
    if not spec.build:
        return
    if spec.type == "fs" and together.get("format", "auto") == "auto":
        raise InputError("a file system to make needs its format", where=spec.at("format"), hint="Set format: ext4")
    if spec.type == "zfs" and spec.devices and "/" in together.get("dataset", ""):
        raise InputError(
            "a dataset inside a ZFS pool takes no devices",
            where=spec.at("devices"),
            hint="Give devices only for a ZFS pool that is to be made, whose name has no slash",
        )


def options_of(root: etree._Element) -> dict[str, t.Any]:
    """What a ``<pool>`` says, in the words of the options; nothing of one whose type has none here."""
    return read_table(root, POOL_TABLES.get(root.get("type", ""), ()))


def conflicts(spec: PoolSpec, have: Mapping[str, t.Any]) -> list[str]:
    """The options by which an existing pool is another storage than the requested one."""
    return [key for key in _IDENTITY if key in spec.options and not covers(have.get(key), spec.options[key])]


def changes(spec: PoolSpec, have: Mapping[str, t.Any]) -> list[str]:
    """The options that are to have another value than an existing pool has."""
    return [key for key, want in spec.options.items() if not covers(have.get(key), want)]


def new_definition(spec: PoolSpec) -> etree._Element:
    """The ``<pool>`` of a spec that is complete, without the devices that it is to be built from."""
    root = etree.Element("pool", type=spec.type or "dir")
    etree.SubElement(root, "name").text = spec.name
    return changed_definition(root, spec)


def changed_definition(root: etree._Element, spec: PoolSpec) -> etree._Element:
    """A copy of a ``<pool>`` with the options of a spec; all else stays as it is said there."""
    changed = copy.deepcopy(root)
    write_table(changed, POOL_TABLES.get(spec.type or "", ()), spec.options)
    return changed


def with_devices(root: etree._Element, devices: t.Iterable[str]) -> etree._Element:
    """A copy of a ``<pool>`` whose source has exactly these devices."""
    changed = copy.deepcopy(root)
    source = make(changed, "source")
    for old in source.findall("device"):
        drop(old)
    for index, path in enumerate(devices):
        source.insert(index, etree.Element("device", path=path))
    return changed
