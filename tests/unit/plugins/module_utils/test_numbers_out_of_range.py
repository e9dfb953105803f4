# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A number of an option that is beyond all that can be meant."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.modules import virt_info, virt_migrate, virt_power, virt_snapshot, virt_wait


def run(capsys: pytest.CaptureFixture[str], module: t.Any, **options: t.Any) -> str:
    """The module's complaint."""
    with patch_module_args({"uri": "test:///default", **options}), pytest.raises(SystemExit):
        module.main()
    return str(json.loads(capsys.readouterr().out).get("msg", ""))


@pytest.mark.parametrize("number", [2**31, 2**70, -(2**70), f"{2**70}"])
def test_it_is_named(capsys: pytest.CaptureFixture[str], number: t.Any) -> None:
    said = run(capsys, virt_info, timeout=number)
    assert said == f"timeout: {number} is out of range. Give at most 2147483647"


def test_all_of_them_are_named_also_in_a_mapping(capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, virt_snapshot, vm=["web1"], name=["a"], keep={"last": 2**40, "days": 2**41}, lock_timeout=2**42)
    for option, number in (("keep.last", 2**40), ("keep.days", 2**41), ("lock_timeout", 2**42)):
        assert f"{option}: {number}" in said


@pytest.mark.parametrize(
    ("module", "options"),
    [
        (virt_migrate, {"name": "web1", "target": "hv2", "timeout": 2**70}),
        (virt_migrate, {"name": "web1", "target": "hv2", "memory_ratio": float("inf")}),
        (virt_migrate, {"name": "web1", "target": "hv2", "memory_ratio": float("nan")}),
        (virt_power, {"name": ["web1"], "state": "running", "timeout": 2**70}),
        (virt_wait, {"names": ["web1"], "timeout": 2**70}),
    ],
)
def test_so_it_is_in_every_module(capsys: pytest.CaptureFixture[str], module: t.Any, options: dict[str, t.Any]) -> None:
    assert f"{list(options)[-1]}: " in (said := run(capsys, module, **options))
    assert "out of range" in said


def test_the_greatest_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, virt_info, timeout=2**31 - 1) == ""
