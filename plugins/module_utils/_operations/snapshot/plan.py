# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be done about the snapshots of one machine. Nothing here changes anything."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..._base.errors import ConflictError, NotFoundError, one_of_these
from ..._host.connection import VirConnect
from ..._host.machines.set_aside import put_back as put_back_snapshots
from ..._host.machines.snapshots import CEPH, EXTERNAL, PAUSED, RUNNING, SHUTOFF, KnownSnapshot
from ..._host.storage.pools import Pools
from ..._model.metadata.snapshots import read_set_aside, read_work, removal_of_work, without_work
from ..._model.snapshot_name import default_name
from ..plan import Step
from .clustered import clear_half_taken, forget, is_in_cluster, undescribed
from .delete import (
    deletion_begun,
    deletion_words,
    merged_unseen,
    note_merged,
    require_no_clones,
    step_to_delete_undescribed,
    steps_to_delete,
)
from .files import has_new_files, note_files, show_files
from .held import let_go
from .method import AUTO, Method, choose
from .readonly import hidden_disks, put_back
from .retention import Retention
from .revert import require_force, state_after, steps_to_revert
from .rolling_back import require_whole
from .take import MemoryPlace, find_memory_place, step_to_take
from .tracking import steps_before_taking
from .view import SnapshotView, is_moving, require_settled, view

PRESENT, ABSENT, REVERTED = "present", "absent", "reverted"


@dataclass(frozen=True)
class SnapshotRequest:
    """What a task asks for of each machine.

    names: of the snapshots; empty for a new one with a name of its own (PRESENT), or for retention alone (ABSENT).
    memory, quiesce: as in method.choose. force: a revert may end what runs. now: seconds since the epoch.
    """

    state: str
    now: float
    names: tuple[str, ...] = ()
    memory: str = AUTO
    quiesce: str = AUTO
    description: str = ""
    keep: Retention | None = None
    force: bool = False


