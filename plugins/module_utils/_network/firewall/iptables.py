# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules in the chain INPUT of the command iptables, for IPv4 and IPv6 alike. Text in, values out.

They are in a chain of their own, BRINE-VIRT, which INPUT calls first. They last in the file that netfilter-persistent
or iptables.service loads; whoever has another way to load rules writes them there. Format: iptables-save(8) and
iptables-extensions(8).
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..._base.errors import UnsupportedError, VirtError
from ..switch.guarded import Command, GuardedFile
from .openings import Opening, Ports, Source, complement, in_order, other_ports
from .plan import MARK, BootFile, Difference, FirewallPlan, FirewallSpec, fails
from .rules import Chains, Condition, Rule, Verdict, is_first_packet, rules_as_openings

CHAIN = "BRINE-VIRT"
_CALL = f"INPUT -m comment --comment {MARK} -j {CHAIN}"
_OUR_LINE = re.compile(rf"^(:{CHAIN} .*|-A {CHAIN} .*|-[AI] INPUT .*-j {CHAIN})\n", re.MULTILINE)
_TARGETS = {"ACCEPT": Verdict.ACCEPT, "DROP": Verdict.REFUSE, "REJECT": Verdict.REFUSE, "RETURN": Verdict.RETURN}
# Targets that let the packet go on to the next rule.
_PASSING = frozenset({"LOG", "NFLOG", "ULOG", "MARK", "CONNMARK", "TRACE", "SET", "AUDIT", "NOTRACK", "CT"})


@dataclass(frozen=True)
class IptablesInput:
    """The chain INPUT for one version of IP, as the command ``tool`` lists it with -S, with all chains of its table."""

    version: int
    tool: str
    rules: Chains

    @property
    def called(self) -> bool:
        """Whether it calls our chain."""
        return any(rule.target == CHAIN for rule in self.rules.chains.get("INPUT", ()))


def read_rules(listing: str, version: int, tool: str) -> IptablesInput:
    """INPUT, of what ``iptables -S`` or ``ip6tables -S`` lists."""
    chains: dict[str, list[Rule]] = {}
    accepts = True
    for line in listing.splitlines():
        try:
            words = shlex.split(line)
        except ValueError:
            words = line.split()
        if words[:2] == ["-P", "INPUT"]:
            accepts = words[2] == "ACCEPT"
        elif words[:1] == ["-N"]:
            chains.setdefault(words[1], [])
        elif words[:1] == ["-A"]:
            rule = None
            # What cannot be read says nothing of who gets in.
            with contextlib.suppress(ValueError, StopIteration):
                rule = _rule(words[2:], version)
            if rule is not None:
                chains.setdefault(words[1], []).append(rule)
    rules = Chains({name: tuple(rules) for name, rules in chains.items()}, start="INPUT", accepts=accepts)
    return IptablesInput(version, tool, replace(rules, chains={"INPUT": (), **rules.chains}))


def _rule(words: list[str], version: int) -> Rule | None:
    """A rule as it concerns new TCP connections from outside, None when it does not."""
    rule = Rule(Verdict.NEXT)
    inverse = False
    left = iter(words)
    for word in left:
        if word == "!":
            inverse = True
            continue
        if word in ("-s", "--source"):
            source: Source = ipaddress.ip_network(next(left), strict=False)
            rule = replace(rule, sources=complement((source,), version) if inverse else (source,))
        elif word == "--src-range" and rule.sources is None:
            first, last = map(ipaddress.ip_address, next(left).split("-"))
            sources: tuple[Source, ...] = tuple(ipaddress.summarize_address_range(first, last))
            rule = replace(rule, sources=complement(sources, version) if inverse else sources)
        elif word in ("-p", "--protocol"):
            if (next(left) in ("tcp", "6", "all")) is inverse:
                return None
        elif word in ("--dport", "--dports") and rule.ports is None:
            ports = _ports(next(left))
            rule = replace(rule, ports=other_ports(ports) if inverse else ports)
        elif word in ("--ctstate", "--state"):
            if ("NEW" in next(left).split(",")) is inverse:
                return None
        elif word == "--tcp-flags":
            looked_at, set_ones = (_flags(next(left)) for _which in range(2))
            if is_first_packet(looked_at, set_ones) is inverse:
                return None
        elif word in ("-i", "--in-interface"):
            name = next(left)
            if (name == "lo") is not inverse and name == "lo":
                return None
            if name != "lo" and rule.condition is Condition.NONE:
                rule = replace(rule, condition=Condition.INTERFACE)
        elif word in ("-j", "-g"):
            return _decided(rule, next(left), word)
        elif word == "--comment":
            next(left)
        elif word == "-m":
            if next(left) not in ("comment", "conntrack", "iprange", "multiport", "state", "tcp"):
                rule = replace(rule, condition=Condition.OTHER)
        elif word.startswith("-"):
            rule = replace(rule, condition=Condition.OTHER)
        inverse = False
    return None


def _decided(rule: Rule, target: str, how: str) -> Rule | None:
    if target in _PASSING:
        return None
    if target in _TARGETS:
        return replace(rule, verdict=_TARGETS[target])
    return replace(rule, verdict=Verdict.GOTO if how == "-g" else Verdict.JUMP, target=target)


