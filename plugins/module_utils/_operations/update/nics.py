# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nics of a machine that is there already: added, changed, taken out."""

from __future__ import annotations

import copy
import typing as t
from dataclasses import replace

from ..._base.errors import ConflictError, UnsupportedError
from ..._base.xml import etree, need
from ..._host.facts.networks import changes_bridge_vlans
from ..._model.as_text import declared_nic, plain
from ..._model.attachments import nic_source, nic_type
from ..._model.metadata.machine import NicNote
from ..._model.spec.fields.table import Values, covers, drop, make, read_table, write_table
from ..._model.spec.machine import Machine
from ..._model.spec.nic import LIVE_OPTIONS, NIC_OPTIONS, SOURCE_ATTRIBUTES, Nic
from ..._model.xml.devices import add_nic
from .draft import Draft


def compare_nics(machine: Machine, draft: Draft) -> None:
    """All nics of the spec; others of the machine stay as they are. Raises what cannot be done."""
    macs = {note.name: note.mac for note in draft.notes.nics}
    for nic in machine.nics:
        mac = macs.get(nic.name)
        element = _find(draft.domain.xml, mac)
        if element is None and _find(draft.domain.xml, nic.mac) is not None and nic.present:
            _require_nobodys(nic, macs)
            # A killed run had it attached already, and did not come to write its name.
            element, mac = _find(draft.domain.xml, nic.mac), nic.mac
            draft.notes = replace(draft.notes, nics=(*draft.notes.nics, NicNote(nic.name, nic.mac, nic.addresses)))
        if element is not None and not nic.present:
            _unplug(nic, element, draft)
        elif element is not None:
            _compare(nic, element, str(mac), draft)
        elif nic.present:
            _add(nic, draft)
        elif mac is not None and _find(draft.live, mac) is not None:
            # A killed run, or somebody with --config, has taken it out of the definition alone.
            draft.differ(("nics", nic.name, "attached"), True, False)
            _take_out(nic, mac, draft)


def _require_nobodys(nic: Nic, macs: dict[str, str]) -> None:
    """Raise ConflictError when the machine has the MAC address of a new nic as another one: it would become that."""
    holder = next((name for name, mac in macs.items() if mac == nic.mac), None)
    if holder is not None:
        raise ConflictError(
            f"the MAC address {nic.mac} belongs to nic {holder} of this machine",
            where=nic.given.at("mac"),
            hint="Give another one with mac, or leave it out",
        )


def _find(xml: t.Any, mac: str | None) -> etree._Element | None:
    return None if xml is None or mac is None else xml.find(f"devices/interface/mac[@address='{mac}']/..")


def _add(nic: Nic, draft: Draft) -> None:
    draft.hypervisor.check_nic(nic)
    owner = draft.hypervisor.macs.get(nic.mac)
    if owner:
        raise ConflictError(
            f"the MAC address {nic.mac} belongs to machine {owner}",
            where=nic.given.at("mac"),
            hint="Give another one with mac",
        )
    draft.hypervisor.macs[nic.mac] = draft.name
    draft.differ(("nics", nic.name), None, declared_nic(nic))
    devices = need(draft.record(f"nic {nic.name}"), "devices")
    element = add_nic(devices, nic, nic.options.get("boot_order"))
    draft.notes = replace(
        draft.notes,
        nics=(
            *(note for note in draft.notes.nics if note.name != nic.name),
            NicNote(nic.name, nic.mac, nic.addresses),
        ),
    )
    if draft.live is not None and _find(draft.live, nic.mac) is None:
        _hotplug(nic, element, draft)


def _hotplug(nic: Nic, element: etree._Element, draft: Draft) -> None:
    """Give the running machine a nic that it has in its definition."""
    draft.live_attach(f"attach nic {nic.name} to {draft.name}", element, lambda xml: _find(xml, nic.mac))


def _unplug(nic: Nic, element: etree._Element, draft: Draft) -> None:
    mac = need(element, "mac").get("address", "")
    draft.differ(("nics", nic.name), {"mac": mac}, None)
    record = draft.record(f"without nic {nic.name}")
    found = _find(record, mac)
    if found is not None:
        need(record, "devices").remove(found)
    _take_out(nic, mac, draft)


def _take_out(nic: Nic, mac: str, draft: Draft) -> None:
    """Its note goes, and the running machine loses it."""
    draft.notes = replace(draft.notes, nics=tuple(note for note in draft.notes.nics if note.name != nic.name))
    live = _find(draft.live, mac)
    if live is not None:
        draft.live_detach(f"detach nic {nic.name} from {draft.name}", live)


