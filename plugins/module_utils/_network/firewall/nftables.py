# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules in the chains of a ruleset of nftables that somebody wrote.

A packet has to pass every chain where packets come in, so a table of our own could not let in what another one refuses:
our rules go into each table whose chain refuses. They are in a chain of their own, brine_virt_NAME, which the chain
NAME calls first. What they accept goes on to the other tables; what they do not, to the rules below, so that nothing
that was let in is refused. https://wiki.nftables.org/wiki-nftables/index.php/Configuring_chains

They last in a block at the end of the file that nftables.service loads. What the file makes is tried beforehand, in a
network namespace of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..._base.errors import UnsupportedError, VirtError
from ..switch.guarded import Command, GuardedFile
from .openings import Opening, in_order
from .plan import MARK, BootFile, Difference, FirewallPlan, FirewallSpec, fails
from .rules import Chains, Rule, Verdict, rules_as_openings
from .ruleset import InputChain

NftablesFile = BootFile[tuple[InputChain, ...]]
_PREFIX = "brine_virt_"
_BEGIN, _END = f"# BEGIN {MARK}", f"# END {MARK}"
_BLOCK = re.compile(rf"\n?^{re.escape(_BEGIN)}$.*?^{re.escape(_END)}$\n?", re.DOTALL | re.MULTILINE)
# A name that stands in a command as it is. Others have to be quoted in some versions of nft and must not be in others.
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\\/-]*")

_FORGET = """nft --handle list chain "$1" "$2" "$3" | sed -n "s/.*jump $4 .*# handle \\([0-9]*\\)$/\\1/p" |
while read -r handle; do nft delete rule "$1" "$2" "$3" handle "$handle" || exit 1; done
nft delete chain "$1" "$2" "$4"
"""


@dataclass(frozen=True)
class _Place:
    """A chain, its rules without ours, ours, and which of them there should be."""

    chain: InputChain
    ours: tuple[Opening, ...]
    wanted: tuple[Opening, ...]
    called: bool

    @property
    def name(self) -> str:
        return _PREFIX + self.chain.name

    @property
    def address(self) -> tuple[str, str]:
        return (self.chain.family, self.chain.table)

    @property
    def key(self) -> tuple[str, str, str]:
        return (*self.address, self.chain.name)

    @property
    def is_settled(self) -> bool:
        return self.ours == self.wanted and self.called == bool(self.wanted)

    def lines(self, openings: Iterable[Opening]) -> tuple[str, ...]:
        """The rules as nft lists them."""
        return tuple(
            f"ip{'6' if one.source.version == 6 else ''} saddr {one.source_text} tcp dport"
            f" {{ {one.ports_text(comma=', ')} }} accept"
            for one in openings
        )

    def statements(self, *, call: bool) -> tuple[str, ...]:
        """What makes the wanted rules, whatever of ours was there. call: have the chain call ours."""
        table = " ".join(self.address)
        return (
            f"add chain {table} {self.name}",
            f"flush chain {table} {self.name}",
            *(f"add rule {table} {self.name} {line}" for line in self.lines(self.wanted)),
            *([f'insert rule {table} {self.chain.name} jump {self.name} comment "{MARK}"'] if call else []),
        )

    def commands(self) -> tuple[Command, ...]:
        """What makes the wanted rules of the ones that there are."""
        if self.is_settled:
            return ()
        if not self.wanted:
            return (("sh", "-c", _FORGET, "sh", *self.address, self.chain.name, self.name),)
        # In one call, so that all of it is there at once, or nothing.
        return (("nft", "; ".join(self.statements(call=not self.called))),)

    def undoing(self) -> tuple[Command, ...]:
        """What makes the rules that there are now again, once the wanted ones are there."""
        back = replace(self, wanted=self.ours if self.called else (), ours=self.wanted, called=bool(self.wanted))
        return back.commands()


def plan_nftables(spec: FirewallSpec, running: Iterable[InputChain], boot: NftablesFile | None) -> FirewallPlan:
    """The change that lets in whom the spec names, through all of these chains.

    boot: None where it is not known what loads the rules. Raises UnsupportedError, with the lines that a person would
    have to write, where a rule is missing that could not be made to last.
    """
    places = [_place(spec, chain) for chain in running]
    unsettled = [place for place in places if not place.is_settled]
    files, differences = _boot_change(places, boot, needed=bool(unsettled))
    return FirewallPlan(
        differences=(
            *(
                Difference(
                    f"nftables, chain {' '.join((*place.address, place.name))}",
                    place.lines(place.ours),
                    place.lines(place.wanted),
                    tried=True,
                )
                for place in unsettled
            ),
            *differences,
        ),
        apply=tuple(command for place in unsettled for command in place.commands()),
        restore=tuple(command for place in reversed(unsettled) for command in place.undoing()),
        back=tuple(fails("nft", "list", "chain", *place.address, place.name) for place in unsettled if not place.ours),
        files=files,
    )


