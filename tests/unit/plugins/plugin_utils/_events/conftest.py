# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of libvirt's test driver whose events can be had."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, run_events

# All connections of one process have the same machines.
SHARED = "test:///default"


@pytest.fixture
def machine() -> t.Iterator[t.Any]:
    """The test driver's machine, which runs."""
    run_events()
    conn = libvirt.open(SHARED)
    domain = conn.lookupByName("test")
    if not domain.isActive():
        domain.create()
    yield domain
    if not domain.isActive():
        domain.create()
    conn.close()
