# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of waiting share."""

from __future__ import annotations

import gc
import time

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection

SECONDS = 20


@pytest.fixture(autouse=True)
def only_the_drivers_own_machine() -> None:
    """Wait until nobody has libvirt's test driver open any more.

    It is one hypervisor for the whole process, and has the machines of the test before as long as a thread of that one
    has not ended: on a busy machine that takes a moment.
    """
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with open_connection("test:///default") as conn:
            names = [domain.name() for domain in conn.listAllDomains()]
        if names == ["test"]:
            return
        gc.collect()
        time.sleep(0.05)
