# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a machine was on for a while, on libvirt's test driver."""

from __future__ import annotations

import gzip
import os
import subprocess
import time
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection, run_events
from ansible_collections.brine.virt.plugins.module_utils._host.machines.start_watch import (
    StartWatch,
    last_start,
    started_at,
)

XML = "<domain type='test'><name>web1</name><memory>1024</memory><os><type>hvm</type></os></domain>"


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[t.Any]:
    (tmp_path / "node.xml").write_text("<node/>", encoding="utf-8")
    run_events()
    with open_connection(f"test://{tmp_path}/node.xml") as connection:
        yield connection


def test_a_machine_that_stays_off(conn: t.Any) -> None:
    watch = StartWatch(conn, conn.defineXML(XML))
    assert watch.was_started() is False
    watch.close()


def test_a_machine_that_is_on(conn: t.Any) -> None:
    domain = conn.defineXML(XML)
    watch = StartWatch(conn, domain)
    domain.create()
    assert watch.was_started() is True
    watch.close()


def test_a_machine_that_was_on_and_is_off_again(conn: t.Any) -> None:
    domain = conn.defineXML(XML)
    watch = StartWatch(conn, domain)
    domain.create()
    domain.destroy()
    assert watch.was_started() is True
    watch.close()


def test_another_machine_does_not_count(conn: t.Any) -> None:
    watch = StartWatch(conn, conn.defineXML(XML))
    conn.defineXML(XML.replace("web1", "web2")).create()
    assert watch.was_started() is False
    watch.close()


def test_a_machine_was_started_with_its_process(tmp_path: Path) -> None:
    before = time.time()
    with subprocess.Popen(["sleep", "60"]) as process:
        (tmp_path / "web1.pid").write_text(f"{process.pid}\n")
        found = started_at("web1", str(tmp_path))
        process.kill()
    assert found is not None and before - 1 < found < before + 10
    # Long ago, as far as this test goes: whoever runs it.
    (tmp_path / "web2.pid").write_text(f"{os.getppid()}\n")
    older = started_at("web2", str(tmp_path))
    assert older is not None and older <= found


@pytest.mark.parametrize("text", [None, "", "web1", "999999999"])
def test_of_a_machine_without_a_process_nobody_can_see_it(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "web1.pid").write_text(text)
    assert started_at("web1", str(tmp_path)) is None


START = "{time}: starting up libvirt version: 9.0.0, package: 9.0.0-4+deb12u2 (Debian), hostname: hv1\nLC_ALL=C \\\n"
END = "{time}: shutting down, reason=destroyed\n"


@pytest.mark.parametrize("ending", [".0", ".1.gz", "-20260131", "-20260131.gz"])
def test_the_last_start_is_in_a_log_that_was_rotated(tmp_path: Path, ending: str) -> None:
    when = "2026-01-30 10:00:00.000+0000"
    text = f"{when}: starting up libvirt version: 9.0.0\n".encode()
    (tmp_path / f"web1.log{ending}").write_bytes(gzip.compress(text) if ending.endswith(".gz") else text)
    older = text.replace(b"01-30", b"01-20")
    (tmp_path / "web1.log.9").write_bytes(older)
    os.utime(tmp_path / "web1.log.9", (1, 1))
    (tmp_path / "web1.log").write_bytes(b"nothing since\n")
    for other in ("web1.log.log", "web1.log-old", "web10.log"):
        (tmp_path / other).write_bytes(text.replace(b"01-30", b"02-01"))
    assert last_start("web1", str(tmp_path)) == when


def test_the_last_start_is_in_the_log_whatever_came_after_it(tmp_path: Path) -> None:
    first, second, later = (f"2026-11-27 08:{minute}:34.891+0000" for minute in (10, 20, 30))
    log = tmp_path / "web1.log"
    log.write_text(START.format(time=first) + END.format(time=second) + START.format(time=second))
    assert last_start("web1", str(tmp_path)) == second
    with log.open("a") as file:
        file.write(f"qemu: {later}: starting up libvirt \n" + END.format(time=later))
    assert last_start("web1", str(tmp_path)) == second
    # virtlogd has begun a new one since.
    log.rename(tmp_path / "web1.log.0")
    log.write_text(END.format(time=later))
    assert last_start("web1", str(tmp_path)) == second
    log.write_text(START.format(time=later))
    assert last_start("web1", str(tmp_path)) == later


def test_a_start_that_failed_on_the_lock_of_a_disk_is_none(tmp_path: Path) -> None:
    """It is what happens to somebody who starts a machine whose files are being merged."""
    first, second, third = (f"2026-11-27 08:{minute}:34.891+0000" for minute in (10, 20, 30))
    lock = '2026-11-27T08:20:35.1Z qemu-system-x86_64: -blockdev {"node-name":"a"}: Failed to get "write" lock\n'
    failed = "{time}: shutting down, reason=failed\n"
    log = tmp_path / "web1.log"
    log.write_text(START.format(time=first) + END.format(time=second))
    for words, seen in ((lock, first), (lock.replace('"write"', 'shared "write"'), first), ("", second)):
        with log.open("a") as file:
            file.write(START.format(time=second) + words + failed.format(time=second))
        assert last_start("web1", str(tmp_path)) == seen
    # One that was locked out and then ended in another way has run, for all that is known.
    log.write_text(START.format(time=first) + START.format(time=third) + lock + END.format(time=third))
    assert last_start("web1", str(tmp_path)) == third


def test_a_log_that_says_nothing_of_it(tmp_path: Path) -> None:
    assert last_start("web1", str(tmp_path)) == ""
    (tmp_path / "web1.log").write_text("")
    assert last_start("web1", str(tmp_path)) == ""
