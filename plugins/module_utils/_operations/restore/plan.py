# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What restoring a backup comes to, and whether that may be done. Nothing here changes anything."""

from __future__ import annotations

import contextlib
import functools
import os
import typing as t
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..._base.errors import ConflictError, InputError, NotFoundError, UnsupportedError, VirtError
from ..._base.xml import MAX_XML_BYTES, etree, parse_xml
from ..._host.backup import state_files
from ..._host.backup.checkpoints import snapshots
from ..._host.backup.directory import Backups, list_backups, open_inside
from ..._host.connection import VirConnect, translate_errors
from ..._host.machines.domains import Domain
from ..._host.machines.record import record_from_xml
from ..._host.machines.schema import check_schema
from ..._host.progress import some_of
from ..._host.storage.disk_lock import first_open
from ..._host.storage.shared_pools import shared_because
from ..._host.storage.usage import Usage, unseen_program
from ..._model.backup.harmless import require_harmless
from ..._model.backup.manifest import DOMAIN_XML, SEED, DiskEntry, Manifest
from ..._model.backup.restored_domain import RestoredDomain, renewed_notes, restored_domain
from ..._model.image.name import parse_image_volume
from ..._model.metadata.machine import BUILDING, MachineNotes, read_notes
from ..._model.metadata.migration import read_migration_note
from ..._model.spec.device_names import named_notes
from ..._model.xml.disk_source import FILE, DiskSource
from ..create.claims import is_claim, require_no_claim
from ..hypervisor import Hypervisor
from .options import RestoreOptions
from .volumes import RestoredVolume, copied_bytes, plan_volume, require_room

# What a module returns with an error where the backup is not seen: elsewhere it may be.
NO_BACKUP: Mapping[str, t.Any] = {"backup": None}
_NEEDED = (
    *("memory_max_mib", "vcpus_max", "arch", "domain_type", "machine_type"),
    *("labels", "anti_affinity"),
)


@dataclass(frozen=True)
class RestorePlan:
    """A restore that is to be done.

    chain: the backup, and those that it is built on. volumes: the new ones. restored: the definition, None for a single
    disk. identity: the UUID that the machine gets. notes: what is to be remembered of it when all is there. existing:
    the machine that is replaced; unfinished: what an interrupted run has left of it. renewed: it gets another UUID and
    other MAC addresses than it had. A claim of its name (virt_claim) is none of these: the machine is defined over it.
    """

    backups: Backups
    chain: Sequence[Manifest]
    volumes: tuple[RestoredVolume, ...]
    restored: RestoredDomain | None = None
    identity: str = ""
    notes: MachineNotes = MachineNotes()  # noqa: RUF009 - it is frozen
    existing: Domain | None = None
    unfinished: Domain | None = None
    renewed: bool = False

    @property
    def manifest(self) -> Manifest:
        """That of the backup."""
        return self.chain[0]


def find_backup(options: RestoreOptions) -> tuple[Backups, list[Manifest]]:
    """What there is of the machine, and the backup with those that it is built on. Raises VirtError."""
    backups = list_backups(options.source, options.machine, options.owner)
    if options.backup is not None:
        if options.backup not in backups.names:
            hint = f"It has {some_of(sorted(backups.names, reverse=True))}" if backups.names else None
            raise _nothing_there(f"there is no backup {options.backup} in {backups.path}", hint=hint)
        return backups, backups.chain(options.backup)
    if not backups.by_id:
        broken = next(iter(backups.broken.values()), None)
        if broken is not None:
            raise broken
        raise _nothing_there(f"there is no backup of machine {options.machine} in {options.source}")
    newest = backups.newest_first()[0]
    later = [name for name in backups.broken if name > newest.id]
    if later:
        # Not silently the one before it.
        error = backups.broken[max(later)]
        raise type(error)(error.what, hint=f"To restore the one before it: backup: {newest.id}")
    _require_one_machine(backups, newest)
    return backups, backups.chain(newest.id)


def _require_one_machine(backups: Backups, newest: Manifest) -> None:
    """Raise ConflictError where backups of two machines of one name alternate, so that the newest may be that of the
    other. A machine that was created anew has all of its backups after those of the old one."""
    found = backups.newest_first()
    own = [one.id for one in found if one.uuid == newest.uuid]
    other = next((one for one in found if one.uuid != newest.uuid), None)
    if other is not None and other.id > min(own):
        raise ConflictError(
            f"two machines of this name have their backups in {backups.path}: the newest of {newest.uuid} is "
            f"{newest.id}, that of {other.uuid} is {other.id}",
            where="backup",
            hint="Name the one to restore",
        )


def _nothing_there(words: str, hint: str | None = None) -> NotFoundError:
    """The error where this hypervisor was looked at, and does not see the backup."""
    error = NotFoundError(words, hint=hint)
    error.result = NO_BACKUP
    return error


