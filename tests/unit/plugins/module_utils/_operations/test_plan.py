# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps are applied in order, and rolled back in reverse when one fails."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step, run


class Log:
    """Steps that write down what happens to them."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def step(
        self, name: str, *, fails: BaseException | None = None, undo_fails: bool | list[BaseException] = False
    ) -> Step:
        """undo_fails: what each undo of the step raises in turn."""
        failures = [HostError("no way back")] if undo_fails is True else list(undo_fails or ())

        def apply() -> None:
            self.seen.append(name)
            if fails:
                raise fails

        def undo() -> None:
            self.seen.append(f"undo {name}")
            if failures:
                raise failures.pop(0)

        return Step(name, apply, undo)


def test_all_go_well() -> None:
    log = Log()
    run([log.step("a"), log.step("b")])
    assert log.seen == ["a", "b"]


@pytest.mark.parametrize("error", [NotFoundError("gone"), KeyboardInterrupt(), RuntimeError("a defect")])
def test_the_failing_step_is_rolled_back_too(error: BaseException) -> None:
    log = Log()
    with pytest.raises(type(error)):
        run([log.step("a"), Step("b", lambda: log.seen.append("b")), log.step("c", fails=error), log.step("d")])
    assert log.seen == ["a", "b", "c", "undo c", "undo a"]


def test_what_cannot_be_rolled_back_is_named_and_the_rest_is_rolled_back() -> None:
    log = Log()
    with pytest.raises(HostError, match=r"gone.*b \(no way back\)"):
        run([log.step("a"), log.step("b", undo_fails=True), log.step("c", fails=NotFoundError("gone"))])
    assert log.seen[-3:] == ["undo c", "undo b", "undo a"]


@pytest.mark.parametrize("fault", [RuntimeError("a defect"), KeyError("x"), FileNotFoundError(2, "gone", "guestfish")])
def test_whatever_an_undo_raises_the_others_follow_and_it_is_named(fault: Exception) -> None:
    log = Log()
    with pytest.raises(HostError, match=rf"no room.*rolled back: b \(unexpected {type(fault).__name__} in test_plan"):
        run([log.step("a"), log.step("b", undo_fails=[fault]), log.step("c", fails=HostError("no room"))])
    assert log.seen[-3:] == ["undo c", "undo b", "undo a"]


def test_a_fault_is_told_with_what_could_not_be_rolled_back() -> None:
    log = Log()
    with pytest.raises(HostError, match=r"unexpected RuntimeError in test_plan\.py.*a defect.*b \(no way back\)"):
        run([log.step("b", undo_fails=True), log.step("c", fails=RuntimeError("a defect"))])


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("failure", [HostError("no room"), KeyboardInterrupt()])
def test_an_interruption_of_an_undo_waits_for_the_end_of_all_of_them(
    interruption: type[BaseException], failure: BaseException
) -> None:
    """The undo that it came in is begun again."""
    log = Log()
    with pytest.raises(interruption):
        run([log.step("a"), log.step("b", undo_fails=[interruption()]), log.step("c", fails=failure)])
    assert log.seen[-4:] == ["undo c", "undo b", "undo b", "undo a"]


def test_an_impatient_interruption_does_not_end_it_either() -> None:
    log = Log()
    with pytest.raises(KeyboardInterrupt) as caught:
        run(
            [
                log.step("a"),
                log.step("b", undo_fails=[KeyboardInterrupt(), KeyboardInterrupt()]),
                log.step("c", fails=HostError("no room")),
            ]
        )
    assert log.seen[-4:] == ["undo c", "undo b", "undo b", "undo a"]
    assert "no room. In addition, this could not be rolled back: b (unexpected KeyboardInterrupt" in str(
        caught.value.__cause__
    )
