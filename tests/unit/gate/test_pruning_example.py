# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documented tasks for a shared pool: what one hypervisor was not asked about would be removed."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.brine.virt.plugins.modules import virt_image

GUIDE = Path(__file__).parents[3] / "docs" / "docsite" / "rst" / "images.rst"
SEEN = {"hv1": {"seen": {"used_here": ["a.raw"]}}, "hv2": {"seen": {"used_here": ["a.raw", "b.raw"]}}}


def _of_guide() -> str:
    found = re.search(r"used_elsewhere: >-\n\s+(\{\{.*\}\})", GUIDE.read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def _of_module() -> str:
    options = [task.get("brine.virt.virt_image", {}) for task in yaml.safe_load(virt_image.EXAMPLES)]
    return next(str(one["used_elsewhere"]) for one in options if "used_elsewhere" in one)


@pytest.mark.parametrize("words", [_of_guide, _of_module])
@pytest.mark.parametrize("left_out", [False, True])
def test_every_hypervisor_has_to_answer_whatever_the_limit(words: t.Callable[[], str], left_out: bool) -> None:
    # With --limit hv1, the play has hv1 alone.
    variables: dict[str, t.Any] = {
        "ansible_play_hosts_all": ["hv1"] if left_out else ["hv1", "hv2"],
        "groups": {"hypervisors": ["hv1", "hv2"]},
        "hostvars": {**SEEN, "hv2": {}} if left_out else SEEN,
    }
    templar = Templar(DataLoader(), variables=variables)
    if left_out:
        with pytest.raises(Exception, match="seen"):
            templar.template(trust_as_template(words()))
    else:
        assert sorted(templar.template(trust_as_template(words()))) == ["a.raw", "b.raw"]