def _flags(words: str) -> list[str]:
    if words in ("ALL", "NONE"):
        return ["fin", "syn", "rst", "psh", "ack", "urg"] if words == "ALL" else []
    return words.lower().split(",")


def _ports(words: str) -> tuple[Ports, ...]:
    pairs = [word.partition(":") for word in words.split(",")]
    return tuple(Ports(int(first or 0), int(last or 65535) if joint else int(first)) for first, joint, last in pairs)


def plan_iptables(spec: FirewallSpec, running: IptablesInput, boot: BootFile[IptablesInput] | None) -> FirewallPlan:
    """The change that lets in whom the spec names, as far as this version of IP goes.

    boot: None where it is not known what loads the rules. Raises UnsupportedError, with the lines that a person would
    have to write, where a rule is missing that could not be made to last.
    """
    ours, wanted = _ours(running), _wanted(spec, running)
    settled = _has(running, wanted)
    file, difference = _boot_change(running, wanted, boot, needed=not settled)
    shown = Difference(f"{running.tool}, chain {CHAIN}", _lines(ours), _lines(wanted), tried=True)
    return FirewallPlan(
        differences=difference if settled else (shown, *difference),
        apply=() if settled else _commands(running.tool, wanted, called=running.called),
        restore=() if settled else _commands(running.tool, ours if running.called else (), called=bool(wanted)),
        back=() if settled or ours else (fails(running.tool, "-S", CHAIN),),
        files=file,
    )


def _ours(table: IptablesInput) -> tuple[Opening, ...]:
    return tuple(in_order(rules_as_openings(table.rules.chains.get(CHAIN, ()))))


def _wanted(spec: FirewallSpec, table: IptablesInput) -> tuple[Opening, ...]:
    rules = table.rules
    start = tuple(rule for rule in rules.chains["INPUT"] if rule.target != CHAIN)
    others = replace(rules, chains={**rules.chains, "INPUT": start})
    return spec.wanted(others, _ours(table), (table.version,))


def _has(table: IptablesInput, wanted: tuple[Opening, ...]) -> bool:
    """Whether these are the rules of ours there."""
    return _ours(table) == wanted and table.called == bool(wanted)


def _lines(openings: Iterable[Opening]) -> tuple[str, ...]:
    """The rules as iptables lists them."""
    return tuple(
        f"-A {CHAIN} -s {one.source} -p tcp -m multiport --dports {one.ports_text(joint=':')} -j ACCEPT"
        for one in openings
    )


def _commands(tool: str, openings: tuple[Opening, ...], *, called: bool) -> tuple[Command, ...]:
    """What makes these rules of ours, whatever there was; called: INPUT calls our chain before."""
    if not openings and not called:
        return ()
    if openings:
        # Naming the chain makes it, or makes it empty.
        lines = [f":{CHAIN} - [0:0]", *_lines(openings), *([] if called else [f"-I {_CALL}"])]
    else:
        lines = [f"-D {_CALL}", f"-F {CHAIN}", f"-X {CHAIN}"]
    text = "\n".join(["*filter", *lines, "COMMIT", ""])
    # In one call, so that all of it is there at once, or nothing. libvirt or Docker may hold the lock for a moment.
    return (("sh", "-c", f'printf %s "$1" | {tool}-restore --noflush --wait=10', "sh", text),)


def _boot_change(
    running: IptablesInput, wanted: tuple[Opening, ...], boot: BootFile[IptablesInput] | None, *, needed: bool
) -> tuple[tuple[GuardedFile, ...], tuple[Difference, ...]]:
    """The file that has to change so that the host boots with the wanted rules. needed: the running ones change too."""
    if boot is None:
        if needed and wanted:
            raise _by_hand(running, wanted, "it is not known what loads the rules when the host boots")
        return (), ()
    try:
        if _has(boot.made_of(boot.text), wanted):
            return (), ()
        text = _with_rules(boot.text, wanted)
        made = _has(boot.made_of(text), wanted)
    except VirtError as exc:
        if needed and wanted:
            raise _by_hand(running, wanted, f"what {boot.path} makes cannot be tried: {exc.what}") from exc
        return (), ()
    if not made:
        if needed and wanted:
            raise _by_hand(running, wanted, f"{boot.path} has no rules for INPUT")
        return (), ()
    return boot.changed(text)


def _with_rules(text: str, wanted: tuple[Opening, ...]) -> str:
    """The text of the file with these rules of ours in its table filter, and no others of ours."""
    head, table, rest = _OUR_LINE.sub("", text).partition("*filter\n")
    if not table or not wanted:
        return head + table + rest
    body, commit, tail = rest.partition("COMMIT\n")
    lines = [f":{CHAIN} - [0:0]", *_lines(wanted), f"-I {_CALL}"]
    return f"{head}{table}{body}{chr(10).join(lines)}\n{commit}{tail}"


def _by_hand(running: IptablesInput, wanted: tuple[Opening, ...], reason: str) -> UnsupportedError:
    lines = "\n".join(f"{running.tool} {line}" for line in (f"-N {CHAIN}", *_lines(wanted), f"-I {_CALL}"))
    return UnsupportedError(
        f"{running.tool} refuses the cloud's hosts in INPUT, and {reason}, so nothing is changed",
        hint="Have these lines run now and when the host boots, and run again; or set virt_hypervisor_firewall to"
        f" leave:\n{lines}",
    )
