# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's checkpoints, from each of which on it knows what has changed on a machine's disks."""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Iterable

from ..._base.xml import read_description
from ..._model.backup.manifest import is_own_checkpoint
from ..connection import libvirt, suppress_codes, translate_errors
from ..images.bitmaps import bitmaps_in, remove_bitmap


def sizes_since(domain: t.Any, name: str) -> dict[str, int | None] | None:
    """For each disk of a checkpoint, by its target, how many bytes have changed since; None where there is no such
    checkpoint.

    A disk that the checkpoint leaves out is left out. The size is None where libvirt cannot say it, as of a bitmap that
    is missing or that QEMU did not close well. Raises VirtError.
    """
    what = f"cannot inspect the checkpoints of machine {domain.name()}"
    with translate_errors(what), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_CHECKPOINT):
        checkpoint = domain.checkpointLookupByName(name)
        try:
            text = checkpoint.getXMLDesc(libvirt.VIR_DOMAIN_CHECKPOINT_XML_SIZE)
        except libvirt.libvirtError:
            text = checkpoint.getXMLDesc(0)
        root = read_description(f"checkpoint {name}", text)
        return {
            disk.get("name", ""): int(disk.get("size", "")) if disk.get("size", "").isdigit() else None
            for disk in root.iterfind("disks/disk[@checkpoint='bitmap']")
        }
    return None


def checkpoint_names(domain: t.Any) -> tuple[str, ...]:
    """The names of all of a machine, whoever has made them; none where libvirt knows none. Raises VirtError."""
    unknown = suppress_codes(libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_OPERATION_UNSUPPORTED)
    with translate_errors(f"cannot list the checkpoints of machine {domain.name()}"), unknown:
        return tuple(sorted(found.getName() for found in domain.listAllCheckpoints(0)))
    return ()


def own_checkpoints(domain: t.Any, series: str) -> list[str]:
    """The names of those that were made for the backups of this series. Raises VirtError."""
    with translate_errors(f"cannot list the checkpoints of machine {domain.name()}"):
        return [found.getName() for found in domain.listAllCheckpoints(0) if is_own_checkpoint(found.getName(), series)]


def described_checkpoints(domain: t.Any, words: t.Collection[str]) -> list[str]:
    """The names of those of ours, of whatever series, that have one of these descriptions. Raises VirtError."""
    if not words:
        return []
    found = []
    with translate_errors(f"cannot list the checkpoints of machine {domain.name()}"):
        for checkpoint in domain.listAllCheckpoints(0):
            name = checkpoint.getName()
            root = read_description(f"checkpoint {name}", checkpoint.getXMLDesc(0))
            if is_own_checkpoint(name) and root.findtext("description") in words:
                found.append(name)
    return found


def remove_checkpoint(domain: t.Any, name: str) -> None:
    """Delete a checkpoint with its bitmaps; one that is not there is no error. Raises VirtError."""
    what = f"cannot delete checkpoint {name} of machine {domain.name()}"
    with translate_errors(what), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_CHECKPOINT):
        checkpoint = domain.checkpointLookupByName(name)
        try:
            checkpoint.delete(0)
        except libvirt.libvirtError:
            # A machine that is off keeps its bitmaps, and so the checkpoint stays as well.
            if not domain.isActive():
                raise
            # Its bitmap is gone already, such as with a disk that was replaced.
            with contextlib.suppress(libvirt.libvirtError):
                checkpoint.delete(libvirt.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)
                return
            raise


def remove_all_own(domain: t.Any, files: Iterable[str]) -> None:
    """Delete all checkpoints that were made for backups, with their bitmaps, and such bitmaps without a checkpoint.

    files: the qcow2 files of the machine's disks, where they can be opened here. libvirt deletes no checkpoint of a
    machine that is off (qemuCheckpointDelete in src/qemu/qemu_checkpoint.c), so its bitmaps go first, and then what
    libvirt knows of them: whoever comes after a run that was killed in between still finds what is left. Raises
    VirtError.
    """
    with translate_errors(f"cannot inspect machine {domain.name()}"):
        running = domain.isActive()
    names = [name for name in checkpoint_names(domain) if is_own_checkpoint(name)]
    if running:
        for name in names:
            remove_checkpoint(domain, name)
        return
    for path in files:
        for bitmap in bitmaps_in(path):
            if is_own_checkpoint(bitmap.name):
                remove_bitmap(path, bitmap.name)
    for name in names:
        what = f"cannot delete checkpoint {name} of machine {domain.name()}"
        with translate_errors(what), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_CHECKPOINT):
            checkpoint = domain.checkpointLookupByName(name)
            checkpoint.delete(libvirt.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)


def snapshots(domain: t.Any) -> list[str]:
    """The names of the machine's snapshots. Raises VirtError."""
    with translate_errors(f"cannot list the snapshots of machine {domain.name()}"):
        return sorted(snapshot.getName() for snapshot in domain.listAllSnapshots(0))
