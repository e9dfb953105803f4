# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's networks as they are: their definitions, and what of them runs."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..._base.xml import etree, read_description
from ..connection import VirConnect, libvirt, suppress_codes, translate_errors


@dataclass(frozen=True)
class ExistingNetwork:
    """One network. text: its definition as libvirt says it; xml: the same; live: what runs, None where it is off.

    persistent: whether there is a definition at all; one without is gone when it is stopped, and xml is what runs.
    """

    name: str
    handle: t.Any
    text: str
    xml: etree._Element
    live: etree._Element | None
    persistent: bool
    autostart: bool

    @property
    def bridges(self) -> set[str]:
        """The bridges that it has, and that it is to have at its next start."""
        found = {_bridge(each) for each in (self.xml, self.live) if each is not None}
        return {name for name in found if name}


def _bridge(xml: etree._Element) -> str | None:
    element = xml.find("bridge")
    return None if element is None else element.get("name")


def definition_text(handle: t.Any) -> str:
    """The definition of a network; of one that has none, what runs. Raises libvirt's errors."""
    try:
        return str(handle.XMLDesc(libvirt.VIR_NETWORK_XML_INACTIVE))
    except libvirt.libvirtError as exc:
        # A driver that has no such flag (test:///) has no other description.
        if exc.get_error_code() != libvirt.VIR_ERR_INVALID_ARG:
            raise
        return str(handle.XMLDesc(0))


def read_networks(conn: VirConnect) -> dict[str, ExistingNetwork]:
    """All networks by name. Raises VirtError, also for one whose description cannot be read."""
    found = {}
    with translate_errors("cannot list the networks"):
        handles = conn.listAllNetworks(0)
    for handle in handles:
        with translate_errors("cannot inspect the networks"), suppress_codes(libvirt.VIR_ERR_NO_NETWORK):
            one = read_one(handle)
            found[one.name] = one
    return found


def read_one(handle: t.Any) -> ExistingNetwork:
    """A network as it is now. Raises libvirt's errors, and HostError for what cannot be read."""
    name, text = handle.name(), definition_text(handle)
    words = f"network {name}"
    return ExistingNetwork(
        name=name,
        handle=handle,
        text=text,
        xml=read_description(words, text),
        live=read_description(words, handle.XMLDesc(0)) if handle.isActive() else None,
        persistent=bool(handle.isPersistent()),
        autostart=bool(handle.isPersistent() and handle.autostart()),
    )
