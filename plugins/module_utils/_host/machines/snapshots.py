# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshots of a machine, as libvirt has them. Nothing here changes anything."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.xml import read_description
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    libvirt,
    suppress_codes,
    translate_errors,
)
from ansible_collections.brine.virt.plugins.module_utils._model.snapshot import Snapshot, as_record, read_snapshot


@dataclass(frozen=True)
class KnownSnapshot:
    """A snapshot with libvirt's handle. current: the next one would follow it."""

    handle: t.Any
    facts: Snapshot
    current: bool


def list_snapshots(domain: t.Any) -> list[KnownSnapshot]:
    """A machine's snapshots, each after the one that it follows. domain: libvirt's handle.

    One that goes meanwhile is left out. Raises VirtError, also for one whose description cannot be read.
    """
    with translate_errors("cannot list its snapshots"):
        handles = domain.listAllSnapshots(libvirt.VIR_DOMAIN_SNAPSHOT_LIST_TOPOLOGICAL)
        current = None
        # It may go between the two calls.
        with suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT):
            current = domain.snapshotCurrent().getName() if handles else None
        found = []
        for handle in handles:
            with suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT):
                name = handle.getName()
                root = read_description(f"snapshot {name}", handle.getXMLDesc(0))
                found.append(KnownSnapshot(handle, read_snapshot(root), name == current))
        return found


def snapshot_records(domain: t.Any) -> list[dict[str, t.Any]]:
    """A machine's snapshots in the words of its record."""
    return [as_record(one.facts, current=one.current) for one in list_snapshots(domain)]
