# SPDX-License-Identifier: GPL-3.0-or-later
"""The words `check`, `test` and `test-full` of the Makefile, after the set-up."""

from __future__ import annotations

import argparse
import functools
import os
import re
import signal
import sys
import types
import typing as t
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .catalogue import LEFT_OUT, LEFT_TO_FULL, make_catalogue
from .lab.molecule import Molecule
from .lab.scenario import LABS, OTHER_LABS, Scenario
from .results import Counts, Result, table
from .runner import Runner

ROOT = Path(__file__).resolve().parents[2]
# Of `make test-full`, for somebody who has no whole day: the checks, the lab without a name, the others, molecule.
CHECKS, FIRST, MOLECULE = "checks", "first", "molecule"
PARTS = (CHECKS, FIRST, *OTHER_LABS, MOLECULE)
# Of two processors two labs leave little. LABS_AT_ONCE in the environment is another number, for a machine with more.
LABS_AT_ONCE = 2
Work = t.Callable[[], list[Result]]


def run_checks(runner: Runner, *, quick: bool, full: bool = False, gently: bool = False) -> list[Result]:
    """Run the checks. `quick`: without LEFT_OUT. `full`: those of LEFT_TO_FULL. `gently`: see Runner.run."""
    checks = make_catalogue(ROOT, quick=quick, full=full)
    print(f"== {len(checks)} checks, output in {runner.logs}", flush=True)
    return runner.run(checks, gently=gently, full=full)


def run_all(checks: Work | None, labs: Sequence[Work], *, at_once: int) -> list[Result]:
    """Run the checks at the same time as the labs: much of what those do is waiting for guests and hosts.

    `at_once`: how many labs; a test in one of two takes longer than by itself, and both together less.
    """
    with ThreadPoolExecutor(1) as aside, ThreadPoolExecutor(at_once) as pool:
        begun = [pool.submit(work) for work in labs]
        beside = aside.submit(checks) if checks else None
        results = beside.result() if beside else []
        return [*results, *(result for work in begun for result in work.result())]


def run_lab(scenario: Scenario) -> list[Result]:
    """Run the scenarios of a lab; one with a name ends then."""
    return [scenario.run(), *(scenario.tear_down() if scenario.lab else [])]


def close(results: list[Result], interrupted: bool) -> t.NoReturn:
    """Print what failed and the counts as the last line, and exit: 1 when anything failed."""
    counts = sum((result.counts for result in results), Counts())
    if interrupted:
        counts += Counts(failed=1)
        print("FAILED: interrupted before the end")
    for result in results:
        if result.verdict == "FAILED":
            print(f"FAILED: {result.name}" + (f" ({result.note})" if result.note else ""))
        elif result.verdict == "skipped":
            print(f"skipped: {result.name}: {result.note}")
        for test in result.counts.retried:
            print(f"failed, and passed when run again: {test} ({result.name})")
    print(counts, flush=True)
    sys.exit(1 if counts.failed or not counts.passed else 0)


def main() -> t.NoReturn:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="tests.gate", description=__doc__)
    words = ["check", "test", "test-full"]
    parser.add_argument(
        "word",
        choices=words,
        help="the quick part; that, sanity and a scenario in the lab; or all that the latter leaves out",
    )
    parser.add_argument("part", nargs="*", help=f"of test-full, only: {', '.join(PARTS)}")
    arguments = parser.parse_args()
    word = arguments.word
    full = word == "test-full"
    if unknown := [part for part in arguments.part if not full or part not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r} of {word}; those of test-full are: {', '.join(PARTS)}")
    parts = arguments.part or PARTS
    at_once = os.environ.get("LABS_AT_ONCE", str(LABS_AT_ONCE))
    if not re.fullmatch("[1-9]", at_once):
        parser.error(f"LABS_AT_ONCE in the environment is a number from 1 to 9, not {at_once!r}")

    runner = Runner(ROOT / ".build/log")
    labs = [lab for lab in LABS if (lab or FIRST) in parts] if full else [""]
    scenarios = [Scenario(ROOT, full=full, lab=lab) for lab in labs]
    molecule = Molecule(ROOT, runner.logs, full=full)
    interrupted = False

    def interrupt(_number: int, _frame: types.FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        runner.stop()
        for scenario in scenarios:
            scenario.stop()
        molecule.stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)

    results: list[Result] = []
    try:
        if word == "check":
            results += run_checks(runner, quick=True)
        else:
            checks = functools.partial(run_checks, runner, quick=False, full=full, gently=True)
            work: list[Work] = [functools.partial(run_lab, scenario) for scenario in scenarios]
            results += run_all(
                checks if CHECKS in parts else None,
                [*work, *([molecule.run] if MOLECULE in parts else [])],
                at_once=int(at_once) if full else 1,
            )
    finally:
        if word != "check":
            results += [*molecule.tear_down(), *(result for one in scenarios for result in one.tear_down())]
    print(f"\n{table(results)}\n", flush=True)
    if word != "test-full":
        left, to = (LEFT_OUT, "test") if word == "check" else (LEFT_TO_FULL, "test-full")
        print(f"left to `make {to}`: {'; '.join(left)}", flush=True)
    elif others := [part for part in PARTS if part not in parts]:
        print(f"not run: the parts {', '.join(others)}", flush=True)
    close(results, interrupted)


if __name__ == "__main__":
    main()
