# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that is to be there: made, filled, compared, replaced or grown; only what has to be done of it."""

from __future__ import annotations

import grp
import pwd
import uuid
from dataclasses import replace

from ..._base.errors import ConflictError, InputError, UnsupportedError
from ..._host.connection import host_name
from ..._host.images.source_file import HeldFile, SourceFile
from ..._host.storage import volumes
from ..._host.storage.pools import Pool, require_free_space
from ..._host.storage.proof import is_proven, unfinished_of
from ..._host.storage.transfer.compare import holds
from ..._host.storage.transfer.fill import require_no_sender, upload_of
from ..._host.storage.usage import UNUSED
from ..._host.storage.volume_facts import Volume
from ..._model.metadata.machine import CreationNote, VolumeNote
from ..._model.spec.fields.units import format_size
from ..._model.spec.resources.volume import ISO, VolumeSpec
from ..._model.xml.disk_source import FILE, NETWORK, QCOW2, RAW, format_by_name
from ..hypervisor_view import HypervisorView
from ..plan import Step
from ..resources import ResourcePlan
from ..shared_volumes.volume import shared_volume
from .absent import check_deletion, clear_step, delete_step
from .creation import NewVolume, creation_step
from .found import find, require_known_format
from .growth import check_elsewhere, growth_step, lacks_growth
from .task import VolumePlan, VolumeTask, as_shown, is_stored_image, owner_of, shown

_CONVERT = "Convert it first: qemu-img convert -O"


def plan_present(spec: VolumeSpec, source: SourceFile | None, view: HypervisorView, task: VolumeTask) -> VolumePlan:
    """What a volume lacks. source: the file that its content comes from. Raises VirtError for what cannot be."""
    pool = view.pools.get(spec.pool, spec.given.at("pool"))
    if source is not None:
        _check_source_format(spec, source)
    requested = spec.disk_format or (source.format if source else None)
    found = find(view, pool, spec.name, spec.given.at("name"), requested=requested)
    if found is None:
        return _plan_new(spec, source, pool, view, task)
    unfinished = _unfinished(spec, source, pool, found, view, task)
    if unfinished is not None:
        plan = _plan_new(spec, source, pool, view, task)
        steps = (unfinished, *plan.plan.steps)
        return replace(plan, plan=replace(plan.plan, steps=steps), loses=found.source.place)
    return _plan_existing(spec, source, pool, found, view, task)


def _check_source_format(spec: VolumeSpec, source: SourceFile) -> None:
    where = spec.given.at("format")
    if spec.format == ISO and not source.iso:
        raise InputError(f"{spec.source} is not an ISO file", where=where, hint="Leave format out to have it as it is")
    wanted = spec.disk_format
    if wanted is not None and wanted != source.format:
        raise InputError(
            f"{spec.source} is of format {source.format}, the task asks for {wanted}",
            where=where,
            hint=f"{_CONVERT} {wanted} FILE NEW_FILE",
        )


def _unfinished(
    spec: VolumeSpec, source: SourceFile | None, pool: Pool, found: Volume, view: HypervisorView, task: VolumeTask
) -> Step | None:
    """The step that clears what a killed run has left under this name; None for a volume that is whole, or may be."""
    where = spec.given.at("name")
    upload = upload_of(pool, spec.name)
    if upload is not None:
        require_no_sender(pool, spec.name, upload, host_name(task.conn), where)

        def is_upload() -> bool:
            now = upload_of(pool, spec.name)
            return now is not None and now.token == upload.token

        # A mark beside the content stays there when somebody takes the volume into use.
        return clear_step(pool, spec.name, task, is_upload, fresh=unfinished_of(pool, spec.name) is None)
    if source is None or found.looks_like != RAW:
        return None
    # Killed before it could be marked. A file that has never been written to is nobody's loss.
    making = CreationNote(uuid.uuid4().hex, size_bytes=source.size_bytes)
    note = VolumeNote(pool.name, spec.name, "disk", format=RAW, making=making)
    use = view.usage.of(pool, spec.name)
    if found.capacity_bytes != source.size_bytes or use.state != UNUSED or not is_proven(pool, note):
        return None
    return clear_step(pool, spec.name, task, lambda: is_proven(pool, note), fresh=False)


