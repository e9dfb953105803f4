# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the unit tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def fixtures() -> Path:
    """The directory of the tests' own files."""
    return FIXTURES


@pytest.fixture
def node_uri() -> str:
    """A hypervisor of libvirt's test driver with machines, pools, networks and bridges (fixtures/node.xml)."""
    return f"test://{FIXTURES / 'node.xml'}"
