# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All firewalls that a host has, seen together: their names, whom they let in, what has to change. Values only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..._base.errors import Mistakes
from .firewalld import Firewalld, plan_firewalld
from .iptables import IptablesInput, plan_iptables
from .nftables import NftablesFile, plan_nftables
from .openings import Opening, Ports
from .plan import BootFile, FirewallPlan, FirewallSpec
from .rules import Chains
from .ruleset import InputChain
from .ufw import Ufw, plan_ufw


@dataclass(frozen=True)
class Firewalls:
    """What filters a host's incoming packets.

    interfaces: those over which others can be reached. chains: those of nftables that neither firewalld nor iptables
    keeps; boot_file: what makes them when the host boots. tables: those of iptables, unless ufw keeps them, each with
    the file that it comes from.
    """

    interfaces: tuple[str, ...] = ()
    firewalld: Firewalld | None = None
    ufw: Ufw | None = None
    chains: tuple[InputChain, ...] = ()
    boot_file: NftablesFile | None = None
    tables: tuple[tuple[IptablesInput, BootFile[IptablesInput] | None], ...] = ()

    def names(self, ports: tuple[Ports, ...]) -> list[str]:
        """The firewalls that would not let the whole internet in at all of these ports; none when nothing filters."""
        found = ["firewalld"] if self.firewalld is not None else []
        found += ["ufw"] if self.ufw is not None else []
        if any(_filters(chain.rules, chain.versions, ports) for chain in self.chains):
            found.append("nftables")
        if any(_filters(table.rules, (table.version,), ports) for table, _file in self.tables):
            found.append("iptables")
        return found

    def open_to_everybody(self, ports: Ports, versions: Iterable[int]) -> bool:
        """Whether the whole internet certainly gets through all of them, by one of these versions of IP."""
        return any(
            all(chains.lets_everybody_in(version, ports) for chains in self._all(version)) for version in versions
        )

    def lets_in(self, opening: Opening) -> bool:
        """Whether the source certainly gets through all of them to these ports now, with our rules that there are."""
        version = opening.source.version
        kept = [chain.rules for chain in self.chains if version in chain.versions]
        kept += [table.rules for table, _file in self.tables if table.version == version]
        return (
            all(chains.lets_in(opening) for chains in kept)
            and (self.ufw is None or self.ufw.lets_in(opening))
            and (self.firewalld is None or self.firewalld.lets_in(opening, self.interfaces))
        )

    def _all(self, version: int) -> list[Chains]:
        """The rules that a packet of this version of IP from elsewhere meets."""
        found = [chain.rules for chain in self.chains if version in chain.versions]
        found += [table.rules for table, _file in self.tables if table.version == version]
        if self.ufw is not None:
            # IPv6 that it is told not to manage is shut off (IPV6=no, ufw-init-functions).
            found.append(self.ufw.others if version in self.ufw.versions else Chains({}, "", accepts=False))
        if self.firewalld is not None:
            firewalld = self.firewalld
            zones = [zone for zone in firewalld.running.values() if set(zone.interfaces) & set(self.interfaces)]
            default = firewalld.running.get(firewalld.default_zone)
            found += [firewalld.chains(zone) for zone in zones or filter(None, [default])]
        return found

    def plan(self, spec: FirewallSpec) -> FirewallPlan:
        """The change that lets in whom the spec names. Raises UnsupportedError where that cannot be made to last."""
        mistakes = Mistakes()
        plan = FirewallPlan()
        if self.firewalld is not None:
            plan = plan.and_then(plan_firewalld(spec, self.firewalld, self.interfaces))
        if self.ufw is not None:
            plan = plan.and_then(plan_ufw(spec, self.ufw))
        for table, file in self.tables:
            with mistakes.noted():
                plan = plan.and_then(plan_iptables(spec, table, file))
        with mistakes.noted():
            plan = plan.and_then(plan_nftables(spec, self.chains, self.boot_file))
        mistakes.conclude()
        return plan


def _filters(rules: Chains, versions: tuple[int, ...], ports: tuple[Ports, ...]) -> bool:
    return not all(rules.lets_everybody_in(version, one) for version in versions for one in ports)
