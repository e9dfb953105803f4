# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks of a machine that is there already: added, grown, their media changed, taken out; none is ever deleted."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..._base.errors import ConflictError, InputError, NotFoundError, UnsupportedError
from ..._base.xml import MIB, etree, need
from ..._host.storage import volumes
from ..._host.storage.pools import Pool
from ..._host.storage.volume_facts import find_volume
from ..._model.as_text import declared_disk, plain
from ..._model.metadata.machine import DiskNote, VolumeNote
from ..._model.spec.disk import DISK_OPTIONS, Disk
from ..._model.spec.fields.table import Values, covers, read_table, write_table
from ..._model.spec.fields.units import format_size
from ..._model.spec.machine import Machine
from ..._model.spec.nic import Nic
from ..._model.xml.devices import SEED_TARGET, add_disk, boot_number, disk_targets
from ..._model.xml.disk_source import BLOCK, DiskSource, driver_format
from ..disks.new_volume import VolumeOwner
from ..disks.planned import PlannedDisk, check_free_space, disk_step, plan_disk
from ..disks.sharing import check_growth, check_more_use, require_shareable
from ..plan import Step
from ..power.view import view_machine
from .draft import Draft
from .media import compare_source
from .own_disks import find_lost, forget_lost, noted_place, require_not_twice, require_other_volumes
from .running_disks import find_disk, leaving_disks, plug_in, running_disk, scsi_controller, unplug
from .unfinished_disks import clear_half_added


def compare_disks(machine: Machine, draft: Draft, where: str) -> None:
    """All disks of the spec; others of the machine stay as they are. Raises what cannot be done."""
    cleared = clear_half_added(draft)
    known = {note.name: note.target for note in draft.notes.disks}
    new = []
    for disk in machine.disks:
        element = find_disk(draft.domain.xml, known.get(disk.name))
        if element is not None and not disk.present:
            _unplug(disk, element, draft)
        elif element is not None:
            _compare(disk, machine, element, draft)
        elif disk.present:
            new.append(_plan_new(disk, machine, draft, cleared))
        else:
            _take_from_running(disk, draft)
            forget_lost(disk, draft)
    draft.pending.extend(f"disks.{name}" for name in leaving_disks(draft) if f"disks.{name}" not in draft.pending)
    require_other_volumes(new, draft, {disk.name for disk in machine.disks if not disk.present})
    check_free_space(new, draft.hypervisor, where)
    # Also what only the running machine has, and what the task's own XML has brought.
    known_xml = [xml for xml in (draft.domain.xml, draft.live, draft.planned) if xml is not None]
    taken = {target.get("dev", "") for xml in known_xml for target in xml.iterfind("devices/disk/target")}
    targets = disk_targets([planned.disk for planned in new], taken)
    for planned in new:
        _add(planned, targets[planned.disk.name], machine, draft)


def _plan_new(disk: Disk, machine: Machine, draft: Draft, cleared: list[VolumeNote]) -> PlannedDisk:
    lost = find_lost(disk, draft)
    planned = plan_disk(lost or disk, machine, draft.hypervisor, cleared)
    if lost is not None and disk.size_mib is not None:
        pool, name = draft.hypervisor.pools.get(lost.pool), str(lost.source)
        if _must_grow(disk, pool, name, planned.format) is not None:
            wanted = disk.size_mib * MIB
            # No machine has it yet. Once grown it stays so.
            draft.volume_steps.append(
                Step(
                    f"grow disk {disk.name} of {draft.name} to {disk.size_mib} MiB",
                    lambda: volumes.grow_volume(pool, name, wanted, image_format=planned.format),
                )
            )
    return planned


def _add(planned: PlannedDisk, target: str, machine: Machine, draft: Draft) -> None:
    disk = planned.disk
    draft.differ(("disks", disk.name), None, declared_disk(disk))
    note = planned.note
    if note:
        building = replace(note, building=True)
        draft.notes = replace(draft.notes, volumes=(*draft.notes.volumes, building))
    step = disk_step(planned, VolumeOwner(draft.hypervisor, draft.name, new=False, uuid=draft.uuid))
    if step:
        draft.volume_steps.append(step)
    draft.notes = replace(draft.notes, disks=(*draft.notes.disks, DiskNote(disk.name, target)))
    devices = need(draft.record(f"disk {disk.name}"), "devices")
    controller = scsi_controller(devices, disk)
    element = add_disk(devices, planned.placed(target), _boot_order(disk, machine, draft))
    if draft.live is not None:
        plug_in(disk, element, draft, controller)


