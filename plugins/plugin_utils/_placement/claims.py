# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of several runs that claim one name on different hypervisors at the same time, which one makes the machine.

Each run claims first and checks all other hypervisors afterwards. Therefore:

* A machine that is there, or is being made, has won. The claim yields to it.
* Of two claims the one with the lower UUID wins, which both runs know; no clock is asked. The other one yields at once.
* The winner does not go on before the other claim is gone: that run may have checked before the winner claimed, and
  then it goes on to make the machine, and the winner has to yield after all.
* What was there already when the names were claimed has no claim. It is only gone on with where it is there still.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Mapping

from .options import PlacementOptions

Claims = Mapping[str, Mapping[str, str]]
Seen = Mapping[str, Mapping[str, Mapping[str, t.Any]]]


def decide_claims(
    plan: Mapping[str, t.Any],
    claims: Claims,
    seen: Seen,
    *,
    last: bool,
    asked: t.Iterable[str] = (),
    unseen: str | Collection[str] = "refuse",
) -> dict[str, t.Any]:
    """What becomes of a run's claims, by what the hypervisors say now.

    plan: what ``place`` returned; claims: by hypervisor and name, the UUIDs of this run's claims; seen: by hypervisor
    and name, what has the name there; last: the run waits no longer; asked: the hypervisors that were to be looked at,
    of which one that is missing in `seen` may have any of the names; unseen: as in PlacementOptions. The result has the
    ``plan`` without machines that yield (they are among its refused ones), ``withdraw`` (claims to be withdrawn, by
    hypervisor), ``waiting`` (names that are not decided yet) and ``again`` (whether to check again, after withdrawing).
    """
    reasons: dict[str, str] = {}
    withdraw: dict[str, dict[str, str]] = {}
    waiting: list[str] = []
    unclaimed: dict[str, dict[str, str | None]] = {}
    options = PlacementOptions(unseen=unseen)
    silent = [host for host in asked if host not in seen]
    for host, machines in plan["new_by_host"].items():
        for name in (machine["name"] for machine in machines):
            identity = claims.get(host, {}).get(name)
            here = seen.get(host, {}).get(name)
            if identity is None:
                unclaimed.setdefault(host, {})[name] = here["uuid"] if here else None
            # Nothing of ours, or another run that came to the same hypervisor has gone on with the claim.
            if identity is None or (here is not None and not here["claimed"]):
                continue
            why, is_waiting = _decide(name, host, identity, seen)
            if why is None and silent and not options.places_unseen(name):
                why = f"{' and '.join(silent)} did not say whether it is there, and it would exist twice"
            if is_waiting and not last:
                waiting.append(name)
            elif why is not None:
                reasons[name] = f"{why}. Nothing was created for it on {host}"
                withdraw.setdefault(host, {})[name] = identity
    return {
        "plan": _without(_with_placed(plan, unclaimed), reasons),
        "withdraw": withdraw,
        "waiting": waiting,
        "again": bool(withdraw or waiting),
    }


def _decide(name: str, host: str, identity: str, seen: Seen) -> tuple[str | None, bool]:
    """Why a claim yields, None when nothing stands against it; and whether it may win yet, when it has waited."""
    rivals = {other: names[name] for other, names in seen.items() if other != host and name in names}
    for other, rival in rivals.items():
        if not rival["claimed"]:
            return f"another run has created a machine of this name on {other} since {host} was chosen", False
    for other, rival in rivals.items():
        if rival["uuid"] < identity:
            return f"another run is creating it on {other} at the same time, and one of the two has to yield", False
    for other in rivals:
        return (
            f"another run has claimed its name on {other} and neither continues nor ends. When that run is over, run "
            f"this one again with hypervisor: {other}, or remove what it has left: virsh undefine {name}",
            True,
        )
    return None, False


def _with_placed(plan: Mapping[str, t.Any], placed: Mapping[str, Mapping[str, str | None]]) -> Mapping[str, t.Any]:
    """The plan with machines that have to be where they are when it is carried out; what an earlier look saw counts."""
    if not placed:
        return plan
    decisions = {
        host: {**decision, "machines": {**placed.get(host, {}), **decision["machines"]}}
        for host, decision in plan["decisions"].items()
    }
    return {**plan, "decisions": decisions}


def _without(plan: Mapping[str, t.Any], reasons: Mapping[str, str]) -> dict[str, t.Any]:
    """The plan without some machines, which are refused for these reasons."""
    if not reasons:
        return dict(plan)
    by_host = {host: [name for name in names if str(name) not in reasons] for host, names in plan["by_host"].items()}
    new_by_host = {host: _others(machines, reasons) for host, machines in plan["new_by_host"].items()}
    # Lists that go with by_host, item by item.
    places = {
        host: [place for place, name in zip(places, plan["by_host"][host], strict=True) if str(name) not in reasons]
        for host, places in plan.get("places_by_host", {}).items()
    }
    refused = [{"name": name, "hypervisor": None, "why": why} for name, why in reasons.items()]
    return {
        **plan,
        "places_by_host": places,
        "assignments": _others(plan["assignments"], reasons),
        "by_host": by_host,
        "new_by_host": new_by_host,
        "refused_machines": [*plan["refused_machines"], *refused],
    }


def _others(machines: t.Iterable[t.Any], reasons: t.Container[str]) -> list[t.Any]:
    return [machine for machine in machines if str(machine["name"]) not in reasons]
