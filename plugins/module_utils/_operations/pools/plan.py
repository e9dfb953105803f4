# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage pools: what is there, what is requested, and the steps from the one to the other."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import replace

from ..._base.errors import ConflictError, Mistakes
from ..._base.xml import etree
from ..._host.connection import VirConnect, is_local, libvirt, suppress_codes, translate_errors
from ..._host.storage.pool_refresh import is_started
from ..._host.storage.pools import MOUNTED, not_mounted, unmounted
from ..._host.storage.setup.devices import devices_of_group, require_not_used_by_machine
from ..._host.storage.setup.directory import require_mount_point, require_own_directory
from ..._model.spec.resources.pool import (
    ABSENT,
    ACTIVE,
    DIRECTORY_TYPES,
    INACTIVE,
    PoolSpec,
    changed_definition,
    changes,
    complete,
    conflicts,
    new_definition,
    options_of,
    with_devices,
)
from ..plan import Step
from ..resources import ResourcePlan
from .building import needs_building
from .existing import FoundPool, missing_secret, shown, with_numbers
from .steps import PERMISSIONS, PoolSteps
from .together import PoolsTogether


class PoolPlanner:
    """Plans for the pools of one hypervisor, in the order in which a task has them, from what libvirt says now.

    check_mode: a secret that is missing may be made by a task before, and is only named. lock_seconds: how long a step
    waits for other runs.
    """

    def __init__(self, conn: VirConnect, *, check_mode: bool, lock_seconds: float) -> None:
        self._conn = conn
        self._check_mode = check_mode
        self._lock_seconds = lock_seconds
        with translate_errors("cannot list the storage pools"):
            self._handles = {handle.name(): handle for handle in conn.listAllStoragePools(0)}
        self._together = PoolsTogether(self._existing, is_local(conn.getURI()))

    def plan(self, spec: PoolSpec) -> ResourcePlan:
        """What to do for one. Raises VirtError: nothing is changed then."""
        handle = self._handles.get(spec.name)
        if handle is not None and spec.state not in (ABSENT, INACTIVE):
            with translate_errors(f"cannot inspect storage pool {spec.name}"):
                is_started(handle)
        found = None if handle is None else FoundPool.read(handle)
        if spec.state == ABSENT:
            return self._plan_absent(spec, found)
        if found is not None and spec.type not in (None, found.kind):
            raise ConflictError(
                f"the storage pool {spec.name} exists, of type {found.kind}",
                where=spec.at("type"),
                hint="A pool is never turned into another one: choose another name, or remove that one first (its data"
                " stays) with state: absent",
            )
        have = {} if found is None else found.have
        spec = complete(spec, None if found is None else found.kind, have)
        spec = replace(spec, options=with_numbers(self._conn, spec))
        self._require_own_directory(spec, found)
        if found is None:
            self._together.add(spec)
            return self._plan_present(spec, None, new_definition(spec), list(spec.options))
        mistakes = Mistakes()
        for key in conflicts(spec, have):
            with mistakes.noted():
                raise ConflictError(
                    f"the storage pool {spec.name} exists with {key} {have.get(key, 'not set')}, and"
                    f" {spec.options[key]} is requested",
                    where=spec.at(key),
                    hint="A pool is never moved: choose another name, or remove that one first (its data stays) with"
                    " state: absent",
                )
        mistakes.conclude()
        root, changed = changed_definition(found.root, spec), changes(spec, have)
        if spec.build and spec.type in ("logical", "zfs") and root.find("source/device") is not None:
            # Of a run that was killed while it made the pool; a run that makes it puts them back for as long.
            root, changed = with_devices(root, ()), [*changed, "devices"]
        return self._plan_present(spec, found, root, changed)

    def _require_own_directory(self, spec: PoolSpec, found: FoundPool | None) -> None:
        """Of a pool that somebody has made there, nothing is said before its directory is to get an owner or a mode."""
        if spec.type not in DIRECTORY_TYPES or not is_local(self._conn.getURI()):
            return
        if found is None:
            require_own_directory(spec.options["path"], spec.at("path"))
            return
        for key in PERMISSIONS:
            if key in spec.options:
                require_own_directory(found.have["path"], spec.at(key))

    def _existing(self) -> list[FoundPool]:
        """All pools, but for those that have gone since they were listed."""
        found = []
        for handle in self._handles.values():
            with suppress_codes(libvirt.VIR_ERR_NO_STORAGE_POOL):
                found.append(FoundPool.read(handle))
        return found

    def look(self, spec: PoolSpec) -> dict[str, t.Any] | None:
        """What one is now; None where it is not there."""
        gone = suppress_codes(libvirt.VIR_ERR_NO_STORAGE_POOL)
        with translate_errors(f"cannot look up storage pool {spec.name}"), gone:
            return FoundPool.read(self._conn.storagePoolLookupByName(spec.name)).shown()
        return None

    def _plan_absent(self, spec: PoolSpec, found: FoundPool | None) -> ResourcePlan:
        if found is None:
            return ResourcePlan(spec.name, None, None, where=spec.given.place or None)
        step = PoolSteps(self._conn, spec, found.root, self._lock_seconds).remove(found)
        self._together.going.add(spec.name)
        return ResourcePlan(spec.name, found.shown(), None, (step,), where=spec.given.place or None)

    def _plan_present(
        self, spec: PoolSpec, found: FoundPool | None, root: etree._Element, changed: Sequence[str]
    ) -> ResourcePlan:
        steps = PoolSteps(self._conn, spec, root, self._lock_seconds)
        todo: list[Step | None] = []
        pending: list[str] = []
        if found is None or changed or not found.persistent:
            todo.append(steps.define(found, changed))
        active = found is not None and found.active
        if found is None or changed or not active:
            pending += self._ask_for_secret(spec)
        if spec.state == ACTIVE and not active:
            # What is mounted there is unmounted before it is started.
            if not self._together.unmounts(options_of(root).get("path", "")):
                self._require_mountable(spec, root)
            self._require_no_guest(spec, root)
            if needs_building(self._conn, spec, root):
                todo.append(steps.build())
            todo.append(steps.start(lambda: self._require_startable(spec, root)))
        elif spec.state == ACTIVE:
            todo.append(steps.permissions())
            away = self._away(spec, root)
            if spec.type in MOUNTED and is_local(self._conn.getURI()):
                away = unmounted(spec.name, options_of(root)["path"])
            pending += [f"{away.what}: nothing is created in it until it is"] if away else []
        elif found is not None and found.active:
            todo.append(steps.stop(found))
        if spec.autostart != (found is not None and found.autostart):
            todo.append(steps.autostart(spec.autostart))
        if found is not None and found.live is not None and spec.state == ACTIVE:
            pending += _later(spec, options_of(found.live))
        return ResourcePlan(
            spec.name,
            None if found is None else found.shown(),
            shown(spec.name, root, active=spec.state == ACTIVE, autostart=spec.autostart),
            tuple(step for step in todo if step is not None),
            tuple(pending),
            spec.given.place or None,
        )

    def _ask_for_secret(self, spec: PoolSpec) -> list[str]:
        error = missing_secret(self._conn, spec)
        if error is None:
            return []
        if not self._check_mode:
            raise error
        return [f"{error.what}: it has to be created before this"]

    def _require_startable(self, spec: PoolSpec, root: etree._Element) -> None:
        self._require_mountable(spec, root)
        self._require_no_guest(spec, root)

    def _require_no_guest(self, spec: PoolSpec, root: etree._Element) -> None:
        """Only where this runs on the hypervisor: what a guest has on its disk is not this host's to use as well."""
        if not is_local(self._conn.getURI()):
            return
        have = options_of(root)
        if spec.type == "fs":
            require_not_used_by_machine(self._conn, [have["device"]], spec.at("device"))
        elif spec.type == "logical":
            group = have["volume_group"]
            require_not_used_by_machine(self._conn, devices_of_group(group) or (), spec.at("volume_group"))

    def _require_mountable(self, spec: PoolSpec, root: etree._Element) -> None:
        """Only where this runs on the hypervisor."""
        away = self._away(spec, root)
        if away is not None:
            raise away
        have = options_of(root)
        if spec.type not in ("fs", "netfs") or not is_local(self._conn.getURI()):
            return
        if spec.type == "fs":
            source = have["device"]
        elif have.get("format") == "cifs":
            source = f"//{have['host']}/{have['export']}"
        else:
            source = f"{have['host']}:{have['export']}"
        require_mount_point(have["path"], source, spec.at("path"))

    def _away(self, spec: PoolSpec, root: etree._Element) -> ConflictError | None:
        """The error of a directory that is on the wrong file system, as the right one is not mounted."""
        if spec.type != "dir" or not is_local(self._conn.getURI()):
            return None
        return not_mounted(spec.name, options_of(root)["path"], spec.at("path"))


def _later(spec: PoolSpec, live: t.Mapping[str, t.Any]) -> list[str]:
    """In words, what of an active pool takes effect at its next start."""
    waiting = [key for key in changes(spec, live) if key not in PERMISSIONS]
    if not waiting:
        return []
    start = f"virsh pool-destroy {spec.name} && virsh pool-start {spec.name}"
    return [f"{', '.join(waiting)}: at the next start of the pool ({start}, while no running machine uses its volumes)"]
