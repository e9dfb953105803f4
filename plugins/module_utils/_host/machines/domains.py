# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All domains of a hypervisor as libvirt has them defined, and the flags for changing them."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass

from ..._base.errors import HostError, NotFoundError, one_of_these
from ..._base.xml import attribute, etree, parse_xml, read_description
from ..._model.metadata.machine import NAMESPACE, PREFIX, MachineNotes, notes_to_bare_xml, read_notes
from ..._model.metadata.migration import is_flush_name
from ..connection import VirConnect, libvirt, suppress_codes, translate_errors

# How long a guest may take to let go of a device.
_DETACH_SECONDS = 20


@dataclass(frozen=True)
class Domain:
    """One domain: libvirt's handle, whether it is up, its permanent XML and our notes in it.

    unreadable: why its XML cannot be read. Then xml has only what libvirt says of it in other ways: name, UUID, memory
    and vCPUs, which stay taken.
    """

    name: str
    handle: t.Any
    active: bool
    xml: t.Any
    notes: MachineNotes | None
    unreadable: HostError | None = None

    def require_readable(self, where: str | None = None) -> None:
        """Raise HostError when nobody can read what this machine is, so that nothing is done to it."""
        if self.unreadable is not None:
            raise unreadable_error(self.name, self.unreadable, where) from self.unreadable


def unreadable_error(name: str, error: HostError, where: str | None = None) -> HostError:
    """What is said to who would change a machine whose XML cannot be read. error: that of read_description."""
    return HostError(error.what, where=where, hint=f"Correct its XML: virsh edit {name}")


def list_domains(conn: VirConnect) -> dict[str, Domain]:
    """All machines by name. One that vanishes meanwhile is left out, and so is what has files written to a disk."""
    domains = {}
    with translate_errors("cannot list the machines"):
        for handle in conn.listAllDomains(0):
            if is_flush_name(handle.name()):
                continue
            with suppress_codes(libvirt.VIR_ERR_NO_DOMAIN):
                domains[handle.name()] = read_domain(handle)
    return domains


def read_domain(handle: t.Any) -> Domain:
    """A machine as libvirt has it now, also one whose XML cannot be read. Raises what libvirt raises."""
    name, active = handle.name(), bool(handle.isActive())
    text = handle.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    try:
        xml = read_description(f"machine {name}", text)
    except HostError as exc:
        return Domain(name, handle, active, _known_without_xml(handle), None, exc)
    return Domain(name, handle, active, xml, read_notes(xml))


def _known_without_xml(handle: t.Any) -> etree._Element:
    _state, memory_kib, _now_kib, vcpus, _time = handle.info()
    root = etree.Element("domain")
    known = (("name", handle.name()), ("uuid", handle.UUIDString()), ("memory", memory_kib), ("vcpu", vcpus))
    for tag, value in known:
        etree.SubElement(root, tag).text = str(value)
    return root


def find_machine(conn: VirConnect, name: str, where: str | None = None) -> t.Any:
    """libvirt's handle of a machine. where: path in the user's input. Raises NotFoundError where there is none, with
    those that there are."""
    with translate_errors(f"cannot inspect machine {name}", where), suppress_codes(libvirt.VIR_ERR_NO_DOMAIN):
        return conn.lookupByName(name)
    known = list_domains(conn)
    raise NotFoundError(f"there is no machine {name!r} on this hypervisor", where=where, hint=one_of_these(name, known))


def description_of(handle: t.Any, flags: int = 0, where: str | None = None) -> etree._Element:
    """What libvirt says of a machine; without flags, as it is now. where: path in the user's input. Raises VirtError,
    also for what cannot be read as XML."""
    name = handle.name()
    with translate_errors(f"cannot inspect machine {name}", where):
        return read_description(f"machine {name}", handle.XMLDesc(flags))


def whole_definition(handle: t.Any) -> etree._Element:
    """A machine's definition as it can be given back to libvirt, with the passwords of its consoles. Raises as
    description_of does."""
    return description_of(handle, libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)


def macs_in_use(domains: t.Iterable[Domain]) -> dict[str, str]:
    """The MAC addresses of all nics, each with the name of its machine."""
    return {
        element.get("address", "").lower(): domain.name
        for domain in domains
        for element in domain.xml.iterfind("devices/interface/mac")
    }


def group_members(groups: t.Collection[str], domains: t.Iterable[Domain]) -> dict[str, str]:
    """The machines that are of one of these anti-affinity groups, each with the group."""
    own = {domain.name: domain.notes.anti_affinity if domain.notes else () for domain in domains}
    return {
        name: next(group for group in groups if group in known)
        for name, known in sorted(own.items())
        if not set(groups).isdisjoint(known)
    }


def define(conn: VirConnect, xml: str, name: str, *, validate: bool = True) -> t.Any:
    """Define a domain, checked against libvirt's schema first.

    validate: False for what our own code alone has put together. libvirt reads its whole schema each time, which takes
    more time than all else that it does to define a machine.
    """
    with translate_errors(f"cannot define machine {name}"):
        return conn.defineXMLFlags(xml, libvirt.VIR_DOMAIN_DEFINE_VALIDATE if validate else 0)


def undefine_handle(handle: t.Any, *choices: int) -> None:
    """Undefine a domain by its handle. choices: flags, of which the first that the driver takes are used.

    They say what becomes of the files and the like that libvirt has made for it.
    """
    for flags in choices:
        try:
            handle.undefineFlags(flags)
        except libvirt.libvirtError as exc:
            # A driver without such extras (test:///) refuses their flags.
            if exc.get_error_code() not in (libvirt.VIR_ERR_INVALID_ARG, libvirt.VIR_ERR_NO_SUPPORT):
                raise
        else:
            return
    handle.undefine()


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
        running_xml = description_of(handle)
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
    running_xml = read_description(f"machine {handle.name()}", handle.XMLDesc(0))
    name = attribute(device, "alias", "name")
    if name is None or running_xml.find(f"devices/{device.tag}/alias[@name='{name}']") is None:
        handle.attachDeviceFlags(device_xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)


def keep_command(name: str) -> str:
    """What an operator calls to define a machine that only runs until it stops.

    Without the password of its console libvirt would define it with none, and without ``--inactive`` with the ports,
    labels and CPU of this one run. The file has the password in it, so it is for its owner alone.
    """
    return f"(umask 077; virsh dumpxml --inactive --security-info {name} > {name}.xml) && virsh define {name}.xml"


def write_notes(handle: t.Any, notes: MachineNotes | None) -> None:
    """Replace our element in the domain's metadata, in the definition and, where it is up, in the running domain; None
    takes it out."""
    xml = None if notes is None else notes_to_bare_xml(notes)
    with translate_errors(f"cannot write the metadata of machine {handle.name()}"):
        handle.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, xml, PREFIX, NAMESPACE, affect(handle))


def affect(handle: t.Any) -> int:
    """The flags that make a change count now and at the next boot."""
    flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG
    if handle.isActive():
        flags |= libvirt.VIR_DOMAIN_AFFECT_LIVE
    return int(flags)
