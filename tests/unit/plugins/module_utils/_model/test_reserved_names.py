# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that a machine must not have."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.machines.record import STATES
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import flush_name
from ansible_collections.brine.virt.plugins.module_utils._model.reserved_names import reserved_meaning

HOSTS = [
    "localhost",
    "127.0.0.1",
    "::1",
    "LocalHost",
    "localhost.localdomain",
    "ip6-localhost",
    "192.0.2.7",
    "127.1",
    "0x7f000001",
    "0x7f.1",
    "2130706433",
    "2001:db8::1",
]
GROUPS = [
    "all",
    "ungrouped",
    *(f"virt_{state}" for state in STATES),
    "virt_machines",
    "virt_building",
    "virt_provisioned",
    "virt_on_hv1",
    "virt_tag_web",
    "Hypervisors",
]


HELPERS = [flush_name("0123456789abcdef" * 2)]


@pytest.mark.parametrize("name", HOSTS + GROUPS + HELPERS)
def test_what_means_something_already(name: str) -> None:
    assert reserved_meaning(name) is not None


@pytest.mark.parametrize(
    "name",
    ["web1", "localhosts", "my-localhost", "allo", "virt1", "virt_x", "10", "0x", "1.example", "v1.2"],
)
def test_what_a_machine_may_be_called(name: str) -> None:
    assert reserved_meaning(name) is None