def plan_restore(hypervisor: Hypervisor, options: RestoreOptions) -> RestorePlan:
    """What is to be done. Raises VirtError where it may not be, or cannot; its result has the backup that is seen, and
    the UUID that the machine would keep."""
    backups, chain = find_backup(options)
    try:
        if options.disk is not None:
            plan = _plan_disk(hypervisor, options, backups, chain)
        else:
            plan = _plan_machine(hypervisor, options, backups, chain)
        require_room(plan.volumes, backups, chain)
    except VirtError as exc:
        # One with another name gets a UUID of its own.
        same = options.disk is None and options.name == chain[0].machine
        exc.result = {**exc.result, "backup": chain[0].id, "uuid": chain[0].uuid if same else None}
        raise
    return plan


def needs_of(plan: RestorePlan) -> dict[str, t.Any]:
    """What it needs of a hypervisor, in the words of virt_info, for who chooses one. A single disk needs space."""
    found: dict[str, t.Any] = {"memory_max_mib": 0, "vcpus_max": 0}
    if plan.restored is not None:
        record = record_from_xml(plan.restored.root, "shutoff", notes=plan.notes)
        found = {key: record[key] for key in _NEEDED}
        found["nics"] = [{key: nic[key] for key in ("type", "source")} for nic in record["nics"]]
    found["disks"] = [
        {
            "target": one.entry.target,
            "source": one.pool.volume_path(one.volume),
            "pool": one.pool.name,
            "size_bytes": one.entry.size_bytes,
            "allocation_bytes": copied_bytes(one, plan.backups, plan.chain),
        }
        for one in plan.volumes
    ]
    return found


def _plan_disk(
    hypervisor: Hypervisor, options: RestoreOptions, backups: Backups, chain: Sequence[Manifest]
) -> RestorePlan:
    entries = chain[0].disks
    found = [entry for entry in entries if options.disk in (entry.target, entry.name)]
    if not found:
        known = ", ".join(entry.target for entry in entries)
        raise NotFoundError(
            f"backup {chain[0].id} of {options.machine} has no disk {options.disk}",
            where="disk",
            hint=f"It has {known}",
        )
    name = options.volume or f"{options.machine}-{found[0].target}-{_stamp(chain[0])}"
    volume = plan_volume(
        found[0], hypervisor, pool=options.pool, name=name, machine="", where="volume" if options.volume else ""
    )
    return RestorePlan(backups, chain, (volume,))


def _plan_machine(
    hypervisor: Hypervisor, options: RestoreOptions, backups: Backups, chain: Sequence[Manifest]
) -> RestorePlan:
    manifest = chain[0]
    domain = _read_definition(backups, manifest)
    claimed = _find_claim(hypervisor, options, manifest)
    existing, unfinished = (None, None) if claimed else _find_existing(hypervisor, options, manifest)
    # One that is replaced may have had another name when it was backed up.
    keeps = options.name == manifest.machine or existing is not None
    identity = manifest.uuid if keeps else claimed or str(uuid.uuid4())
    other = next((one for one in hypervisor.domains.values() if _uuid_of(one) == identity), None)
    if other is not None and not claimed and other is not existing and other is not unfinished:
        raise ConflictError(
            f"machine {other.name} has the UUID of {manifest.machine}",
            where="name",
            hint="Give the restored machine another name, with which it gets a UUID of its own",
        )
    left = unfinished.notes.volumes if unfinished is not None and unfinished.notes is not None else ()
    going = {(note.pool, note.name) for note in left}
    definition = f"{backups.path_of(manifest.id)}/{DOMAIN_XML}"
    volumes: list[RestoredVolume] = []
    for entry in manifest.disks:
        name = _volume_name(entry, manifest, options, replaced=existing is not None)
        plan = functools.partial(
            plan_volume,
            entry,
            hypervisor,
            pool=options.pool,
            machine=options.name,
            where="",
            going=going,
            definition=definition if options.name == manifest.machine else "",
        )
        one = plan(name=name)
        if any((one.pool.name, one.volume) == (other.pool.name, other.volume) for other in volumes):
            # They had one name in two pools.
            one = plan(name=f"{options.name}-{entry.target}-{_stamp(manifest)}")
        volumes.append(one)
    renewed = identity != manifest.uuid
    restored = restored_domain(
        domain, options.name, identity if renewed else None, {one.entry.target: one.disk for one in volumes}
    )
    if not options.trust:
        require_harmless(restored.root, definition)
    # That of a newer QEMU or libvirt may have what these do not know.
    _require_machine_type(restored.root, hypervisor, definition)
    try:
        check_schema(etree.tostring(restored.root, encoding="unicode"), definition)
    except InputError as exc:
        exc.hint = "Restore it on a hypervisor with the libvirt that it is from, or its disks one by one (disk)"
        raise
    if existing is None and unfinished is None:
        _require_no_states(restored.root, backups.path_of(manifest.id), manifest, identity)
    elif existing is not None and manifest.nvram:
        nvram = state_files.nvram_path(restored.root)
        if nvram is not None:
            require_own_variables(hypervisor.conn, nvram, options.name)
    _check_plugs(restored.root, hypervisor, options.name)
    known = named_notes(restored.root, read_notes(domain))
    notes = replace(known, volumes=tuple(one.note.whole for one in volumes), claimed=False)
    if renewed:
        notes, lost = renewed_notes(notes, restored.macs, manifest.machine)
        restored.lost += lost
    return RestorePlan(backups, chain, tuple(volumes), restored, identity, notes, existing, unfinished, renewed)


