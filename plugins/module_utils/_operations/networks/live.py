# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a network changes while it runs, by virNetworkUpdate.

What that can do is in virNetworkDefUpdateSection of libvirt's src/conf/network_conf.c: DHCP ranges and leases, DNS
records and uplinks are added and deleted, port groups changed as well. Of all other sections libvirt says that it can't
update them. What becomes of it in dnsmasq and in the firewall: networkUpdate in src/network/bridge_driver.c.
"""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ..._base.xml import etree
from ..._model.spec.fields.table import drop
from ..._model.spec.resources.network.addressing import as_address, interface_of

Entry = tuple[t.Any, ...]


class _Difference(t.NamedTuple):
    """Of a section of a network: what is there, what is to be, and of these what goes and what is new."""

    there: Sequence[etree._Element]
    wanted: Sequence[etree._Element]
    gone: Sequence[etree._Element]
    new: Sequence[etree._Element]


@dataclass(frozen=True)
class NetworkSection:
    """A part of a network. code: the end of its constant's name in libvirt (VIR_NETWORK_SECTION_...)."""

    code: str
    path: str
    words: str
    names: tuple[str, ...]

    def elements(self, xml: etree._Element, index: int) -> list[etree._Element]:
        """Those of a network, or of its ``<ip>`` at an index from 0."""
        home = xml if index < 0 else xml.findall("ip")[index]
        return list(home.findall(self.path))

    def text(self, element: etree._Element) -> str:
        """It in words, such as C(DHCP lease 192.0.2.7)."""
        return " ".join([self.words, *(value for name in self.names if (value := element.get(name)))])


_LEASES = NetworkSection("IP_DHCP_HOST", "dhcp/host", "DHCP lease", ("ip", "mac", "id", "name"))
_RANGES = NetworkSection("IP_DHCP_RANGE", "dhcp/range", "DHCP range", ("start", "end"))
_HOSTS = NetworkSection("DNS_HOST", "dns/host", "DNS name of", ("ip",))
_TXT = NetworkSection("DNS_TXT", "dns/txt", "DNS record TXT", ("name",))
_SRV = NetworkSection("DNS_SRV", "dns/srv", "DNS record SRV", ("service", "protocol", "domain", "target"))
_UPLINKS = NetworkSection("FORWARD_INTERFACE", "forward/interface", "uplink", ("dev",))
_PORTGROUPS = NetworkSection("PORTGROUP", "portgroup", "port group", ("name",))
_DNS = (_HOSTS, _TXT, _SRV)
# dnsmasq is started again for a new range, with all leases there are then: so ranges come last.
_DHCP = (_LEASES, _RANGES)


@dataclass(frozen=True)
class Update:
    """One call of virNetworkUpdate. command: the end of its constant's name. index: of the ``<ip>``, -1 where it is in
    none. old: what is modified, or deleted."""

    command: str
    section: NetworkSection
    index: int
    element: etree._Element
    old: etree._Element | None = None

    @property
    def words(self) -> str:
        """What it does."""
        verb = {"ADD_LAST": "add", "DELETE": "remove", "MODIFY": "change"}[self.command]
        return f"{verb} the {self.section.text(self.element)}"

    @property
    def key(self) -> Entry:
        """What two of them have in common that do the same."""
        return self.command, self.section.code, self.index, _entry(self.element)

    def inverse(self) -> Update:
        """What takes it back."""
        if self.command == "MODIFY" and self.old is not None:
            return Update("MODIFY", self.section, self.index, self.old, self.element)
        command = "DELETE" if self.command == "ADD_LAST" else "ADD_LAST"
        return Update(command, self.section, self.index, self.element)

    @property
    def request(self) -> str:
        """The element as the call takes it."""
        if self.command == "DELETE" and self.section is _HOSTS:
            # libvirt deletes by the address or any of the names, and refuses where it finds two of them
            # (virNetworkDefUpdateDNSHost): a name may have several addresses.
            return str(etree.tostring(etree.Element("host", ip=self.element.get("ip", "")), encoding="unicode"))
        return str(etree.tostring(self.element, encoding="unicode", with_tail=False))

    def is_in(self, xml: etree._Element) -> bool:
        """Whether a network is as after this. What is new may be written in other words by libvirt."""
        there = self.section.elements(xml, self.index)
        if self.command == "ADD_LAST":
            return self._named(self.element) in map(self._named, there)
        gone = self.element if self.old is None else self.old
        return _entry(gone) not in map(_entry, there)

    def _named(self, element: etree._Element) -> Entry:
        return tuple(_normal(name, element.get(name, "")) for name in self.section.names)

    def apply_to(self, xml: etree._Element) -> None:
        """Do the same to a description."""
        gone = self.old if self.command == "MODIFY" else self.element if self.command == "DELETE" else None
        home = xml if self.index < 0 else xml.findall("ip")[self.index]
        for element in self.section.elements(xml, self.index):
            if gone is not None and _entry(element) == _entry(gone):
                drop(element)
        if self.command != "DELETE":
            path = self.section.path.rpartition("/")[0]
            parent = home.find(path) if path else home
            if parent is None:
                parent = etree.SubElement(home, path)
            parent.append(copy.deepcopy(self.element))


