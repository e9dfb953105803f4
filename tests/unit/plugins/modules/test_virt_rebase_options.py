# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task with virt_rebase may say."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.modules import virt_rebase


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": [""]}, "name: an empty name"),
        ({"disks": [""]}, "disks: an empty name"),
        ({"disks": []}, "disks: an empty name"),
        ({"image": ""}, "image: no image is named"),
        ({"image": "debian", "flatten": True}, "image: with flatten, the disks are backed by nothing"),
        ({"lock_timeout": -1}, "lock_timeout: -1 is less than 0"),
        ({"uri": "qemu+tls://hv2/system"}, "uri: qemu+tls://hv2/system is another host"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    options: dict[str, t.Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"name": ["web1"], "uri": "test:///default", **options}
    with patch_module_args({**given, "_ansible_check_mode": True}), pytest.raises(SystemExit):
        virt_rebase.main()
    result = json.loads(capsys.readouterr().out)
    assert result["failed"] and words in result["msg"], result