def _boot_order(disk: Disk, machine: Machine, draft: Draft) -> int | None:
    """The place of a disk that is added: as the spec has it; else where it is among the disks of the spec.

    It takes the place of one that goes in the same task, or one before the next disk, if there is one; or else the last
    one, so that the machine goes on booting from what it has booted from. None where kinds of devices are ordered, or
    others alone.
    """
    if "boot_order" in disk.options:
        return int(disk.options["boot_order"])
    devices: tuple[Disk | Nic, ...] = (*machine.disks, *machine.nics)
    ordered = any("boot_order" in device.options for device in devices)
    if ordered or disk.device == "floppy" or machine.hardware.get("boot", {}).get("devices"):
        return None
    record = draft.record(f"disk {disk.name}")
    if record.find("os/boot") is not None and not _drop_default(record, draft):
        return None
    before, used = _orders(draft.domain.xml), _orders(record)
    places = {note.name: note.target for note in draft.notes.disks}
    own = [_order(find_disk(record, places.get(other.name))) for other in machine.disks]
    index = next(number for number, other in enumerate(machine.disks) if other.name == disk.name)
    least = max([0, *(order for order in own[:index] if order)])
    most = min([order for order in own[index + 1 :] if order], default=None)
    free = sorted(order for order in before - used if order > least and (most is None or order < most))
    if free:
        return free[0]
    between = [] if most is None else [order for order in range(least + 1, most) if order not in used]
    return between[-1] if between else max([0, *used]) + 1


def _drop_default(record: etree._Element, draft: Draft) -> bool:
    """Take out what libvirt writes for a machine without any disk: the kind of devices that boots is ``hd``."""
    disks = [need(disk, "target").get("dev") for disk in draft.domain.xml.iterfind("devices/disk")]
    kinds = record.findall("os/boot")
    if [kind.get("dev") for kind in kinds] != ["hd"] or set(disks) - {SEED_TARGET}:
        return False
    need(record, "os").remove(kinds[0])
    return True


def _order(device: etree._Element | None) -> int | None:
    return None if device is None else boot_number(device) or None


def _orders(xml: etree._Element) -> set[int]:
    homes: t.Iterable[t.Any] = (boot.getparent() for boot in xml.iterfind("devices/*/boot"))
    return {order for order in map(_order, homes) if order is not None}


def _unplug(disk: Disk, element: etree._Element, draft: Draft) -> None:
    """The machine loses the disk, the disk stays where it lies."""
    target = need(element, "target").get("dev", "")
    source = DiskSource.read(element)
    where = f", which stays as {source.place}" if source else ""
    draft.differ(("disks", disk.name), {"source": (source.place) if source else None}, None)
    record = draft.record(f"without disk {disk.name}{where}")
    found = find_disk(record, target)
    if found is not None:
        need(record, "devices").remove(found)
    _forget(disk, source, draft)
    unplug(disk, element, draft)


def _take_from_running(disk: Disk, draft: Draft) -> None:
    """What a killed run has taken out of the definition alone: the disk on its own volume.

    By its target alone nobody could tell it from a disk that somebody else has plugged in there.
    """
    own = noted_place(disk, draft)
    if own is None:
        target = next((note.target for note in draft.known_notes.disks if note.name == disk.name), None)
        if find_disk(draft.live, target) is not None:
            draft.pending.append(f"disks.{disk.name}")
        return
    for live in draft.live.iterfind("devices/disk") if draft.live is not None else ():
        source = DiskSource.read(live)
        if source is not None and source.place == own and not _is_defined(live, draft):
            draft.differ(("disks", disk.name, "attached"), True, False)
            _forget(disk, source, draft)
            unplug(disk, live, draft)


def _is_defined(live: etree._Element, draft: Draft) -> bool:
    return find_disk(draft.domain.xml, need(live, "target").get("dev")) is not None


