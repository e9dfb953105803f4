# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of a host that could cut it off, as values: its files, its commands, and how to know that it is undone."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

# A program and its arguments; no shell reads them. Where one is needed, it is the program: ("sh", "-c", ...).
Command = tuple[str, ...]


@dataclass(frozen=True)
class GuardedFile:
    """A file of a change.

    lasting: its path once the change is confirmed. text: what is in it then; None: it goes. trial: its path until then,
    below /run, where no boot finds it; None: the trial does without it. mode: its permissions at both places.
    before: its lasting text as ``read_text`` gave it when the change was planned, None where there was none.
    """

    lasting: str
    text: str | None
    trial: str | None = None
    mode: int = 0o644
    before: str | None = None


@dataclass(frozen=True)
class Check:
    """A look at whether the host is as it was: a command that ends with 0 then, and what is wrong where it does not.

    complaint: a clause for people, such as «eth0 has no address 192.0.2.10/24».
    """

    command: Command
    complaint: str


@dataclass(frozen=True)
class GuardedChange:
    """What the switch applies, and takes back unless it is confirmed.

    name: tells changes apart that may be under way at once: letters, digits, - and _, such as bridge-br0.
    description: one clause for people, such as «put eth0 into br0».

    Applying: the files with ``trial`` are put there, in order, then the commands of ``apply`` run; one that fails
    undoes all, and so does one that is not done half a minute after the time for the confirmation.

    Confirmed: the files are put into their lasting places in order, each whole or not at all and on disk before the
    next. A host may lose its power between any two of them: the order has to make that harmless. Then the trial files
    are removed, and the commands of ``keep`` run; a failure there is only noted.

    Undone: the commands of ``leave`` run while the files are still there, the files become what they were, and the
    commands of ``restore`` run, each whatever became of those before it. If a check of ``back`` is not passed after
    half of ``return_seconds``, those of ``mend`` run until it is, again and again: they bring back what no network
    manager does, and what they answer does not matter. If it takes more than ``return_seconds``, those of
    ``last_resort`` run, and the host has the same time once more; what is wrong then is said. A command of these that
    hangs is killed.

    subject: values of the caller, of JSON's types, by which it checks the change before it confirms it.
    """

    name: str
    description: str
    files: tuple[GuardedFile, ...] = ()
    apply: tuple[Command, ...] = ()
    keep: tuple[Command, ...] = ()
    leave: tuple[Command, ...] = ()
    restore: tuple[Command, ...] = ()
    mend: tuple[Command, ...] = ()
    back: tuple[Check, ...] = ()
    last_resort: tuple[Command, ...] = ()
    return_seconds: int = 20
    subject: dict[str, t.Any] = field(default_factory=dict)