def _plan_new(
    spec: VolumeSpec,
    source: SourceFile | None,
    pool: Pool,
    view: HypervisorView,
    task: VolumeTask,
    *,
    freed: int = 0,
    held: HeldFile | None = None,
) -> VolumePlan:
    """freed: the bytes that are free when it is made, beside those that are now. held: its file, which is open by then
    where something is deleted for it."""
    new = replace(_read_new(spec, source, pool), held=held)
    if is_stored_image(pool, spec.name):
        raise InputError(
            f"{spec.name} is the name of a stored image", where=spec.given.at("name"), hint="virt_image brings images"
        )
    owner = owner_of(view, pool, spec.name)
    if owner is not None:
        raise ConflictError(
            f"volume {spec.name} of pool {pool.name} belongs to machine {owner}, which has lost it",
            where=spec.given.at("name"),
            hint=f"Choose another name, or purge {owner}",
        )
    request = volumes.space_request(
        pool, size_bytes=new.size_bytes, copied_bytes=0 if source is None else source.size_bytes
    )
    request = replace(request, needed_bytes=max(0, request.needed_bytes - freed))
    require_free_space([*view.space_requests, request], spec.given.place or None)
    view.space_requests.append(request)
    after = as_shown(pool, spec.name, new.image_format, new.size_bytes)
    plan = ResourcePlan(
        spec.name, None, after, (creation_step(new, task),), where=spec.given.place or spec.given.at("name")
    )
    return VolumePlan(plan, needs_file=source is not None and source.path is None)


def _read_new(spec: VolumeSpec, source: SourceFile | None, pool: Pool) -> NewVolume:
    """What is to be made. Raises InputError and UnsupportedError for what cannot be."""
    where = spec.given.at("format")
    named = spec.disk_format or (source.format if source else format_by_name(spec.name))
    if spec.format == ISO and source is None:
        raise InputError(
            f"there is no volume {spec.name!r} in pool {pool.name!r}, and nothing says what is to be in it",
            where=where,
            hint="Give the ISO file as src or path",
        )
    image_format = named or pool.default_format
    pool.require_format(image_format, where)
    if source is not None and pool.source_type == NETWORK:
        # Its back-end has no uploadVol (src/storage/storage_backend_rbd.c of libvirt).
        raise UnsupportedError(
            f"libvirt sends no content to volumes of a pool of type {pool.type}",
            where=spec.where_source,
            hint="Create it with size, and write to it with qemu-img convert -n",
        )
    size_bytes = spec.size_bytes if spec.size_bytes is not None else (source.virtual_size_bytes if source else None)
    if size_bytes is None:
        raise InputError(
            f"there is no volume {spec.name!r} in pool {pool.name!r}, and nothing says how large it is to be",
            where=spec.given.at("size"),
            hint="Set size: 8GiB, for example, or give its content as src or path",
        )
    if source is not None and size_bytes < source.virtual_size_bytes:
        raise InputError(
            f"{spec.source} has {format_size(source.virtual_size_bytes)}, the task asks for {format_size(size_bytes)}",
            where=spec.given.at("size"),
            hint="Leave size out, or set a larger one",
        )
    return NewVolume(
        pool=pool,
        name=spec.name,
        image_format=image_format,
        size_bytes=size_bytes,
        permissions=_read_permissions(spec, pool),
        source=source,
        source_words=spec.source or "",
        where_source=spec.where_source,
    )


def _read_permissions(spec: VolumeSpec, pool: Pool) -> dict[str, str]:
    """The permissions with users and groups as libvirt has them, by number."""
    found = dict(spec.permissions)
    for key, look_up in (
        ("owner", lambda name: pwd.getpwnam(name).pw_uid),
        ("group", lambda n: grp.getgrnam(n).gr_gid),
    ):
        name = found.get(key)
        if name is None or name.isdecimal():
            continue
        if not pool.local:
            raise InputError(
                f"who {name!r} is on another host is not known", where=spec.given.at(key), hint="Give the number"
            )
        try:
            found[key] = str(look_up(name))
        except KeyError as exc:
            raise InputError(
                f"there is no {'user' if key == 'owner' else key} {name!r}", where=spec.given.at(key)
            ) from exc
    if found and pool.source_type != FILE:
        raise UnsupportedError(
            f"storage pool {pool.name!r} is of type {pool.type}, and only files have {', '.join(found)}",
            where=spec.given.at(next(iter(found))),
        )
    return found


