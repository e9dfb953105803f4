# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the next backup of a machine is: full or incremental, and why. Nothing here changes anything."""

from __future__ import annotations

import contextlib
import os
import typing as t
from dataclasses import dataclass, field

from ..._base.errors import ConflictError, NotFoundError, UnsupportedError, VirtError
from ..._host.backup.checkpoints import sizes_since, snapshots
from ..._host.backup.directory import Backups, list_backups
from ..._host.backup.merge import require_free
from ..._host.backup.qemu_user import require_open_to_qemu
from ..._host.backup.verify import problem_of
from ..._host.connection import VirConnect, libvirt, translate_errors
from ..._host.machines.domains import Domain, description_of, list_domains
from ..._host.machines.snapshots import EXTERNAL, list_snapshots
from ..._host.storage.full_disk import free_in
from ..._host.storage.pools import Pools
from ..._model.backup.manifest import DISK, FULL, INCREMENTAL, Manifest
from ..._model.metadata.machine import BUILDING
from ..._model.metadata.migration import read_migration_note
from ..._model.metadata.snapshots import finish_revert_hint, reverting_to
from ..._model.xml.disk_source import QCOW2
from ..power.view import OlderDataError, view_machine
from .disks import BackupDisk, find_disks, require_readable_disks
from .options import BackupOptions
from .unsaved import unsaved_disks

# As many as libvirt follows. Of 1100 images qemu-img 7.2 opens no more than a process may have files, and runs out of
# its stack where it may have more, so that nothing can be restored.
_DEEPEST = 200


@dataclass(frozen=True)
class BackupPlan:
    """A backup that is to be made.

    disks: those in it; left_out: the others, by target, with the reason; unsaved: those of them that the machine writes
    to. parent: what an incremental one is built on,
    None for a full one; reason: why it is a full one. checkpoint: whether a checkpoint is made with it, for the next
    one; no_checkpoint: why not. needed_bytes: what it takes at most. backups: those that are there.
    """

    domain: Domain
    uuid: str
    disks: tuple[BackupDisk, ...]
    left_out: dict[str, str]
    parent: Manifest | None
    reason: str
    no_checkpoint: str
    needed_bytes: int
    backups: Backups = field(compare=False)
    unsaved: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """``full`` or ``incremental``."""
        return FULL if self.parent is None else INCREMENTAL

    @property
    def by_job(self) -> tuple[BackupDisk, ...]:
        """The disks that QEMU writes, in one job; the others are copied."""
        return tuple(disk for disk in self.disks if self.domain.active and disk.role == DISK)

    @property
    def words(self) -> str:
        """What is to be done, in words."""
        on = "" if self.parent is None else f" on {self.parent.id}"
        return f"make {'a full' if self.parent is None else 'an incremental'} backup of {self.domain.name}{on}"

    @property
    def cannot_write(self) -> str:
        """What is not possible, in words, where something is in the way of writing it."""
        return f"cannot write the backup of machine {self.domain.name} to {self.backups.path}"


def plan_backup(conn: VirConnect, name: str, options: BackupOptions) -> BackupPlan:
    """The next backup of a machine. Raises VirtError when there can be none."""
    domain = list_domains(conn).get(name)
    if domain is None:
        raise NotFoundError(f"there is no machine {name} on this hypervisor")
    domain.require_readable()
    _require_settled(domain)
    with translate_errors(f"cannot inspect machine {name}"):
        uuid = domain.handle.UUIDString()
        # libvirt's daemon has to say both; the test driver, which has no backups, says neither.
        if not domain.handle.isPersistent():
            raise ConflictError(f"{name} is running but not defined here, so that there is nothing to restore it from")
    if domain.active and not hasattr(domain.handle, "backupBegin"):
        raise UnsupportedError("this libvirt cannot back up a running machine: it is older than 7.2")
    disks, left_out = find_disks(domain, Pools(conn))
    if not disks:
        raise ConflictError(f"machine {name} has no disk to be backed up")
    backups = list_backups(options.destination, name, options.owner)
    if domain.active:
        no_checkpoint = _why_no_checkpoint(domain, disks)
        parent, reason, changed = _choose_parent(domain, uuid, disks, backups, options)
    else:
        require_readable_disks(disks, name)
        no_checkpoint, parent, reason, changed = "the machine is off", None, "the machine is off", {}
    needed = sum(
        disk.full_bytes if parent is None or disk.role != DISK else (changed.get(disk.target) or 0) for disk in disks
    )
    unsaved = unsaved_disks(domain, left_out)
    return BackupPlan(domain, uuid, tuple(disks), left_out, parent, reason, no_checkpoint, needed, backups, unsaved)


def require_ready(plan: BackupPlan, options: BackupOptions, going_bytes: int = 0) -> None:
    """Raise HostError when the destination has less room than the backup takes at most, or QEMU cannot enter it.

    going_bytes: what is removed before it is made.
    """
    free_bytes = free_in(options.destination) + going_bytes
    require_free(f"cannot back up machine {plan.domain.name}", options.destination, plan.needed_bytes, free_bytes)
    if plan.domain.active:
        path = plan.backups.path if os.path.isdir(plan.backups.path) else options.destination
        require_open_to_qemu(description_of(plan.domain.handle), path, plan.cannot_write)


def _require_settled(domain: Domain) -> None:
    note = read_migration_note(domain.xml)
    if note is not None:
        raise ConflictError(
            f"{domain.name} {note.words}, or its move was interrupted",
            hint="Wait until the move ends, or run it again, which finishes it",
        )
    if domain.notes is not None and domain.notes.status == BUILDING:
        raise ConflictError(f"{domain.name} is being created, or creating it was interrupted, so it is not backed up")
    snapshot = reverting_to(domain.xml)
    if snapshot is not None:
        raise ConflictError(
            f"{domain.name} is being reverted to snapshot {snapshot}, or that was interrupted, so its disks are of "
            "different times, and it is not backed up",
            hint=finish_revert_hint(snapshot),
        )
    refusal = view_machine(domain.handle).refusal
    if isinstance(refusal, OlderDataError):
        raise ConflictError(f"{domain.name} is not backed up: {refusal.what}", hint=refusal.hint)


