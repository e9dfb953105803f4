# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume that becomes larger, also under a machine that runs.

Of a running machine its own QEMU has the file open, and is the only one that may write to a header. So it is told to
grow the disk (blockResize), as the disks of virt_init are. That is done for the one plain case, one machine that has
the volume as a disk of its own to write to. Everything else is refused while a machine with it runs.
"""

from __future__ import annotations

import contextlib
import typing as t

from ..._base.errors import ConflictError
from ..._base.xml import etree
from ..._host.locks import machine_lock
from ..._host.machines.domains import description_of
from ..._host.storage import volumes
from ..._host.storage.pools import Pool
from ..._host.storage.shared_pools import seen_elsewhere
from ..._host.storage.users import VolumeUser
from ..._host.storage.volume_bytes import read_volume
from ..._host.storage.volume_facts import Volume
from ..._model.image.qcow2 import BrokenQcow2Error, read_header
from ..._model.spec.fields.units import format_size
from ..._model.xml.disk_source import BLOCK, QCOW2, DiskSource
from ..hypervisor_view import HypervisorView
from ..plan import Step
from .found import find, is_known
from .task import VolumeTask, require_nobodys, unasked

_OWNED = "Set the size of the disk in virt_init of {machine}, which grows it"


def growth_step(
    pool: Pool,
    volume: Volume,
    size_bytes: int,
    view: HypervisorView,
    task: VolumeTask,
    where: str,
    *,
    named: str | None = None,
) -> Step:
    """The step that grows a volume, in the format that it has been found in. named: the format that the task names.
    Raises ConflictError where that cannot be done safely.

    What has grown stays so when a later step fails: shrinking it again could cost data.
    """
    _running_machine(pool, volume, view, where, named)

    def apply() -> None:
        with task.alone():
            now = task.look()
            found = find(now, pool, volume.name, where, requested=volume.format)
            if found is None or found.format != volume.format:
                raise ConflictError(
                    f"volume {volume.name} of pool {pool.name} is not grown: it has changed since this run looked",
                    where=where,
                    hint="Run it again if it is to grow as it is now",
                )
            machine = _running_machine(pool, found, now, where, named)
            if machine is None:
                volumes.grow_volume(pool, volume.name, size_bytes, image_format=volume.format)
            else:
                _grow_running(pool, volume, size_bytes, now, machine, where)

    words = f"{format_size(volume.capacity_bytes)} to {format_size(size_bytes)}"
    return Step(f"grow volume {volume.name} of pool {pool.name} from {words}", apply)


def lacks_growth(pool: Pool, volume: Volume, size_bytes: int, view: HypervisorView) -> bool:
    """Whether a machine runs with a volume that has this size, and does not know it: see volumes.lacks_growth."""
    if pool.source_type != BLOCK:
        return False
    names = {user.machine for user in view.usage.users_of(pool, volume.name) if user.machine is not None}
    return any(
        volumes.lacks_growth(view.domains[name].handle, target, pool, size_bytes) is not None
        for name in sorted(names)
        if name in view.domains and view.domains[name].active
        for target in _targets(_descriptions(view, name)[0], pool, volume, view)
    )


def _running_machine(
    pool: Pool, volume: Volume, view: HypervisorView, where: str, named: str | None = None
) -> str | None:
    """The running machine that has to grow the volume itself; None where nothing runs with it. ConflictError where
    it cannot grow now. A larger volume costs nobody anything, so that only a use that is seen counts."""
    words = f"volume {volume.name} of pool {pool.name} is not grown"
    require_nobodys(view, pool, volume.name, "grown", where, _OWNED)
    users = view.usage.users_of(pool, volume.name)
    for user in sorted(users, key=lambda user: user.words):
        _require_plain(user, words, where)
    _require_unused_elsewhere(pool, volume, view, words, where)
    machines = sorted({user.machine for user in users if user.machine is not None})
    for name in machines:
        if not any(_targets(xml, pool, volume, view) for xml in _descriptions(view, name)):
            raise ConflictError(
                f"{words}: machine {name} has it as something else than a disk",
                where=where,
                hint="Detach it there first",
            )
    running = [name for name in machines if name in view.domains and view.domains[name].active]
    if not running:
        _require_whole_header(pool, volume, words, where, known=is_known(view, pool, volume, named))
        return None
    if len(machines) > 1 or not all(user.writes for user in users):
        raise ConflictError(
            f"{words} while {', '.join(running)} runs with it: "
            + ("several machines have it" if len(machines) > 1 else "that machine may only read it"),
            where=where,
            hint=f"Stop {', '.join(running)} first",
        )
    return running[0]


def check_elsewhere(pool: Pool, volume: Volume, view: HypervisorView, where: str) -> ConflictError | None:
    """The error for a volume in a pool that other hypervisors may see, where these have not been asked: one of their
    machines may run with it, whose QEMU is the only one that may write to a header."""
    because = seen_elsewhere(pool) if view.elsewhere is None else None
    return unasked(pool, volume.name, "grown", because, where) if because else None


def _require_unused_elsewhere(pool: Pool, volume: Volume, view: HypervisorView, words: str, where: str) -> None:
    """Raise ConflictError when others use it, or may. Those that were not asked at all are for check_elsewhere."""
    if view.elsewhere is None or seen_elsewhere(pool) is None:
        return
    others, unknown = view.elsewhere(pool, volume.name)
    if others:
        raise ConflictError(f"{words}: it is used by {', '.join(others)}", where=where, hint="Detach it there first")
    if unknown:
        raise ConflictError(
            f"{words}: it cannot be determined whether something uses it: {'; '.join(unknown)}", where=where
        )


def _descriptions(view: HypervisorView, name: str) -> list[etree._Element]:
    """A machine for its next start, and as it runs; nothing of one that has gone."""
    domain = view.domains.get(name)
    if domain is None or not domain.active:
        return [] if domain is None else [domain.xml]
    return [description_of(domain.handle), domain.xml]


def _require_plain(user: VolumeUser, words: str, where: str) -> None:
    """Only a machine's own disk may grow: not what backs something, nor what a machine may go back to."""
    if user.below or user.volume is not None:
        raise ConflictError(f"{words}: it backs {user.words}", where=where, hint="Grow the overlay instead")
    if user.noted or user.words != f"machine {user.machine}":
        raise ConflictError(f"{words}: it is used by {user.words}", where=where, hint="Resolve that first")


