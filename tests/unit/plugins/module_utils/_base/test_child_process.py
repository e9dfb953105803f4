# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work in a process of its own: its result, its errors, and its end when nobody waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.child_process import run_guarded
from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError

WAITER = """
import pathlib, sys, time
from ansible_collections.brine.virt.plugins.module_utils._base.child_process import run_guarded
place = pathlib.Path(sys.argv[1])
def work(stop):
    (place / "begun").write_text("")
    ended = stop.wait(300)
    time.sleep(0.2)
    (place / "ended").write_text(str(ended))
    return {"ended": ended}
print(run_guarded(work), flush=True)
"""

# A signal that comes as early as one can: the work has begun, and its result is not waited for yet.
EARLY = """
import os, signal, sys
from ansible_collections.brine.virt.plugins.module_utils._base.child_process import run_guarded
fork = os.fork
def fork_and_signal():
    child = fork()
    if child:
        os.kill(os.getpid(), int(sys.argv[1]))
    return child
os.fork = fork_and_signal
print(run_guarded(lambda stop: {"ended": stop.wait(300)}), flush=True)
"""


def _wait_for(path: Path) -> None:
    end = time.monotonic() + 300
    while not path.exists() or not (path.name == "begun" or path.read_text(encoding="utf-8")):
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.02)


@pytest.fixture
def waiter(tmp_path: Path, other_process: dict[str, str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITER, str(tmp_path)], env=other_process, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _wait_for(tmp_path / "begun")
    return process


def test_the_result_comes_back() -> None:
    assert run_guarded(lambda stop: {"stop": stop.is_set(), "text": "ü" * 100_000}) == {
        "stop": False,
        "text": "ü" * 100_000,
    }


def test_the_work_is_done_elsewhere() -> None:
    assert run_guarded(lambda _stop: {"pid": os.getpid()})["pid"] != os.getpid()


def test_an_error_of_ours_comes_back_as_it_was() -> None:
    def work(_stop: object) -> dict[str, object]:
        raise ConflictError("it is taken", where="name", hint="Choose another")

    with pytest.raises(ConflictError) as caught:
        run_guarded(work)
    assert (caught.value.what, caught.value.where, caught.value.hint) == ("it is taken", "name", "Choose another")


def test_a_fault_comes_back_with_its_place() -> None:
    def work(_stop: object) -> dict[str, object]:
        raise KeyError("nonsense")

    with pytest.raises(RuntimeError, match="KeyError: 'nonsense'"):
        run_guarded(work)


def test_a_worker_that_is_killed_is_told_of() -> None:
    def work(_stop: object) -> dict[str, object]:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    with pytest.raises(HostError, match="worker process died"):
        run_guarded(work)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_work_and_its_result_still_comes(
    waiter: subprocess.Popen[bytes], tmp_path: Path, number: signal.Signals
) -> None:
    waiter.send_signal(number)
    output, errors = waiter.communicate(timeout=300)
    assert (waiter.returncode, output.strip(), errors) == (0, b"{'ended': True}", b"")
    assert (tmp_path / "ended").read_text(encoding="utf-8") == "True"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_comes_with_the_fork_ends_the_work_and_its_result_still_comes(
    number: signal.Signals, other_process: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY, str(int(number))],
        env=other_process,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"{'ended': True}", b"")


def test_no_signal_stays_blocked() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    work = run_guarded(
        lambda _stop: {"blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])]}
    )
    assert set(work["blocked"]) == {int(number) for number in before}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_waiter_that_is_killed_ends_the_work(waiter: subprocess.Popen[bytes], tmp_path: Path) -> None:
    waiter.kill()
    waiter.communicate(timeout=300)
    _wait_for(tmp_path / "ended")
    assert (tmp_path / "ended").read_text(encoding="utf-8") == "True"


def test_a_reader_that_goes_away_ends_the_work(waiter: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert waiter.stdout is not None
    waiter.stdout.close()
    _wait_for(tmp_path / "ended")
    assert (tmp_path / "ended").read_text(encoding="utf-8") == "True"
    waiter.wait(timeout=300)