@dataclass(frozen=True)
class SnapshotPlan:
    """What is to be done for one machine.

    snapshot: the name of the one that is taken or reverted. method: of one that is taken. going: the names of those
    that are deleted. before, after: the names of its snapshots. state: the one that the machine is in afterwards.
    unfinished: the rest can only be planned when this is done; then: the machine as it is after that, for check mode,
    where it can be told. main: the description of the step that takes or reverts;
    deletions: those of the steps that delete, by the name of the snapshot. remarks: what else the user should know.
    memory: where that of a snapshot that is taken goes.
    """

    steps: tuple[Step, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    state_before: str
    state: str
    snapshot: str | None = None
    method: Method | None = None
    going: tuple[str, ...] = ()
    unfinished: bool = False
    then: SnapshotView | None = field(default=None, compare=False)
    main: str | None = None
    deletions: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    memory: MemoryPlace | None = None

    def as_far_as(self, done: Collection[str]) -> SnapshotPlan:
        """What it has come to where no more than these actions were done."""
        going = tuple(name for name in self.going if self.deletions.get(name) in done)
        kept = tuple(name for name in self.before if name not in going)
        if self.main is None:
            return replace(self, going=going, after=kept)
        if self.main not in done:
            return replace(self, going=going, after=kept, snapshot=None, method=None, state=self.state_before)
        return replace(self, going=going, after=(*kept, *(name for name in self.after if name not in self.before)))

    @property
    def actions(self) -> list[str]:
        """What is done, in words."""
        return [step.description for step in self.steps]


def plan(conn: VirConnect, machine: str, request: SnapshotRequest) -> SnapshotPlan:
    """The plan for one machine. Raises VirtError for what cannot be."""
    found = view(conn, machine, "vm")
    return _plan_first(conn, found) or _plan_asked(conn, found, request)


def plan_on(conn: VirConnect, done: SnapshotPlan, request: SnapshotRequest) -> SnapshotPlan | None:
    """What follows on an unfinished plan, for check mode; None where only the machine can tell, when that is done.

    Raises VirtError for what cannot be, as the run does then.
    """
    if done.then is not None:
        return _plan_first(conn, done.then) or _plan_asked(conn, done.then, request)
    if request.state == REVERTED:
        if request.names[0] not in done.after:
            raise _no_snapshot(request.names[0], done.after)
        require_force(done.state, active=done.state in (RUNNING, PAUSED), force=request.force)
    return None


def _no_snapshot(name: str, known: Sequence[str], hint: str = "") -> NotFoundError:
    return NotFoundError(f"it has no snapshot {name!r}", where="name", hint=f"{hint}{one_of_these(name, known)}")


def _plan_asked(conn: VirConnect, found: SnapshotView, request: SnapshotRequest) -> SnapshotPlan:
    """What the task asks for, of a machine on which no killed run has left anything to be done first."""
    machine = found.name
    before = tuple(one.facts.name for one in found.snapshots)
    begun, unmerged = read_work(found.defined), deletion_begun(found)
    held = read_work(found.xml)
    steps: list[Step] = []
    remarks: list[str] = []
    if found.active and held is not None and held.frozen:
        way = "its guest agent, which would thaw them, does not answer: if the guest hangs, reset it"
        if found.power.state == "paused":
            way = "while it is paused its guest agent cannot thaw them: resume it, and run this again"
        remarks.append(f"its file systems may be frozen since snapshot {held.snapshot} was taken, and {way}")
    left: dict[str, str] = {}
    main: str | None = None
    method, memory, name, state = None, None, None, found.power.state
    going: list[KnownSnapshot] = []
    if request.state == REVERTED:
        name = request.names[0]
        snapshot = found.find(name)
        if snapshot is None:
            hint = ""
            if begun is not None and begun.reverting:
                hint = (
                    "It was being reverted, so its disks may be of different times. Revert it to another snapshot; if "
                    f"there is none, {removal_of_work(machine)} lets it start as it is. "
                )
            raise _no_snapshot(name, before, hint)
        require_settled(found, reverting=True)
        if unmerged is not None:
            raise ConflictError(
                f"the deletion of snapshot {unmerged} was interrupted, so the files below it may hold part of what was "
                "written later",
                hint=f"The machine as it is now is whole. Run virt_snapshot with state: absent and name: {unmerged} "
                "again, which finishes the deletion",
            )
        steps += steps_to_revert(conn, found, snapshot, force=request.force)
        main, state = steps[-1].description, state_after(snapshot)
        if snapshot.facts.kind == EXTERNAL and state == SHUTOFF:
            steps.append(_put_back(conn, machine))
    else:
        if request.state == PRESENT:
            name = request.names[0] if request.names else default_name(machine, request.now)
            there = found.find(name)
            if there is not None and there.facts.kind == CEPH:
                # libvirt knows its description alone.
                require_whole(conn, found, there)
            if there is None:
                require_settled(found)
                if unmerged is not None:
                    raise ConflictError(
                        f"the deletion of snapshot {unmerged} was interrupted, so its disks may be on files of "
                        "different times, on which no other snapshot is taken",
                        hint=f"Run virt_snapshot with state: absent and name: {unmerged} first, which finishes that",
                    )
                method = choose(found, name, request.memory, request.quiesce)
                memory = find_memory_place(conn, found, name, method)
                if memory is not None:
                    memory.require_room()
                if method.kind != CEPH:
                    steps += steps_before_taking(conn, found)
                steps.append(step_to_take(conn, found, name, method, request.description))
                main = steps[-1].description
        going = _going(conn, found, request, remarks, taken=method is not None)
        if going:
            require_settled(found, deleting=True)
            begun_before = found.find(unmerged) if unmerged is not None else None
            if begun_before is not None and begun_before not in going:
                # libvirt deletes no other one until then.
                going.append(begun_before)
                remarks.append(f"the deletion of snapshot {unmerged}, which was interrupted, is finished as well")
            steps += steps_to_delete(conn, found, going)
        if request.state == ABSENT or (method is not None and method.kind == CEPH):
            left = _leftovers(conn, found, request, steps, remarks)
    if steps and not found.active and hidden_disks(found):
        # A run was killed in the middle of a revert.
        steps.insert(0, _put_back(conn, machine))
    kinds = [method.kind if method is not None else None, *(one.facts.kind for one in (*found.snapshots, *going))]
    has_files = EXTERNAL in kinds if steps else has_new_files(conn, found)
    if has_files:
        steps.append(Step(f"note the files of the snapshots of {machine}", lambda: _note(conn, machine)))
    gone = (*(one.facts.name for one in going), *left)
    taken = (name,) if method is not None and name is not None else ()
    after = (*(one for one in before if one not in gone), *taken)
    return SnapshotPlan(
        tuple(steps),
        before,
        after,
        found.power.state,
        state,
        name,
        method,
        gone,
        main=main,
        deletions={**{one: deletion_words(machine, one) for one in gone}, **left},
        remarks=tuple(remarks),
        memory=memory,
    )


def _note(conn: VirConnect, machine: str) -> None:
    now, pools = view(conn, machine, "vm"), Pools(conn).all()
    note_files(now, pools)
    show_files(now, pools)


def _plan_first(conn: VirConnect, found: SnapshotView) -> SnapshotPlan | None:
    """What comes first where a run was killed, if anything; the rest is planned after it."""
    before = tuple(one.facts.name for one in found.snapshots)
    name, handle, power = found.name, found.power.handle, found.power.state
    moving = is_moving(found.defined)

    def alone(
        words: str,
        apply: t.Callable[[], t.Any],
        *,
        more: tuple[str, ...] = (),
        state: str = power,
        then: SnapshotView | None = None,
    ) -> SnapshotPlan:
        return SnapshotPlan((Step(words, apply),), before, (*before, *more), power, state, unfinished=True, then=then)

    aside = tuple(one.name for one in read_set_aside(found.defined))
    if aside and not moving:
        return alone(
            f"put back the snapshots of {name}, which an interrupted move has set aside: {', '.join(aside)}",
            lambda: put_back_snapshots(handle),
            more=tuple(one for one in aside if one not in before),
        )
    work = read_work(found.xml)
    resumes = work is not None and work.paused and power == "paused"
    # Nobody else can have it thaw.
    thaws = resumes or (found.agent and power == "running")
    if found.active and work is not None and (thaws if work.frozen else work.paused):
        state = RUNNING if work.paused and power == PAUSED else power
        return alone(
            f"let {name} run on, which an interrupted run has held for snapshot {work.snapshot}",
            lambda: let_go(handle, work),
            state=state,
            then=replace(found, xml=without_work(found.xml), power=replace(found.power, state=state)),
        )
    begun = read_work(found.defined)
    # While it is moved, libvirt knows nothing of those that are whole either.
    if begun is not None and not (begun.reverting or begun.deleting) and not moving:
        snapshot = begun.snapshot
        words = f"delete what an interrupted run has left of snapshot {snapshot} of {name}"
        if not is_in_cluster(found.defined):
            # Its files may have the latest data, or libvirt may still be at it.
            require_settled(found)
            words = f"note that snapshot {snapshot} of {name} is not there, which an interrupted run has begun"
        whole = found.find(snapshot) is not None
        if whole:
            words = f"note that snapshot {snapshot} of {name} is whole, which an interrupted run has taken"
        # What the cluster has then, it says then.
        then = _without_note(found) if whole or not is_in_cluster(found.defined) else None
        return alone(words, lambda: clear_half_taken(conn, found, snapshot), then=then)
    merged = merged_unseen(conn, found)
    if merged:
        # Until the definition says so, the machine must not stop, as it would start with the older files.
        disks = ", ".join(f"disk {target} is on {one.below}" for target, one in sorted(merged.items()))
        return alone(
            f"note that {disks}, as QEMU has merged the file of the snapshot and libvirt does not know it",
            lambda: note_merged(conn, found, merged),
        )
    unmerged = deletion_begun(found)
    if unmerged is not None and found.find(unmerged) is None and not moving:
        words = f"note that snapshot {unmerged} of {name} is deleted, which an interrupted run has begun"
        # With it, what is known to be in the way may go as well.
        then = _without_note(found) if found.power.refusal is None else None
        return alone(words, lambda: forget(handle, live=True), then=then)
    return None


def _without_note(found: SnapshotView) -> SnapshotView:
    """A machine whose definition says of no work any more."""
    defined = without_work(found.defined)
    # That of a running one goes by itself, or is looked at before this one.
    return replace(found, defined=defined, xml=found.xml if found.active else defined)


def _leftovers(
    conn: VirConnect, found: SnapshotView, request: SnapshotRequest, steps: list[Step], remarks: list[str]
) -> dict[str, str]:
    """What is in the cluster and libvirt knows nothing of: its names, each with how the step that deletes it is
    described. That is added to the steps where the task names it; all else is only remarked upon."""
    going = {}
    for name, volumes in undescribed(conn, found).items():
        if name in request.names and request.state == ABSENT:
            require_settled(found)
            going[name] = f"delete snapshot {name} of {found.name} from its Ceph cluster, as libvirt does not know it"
            steps.append(step_to_delete_undescribed(found, name, volumes, going[name]))
        elif name not in request.names:
            remarks.append(
                f"its Ceph cluster has a snapshot {name} of it, which libvirt does not know: its description "
                "was deleted by hand, or lost with a hypervisor. state: absent with this name deletes it"
            )
    return going


def _put_back(conn: VirConnect, machine: str) -> Step:
    return Step(f"put back what {machine} only reads", lambda: put_back(conn, view(conn, machine, "vm")))


def _going(
    conn: VirConnect, found: SnapshotView, request: SnapshotRequest, remarks: list[str], *, taken: bool
) -> list[KnownSnapshot]:
    names = set(request.names) if request.state == ABSENT else set()
    if request.keep is not None:
        facts: Sequence = [one.facts for one in found.snapshots]
        expired = request.keep.expired(facts, request.now, coming=taken)
        # Who asks for a snapshot by its name does not have it deleted in the same task.
        kept = request.names if request.state == PRESENT else ()
        names |= {
            one.name for one in expired if one.name not in kept and not _is_cloned(conn, found, one.name, remarks)
        }
    return [one for one in found.snapshots if one.facts.name in names]


def _is_cloned(conn: VirConnect, found: SnapshotView, name: str, remarks: list[str]) -> bool:
    """Whether a snapshot in a cluster has clones, which is remarked upon: it has had its time, and stays."""
    snapshot = found.find(name)
    if snapshot is None or snapshot.facts.kind != CEPH:
        return False
    try:
        require_no_clones(conn, found, snapshot)
    except ConflictError as exc:
        remarks.append(f"snapshot {name} stays: {exc}")
        return True
    return False
