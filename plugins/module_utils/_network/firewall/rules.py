# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A firewall's rules as values, and whether they let somebody in. Knows nothing of any one firewall.

The answer leans to one side: «open» is said only where that is certain. What a rule asks besides (marks, rates, sets
that are not known) is never taken as met where it would accept, and never where it would refuse: blocklists say nothing
of a host that is not on them. Only the interface counts as met where it would refuse.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .openings import EVERYBODY, Opening, Ports, Source, is_within

# The kernel refuses circles, and more than 16 levels (NFT_JUMP_STACK_SIZE).
_MOST_LEVELS = 16
# A rule for so many ports is not about any of them.
_MANY_PORTS = 1000


class Verdict(enum.Enum):
    """What becomes of a packet that a rule matches."""

    ACCEPT = "accept"
    REFUSE = "refuse"
    JUMP = "jump"
    GOTO = "goto"
    RETURN = "return"
    NEXT = "next"


class Condition(enum.Enum):
    """What a rule asks besides source and port."""

    NONE = "none"
    INTERFACE = "interface"
    OTHER = "other"


@dataclass(frozen=True)
class Rule:
    """One rule about new TCP connections; rules about anything else are left out. None: any source, any port."""

    verdict: Verdict
    target: str = ""
    sources: tuple[Source, ...] | None = None
    ports: tuple[Ports, ...] | None = None
    condition: Condition = Condition.NONE


@dataclass(frozen=True)
class Chains:
    """The chains of a table by name; the one where packets come in, and what becomes of those that pass through it."""

    chains: Mapping[str, tuple[Rule, ...]]
    start: str
    accepts: bool

    def lets_in(self, opening: Opening) -> bool:
        """Whether the source certainly reaches all of these ports."""
        return all(self._lets_in(opening.source, ports) for ports in opening.ports)

    def refusal(self, opening: Opening) -> Ports | None:
        """The ports of a rule that refuses the source at some of these by name, before any lets it in; None for none.

        Whoever wrote it meant these ports. What refuses all ports, or many, is a firewall's last word.
        """
        for ports in opening.ports:
            found = self._refusal(self.start, opening.source, ports, depth=0)
            if isinstance(found, Ports):
                return found
        return None

    def _refusal(self, name: str, source: Source, ports: Ports, depth: int) -> Ports | bool:
        """The ports of the rule that refuses; whether anything was decided otherwise."""
        if depth > _MOST_LEVELS:
            return True
        for rule in self.chains.get(name, ()):
            if not _concerns(rule, source, ports) or rule.condition is Condition.OTHER:
                continue
            if rule.verdict in (Verdict.JUMP, Verdict.GOTO):
                found = self._refusal(rule.target, source, ports, depth + 1)
                if found or rule.verdict is Verdict.GOTO:
                    return found or True
            elif rule.verdict is Verdict.REFUSE:
                named = [
                    one
                    for one in rule.ports or ()
                    if one.first <= ports.last and ports.first <= one.last and one.last - one.first < _MANY_PORTS
                ]
                return named[0] if named else True
            elif rule.verdict is Verdict.ACCEPT and rule.condition is Condition.NONE:
                return True
            elif rule.verdict is Verdict.RETURN and rule.condition is Condition.NONE:
                return False
        return False

    def lets_everybody_in(self, version: int, ports: Ports) -> bool:
        """Whether the whole internet, 4 or 6, certainly reaches these ports."""
        return all(self._lets_in(source, ports) for source in EVERYBODY[version])

    def _lets_in(self, source: Source, ports: Ports) -> bool:
        answer = self._follow(self.start, source, ports, depth=0)
        return self.accepts if answer is None else answer

    def _follow(self, name: str, source: Source, ports: Ports, depth: int) -> bool | None:
        """True: accepted, False: refused, None: neither, it goes on where the chain was called."""
        if depth > _MOST_LEVELS:
            return False
        for rule in self.chains.get(name, ()):
            if not _concerns(rule, source, ports):
                continue
            if rule.verdict in (Verdict.JUMP, Verdict.GOTO):
                answer = self._follow(rule.target, source, ports, depth + 1)
                if rule.condition is Condition.NONE and (answer is not None or rule.verdict is Verdict.GOTO):
                    return answer
                if rule.condition is Condition.INTERFACE and answer is False:
                    return False
            elif rule.verdict is Verdict.REFUSE and rule.condition is not Condition.OTHER:
                return False
            elif rule.condition is Condition.NONE:
                if rule.verdict is Verdict.ACCEPT:
                    return True
                if rule.verdict is Verdict.RETURN:
                    return None
        return None


def _concerns(rule: Rule, source: Source, ports: Ports) -> bool:
    """Whether the rule is about all of this source and these ports."""
    if rule.sources is not None and not any(is_within(source, one) for one in rule.sources):
        return False
    if rule.ports is None:
        return True
    if rule.verdict is Verdict.REFUSE:
        return any(one.first <= ports.last and ports.first <= one.last for one in rule.ports)
    return any(one.first <= ports.first and ports.last <= one.last for one in rule.ports)


def is_first_packet(looked_at: Iterable[str], set_ones: Iterable[str]) -> bool:
    """Whether the first packet of a connection, of whose flags SYN alone is set, has of these flags of TCP just those
    set that it should have."""
    return {"syn"} & {*looked_at} == {*set_ones}


def rules_as_openings(rules: Iterable[Rule]) -> Iterator[Opening]:
    """What the rules of a chain of ours open, each a rule for one source."""
    for rule in rules:
        if rule.verdict is Verdict.ACCEPT and rule.ports and rule.sources and len(rule.sources) == 1:
            yield Opening(rule.sources[0], tuple(sorted(rule.ports)))