def _require_machine_type(root: etree._Element, hypervisor: Hypervisor, where: str) -> None:
    kind, guests = root.find("os/type"), hypervisor.guests
    machine_type = kind.get("machine") if kind is not None and kind.get("arch") == guests.arch else None
    if machine_type and machine_type not in guests.machine_types:
        raise UnsupportedError(
            f"the machine type {machine_type} is not known on this hypervisor",
            where=where,
            hint=f"Another version of QEMU is needed; this one has {guests.types_like(machine_type)}",
        )


def _require_no_states(root: etree._Element, backup: str, manifest: Manifest, identity: str) -> None:
    """Raise ConflictError for UEFI variables or the state of a TPM that are in the machine's place and not its own:
    they are written last, after hours of copying."""
    nvram = state_files.nvram_path(root)
    if manifest.nvram and nvram is not None:
        state_files.nvram_is_there(backup, manifest.nvram, nvram)
    if manifest.tpm:
        state_files.tpm_is_there(backup, manifest.tpm, identity, manifest.tpm_directory)


def require_own_variables(conn: VirConnect, path: str, machine: str) -> None:
    """Raise ConflictError when another machine has this file of UEFI variables too, which is about to be written over.

    Whoever copies a machine by its XML has two machines with one file.
    """
    users = sorted({user.words for user in Usage(conn).users_at(path) if user.machine != machine})
    if users:
        raise ConflictError(
            f"{path}, which the UEFI variables of machine {machine} are in, is used by {', '.join(users)} too",
            hint="Give that one a file of its own first: virsh edit, element nvram",
        )


def _read_definition(backups: Backups, manifest: Manifest) -> etree._Element:
    path = backups.path_of(manifest.id)
    try:
        with open_inside(path, DOMAIN_XML) as descriptor:
            text = os.read(descriptor, MAX_XML_BYTES + 1)
        # What is said before and after a comment is one word for libvirt.
        root = parse_xml(text, keep_comments=False)
    except OSError as exc:
        raise InputError(f"cannot read {path}/{DOMAIN_XML}: {exc.strerror}") from exc
    except (etree.XMLSyntaxError, ValueError) as exc:
        raise InputError(f"{path}/{DOMAIN_XML} is not the definition of a machine: {exc}") from exc
    if root.tag != "domain" or (root.findtext("name"), root.findtext("uuid")) != (manifest.machine, manifest.uuid):
        raise InputError(f"{path}/{DOMAIN_XML} is not the definition of machine {manifest.machine} ({manifest.uuid})")
    return root


def _find_claim(hypervisor: Hypervisor, options: RestoreOptions, manifest: Manifest) -> str | None:
    """The UUID of a claim of the name (virt_claim). Raises ConflictError for that of another machine."""
    domain = hypervisor.domains.get(options.name)
    if domain is None or not is_claim(domain):
        return None
    identity = _uuid_of(domain)
    if options.name == manifest.machine and identity != manifest.uuid:
        require_no_claim(domain, identity, "name")
    return identity


def _find_existing(
    hypervisor: Hypervisor, options: RestoreOptions, manifest: Manifest
) -> tuple[Domain | None, Domain | None]:
    """The machine that is replaced, or what an interrupted run has left of the one that is to be made."""
    domain = hypervisor.domains.get(options.name)
    if domain is None:
        return None, None
    domain.require_readable()
    if domain.notes is not None and domain.notes.status == BUILDING:
        return None, domain
    if not options.replace:
        raise ConflictError(
            f"there is a machine {options.name} already",
            where=None if options.name == manifest.machine else "name",
            hint="Restore under another name (new_name), one disk beside it (disk), or with replace=true, which "
            "replaces its disks once it is off",
        )
    if _uuid_of(domain) != manifest.uuid:
        raise ConflictError(
            f"machine {options.name} is not the one of the backup: its UUID is {_uuid_of(domain)}, not {manifest.uuid}",
            where="replace",
            hint="Restore under another name, or remove that machine first",
        )
    if domain.active:
        raise ConflictError(
            f"{options.name} is running, so it is not replaced", where="replace", hint="Shut it down first"
        )
    _require_closed(domain, hypervisor)
    if read_migration_note(domain.xml) is not None:
        raise ConflictError(f"{options.name} is being moved, or its move was interrupted", where="replace")
    with translate_errors(f"cannot inspect machine {options.name}"):
        saved = domain.handle.hasManagedSaveImage(0)
    if saved or snapshots(domain.handle):
        what = "a saved state" if saved else "snapshots"
        raise ConflictError(f"{options.name} has {what}, which do not fit other disks", where="replace")
    return domain, None


