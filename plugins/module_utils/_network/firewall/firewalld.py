# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rich rules in firewalld's zones. Text in, values out.

A zone of our own that the cloud's hosts belong to would take them out of the zones that they are in, and with them what
these allow, SSH among it. A set of addresses, a service or a policy cannot be added without a reload, which forgets
what others have changed in the running firewall. So there is one rule for each source and range of ports, in each zone
by which the cloud's hosts may come in; their priority says that they are ours. Runtime rules first, permanent ones
when they are confirmed. https://firewalld.org/documentation/man-pages/firewalld.richlanguage.html
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from .openings import TLS_PORT, Opening, Ports, Source, in_order, is_opened_by, is_within, overlaps
from .plan import Difference, FirewallPlan, FirewallSpec, fails
from .rules import Chains, Condition, Rule, Verdict, rules_as_openings

# No other rule has it by chance; being negative, it comes before the rules and services of the zone.
PRIORITY = -TLS_PORT
_ATTRIBUTE = re.compile(r"(\w+)=\"?([^\s\"]+)\"?")
_HEADER = re.compile(r"(\S+)(?: \(.*\))?")


@dataclass(frozen=True)
class Zone:
    """A zone as ``firewall-cmd --list-all-zones`` lists it; sources that are no addresses are left out."""

    name: str
    target: str
    interfaces: tuple[str, ...]
    sources: tuple[Source, ...]
    services: tuple[str, ...]
    ports: tuple[Ports, ...]
    rich_rules: tuple[str, ...]


@dataclass(frozen=True)
class Firewalld:
    """What runs, what is permanent, and the TCP ports of services that a zone allows."""

    default_zone: str
    running: Mapping[str, Zone]
    permanent: Mapping[str, Zone]
    services: Mapping[str, tuple[Ports, ...]]

    def zones_for(
        self, interfaces: Iterable[str], openings: Iterable[Opening]
    ) -> list[tuple[Zone, tuple[Opening, ...]]]:
        """The zones by which these sources may come in, and what is to be opened in each.

        All of it in those of the interfaces and in the default zone, where a bridge that takes over an interface gets;
        what is theirs in those of sources. interfaces: those over which other hosts can be reached.
        """
        outside, wanted = set(interfaces), tuple(openings)
        found = []
        for zone in self.running.values():
            if zone.name == self.default_zone or outside & set(zone.interfaces):
                found.append((zone, wanted))
                continue
            bound = tuple(one for one in wanted if any(overlaps(one.source, source) for source in zone.sources))
            if bound or any(_is_ours(rule) for rule in zone.rich_rules):
                found.append((zone, bound))
        return found

    def lets_in(self, opening: Opening, interfaces: Iterable[str]) -> bool:
        """Whether the source certainly reaches all of these ports now. Where it may come in by several zones, it does
        by one of them: by which interface it comes, nobody knows here.

        interfaces: as in zones_for.
        """
        bound = {interface: zone for zone in self.running.values() for interface in zone.interfaces}
        zones = [
            zone for zone in self.running.values() if any(is_within(opening.source, source) for source in zone.sources)
        ]
        default = self.running.get(self.default_zone)
        for interface in () if zones else interfaces:
            zone = bound.get(interface, default)
            zones += [zone] if zone is not None and zone not in zones else []
        return any(
            self.chains(zone).lets_in(opening)
            or is_opened_by(opening, _openings(self, [rule for rule in zone.rich_rules if _is_ours(rule)]))
            for zone in zones
        )

    def chains(self, zone: Zone) -> Chains:
        """A zone's rules without ours, in firewalld's order: by priority, and of equal ones what refuses first."""
        found: list[tuple[tuple[int, bool], Rule]] = []
        for text in zone.rich_rules:
            rule = None if _is_ours(text) else self._rule(text)
            if rule is not None:
                priority = int(dict(_ATTRIBUTE.findall(text)).get("priority", 0))
                found.append(((priority, rule.verdict is not Verdict.REFUSE), rule))
        allowed = [*zone.ports, *(port for name in zone.services for port in self.services.get(name, ()))]
        if allowed:
            found.append(((0, True), Rule(Verdict.ACCEPT, ports=tuple(allowed))))
        rules = [rule for _key, rule in sorted(found, key=lambda entry: entry[0])]
        return Chains({zone.name: tuple(rules)}, start=zone.name, accepts=zone.target == "ACCEPT")

    def _rule(self, text: str) -> Rule | None:
        """A rich rule, None for one that decides nothing about TCP."""
        verdict = re.search(r"\b(accept|reject|drop|mark)\b", re.sub(r'"[^"]*"', '""', text))
        if verdict is None or verdict.group(1) == "mark":
            return None
        said = dict(_ATTRIBUTE.findall(text))
        sources: tuple[Source, ...] | None = None
        condition = Condition.OTHER if " NOT " in text or "limit " in text or "destination " in text else Condition.NONE
        if "source " in text:
            sources = tuple(_networks([said.get("address", "")]))
            if not sources:
                sources, condition = None, Condition.OTHER
        elif said.get("family") in ("ipv4", "ipv6"):
            sources = (ipaddress.ip_network("0.0.0.0/0" if said["family"] == "ipv4" else "::/0"),)
        ports: tuple[Ports, ...] | None = None
        if "service " in text:
            ports = self.services.get(said.get("name", ""), ())
        elif re.search(r"(?<!-)\bport port=", text) and "source-port " not in text:
            if said.get("protocol") != "tcp":
                return None
            ports = tuple(_ports([f"{said['port']}/tcp"]))
        elif re.search(r"\b(protocol value|icmp-|forward-port|masquerade|source-port)", text):
            return None
        accepts = verdict.group(1) == "accept"
        return Rule(Verdict.ACCEPT if accepts else Verdict.REFUSE, "", sources, ports, condition)


