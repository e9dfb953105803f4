# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a move between pools ends, whether it went well, failed or was cut off: by where the machine's disks are now.

A volume that the machine has as a disk has arrived, and the one that it is a copy of goes. Any other that was made goes
itself. So it may be done at any time, and twice. Nothing goes that QEMU has open, whatever libvirt says.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable

from ...._base.errors import ConflictError, HostError
from ...._base.files import sync_file
from ...._base.xml import parse_xml, read_description
from ...._host.connection import VirConnect, libvirt, translate_errors
from ...._host.locks import hypervisor_lock
from ...._host.machines.domains import write_notes
from ...._host.machines.redefine import redefine_disks
from ...._host.storage.pools import Pool, Pools
from ...._host.storage.proof import is_proven
from ...._host.storage.transfer.block_copy import cancel_block_copies
from ...._host.storage.volume_facts import Volume, find_volume
from ...._model.metadata.machine import CreationNote, VolumeNote, read_notes
from ...._model.metadata.migration import MigrationNote, VolumeRef
from ...._model.xml.disk_source import NETWORK
from ...._model.xml.migrated_domain import migrated_domain_xml
from ..endpoints.location import find, is_active, set_autostart
from ..storage.cleanup import delete_proven
from .copied import CopiedVolume, arrived_volumes, copied_volumes, formats_of, places_of
from .pivots import newer_volumes, require_closed

# How long a run that makes or changes machines may take.
PROVISION_SECONDS = 300


def settle(
    conn: VirConnect,
    uuid: str,
    note: MigrationNote,
    *,
    trusted_made: Collection[VolumeRef] = (),
    trusted_left: Collection[VolumeRef] = (),
) -> list[str]:
    """End the copies that are under way, and delete of each pair of volumes the one that the machine does not have.

    trusted_made, trusted_left: volumes that this very run has made or copied, which need no proof.
    What stays of those, and why, in sentences. The note stays as well. Raises an error of ours, and deletes nothing,
    when the machine is not here, and when it cannot be told which volume has its data.
    """
    domain = find(conn, uuid)
    if domain is None:
        raise HostError("the machine is not on this hypervisor any more, so none of its volumes is deleted")
    name, copied = domain.name(), copied_volumes(conn, note)
    cancelled = cancel_block_copies(domain, {one.there.place for one in copied})
    asked = [one for one in copied if one.made.pivot and one.there.place not in cancelled]
    with newer_volumes(conn, domain, asked) as newer, hypervisor_lock("init", wait_seconds=PROVISION_SECONDS):
        arrived = [*newer, *(one for one in arrived_volumes(domain, copied) if one not in newer)]
        useless = [one for one in copied if one not in arrived]
        _require_not_defined(domain, useless)
        kept: list[str] = []
        if arrived:
            record(conn, domain, arrived)
            flush(arrived)
        if note.holds_autostart:
            set_autostart(domain, True)
        gone = {one.old for one in arrived}
        left = [ref for ref in note.left if ref in gone]
        require_closed(conn, domain, [*left, *(one.made for one in useless)])
        if left:
            kept += delete_proven(conn, left, trusted=trusted_left, left_by=name)
        formats = formats_of(domain)
        trusted = [*trusted_made, *(one.made for one in useless if _is_empty(conn, one, formats))]
        return kept + delete_proven(conn, [one.made for one in useless], trusted=trusted, fresh=True, left_by=name)


def _is_empty(conn: VirConnect, one: CopiedVolume, formats: t.Mapping[str, str]) -> bool:
    pools = Pools(conn)
    image_format = formats.get(one.old_place or "")
    if image_format is None:
        return False
    old = find_volume(pools.get(one.old.pool), one.old.name, image_format=image_format)
    return old is not None and is_empty_copy(pools.get(one.made.pool), one.made, old)


def is_empty_copy(pool: Pool, made: VolumeRef, old: Volume) -> bool:
    """Whether a volume is what was made for a copy of the old one, and holds nothing yet: a run that is killed then has
    not marked it."""
    making = CreationNote(made.identity.mark, old.capacity_bytes, old.backing_path or "")
    note = VolumeNote(made.pool, made.name, "disk", format=old.format, making=making)
    return is_proven(pool, note)


def record(conn: VirConnect, domain: t.Any, copied: Collection[CopiedVolume]) -> None:
    """Have the machine's definition and our notes name the new volumes instead of the old ones.

    For who holds the lock of those who change machines, and of a machine that is off the locks of its old disks. Raises
    an error of ours; ConflictError for one that was started a moment before on the old volumes, which its definition
    has again then.
    """
    name = domain.name()
    with translate_errors(f"cannot read the XML of {name}"):
        flags = libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE
        defined_xml = read_description(f"machine {name}", domain.XMLDesc(flags))
    places = {one.old_place: one.there for one in copied if one.old_place is not None}
    changed = migrated_domain_xml(defined_xml, places, {one.old: one.made for one in copied})
    if changed is not None:
        redefine_disks(conn, changed, domain.UUIDString(), name, "its disks were moved", held=True)
        notes = read_notes(parse_xml(changed))
        if notes is not None and is_active(domain):
            write_notes(domain, notes)
    _require_named(domain, copied)


def _require_not_defined(domain: t.Any, useless: Collection[CopiedVolume]) -> None:
    """Raise ConflictError for a machine that runs on old volumes, and would start on older copies the next time."""
    defined = places_of(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)
    for one in useless:
        if one.there.place in defined:
            raise ConflictError(
                f"{domain.name()} runs on volume {one.old.name} of pool {one.old.pool}, and its definition names the "
                f"copy in pool {one.made.pool}, which is older",
                hint="Nothing was deleted. While it runs, have its definition name the old one again (virsh edit), and "
                "run it again",
            )


def _require_named(domain: t.Any, copied: Collection[CopiedVolume]) -> None:
    """What libvirt has written is read again: the old volumes are deleted after this."""
    defined = places_of(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)
    for one in copied:
        if one.old_place in defined:
            raise ConflictError(
                f"the definition of {domain.name()} still names volume {one.old.name} of pool {one.old.pool}",
                hint="Nothing was deleted. Run it again",
            )


def flush(copied: Iterable[CopiedVolume]) -> None:
    """Have the new volumes on their disks before the old ones go. Raises HostError."""
    for one in copied:
        if one.there.type != NETWORK:
            sync_file(one.there.path)
