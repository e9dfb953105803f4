# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import datetime

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._tls import certificates as certs
from ansible_collections.brine.virt.plugins.module_utils._tls.check import require_same_time


def controller_time(**ahead: float) -> str:
    """What the controller says where this host is so much ahead."""
    return (certs.now() - datetime.timedelta(**ahead)).isoformat()


@pytest.mark.parametrize("minutes", [-59, 0, 59])
def test_less_than_an_hour_does_not_matter(minutes: int) -> None:
    require_same_time("hv1", controller_time(minutes=minutes))


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        ({"minutes": 90}, "hv1 is 1.5 hours ahead of the"),
        ({"hours": -36}, "hv1 is 36.0 hours behind the"),
        ({"days": 400.5}, "hv1 is 400 days ahead of the"),
    ],
)
def test_more_is_said_with_the_host_and_how_much(ahead: dict[str, float], words: str) -> None:
    with pytest.raises(ConflictError, match=f"^the clock of {words} controller's, .* run again$"):
        require_same_time("hv1", controller_time(**ahead))
