# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the other hypervisors have answered about volumes of shared pools, and what that means for one of them."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..._base.errors import InputError, inside, single_line
from ..._host.storage.pools import Pool
from ..._host.storage.shared_pools import shared_because
from ..._host.storage.usage import AskElsewhere
from ..._model.spec.fields import validators

ASK_THE_OTHERS = (
    "Ask them with virt_usage_info about what is returned as shared, and give the answers as used_elsewhere"
)


def read_used_elsewhere(value: t.Any, where: str) -> AskElsewhere | None:
    """What all other hypervisors have answered; None when they were not asked.

    value: by hypervisor, the result of virt_usage_info, or the sentence that says why there is none. Raises InputError
    with the place.
    """
    if value is None:
        return None
    rules: dict[str, validators.Rule] = {
        "pool": validators.text,
        "volume": validators.text,
        "users": validators.list_of(validators.text),
        "unknown": validators.list_of(validators.text),
    }
    answers: dict[str, str | dict[tuple[str, str], dict[str, t.Any]]] = {}
    for host, answer in validators.any_mapping(value, where).items():
        place = inside(where, host)
        if not isinstance(answer, (str, Mapping)):
            raise InputError(
                f"{answer!r} is neither a result of virt_usage_info nor a sentence that says why there is none",
                where=place,
            )
        volumes = None if isinstance(answer, str) else answer.get("volumes")
        if volumes is None:
            why = answer if isinstance(answer, str) else answer.get("msg")
            answers[host] = single_line(why or "it does not answer")
        else:
            said: dict[tuple[str, str], dict[str, t.Any]] = {}
            answers[host] = said
            for index, item in enumerate(volumes):
                read = validators.read_mapping(item, f"{place}.volumes[{index}]", rules, rules)
                known = said.setdefault((read["pool"], read["volume"]), {"users": (), "unknown": ()})
                # Asked about by two hypervisors that have each one of this name: what is said of both counts.
                known.update({key: (*known[key], *read[key]) for key in ("users", "unknown")})
    return lambda pool, volume: _said_of(answers, pool, volume)


def _said_of(
    answers: Mapping[str, str | Mapping[tuple[str, str], Mapping[str, t.Any]]], pool: Pool, volume: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who uses a volume elsewhere, and what could not be checked."""
    users: list[str] = []
    unknown: list[str] = []
    for host, answer in answers.items():
        if isinstance(answer, str):
            unknown.append(f"{shared_because(pool)}, and {host}, which may use it too, did not say: {answer}")
            continue
        said = answer.get((pool.name, volume))
        if said is None:
            unknown.append(f"{shared_because(pool)}, and {host} was not asked who uses this volume")
            continue
        users += [f"{words} on {host}" for words in said["users"]]
        unknown += [f"{words} on {host}" for words in said["unknown"]]
    return tuple(users), tuple(unknown)
