# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter decide_claims as a template calls it."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.claims import FilterModule

FILTERS = FilterModule().filters()
UUID = "7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11"


@pytest.mark.parametrize("value", [None, "web1", {"virt_name": "web1"}])
def test_wrong_input_is_one_sentence(value: object) -> None:
    with pytest.raises(AnsibleFilterError, match="claims is not a mapping"):
        FILTERS["decide_claims"]({}, [value], {})


def test_words_of_the_command_line_count_as_they_should() -> None:
    plan = {
        "assignments": [{"name": "web1"}],
        "by_host": {"hv1": ["web1"]},
        "new_by_host": {"hv1": [{"name": "web1"}]},
        "refused_machines": [],
    }
    seen = {"hv2": {"web1": {"uuid": UUID.replace("7", "f"), "claimed": True}}}
    for last, waiting in (("false", ["web1"]), ("true", [])):
        assert FILTERS["decide_claims"](plan, {"hv1": {"web1": UUID}}, seen, last)["waiting"] == waiting
