# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A secret that is to be there: the steps to it."""

from __future__ import annotations

import copy
import typing as t
import uuid

from ..._base.errors import ConflictError
from ..._base.xml import etree
from ..._host.connection import VirConnect, libvirt, suppress_codes, translate_errors
from ..._host.locks import hypervisor_lock
from ..._model.spec.resources.secret import (
    ALWAYS,
    OPENING_USAGES,
    SecretSpec,
    changes,
    new_definition,
    options_of,
    write_options,
)
from ..plan import Step
from ..resources import ResourcePlan
from .found import NOT_SET, SET, SET_AGAIN, FoundSecret, look_up, require_unused, shown

_AGAIN = "Run the task again"


def needs_value(spec: SecretSpec, state: str, value: bytes | None) -> bool:
    """Whether the value of a secret has to be set. state, value: what is known of the one that is there."""
    if spec.value is None or (state == SET and value == spec.value):
        return False
    return state == NOT_SET or spec.update_value == ALWAYS


def plan_present(conn: VirConnect, spec: SecretSpec, found: FoundSecret | None, lock_seconds: float) -> ResourcePlan:
    """What to do for one that is to be there. Only the steps use the connection. Raises ConflictError."""
    return _Plan(conn, spec, found, lock_seconds).made()


class _Plan:
    """The steps for one that is to be there."""

    def __init__(self, conn: VirConnect, spec: SecretSpec, found: FoundSecret | None, lock_seconds: float) -> None:
        self._conn = conn
        self._spec = spec
        self._found = found
        self._lock_seconds = lock_seconds
        # That of a new one is chosen here: by it, undo knows that it is this one.
        self._uuid = (spec.uuid or str(uuid.uuid4())) if found is None else found.uuid
        self._begun = new_definition(spec) if found is None else copy.deepcopy(found.root)
        have = {} if found is None else options_of(found.root)
        if have.get("private") and spec.options.get("private") is False:
            raise ConflictError(
                f"the {spec.words} is private, and libvirt never makes such a secret readable",
                where=spec.at("private"),
                hint="Remove it first with state: absent",
            )
        # Nobody could tell whether a private one has its value yet, if a run is killed. So it becomes private last.
        self._hides = bool(spec.options.get("private")) and not have.get("private")
        write_options(self._begun, {key: value for key, value in spec.options.items() if key != "private"})
        self._changed = [key for key in changes(spec, have) if key != "private"]
        self._ended = copy.deepcopy(self._begun)
        write_options(self._ended, spec.options)

    def made(self) -> ResourcePlan:
        """The plan."""
        spec, found = self._spec, self._found
        state, value = (NOT_SET, None) if found is None else (found.value_state, found.value)
        sets = needs_value(spec, state, value)
        todo: list[Step] = []
        if found is None or self._changed:
            todo.append(self._define())
        if sets:
            if found is not None:
                self._require_replaceable(found)
            todo.append(self._set_value(value))
        if self._hides:
            todo.append(self._hide())
        pending = [] if sets or state != NOT_SET else ["it has no value yet, and cannot be used before it has one"]
        return ResourcePlan(
            spec.name,
            None if found is None else shown(spec, found.root, state),
            shown(spec, self._ended, SET_AGAIN if sets else state),
            tuple(todo),
            tuple(pending),
            spec.given.place or None,
        )

    def _handle(self) -> t.Any:
        return look_up(self._conn, self._spec)

    def _write(self, root: etree._Element) -> None:
        """Define it with the UUID of what is there, or the one that this run has chosen."""
        root = copy.deepcopy(root)
        if root.find("uuid") is None:
            uuid_element = etree.Element("uuid")
            uuid_element.text = self._uuid
            root.insert(0, uuid_element)
        self._conn.secretDefineXML(etree.tostring(root, encoding="unicode"), 0)

    def _lock(self) -> t.ContextManager[None]:
        return hypervisor_lock("init", wait_seconds=self._lock_seconds)

    def _now(self) -> FoundSecret | None:
        """As it is now; None where there is none."""
        with suppress_codes(libvirt.VIR_ERR_NO_SECRET):
            return FoundSecret.read(self._handle(), self._spec.words)
        return None

    def _define(self) -> Step:
        found, words = self._found, self._spec.words
        begun: list[bool] = []

        def apply() -> None:
            with self._lock(), translate_errors(f"cannot define the {words}"):
                if found is None and self._now() is not None:
                    # With a UUID that both were given, libvirt would take this one for a change of that one.
                    raise ConflictError(f"the {words} has been created by somebody else meanwhile", hint=_AGAIN)
                begun.append(True)
                self._write(self._begun)

        def undo() -> None:
            if not begun:
                # It is somebody else's.
                return
            with translate_errors(f"cannot take back the definition of the {words}"):
                if found is not None:
                    self._write(found.root)
                    return
                with suppress_codes(libvirt.VIR_ERR_NO_SECRET):
                    self._conn.secretLookupByUUIDString(self._uuid).undefine()

        return Step(
            f"define {words}" if found is None else f"change {', '.join(self._changed)} of {words}", apply, undo
        )

    def _set_value(self, before: bytes | None) -> Step:
        spec = self._spec
        value = spec.value or b""
        cannot = f"cannot set the value of the {spec.words}"
        replaced: list[bytes] = []

        def apply() -> None:
            with self._lock(), translate_errors(cannot):
                now = self._now()
                if now is None:
                    raise ConflictError(f"the {spec.words} has been removed by somebody else meanwhile", hint=_AGAIN)
                if not needs_value(spec, now.value_state, now.value):
                    # Somebody else has set it meanwhile.
                    return
                self._require_replaceable(now)
                now.handle.setValue(value, 0)
                replaced.extend(() if now.value is None else (now.value,))

        def undo() -> None:
            with translate_errors(cannot):
                for old in replaced:
                    self._handle().setValue(old, 0)

        # Of a private one nobody knows what it was; that of a new one goes with it.
        return Step(f"set the value of {spec.words}", apply, None if before is None else undo)

    def _require_replaceable(self, found: FoundSecret) -> None:
        """Raise ConflictError where another value would keep something from being opened."""
        if self._spec.usage not in OPENING_USAGES or found.value_state == NOT_SET:
            return
        what = "keeps its value" if found.value_state == SET else "keeps its value, which cannot be compared"
        hint = "Set update_value: on_create, which keeps the value of an existing secret"
        require_unused(self._conn, self._spec, found, what, "update_value", hint)

    def _hide(self) -> Step:
        def apply() -> None:
            with translate_errors(f"cannot make the {self._spec.words} private"):
                self._write(self._ended)

        return Step(f"make {self._spec.words} private", apply)
