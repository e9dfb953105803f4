# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module ends with is printed as it comes, so that nothing in it may draw on a terminal."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.brine.virt.plugins.module_utils._arguments import finish, make_module
from ansible_collections.brine.virt.plugins.module_utils._errors import HostError

WORDS = "\x1b]0;title\x07 \x9b2J \u202e"


def fail_as_ours() -> t.NoReturn:
    try:
        fail_unexpectedly()
    except ValueError as exc:
        raise HostError(f"cannot look: {WORDS}", where="here", hint=WORDS) from exc


def fail_unexpectedly() -> t.NoReturn:
    raise ValueError(WORDS)


@pytest.mark.parametrize("work", [fail_as_ours, fail_unexpectedly])
def test_a_failure_is_visible_with_all_that_led_to_it(
    work: t.Callable[[], t.NoReturn], capsys: pytest.CaptureFixture[str]
) -> None:
    with patch_module_args({"_ansible_tracebacks_for": ["error"]}), pytest.raises(SystemExit):
        finish(make_module({}), work)
    result = json.loads(capsys.readouterr().out)
    assert result["msg"].isprintable()
    assert "ValueError" in str(result["exception"])
    said = json.dumps(result["exception"], ensure_ascii=False)
    assert all(code not in said for code in ("\\u001b", "\\u0007", "\x9b", "\u202e"))
