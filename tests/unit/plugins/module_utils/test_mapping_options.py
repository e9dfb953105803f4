# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An option that holds options, and is given something else."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.modules import virt_backup, virt_migrate, virt_snapshot

SNAPSHOT = {"vm": ["web1"], "name": ["a"]}


def run(capsys: pytest.CaptureFixture[str], module: t.Any, **options: t.Any) -> str:
    """The module's complaint."""
    with patch_module_args({"uri": "test:///default", **options}), pytest.raises(SystemExit):
        module.main()
    return str(json.loads(capsys.readouterr().out)["msg"])


@pytest.mark.parametrize("value", [5, 1.5, True, "5", [], ["last"], [None]])
def test_it_is_named_with_what_it_may_hold(capsys: pytest.CaptureFixture[str], value: t.Any) -> None:
    said = run(capsys, virt_snapshot, **SNAPSHOT, keep=value)
    assert said == "keep: this is not a mapping of options. Its options: last, days"


@pytest.mark.parametrize(("module", "option"), [(virt_backup, "keep"), (virt_migrate, "compression")])
def test_so_it_is_in_every_module(capsys: pytest.CaptureFixture[str], module: t.Any, option: str) -> None:
    assert run(capsys, module, name=["web1"], **{option: 5}).startswith(f"{option}: this is not a mapping of options.")


@pytest.mark.parametrize("value", [None, {"last": 1}, "last=1", '{"last": 1}'])
def test_what_ansible_takes_for_a_mapping_is_one(capsys: pytest.CaptureFixture[str], value: t.Any) -> None:
    assert "mapping" not in run(capsys, virt_snapshot, **SNAPSHOT, keep=value)
