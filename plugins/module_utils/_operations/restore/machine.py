# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A backup restored: into a new machine, over one that is there, or one disk of it into a volume.

A new machine is defined first, marked as being made, with the list of its volumes, as when one is created: whatever
kills the run, the next one, or virt_purge, knows what it has left. A machine that is replaced keeps its disks until the
new ones are there and read as the backup does.
"""

from __future__ import annotations

import contextlib
import threading
import typing as t
from dataclasses import dataclass, field, replace

from ..._base.errors import ConflictError, VirtError, visible
from ..._base.xml import read_description
from ..._host.backup import state_files
from ..._host.backup.damage import DamagedError, changed_meanwhile
from ..._host.backup.directory import locked_to_read
from ..._host.backup.verify import look_for_damage, verify_chain
from ..._host.connection import VirConnect, libvirt, suppress_codes, translate_errors
from ..._host.locks import hypervisor_lock, machine_lock
from ..._host.machines import domains as host_domains
from ..._host.machines.redefine import redefine, redefine_disks
from ..._host.machines.start_watch import last_start
from ..._host.machines.undefine import undefine
from ..._host.progress import ProgressFile, ProgressMeter
from ..._host.storage.pools import Pool
from ..._host.storage.usage import Usage, delete_unused, require_unused
from ..._host.storage.volumes import volume_exists
from ..._model.backup.manifest import Manifest
from ..._model.backup.restored_domain import with_notes
from ..._model.metadata.machine import BUILDING, READY, MachineNotes
from ..._model.spec.device_names import named_notes
from ..._operations import plan as plans
from ..create.claims import is_claim
from ..create.unfinished import steps_to_clear
from ..disks.new_volume import VolumeOwner
from ..hypervisor import Hypervisor
from ..plan import Step
from ..shared_volumes.volume import SharedVolume, shared_volume
from .options import RestoreOptions
from .plan import RestorePlan, deletion_words, find_backup, needs_of, plan_restore, require_own_variables, words_of
from .replaced import marked, staying
from .volumes import VolumeFiller

# Only for what is looked up by name: nothing of an image store is used here.
_IMAGE_POOL = "images"
# What users give a machine, and only its metadata has. It may be younger than the backup.
_OF_USERS = ("tags", "labels", "anti_affinity", "order", "delay_seconds", "variables")


@dataclass
class RestoreResult:
    """What became of it. remarks: what the user should know though nothing has failed. shared: in check mode, what
    other hypervisors are asked about."""

    plan: RestorePlan
    actions: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    shared: list[SharedVolume] | None = None

    def as_result(self, options: RestoreOptions) -> dict[str, t.Any]:
        """In the words of the module's result."""
        plan = self.plan
        asked = {} if self.shared is None else {"shared": [one.as_result() for one in self.shared]}
        return {
            **asked,
            "changed": True,
            "name": None if plan.restored is None else options.name,
            "uuid": plan.identity or None,
            "new_identity": plan.renewed,
            "backup": plan.manifest.id,
            "made": plan.manifest.made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "volumes": [
                {
                    "target": one.entry.target,
                    "pool": one.pool.name,
                    "volume": one.volume,
                    "path": one.pool.volume_path(one.volume),
                    "format": one.format,
                    "size_bytes": one.entry.size_bytes,
                }
                for one in plan.volumes
            ],
            "needs": needs_of(plan),
            "actions": self.actions,
            # They repeat what stands in the definition, which anybody may have written.
            "remarks": [visible(words) for words in self.remarks],
        }


def preview(conn: VirConnect, options: RestoreOptions) -> RestoreResult:
    """What it would come to, for check mode. Checksums are not read. Raises VirtError."""
    hypervisor = Hypervisor(conn, image_pool=_IMAGE_POOL)
    plan = plan_restore(hypervisor, options)

    def clear(pool: Pool, volume: str) -> None:
        if volume_exists(pool, volume):
            shared.append(shared_volume(pool, volume))
            require_unused(Usage(conn, elsewhere=options.elsewhere), [(pool, volume)], besides=options.name)
            going.append(deletion_words(pool.name, volume))

    going: list[str] = []
    shared: list[SharedVolume | None] = []
    _stay, remarks = staying(hypervisor, plan, clear)
    return RestoreResult(plan, words_of(plan, options, going), [*_lost(plan), *remarks], [one for one in shared if one])


