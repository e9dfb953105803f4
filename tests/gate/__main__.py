# SPDX-License-Identifier: GPL-3.0-or-later
"""The words `check`, `test` and `test-full` of the Makefile, after the set-up."""

from __future__ import annotations

import argparse
import signal
import sys
import types
import typing as t
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .catalogue import LEFT_OUT, LEFT_TO_FULL, make_catalogue
from .lab.molecule import Molecule
from .lab.scenario import OTHER_LABS, Scenario
from .results import Counts, Result, table
from .runner import Runner

ROOT = Path(__file__).resolve().parents[2]


def run_checks(runner: Runner, *, quick: bool, full: bool = False, gently: bool = False) -> list[Result]:
    """Run the checks. `quick`: without LEFT_OUT. `full`: those of LEFT_TO_FULL. `gently`: see Runner.run."""
    checks = make_catalogue(ROOT, quick=quick, full=full)
    print(f"== {len(checks)} checks, output in {runner.logs}", flush=True)
    return runner.run(checks, gently=gently, full=full)


def run_all(runner: Runner, scenarios: Sequence[Scenario], molecule: Molecule, *, full: bool) -> list[Result]:
    """Run the checks at the same time as the scenarios and molecule: much of those is waiting for guests and hosts.

    The checks get a small share of the processors, so that little in the lab is slower for them. Other labs than the
    first, and molecule's, run beside that one, one after another.
    """
    first, *others = scenarios
    with ThreadPoolExecutor(2) as pool:
        checks = pool.submit(run_checks, runner, quick=False, full=full, gently=True)
        beside = pool.submit(run_one_by_one, others, molecule) if others else None
        outcomes = [first.run()]
        outcomes += beside.result() if beside else molecule.run()
        return [*checks.result(), *outcomes]


def run_one_by_one(scenarios: Sequence[Scenario], molecule: Molecule) -> list[Result]:
    """Run the scenarios of each lab, which ends then, and those of molecule."""
    results: list[Result] = []
    for scenario in scenarios:
        results += [scenario.run(), *scenario.tear_down()]
    return [*results, *molecule.run()]


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
    word = parser.parse_args().word

    runner = Runner(ROOT / ".build/log")
    full = word == "test-full"
    scenarios = [Scenario(ROOT, full=full), *(Scenario(ROOT, full=True, lab=lab) for lab in OTHER_LABS if full)]
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
            results += run_all(runner, scenarios, molecule, full=full)
    finally:
        if word != "check":
            results += [*molecule.tear_down(), *(result for one in scenarios for result in one.tear_down())]
    print(f"\n{table(results)}\n", flush=True)
    if word != "test-full":
        left, to = (LEFT_OUT, "test") if word == "check" else (LEFT_TO_FULL, "test-full")
        print(f"left to `make {to}`: {'; '.join(left)}", flush=True)
    close(results, interrupted)


if __name__ == "__main__":
    main()
