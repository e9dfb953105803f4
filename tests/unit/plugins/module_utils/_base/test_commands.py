# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs: what goes in, what comes out, and how they fail."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base import commands
from ansible_collections.brine.virt.plugins.module_utils._base.commands import Answer, pipe_through, run_program
from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, StoppedError

# More than any of these takes.
SECONDS = 60
EVERYTHING = b"\x00\xff" * 200_000


def test_bytes_go_in_and_come_out_unchanged() -> None:
    assert run_program(["cat"], data=EVERYTHING, timeout_seconds=SECONDS) == Answer(0, EVERYTHING, b"")


def test_without_data_nothing_can_be_read_of_what_we_are_given_ourselves() -> None:
    assert run_program(["cat"], timeout_seconds=SECONDS).output == b""


def test_a_program_that_does_not_read_is_no_error() -> None:
    assert run_program(["true"], data=EVERYTHING, timeout_seconds=SECONDS).status == 0


def test_no_shell_reads_the_words() -> None:
    assert run_program(["echo", "$(id)", "*;"], timeout_seconds=SECONDS).text == "$(id) *;\n"


@pytest.mark.parametrize(("streams", "complaint"), [("12", "on 2"), ("1", "on 1"), ("", "")])
def test_a_failure_is_told_by_status_and_complaint(streams: str, complaint: str) -> None:
    program = "; ".join([*(f"echo 'on\n{stream}' >&{stream}" for stream in streams), "exit 3"])
    answer = run_program(["sh", "-c", program], timeout_seconds=SECONDS)
    assert (answer.status, answer.complaint) == (3, complaint)


def test_what_has_to_go_well_is_the_answer_or_an_error() -> None:
    fine, failed = Answer(0, b"made", b"a warning"), Answer(1, b"", b"no\nspace\n")
    assert fine.require("cannot copy") is fine
    with pytest.raises(HostError, match=r"\Acannot copy: no space\. Try again\Z"):
        failed.require("cannot copy", "Try again")


def test_programs_speak_plain_english_and_get_what_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("OURS", "kept")
    command = ["sh", "-c", 'echo "$LC_ALL $OURS $MORE"']
    shown = run_program(command, environment={"MORE": "given"}, timeout_seconds=SECONDS)
    assert shown.text == "C kept given\n"


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        run_program(["brine-virt-no-such-program"], timeout_seconds=SECONDS)


def test_a_program_that_takes_too_long_is_ended() -> None:
    program = "import time; time.sleep(600)"
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"did not end within 0\.2 s"):
        run_program([sys.executable, "-c", program], timeout_seconds=0.2)
    assert time.monotonic() - began < 300


def test_a_child_that_keeps_the_output_open_is_not_waited_for() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        run_program(["sh", "-c", "sleep 6000 & sleep 6000"], timeout_seconds=0.2)
    assert time.monotonic() - began < 300


def test_all_bytes_go_in_however_late_they_are_read() -> None:
    """As guestfish does, when its appliance has started."""
    answer = run_program(["sh", "-c", "sleep 1.2; cat"], data=EVERYTHING, timeout_seconds=SECONDS)
    assert answer == Answer(0, EVERYTHING, b"")


def test_a_program_that_complains_without_end_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says is kept in memory, and an image can be made so that qemu-img check never stops."""
    monkeypatch.setattr(commands, "_MOST_ERRORS_BYTES", 100_000)
    program = "echo out; while echo wrong >&2; do :; done"
    answer = run_program(["sh", "-c", program], timeout_seconds=SECONDS)
    assert (answer.status < 0, answer.output, answer.errors[:6]) == (True, b"out\n", b"wrong\n")
    assert len(answer.errors) < 10_000


def test_chunks_go_through_a_program_as_they_come() -> None:
    chunks = iter([EVERYTHING] * 20)
    assert b"".join(pipe_through(["cat"], chunks)) == EVERYTHING * 20


def test_a_program_may_write_much_more_than_it_reads_and_much_less() -> None:
    many = "import sys; sys.stdin.buffer.read(); [sys.stdout.buffer.write(b'x' * 65536) for number in range(100)]"
    assert sum(map(len, pipe_through([sys.executable, "-c", many], iter([b"a", b"b"])))) == 6_553_600
    assert b"".join(pipe_through(["wc", "-c"], iter([EVERYTHING] * 20))).split() == [b"8000000"]
    assert list(pipe_through(["cat"], iter([]))) == []


def test_what_a_program_does_not_want_is_left() -> None:
    chunks = iter([EVERYTHING] * 20)
    assert b"".join(pipe_through(["head", "-c", "3"], chunks)) == EVERYTHING[:3]
    assert 10 < len(list(chunks)) < 20


def test_a_program_that_fails_says_why_after_what_it_wrote() -> None:
    received = []
    with pytest.raises(ChildProcessError, match=r"^on 2$"):
        for chunk in pipe_through(["sh", "-c", "echo on 1; echo 'on\n2' >&2; exit 3"], iter([EVERYTHING])):
            received.append(chunk)  # noqa: PERF402 - what came before the error counts
    assert b"".join(received) == b"on 1\n"
    with pytest.raises(ChildProcessError, match=r"^false ended with status 1$"):
        list(pipe_through(["false"], iter([])))
    with pytest.raises(FileNotFoundError):
        list(pipe_through(["brine-virt-no-such-program"], iter([])))


def _broken_off() -> Iterator[bytes]:
    yield b"x"
    raise KeyError("broken off")


def test_an_error_among_the_chunks_ends_the_program_and_is_raised() -> None:
    began = time.monotonic()
    with pytest.raises(KeyError, match="broken off"):
        list(pipe_through(["sh", "-c", "cat; sleep 600"], _broken_off()))
    assert time.monotonic() - began < 300


def test_whoever_stops_early_ends_the_program() -> None:
    program = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"
    stream = pipe_through([sys.executable, "-c", program], iter([]))
    process_id = int(next(stream))
    stream.close()  # type: ignore[attr-defined]  # a generator, promised as an iterator
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)


def test_what_a_program_has_written_so_far_is_told() -> None:
    told: list[bytes] = []
    command = ["sh", "-c", "printf 'one '; sleep 0.8; printf 'two '; sleep 0.8; cat"]
    answer = run_program(command, data=b"three", timeout_seconds=SECONDS, on_output=told.append)
    assert (answer.status, answer.output) == (0, b"one two three")
    assert list(dict.fromkeys(told)) == [b"", b"one ", b"one two "]


def test_a_program_that_is_watched_runs_to_its_end_and_is_ended_with_the_watch() -> None:
    looks: list[int] = []
    command = ["sh", "-c", "cat; sleep 1.2"]
    answer = run_program(command, data=b"all", timeout_seconds=300, watch=lambda: looks.append(1))
    assert (answer.status, answer.output) == (0, b"all")
    assert len(looks) > 1

    def stop() -> None:
        raise StoppedError("enough")

    began = time.monotonic()
    with pytest.raises(StoppedError):
        run_program(["sleep", "300"], timeout_seconds=300, watch=stop)
    with pytest.raises(TimeoutError):
        run_program(["sleep", "300"], timeout_seconds=0.2, watch=lambda: None)
    assert time.monotonic() - began < 200