def _uuid_of(domain: Domain) -> str:
    with translate_errors(f"cannot inspect machine {domain.name}"):
        return str(domain.handle.UUIDString())


def _volume_name(entry: DiskEntry, manifest: Manifest, options: RestoreOptions, *, replaced: bool) -> str:
    """The name that the volume had, where the machine has its old name and its old volumes are gone."""
    if replaced:
        disk = entry.target if "/" in entry.name else entry.name or entry.target
        return f"{options.name}-{disk}-{_stamp(manifest)}-{uuid.uuid4().hex[:6]}"
    names = [f"{options.name}-{'seed' if entry.role == SEED else entry.name or entry.target}"]
    if entry.volume and options.name == manifest.machine:
        base, ending = os.path.splitext(entry.volume)
        names.insert(0, base if ending in (".qcow2", ".raw", ".img", ".iso") else entry.volume)
    return next((name for name in names if _is_plain(name)), f"{options.name}-{entry.target}")


def _is_plain(name: str) -> bool:
    """Whether a name, without its ending, leads out of no pool and is not that of a stored image, from which other
    machines would be made: whoever can write to the backup has written it."""
    return "/" not in name and parse_image_volume(f"{name}.raw") is None


def _stamp(manifest: Manifest) -> str:
    return manifest.id.partition("-")[0]


def _check_plugs(root: etree._Element, hypervisor: Hypervisor, name: str) -> None:
    for nic in root.iterfind("devices/interface"):
        hypervisor.check_interface(nic, "", here=f" on this hypervisor for machine {name}")
        mac = nic.find("mac")
        owner = None if mac is None else hypervisor.macs.get(mac.get("address", "").lower())
        if owner is not None and owner != name:
            raise ConflictError(
                f"the MAC address {mac.get('address') if mac is not None else ''} belongs to machine {owner}",
                where="name",
                hint="Give the restored machine another name, with which it gets MAC addresses of its own",
            )


def deletion_words(pool: str, volume: str) -> str:
    """How it is described that a volume of before goes."""
    return f"delete volume {volume} of pool {pool}, a disk of before"


def words_of(plan: RestorePlan, options: RestoreOptions, going: Sequence[str] = ()) -> list[str]:
    """What is to be done, in words. going: those of the volumes that go."""
    steps = [f"restore disk {one.entry.target} to volume {one.volume} of pool {one.pool.name}" for one in plan.volumes]
    if plan.restored is None:
        left = [one.leftover for one in plan.volumes if one.leftover is not None]
        return [*(f"delete the unfinished volume {one.note.name} of pool {one.pool.name}" for one in left), *steps]
    first = f"{'replace' if plan.existing else 'define'} machine {options.name} from backup {plan.manifest.id}"
    cleared = [f"remove what an interrupted run left of {options.name}"] if plan.unfinished else []
    return [*cleared, first, *steps, *going, *([f"start machine {options.name}"] if options.started else [])]


def _require_closed(domain: Domain, hypervisor: Hypervisor) -> None:
    """Raise ConflictError for a machine that is off as far as libvirt knows, and whose disks a QEMU has open."""
    shared: dict[str, bool] = {}
    for disk in domain.xml.iterfind("devices/disk"):
        if disk.find("readonly") is not None:
            continue
        source = DiskSource.read(disk)
        if source is not None and source.type == FILE:
            shared[source.path] = False
        # A pool that is gone may be why it is restored.
        with contextlib.suppress(ConflictError, NotFoundError):
            volume = hypervisor.volume_of(disk)
            if volume is not None and volume[0].source_type == FILE:
                path = volume[0].volume_path(volume[1]) if source is None else source.path
                shared[path] = shared_because(volume[0]) is not None
    opened = first_open(tuple(shared))
    if opened is not None:
        raise ConflictError(
            f"{domain.name} is off as far as libvirt knows, but a disk of it is used by "
            f"{unseen_program(opened, shared=shared[opened])}",
            where="replace",
            hint="Shut its guest down from within, or end the process",
        )