def _spec_of(nic: Nic) -> Values:
    plug = {"type": nic.type, "source": nic.source, "model": nic.model}
    # Where the machine has none, and none is requested, libvirt's own choice is no difference.
    return {**{key: value for key, value in plug.items() if value}, **nic.options}


def _state_of(element: etree._Element) -> Values:
    """A nic of the XML in the words of its options."""
    model = element.find("model")
    return {
        "type": nic_type(element),
        "source": nic_source(element),
        "model": None if model is None else model.get("type"),
        # A link that nobody ever took down is up.
        "link": "up",
        # What libvirt leaves out.
        "queues": 1,
        **read_table(element, NIC_OPTIONS),
    }


def _write(element: etree._Element, nic: Nic, keys: t.Iterable[str]) -> None:
    """Set these keys of a nic in its element."""
    if {"type", "source"} & set(keys):
        # As a new one is, unless it has a mode already. libvirt's own default keeps guests of one host apart.
        before = element.find("source") if element.get("type") == "direct" else None
        mode = "bridge" if before is None else before.get("mode", "vepa")
        for old in element.findall("source"):
            element.remove(old)
        element.set("type", nic.type)
        source = etree.SubElement(element, "source", {SOURCE_ATTRIBUTES[nic.type]: nic.source})
        if nic.type == "direct":
            source.set("mode", mode)
        for inbound in element.findall("bandwidth/inbound[@floor]") if nic.type != "network" else ():
            # Only a network of libvirt's own guarantees a rate.
            del inbound.attrib["floor"]
            if not inbound.attrib:
                drop(inbound)
        # These belong to the source.
        keys = {*keys, *({"mode", "portgroup"} & set(nic.options))}
    if "model" in keys:
        # libvirt chooses a model for those that say none, and does not write it down.
        make(element, "model").set("type", nic.model)
    write_table(element, NIC_OPTIONS, {key: nic.options[key] for key in keys if key in nic.options})


def _compare(nic: Nic, element: etree._Element, mac: str, draft: Draft) -> None:
    if nic.mac != mac:
        raise UnsupportedError(
            f"the nic has the MAC address {mac}, the task asks for {nic.mac}",
            where=nic.given.at("mac"),
            hint="The guest knows it by that address; remove the nic (state: absent) and add it again",
        )
    want, have = _spec_of(nic), _state_of(element)
    changed = [key for key in want if not covers(have.get(key), want[key])]
    for key in changed:
        draft.differ(("nics", nic.name, key), plain(have.get(key)), plain(want[key]))
    if changed:
        if {"type", "source", "vlan", "portgroup"} & set(changed):
            draft.hypervisor.check_nic(nic)
        found = _find(draft.record(f"{', '.join(changed)} of nic {nic.name}"), mac)
        if found is not None:
            _write(found, nic, changed)
    live = _find(draft.live, mac)
    if live is None:
        if draft.live is not None:
            # A killed run, or somebody with --config, has put it into the definition alone.
            draft.differ(("nics", nic.name, "attached"), False, True)
            _hotplug(nic, element, draft)
        return
    lacking = [key for key in want if not covers(_state_of(live).get(key), want[key])]
    at_once = [key for key in lacking if _is_live(key, nic, live, draft)]
    if at_once:
        _change_live(nic, live, at_once, draft)
    draft.pending.extend(f"nics.{nic.name}.{key}" for key in lacking if key not in at_once)


def _is_live(key: str, nic: Nic, live: etree._Element, draft: Draft) -> bool:
    """Bridges and networks replace each other in a running machine; a macvtap and what others have thought of do
    not. VLANs change at once on a bridge, of Open vSwitch's (which has a virtualport) with any libvirt."""
    if key in ("type", "source"):
        return {nic.type, live.get("type")} <= {"bridge", "network"}
    if key == "vlan" and {nic.type, live.get("type")} == {"bridge"}:
        return live.find("virtualport") is not None or changes_bridge_vlans(draft.hypervisor.conn)
    return key in LIVE_OPTIONS


def _change_live(nic: Nic, live: etree._Element, keys: list[str], draft: Draft) -> None:
    changed = copy.deepcopy(live)
    _write(changed, nic, keys)
    draft.live_update(f"change {', '.join(keys)} of nic {nic.name} of {draft.name}", live, changed)