def _forget(disk: Disk, source: DiskSource | None, draft: Draft) -> None:
    """The notes know nothing more of a disk and of the volume that it lies on."""
    draft.notes = replace(
        draft.notes,
        disks=tuple(note for note in draft.notes.disks if note.name != disk.name),
        volumes=tuple(v for v in draft.notes.volumes if source is None or not _is_volume(v, source, draft)),
    )


def _is_volume(volume: VolumeNote, source: DiskSource, draft: Draft) -> bool:
    pool = draft.hypervisor.pools.get(volume.pool)
    return pool.source_of(volume.name).place == source.place


def _compare(disk: Disk, machine: Machine, element: etree._Element, draft: Draft) -> None:
    target = need(element, "target")
    have = {"device": element.get("device", "disk"), "model": target.get("bus")}
    for word, is_now in have.items():
        if getattr(disk, word) != is_now:
            raise UnsupportedError(
                f"the disk's {word} is {is_now}, the task asks for {getattr(disk, word)}",
                where=disk.given.at(word),
                hint="The guest would see it under another name; remove the disk and add it again",
            )
    source = DiskSource.read(element)
    if disk.source is not None:
        compare_source(disk, machine, element, source, draft)
    elif source is not None and disk.made:
        _compare_size(disk, machine, source, element, draft)
    check_more_use(disk, element, machine, draft.hypervisor)
    require_not_twice(disk, element, draft)
    _compare_options(disk, element, target.get("dev", ""), draft)
    _compare_pool(disk, element, source, draft)
    if draft.live is not None and find_disk(draft.live, target.get("dev")) is None:
        # A killed run, or somebody with --config, has put it into the definition alone.
        draft.differ(("disks", disk.name, "attached"), False, True)
        plug_in(disk, element, draft)


def _compare_size(disk: Disk, machine: Machine, source: DiskSource, element: etree._Element, draft: Draft) -> None:
    found = _volume_of(source, draft) if disk.size_mib is not None else None
    if disk.size_mib is None or found is None:
        return
    pool, name = found
    target, image_format = need(element, "target").get("dev", ""), driver_format(element)
    have_mib = _must_grow(disk, pool, name, image_format)
    wanted = disk.size_mib * MIB
    if have_mib is not None:
        # The volume itself is to grow.
        request = volumes.space_request(pool, size_bytes=wanted - have_mib * MIB)
        draft.hypervisor.space_requests.append(request)
        _require_room(disk, pool, wanted - have_mib * MIB, draft)
    else:
        have_mib = _size_of_running(disk, element, pool, wanted, draft)
    if have_mib is None:
        return
    check_growth(disk, element, pool, name, machine, draft.hypervisor)
    if not draft.domain.active:
        # By the time of its file it would not be known as the older one any more.
        view_machine(draft.domain.handle).require_newest_data()
    runs = running_disk(disk, element, draft) is not None
    draft.differ(("disks", disk.name, "size"), have_mib, disk.size_mib)
    # A disk that has grown stays as large when a later step fails: shrinking it again could cost data.
    draft.live_steps.append(
        Step(
            f"grow disk {disk.name} of {draft.name} to {disk.size_mib} MiB",
            lambda: _grow(draft, pool, name, image_format, target if runs else None, wanted),
        )
    )


def _require_room(disk: Disk, pool: Pool, more_bytes: int, draft: Draft) -> None:
    """Raise ConflictError for more than is free, as for a new machine that a hypervisor is chosen for: a disk is never
    shrunk again."""
    requests = draft.hypervisor.growth
    if requests is None:
        return
    requests.append(pool.request_space(more_bytes))
    together = sum(one.needed_bytes for one in requests if one.shared == pool.space_source)
    if together > pool.available_bytes:
        others = "" if together == more_bytes else f", {format_size(together)} with what others grow by"
        raise ConflictError(
            f"the disk is to grow by {format_size(more_bytes)}{others}, and pool {pool.name} has "
            f"{format_size(pool.available_bytes)} free",
            where=disk.given.at("size"),
            hint="Give a smaller size, as disks are never shrunk; or free some space",
        )