def read_zones(listing: str) -> dict[str, Zone]:
    """The zones, of what ``firewall-cmd --list-all-zones`` lists, with or without --permanent."""
    zones: dict[str, dict[str, list[str]]] = {}
    fields: dict[str, list[str]] = {}
    words: list[str] = []
    for line in listing.splitlines():
        if line and not line[0].isspace():
            found = _HEADER.fullmatch(line.strip())
            fields = zones.setdefault(found.group(1) if found else line.strip(), {})
        elif line.startswith("  ") and ":" in line:
            name, _colon, rest = line.strip().partition(":")
            words = fields.setdefault(name, [])
            words += rest.split() if name != "rich rules" else []
        elif line.strip():
            words.append(line.strip())
    return {
        name: Zone(
            name=name,
            target="".join(fields.get("target", [])),
            interfaces=tuple(fields.get("interfaces", ())),
            sources=tuple(_networks(fields.get("sources", ()))),
            services=tuple(fields.get("services", ())),
            ports=tuple(_ports(fields.get("ports", ()))),
            rich_rules=tuple(fields.get("rich rules", ())),
        )
        for name, fields in zones.items()
    }


def read_service(listing: str) -> tuple[Ports, ...]:
    """The TCP ports, of what ``firewall-cmd --info-service`` says."""
    found = re.search(r"^  ports: (.*)$", listing, re.MULTILINE)
    return tuple(_ports(found.group(1).split() if found else ()))


def _ports(words: Iterable[str]) -> Iterator[Ports]:
    for word in words:
        numbers, _slash, protocol = word.partition("/")
        first, _dash, last = numbers.partition("-")
        if protocol == "tcp" and first.isdigit():
            yield Ports(int(first), int(last or first))


def _networks(words: Iterable[str]) -> Iterator[Source]:
    for word in words:
        with contextlib.suppress(ValueError):
            yield ipaddress.ip_network(word, strict=False)


def rich_rules(openings: Iterable[Opening]) -> tuple[str, ...]:
    """Our rules for these openings, written as firewalld writes them."""
    return tuple(
        f'rule priority="{PRIORITY}" family="ipv{one.source.version}" source address="{one.source_text}"'
        f' port port="{ports.text("-")}" protocol="tcp" accept'
        for one in openings
        for ports in one.ports
    )


def _is_ours(rule: str) -> bool:
    return f'priority="{PRIORITY}"' in rule and "accept" in rule


def plan_firewalld(spec: FirewallSpec, firewalld: Firewalld, interfaces: Iterable[str]) -> FirewallPlan:
    """The change that lets in whom the spec names, in all zones that may be theirs.

    interfaces: those over which other hosts can be reached.
    """
    plan = FirewallPlan()
    for zone, openings in firewalld.zones_for(interfaces, spec.openings):
        plan = plan.and_then(_plan_zone(replace(spec, openings=openings), firewalld, zone))
    return plan


def _plan_zone(spec: FirewallSpec, firewalld: Firewalld, zone: Zone) -> FirewallPlan:
    ours = [rule for rule in zone.rich_rules if _is_ours(rule)]
    wanted = list(rich_rules(spec.wanted(firewalld.chains(zone), _openings(firewalld, ours), (4, 6))))
    lasting = firewalld.permanent.get(zone.name)
    permanent = [rule for rule in lasting.rich_rules if _is_ours(rule)] if lasting is not None else []
    differences = [
        Difference(f"firewalld, zone {zone.name}, {kind}", tuple(sorted(before)), tuple(sorted(wanted)), tried)
        for kind, before, tried in (("running", ours, True), ("permanent", permanent, False))
        if set(before) != set(wanted)
    ]
    return FirewallPlan(
        differences=tuple(differences),
        apply=_commands(zone.name, [], ours, wanted),
        restore=_commands(zone.name, [], wanted, ours),
        # One of them stands for all: each question takes firewall-cmd a while.
        back=tuple(
            fails("firewall-cmd", "--quiet", f"--zone={zone.name}", f"--query-rich-rule={rule}")
            for rule in [rule for rule in wanted if rule not in ours][-1:]
        ),
        keep=_commands(zone.name, ["--permanent"], permanent, wanted),
    )


def _openings(firewalld: Firewalld, rules: Iterable[str]) -> list[Opening]:
    """What these rules of ours open, the ports of one source together."""
    ports: dict[Source, set[Ports]] = {}
    for one in rules_as_openings(filter(None, map(firewalld._rule, rules))):
        ports.setdefault(one.source, set()).update(one.ports)
    return in_order(Opening(source, tuple(sorted(found))) for source, found in ports.items())


def _commands(zone: str, options: list[str], before: list[str], after: list[str]) -> tuple[tuple[str, ...], ...]:
    """What makes these rules of those; first what adds, so that nobody is shut out in between."""
    commands = []
    for verb, rules in (
        ("add", [rule for rule in after if rule not in before]),
        ("remove", [rule for rule in before if rule not in after]),
    ):
        if rules:
            words = [f"--{verb}-rich-rule={rule}" for rule in rules]
            commands.append(("firewall-cmd", "--quiet", *options, f"--zone={zone}", *words))
    return tuple(commands)
