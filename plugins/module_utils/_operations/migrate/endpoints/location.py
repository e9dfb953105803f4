# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a machine is: asked of both hypervisors again, whatever a call has said before."""

from __future__ import annotations

import contextlib
import time
import typing as t
from dataclasses import dataclass

from ...._base.errors import NotFoundError, VirtError
from ...._host.connection import VirConnect, libvirt, open_connection, translate_errors
from ...._host.machines.domains import affect
from ...._model.metadata.migration import NAMESPACE, PREFIX, MigrationNote, migration_note_to_xml

# Daemons start again, and cables are plugged in again.
_WAIT_SECONDS = 60.0
_SETTLE_SECONDS = 15.0


@dataclass(frozen=True)
class Endpoints:
    """The two hypervisors of a move by their URIs.

    source_conn, target_conn: connections of this task, which serve as long as they answer.
    """

    source: str
    target: str
    source_conn: VirConnect = None
    target_conn: VirConnect = None

    def reconnected(self) -> Endpoints:
        """The same two, over new connections: for when something has gone wrong."""
        return Endpoints(self.source, self.target)

    def open_source(self) -> t.ContextManager[VirConnect]:
        """A connection to the source. A new one is tried for a while, as its daemon may be starting."""
        return _retrying(self.source_conn, lambda: open_connection(self.source))

    def open_target(self) -> t.ContextManager[VirConnect]:
        """A connection to the target. A new one is tried for a while."""
        return _retrying(self.target_conn, lambda: open_connection(self.target))


@dataclass(frozen=True)
class MachineLocation:
    """At each end, whether the machine is up (True), off (False) or not there (None)."""

    source: bool | None
    target: bool | None

    @property
    def left(self) -> bool:
        """It is on the target, and does not run at the source."""
        return self.target is not None and not self.source


def find_location(endpoints: Endpoints, uuid: str) -> MachineLocation:
    """Raises UnreachableError when one end does not answer: then nobody knows."""
    at_source = find_state_at_source(endpoints, uuid)
    with endpoints.open_target() as target:
        return MachineLocation(at_source, _state(target, uuid))


def find_state_at_source(endpoints: Endpoints, uuid: str) -> bool | None:
    """Whether it is up at the source (True), off (False) or not there (None)."""
    with endpoints.open_source() as source:
        return _state(source, uuid)


def find_location_after_switch(endpoints: Endpoints, uuid: str) -> MachineLocation:
    """The same, and again for some seconds while it is not plain that it is on the target."""
    end = time.monotonic() + _SETTLE_SECONDS
    while True:
        found = find_location(endpoints, uuid)
        if found.left or time.monotonic() > end:
            return found
        time.sleep(0.3)


def find(conn: VirConnect, uuid: str) -> t.Any:
    """The machine by its UUID, or None."""
    try:
        with translate_errors("cannot look up the machine"):
            return conn.lookupByUUIDString(uuid)
    except NotFoundError:
        return None


def write_note(domain: t.Any, note: MigrationNote | None) -> None:
    """Put the note into a machine's metadata, in the definition and as it runs; None takes it out."""
    with translate_errors(f"cannot write the metadata of machine {domain.name()}"):
        try:
            text = None if note is None else migration_note_to_xml(note)
            # One that came without a record has none to write to.
            flags = affect(domain) if domain.isPersistent() else libvirt.VIR_DOMAIN_AFFECT_LIVE
            domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, PREFIX, NAMESPACE, flags)
        except libvirt.libvirtError as exc:
            if note is not None or exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                raise


def set_autostart(domain: t.Any, on: bool) -> None:
    """Whether the machine starts with its hypervisor."""
    with translate_errors(f"cannot switch the autostart of {domain.name()} {'on' if on else 'off'}"):
        domain.setAutostart(int(on))


def is_active(domain: t.Any) -> bool:
    """Whether a machine is up at this moment."""
    with translate_errors("cannot read the machine's state"):
        return bool(domain.isActive())


def _state(conn: VirConnect, uuid: str) -> bool | None:
    """Whether a machine is up; None where there is none."""
    domain = find(conn, uuid)
    return None if domain is None else is_active(domain)


@contextlib.contextmanager
def _retrying(known: VirConnect, opener: t.Callable[[], t.ContextManager[VirConnect]]) -> t.Iterator[VirConnect]:
    if known is not None and _answers(known):
        yield known
        return
    end = time.monotonic() + _WAIT_SECONDS
    with contextlib.ExitStack() as stack:
        while True:
            try:
                conn = stack.enter_context(opener())
                break
            except VirtError:
                if time.monotonic() > end:
                    raise
                time.sleep(1)
        yield conn


def _answers(conn: VirConnect) -> bool:
    try:
        return bool(conn.isAlive() and conn.getLibVersion())
    except libvirt.libvirtError:
        return False
