# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The clocks of host and controller. With a wrong one good certificates seem ended, or ended ones good."""

from __future__ import annotations

import datetime

from .._base.errors import ConflictError
from .._tls import certificates as certs

# Certificates begin an hour before they are signed.
_TOLERATED = datetime.timedelta(hours=1)


def require_same_time(host: str, controller_time: str) -> None:
    """Raise ConflictError where this host's clock and the controller's are more than an hour apart.

    host: what it is called; controller_time: what the controller's clock has shown just before, in ISO 8601.
    """
    ahead = certs.now() - datetime.datetime.fromisoformat(controller_time)
    if abs(ahead) > _TOLERATED:
        days, seconds = divmod(int(abs(ahead).total_seconds()), 86400)
        amount = f"{days} days" if days > 1 else f"{(days * 86400 + seconds) / 3600:.1f} hours"
        raise ConflictError(
            f"the clock of {host} is {amount} {'ahead of' if ahead > _TOLERATED else 'behind'} the controller's, so "
            "they do not agree on which certificates are valid",
            hint="Set the wrong one, have a time service such as chrony keep both, and run again",
        )
