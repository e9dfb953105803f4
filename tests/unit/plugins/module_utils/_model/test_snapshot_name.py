# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of new snapshots."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.snapshot_name import check_name, default_name


@pytest.mark.parametrize("name", ["a", "1a", "before-upgrade", "web1-20260301-093000", "x" * 100, "a:b+c@d.e_f"])
def test_names(name: str) -> None:
    check_name(name, "name")


@pytest.mark.parametrize("name", ["", ".a", "-c", "a/b", "a b", "a\n", "x" * 101, "ä", "12"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(InputError, match="^name: "):
        check_name(name, "name")


@pytest.mark.parametrize("machine", ["web1", "-odd name", "x" * 200, "ü"])
def test_a_default_name_is_a_name(machine: str) -> None:
    name = default_name(machine, 0)
    assert name.endswith("-19700101-000000")
    check_name(name, "name")
