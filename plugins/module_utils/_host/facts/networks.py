# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What machines can be plugged into: libvirt's networks, and the bridges of a hypervisor."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ..._base.errors import ConflictError, HostError, NotFoundError, UnsupportedError, one_of_these
from ..._base.files import read_text
from ..._base.xml import attribute, etree, read_description
from ..connection import VirConnect, is_local, libvirt, of_those_there, translate_errors

_LINKS = "/sys/class/net"
# 11.0.0, as libvirt counts its versions.
_VLANS_SINCE = 11_000_000
# Their guests are plugged straight into the hypervisor's own LAN, by whichever device: what libvirt's page of networks
# has these modes for is that hosts differ in it. https://libvirt.org/formatnetwork.html#connectivity
_ON_THE_LAN = ("bridge", "hostdev", "passthrough", "vepa")


def observe_networks(conn: VirConnect, errors: list[str] | None = None) -> list[dict[str, t.Any]]:
    """The libvirt networks, sorted by name; forward is null for an isolated one.

    errors: takes what could not be read; such a network is listed with what libvirt says of it without its XML.
    """
    with translate_errors("cannot list the networks"):
        active = {n.name() for n in conn.listAllNetworks(libvirt.VIR_CONNECT_LIST_NETWORKS_ACTIVE)}
        autostart = {n.name() for n in conn.listAllNetworks(libvirt.VIR_CONNECT_LIST_NETWORKS_AUTOSTART)}
        described = of_those_there(conn.listAllNetworks(), lambda network: _describe(network, errors))
    networks = []
    for name, bridge, forward in sorted(described, key=lambda entry: entry[0]):
        networks.append(
            {
                "name": name,
                "active": name in active,
                "autostart": name in autostart,
                "bridge": bridge,
                "forward": forward,
            }
        )
    return networks


def _describe(network: t.Any, errors: list[str] | None) -> tuple[str, str | None, str | None]:
    """Name, bridge and forward mode."""
    name, text = network.name(), network.XMLDesc()
    try:
        root = read_description(f"network {name}", text)
    except HostError as exc:
        if errors is not None:
            errors.append(str(exc))
        bridge_name = None
        # A network without a bridge says so by an error.
        with contextlib.suppress(libvirt.libvirtError):
            bridge_name = network.bridgeName()
        return name, bridge_name, None
    bridge, forward = root.find("bridge"), root.find("forward")
    return (
        name,
        None if bridge is None else bridge.get("name"),
        None if forward is None else forward.get("mode", "nat"),
    )


def observe_bridges(conn: VirConnect, uri: str, networks: list[dict[str, t.Any]]) -> list[str]:
    """The bridges that nics can be put on, those of active libvirt networks among them.

    The kernel knows them all; libvirt's interface driver, the only way from afar, may know just the configured ones.
    """
    found = set(_kernel_bridges() if is_local(uri) else _interface_driver_bridges(conn))
    found.update(network["bridge"] for network in networks if network["active"] and network["bridge"])
    return sorted(found)


def check_bridge_vlan(conn: VirConnect, bridge: str, where: str, *, root: str | None = None) -> None:
    """Raise UnsupportedError or ConflictError when a nic on this bridge of the kernel's could not be in a VLAN.

    libvirt has set VLANs of a bridge's port since 11.0.0 (its NEWS.rst); on a bridge that does not look at them this
    has no effect, and the nic would be in a network that nobody meant. Open vSwitch's bridges are not the kernel's.
    where: the place of the option. root: where the kernel tells of the host's links; by default this host's, where the
    connection is to it. From afar nothing is known, and libvirt itself says the first of the two.
    """
    if root is None:
        if not is_local(conn.getURI()):
            return
        root = _LINKS
    text = read_text(os.path.join(root, bridge, "bridge", "vlan_filtering"))
    if text is None:
        return
    require_bridge_vlans(conn, f"the bridge {bridge}", where)
    if text.strip() == "0":
        raise ConflictError(
            f"the bridge {bridge} does not filter VLANs",
            where=where,
            hint="Set vlan_filtering: true for it, in virt_bridge_bridges of the role virt_bridge",
        )


def require_bridge_vlans(conn: VirConnect, plug: str, where: str) -> None:
    """Raise UnsupportedError when libvirt there is too old for VLANs on a bridge of the kernel's.

    plug: what the nic is plugged into, in words. where: the place of the option.
    """
    version = _libvirt_version(conn)
    if version < _VLANS_SINCE:
        major, minor = version // 1_000_000, version // 1_000 % 1_000
        raise UnsupportedError(
            f"libvirt {major}.{minor} cannot put a nic on {plug} into a VLAN",
            where=where,
            hint="libvirt 11.0 and newer can; or make a bridge for the VLAN, with the uplink {vlan: 10, link: eth0}",
        )


