# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules in ufw. Text in, values out.

ufw writes a rule into its file and into the kernel at once, so it is tried in the kernel alone, in the chain of ufw's
that holds the user's rules, and given to ufw when it is confirmed. Ours come before the user's others and are known by
their comment. Format of the files: the lines «### tuple ###» of UFWBackendIptables (src/backend_iptables.py of ufw).
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..switch.guarded import Command
from .openings import Opening, Ports, Source, in_order, is_opened_by
from .plan import MARK, Difference, FirewallPlan, FirewallSpec, fails
from .rules import Chains, Condition, Rule, Verdict, rules_as_openings

_CHAIN = "user"
_VERDICTS = {
    "allow": Verdict.ACCEPT,
    "limit": Verdict.ACCEPT,
    "deny": Verdict.REFUSE,
    "reject": Verdict.REFUSE,
}
# Fields of a tuple: without and with the names of applications.
_LEAST_FIELDS, _FIELDS_WITH_APPLICATIONS = 6, 8


@dataclass(frozen=True)
class Ufw:
    """The user's rules without ours, ours, and the versions of IP that ufw filters."""

    others: Chains
    ours: tuple[Opening, ...]
    versions: tuple[int, ...]

    def lets_in(self, opening: Opening) -> bool:
        """Whether the source certainly reaches all of these ports. IPv6 that ufw does not manage is shut off."""
        if opening.source.version not in self.versions:
            return False
        return self.others.lets_in(opening) or is_opened_by(opening, self.ours)


def read_ufw(rules: Iterable[str], defaults: str) -> Ufw:
    """What the files say. rules: user.rules and user6.rules; defaults: /etc/default/ufw."""
    others: list[Rule] = []
    ours: list[Rule] = []
    for text in rules:
        for line in text.splitlines():
            if line.startswith("### tuple ### "):
                words, _equals, comment = line[len("### tuple ### ") :].partition(" comment=")
                with contextlib.suppress(ValueError, IndexError):
                    rule = _rule(words.split())
                    if rule is not None:
                        (ours if comment.strip() == MARK.encode().hex() else others).append(rule)
    return Ufw(
        Chains({_CHAIN: tuple(others)}, start=_CHAIN, accepts=_setting(defaults, "DEFAULT_INPUT_POLICY") == "ACCEPT"),
        tuple(in_order(rules_as_openings(ours))),
        (4, 6) if (_setting(defaults, "IPV6") or "").lower() == "yes" else (4,),
    )


def _setting(text: str, name: str) -> str | None:
    """The last value of a variable in a file for the shell."""
    found = re.findall(rf"^\s*{name}=[\"']?([^\"'\s]*)", text, re.MULTILINE)
    return found[-1] if found else None


def _rule(words: list[str]) -> Rule | None:
    """A rule for what comes in by TCP, None for another one."""
    action, protocol, port, destination, source_port, source = words[:_LEAST_FIELDS]
    way = words[-1] if len(words) not in (_LEAST_FIELDS, _FIELDS_WITH_APPLICATIONS) else "in"
    verdict = _VERDICTS.get(action.partition("_")[0])
    if verdict is None or protocol not in ("tcp", "any") or not way.startswith("in"):
        return None
    certain = action.partition("_")[0] != "limit" and source_port == "any"
    certain = certain and ipaddress.ip_network(destination, strict=False).prefixlen == 0
    condition = Condition.NONE if way == "in" else Condition.INTERFACE
    sources: tuple[Source, ...] = (ipaddress.ip_network(source, strict=False),)
    return Rule(verdict, "", sources, _ports(port), condition if certain else Condition.OTHER)


def _ports(words: str) -> tuple[Ports, ...] | None:
    if words == "any":
        return None
    pairs = [word.partition(":") for word in words.split(",")]
    return tuple(Ports(int(first), int(last or first)) for first, _colon, last in pairs)


def plan_ufw(spec: FirewallSpec, ufw: Ufw) -> FirewallPlan:
    """The change that lets in whom the spec names."""
    wanted = spec.wanted(ufw.others, ufw.ours, ufw.versions)
    missing = [one for one in wanted if one not in ufw.ours]
    obsolete = [one for one in ufw.ours if one not in wanted]
    differences = (Difference("ufw", _lines(ufw.ours), _lines(wanted)),) if missing or obsolete else ()
    return FirewallPlan(
        differences=differences,
        apply=tuple(_tried("-I", one) for one in missing),
        restore=tuple(_tried("-D", one) for one in missing),
        back=tuple(fails(*_tried("-C", one)) for one in missing),
        keep=(
            # Each comes before the others, so the last is the first.
            *(("ufw", "prepend", *_words(one), "comment", MARK) for one in reversed(missing)),
            *(("ufw", "delete", *_words(one)) for one in obsolete),
            # ufw has mostly emptied the chain by now.
            *(("sh", "-c", '"$@" 2>/dev/null || :', "sh", *_tried("-D", one)) for one in missing),
        ),
    )


def _words(opening: Opening) -> tuple[str, ...]:
    return (
        *("allow", "proto", "tcp", "from", opening.source_text),
        *("to", "any", "port", opening.ports_text(joint=":")),
    )


def _lines(openings: Iterable[Opening]) -> tuple[str, ...]:
    return tuple(" ".join((*_words(one), "comment", MARK)) for one in openings)


def _tried(verb: str, opening: Opening) -> Command:
    """The rule in the kernel alone."""
    six = "6" if opening.source.version == 6 else ""
    return (
        # libvirt or Docker may hold the lock for a moment.
        *(f"ip{six}tables", "--wait=10", verb, f"ufw{six}-user-input", "-s", str(opening.source), "-p", "tcp"),
        *("-m", "multiport", "--dports", opening.ports_text(joint=":")),
        *("-m", "comment", "--comment", MARK, "-j", "ACCEPT"),
    )
