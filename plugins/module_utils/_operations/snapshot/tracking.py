# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in the files of disks beside their content, where it is in the way of a snapshot: what QEMU notes for
incremental backups, and snapshots that libvirt does not know.

QEMU reverts no disk to an internal snapshot that has a bitmap (bdrv_snapshot_goto in its block/snapshot.c), and says so
only after libvirt has ended the machine. Of a machine that is off and has checkpoints, libvirt 9.0 takes no snapshot;
11.3 does. Both delete one.

The bitmaps of our backups go then: the next backup finds them gone, and is a full one.

Until 10.10, libvirt has QEMU delete an internal snapshot of a running machine by a command that refuses where
something that is written to can have none, as UEFI variables in a raw file, and takes no notice: the snapshot has gone
for libvirt and is in the disks (seen with 9.0). A later one of the same name is a second one there, and QEMU reverts to
the first.
"""

from __future__ import annotations

import contextlib
import shlex

from ..._base.errors import ConflictError, HostError, UnsupportedError, VirtError
from ..._base.xml import attribute
from ..._host.backup.checkpoints import remove_all_own
from ..._host.connection import VirConnect
from ..._host.images.bitmaps import bitmaps_in
from ..._host.images.inner_snapshots import snapshots_in
from ..._host.machines.snapshots import Snapshot
from ..._model.attachments import disks_by_target, written_disks, written_places
from ..._model.backup.manifest import is_own_checkpoint
from ..._model.xml.disk_source import QCOW2
from ..plan import Step
from .view import SnapshotView, is_here, version_words, view

# The oldest one that was seen to do it. For one in between that does it too, a backup is a full one without need.
_ALLOWS_CHECKPOINTS_OFF = 11_003_000
_SEES_WHAT_STAYS = 10_010_000


def steps_before_revert(conn: VirConnect, machine: SnapshotView) -> list[Step]:
    """The steps before a machine is reverted to an internal snapshot.

    Raises VirtError where there are none that lead there.
    """
    bitmaps = _bitmaps(conn, machine)
    _require_own_bitmaps(machine, bitmaps)
    names = {*machine.checkpoints, *(name for found in bitmaps.values() for name in found)}
    return _steps(conn, machine, sorted(names))


def steps_before_taking(conn: VirConnect, machine: SnapshotView) -> list[Step]:
    """The steps before libvirt takes a snapshot. Raises VirtError where there are none that lead there."""
    if machine.active or machine.version >= _ALLOWS_CHECKPOINTS_OFF:
        return []
    return _steps(conn, machine, list(machine.checkpoints))


def require_no_bitmaps(conn: VirConnect, machine: SnapshotView) -> None:
    """Raise ConflictError where a disk still has a bitmap, before libvirt ends the machine."""
    for path, names in _bitmaps(conn, machine).items():
        raise ConflictError(
            f"{path} still has bitmaps ({', '.join(names)}), and QEMU reverts no disk that has one",
            hint="Shut the machine down, and run it again",
        )


def require_deletable(machine: SnapshotView, snapshot: Snapshot) -> None:
    """Raise ConflictError for an internal snapshot that libvirt does not delete while the machine runs: where a disk of
    then is gone, which ends libvirt 9.0 itself, or where libvirt would forget it, and it stays in the disks."""
    if not machine.active:
        return
    name, now = snapshot.name, disks_by_target(machine.xml)
    gone = [target for target, _file in snapshot.disks if target not in now]
    if gone:
        raise ConflictError(
            f"its disk {', '.join(gone)} was detached after snapshot {name} was taken, and libvirt does not delete it "
            "while the machine runs",
            hint="Shut the machine down, and run it again",
        )
    if machine.version >= _SEES_WHAT_STAYS:
        return
    variables = machine.xml.find("os/nvram")
    reasons = [] if variables is None or variables.get("format") == QCOW2 else ["the variables of its UEFI"]
    qcow2 = _files(machine)
    reasons += [f"its disk {target}" for target in written_disks(machine.xml) if target not in qcow2]
    if reasons:
        raise ConflictError(
            f"while it runs, QEMU does not delete its snapshot {name}, as {' and '.join(reasons)} can have none, and "
            f"libvirt {version_words(machine.version)} takes no notice (10.10 does)",
            hint="Shut the machine down, and run it again",
        )


def require_gone(conn: VirConnect, machine: SnapshotView, name: str) -> None:
    """Raise HostError where a disk still has an internal snapshot that libvirt has just deleted."""
    left = [path for path, count in _with_snapshot(conn, machine, name).items() if count]
    if left:
        raise HostError(
            f"libvirt has deleted snapshot {name} of machine {machine.name}, and it is still in {', '.join(left)}",
            hint=f"Shut the machine down, and delete it there: {_deletion(left[0], name)}",
        )


def require_free_name(conn: VirConnect, machine: SnapshotView, name: str) -> None:
    """Raise ConflictError where a disk has an internal snapshot of this name that libvirt does not know."""
    for path, count in _with_snapshot(conn, machine, name).items():
        if count:
            raise ConflictError(
                f"{path} has a snapshot {name} already, which libvirt does not know, and a revert would go to that one",
                hint=f"Choose another name; or, if nobody needs it, delete it while the machine is off: "
                f"{_deletion(path, name)}",
            )


def require_one(conn: VirConnect, machine: SnapshotView, name: str, done: str) -> None:
    """Raise ConflictError where a disk has two internal snapshots of this name: QEMU would take the older one.

    done: what would become of that one, such as «reverted to».
    """
    for path, count in _with_snapshot(conn, machine, name).items():
        if count > 1:
            raise ConflictError(
                f"{path} has {count} snapshots {name}, of which libvirt knows one, and the oldest would be {done}",
                hint=f"See qemu-img snapshot -U -l {shlex.quote(path)}. While the machine is off, qemu-img snapshot -d "
                f"with the ID of the one that nobody needs deletes it",
            )


def _deletion(path: str, name: str) -> str:
    return f"qemu-img snapshot -d {shlex.quote(name)} {shlex.quote(path)}"


def _with_snapshot(conn: VirConnect, machine: SnapshotView, name: str) -> dict[str, int]:
    """How many internal snapshots of this name the files of a machine's disks have, as far as these can be read."""
    found = {}
    for path in _files(machine).values() if is_here(conn) else ():
        with contextlib.suppress(VirtError):
            found[path] = snapshots_in(path, in_use=machine.active).count(name)
    return found


