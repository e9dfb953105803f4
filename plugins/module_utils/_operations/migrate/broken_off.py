# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A move that broke off at the switch, so that both hypervisors have the machine: finished where that is safe.

It is where the target runs the machine. Else nothing is touched, and what each side has is said: neither is to run
before somebody knows which has the latest data.
"""

from __future__ import annotations

import contextlib
import time

from ..._base.errors import ConflictError, HostError, VirtError
from ..._base.xml import read_description
from ..._host.connection import VirConnect, translate_errors
from ..._host.machines.domains import description_of
from ..._host.machines.undefine import undefine
from ..._host.storage.disk_lock import DiskLock
from .context import MigrationContext
from .endpoints.location import Endpoints, Presences, find, see, see_both, set_autostart, shared_files, written_files
from .endpoints.source_and_target import SourceMachine

# A daemon that has just started looks after one machine after the other.
_SETTLE_SECONDS = 15.0
# One that was killed starts again.
_ANSWER_SECONDS = 60.0


def is_taken_over(machine: SourceMachine, context: MigrationContext, where: str) -> bool:
    """Whether an earlier move has brought the machine to the target, so that only the source is left to be cleaned up.

    Raises ConflictError for a machine of which nobody knows, after an earlier move, which hypervisor is to run it.
    """
    here, old, target = see(machine.handle), machine.moving, context.target
    there = see(find(target.hypervisor.conn, machine.uuid))
    if here.held and old is not None and (old.source, old.target) != (context.source_name, target.name):
        raise ConflictError(
            f"{machine.name} is paused, as its move from {old.source} to {old.target} broke off",
            where=where,
            hint=f"Run that one again first: it says what {old.target} has. If {old.target} is gone for good: virsh "
            f"resume {machine.name}",
        )
    both = Presences(here, there)
    if both.taken_over:
        _require_own_files(machine.handle.connect(), machine, both, target.name, where)
        return True
    if here.held or (both.same_move and not here.runs):
        what, hint = _words(machine.name, both, target.name)
        raise ConflictError(what, where=where, hint=hint)
    return False


def settle_switch(machine: SourceMachine, context: MigrationContext) -> bool | None:
    """Whether a machine is on the target whose live move libvirt calls a failure; then it is ended at the source.

    None when the source has forgotten it, as it does at the end of a move. Raises an error of ours when it stays
    undecided, also because one of the two does not answer.
    """
    endpoints = context.endpoints.reconnected()
    seen_since = None
    began = time.monotonic()
    while True:
        try:
            found = _look_at_switch(endpoints, machine, context)
        except ConflictError:
            raise
        except VirtError as exc:
            # A daemon that is dying still takes connections.
            if time.monotonic() - began > _ANSWER_SECONDS:
                raise HostError(
                    f"{machine.name} was being moved to {context.target.name}, and it is not known whether it has "
                    f"arrived: {exc.what}",
                    hint="Run the move again when both answer; nothing was deleted",
                ) from exc
        else:
            if not isinstance(found, Presences):
                return found
            seen_since = seen_since or time.monotonic()
            if time.monotonic() - seen_since > _SETTLE_SECONDS:
                what, hint = _words(machine.name, found, context.target.name)
                raise HostError(what, hint=hint)
        time.sleep(0.3)


def _look_at_switch(endpoints: Endpoints, machine: SourceMachine, context: MigrationContext) -> bool | Presences | None:
    """As settle_switch, at this moment; what both have where that is undecided."""
    with endpoints.open_source() as source:
        here = see(find(source, machine.uuid))
        if not here.paused and not here.off:
            return None if here.state is None else False
        with endpoints.open_target() as target:
            both = Presences(here, see(find(target, machine.uuid)))
            if both.taken_over:
                _require_own_files(source, machine, both, context.target.name, None)
                end_at_source(endpoints, machine.uuid, machine.name, undefine_source=context.options.undefine_source)
                return True
    if both.there.state is None and not here.held and not here.busy:
        return False
    return both


def end_at_source(endpoints: Endpoints, uuid: str, name: str, *, undefine_source: bool) -> None:
    """End what the source still has in memory of a machine that the target runs, and undefine it there if wanted: once
    it is off, nobody knows any more that it has not run since.

    Raises HostError when it does not run there, ConflictError when the source may still write to a disk.
    """
    with endpoints.open_source() as source, endpoints.open_target() as target:
        both = see_both(source, target, uuid)
        _require_taken_over(both, name)
        if both.here.paused:
            handle = find(source, uuid)
            with contextlib.ExitStack() as held, translate_errors(f"cannot end the paused copy of {name}"):
                # A QEMU that has handed its machine over has let go of the disks; and none gets them back meanwhile.
                for path in written_files(read_description(f"machine {name}", handle.XMLDesc(0))).values():
                    if path.startswith("/"):
                        lock = DiskLock(path)
                        held.callback(lock.release)
                        lock.hold()
                # The host may start again before it is undefined.
                set_autostart(handle, False)
                handle.destroy()
                if undefine_source:
                    undefine(source, name, moved=True)


def forget_left_over(source: VirConnect, target: VirConnect, uuid: str) -> None:
    """Undefine at the source what a finished move would have. Raises HostError when the target does not run it."""
    handle = find(source, uuid)
    if handle is None:
        return
    with translate_errors("cannot inspect the machine"):
        name = handle.name()
    both = see_both(source, target, uuid)
    _require_taken_over(both, name)
    if not both.here.off:
        raise HostError(f"{name} {both.here.words} here, so nothing is deleted here")
    undefine(source, name, moved=True)


def _require_taken_over(both: Presences, name: str) -> None:
    if not both.taken_over:
        raise HostError(
            f"{name} {both.here.words} here and {both.there.words} on the target, so nothing is ended or deleted here",
            hint="Run it again: it says what to do",
        )


def _require_own_files(
    source: VirConnect, machine: SourceMachine, both: Presences, target: str, where: str | None
) -> None:
    """Raise ConflictError for a copy in memory that cannot be ended without harm to the one that runs."""
    if both.here.off or both.here.note is None:
        return
    shared = shared_files(description_of(find(source, machine.uuid), where=where), both.here.note)
    if shared:
        raise ConflictError(
            f"{machine.name} runs on {target}, but its move there broke off and left a paused copy here, whose end "
            f"could take the files of the disks that both have open ({', '.join(shared)}) from the one that runs",
            where=where,
            hint=f"Never resume the one here. Shut {machine.name} down on {target}, run virsh destroy {machine.name} "
            f"and virsh undefine {machine.name} --keep-nvram here, start it on {target}, and run the move again",
        )


def _words(name: str, both: Presences, target: str) -> tuple[str, str]:
    """What is said of a machine that is undecided, and what to do."""
    here, there = both.here, both.there
    what = f"{name} {here.words} here and {there.words} on {target}, as its move there broke off; nothing was changed"
    again = "run the move again"
    if there.state is None:
        return what, f"It can only go on here: virsh resume {name}, and {again}"
    if here.busy or there.busy:
        return what, f"libvirt is at work on it (virsh domjobinfo {name}): wait until that ends, and {again}"
    if there.runs and not here.held:
        end = f"virsh undefine {name} --keep-nvram"
        end = end if here.off else f"virsh destroy {name}, {end}"
        return what, (
            "It may have run here since, so each side may have data of its own: compare the two. If what is here is "
            f"not needed: {end} here, and {again}"
        )
    if not there.off and not there.paused:
        return what, (
            f"Never resume it here. Compare the two; if virsh domstate --reason {name} on {target} says nothing of "
            f"post-copy, all of it is there: virsh destroy {name} here, and {again}"
        )
    verb = "resume" if there.paused else "start"
    return what, (
        f"Neither resume nor start it here before you know which has the latest data. If it ever ran on {target} "
        f"(/var/log/libvirt/qemu/{name}.log there), {target} has: virsh {verb} {name} there, and {again}, which ends "
        f"the one here. Only if it never did, remove it there, and {'resume' if here.paused else 'start'} it here"
    )
