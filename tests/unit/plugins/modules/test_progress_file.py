# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that an action plugin reads progress from: sent beside the options of a module, and none of them."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.parameters import PASS_VARS
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.module_utils._host import progress
from ansible_collections.brine.virt.plugins.modules import (
    virt_image,
    virt_migrate,
    virt_snapshot,
    virt_volume,
    virt_wait,
)

MODULES = [virt_image, virt_migrate, virt_snapshot, virt_volume, virt_wait]


def run(module: t.Any, capsys: pytest.CaptureFixture[str], **arguments: t.Any) -> dict[str, t.Any]:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        module.main()
    result: dict[str, t.Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.parametrize("module", MODULES)
def test_it_is_no_option(module: t.Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert not [name for name in yaml.safe_load(module.DOCUMENTATION)["options"] if "progress" in name]
    said = run(module, capsys, names=["web1"], name="web1", vm=["web1"], state="absent", progress_file="/tmp/mine")[
        "msg"
    ]
    assert "Unsupported parameters" in said and "progress_file" in said


def test_it_is_written_to_when_it_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], node_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(
        progress.ProgressFile, "write_line", lambda file, line: lines.append(f"{file._file is not None} {line}")
    )
    sent = {"_progress_file": str(tmp_path / "progress")}
    # As for a task of a run with -vvv, which newer releases of ansible-core tell the module.
    more = {"_ansible_inject_invocation": True} if "inject_invocation" in PASS_VARS else {}
    result = run(virt_wait, capsys, uri=node_uri, names=["db1"], timeout=1, **sent, **more)
    assert "db1 is not reachable" in result["msg"]
    assert result["invocation"]["module_args"]["names"] == ["db1"]
    assert "_progress_file" not in result["invocation"]["module_args"]
    assert lines and all(line.startswith("True ") for line in lines)
    assert list(tmp_path.iterdir()) == []