def removed_unknown_bitmaps(conn: VirConnect, name: str) -> bool:
    """Delete the bitmaps of our backups from the disks of a machine that a revert has ended; whether it had any.

    One that came here running has bitmaps in QEMU's memory, and no checkpoint: only when QEMU ends they are in a file.
    Raises ConflictError where there are others, with which it cannot be reverted.
    """
    machine = view(conn, name, "")
    if machine.active or not any(is_own_checkpoint(one) for names in _bitmaps(conn, machine).values() for one in names):
        return False
    remove_all_own(machine.power.handle, _files(machine).values())
    require_no_bitmaps(conn, view(conn, name, ""))
    return True


def _steps(conn: VirConnect, machine: SnapshotView, names: list[str]) -> list[Step]:
    _require_own_checkpoints(machine)
    if not names:
        return []
    if not machine.active and not is_here(conn):
        raise UnsupportedError(
            "it is off and has checkpoints of backups, which can only be deleted on its hypervisor",
            hint="Run this on the hypervisor",
        )
    words = f"delete the checkpoints of the backups of {machine.name}, after which the next backup is a full one: "
    return [Step(words + ", ".join(names), lambda: remove_all_own(machine.power.handle, _files(machine).values()))]


def _require_own_checkpoints(machine: SnapshotView) -> None:
    foreign = [name for name in machine.checkpoints if not is_own_checkpoint(name)]
    if foreign:
        raise ConflictError(
            f"it has checkpoints that virt_backup has not made ({', '.join(foreign)}), with which this cannot be done",
            hint="If no other backup program needs them, delete each while the machine is running: "
            f"virsh checkpoint-delete {machine.name} {foreign[0]}",
        )


def _require_own_bitmaps(machine: SnapshotView, bitmaps: dict[str, list[str]]) -> None:
    """Of those without a checkpoint, which libvirt does not delete."""
    for path, names in bitmaps.items():
        unknown = [name for name in names if name not in machine.checkpoints]
        foreign = [name for name in unknown if not is_own_checkpoint(name)]
        if foreign:
            raise ConflictError(
                f"{path} has bitmaps that virt_backup has not made ({', '.join(foreign)}), and QEMU reverts no disk "
                "that has one",
                hint="If no other program needs them, delete each while the machine is off: "
                f"qemu-img bitmap --remove -f qcow2 {shlex.join([path, foreign[0]])}",
            )
        if unknown and machine.active:
            raise ConflictError(
                f"{path} has bitmaps of backups that libvirt does not know ({', '.join(unknown)}), with which QEMU "
                "reverts no disk, and which can only be deleted while the machine is off",
                hint="Shut it down, and run this again, which deletes them",
            )


def _bitmaps(conn: VirConnect, machine: SnapshotView) -> dict[str, list[str]]:
    """The names of the bitmaps in the files of a machine's disks, as far as these can be read; none where there are
    none. While it runs, QEMU may have others in its memory: each with a checkpoint, or brought along by a move."""
    found = {}
    for path in _files(machine).values() if is_here(conn) else ():
        try:
            names = [bitmap.name for bitmap in bitmaps_in(path, in_use=machine.active)]
        except VirtError:
            # Such as on a server that root may not read from. libvirt has the last word.
            continue
        if names:
            found[path] = names
    return found


def _files(machine: SnapshotView) -> dict[str, str]:
    """The qcow2 files, or block devices, of the disks that a machine writes to, by target."""
    disks = written_disks(machine.xml)
    places = written_places(machine.xml, "file", "block")
    return {target: path for target, path in places.items() if attribute(disks[target], "driver", "type") == QCOW2}
