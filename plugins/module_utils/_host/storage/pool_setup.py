# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage pools of a hypervisor: what is there, what is missing, and making it."""

from __future__ import annotations

import contextlib
import posixpath
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree, read_description
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    VirConnect,
    libvirt,
    translate_errors,
)


@dataclass(frozen=True)
class PoolSpec:
    """A pool of files in one folder that is to be defined, running and started with the host."""

    name: str
    path: str


@dataclass(frozen=True)
class PoolPlan:
    """What one requested pool lacks now; nothing lacks when all three are false."""

    spec: PoolSpec
    defines: bool
    starts: bool
    autostarts: bool

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.defines or self.starts or self.autostarts

    def before(self) -> dict[str, t.Any]:
        """The pool as it is."""
        if self.defines:
            return {}
        return {**self.after(), "active": not self.starts, "autostart": not self.autostarts}

    def after(self) -> dict[str, t.Any]:
        """The pool as it is to be."""
        return {"name": self.spec.name, "type": "dir", "path": self.spec.path, "active": True, "autostart": True}


def plan_pools(conn: VirConnect, specs: Sequence[PoolSpec]) -> list[PoolPlan]:
    """What to do for each spec, from what libvirt says now.

    Raises InputError, and ConflictError for a pool of that name elsewhere or of another type: it is never changed.
    """
    with translate_errors("cannot list the storage pools"):
        handles = {handle.name(): handle for handle in conn.listAllStoragePools(0)}
    work = []
    for index, spec in enumerate(specs):
        _check(spec, index, specs)
        handle = handles.get(spec.name)
        if handle is None:
            work.append(PoolPlan(spec, defines=True, starts=True, autostarts=True))
            continue
        with translate_errors(f"cannot inspect storage pool {spec.name}"):
            root = read_description(f"storage pool {spec.name}", handle.XMLDesc(0))
            found = f"of type {root.get('type')} at {root.findtext('target/path', 'no path')}"
            if found != f"of type dir at {spec.path}":
                raise ConflictError(
                    f"the storage pool {spec.name} exists, {found}",
                    where=f"pools[{index}].path",
                    hint=f"A pool is never moved: use its own path instead of {spec.path}, or choose another name",
                )
            work.append(PoolPlan(spec, defines=False, starts=not handle.isActive(), autostarts=not handle.autostart()))
    return work


def make_pool(conn: VirConnect, work: PoolPlan) -> None:
    """Do what a pool lacks. A pool whose folder cannot be made or opened is not left behind."""
    spec = work.spec
    with translate_errors(f"cannot create storage pool {spec.name} at {spec.path}"):
        handle = conn.storagePoolDefineXML(_xml(spec), 0) if work.defines else conn.storagePoolLookupByName(spec.name)
        try:
            if work.starts:
                # Makes the folder when it is missing. A run that was killed before this left the pool inactive.
                handle.build(0)
                handle.create(0)
            if work.autostarts:
                handle.setAutostart(1)
        except libvirt.libvirtError:
            if work.defines:
                with contextlib.suppress(libvirt.libvirtError):
                    handle.undefine()
            raise


def _check(spec: PoolSpec, index: int, specs: Sequence[PoolSpec]) -> None:
    where = f"pools[{index}]"
    if not spec.name or "/" in spec.name:
        raise InputError(f"{spec.name!r} is not a valid name for a storage pool", where=f"{where}.name")
    if not spec.path.startswith("/") or posixpath.normpath(spec.path) != spec.path:
        raise InputError(f"{spec.path!r} is not a normalized absolute path", where=f"{where}.path")
    for position, other in enumerate(specs[:index]):
        if spec.name == other.name or spec.path == other.path:
            raise InputError(f"has the same name or path as pools[{position}]", where=where)


def _xml(spec: PoolSpec) -> str:
    root = etree.Element("pool", type="dir")
    etree.SubElement(root, "name").text = spec.name
    etree.SubElement(etree.SubElement(root, "target"), "path").text = spec.path
    return etree.tostring(root, encoding="unicode")
