# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a pool: what each does with libvirt and the host, and how it is taken back."""

from __future__ import annotations

import contextlib
import copy
import os
import typing as t
import uuid

from ..._base.errors import ConflictError
from ..._base.xml import etree
from ..._host.connection import VirConnect, is_local, libvirt, suppress_codes, translate_errors
from ..._host.locks import hypervisor_lock
from ..._host.storage.pool_refresh import refresh_pool
from ..._host.storage.setup.directory import permissions_of, resolved_directory, set_permissions
from ..._host.storage.setup.pool_users import users_of_pool
from ..._model.spec.fields.table import covers
from ..._model.spec.resources.pool import DIRECTORY_TYPES, PoolSpec
from ..plan import Step
from .building import build, building_words, needs_building
from .existing import FoundPool

# Stopping one of these takes nothing away from a machine that has a volume open.
_STOP_CUTS_NOTHING = ("dir", "rbd", "zfs")
PERMISSIONS = ("owner", "group", "mode")


class PoolSteps:
    """The steps for one pool. root: the definition that it is to have; lock_seconds: how long to wait for others."""

    def __init__(self, conn: VirConnect, spec: PoolSpec, root: etree._Element, lock_seconds: float) -> None:
        self._conn = conn
        self._spec = spec
        self._root = root
        self._name = spec.name
        self._lock_seconds = lock_seconds

    def _handle(self) -> t.Any:
        return self._conn.storagePoolLookupByName(self._name)

    def define(self, found: FoundPool | None, changed: t.Iterable[str]) -> Step:
        """Define it. changed: the options that an existing one gets other values of."""
        root, own = copy.deepcopy(self._root), str(uuid.uuid4())
        if found is None:
            # Chosen here: by it, undo knows that it is this one, and libvirt refuses another one of this name.
            etree.SubElement(root, "uuid").text = own
        text = etree.tostring(root, encoding="unicode")
        before = None if found is None else etree.tostring(found.root, encoding="unicode")

        def apply() -> None:
            with translate_errors(f"cannot define storage pool {self._name}"):
                self._conn.storagePoolDefineXML(text, 0)

        def undo() -> None:
            with translate_errors(f"cannot take back the definition of storage pool {self._name}"):
                if before is not None:
                    self._conn.storagePoolDefineXML(before, 0)
                    return
                with suppress_codes(libvirt.VIR_ERR_NO_STORAGE_POOL):
                    self._conn.storagePoolLookupByUUIDString(own).undefine()

        if found is None:
            return Step(f"define storage pool {self._name}", apply, undo)
        if not found.persistent:
            # It would go with its definition.
            return Step(f"make storage pool {self._name} permanent", apply)
        return Step(f"change {', '.join(changed)} of storage pool {self._name}", apply, undo)

    def build(self) -> Step:
        """Make what it is made from. What was made stays if a later step fails."""

        def apply() -> None:
            with hypervisor_lock("init", wait_seconds=self._lock_seconds):
                if needs_building(self._conn, self._spec, self._root):
                    build(self._conn, self._spec, self._root, self._handle())

        return Step(building_words(self._spec, self._root), apply)

    def start(self, check: t.Callable[[], None] = lambda: None) -> Step:
        """Start it: its directory is made where it is missing, given its owner and mode, and libvirt looks into it.
        check: raises where it cannot be started as things are then."""
        path = self._directory()
        real = self._resolved(path)
        missing = bool(path) and not os.path.lexists(path)
        made: list[str] = []
        begun: list[t.Any] = []
        before: dict[str, t.Any] = {}

        def apply() -> None:
            lock = hypervisor_lock("init", wait_seconds=self._lock_seconds)
            with lock, translate_errors(f"cannot start storage pool {self._name}"):
                handle = self._handle()
                if not handle.isActive():
                    check()
                    begin(handle)
            wanted = self._permissions()
            # Of what is mounted there now.
            have = permissions_of(real) if real else None
            if real and not covers(have, wanted):
                before.update({key: have[key] for key in wanted} if have is not None else {})
                set_permissions(real, wanted)
            refresh_pool(handle, self._name)

        def begin(handle: t.Any) -> None:
            there = bool(path) and os.path.lexists(path)
            if path and not there:
                made.append(path)
            if self._root.get("type") in DIRECTORY_TYPES and not there:
                # Makes the directory, and gives it the owner and the mode of the definition. One that is there would
                # get them as well, of a pool of type netfs 0711 where the definition has none, and with it what a
                # server exports, where that is mounted already (virStorageBackendBuildLocal in libvirt's
                # src/storage/storage_util.c).
                handle.build(0)
            handle.create(0)
            # Only now: one that cannot be started may have been started by somebody else, without the lock.
            begun.append(handle)

        def undo() -> None:
            try:
                # As long as it is mounted.
                if before and not made and not covers(permissions_of(real), before):
                    set_permissions(real, before)
            finally:
                stop()

        def stop() -> None:
            gone = suppress_codes(libvirt.VIR_ERR_NO_STORAGE_POOL)
            with translate_errors(f"cannot stop storage pool {self._name}"), gone:
                for handle in begun:
                    if handle.isActive():
                        handle.destroy()
            for directory in made:
                # One with something in it stays.
                with contextlib.suppress(OSError):
                    os.rmdir(directory)

        words = f"create {path} and start" if missing else "start"
        return Step(f"{words} storage pool {self._name}", apply, undo)

    def _directory(self) -> str:
        """Its directory, where that is one of this machine."""
        is_here = self._root.get("type") in DIRECTORY_TYPES and is_local(self._conn.getURI())
        return self._root.findtext("target/path", "") if is_here else ""

    def _resolved(self, path: str) -> str:
        """The directory that a pool's owner and mode go to; none where it has neither."""
        return resolved_directory(path, self._spec.at("path")) if path and self._permissions() else ""

    def _permissions(self) -> dict[str, t.Any]:
        return {key: self._spec.options[key] for key in PERMISSIONS if key in self._spec.options}

    def permissions(self) -> Step | None:
        """Give the directory of an active pool its owner and mode; None where it has them."""
        path, wanted = self._directory(), self._permissions()
        real = self._resolved(path)
        have = permissions_of(real) if real else None
        if have is None or covers(have, wanted):
            return None
        words = ", ".join(f"{key} {value}" for key, value in wanted.items())
        before = {key: have[key] for key in wanted}
        return Step(
            f"give {path} {words}", lambda: set_permissions(real, wanted), lambda: set_permissions(real, before)
        )

    def autostart(self, wanted: bool) -> Step:
        """Have it started with the host, or no longer."""

        def mark(value: bool) -> None:
            with translate_errors(f"cannot change the autostart of storage pool {self._name}"):
                self._handle().setAutostart(int(value))

        words = f"have storage pool {self._name} started with the host"
        if not wanted:
            words = f"no longer have storage pool {self._name} started with the host"
        return Step(words, lambda: mark(wanted), lambda: mark(not wanted))

    def stop(self, found: FoundPool) -> Step:
        """Stop it. Raises ConflictError where that would cut something off."""
        self._require_stoppable(found)

        def apply() -> None:
            with hypervisor_lock("init", wait_seconds=self._lock_seconds):
                self._require_stoppable(found)
                with translate_errors(f"cannot stop storage pool {self._name}"):
                    found.handle.destroy()

        def undo() -> None:
            with translate_errors(f"cannot start storage pool {self._name}"):
                if not found.handle.isActive():
                    found.handle.create(0)

        return Step(f"stop storage pool {self._name}", apply, undo)

    def _require_stoppable(self, found: FoundPool) -> None:
        if found.kind in _STOP_CUTS_NOTHING:
            return
        users = users_of_pool(self._conn, found.handle, found.root)
        self._refuse("cannot be stopped", users.running, users.others, users.unknown, "Stop them first")

    def remove(self, found: FoundPool) -> Step:
        """Stop it and take its definition away; all that is in it stays. Raises ConflictError where it is used."""
        self._require_unused(found)
        text = etree.tostring(found.root, encoding="unicode")

        def apply() -> None:
            with hypervisor_lock("init", wait_seconds=self._lock_seconds):
                self._require_unused(found)
                # One that was not permanent goes with its stop; somebody else may have removed it.
                gone = suppress_codes(libvirt.VIR_ERR_NO_STORAGE_POOL)
                with translate_errors(f"cannot remove storage pool {self._name}"), gone:
                    if found.handle.isActive():
                        found.handle.destroy()
                    found.handle.undefine()

        def undo() -> None:
            with translate_errors(f"cannot bring back storage pool {self._name}"):
                handle = self._conn.storagePoolDefineXML(text, 0)
                handle.setAutostart(int(found.autostart))
                if found.active and not handle.isActive():
                    handle.create(0)

        words = "stop and undefine" if found.active else "undefine"
        return Step(f"{words} storage pool {self._name}; its data stays", apply, undo)

    def _require_unused(self, found: FoundPool) -> None:
        users = users_of_pool(self._conn, found.handle, found.root)
        hint = "Remove these machines, or move their disks, first"
        self._refuse("is kept", users.machines, users.others, users.unknown, hint)

    def _refuse(
        self, what: str, machines: t.Collection[str], others: t.Sequence[str], unknown: t.Sequence[str], hint: str
    ) -> None:
        users = [*(f"machine {name}" for name in sorted(machines)), *others]
        if users:
            raise ConflictError(
                f"the storage pool {self._name} {what}: it is used by {', '.join(users)}",
                where=self._spec.at("state"),
                hint=hint,
            )
        if unknown:
            raise ConflictError(
                f"the storage pool {self._name} {what}: it cannot be determined whether a machine uses it:"
                f" {'; '.join(unknown)}",
                where=self._spec.at("state"),
            )
