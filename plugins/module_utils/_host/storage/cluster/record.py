# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A snapshot whose disks the storage keeps: the names of its parts in a Ceph cluster, and libvirt's description of it.

libvirt takes none of such disks, but lets itself be told of one. It is described as an external one whose disks are
the snapshots in the cluster. So libvirt refuses to revert it before it touches anything (qemuSnapshotRevertValidate),
and refuses to delete it while that needs a disk that the machine has not got (qemuSnapshotDeleteExternalPrepare; both
in src/qemu/qemu_snapshot.c of 9.0 and 11.3).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

from ...._base.xml import etree, need
from ...._model.attachments import OWN_SNAPSHOT
from ...machines.snapshots import DISK_SNAPSHOT, EXTERNAL, SHUTOFF, with_mark

# In a name, Ceph's own tools take these for what follows the name of a pool or an image.
_UNSAFE_IN_CEPH = re.compile(r"[/@%]")
# The snapshot that a disk has while it is reverted. There is none of this name, so that QEMU opens no such disk.
# The schema of libvirt allows no dot here.
UNOPENABLE = "brine-reverting"


@dataclass(frozen=True)
class ClusterRecord:
    """What libvirt is to know of a new snapshot.

    created: seconds since the epoch. parent: the name of the one that it follows. running: whether the machine ran.
    disks: what was kept, by target, each a ``<disk>``; left_out: the targets of the others. domain: the machine's
    permanent ``<domain>``.
    """

    name: str
    description: str
    created: int
    parent: str | None
    running: bool
    disks: Mapping[str, etree._Element]
    left_out: Sequence[str]
    domain: etree._Element


def cluster_name(uuid: str, name: str) -> str:
    """The name in the cluster of a snapshot of the machine with this UUID."""
    return f"{OWN_SNAPSHOT}{uuid}.{_UNSAFE_IN_CEPH.sub(lambda found: quote(found[0], safe=''), name)}"


def snapshot_of(uuid: str, name_in_cluster: str) -> str | None:
    """The name of the machine's snapshot that has this name in the cluster; None for what is not that machine's."""
    start = f"{OWN_SNAPSHOT}{uuid}."
    name = unquote(name_in_cluster[len(start) :]) if name_in_cluster.startswith(start) else ""
    return name if name and cluster_name(uuid, name) == name_in_cluster else None


def record_xml(record: ClusterRecord) -> str:
    """The ``<domainsnapshot>`` that libvirt is told of. https://libvirt.org/formatsnapshot.html"""
    root = etree.Element("domainsnapshot")
    etree.SubElement(root, "name").text = record.name
    etree.SubElement(root, "description").text = with_mark(record.description)
    etree.SubElement(root, "state").text = DISK_SNAPSHOT if record.running else SHUTOFF
    if record.parent is not None:
        etree.SubElement(etree.SubElement(root, "parent"), "name").text = record.parent
    etree.SubElement(root, "creationTime").text = str(record.created)
    etree.SubElement(root, "memory", snapshot="no")
    disks = etree.SubElement(root, "disks")
    kept = cluster_name(record.domain.findtext("uuid") or "", record.name)
    for target, disk in record.disks.items():
        element = etree.SubElement(disks, "disk", name=target, snapshot=EXTERNAL, type="network")
        etree.SubElement(element, "driver", type="raw")
        source = etree.SubElement(element, "source", protocol="rbd", name=need(disk, "source").get("name", ""))
        etree.SubElement(source, "snapshot", name=kept)
    for target in record.left_out:
        etree.SubElement(disks, "disk", name=target, snapshot="no")
    root.append(copy.deepcopy(record.domain))
    return etree.tostring(root, encoding="unicode")


def make_unopenable(disk: etree._Element) -> None:
    """Have QEMU refuse to open a ``<disk>`` of a cluster."""
    source = need(disk, "source")
    for old in source.findall("snapshot"):
        source.remove(old)
    etree.SubElement(source, "snapshot", name=UNOPENABLE)