def read_network(conn: VirConnect, name: str) -> etree._Element | None:
    """A network as it runs, one that is off as it is defined; None where there is none of this name."""
    try:
        with translate_errors(f"cannot inspect network {name}"):
            text = conn.networkLookupByName(name).XMLDesc(0)
    except NotFoundError:
        return None
    return read_description(f"network {name}", text)


def check_portgroup(conn: VirConnect, network: str, portgroup: str, where: str) -> None:
    """Raise NotFoundError when a network that runs has no port group of this name.

    libvirt passes over a name that it does not find (virPortGroupFindByName), and the nic would be in no VLAN and have
    no limit. where: the place of the option.
    """
    with translate_errors(f"cannot inspect network {network}", where):
        text = conn.networkLookupByName(network).XMLDesc(0)
    names = [group.get("name", "") for group in read_description(f"network {network}", text).iterfind("portgroup")]
    if portgroup not in names:
        raise NotFoundError(
            f"network {network} has no port group {portgroup!r}", where=where, hint=one_of_these(portgroup, names)
        )


def port_of_network(network: etree._Element, nic: etree._Element) -> dict[str, str]:
    """What counts for who can talk to the guest: each in words, by what it is.

    network, nic: <network> and the <interface> on it. As libvirt joins the two (networkAllocatePort in its
    src/network/bridge_driver.c): a VLAN of the nic, else of its port group, else of the network.
    """
    group = _group(network, attribute(nic, "source", "portgroup"))
    vlans = [place.find("vlan") for place in (nic, group, network) if place is not None]
    vlan = next((found for found in vlans if found is not None and len(found)), None)
    isolated = "yes" in [attribute(place, "port", "isolated") for place in (nic, network)]
    forward = network.find("forward")
    mode = "isolated" if forward is None else forward.get("mode", "nat")
    return {
        "mode": "on the LAN of the hypervisor" if mode in _ON_THE_LAN else f"of mode {mode}",
        "vlan": _vlan_words(vlan),
        "isolated": "isolated from the others" if isolated else "not isolated from the others",
    }


def _group(network: etree._Element, name: str | None) -> etree._Element | None:
    """The port group of a nic; of one that names none, the default one (virPortGroupFindByName)."""
    for group in network.iterfind("portgroup"):
        if group.get("name") == name if name else group.get("default") == "yes":
            return group
    return None


def _vlan_words(vlan: etree._Element | None) -> str:
    if vlan is None:
        return "no VLAN"
    tags = sorted(int(tag.get("id", "0")) for tag in vlan.iterfind("tag"))
    native = [f", {tag.get('id')} without a tag" for tag in vlan.iterfind("tag") if tag.get("nativeMode") == "untagged"]
    many = len(tags) > 1 or vlan.get("trunk") == "yes"
    return f"{'trunk of VLANs' if many else 'VLAN'} {', '.join(map(str, tags))}{''.join(native)}"


def check_same_network(nic: etree._Element, here: etree._Element, there: etree._Element, where: str) -> None:
    """Raise ConflictError when the network of this name there would connect the nic to something else than here.

    Networks are told apart by their names alone, and libvirt asks no further when a machine comes: its guest would be
    in a network that nobody meant.

    here, there: <network> on both hypervisors. Names of bridges and devices may differ: a network is what hides them.
    where: the place of the machine in the task.
    """
    name, group = here.findtext("name"), attribute(nic, "source", "portgroup")
    have, gets = port_of_network(here, nic), port_of_network(there, nic)
    for key, words in (("mode", "is"), ("vlan", "has"), ("isolated", "keeps nics")):
        if have[key] == gets[key]:
            continue
        of_group = f" with port group {group}" if group and key == "vlan" else ""
        raise ConflictError(
            f"libvirt network {name!r}{of_group} {words} {gets[key]} there, and {have[key]} here",
            where=where,
            hint="Make it the same on both (virt_network), or give one of the two another name: "
            f"virsh net-dumpxml {name} shows what it is",
        )


def changes_bridge_vlans(conn: VirConnect) -> bool:
    """Tell whether libvirt changes the VLANs of a running machine's nic on a bridge of the kernel's: those that set
    them do (seen with 11.3)."""
    return _libvirt_version(conn) >= _VLANS_SINCE


def _libvirt_version(conn: VirConnect) -> int:
    """As major * 1,000,000 + minor * 1,000 + release."""
    with translate_errors("cannot read the version of libvirt"):
        return int(conn.getLibVersion())


def _kernel_bridges(root: str = _LINKS) -> list[str]:
    try:
        return [name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name, "bridge"))]
    except OSError as exc:
        raise UnsupportedError(f"cannot list the bridges: {exc}") from exc


def _interface_driver_bridges(conn: VirConnect) -> list[str]:
    with translate_errors("cannot list the bridges"):
        described = of_those_there(
            conn.listAllInterfaces(),
            lambda one: (one.name(), read_description(f"interface {one.name()}", one.XMLDesc())),
        )
        return [name for name, root in described if root.get("type") == "bridge"]
