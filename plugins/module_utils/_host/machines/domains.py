# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All domains of a hypervisor as libvirt has them defined, and the flags for changing them."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    VirConnect,
    libvirt,
    translate_errors,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    NAMESPACE,
    PREFIX,
    MachineNotes,
    notes_to_bare_xml,
    read_notes,
)
from ansible_collections.brine.virt.plugins.module_utils._model.reserved_names import is_flush_name

# How long a guest may take to let go of a device.
_DETACH_SECONDS = 20


@dataclass(frozen=True)
class Domain:
    """One domain: libvirt's handle, whether it is up, its permanent XML and our notes in it."""

    name: str
    handle: t.Any
    active: bool
    xml: t.Any
    notes: MachineNotes | None


def list_domains(conn: VirConnect) -> dict[str, Domain]:
    """All machines by name. One that vanishes meanwhile is left out, and so is what has files written to a disk."""
    domains = {}
    with translate_errors("cannot list the machines"):
        for handle in conn.listAllDomains(0):
            if is_flush_name(handle.name()):
                continue
            try:
                xml = parse_xml(handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
                domains[handle.name()] = Domain(handle.name(), handle, bool(handle.isActive()), xml, read_notes(xml))
            except libvirt.libvirtError as exc:
                if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                    raise
    return domains


def macs_in_use(domains: t.Iterable[Domain]) -> dict[str, str]:
    """The MAC addresses of all nics, each with the name of its machine."""
    return {
        element.get("address", "").lower(): domain.name
        for domain in domains
        for element in domain.xml.iterfind("devices/interface/mac")
    }


def define(conn: VirConnect, xml: str, name: str) -> t.Any:
    """Define a domain, checked against libvirt's schema first."""
    with translate_errors(f"cannot define machine {name}"):
        return conn.defineXMLFlags(xml, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)


def undefine(conn: VirConnect, name: str) -> None:
    """Undefine a domain with what libvirt itself made for it (NVRAM, saved state); a missing one is no error.

    Raises ConflictError for one that runs or is paused: nothing here ever stops a machine to be rid of it.
    """
    flags = (
        libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
        | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
        | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
    )
    with translate_errors(f"cannot undefine machine {name}"):
        try:
            handle = conn.lookupByName(name)
            if handle.isActive():
                raise ConflictError(f"machine {name} is running, and so it is not undefined")
            try:
                handle.undefineFlags(flags)
            except libvirt.libvirtError as exc:
                # A driver without such extras (test:///) refuses their flags.
                if exc.get_error_code() not in (libvirt.VIR_ERR_INVALID_ARG, libvirt.VIR_ERR_NO_SUPPORT):
                    raise
                handle.undefine()
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise


def detach_live(handle: t.Any, device_xml: str) -> None:
    """Take a device out of a running domain, and wait until the guest has let go of it.

    Raises HostError when it has not done so in time; it may still do it later.
    """
    device = parse_xml(device_xml)
    with translate_errors(f"cannot detach a device from machine {handle.name()}"):
        handle.detachDeviceFlags(device_xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    alias = device.find("alias")
    end = time.monotonic() + _DETACH_SECONDS
    while alias is not None and time.monotonic() < end:
        with translate_errors(f"cannot inspect machine {handle.name()}"):
            running_xml = parse_xml(handle.XMLDesc(0))
        if running_xml.find(f"devices/{device.tag}/alias[@name='{alias.get('name')}']") is None:
            return
        time.sleep(0.1)
    if alias is not None:
        raise HostError(
            f"machine {handle.name()} has not released its {device.tag} within {_DETACH_SECONDS} s",
            hint="Its operating system must be running, and must no longer use the device",
        )


def attach_again(handle: t.Any, device_xml: str) -> None:
    """Give a running domain a device back that was to be detached, unless its guest has not let go of it."""
    device = parse_xml(device_xml)
    alias = device.find("alias")
    running_xml = parse_xml(handle.XMLDesc(0))
    name = None if alias is None else alias.get("name")
    if name is None or running_xml.find(f"devices/{device.tag}/alias[@name='{name}']") is None:
        handle.attachDeviceFlags(device_xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def write_notes(handle: t.Any, notes: MachineNotes) -> None:
    """Replace our element in the domain's metadata, in the definition and, where it is up, in the running domain."""
    with translate_errors(f"cannot write the metadata of machine {handle.name()}"):
        handle.setMetadata(
            libvirt.VIR_DOMAIN_METADATA_ELEMENT, notes_to_bare_xml(notes), PREFIX, NAMESPACE, affect(handle)
        )


def affect(handle: t.Any) -> int:
    """The flags that make a change count now and at the next boot."""
    flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG
    if handle.isActive():
        flags |= libvirt.VIR_DOMAIN_AFFECT_LIVE
    return int(flags)
