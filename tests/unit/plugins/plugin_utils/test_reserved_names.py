# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names that this ansible-core itself gives a meaning to; its code is not there for tests of module_utils."""

from __future__ import annotations

import pytest
from ansible import constants as C
from ansible.inventory.data import InventoryData

from ansible_collections.brine.virt.plugins.module_utils._model.reserved_names import reserved_meaning


@pytest.mark.parametrize("name", [*C.LOCALHOST, *InventoryData().groups])
def test_what_ansible_gives_a_meaning_is_no_name_of_a_machine(name: str) -> None:
    assert reserved_meaning(name) is not None
