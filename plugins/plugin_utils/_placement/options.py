# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the user lays down for placement: for the whole run, and for single hypervisors in their inventory variables."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...module_utils._base.errors import InputError
from ...module_utils._model.metadata.labels import read_labels

POLICIES = ("spread", "pack")
UNSEEN = ("refuse", "place")
ANTI_AFFINITY = ("require", "prefer")
_UNSEEN_HINT = "Give the names of machines, or refuse or place"


@dataclass(frozen=True)
class PlacementOptions:
    """What holds for all machines and hypervisors of a run.

    memory_reserve_mib stays free on each hypervisor for the host itself; what is left counts memory_ratio times;
    vcpu_ratio is how many virtual CPUs may share one real CPU. A hypervisor may have its own of these three. unseen
    says what becomes of a machine that may live on a hypervisor which did not answer, or names those machines that are
    placed all the same; anti_affinity whether machines of
    one group may share a hypervisor where they cannot be apart; image_pool is the pool of the image store; baseline
    says that new machines get what all hypervisors have in common.
    """

    policy: str = "spread"
    memory_reserve_mib: int = 256
    memory_ratio: float = 1.0
    vcpu_ratio: float = 8.0
    unseen: str | Collection[str] = "refuse"
    anti_affinity: str = "require"
    image_pool: str = "images"
    baseline: bool = False

    def __post_init__(self) -> None:
        choices = [("policy", POLICIES), ("anti_affinity", ANTI_AFFINITY)]
        if isinstance(self.unseen, str):
            choices.append(("unseen", UNSEEN))
        for key, words in choices:
            if getattr(self, key) not in words:
                raise InputError(
                    f"{getattr(self, key)!r} is not a choice", where=key, hint=f"Choose {' or '.join(words)}"
                )
        check_numbers(self.memory_reserve_mib, self.memory_ratio, self.vcpu_ratio, "")

    def places_unseen(self, name: str) -> bool:
        """Whether a machine of this name is placed although it may live where nobody answers."""
        return self.unseen == "place" if isinstance(self.unseen, str) else name in self.unseen


@dataclass(frozen=True)
class HostOptions:
    """What holds for one hypervisor."""

    memory_reserve_mib: int
    memory_ratio: float
    vcpu_ratio: float
    labels: tuple[str, ...] = ()


def host_options(variables: t.Any, options: PlacementOptions, host: str) -> HostOptions:
    """The options of one hypervisor, from its inventory variables; what they do not name is as in the whole run.

    Variables that placement does not know are none of its business. Raises InputError with the name of the variable.
    """
    if not isinstance(variables, Mapping):
        raise InputError(f"{variables!r} is not a mapping of variables", where=f"settings[{host!r}]")

    def number(kind: t.Callable[[t.Any], t.Any], name: str, otherwise: t.Any) -> t.Any:
        value = variables.get(f"virt_{name}")
        return otherwise if value is None else read_number(kind, value, f"{host}: virt_{name}")

    found = HostOptions(
        memory_reserve_mib=number(int, "memory_reserve_mib", options.memory_reserve_mib),
        memory_ratio=number(float, "memory_ratio", options.memory_ratio),
        vcpu_ratio=number(float, "vcpu_ratio", options.vcpu_ratio),
        labels=read_labels(variables.get("virt_labels") or [], f"{host}: virt_labels"),
    )
    check_numbers(found.memory_reserve_mib, found.memory_ratio, found.vcpu_ratio, f"{host}: virt_")
    return found


def read_unseen(value: t.Any, where: str, known: Collection[t.Any] | None = None) -> str | frozenset[str]:
    """What the user says of machines that may live where nobody answers: one of UNSEEN, or the names of those that are
    placed, in a list or with commas between them; nothing is as to refuse.

    known: the names that there are. Raises InputError.
    """
    if value is None:
        return "refuse"
    if isinstance(value, str) and value in UNSEEN:
        return value
    given = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
    if not all(isinstance(name, (str, int)) and not isinstance(name, bool) for name in given):
        raise InputError(f"{value!r} is not a list of names", where=where, hint=_UNSEEN_HINT)
    names = [name for name in (str(one).strip() for one in given) if name]
    unknown = [] if known is None else [name for name in names if name not in map(str, known)]
    if unknown:
        raise InputError(f"no machine of this run has the name {unknown[0]!r}", where=where, hint=_UNSEEN_HINT)
    return frozenset(names)


def unseen_option(name: str) -> str:
    """What a command line says to have one machine placed. With a comma a word of UNSEEN is a name."""
    return f"-e virt_unseen={name}{',' if name in UNSEEN else ''}"


def check_numbers(memory_reserve_mib: int, memory_ratio: float, vcpu_ratio: float, prefix: str) -> None:
    """Raise InputError for numbers that no hypervisor can have. prefix: what stands before their names."""
    if memory_reserve_mib < 0:
        raise InputError("a reserve cannot be negative", where=f"{prefix}memory_reserve_mib")
    for name, ratio in (("memory_ratio", memory_ratio), ("vcpu_ratio", vcpu_ratio)):
        if not 0 < ratio < float("inf"):
            raise InputError("the ratio must be above 0", where=f"{prefix}{name}")


def read_number(kind: t.Callable[[t.Any], t.Any], value: t.Any, where: str) -> t.Any:
    """A number that may be a text, as extra variables are. Raises InputError."""
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{value!r} is not a number", where=where) from None