def _size_of_running(disk: Disk, element: etree._Element, pool: Pool, wanted: int, draft: Draft) -> int | None:
    """The size in MiB that the running machine has a disk in whose device has grown already; None where it knows."""
    if draft.live is None or running_disk(disk, element, draft) is None:
        return None
    have = volumes.lacks_growth(draft.domain.handle, need(element, "target").get("dev", ""), pool, wanted)
    return None if have is None else -(-have // MIB)


def _must_grow(disk: Disk, pool: Pool, name: str, image_format: str) -> int | None:
    """The present size of a disk's volume in MiB, None where it is as the task asks. Raises InputError for a smaller
    one."""
    volume = find_volume(pool, name, disk.given.place, image_format=image_format)
    if volume is None:
        raise NotFoundError(f"there is no volume {name!r} in pool {pool.name}", where=disk.given.place)
    have, wanted = volume.capacity_bytes, (disk.size_mib or 0) * MIB
    if pool.same_size(wanted, have):
        return None
    have_mib = -(-have // MIB)
    if wanted < have:
        raise InputError(
            f"the disk has {have_mib} MiB, the task asks for {disk.size_mib} MiB",
            where=disk.given.at("size"),
            hint="Disks are never shrunk",
        )
    return have_mib


def _grow(draft: Draft, pool: Pool, name: str, image_format: str, target: str | None, wanted_bytes: int) -> None:
    """The volume that nothing runs with; else the disk (target), which takes its file with it, but no device."""
    if target is None or pool.source_type == BLOCK:
        guest_bytes = None
        if target is not None and not _others_have(draft, pool, name):
            guest_bytes = volumes.guest_bytes_of(draft.domain.handle, target, pool)
        volumes.grow_volume(pool, name, wanted_bytes, image_format=image_format, guest_bytes=guest_bytes)
    if target is not None:
        what = f"cannot grow disk {target} of machine {draft.name}"
        volumes.grow_running_disk(draft.domain.handle, target, pool, wanted_bytes, what)


def _others_have(draft: Draft, pool: Pool, name: str) -> bool:
    """Whether anything but the machine uses a volume, or may."""
    usage = draft.hypervisor.usage
    others = {user.machine for user in usage.users_of(pool, name)} - {draft.name}
    return bool(others or usage.unknown)


def _volume_of(source: DiskSource, draft: Draft) -> tuple[Pool, str] | None:
    """The volume that a disk lies on: by the notes one of the machine's own, or any that libvirt knows at that path."""
    for volume in draft.notes.volumes:
        pool = draft.hypervisor.pools.get(volume.pool)
        if pool.source_of(volume.name).leads_to(source):
            return pool, volume.name
    return draft.hypervisor.locate(source) if source.path else None


def _compare_pool(disk: Disk, element: etree._Element, source: DiskSource | None, draft: Draft) -> None:
    """A disk stays in its pool and its format; that the spec has others is only said."""
    found = _volume_of(source, draft) if source is not None and disk.made else None
    if found and disk.given.values.get("pool") is not None and found[0].name != disk.pool:
        draft.outdated.append(f"disks.{disk.name}.pool")
    if disk.made and disk.format not in (None, driver_format(element)):
        draft.outdated.append(f"disks.{disk.name}.format")


def _options_of(element: etree._Element) -> Values:
    # What libvirt leaves out.
    return {"cache": "default", **read_table(element, DISK_OPTIONS)}


def _compare_options(disk: Disk, element: etree._Element, target: str, draft: Draft) -> None:
    """Options of the drive change with the next boot."""
    have = _options_of(element)
    if not covers(have, {key: disk.options[key] for key in ("shareable", "readonly") if key in disk.options}):
        require_shareable(disk, driver_format(element), {**have, **disk.options})
    for key, want in disk.options.items():
        if not covers(have.get(key), want):
            draft.differ(("disks", disk.name, key), plain(have.get(key)), plain(want))
            found = find_disk(draft.record(f"{key} of disk {disk.name}"), target)
            if found is not None:
                write_table(found, DISK_OPTIONS, {key: want})
        live = find_disk(draft.live, target)
        if live is not None and not covers(_options_of(live).get(key), want):
            draft.pending.append(f"disks.{disk.name}.{key}")
