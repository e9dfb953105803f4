# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The definition in a backup as the restored machine gets it: other disks, and another identity if it gets one.

Whoever can write to the backup can write the definition; harmless.py looks at what is made here.
"""

from __future__ import annotations

import copy
import posixpath
import secrets
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..._base.xml import attribute, etree
from ..attachments import drop_added_watchdog
from ..metadata.machine import ADDRESS_VARIABLES, MachineNotes, find_notes, notes_to_element
from ..spec.nic import FILTER_ADDRESSES
from ..xml.disk_source import DiskSource


@dataclass(frozen=True)
class NewDisk:
    """Where a disk of the restored machine is, and in which format."""

    source: DiskSource
    format: str


@dataclass
class RestoredDomain:
    """The definition, and in sentences what of the machine is not in it any more. macs: new MAC addresses by the old
    ones, where it gets new ones."""

    root: t.Any
    lost: list[str] = field(default_factory=list)
    macs: dict[str, str] = field(default_factory=dict)


def restored_domain(
    domain: etree._Element,
    name: str,
    uuid: str | None,
    disks: Mapping[str, NewDisk],
) -> RestoredDomain:
    """name: that of the restored machine. uuid: a new one, with which it also gets new MAC addresses; None keeps both.
    disks: by target.

    Its genid is a new one in any case: https://libvirt.org/formatdomain.html#general-metadata.
    """
    root = copy.deepcopy(domain)
    result = RestoredDomain(root)
    old_name = root.findtext("name") or ""
    _set_text(root, "name", name)
    if uuid is not None:
        _set_text(root, "uuid", uuid)
        for entry in root.iterfind("sysinfo/system/entry[@name='uuid']"):
            entry.text = uuid
        for mac in root.iterfind("devices/interface/mac"):
            new = _new_mac()
            result.macs[(mac.get("address") or "").lower()] = new
            mac.set("address", new)
        for port in root.iterfind("devices/interface/virtualport"):
            _renew_port(port)
        result.lost += [*_drop_filter_addresses(root, old_name), *_free_ports(root, old_name)]
    for genid in root.findall("genid"):
        # It tells a guest that it is a copy, or was brought back from a backup; an empty one is chosen anew.
        genid.text = None
    if "id" in root.attrib:
        del root.attrib["id"]
    _move_disks(root, disks, result)
    drop_added_watchdog(root)
    # libvirt chooses what is usual here: the program, and the place of the UEFI variables.
    for emulator in root.findall("devices/emulator"):
        _remove(emulator)
    for nvram in root.findall("os/nvram"):
        _clear(nvram)
        if "type" in nvram.attrib:
            del nvram.attrib["type"]
        if not nvram.attrib:
            _remove(nvram)
    for source in root.findall("devices/tpm/backend[@type='emulator']/source"):
        _remove(source)
    for log in root.iterfind("devices//log[@file]"):
        folder, file = posixpath.split(log.get("file", ""))
        if file == f"{old_name}-serial.log":
            log.set("file", f"{folder}/{name}-serial.log")
    return result


def with_notes(restored: RestoredDomain, notes: MachineNotes) -> str:
    """The XML with these notes in it, and no others."""
    root = restored.root
    for old in find_notes(root):
        _remove(old)
    metadata = root.find("metadata")
    # Notes of a move or of snapshots are of the machine as it was then; a forged one would have volumes deleted.
    for child in list(metadata) if metadata is not None else []:
        if isinstance(child.tag, str) and child.tag.startswith("{urn:brine:virt:"):
            _remove(child)
    if metadata is None:
        metadata = etree.SubElement(root, "metadata")
    metadata.append(notes_to_element(notes))
    return etree.tostring(root, encoding="unicode")


def renewed_notes(notes: MachineNotes, macs: Mapping[str, str], old_name: str) -> tuple[MachineNotes, list[str]]:
    """The notes of a machine beside the one that was backed up, and in sentences what of them is only the other's.

    By its addresses Ansible would take the other machine for this one, host keys included.
    """
    lost, nics = [], []
    for nic in notes.nics:
        if nic.addresses:
            lost.append(f"nic {nic.name} is not noted with {', '.join(nic.addresses)} any more, as {old_name} has that")
        nics.append(replace(nic, mac=macs.get(nic.mac.lower(), nic.mac), addresses=()))
    variables = dict(notes.variables)
    for key in ADDRESS_VARIABLES:
        if key in variables:
            lost.append(f"variable {key} is gone, as {variables.pop(key)} is {old_name}'s")
    return replace(notes, nics=tuple(nics), variables=variables), lost


def _renew_port(port: etree._Element) -> None:
    """What tells a port of a switch from all others libvirt chooses anew where it is missing, except for midonet."""
    for parameters in port.findall("parameters"):
        for name in ("interfaceid", "instanceid"):
            if port.get("type") != "midonet" and name in parameters.attrib:
                del parameters.attrib[name]


def _drop_filter_addresses(root: etree._Element, old_name: str) -> t.Iterator[str]:
    """With them the filter would let the machine send as the other one, and not as itself."""
    for reference in root.iterfind("devices/interface/filterref"):
        for parameter in reference.findall("parameter"):
            if (parameter.get("name") or "").upper() in FILTER_ADDRESSES:
                reference.remove(parameter)
                yield (
                    f"filter {reference.get('filter')} of a nic has no {parameter.get('name')} any more, as "
                    f"{parameter.get('value')} is {old_name}'s"
                )


def _free_ports(root: etree._Element, old_name: str) -> t.Iterator[str]:
    """Ports of the hypervisor that only one of the two can listen on."""
    for graphics in root.iterfind("devices/graphics"):
        if graphics.get("autoport") != "yes" and graphics.get("port") not in (None, "-1"):
            yield f"its console has no fixed port any more, as {graphics.get('port')} is {old_name}'s"
            for name in ("port", "tlsPort", "websocket"):
                graphics.attrib.pop(name, "")
            graphics.set("autoport", "yes")
    for source in root.iterfind("devices/*/source[@mode='bind'][@service]"):
        yield (
            f"its serial port listens on port {source.get('service')} as that of {old_name} does, so only one of them "
            "can run on a hypervisor"
        )


def _move_disks(root: etree._Element, disks: Mapping[str, NewDisk], result: RestoredDomain) -> None:
    for element in root.findall("devices/disk"):
        target = attribute(element, "target", "dev") or ""
        for tag in ("backingStore", "mirror"):
            for child in element.findall(tag):
                element.remove(child)
        new = disks.get(target)
        if new is not None:
            _place(element, new)
        elif element.get("device") in ("cdrom", "floppy"):
            if element.find("source") is not None:
                result.lost.append(f"drive {target} is empty, as what was in it is not in the backup")
            _empty(element)
        else:
            result.lost.append(f"disk {target} is gone, as it is not in the backup")
            _remove(element)


def _place(element: etree._Element, new: NewDisk) -> None:
    source = element.find("source")
    startup = source.get("startupPolicy") if source is not None else None
    # Also one that names the right file already: there may be more in it.
    _remove_sources(element)
    new.source.write(element)
    if startup is not None:
        made = element.find("source")
        if made is not None:
            made.set("startupPolicy", startup)
    driver = element.find("driver")
    if driver is None:
        driver = etree.SubElement(element, "driver", name="qemu")
    driver.set("type", new.format)


def _empty(element: etree._Element) -> None:
    _remove_sources(element)
    element.set("type", "file")


def _remove_sources(element: etree._Element) -> None:
    for tag in ("source", "auth"):
        for child in element.findall(tag):
            element.remove(child)


def _set_text(root: etree._Element, tag: str, text: str) -> None:
    element = root.find(tag)
    if element is None:
        element = etree.SubElement(root, tag)
    _clear(element)
    element.text = text


def _clear(element: etree._Element) -> None:
    """Take out the text, also that which a comment or an element stands before, and all elements."""
    for child in list(element):
        element.remove(child)
    element.text = None


def _remove(element: etree._Element) -> None:
    parent = element.getparent()
    if parent is not None:
        parent.remove(element)


def _new_mac() -> str:
    """With the prefix that QEMU and libvirt use."""
    return "52:54:00:" + ":".join(f"{byte:02x}" for byte in secrets.token_bytes(3))
