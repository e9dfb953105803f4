# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of nftables as `nft --json list ruleset` says them. Text in, values out.

Format: libnftables-json(5).
"""

from __future__ import annotations

import ipaddress
import json
import typing as t
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..._base.errors import HostError
from .openings import EVERYBODY, Ports, Source, complement, other_ports
from .rules import Chains, Condition, Rule, Verdict, is_first_packet

Json = t.Any
# Statements that decide nothing.
_BESIDE = frozenset({"counter", "log", "comment", "notrack", "mangle"})
_VERDICTS = {
    "accept": Verdict.ACCEPT,
    "drop": Verdict.REFUSE,
    "reject": Verdict.REFUSE,
    "jump": Verdict.JUMP,
    "goto": Verdict.GOTO,
    "return": Verdict.RETURN,
    "continue": Verdict.NEXT,
}
# What a comparison with a port means, as nft itself writes a range.
_RANGES: dict[str, t.Callable[[int], list[int]]] = {
    "<": lambda port: [0, port - 1],
    "<=": lambda port: [0, port],
    ">": lambda port: [port + 1, 65535],
    ">=": lambda port: [port, 65535],
}
_FAMILIES = {"ip": (4,), "ip6": (6,), "inet": (4, 6)}


@dataclass(frozen=True)
class InputChain:
    """A chain where packets for the host itself come in and that filters them, with all chains of its table."""

    family: str
    table: str
    name: str
    rules: Chains

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of IP that it sees."""
        return _FAMILIES[self.family]

    @property
    def is_of_iptables(self) -> bool:
        """Whether it looks like one that the command iptables makes, and keeps for itself."""
        return self.family != "inet" and self.table == "filter" and self.name == "INPUT"


@dataclass
class _Table:
    chains: dict[str, list[Json]] = field(default_factory=dict)
    bases: list[Json] = field(default_factory=list)
    sets: dict[str, Json] = field(default_factory=dict)


def read_ruleset(text: str) -> tuple[InputChain, ...]:
    """The input chains of a host, as nft lists them. Raises HostError for what is no such list."""
    tables: dict[tuple[str, str], _Table] = {}
    try:
        for entry in json.loads(text)["nftables"]:
            for kind, thing in entry.items():
                if kind not in ("chain", "rule", "set", "map") or thing["family"] not in _FAMILIES:
                    continue
                table = tables.setdefault((thing["family"], thing["table"]), _Table())
                if kind == "chain":
                    table.chains.setdefault(thing["name"], [])
                    if thing.get("hook") == "input" and thing.get("type") == "filter":
                        table.bases.append(thing)
                elif kind == "rule":
                    table.chains.setdefault(thing["chain"], []).append(thing["expr"])
                else:
                    table.sets[thing["name"]] = thing.get("elem", [])
        return tuple(
            InputChain(family, name, base["name"], _chains(table, base))
            for (family, name), table in tables.items()
            for base in table.bases
        )
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise HostError(f"the rules that nft lists cannot be read: {type(exc).__name__} {exc}") from exc


def _chains(table: _Table, base: Json) -> Chains:
    return Chains(
        {
            name: tuple(rule for expressions in rules for rule in _rules(expressions, table.sets))
            for name, rules in table.chains.items()
        },
        start=base["name"],
        accepts=base.get("policy", "accept") == "accept",
    )


def _rules(expressions: list[Json], sets: dict[str, Json]) -> Iterator[Rule]:
    """The rules, for new TCP connections, that one of nft's is: one, several for a map of verdicts, or none."""
    rule: Rule | None = Rule(Verdict.NEXT)
    for expression in expressions:
        if rule is None:
            return
        ((kind, content),) = expression.items()
        if kind == "match":
            rule = _matched(rule, content, sets)
        elif kind == "vmap":
            yield from _mapped(rule, content, sets)
            return
        elif kind in _VERDICTS:
            yield _decided(rule, expression)
            return
        elif kind == "xt" and isinstance(content, dict) and content.get("type") == "target":
            return
        elif kind not in _BESIDE:
            rule = replace(rule, condition=Condition.OTHER)


def _decided(rule: Rule, expression: Json) -> Rule:
    kind, content = next(iter(expression.items()))
    target = content["target"] if kind in ("jump", "goto") else ""
    return replace(rule, verdict=_VERDICTS[kind], target=target)


def _mapped(rule: Rule, content: Json, sets: dict[str, Json]) -> Iterator[Rule]:
    for key, decision in _elements(content["data"], sets):
        match = {"op": "==", "left": content["key"], "right": key}
        narrowed = _matched(rule, match, sets)
        if narrowed is not None:
            yield _decided(narrowed, decision)


