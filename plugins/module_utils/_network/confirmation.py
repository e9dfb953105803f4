# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change under the dead man's switch is asked before it is made permanent: a bridge's, and a firewall's."""

from __future__ import annotations

import time
import typing as t

from .._base.errors import ConflictError, HostError
from .change import missing_on_bridge, remembered
from .firewall.observe import observe_firewalls, observe_outside
from .firewall.plan import CHANGE_NAME, read_spec
from .observe import observe_network
from .switch import control

# A DHCP client on a new bridge may take this long to have its lease again.
_COMPLETE_SECONDS = 20


def wait(name: str, token: str) -> None:
    """Wait until a change is applied. Raises HostError when it goes back instead, ConflictError for another's token."""
    control.wait_until_applied(name, token)
    state = control.state(name)
    if state != control.APPLIED:
        control.wait_until_over(name)
        raise HostError(f"the change {name} was rolled back: {control.why(name)}", hint=control.how_it_ended(name))


def confirm(name: str, token: str) -> bool:
    """Make an applied change permanent, when the host has all that it should have. Whether this call has done so.

    Raises HostError when it has not, and the change is undone; ConflictError for another's token, and when it was too
    late.
    """
    control.check_token(name, token)
    under_way = control.pending(name)
    if under_way is None and control.state(name) == control.CONFIRMED:
        _check_lasts(name, control.read(name))
        return False
    if under_way is None:
        raise HostError(
            f"the change {name} was rolled back before it was confirmed: {control.why(name)}",
            hint=control.how_it_ended(name),
        )
    deadline = time.monotonic() + _COMPLETE_SECONDS
    missing = _missing(name, under_way, tried=True)
    while missing and name != CHANGE_NAME and time.monotonic() < deadline:
        time.sleep(0.5)
        missing = _missing(name, under_way, tried=True)
    if missing:
        complaint = f"the change {name} is applied, but the host has not got {', '.join(missing)}"
        control.abort(name, token, complaint)
        raise HostError(complaint, hint=control.how_it_ended(name))
    control.confirm(name, token)
    if control.state(name) != control.CONFIRMED:
        raise HostError(
            f"the change {name} could not be made permanent: {control.why(name)}", hint=control.how_it_ended(name)
        )
    _check_lasts(name, under_way)
    return True


def _check_lasts(name: str, change: control.PendingChange) -> None:
    missing = _missing(name, change, tried=False)
    if missing:
        raise HostError(
            f"the change {name} is made, but will not be there after a boot: {', '.join(missing)}",
            hint=f"See journalctl -u brine-virt-{name}, and run again",
        )


def _missing(name: str, change: control.PendingChange, *, tried: bool) -> list[str]:
    """What the host should have and has not. tried: of what it has before the confirmation alone."""
    if name == CHANGE_NAME:
        plan = observe_firewalls(observe_outside()).plan(read_spec(change.subject.get("spec")))
        return [f"the rules of {one.place}" for one in plan.differences if one.tried or not tried]
    return missing_on_bridge(observe_network(), remembered(change)) if tried else []


def begun(name: str, change: control.PendingChange) -> dict[str, t.Any]:
    """What a module says of a change that it has begun: all that is needed to confirm it."""
    return {
        "state": control.ARMED,
        "change": name,
        "token": change.token,
        "apply_seconds": change.apply_seconds,
        "settle_seconds": change.settle_seconds,
    }


def refuse_other(name: str, change: control.PendingChange) -> ConflictError:
    """The error for a run that asks for something else while a change is under way."""
    limit = change.apply_seconds + change.settle_seconds
    return ConflictError(
        f"a change {name} that another run has begun, and that is not what this one asks for, is under way",
        hint=f"Run again when it is over, in {limit} s at most; systemctl stop brine-virt-{name} undoes it at once",
    )
