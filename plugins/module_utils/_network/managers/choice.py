# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which network manager makes a bridge: the one that manages its uplink, or the one that the spec names."""

from __future__ import annotations

from collections.abc import Sequence

from ..._base.errors import ConflictError, UnsupportedError
from ..commands import is_active
from ..observe import Network
from ..spec import AUTO, BridgeSpec
from .ifupdown import IfupdownManager
from .manager import BY_HAND, Manager
from .netplan import NetplanManager
from .networkd import NetworkdManager
from .networkmanager import NetworkManagerManager

# In this order they are asked.
MANAGERS: tuple[Manager, ...] = (NetworkdManager(), NetworkManagerManager(), IfupdownManager(), NetplanManager())
# See its file for why.
_ONLY_BY_NAME = ("netplan",)
_OTHERS = (("wickedd.service", "wicked"), ("connman.service", "ConnMan"), ("dhcpcd.service", "dhcpcd"))


def choose_manager(spec: BridgeSpec, network: Network, links: Sequence[str]) -> Manager:
    """The manager for a new bridge. links: the interfaces that it is to stand on, none for a bridge without an uplink.

    Interfaces that nobody manages, and that have no addresses, go to the manager of the others; where there are no
    others, to that of the default route, or to the first one that is in use. Raises UnsupportedError where there is
    none, ConflictError where the interfaces have several, or another one than the spec names.
    """
    managers = [manager for manager in MANAGERS if _is_asked(spec, manager)]
    owners = {link: next((manager for manager in managers if manager.manages(link)), None) for link in links}
    for link, owner in owners.items():
        if owner is None and network.links[link].addresses:
            if spec.manager != AUTO:
                title = managers[0].title
                raise ConflictError(
                    f"{title} does not manage {link}", hint="Leave out manager, or name the one that does"
                )
            names = ", ".join(manager.title for manager in managers)
            raise UnsupportedError(
                f"the uplink {link} is managed by {_other_manager()}; the role moves uplinks that {names} manages",
                hint=BY_HAND,
            )
    found = {owner.name: owner for owner in owners.values() if owner is not None}
    if len(found) > 1:
        words = [f"{link} is managed by {owner.title}" for link, owner in owners.items() if owner is not None]
        raise ConflictError(" and ".join(words), hint="One has to manage them all")
    if found:
        return next(iter(found.values()))
    ahead = [route.device for route in network.default_routes[:1]]
    usable = [manager for manager in managers if any(map(manager.manages, ahead))]
    usable += [manager for manager in managers if manager.runs()]
    if not usable:
        what = managers[0].title if spec.manager != AUTO else f"no network manager that could make {spec.name}"
        how = "is not in use on this host" if spec.manager != AUTO else "is in use on this host"
        raise UnsupportedError(f"{what} {how}", hint=BY_HAND)
    return usable[0]


def _is_asked(spec: BridgeSpec, manager: Manager) -> bool:
    if spec.manager == AUTO:
        return manager.name not in _ONLY_BY_NAME
    return spec.manager == manager.name


def made_by(bridge: str) -> Manager | None:
    """The manager that has files of ours for a bridge, None where somebody else has made it."""
    return next((manager for manager in MANAGERS if manager.made(bridge)), None)


def check_is_of(spec: BridgeSpec, maker: Manager | None) -> None:
    """Raise ConflictError where the spec of a bridge that is there names a manager that does not have it.

    maker: whose files of ours it has, None where somebody else has made it.
    """
    if spec.manager == AUTO or (maker is not None and maker.name == spec.manager):
        return
    named = next(manager for manager in MANAGERS if manager.name == spec.manager)
    if maker is not None:
        raise ConflictError(
            f"the bridge {spec.name} exists, but {maker.title} has it, and not {named.title}",
            hint="The manager of an existing bridge is not changed: "
            f"name {maker.name}, leave out manager, or remove the bridge first",
        )
    if not named.manages(spec.name):
        raise ConflictError(
            f"the bridge {spec.name} exists, but {named.title} does not manage it",
            hint="It was not made by this role, so it is left as it is: leave out manager",
        )


def _other_manager() -> str:
    """In words, who seems to manage a link that none of ours does."""
    return next((name for unit, name in _OTHERS if is_active(unit)), "an unknown program")
