# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine whose creation was interrupted: removed, and created again, unless somebody has begun to use it."""

from __future__ import annotations

from ..._base.errors import ConflictError
from ..._host.connection import translate_errors
from ..._host.machines import domains as host_domains
from ..._host.machines.domains import Domain
from ..._host.machines.start_watch import last_start
from ..._host.machines.undefine import undefine
from ..._host.storage.proof import require_proven
from ..._host.storage.usage import PoolVolume, Usage, delete_unused, require_unused, volume_exists
from ..._model.metadata.machine import BUILDING, NAMESPACE, PREFIX, MachineNotes
from ..hypervisor import Hypervisor
from ..plan import Step


def steps_to_clear(unfinished: Domain, hypervisor: Hypervisor) -> list[Step]:
    """The steps that take away what a killed run left: the volumes that it has made, then the domain.

    Raises ConflictError for a machine that somebody has begun to use, for a volume that something else uses or may use,
    and for one that has the name of a listed volume when nothing proves that this run has made it. In a pool that other
    hypervisors share, one may always use it, unless they were asked (Hypervisor.left_elsewhere); what they are to be
    asked about is noted in the hypervisor. All of it is looked at again at the moment of deletion, but for what they
    said.
    """
    _check(unfinished, hypervisor, hypervisor.usage.told(hypervisor.left_elsewhere))

    def clear() -> None:
        now = host_domains.list_domains(hypervisor.conn).get(unfinished.name)
        if now is None:
            return
        now.require_readable()
        if now.notes is None or now.notes.status != BUILDING:
            raise ConflictError(f"machine {now.name} has been finished by another run since this one was planned")
        elsewhere = hypervisor.left_elsewhere
        listed = _check(now, hypervisor, Usage(hypervisor.conn, elsewhere=elsewhere))
        delete_unused(hypervisor.conn, listed, owner=now.name, clearing=now.name, elsewhere=elsewhere)
        undefine(hypervisor.conn, now.name, never_started=True)

    return [Step(f"remove what an interrupted run left of {unfinished.name}", clear)]


def _check(unfinished: Domain, hypervisor: Hypervisor, usage: Usage) -> list[PoolVolume]:
    """The volumes that go with the machine. Raises ConflictError when something has to stay."""
    _require_never_started(unfinished)
    notes = unfinished.notes or MachineNotes()
    listed = [(hypervisor.pools.get(note.pool), note) for note in notes.volumes]
    found = [(pool, note) for pool, note in listed if volume_exists(pool, note.name)]
    there = [(pool, note.name) for pool, note in found]
    shared = hypervisor.ask_about(there)
    try:
        for pool, note in found:
            require_proven(pool, note)
        # Also those with a mark: it shows who has made a volume, and not that nobody has taken it into use since.
        require_unused(usage, there, owner=unfinished.name, besides=unfinished.name)
    except ConflictError as exc:
        ask = _ask_all(unfinished.name) if shared and hypervisor.left_elsewhere is None else ""
        raise ConflictError(
            f"machine {unfinished.name} was never finished, and cannot be removed: {exc.what}",
            hint=f"{exc.hint or ''}{ask}" or None,
        ) from exc
    return there


def _ask_all(name: str) -> str:
    """What removes a machine with its volumes in shared pools, to be added to a hint."""
    return (
        ". To have all hypervisors asked, and the machine removed: "
        f"ansible-playbook -i hosts.yml brine.virt.purge -e vm={name}"
    )


def _require_never_started(unfinished: Domain) -> None:
    """A run that was cut off has started nothing: whatever speaks of a start is somebody's doing."""
    name, handle = unfinished.name, unfinished.handle
    with translate_errors(f"cannot inspect machine {name}"):
        active = bool(handle.isActive())
        saved = bool(handle.hasManagedSaveImage(0))
        snapshots = [snapshot.getName() for snapshot in handle.listAllSnapshots(0)]
    state = "it runs" if active else "its state is saved" if saved else "it has snapshots" if snapshots else None
    noted = None if unfinished.notes is None else unfinished.notes.started
    if state is None and noted is not None and noted != last_start(name):
        # It is off again, such as since its host has lost power.
        state = "it was started since"
    if state is None:
        return
    where = "--live --config" if active else "--config"
    raise ConflictError(
        f"the run that created machine {name} was interrupted before the machine was finished, but {state}, so "
        "it is left as it is",
        hint=f"To keep it as it is: {keep_command(name, where)}. To have it created from scratch, remove it first: "
        f"ansible-playbook -i hosts.yml brine.virt.purge -e vm={name}",
    )


def keep_command(name: str, where: str = "--config") -> str:
    """The command that marks an unfinished machine as finished."""
    set_to = f'"$(virsh metadata {name} {NAMESPACE} | sed 1s/building/ready/)"'
    return f"virsh metadata {name} {NAMESPACE} --key {PREFIX} {where} --set {set_to}"
