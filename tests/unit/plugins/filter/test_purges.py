# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter purges as a template calls it; what it decides is tested with plugin_utils/_reports."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter import purges

PURGES: t.Callable[..., dict[str, t.Any]] = purges.FilterModule().filters()["purges"]
RUNNING = {"name": "web1", "present": True, "failed": True, "msg": "web1 is running"}
RESULTS = {"hv1": {"failed": True, "machines": [RUNNING]}}


def test_mistakes_are_raised_or_returned() -> None:
    assert PURGES(RESULTS, ["web1"], errors="return") == {"errors": ["hv1: web1 is running"]}
    with pytest.raises(AnsibleFilterError, match="brine.virt.purges: hv1: web1 is running"):
        PURGES(RESULTS, ["web1"])


@pytest.mark.parametrize("names", ["web1", None])
def test_names_are_a_list(names: t.Any) -> None:
    assert PURGES(RESULTS, names, errors="return")["errors"] == [f"names: {names!r} is not a list of names"]
