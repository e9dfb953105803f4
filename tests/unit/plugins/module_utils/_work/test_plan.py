# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps are applied in order, and taken back in reverse when one fails."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._errors import HostError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._work.plan import Step, run


class Log:
    """Steps that write down what happens to them."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def step(self, name: str, *, fails: BaseException | None = None, undo_fails: bool = False) -> Step:
        def apply() -> None:
            self.seen.append(name)
            if fails:
                raise fails

        def undo() -> None:
            self.seen.append(f"undo {name}")
            if undo_fails:
                raise HostError("no way back")

        return Step(name, apply, undo)


def test_all_go_well() -> None:
    log = Log()
    run([log.step("a"), log.step("b")])
    assert log.seen == ["a", "b"]


@pytest.mark.parametrize("error", [NotFoundError("gone"), KeyboardInterrupt(), RuntimeError("a defect")])
def test_the_failing_step_is_taken_back_too(error: BaseException) -> None:
    log = Log()
    with pytest.raises(type(error)):
        run([log.step("a"), Step("b", lambda: log.seen.append("b")), log.step("c", fails=error), log.step("d")])
    assert log.seen == ["a", "b", "c", "undo c", "undo a"]


def test_what_cannot_be_taken_back_is_named_and_the_rest_is_taken_back() -> None:
    log = Log()
    with pytest.raises(HostError, match=r"gone.*b \(no way back\)"):
        run([log.step("a"), log.step("b", undo_fails=True), log.step("c", fails=NotFoundError("gone"))])
    assert log.seen[-3:] == ["undo c", "undo b", "undo a"]
