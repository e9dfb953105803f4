# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The single changes of a network. Each looks again at what it is about to change, and can be taken back."""

from __future__ import annotations

import typing as t
import uuid

from ..._base.errors import ConflictError
from ..._base.xml import etree, read_description
from ..._host.connection import VirConnect, libvirt, suppress_codes, translate_errors
from ..._host.networks.existing import ExistingNetwork, definition_text, read_one
from ..plan import Step
from .live import Update
from .view import NetworkView


def names_of(machines: t.Sequence[str]) -> str:
    """Machines in words, with the right number."""
    return f"{'machine' if len(machines) == 1 else 'machines'} {', '.join(machines)}"


def define_new(conn: VirConnect, name: str, xml: etree._Element) -> Step:
    """Define a network that is not there. Its UUID is chosen here: by it, undo knows that it is this one."""
    own = str(uuid.uuid4())
    etree.SubElement(xml, "uuid").text = own

    def apply() -> None:
        with translate_errors(f"cannot define network {name}"):
            conn.networkDefineXML(etree.tostring(xml, encoding="unicode"))

    def undo() -> None:
        with translate_errors(f"cannot undefine network {name}"), suppress_codes(libvirt.VIR_ERR_NO_NETWORK):
            conn.networkLookupByUUIDString(own).undefine()

    return Step(f"define network {name}", apply, undo)


def redefine(
    view: NetworkView, network: ExistingNetwork, xml: etree._Element, check: t.Callable[[], None] = lambda: None
) -> Step:
    """Change the definition of a network; what runs stays as it is until it is started again. check: raises where that
    may not be done as things are then."""
    conn, name, handle = view.conn, network.name, network.handle
    begun = []

    def apply() -> None:
        _require_same(network)
        check()
        begun.append(True)
        with translate_errors(f"cannot define network {name}"):
            conn.networkDefineXML(etree.tostring(xml, encoding="unicode"))

    def undo() -> None:
        with translate_errors(f"cannot take back the definition of network {name}"):
            if not begun:
                # It is somebody else's.
                return
            if network.persistent:
                conn.networkDefineXML(network.text)
            elif handle.isPersistent():
                handle.undefine()

    return Step(f"change the definition of network {name}", apply, undo)


def _require_same(network: ExistingNetwork) -> None:
    with translate_errors(f"cannot inspect network {network.name}"):
        if definition_text(network.handle) != network.text:
            raise ConflictError(
                f"the definition of network {network.name} has been changed by somebody else meanwhile",
                hint="Run the task again",
            )


def start(conn: VirConnect, name: str) -> Step:
    """Start a network that is defined by then."""
    begun = []

    def apply() -> None:
        with translate_errors(f"cannot start network {name}"):
            handle = conn.networkLookupByName(name)
            if not handle.isActive():
                begun.append(True)
                handle.create()

    def undo() -> None:
        if not begun:
            return
        with translate_errors(f"cannot stop network {name}"), suppress_codes(libvirt.VIR_ERR_NO_NETWORK):
            handle = conn.networkLookupByName(name)
            if handle.isActive():
                handle.destroy()

    return Step(f"start network {name}", apply, undo)


def stop(view: NetworkView, network: ExistingNetwork) -> Step:
    """Stop a network, unless a machine has come to it since it was planned."""
    name, handle = network.name, network.handle

    def apply() -> None:
        require_unused(view, network, "is not stopped", defined_too=False)
        with translate_errors(f"cannot stop network {name}"):
            if handle.isActive():
                handle.destroy()

    def undo() -> None:
        with translate_errors(f"cannot start network {name} again"):
            if network.persistent and not handle.isActive():
                handle.create()

    return Step(f"stop network {name}", apply, undo)


def undefine(view: NetworkView, network: ExistingNetwork) -> Step:
    """Take the definition of a network away, unless a machine has come to it since it was planned."""
    name, handle = network.name, network.handle
    begun = []

    def apply() -> None:
        require_unused(view, network, "is not removed", defined_too=True)
        _require_same(network)
        begun.append(True)
        with translate_errors(f"cannot undefine network {name}"):
            handle.undefine()

    def undo() -> None:
        if not begun:
            return
        with translate_errors(f"cannot define network {name} again"):
            back = view.conn.networkDefineXML(network.text)
            if network.autostart:
                back.setAutostart(1)

    return Step(f"undefine network {name}", apply, undo)


