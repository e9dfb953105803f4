# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What machines are at, told while their steps are applied."""

from __future__ import annotations

import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.progress import HowFar, ProgressFile
from ansible_collections.brine.virt.plugins.module_utils._operations import step_watch
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step
from ansible_collections.brine.virt.plugins.module_utils._operations.step_watch import StepWatch

WAIT_SECONDS = 20.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_watch, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(step_watch, "QUIET_SECONDS", 0.0)


class Lines:
    """The file of progress, and what is in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.file = ProgressFile(str(path))

    @property
    def there(self) -> list[str]:
        return self._path.read_text(encoding="utf-8").splitlines()

    def await_line(self, words: str) -> None:
        end = time.monotonic() + WAIT_SECONDS
        while not any(words in line for line in self.there):
            assert time.monotonic() < end, (words, self.there)
            time.sleep(0.01)


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(tmp_path / "progress")


def test_a_step_is_told_with_its_time_while_it_is_applied(lines: Lines) -> None:
    words = "revert web1 to snapshot a (running)"
    with StepWatch(lines.file) as watch:
        watch.apply(Step(words, lambda: lines.await_line(f"{words}: 0 s so far")))
    told = lines.there
    assert set(told) == {f"{words}: 0 s so far"}
    time.sleep(0.05)
    assert lines.there == told, "nobody is at work any more"


def test_how_far_it_is_where_somebody_can_tell(lines: Lines) -> None:
    with StepWatch(lines.file) as watch:
        watch.apply(
            Step(
                "take snapshot a of web1",
                lambda: lines.await_line("take snapshot a of web1: memory 40%, 40.0B of 100.0B"),
                look=lambda: HowFar("memory", 40, 100),
            )
        )


def test_what_it_is_at_without_figures(lines: Lines) -> None:
    with StepWatch(lines.file) as watch:
        words = "revert db1: volume db1-data, 2 of 2, 0 s so far"
        watch.apply(Step("revert db1", lambda: lines.await_line(words), look=lambda: HowFar("volume db1-data, 2 of 2")))


def test_what_comes_before_and_between_steps_is_told(lines: Lines) -> None:
    with StepWatch(lines.file) as watch:
        watch.turn_to("wait for other runs")
        lines.await_line("wait for other runs: 0 s so far")


def test_machines_that_others_change_are_told_by_their_names(lines: Lines) -> None:
    at_work = {f"web{number}": None for number in range(8)}
    with StepWatch(lines.file) as watch:
        watch.wait_for("to be stopped", at_work, "the next")
        lines.await_line("to be stopped: web0, web1, web2, web3, web4, web5 and 2 more, 0 s so far")
    with StepWatch(lines.file) as watch:
        watch.wait_for("to be stopped", {}, "the next")
        lines.await_line("to be stopped: the next, ")


def _step(words: str, far: HowFar | None = None) -> Step:
    return Step(words, lambda: None, look=None if far is None else lambda: far)


def test_a_few_machines_are_told_by_their_steps_and_many_by_their_names(lines: Lines) -> None:
    at_work = {"web1": _step("seed web1"), "web2": _step("create volume web2-data.qcow2")}
    with StepWatch(lines.file) as watch:
        watch.follow("create and change machines", at_work)
        lines.await_line("create and change machines: seed web1; create volume web2-data.qcow2, 0 s so far")
    at_work.update({f"web{number}": _step("start") for number in range(3, 11)})
    with StepWatch(lines.file) as watch:
        watch.follow("create and change machines", at_work)
        lines.await_line("create and change machines: web1, web2, web3, web4, web5, web6 and 4 more, ")


def test_of_machines_whose_step_tells_how_far_it_is_that_is_told_as_well(lines: Lines) -> None:
    at_work = {"web1": _step("seed web1"), "web2": _step("fill disk vda of web2", HowFar("", percent=43.9))}
    with StepWatch(lines.file) as watch:
        watch.follow("create and change machines", at_work)
        lines.await_line("create and change machines: seed web1; fill disk vda of web2 43%, 0 s so far")
    at_work.update({f"web{number}": Step("x", lambda: None, look=lambda: 1 / 0) for number in range(3, 11)})
    with StepWatch(lines.file) as watch:
        watch.follow("create and change machines", at_work)
        lines.await_line("create and change machines: web2 43%, web1, web3, web4, web5, web6 and 4 more, ")


@pytest.mark.parametrize("told", [lambda: 1 / 0, lambda: "no figures"])
def test_a_look_that_fails_disturbs_nothing_and_is_given_up(lines: Lines, told: t.Callable[[], t.Any]) -> None:
    looks = []

    def look() -> t.Any:
        looks.append(threading.get_ident())
        return told()

    with StepWatch(lines.file) as watch:
        watch.apply(Step("one", lambda: time.sleep(0.3), look=look))
        assert len(looks) == 3
        # The next one is asked again.
        watch.apply(Step("two", lambda: time.sleep(0.3), look=look))
    assert len(looks) == 6
    assert threading.get_ident() not in looks


def test_the_error_of_a_step_is_its_own(lines: Lines) -> None:
    with pytest.raises(ZeroDivisionError), StepWatch(lines.file) as watch:
        watch.apply(Step("one", lambda: 1 / 0))
    assert [one for one in threading.enumerate() if one.name == "progress"] == []


def test_a_look_that_hangs_holds_nobody_up(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_watch, "_WAIT_SECONDS", 0.05)
    asked, over = threading.Event(), threading.Event()

    def look() -> None:
        asked.set()
        over.wait(WAIT_SECONDS)

    try:
        with StepWatch(lines.file) as watch:
            watch.apply(Step("one", lambda: asked.wait(WAIT_SECONDS), look=look))
        assert asked.is_set() and not over.is_set()
    finally:
        over.set()


def test_without_a_reader_nobody_looks() -> None:
    looks: list[int] = []
    with StepWatch(ProgressFile(None)) as watch:
        watch.apply(Step("one", lambda: time.sleep(0.1), look=lambda: looks.append(1)))
        assert [one for one in threading.enumerate() if one.name == "progress"] == []
    assert looks == []


def test_several_machines_at_once_are_told_each(lines: Lines) -> None:
    def await_all() -> None:
        for one in names:
            lines.await_line(f"revert {one}:")

    def work(name: str) -> None:
        with StepWatch(lines.file) as watch:
            watch.apply(Step(f"revert {name}", await_all))

    names = ["web1", "web2", "db1"]
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert {line.partition(":")[0] for line in lines.there} == {f"revert {name}" for name in names}
