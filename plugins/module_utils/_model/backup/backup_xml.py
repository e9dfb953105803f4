# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What libvirt is asked for: a backup in push mode, and the checkpoint that the next one begins at.

https://libvirt.org/formatbackup.html, https://libvirt.org/formatcheckpoint.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..._base.xml import etree


def backup_xml(files: Mapping[str, str], left_out: Collection[str], since: str | None) -> str:
    """files: by target, the path of the qcow2 file to be written. left_out: the targets of all other disks.

    since: the name of the checkpoint that an incremental backup begins at, None for a full one.
    """
    root = etree.Element("domainbackup", mode="push")
    if since is not None:
        etree.SubElement(root, "incremental").text = since
    disks = etree.SubElement(root, "disks")
    for target, path in files.items():
        disk = etree.SubElement(disks, "disk", name=target, backup="yes", type="file")
        etree.SubElement(disk, "target", file=path)
        etree.SubElement(disk, "driver", type="qcow2")
    for target in left_out:
        etree.SubElement(disks, "disk", name=target, backup="no")
    return etree.tostring(root, encoding="unicode")


def checkpoint_xml(name: str, description: str, targets: Collection[str], left_out: Collection[str]) -> str:
    """A checkpoint of the disks with these targets, and of no others."""
    root = etree.Element("domaincheckpoint")
    etree.SubElement(root, "name").text = name
    etree.SubElement(root, "description").text = description
    disks = etree.SubElement(root, "disks")
    for target in targets:
        etree.SubElement(disks, "disk", name=target, checkpoint="bitmap")
    for target in left_out:
        etree.SubElement(disks, "disk", name=target, checkpoint="no")
    return etree.tostring(root, encoding="unicode")
