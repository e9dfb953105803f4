# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module ends with is printed as it comes, so that nothing in it may draw on a terminal."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._module import finish

WORDS = "\x1b]0;title\x07 \x9b2J \u202e"


def fail_as_ours(_module: t.Any) -> t.NoReturn:
    try:
        fail_unexpectedly(_module)
    except ValueError as exc:
        raise HostError(f"cannot look: {WORDS}", where="here", hint=WORDS) from exc


def fail_unexpectedly(_module: t.Any) -> t.NoReturn:
    raise ValueError(WORDS)


@pytest.mark.parametrize("work", [fail_as_ours, fail_unexpectedly])
def test_a_failure_is_visible_with_all_that_led_to_it(work: t.Callable[[t.Any], t.NoReturn]) -> None:
    said: dict[str, t.Any] = {}

    def fail_json(**result: t.Any) -> t.NoReturn:
        said.update(result)
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        finish(t.cast("t.Any", types.SimpleNamespace(masked=str, fail_json=fail_json)), work)
    assert said["msg"].isprintable()
    # An exception would be shown with the words of those that it came from.
    assert "ValueError" in said["exception"]
    assert said["exception"].replace("\n", "").isprintable()
