# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots are set aside while their machine is moved, and put back where it arrives, or where it stays.

Each of the two may be done twice, and be cut off anywhere: a snapshot is taken from libvirt only when the machine's
metadata have it, and from there only when libvirt has it.
"""

from __future__ import annotations

import shlex
import typing as t
from collections.abc import Sequence

from ..._base.errors import UnreachableError, UnsupportedError, VirtError
from ..._base.xml import etree, parse_xml, read_description
from ..._model.attachments import ITCO_SINCE, drop_added_watchdog
from ..._model.metadata.snapshots import NAMESPACE, PREFIX, SetAside, read_set_aside, set_aside_to_xml
from ..connection import libvirt, suppress_codes, translate_errors
from .domains import description_of
from .snapshots import KnownSnapshot, Snapshot, list_snapshots, read_snapshot

# Of all of them together. libvirt's own limit for a text is 4 MiB: VIR_NET_MESSAGE_STRING_MAX, src/rpc.
_MOST_CHARACTERS = 2 * 1024 * 1024


def snapshots_aside(domain: t.Any) -> list[Snapshot]:
    """What an interrupted move of a machine has set aside and libvirt does not know. domain: libvirt's handle."""
    known = {one.facts.name for one in list_snapshots(domain)}
    return [
        read_snapshot(read_description(f"snapshot {one.name}", one.xml))
        for one in read_set_aside(description_of(domain, libvirt.VIR_DOMAIN_XML_INACTIVE))
        if one.name not in known
    ]


def all_snapshots(domain: t.Any) -> list[Snapshot]:
    """A machine's snapshots, also those that an interrupted move has set aside. domain: libvirt's handle."""
    return [*(one.facts for one in list_snapshots(domain)), *snapshots_aside(domain)]


def read_texts(snapshots: Sequence[KnownSnapshot]) -> list[SetAside]:
    """The snapshots as they can be set aside. Raises UnsupportedError for what would not survive it."""
    found = []
    for one in snapshots:
        with translate_errors(f"cannot read snapshot {one.facts.name}"):
            text = one.handle.getXMLDesc(0)
            secret = one.handle.getXMLDesc(libvirt.VIR_DOMAIN_SNAPSHOT_XML_SECURE)
        if text != secret:
            # Everybody who may look at a machine may read its metadata.
            raise UnsupportedError(
                f"snapshot {one.facts.name} holds a password (of VNC or SPICE), which would be lost on the way"
            )
        found.append(SetAside(one.facts.name, text, one.current))
    if sum(len(one.xml) for one in found) > _MOST_CHARACTERS:
        raise UnsupportedError(f"its {len(found)} snapshots are too many to be moved at once")
    return found


def set_aside(domain: t.Any) -> None:
    """Write a machine's snapshots into its metadata, and have libvirt forget them. What they hold stays in the disks.

    domain: libvirt's handle of a machine that is off, or all of whose snapshots are of disks in a Ceph cluster.
    """
    # A run that was cut off half-way has left some here and some there.
    put_back(domain)
    snapshots = list_snapshots(domain)
    if not snapshots:
        return
    texts = read_texts(snapshots)
    with translate_errors(f"cannot set aside the snapshots of machine {domain.name()}"):
        _write(domain, texts)
        for one in reversed(snapshots):
            with suppress_codes(libvirt.VIR_ERR_NO_DOMAIN_SNAPSHOT):
                one.handle.delete(libvirt.VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY)


def put_back(domain: t.Any) -> list[str]:
    """Define what was set aside again; the names. Nothing where nothing was."""
    name = domain.name()
    with translate_errors(f"cannot put back the snapshots of machine {name}"):
        found = read_set_aside(read_description(f"machine {name}", domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))
        if not found:
            return []
        there = {one.getName() for one in domain.listAllSnapshots(0)}
        older = domain.connect().getLibVersion() < ITCO_SINCE
    for one in found:
        flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE
        if one.current:
            flags |= libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT
        if one.name not in there or one.current:
            try:
                with translate_errors(f"cannot put back snapshot {one.name} of machine {name}"):
                    domain.snapshotCreateXML(_without_itco(one.xml) if older else one.xml, flags)
            except UnreachableError:
                raise
            except VirtError as exc:
                remove = f"virsh metadata {shlex.quote(name)} {NAMESPACE} --config --remove"
                hint = f"Mend that and run it again. To go on without its snapshots, on its hypervisor: {remove}"
                raise type(exc)(exc.what, hint=hint) from exc
    with translate_errors(f"cannot put back the snapshots of machine {name}"):
        _write(domain, [])
    return [one.name for one in found]


def _without_itco(xml: str) -> str:
    root = parse_xml(xml)
    drop_added_watchdog(root)
    return etree.tostring(root, encoding="unicode")


def _write(domain: t.Any, snapshots: Sequence[SetAside]) -> None:
    flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG
    if domain.isActive():
        flags |= libvirt.VIR_DOMAIN_AFFECT_LIVE
    text = set_aside_to_xml(snapshots) if snapshots else None
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, text, PREFIX, NAMESPACE, flags)
