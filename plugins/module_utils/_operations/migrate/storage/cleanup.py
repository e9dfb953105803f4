# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a move leaves behind, deleted: only volumes that are proven to be the ones, and that nothing uses."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Collection, Iterable

from ...._base.errors import HostError, VirtError
from ...._host.connection import VirConnect, translate_errors
from ...._host.machines.domains import Domain, list_domains
from ...._host.machines.undefine import undefine
from ...._host.storage.pools import Pools
from ...._host.storage.transfer.flush import end_flushes
from ...._host.storage.usage import USED, delete_those_unused, why_kept
from ...._model.metadata.migration import MigrationNote, VolumeRef, read_migration_note
from ...._model.xml.disk_source import FILE
from ...hypervisor_view import HypervisorView
from ..endpoints.location import Endpoints, find_state_at_source
from ..endpoints.source_and_target import SourceMachine
from .volume_identity import is_as_it_was_made, is_the_one


def clear_target(
    endpoints: Endpoints, uuid: str, note: MigrationNote, *, trusted: Collection[VolumeRef] = ()
) -> list[str]:
    """Delete what was made on the target for a machine that has stayed where it was; what stays, and why, in sentences.

    trusted: as in delete_proven. Raises an error of ours, and deletes nothing, when it is not certain that the machine
    has stayed.
    """
    if find_state_at_source(endpoints, uuid) is None:
        raise HostError("the machine is not at the source any more, so nothing on the target is deleted")
    with endpoints.open_source() as source, endpoints.open_target() as target:
        with translate_errors("cannot tell the hypervisors apart"):
            if source.getHostname() == target.getHostname():
                raise HostError("the target is this hypervisor itself, so nothing is deleted")
        _drop_left_over(target, uuid, note)
        _end_flushes(target, note)
        return delete_proven(target, note.made, trusted=trusted, fresh=True)


def _drop_left_over(target: VirConnect, uuid: str, note: MigrationNote) -> None:
    """Undefine what an offline move defined on the target before it failed, if nobody has started it there."""
    known = next((d for d in list_domains(target).values() if d.handle.UUIDString() == uuid), None)
    if known is None:
        return
    if not is_left_over(target, known, note):
        raise HostError(
            f"machine {known.name} is defined on the target, so nothing there is deleted",
            hint="Check both hypervisors: only one of them has its latest data",
        )
    undefine(target, known.name, never_started=True)


def _end_flushes(target: VirConnect, note: MigrationNote) -> None:
    """They have the volumes open."""
    pools = Pools(target)
    files = [(pools.get(ref.pool), ref.name) for ref in note.made]
    end_flushes(target, [pool.volume_path(name) for pool, name in files if pool.source_type == FILE])


def is_left_over(target: VirConnect, known: Domain, note: MigrationNote) -> bool:
    """Whether a machine on the target is only what a move of a stopped machine has defined there, and nobody started.

    note: the move's note at the source. The volumes of the move must be as it has left them: a start would have changed
    them. Where they do not tell that, the machine stays; so does one with a saved state or snapshots, which no move
    brings.
    """
    there = read_migration_note(known.xml)
    if known.active or note.running is not False or there is None:
        return False
    if (there.source, there.target, there.made) != (note.source, note.target, note.made):
        return False
    with translate_errors(f"cannot inspect machine {known.name}"):
        if known.handle.hasManagedSaveImage(0) or known.handle.listAllSnapshots(0):
            return False
    pools = Pools(target)
    return all(is_as_it_was_made(pools.get(ref.pool), ref, target) for ref in note.made)


def delete_proven(
    conn: VirConnect,
    refs: Iterable[VolumeRef],
    *,
    trusted: Collection[VolumeRef] = (),
    fresh: bool = False,
    left_by: str | None = None,
) -> list[str]:
    """Delete volumes that are the very ones that are meant, and that nothing uses. The others stay: why, in sentences.

    trusted: those that this very run has made or copied and that nothing can mark; they need no proof. fresh: they were
    made for this move, so that only a use that is seen keeps them. left_by: as in Usage.of.
    """
    pools = Pools(conn)
    stay: list[str] = []
    going: list[VolumeRef] = []
    for ref in refs:
        pool = pools.get(ref.pool)
        proven = is_the_one(pool, ref, conn)
        if proven or (proven is False and ref in trusted):
            going.append(ref)
        elif proven is False:
            stay.append(
                f"{_stays(ref)}: nothing proves that it is the one that the move created. {manual_deletion(conn, ref)}"
            )
    kept = delete_those_unused(conn, [(pools.get(ref.pool), ref.name) for ref in going], fresh=fresh, left_by=left_by)
    for index, use in kept.items():
        # What is seen to be used is not for anybody to delete.
        hint = "" if use.state == USED else f". {manual_deletion(conn, going[index])}"
        stay.append(f"{_stays(going[index])}: {why_kept(use)}{hint}")
    return stay


def volumes_left_aside(machine: SourceMachine, disks: Collection[VolumeRef], source: HypervisorView) -> list[str]:
    """The volumes that were made for a machine and are none of its disks any more, in sentences: they stay at the
    source, and nothing on the target says whose they are. disks: the volumes of its disks."""
    found = []
    notes = machine.notes.volumes if machine.notes is not None else ()
    for ref in (VolumeRef(note.pool, note.name) for note in notes):
        # In a pool that is not active or not there, nobody can tell whether it is.
        with contextlib.suppress(VirtError):
            if ref not in disks and ref.name in source.volumes(source.pools.get(ref.pool)):
                found.append(f"{_stays(ref)}: it is no disk of {machine.name}. {manual_deletion(source.conn, ref)}")
    return found


def _stays(ref: VolumeRef) -> str:
    return f"volume {ref.name} of pool {ref.pool} is kept"


def manual_deletion(conn: VirConnect, ref: VolumeRef) -> str:
    """How somebody who knows better deletes a volume."""
    with translate_errors("cannot ask libvirt for its URI"):
        uri = conn.getURI()
    command = shlex.join(["virsh", "-c", uri, "vol-delete", "--pool", ref.pool, ref.name])
    return f"If it is not needed: {command}"