def _place(spec: FirewallSpec, chain: InputChain) -> _Place:
    name = _PREFIX + chain.name
    rules = chain.rules
    calls = [rule for rule in rules.chains[rules.start] if _calls(rule, name)]
    ours = tuple(in_order(rules_as_openings(rules.chains.get(name, ()))))
    others = replace(rules, chains=_without(rules, name))
    return _Place(chain, ours, spec.wanted(others, ours, chain.versions), called=bool(calls))


def _calls(rule: Rule, name: str) -> bool:
    return rule.verdict is Verdict.JUMP and rule.target == name


def _without(rules: Chains, name: str) -> dict[str, tuple[Rule, ...]]:
    start = tuple(rule for rule in rules.chains[rules.start] if not _calls(rule, name))
    return {**rules.chains, rules.start: start}


def _boot_change(
    places: list[_Place], boot: NftablesFile | None, *, needed: bool
) -> tuple[tuple[GuardedFile, ...], tuple[Difference, ...]]:
    """The file that has to change so that the host boots with the wanted rules. needed: the running ones change too."""
    missing = [place for place in places if place.wanted]
    if boot is None:
        if needed and missing:
            raise _by_hand(missing, "it is not known what loads the rules when the host boots")
        return (), ()
    odd = [
        word for place in missing for word in (place.chain.table, place.chain.name) if not _PLAIN_NAME.fullmatch(word)
    ]
    if odd and needed:
        raise _by_hand(missing, f"{odd[0]} cannot be written in a command")
    _check_marks(boot)
    try:
        if _makes(boot.made_of(boot.text), places):
            return (), ()
        text = _with_block(boot.text, missing)
        made = _makes(boot.made_of(text), places)
    except VirtError as exc:
        if needed and missing:
            raise _by_hand(missing, f"what {boot.path} makes cannot be tried: {exc.what}") from exc
        return (), ()
    if not made:
        if needed and missing:
            raise _by_hand(missing, f"{boot.path} does not make the rules that the host has now")
        return (), ()
    return boot.changed(text)


def _makes(chains: Iterable[InputChain], running: list[_Place]) -> bool:
    """Whether these chains have the wanted rules of ours, and no others of ours."""
    nothing = FirewallSpec(())
    found = {place.key: place.ours for place in (_place(nothing, chain) for chain in chains) if place.called}
    return found == {place.key: place.wanted for place in running if place.wanted}


def _check_marks(boot: NftablesFile) -> None:
    """Refuse a file in which the end of our block is missing: what stands after it would be taken for ours."""
    marks = [line for line in boot.text.splitlines() if line in (_BEGIN, _END)]
    if marks not in ([], [_BEGIN, _END]):
        raise UnsupportedError(
            f"{boot.path} has the lines {_BEGIN!r} and {_END!r} {marks.count(_BEGIN)} and {marks.count(_END)} times, "
            "and only what is between them is the role's to change",
            hint="Leave each of them once, before and after the lines with brine_virt in them, and run again",
        )


def _with_block(text: str, places: list[_Place]) -> str:
    """The text of the file with our block at its end, or without one."""
    rest = _BLOCK.sub("\n", text).rstrip("\n")
    if not places:
        return f"{rest}\n" if rest else ""
    # Whoever takes a table or a chain out of the file gets an empty one, which filters nothing; without these lines the
    # whole file could not be loaded any more, and the host would boot without a firewall.
    lines = [
        statement
        for place in places
        for statement in (
            f"add table {' '.join(place.address)}",
            f"add chain {' '.join(place.key)}",
            *place.statements(call=True),
        )
    ]
    return "\n".join([rest, "", _BEGIN, *lines, _END, ""])


def _by_hand(places: list[_Place], reason: str) -> UnsupportedError:
    chains = ", ".join(" ".join((*place.address, place.chain.name)) for place in places)
    lines = "\n".join(statement for place in places for statement in place.statements(call=True))
    return UnsupportedError(
        f"nftables refuses the cloud's hosts in {chains}, and {reason}, so nothing is changed",
        hint="Have these lines loaded after the chain is made, now and when the host boots, and run again; or set"
        f" virt_hypervisor_firewall to leave:\n{lines}",
    )