def restore(conn: VirConnect, options: RestoreOptions, stop: threading.Event, progress: ProgressFile) -> RestoreResult:
    """Do it. Raises VirtError; then what was there before is as it was."""
    meter = ProgressMeter(progress.write_line, options.name)
    seconds = options.lock_seconds
    # All that can be seen to be wrong, before hours of reading.
    plan = plan_restore(Hypervisor(conn, image_pool=_IMAGE_POOL), options)
    # In the order in which a backup takes the two. A disk beside it is restored while the machine is used.
    beside = options.disk is not None
    of_machine = contextlib.nullcontext() if beside else machine_lock(options.name, wait_seconds=seconds)
    # Nobody removes a backup meanwhile.
    with of_machine, locked_to_read(options.source, options.machine, seconds, options.owner):
        # While it waited, another run may have made, merged and removed some.
        if find_backup(options)[1] != plan.chain:
            raise changed_meanwhile(plan.backups)
        _verify(plan, options, stop, meter)
        # Whoever is changing or making the machine may hold this lock, and not that of the machine.
        with _lock(options):
            hypervisor = Hypervisor(conn, image_pool=_IMAGE_POOL)
            now = plan_restore(hypervisor, options)
        if now.chain != plan.chain:
            raise changed_meanwhile(plan.backups)
        filler = VolumeFiller(now.backups, now.chain, stop, meter, lambda: _lock(options))
        run = _Restore(hypervisor, now, options, filler)
        return RestoreResult(now, run.carry_out(), [*_lost(now), *run.remarks])


def _lock(options: RestoreOptions) -> t.ContextManager[None]:
    """The lock of the hypervisor: nobody else makes machines or volumes, or takes volumes into use."""
    return hypervisor_lock("init", wait_seconds=options.lock_seconds)


def _locked(step: Step, options: RestoreOptions) -> Step:
    """The step, done and undone under this lock."""

    def apply() -> None:
        with _lock(options):
            step.apply()

    def undo() -> None:
        if step.undo is not None:
            with _lock(options):
                step.undo()

    return Step(step.description, apply, undo)


def _lost(plan: RestorePlan) -> list[str]:
    if plan.restored is None:
        return []
    old = None if plan.existing is None else plan.existing.notes
    changed = [] if old is None else [key for key in _OF_USERS if getattr(old, key) != getattr(plan.notes, key)]
    return [*plan.restored.lost, *([f"its {', '.join(changed)} become those of the backup"] if changed else [])]


def _verify(plan: RestorePlan, options: RestoreOptions, stop: threading.Event, meter: ProgressMeter) -> None:
    """The checksums of all that is used. Raises HostError."""
    files = {one.entry.file for one in plan.volumes} if options.disk is not None else None
    entries = [one for manifest in plan.chain for one in manifest.files.items()]
    total = sum(entry.bytes for file, entry in entries if files is None or file in files)
    try:
        verify_chain(plan.backups, plan.chain, stop, meter.counter("checksums", total), files=files)
    except DamagedError as exc:
        backups = plan.backups
        look_for_damage(backups)
        own = [one.id for one in backups.newest_first() if one.uuid == plan.manifest.uuid]
        others = [name for name in own if name != plan.manifest.id and not backups.damage_of(name)]
        if not others:
            raise
        raise DamagedError(
            exc.what,
            hint=f"To restore the newest of the others: backup: {others[0]}, -e backup={others[0]} in the playbook",
        ) from exc


