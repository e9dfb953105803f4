# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many calls at once: order, errors, and the time limit."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time

from ansible_collections.brine.virt.plugins.module_utils._base.errors import NotFoundError, UnreachableError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import map_in_threads


def test_outcomes_stand_in_the_order_of_the_items() -> None:
    def square_late(number: int) -> int:
        time.sleep(0.02 * (3 - number))
        return number * number

    outcomes = map_in_threads(square_late, [0, 1, 2, 3], threads=4)
    assert [outcome.value for outcome in outcomes] == [0, 1, 4, 9]


def test_no_items_no_threads() -> None:
    assert map_in_threads(lambda n: n, [], threads=4, timeout_seconds=1) == []


def test_no_more_than_the_allowed_number_run_at_once() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work(_item: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1

    map_in_threads(work, list(range(12)), threads=3)
    assert most == 3


def test_an_error_of_ours_is_the_outcome_of_its_item_alone() -> None:
    def work(number: int) -> int:
        if number == 1:
            raise NotFoundError("number 1 is gone")
        return number

    outcomes = map_in_threads(work, [0, 1, 2], threads=2)
    assert [outcome.value for outcome in outcomes] == [0, None, 2]
    assert [str(outcome.error) for outcome in outcomes if outcome.error] == ["number 1 is gone"]


def test_a_fault_is_the_outcome_of_its_item_alone_too_and_says_where_it_is() -> None:
    outcomes = map_in_threads(lambda n: 1 // n, [1, 0, -1], threads=2)
    assert [outcome.value for outcome in outcomes] == [1, None, -1]
    assert re.fullmatch(
        r"unexpected ZeroDivisionError in test_calls_in_time\.py, line \d+: integer division or modulo by zero",
        str(outcomes[1].error),
    )


def test_what_is_late_costs_the_limit_and_nothing_else() -> None:
    blocker = threading.Event()
    started = time.monotonic()
    outcomes = map_in_threads(
        lambda n: blocker.wait(600) if n == 1 else n, [0, 1, 2, 3], threads=2, timeout_seconds=0.3
    )
    assert time.monotonic() - started < 300
    blocker.set()
    assert [outcome.value for outcome in outcomes] == [0, None, 2, 3]
    assert isinstance(outcomes[1].error, UnreachableError)
    assert str(outcomes[1].error) == "no answer within 0.3 s"


def test_a_call_that_never_comes_back_does_not_keep_python_from_ending(
    other_process: dict[str, str],
) -> None:
    program = (
        "import time\n"
        "from ansible_collections.brine.virt.plugins.module_utils._host.connection import map_in_threads\n"
        "map_in_threads(lambda _n: time.sleep(600), [0], threads=1, timeout_seconds=0.1)\n"
    )
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, env=other_process)
    assert time.monotonic() - started < 300
