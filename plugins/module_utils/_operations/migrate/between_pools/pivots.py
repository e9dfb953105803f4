# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switches to a copied volume whose end nobody has seen: which of the two volumes the machine's data is in.

A daemon of libvirt that is killed while QEMU goes on with the copy does not know of it afterwards: it says that the
machine is on the old volume, or off, while QEMU writes to the new one (seen with libvirt 9.0 and 11.3). So QEMU's own
locks are asked, and of a machine that is off, the volumes themselves.
"""

from __future__ import annotations

import contextlib
import os
import time
import typing as t
from collections.abc import Collection, Iterator

from ...._base.errors import ConflictError, HostError
from ...._base.qemu_img import run_qemu_img
from ...._host.connection import VirConnect, libvirt
from ...._host.machines.domains import description_of
from ...._host.machines.start_watch import booted_at, started_at
from ...._host.storage.disk_lock import DiskLock, first_open, is_open_in_qemu
from ...._host.storage.pools import Pool, Pools
from ...._host.storage.shared_pools import shared_because
from ...._model.metadata.migration import MigrationNote, VolumeRef, read_migration_note
from ...._model.xml.disk_source import FILE
from ..endpoints.location import is_active
from .copied import CopiedVolume, arrived_volumes, formats_of

# Until a switch that was requested is done, the old volume is written to; and by this much the new one has to be newer.
_MARGIN_SECONDS = 10.0
_COMPARE_SECONDS = 6 * 3600


def require_closed(conn: VirConnect, domain: t.Any, refs: Collection[VolumeRef]) -> None:
    """Raise ConflictError when QEMU has one of these volumes open, whatever libvirt says: they are to be deleted."""
    pools = Pools(conn)
    paths = {pools.get(ref.pool).volume_path(ref.name): ref for ref in refs if _is_file(pools.get(ref.pool))}
    opened = first_open(tuple(paths))
    if opened is not None:
        raise _still_open(domain, paths[opened], opened)


@contextlib.contextmanager
def newer_volumes(conn: VirConnect, domain: t.Any, copied: Collection[CopiedVolume]) -> Iterator[list[CopiedVolume]]:
    """Of volumes that the machine was about to be switched to: those that it has to get, as its data is in them.

    No QEMU writes to them meanwhile, nor to those that they are copies of. Not for what libvirt knows as the machine's
    disks, and not for copies that it has cancelled. Raises ConflictError where it cannot be told.
    """
    arrived = arrived_volumes(domain, copied)
    asked = [one for one in copied if one not in arrived]
    pools, newer = Pools(conn), []
    with contextlib.ExitStack() as stack:
        if asked and is_active(domain):
            require_closed(conn, domain, [one.made for one in asked])
            for one in asked:
                _require_on_old(pools, domain, one)
        elif asked:
            require_closed(conn, domain, [ref for one in asked for ref in (one.old, one.made)])
            formats = formats_of(domain)
            newer = [one for one in asked if _is_newer(pools, domain, one, formats, stack)]
        yield newer


def _require_on_old(pools: Pools, domain: t.Any, one: CopiedVolume) -> None:
    """QEMU has the old file open, and not the new one. Devices and network volumes have no locks to tell that by.

    The same QEMU as then: one that was started since was given what libvirt took for the machine's disk.
    """
    files = _is_file(pools.get(one.made.pool)) and _is_file(pools.get(one.old.pool))
    opened = files and one.old_place is not None and is_open_in_qemu(one.old_place)
    since = started_at(domain.name())
    if opened and since is not None and since < _moment(one.made.pivot):
        return
    again = opened and since is not None
    raise ConflictError(
        f"{domain.name()} was about to be switched {_from_to(one)}, and "
        + (f"started again since, at {_when(since or 0)}" if again else "libvirt cannot say whether it was"),
        hint=f"Nothing was deleted. {_shut_down(domain)}" + (", or says what its latest data is in" if again else ""),
    )


def _is_newer(
    pools: Pools, domain: t.Any, one: CopiedVolume, formats: t.Mapping[str, str], stack: contextlib.ExitStack
) -> bool:
    """Whether the machine's data is in the new volume; False where it is in the old one, or in both.

    They were the same when the switch was requested. stack: holds them both.
    """
    image_format = formats.get(one.old_place or "")
    if image_format is None or one.old_place is None:
        raise _unknown(domain, one, f"its definition does not name {one.old} any more")
    if not one.there.path:
        raise _unknown(domain, one, "they are not on disks of this hypervisor")
    paths = (one.old_place, one.there.path)
    for ref, path in zip((one.old, one.made), paths):  # noqa: B905 - not in Python 3.9
        if not os.path.exists(path):
            raise _unknown(domain, one, f"there is no {path}, where volume {ref.name} of pool {ref.pool} was")
        lock = DiskLock(path)
        stack.callback(lock.release)
        lock.hold()
    times = [os.stat(path).st_mtime for path in paths]
    # A file server's clock is not this one's.
    both = map(pools.get, (one.old.pool, one.made.pool))
    dated = all(_is_file(pool) and shared_because(pool) is None for pool in both)
    # A host that lost its power may have lost what it had noted of writes, with lazytime hours of them: an old volume
    # that was written to until then looks as if it had been left, and QEMU flushes that one alone for its guest.
    dated = dated and booted_at() < _moment(one.made.pivot)
    if dated and _is_left(times, one.made.pivot):
        return True
    answer = run_qemu_img("compare", image_format, "-F", image_format, *paths, timeout_seconds=_COMPARE_SECONDS)
    if answer.status not in (0, 1):
        raise HostError(f"cannot compare {paths[0]} with {paths[1]}: {answer.complaint}")
    if answer.status == 0:
        return False
    words = ", ".join(f"{path} was last written at {_when(moment)}" for path, moment in zip(paths, times))  # noqa: B905
    raise _unknown(domain, one, f"they differ; {words}" if dated else "they differ")


def _is_left(times: t.Sequence[float], pivot: str) -> bool:
    """Whether the old one was not written to after the switch, and the new one was.

    Not by a hair: a machine that died while both were written to may have had more of its data in the old one.
    """
    old, new = times
    return old <= _moment(pivot) + _MARGIN_SECONDS and new > old + _MARGIN_SECONDS


def _moment(pivot: str) -> float:
    """When a switch was requested; before all time where that cannot be read, which proves nothing."""
    try:
        return float(pivot)
    except ValueError:
        return float("-inf")


def _is_file(pool: Pool) -> bool:
    """Disks are moved between pools on their own hypervisor alone, so a file of a pool is one that can be read here."""
    return pool.source_type == FILE


def _still_open(domain: t.Any, ref: VolumeRef, path: str) -> ConflictError:
    name = domain.name()
    if is_active(domain):
        return ConflictError(
            f"QEMU has volume {ref.name} of pool {ref.pool} open, and libvirt says that {name} does not use it",
            hint=f"Nothing was deleted. {_shut_down(domain)}",
        )
    return ConflictError(
        f"a QEMU has volume {ref.name} of pool {ref.pool} open, and libvirt says that {name} is off",
        hint=f"Nothing was deleted. Do not start {name}: shut its guest down from within, or end the process that "
        f"fuser {path} shows. Then run it again, which finishes it",
    )


def _unknown(domain: t.Any, one: CopiedVolume, reason: str) -> ConflictError:
    name, new, old = domain.name(), one.made, one.old
    return ConflictError(
        f"{name} was about to be switched {_from_to(one)} at {_when(one.made.pivot)}, and which of the two has its "
        f"latest data cannot be told: {reason}",
        hint=f"Nothing was deleted. Look at both. To go on with pool {new.pool}: virsh edit {name}, have the disk name "
        f"{one.there.place}, and run it again. To go on with pool {old.pool}: "
        f"{_removal(domain)} && virsh vol-delete --pool {new.pool} {new.name}",
    )


def _removal(domain: t.Any) -> str:
    xml = description_of(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)
    note = read_migration_note(xml) or MigrationNote("", "", "")
    return note.removal(domain.name(), active=False)


def _from_to(one: CopiedVolume) -> str:
    return f"from volume {one.old.name} of pool {one.old.pool} to that of pool {one.made.pool}"


def _shut_down(domain: t.Any) -> str:
    return f"Shut {domain.name()} down (virt_power with state: stopped), and run it again, which finishes it"


def _when(moment: float | str) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(float(moment)))
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