def require_unused(
    view: NetworkView, network: ExistingNetwork, what: str, *, defined_too: bool, where: str | None = None
) -> None:
    """Raise ConflictError when machines have a nic on a network, or when that is not known.

    what: what is not done then. defined_too: machines that are off count as well.
    """
    users = view.users(network)
    found = users.all if defined_too else sorted(users.running)
    if found:
        verb = "has a nic" if len(found) == 1 else "have nics"
        raise ConflictError(
            f"network {network.name} {what}: {names_of(found)} {verb} on it",
            where=where,
            hint="Put the nics on another network first"
            if defined_too
            else "Shut down the machines first, or put the nics on another network",
        )
    kept = view.kept_states(network) if defined_too else []
    if kept:
        raise ConflictError(
            f"network {network.name} {what}: {', '.join(kept)} {'has a nic' if len(kept) == 1 else 'have nics'} on it",
            where=where,
            hint="Delete these first: without the network, their machine could not go back to them",
        )
    if users.ports:
        raise ConflictError(
            f"network {network.name} {what}: {ports_words(users.ports)}",
            where=where,
            hint="Stop what it belongs to (a container, a machine of a user's session), or take it off the bridge: "
            "ip link set NAME nomaster",
        )
    if users.unknown:
        raise ConflictError(
            f"network {network.name} {what}: {'; '.join(users.unknown)}, so it is not known who uses it", where=where
        )


def require_kept_groups(view: NetworkView, network: ExistingNetwork, kept: t.Collection[str], where: str) -> None:
    """Raise ConflictError when a port group is not to be kept in which machines have a nic: libvirt passes over a name
    that it does not find, and the nic would be in no VLAN after the next boot."""
    there = {
        each.get("name") for xml in (network.xml, network.live) if xml is not None for each in xml.iter("portgroup")
    }
    if not there - set(kept):
        return
    users = view.users(network)
    for group, machines in sorted(users.portgroups.items()):
        if group in there and group not in kept:
            found = sorted(machines)
            raise ConflictError(
                f"port group {group} of network {network.name} is not removed: {names_of(found)} "
                f"{'has a nic' if len(found) == 1 else 'have nics'} in it",
                where=where,
                hint="Put the nics into another one first",
            )
    if users.unknown:
        raise ConflictError(
            f"no port group of network {network.name} is removed: {'; '.join(users.unknown)}, so it is not known who "
            "uses it",
            where=where,
        )


def ports_words(ports: t.Sequence[str]) -> str:
    """What is on a bridge besides nics of machines, in words."""
    words = (
        "interface {} is on its bridge, which is" if len(ports) == 1 else "interfaces {} are on its bridge, which are"
    )
    return f"{words.format(', '.join(ports))} no {'nic' if len(ports) == 1 else 'nics'} of a machine of this libvirt"


def set_autostart(conn: VirConnect, name: str, autostart: bool) -> Step:
    """Whether a network that is defined by then starts with the host."""

    def set_to(value: bool) -> None:
        with translate_errors(f"cannot set autostart of network {name}"), suppress_codes(libvirt.VIR_ERR_NO_NETWORK):
            conn.networkLookupByName(name).setAutostart(int(value))

    words = f"{'start' if autostart else 'do not start'} network {name} with the host"
    return Step(words, lambda: set_to(autostart), lambda: set_to(not autostart))


def update(
    network: ExistingNetwork,
    change: Update,
    *,
    live: bool,
    config: bool,
    check: t.Callable[[], None] = lambda: None,
) -> Step:
    """Change a part of a network. live: of what runs; config: of the definition; check: as in redefine."""
    name, handle = network.name, network.handle
    flags = (libvirt.VIR_NETWORK_UPDATE_AFFECT_LIVE if live else 0) | (
        libvirt.VIR_NETWORK_UPDATE_AFFECT_CONFIG if config else 0
    )

    def call(what: Update) -> None:
        handle.update(
            getattr(libvirt, f"VIR_NETWORK_UPDATE_COMMAND_{what.command}"),
            getattr(libvirt, f"VIR_NETWORK_SECTION_{what.section.code}"),
            what.index,
            what.request,
            flags,
        )

    def is_done() -> bool:
        text = handle.XMLDesc(0) if live else definition_text(handle)
        return change.is_in(read_description(f"network {name}", text))

    begun = []

    def apply() -> None:
        with translate_errors(f"cannot {change.words} in network {name}"):
            if is_done():
                # Somebody else has done it meanwhile, and keeps it.
                return
            check()
            begun.append(True)
            call(change)

    def undo() -> None:
        with translate_errors(f"cannot take back: {change.words} in network {name}"):
            # libvirt may fail after it has changed it: dnsmasq does not start with what it was given.
            if begun and is_done():
                call(change.inverse())

    return Step(f"{change.words} in network {name}", apply, undo)


def look_again(view: NetworkView, name: str) -> ExistingNetwork | None:
    """A network as it is now."""
    with translate_errors(f"cannot inspect network {name}"), suppress_codes(libvirt.VIR_ERR_NO_NETWORK):
        return read_one(view.conn.networkLookupByName(name))
    return None