def _require_whole_header(pool: Pool, volume: Volume, words: str, where: str, *, known: bool) -> None:
    """A guest that had the volume as a raw disk may have made a header that leads to another file, which would grow,
    or be opened as what this one is backed by. known: the task or a machine says that it is qcow2."""
    if volume.format != QCOW2:
        return
    read = read_volume(pool, volume)
    header = None
    with contextlib.suppress(BrokenQcow2Error):
        header = None if read is None else read_header(read)
        if read is None or (header is not None and not (header.data_file or header.unknown_features)):
            if header is None or header.backing_file is None or known:
                return
            raise ConflictError(
                f"{words}: its header says that it is an overlay, and no machine has it",
                where=where,
                hint="Set format: qcow2 if it is one, format: raw if it is a raw disk",
            )
    raise ConflictError(
        f"{words}: its header is broken, has unknown features or has its data in another file",
        where=where,
        hint="Set format: raw if it is a raw disk",
    )


def _grow_running(pool: Pool, volume: Volume, size_bytes: int, view: HypervisorView, machine: str, where: str) -> None:
    """As virt_init grows the disks of a running machine: a device first, and then QEMU is told."""
    # Who holds the hypervisor's lock waits no time for a machine's.
    with machine_lock(machine, 0):
        what = f"cannot grow volume {volume.name} of pool {pool.name}, a disk of machine {machine}"
        targets = _targets(_descriptions(view, machine)[0], pool, volume, view)
        if len(targets) != 1:
            raise ConflictError(f"{what}: it has it {len(targets)} times while it runs", where=where)
        handle = view.domains[machine].handle
        if pool.source_type == BLOCK:
            # Who cannot be seen may have written behind what this machine knows of.
            guest_bytes = None if view.usage.unknown else volumes.guest_bytes_of(handle, targets[0], pool)
            volumes.grow_volume(pool, volume.name, size_bytes, image_format=volume.format, guest_bytes=guest_bytes)
        volumes.grow_running_disk(handle, targets[0], pool, size_bytes, what, where)


def _targets(xml: etree._Element, pool: Pool, volume: Volume, view: HypervisorView) -> list[str]:
    """The disks (``vda``) of a machine that are on a volume, by whatever name of it."""
    wanted = view.usage.identity(pool, volume.name)
    found = []
    for disk in xml.iterfind("devices/disk"):
        source, target = disk.find("source"), disk.find("target")
        place = DiskSource.read(disk)
        identity: t.Hashable = None if place is None else view.usage.identity_at(place.place)
        if place is None and source is not None and source.get("volume"):
            identity = view.usage.identity(view.pools.get(source.get("pool", "")), source.get("volume", ""))
        if identity == wanted and target is not None:
            found.append(target.get("dev", ""))
    return found
