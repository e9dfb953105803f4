# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses that the machines of a list give to their nics, which no two of them may have."""

from __future__ import annotations

import ipaddress
import typing as t

from ...._base.errors import InputError
from ..machine import Machine
from ..nic import Nic


class AddressesOfList:
    """Which machine has which address.

    Each hypervisor knows what its own machines have; this is about machines that may be on two.
    """

    def __init__(self) -> None:
        self._owners: dict[t.Hashable, tuple[str, bool]] = {}

    def take(self, machine: Machine, *, there: bool) -> None:
        """Note what a machine has. there: whether it exists; two that exist may go on as they are.

        Raises InputError for what another machine has.
        """
        if machine.absent:
            return
        for nic in machine.nics:
            if not nic.present:
                continue
            owner = self._taken(nic.mac, machine.name, there)
            if owner:
                raise InputError(
                    f"the MAC address {nic.mac} belongs to machine {owner}",
                    where=nic.given.at("mac"),
                    hint="Give another one with mac",
                )
            for address in _addresses(nic):
                # libvirt's own networks are others on each hypervisor; bridges of one name are mostly one network.
                owner = self._taken((nic.source, str(nic.options.get("vlan")), address), machine.name, there)
                if owner:
                    raise InputError(
                        f"the address {address} belongs to machine {owner} on bridge {nic.source} too",
                        where=nic.given.at("addresses"),
                        hint="Give another one",
                    )

    def _taken(self, address: t.Hashable, name: str, there: bool) -> str:
        """The name of another machine that has an address; empty where there is none, or both exist."""
        owner, owner_there = self._owners.setdefault(address, (name, there))
        return owner if owner != name and not (there and owner_there) else ""


def _addresses(nic: Nic) -> list[str]:
    return [str(ipaddress.ip_interface(address).ip) for address in nic.addresses] if nic.type == "bridge" else []