def _plan_existing(
    spec: VolumeSpec, source: SourceFile | None, pool: Pool, found: Volume, view: HypervisorView, task: VolumeTask
) -> VolumePlan:
    replacing = source is not None and spec.replace
    if not replacing:
        _check_format(spec, source, pool, found)
    unchecked, told = None, None
    if source is not None:
        unchecked = _why_unchecked(source, pool, found, view)
        told = None if unchecked else _holds(source, pool, found, task)
        if unchecked is None and told is None:
            unchecked = "it cannot be read from here"
        if told is False:
            return _plan_replacement(spec, source, pool, found, view, task)
    before = shown(pool, found)
    where = spec.given.place or spec.given.at("name")
    size_bytes = spec.size_bytes
    same = size_bytes is None or pool.same_size(size_bytes, found.capacity_bytes)
    if size_bytes is None or (same and not lacks_growth(pool, found, size_bytes, view)):
        return VolumePlan(ResourcePlan(spec.name, before, before, where=where), None, None, unchecked)
    where_size = spec.given.at("size")
    if not told:
        require_known_format(view, pool, found, spec.disk_format, spec.given.at("format"))
    if not same and size_bytes < found.capacity_bytes:
        raise ConflictError(
            f"volume {spec.name} of pool {pool.name} has {format_size(found.capacity_bytes)}, the task asks for "
            f"{format_size(size_bytes)}",
            where=where_size,
            hint="Volumes are never shrunk: the data at its end would be lost",
        )
    shared = shared_volume(pool, spec.name)
    step = growth_step(pool, found, size_bytes, view, task, where_size, named=spec.disk_format)
    refusal = check_elsewhere(pool, found, view, where_size)
    if refusal is not None:
        return VolumePlan(ResourcePlan(spec.name, before, before, where=where), refusal, shared, unchecked)
    request = volumes.space_request(pool, size_bytes=max(0, size_bytes - found.capacity_bytes))
    require_free_space([*view.space_requests, request], where_size)
    view.space_requests.append(request)
    after = {**before, "size_bytes": size_bytes}
    return VolumePlan(ResourcePlan(spec.name, before, after, (step,), where=where), None, shared, unchecked)


def _check_format(spec: VolumeSpec, source: SourceFile | None, pool: Pool, found: Volume) -> None:
    wanted = spec.disk_format or (source.format if source else None)
    if wanted in (None, found.format):
        return
    raise ConflictError(
        f"volume {spec.name} of pool {pool.name} is of format {found.format}, the task asks for {wanted}",
        where=spec.given.at("format") if spec.disk_format else spec.where_source,
        hint="A volume is never converted in its place: choose another name",
    )


def _why_unchecked(source: SourceFile, pool: Pool, found: Volume, view: HypervisorView) -> str | None:
    """Why the content of a volume is not compared with that of a file, in words; None where it is."""
    writers = sorted({user.words for user in view.usage.users_of(pool, found.name) if user.writes})
    if writers:
        return f"{', '.join(writers)} may have written to it"
    unseen = [unknown.words for unknown in view.usage.unknown if unknown.writes]
    if unseen:
        return f"{'; '.join(unseen)}, so that it cannot be determined whether something writes to it"
    if source.format == found.format == QCOW2 and found.capacity_bytes > source.virtual_size_bytes:
        return "it has grown since it was made, so that its file is another one than that of its content"
    return None


def _holds(source: SourceFile, pool: Pool, found: Volume, task: VolumeTask) -> bool | None:
    if source.format != found.format or found.capacity_bytes < source.virtual_size_bytes:
        return False
    tell = task.progress(found.name)
    return holds(pool, found, source.sha256, source.size_bytes, lambda done, whole: tell("checksum", done, whole))


def _plan_replacement(
    spec: VolumeSpec, source: SourceFile, pool: Pool, found: Volume, view: HypervisorView, task: VolumeTask
) -> VolumePlan:
    """Other content in the place of what is there. The old goes first, as nothing can be renamed in a pool."""
    where = spec.where_source
    if not spec.replace:
        raise ConflictError(
            f"volume {spec.name} of pool {pool.name} has other content than {spec.source}",
            where=where,
            hint="Set replace: true to have it replaced, which deletes what is there, or choose another name",
        )
    before = shown(pool, found)
    refusal = check_deletion(view, pool, found, task, "replaced", where)
    shared = shared_volume(pool, spec.name)
    if refusal is not None:
        return VolumePlan(ResourcePlan(spec.name, before, before, where=where), refusal, shared)
    held = HeldFile(source, spec.source or "", where)
    new = _plan_new(spec, source, pool, view, task, freed=found.allocation_bytes, held=held)
    steps = (delete_step(pool, found, task, "replaced", where, first=held.open), *new.plan.steps)
    return replace(new, plan=replace(new.plan, before=before, steps=steps), shared=shared, loses=found.source.place)