def _matched(rule: Rule, match: Json, sets: dict[str, Json]) -> Rule | None:
    """The rule with one more condition, None when no new TCP connection meets it."""
    left, right, inverse = match["left"], match["right"], match["op"] == "!="
    other = replace(rule, condition=Condition.OTHER)
    of_first = _meets_flags(match, sets)
    if of_first is not None:
        return rule if of_first else None
    if match["op"] in _RANGES and isinstance(right, int):
        match = {**match, "op": "==", "right": {"range": _RANGES[match["op"]](right)}}
        return _matched(rule, match, sets)
    if match["op"] not in ("==", "!=", "in") or not isinstance(left, dict):
        return other
    payload, meta, tracked = left.get("payload"), left.get("meta"), left.get("ct")
    values = _elements(right, sets)
    if tracked is not None and tracked.get("key") == "state":
        return rule if ("new" in values) is not inverse else None
    if meta is not None and meta["key"] in ("iif", "iifname"):
        # On the loopback interface nobody comes from outside.
        if not inverse and values == ["lo"]:
            return None
        if inverse and values == ["lo"]:
            return rule
        return other if rule.condition is Condition.OTHER else replace(rule, condition=Condition.INTERFACE)
    if meta is not None and meta["key"] == "l4proto":
        return _of_protocols(rule, values, inverse=inverse)
    if meta is not None and meta["key"] in ("nfproto", "protocol"):
        versions = [version for word, version in (("ipv4", 4), ("ip", 4), ("ipv6", 6), ("ip6", 6)) if word in values]
        every = [EVERYBODY[version][0] for version in (4, 6) if (version in versions) is not inverse]
        return replace(rule, sources=tuple(every)) if rule.sources is None else rule
    if payload is not None and "protocol" in payload:
        return _matched_payload(rule, payload, values, inverse=inverse)
    return other


def _meets_flags(match: Json, sets: dict[str, Json]) -> bool | None:
    """Whether the first packet of a connection meets a match of TCP's flags; None for another match."""
    left, right, op = match["left"], match["right"], match["op"]
    masked = left.get("&") if isinstance(left, dict) else None
    asked = masked[0] if isinstance(masked, list) and masked else left
    if not isinstance(asked, dict) or asked.get("payload") != {"protocol": "tcp", "field": "flags"}:
        return None
    if op in ("in", "!") and not masked:
        some = _flags(right)
        return None if some is None else ("syn" in some) is (op == "in")
    # A list is one value of several flags, a set is one of several values.
    values = [_flags(value) for value in ([right] if isinstance(right, list) else _elements(right, sets))]
    looked_at = _flags(masked[1]) if masked else {"syn"}
    if op not in ("==", "!=") or looked_at is None or None in values:
        return None
    return any(value is not None and is_first_packet(looked_at, value) for value in values) is (op == "==")


def _flags(value: Json) -> set[str] | None:
    """The flags that a value has set; None where it cannot be read."""
    if isinstance(value, dict) and list(value) == ["|"]:
        value = value["|"]
    if isinstance(value, list):
        found = [_flags(one) for one in value]
        return None if None in found else set().union(*(one for one in found if one is not None))
    return set() if value == 0 else {value} if isinstance(value, str) else None


def _of_protocols(rule: Rule, values: list[Json], *, inverse: bool) -> Rule | None:
    """The rule for these protocols, None where TCP is none of them."""
    if any(isinstance(value, dict) for value in values):
        # A range, or what is not known.
        return replace(rule, condition=Condition.OTHER)
    return rule if ("tcp" in values or 6 in values) is not inverse else None


def _matched_payload(rule: Rule, payload: Json, values: list[Json], *, inverse: bool) -> Rule | None:
    protocol, field_name = payload["protocol"], payload["field"]
    other = replace(rule, condition=Condition.OTHER)
    if (protocol, field_name) in (("ip", "protocol"), ("ip6", "nexthdr")):
        return _of_protocols(rule, values, inverse=inverse)
    if protocol not in ("tcp", "th", "ip", "ip6"):
        return None
    if field_name == "dport":
        ports = [_ports(value) for value in values]
        known = tuple(one for one in ports if one is not None)
        if len(known) != len(ports) or rule.ports is not None:
            return other
        return replace(rule, ports=other_ports(known) if inverse else known)
    if field_name == "saddr":
        read = [_sources(value) for value in values]
        found = tuple(source for sources in read for source in sources)
        if not all(read):
            # Of a set that has other elements too, those that can be read are certain.
            return other if inverse or not found else replace(rule, sources=found)
        if inverse:
            found = complement(found, 4 if protocol == "ip" else 6)
        return replace(rule, sources=found)
    return other


def _elements(right: Json, sets: dict[str, Json]) -> list[Json]:
    """The single values of the right side of a match: of a list, a set, or a named set."""
    if isinstance(right, str) and right.startswith("@"):
        right = sets.get(right[1:], [{"unknown": right}])
    if isinstance(right, dict) and "set" in right:
        right = right["set"]
    values = right if isinstance(right, list) else [right]
    # With a time limit, a counter or a comment.
    return [value["elem"]["val"] if isinstance(value, dict) and "elem" in value else value for value in values]


def _ports(value: Json) -> Ports | None:
    if isinstance(value, int):
        return Ports(value, value)
    if isinstance(value, dict) and isinstance(value.get("range"), list):
        first, last = value["range"]
        if isinstance(first, int) and isinstance(last, int):
            return Ports(first, last)
    return None


def _sources(value: Json) -> list[Source]:
    """The networks that a value is; none where it cannot be read."""
    if isinstance(value, dict) and "prefix" in value:
        value = f"{value['prefix']['addr']}/{value['prefix']['len']}"
    try:
        if isinstance(value, dict) and isinstance(value.get("range"), list):
            first, last = map(ipaddress.ip_address, value["range"])
            return list(ipaddress.summarize_address_range(first, last))
        return [ipaddress.ip_network(value, strict=False)] if isinstance(value, str) else []
    except (ValueError, TypeError):
        return []