def _why_no_checkpoint(domain: Domain, disks: t.Sequence[BackupDisk]) -> str:
    """Why libvirt cannot remember from now on what changes; empty where it can."""
    for disk in disks:
        if disk.role == DISK and not disk.tracked:
            return f"disk {disk.target} is {disk.format}, and libvirt remembers changes in qcow2 images only"
    found = snapshots(domain.handle)
    if found:
        # libvirt lets a machine go back to one, and what has changed by that is in no bitmap: seen with 9.0.
        return f"the machine has the snapshot {found[0]}, and libvirt does not remember what going back to it changes"
    return ""


def _choose_parent(
    domain: Domain, uuid: str, disks: t.Sequence[BackupDisk], backups: Backups, options: BackupOptions
) -> tuple[Manifest | None, str, dict[str, int | None]]:
    """What to build on, or why on nothing; and what has changed since, by target, in bytes."""
    if options.full:
        return None, "it was requested", {}
    if any(disk.role == DISK and not disk.tracked for disk in disks):
        return None, _why_no_checkpoint(domain, disks), {}
    if not backups.by_id and not backups.broken:
        return None, "there is no earlier one", {}
    own = [manifest for manifest in backups.newest_first() if manifest.uuid == uuid]
    if not own:
        return None, f"those in {backups.path} are of another machine of this name", {}
    reason = _why_none_was_made(own[0])
    first = True
    for manifest in own:
        if not manifest.checkpoint:
            continue
        changed = sizes_since(domain.handle, manifest.checkpoint)
        why = _why_not_on(domain, manifest, disks, changed, backups, options)
        if why is None and changed is not None:
            return manifest, "", changed
        # The reason is that of the newest one that could have been it.
        if first and why is not None:
            reason, first = why, False
    return None, reason, {}


def _why_none_was_made(manifest: Manifest) -> str:
    """Why there is no checkpoint of this backup: what _why_no_checkpoint said when it was made."""
    if not manifest.running:
        return f"the machine was off when {manifest.id} was made, so nothing was noting what it changes from then on"
    for disk in manifest.disks:
        if disk.role == DISK and disk.format != QCOW2:
            return (
                f"disk {disk.target} was {disk.format} when {manifest.id} was made, and libvirt remembers changes in "
                "qcow2 images only"
            )
    return (
        f"the machine had a snapshot when {manifest.id} was made, and libvirt does not remember what going back to one "
        "changes"
    )


def _why_elsewhere(domain: Domain, disk: BackupDisk, manifest: Manifest) -> str:
    """Why a disk is another volume than in a backup."""
    # These are no more than words: a snapshot that cannot be read fails no backup.
    with contextlib.suppress(VirtError):
        for facts in (snapshot.facts for snapshot in list_snapshots(domain.handle)):
            if facts.kind == EXTERNAL and (disk.target, disk.path) in facts.disks:
                return f"the file of disk {disk.target} has changed since {manifest.id}, by the snapshot {facts.name}"
    return f"disk {disk.target} is on another volume than in {manifest.id}"


def _why_not_on(
    domain: Domain,
    manifest: Manifest,
    disks: t.Sequence[BackupDisk],
    changed: dict[str, int | None] | None,
    backups: Backups,
    options: BackupOptions,
) -> str | None:
    damage = backups.damage_of(manifest.id)
    if damage:
        # Before all else: whoever has found it may have deleted the checkpoint as well.
        return f"nothing can be built on {manifest.id}: {damage}"
    if changed is None:
        return (
            f"libvirt has lost the checkpoint of {manifest.id}, as after a move to another hypervisor or a revert to a "
            "snapshot"
        )
    now = {disk.target: disk for disk in disks if disk.role == DISK}
    then = {disk.target: disk for disk in manifest.disks if disk.role == DISK}
    for target, disk in now.items():
        if target not in then:
            return f"disk {target} was added since {manifest.id}"
        if (then[target].pool, then[target].volume) != (disk.pool, disk.volume):
            # Such as two disks that have changed places: each has a bitmap of this name, with what changed on it.
            return _why_elsewhere(domain, disk, manifest)
        if then[target].source_file not in (None, disk.source_file):
            # Such as two files that mv has swapped while the machine was off: each has a bitmap of this name.
            return f"the file of disk {target} is not the same as when {manifest.id} was made"
        if then[target].size_bytes != disk.size_bytes:
            return f"disk {target} has another size than in {manifest.id}"
        if changed.get(target) is None:
            return f"libvirt does not know what has changed on disk {target} since {manifest.id}"
    gone = sorted(then.keys() - now.keys())
    if gone:
        return f"disk {gone[0]} was removed since {manifest.id}"
    problem = problem_of(backups, manifest)
    if problem is not None:
        return f"nothing can be built on {manifest.id}: {problem.what}"
    length = len(backups.chain(manifest.id))
    if length >= options.full_every:
        return f"{manifest.id} is number {length} of those that are built on each other (full_every)"
    if length >= _DEEPEST:
        return f"{manifest.id} is number {length} of those that are built on each other, and QEMU may not read more"
    return None


def definition_of(domain: Domain) -> str:
    """The permanent definition, with the passwords in it. Raises VirtError."""
    with translate_errors(f"cannot read the definition of machine {domain.name}"):
        return str(domain.handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE))
