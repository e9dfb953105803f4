# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done so that a firewall lets in whom it should. Values, and the decision that all firewalls share."""

from __future__ import annotations

import ipaddress
import shlex
import typing as t
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..._base.errors import ConflictError, HostError
from ..switch.guarded import Check, Command, GuardedChange, GuardedFile
from .openings import Opening, Ports, in_order
from .rules import Chains

# What the switch calls the change, and what every rule of ours is known by where a firewall has comments.
CHANGE_NAME = "firewall"
MARK = "brine.virt"
Made = t.TypeVar("Made")


@dataclass(frozen=True)
class FirewallSpec:
    """What a firewall is asked for: these openings, nothing else of ours.

    keep_others: rules of ours for somebody else stay, because not all hosts of the cloud have been asked.
    """

    openings: tuple[Opening, ...]
    keep_others: bool = False

    def wanted(self, others: Chains, ours: Iterable[Opening], versions: Iterable[int]) -> tuple[Opening, ...]:
        """The rules of ours that there have to be, in order: none for what is open without them.

        others: the rules without ours; versions: those of IP that they are about. Raises ConflictError where they
        refuse one of them at a port that they name: ours would come first, and undo what somebody meant.
        """
        for one in self.openings:
            refused = others.refusal(one) if one.source.version in versions else None
            if refused is not None:
                raise ConflictError(
                    f"a rule of the firewall refuses {one.source_text} at port {refused.text('-')}, and is not the "
                    "role's to override",
                    hint="Remove that rule, or set virt_hypervisor_firewall to leave",
                )
        wanted = {one for one in self.openings if one.source.version in versions and not others.lets_in(one)}
        return tuple(in_order(wanted | set(ours) if self.keep_others else wanted))

    def as_json(self) -> dict[str, t.Any]:
        """The spec in JSON's types; ``read_spec`` reads it."""
        openings = [[str(one.source), [list(ports) for ports in one.ports]] for one in self.openings]
        return {"openings": openings, "keep_others": self.keep_others}


def read_spec(said: t.Any) -> FirewallSpec:
    """The spec that ``as_json`` has written. Raises HostError for one that another version wrote otherwise."""
    try:
        return FirewallSpec(
            tuple(
                Opening(ipaddress.ip_network(source), tuple(Ports(int(first), int(last)) for first, last in ports))
                for source, ports in said["openings"]
            ),
            bool(said["keep_others"]),
        )
    except (ValueError, KeyError, TypeError) as exc:
        raise HostError(
            f"the change of the firewall under way cannot be read: {exc}",
            hint="Another version of the collection may have started it. Run again in a few minutes: unless it is "
            "confirmed, it is rolled back automatically",
        ) from exc


@dataclass(frozen=True)
class Difference:
    """Lines that are there and lines that will be, and what they are lines of.

    tried: whether they are there before the change is confirmed.
    """

    place: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    tried: bool = False


@dataclass(frozen=True)
class BootFile(t.Generic[Made]):
    """The file that the host loads its rules from when it boots, and what any such text makes.

    made_of: raises VirtError where the text cannot be loaded.
    """

    path: str
    text: str
    mode: int
    made_of: Callable[[str], Made]

    def changed(self, text: str) -> tuple[tuple[GuardedFile, ...], tuple[Difference, ...]]:
        """The change of the file into one with this text, and what to show of it."""
        file = GuardedFile(self.path, text, mode=self.mode, before=self.text)
        return (file,), (Difference(self.path, tuple(self.text.splitlines()), tuple(text.splitlines())),)


def fails(*command: str) -> Command:
    """The command that ends with 0 when this one does not."""
    return ("sh", "-c", '! "$@" >/dev/null 2>&1', "sh", *command)


@dataclass(frozen=True)
class FirewallPlan:
    """A change of a firewall; without differences there is nothing to do.

    apply: what opens until the next boot; restore: what undoes it; back: ends with 0 when it is undone; keep: what
    makes it last once it is confirmed, where that is not done by files.
    """

    differences: tuple[Difference, ...] = ()
    apply: tuple[Command, ...] = ()
    restore: tuple[Command, ...] = ()
    back: tuple[Command, ...] = ()
    keep: tuple[Command, ...] = ()
    files: tuple[GuardedFile, ...] = ()

    def and_then(self, other: FirewallPlan) -> FirewallPlan:
        """Both changes as one. It is undone the other way round."""
        return FirewallPlan(
            self.differences + other.differences,
            self.apply + other.apply,
            other.restore + self.restore,
            self.back + other.back,
            self.keep + other.keep,
            self.files + other.files,
        )

    def guarded(self, subject: dict[str, t.Any]) -> GuardedChange:
        """The change as the switch carries it out."""
        return GuardedChange(
            name=CHANGE_NAME,
            description="changing the firewall's rules for the cloud's hosts",
            files=self.files,
            apply=self.apply,
            keep=self.keep,
            restore=self.restore,
            back=tuple(
                # After `sh -c ... sh`.
                Check(one, f"the firewall still has something of the change, says: {shlex.join(one[4:])}")
                for one in self.back
            ),
            subject=subject,
        )