class _Restore:
    """Carries one plan out. The locks are held."""

    def __init__(
        self, hypervisor: Hypervisor, plan: RestorePlan, options: RestoreOptions, filler: VolumeFiller
    ) -> None:
        self._hypervisor = hypervisor
        self._plan = plan
        self._options = options
        self._filler = filler
        self._name = options.name
        self._backup = plan.backups.path_of(plan.manifest.id)
        self._defined = False
        self.remarks: list[str] = []
        self._deleted: list[str] = []

    def carry_out(self) -> list[str]:
        """What was done, in words."""
        plan = self._plan
        if plan.restored is None:
            left = [one.leftover.clear_step(self._hypervisor) for one in plan.volumes if one.leftover is not None]
            steps = [_locked(step, self._options) for step in left]
            steps += [self._filler.step(one, VolumeOwner(self._hypervisor, "", new=False)) for one in plan.volumes]
        elif plan.existing is None:
            steps = self._new()
        else:
            steps = self._over(plan.existing)
        plans.run(steps)
        if plan.existing is not None:
            # It is restored, whatever becomes of these: they are noted as what goes.
            try:
                with _lock(self._options):
                    self._delete_replaced()
            except VirtError as exc:
                self.remarks.append(f"the volumes of before stay until it is restored again or purged: {exc}")
        words = [*(step.description for step in steps), *self._deleted]
        if self._options.started and plan.restored is not None:
            step = Step(f"start machine {self._name}", self._start)
            step.apply()
            words.append(step.description)
        return words

    def _new(self) -> list[Step]:
        plan = self._plan
        steps = steps_to_clear(plan.unfinished, self._hypervisor) if plan.unfinished is not None else []
        volumes = tuple(one.note for one in plan.volumes)
        notes = replace(plan.notes, status=BUILDING, volumes=volumes, started=last_start(self._name))
        steps.append(
            Step(f"define machine {self._name} from backup {plan.manifest.id}", self._define(notes), self._undo)
        )
        steps = [_locked(step, self._options) for step in steps]
        owner = VolumeOwner(self._hypervisor, self._name, new=True, uuid=plan.identity)
        steps += [self._filler.step(one, owner) for one in plan.volumes]
        steps += self._states(replaced=False)
        ready = replace(plan.notes, status=READY)
        steps.append(Step(f"mark {self._name} as ready", lambda: self._write(ready), lambda: self._write(notes)))
        return steps

    def _over(self, existing: host_domains.Domain) -> list[Step]:
        plan = self._plan
        old = named_notes(existing.xml, existing.notes)
        making = tuple(one.note for one in plan.volumes)
        before = self._definition()
        steps = [
            Step(
                f"note the new volumes of {self._name}",
                lambda: self._write(replace(old, volumes=(*old.volumes, *making))),
                lambda: self._write(existing.notes),
            )
        ]
        owner = VolumeOwner(self._hypervisor, self._name, new=False, uuid=plan.identity)
        steps += [self._filler.step(one, owner) for one in plan.volumes]
        # The old volumes stay its own until they are gone.
        kept = replace(plan.notes, status=READY, volumes=(*plan.notes.volumes, *marked(self._hypervisor, plan)))
        step = Step(
            f"replace machine {self._name} by that of backup {plan.manifest.id}",
            lambda: self._redefine(kept),
            lambda: redefine(self._hypervisor.conn, before, plan.identity, self._name),
        )
        steps.append(_locked(step, self._options))
        steps += self._states(replaced=True)
        return steps

    def _definition(self) -> str:
        with translate_errors(f"cannot read the definition of machine {self._name}"):
            flags = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE
            return str(self._handle().XMLDesc(flags))

    def _handle(self) -> t.Any:
        handle = self._hypervisor.conn.lookupByName(self._name)
        if handle.UUIDString() != self._plan.identity:
            raise ConflictError(
                f"machine {self._name} is not the one that is being restored any more: it is left as it is"
            )
        return handle

    def _define(self, notes: MachineNotes) -> t.Callable[[], None]:
        def define() -> None:
            if self._plan.restored is not None:
                self._require_free_name()
                xml = with_notes(self._plan.restored, notes)
                self._defined = True
                host_domains.define(self._hypervisor.conn, xml, self._name)

        return define

    def _require_free_name(self) -> None:
        """Raise ConflictError for a machine that another run has created since the plan was made, also of the same
        claim: libvirt would define this one over it."""
        there = host_domains.list_domains(self._hypervisor.conn).get(self._name)
        if there is not None and not is_claim(there):
            raise ConflictError(
                f"another run has created a machine {self._name} here meanwhile: its UUID is "
                f"{there.handle.UUIDString()}",
                hint="Give the restored machine another name (new_name)",
            )

    def _undo(self) -> None:
        if not self._defined:
            return
        domain = host_domains.list_domains(self._hypervisor.conn).get(self._name)
        if domain is not None and domain.handle.UUIDString() == self._plan.identity:
            undefine(self._hypervisor.conn, self._name, never_started=True)

    def _redefine(self, notes: MachineNotes) -> None:
        if self._plan.restored is None:
            return
        with translate_errors(f"cannot inspect machine {self._name}"):
            handle = self._handle()
            if handle.isActive():
                raise ConflictError(
                    f"machine {self._name} was started while it was being restored", hint="Run it again"
                )
        xml = with_notes(self._plan.restored, notes)
        redefine_disks(self._hypervisor.conn, xml, self._plan.identity, self._name, "it was being restored")
        with translate_errors(f"cannot inspect machine {self._name}"):
            for checkpoint in handle.listAllCheckpoints(0):
                # They are of the old disks.
                with suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_CHECKPOINT):
                    checkpoint.delete(libvirt.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)

    def _write(self, notes: MachineNotes | None) -> None:
        with translate_errors(f"cannot find machine {self._name}"):
            handle = self._handle()
        host_domains.write_notes(handle, notes)

    def _states(self, *, replaced: bool) -> list[Step]:
        manifest: Manifest = self._plan.manifest
        steps = []
        if manifest.nvram:
            steps.append(self._nvram_step(manifest.nvram, replaced))
        if manifest.tpm:
            steps.append(self._tpm_step(manifest, replaced))
        return steps

    def _nvram_step(self, name: str, replaced: bool) -> Step:
        # The file, and what was in it.
        written: list[tuple[str, bytes | None]] = []

        def apply() -> None:
            path = state_files.nvram_path(read_description(f"machine {self._name}", self._definition()))
            if path is None:
                self.remarks.append("its definition has no place for the UEFI variables, which are not restored")
                return
            if replaced:
                require_own_variables(self._hypervisor.conn, path, self._name)
            before = state_files.read_nvram(path) if replaced else None
            if state_files.write_nvram(self._backup, name, path, replace=replaced):
                written.append((path, before))

        def undo() -> None:
            for path, before in written:
                state_files.take_back(path, before)

        return Step("restore the UEFI variables", apply, undo)

    def _tpm_step(self, manifest: Manifest, replaced: bool) -> Step:
        identity = self._plan.identity

        def apply() -> None:
            state_files.write_tpm(
                self._backup, manifest.tpm, identity, manifest.tpm_directory, replace=replaced, began=began.set
            )

        def undo() -> None:
            # A step that has refused to go over a state is undone as well: that one is not ours.
            if began.is_set() and not replaced:
                state_files.remove_tpm(identity)

        began = threading.Event()
        return Step("restore the state of the TPM", apply, undo)

    def _delete_replaced(self) -> None:
        """The volumes that the machine had. What stays is still noted as its own."""

        def clear(pool: Pool, volume: str) -> None:
            elsewhere, there = self._options.elsewhere, volume_exists(pool, volume)
            delete_unused(self._hypervisor.conn, [(pool, volume)], owner=self._name, elsewhere=elsewhere)
            self._deleted += [deletion_words(pool.name, volume)] if there else []

        stay, remarks = staying(self._hypervisor, self._plan, clear)
        self.remarks += remarks
        self._write(replace(self._plan.notes, status=READY, volumes=(*self._plan.notes.volumes, *stay)))

    def _start(self) -> None:
        with translate_errors(f"{self._name} is restored, but cannot be started"):
            self._handle().create()