def _normal(name: str, value: str) -> str:
    return as_address(value).lower() if name in ("ip", "start", "end", "mac", "id") else value


def _entry(element: etree._Element) -> Entry:
    """What an element says, whoever has written it."""
    attributes = sorted(
        (str(name), _normal(str(name), str(value)))
        for name, value in element.attrib.items()
        # How many machines use it, in the description of what runs.
        if name != "connections"
    )
    return element.tag, tuple(attributes), (element.text or "").strip(), tuple(map(_entry, element))


def live_updates(have: etree._Element, want: etree._Element) -> list[Update]:
    """How a network becomes another as far as virNetworkUpdate can.

    have: what runs, or what is defined; want: what is to be. What has to go goes first. A section in which one change
    cannot be made is left as it is.
    """
    found = _of_section(have, want, _UPLINKS) if _same_forward(have, want) else []
    if not _dns_is_off(have, want):
        for section in _DNS:
            found += _of_section(have, want, section)
    found += _of_section(have, want, _PORTGROUPS)
    if [interface_of(each) for each in have.findall("ip")] == [interface_of(each) for each in want.findall("ip")]:
        for index in range(len(have.findall("ip"))):
            if _dhcp_changes(have, want, index):
                for section in _DHCP:
                    found += _of_section(have, want, section, index)
    return found


def _of_section(have: etree._Element, want: etree._Element, section: NetworkSection, index: int = -1) -> list[Update]:
    there, wanted = section.elements(have, index), section.elements(want, index)
    entries = [_entry(element) for element in there]
    wanted_entries = [_entry(element) for element in wanted]
    gone = [element for element in there if _entry(element) not in wanted_entries]
    new = [element for element in wanted if _entry(element) not in entries]
    changeable = _CHANGEABLE.get(section.code)
    if changeable is not None and not changeable(_Difference(there, wanted, gone, new)):
        return []
    changed: list[Update] = []
    if section is _PORTGROUPS:
        by_name = {element.get("name"): element for element in gone}
        changed = [
            Update("MODIFY", section, index, element, by_name[element.get("name")])
            for element in new
            if element.get("name") in by_name
        ]
        # There is only one default at any time.
        changed.sort(key=lambda update: update.element.get("default") == "yes")
        names = {update.element.get("name") for update in changed}
        gone = [element for element in gone if element.get("name") not in names]
        new = [element for element in new if element.get("name") not in names]
    return [
        *(Update("DELETE", section, index, element) for element in gone),
        *changed,
        *(Update("ADD_LAST", section, index, element) for element in new),
    ]


def _same_forward(have: etree._Element, want: etree._Element) -> bool:
    forwards = [each.find("forward") for each in (have, want)]
    modes = [None if each is None else each.get("mode", "nat") for each in forwards]
    return modes[0] is not None and modes[0] == modes[1]


def _uplinks_change(section: _Difference) -> bool:
    """libvirt keeps an uplink that machines are on: virNetworkDefUpdateForwardInterface."""
    return all(element.get("connections", "0") == "0" for element in section.gone)


def _dns_is_off(have: etree._Element, want: etree._Element) -> bool:
    found = [each.find("dns") for each in (have, want)]
    return any(each is not None and each.get("enable") == "no" for each in found)


def _txt_changes(section: _Difference) -> bool:
    """libvirt knows a record by its name alone: virNetworkDefUpdateDNSTxt."""
    return all(len({element.get("name") for element in each}) == len(each) for each in (section.there, section.wanted))


def _srv_changes(section: _Difference) -> bool:
    """libvirt deletes the only record that has all of these four, and adds none that another one has all of:
    virNetworkDefUpdateDNSSrv. What it is not told it takes for the same."""

    def matching(element: etree._Element, among: Sequence[etree._Element]) -> int:
        told = [(name, element.get(name)) for name in ("service", "protocol", "domain", "target") if element.get(name)]
        return sum(all(other.get(name) == value for name, value in told) for other in among)

    stays = [element for element in section.there if element not in section.gone]
    return all(matching(element, section.there) == 1 for element in section.gone) and all(
        matching(element, [*stays, *section.new[:index]]) == 0 for index, element in enumerate(section.new)
    )


def _dhcp_changes(have: etree._Element, want: etree._Element, index: int) -> bool:
    """Of IPv6, networkUpdate does not start dnsmasq again for the first lease, or the last, unless a range changes."""
    homes = [each.findall("ip")[index] for each in (have, want)]
    if homes[0].get("family") != "ipv6":
        return True
    served = [bool(home.findall("dhcp/range") or home.findall("dhcp/host")) for home in homes]
    ranges = [sorted(map(_entry, home.findall("dhcp/range"))) for home in homes]
    return served[0] == served[1] or ranges[0] != ranges[1]


# Whether a section can be changed in this way; one that is not here always can.
_CHANGEABLE = {_UPLINKS.code: _uplinks_change, _TXT.code: _txt_changes, _SRV.code: _srv_changes}
