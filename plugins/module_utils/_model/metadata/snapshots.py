# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshots of a machine that is being moved while it is off: an element of its own namespace in its metadata.

libvirt moves no machine that has snapshots. So they are set aside here, which travels with the machine, and defined
again where it arrives. What the snapshots hold stays in the disks' files all the while.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree

NAMESPACE = "urn:brine:virt:snapshots:1"
PREFIX = "brinesnapshots"


@dataclass(frozen=True)
class SetAside:
    """A snapshot by its own XML. current: the next one would follow it."""

    name: str
    xml: str
    current: bool = False


def set_aside_to_xml(snapshots: Sequence[SetAside]) -> str:
    """The element as virDomainSetMetadata wants it, without the namespace; see metadata.notes_to_bare_xml."""
    root = etree.Element("snapshots")
    for one in snapshots:
        element = etree.SubElement(root, "snapshot", name=one.name)
        if one.current:
            element.set("current", "yes")
        element.text = one.xml
    return etree.tostring(root, encoding="unicode")


def read_set_aside(domain: etree._Element) -> tuple[SetAside, ...]:
    """Those in a parsed ``<domain>`` element, each after the one that it follows; none for most machines."""
    root: t.Any = domain.find(f"metadata/{{{NAMESPACE}}}snapshots")
    if root is None:
        return ()
    return tuple(
        SetAside(one.get("name", ""), one.text or "", one.get("current") == "yes")
        for one in root.iterfind(f"{{{NAMESPACE}}}snapshot")
    )
