# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read out of a serial console's log, whatever a guest has written there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._operations.wait.console_log import read_console_log
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.log_text import console_lines


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "web1-serial.log"


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"[\x1b[0;32m  OK  \x1b[0m] Started \x1b[0;1;39mssh.service\x1b[0m.\r\n", ["[  OK  ] Started ssh.service."]),
        (b"a\x1b]0;title\x07b\x1b[2J\x1b[Hc\x1bc\n", ["abc"]),
        (b"half \xff\xfe bytes\n", ["half \ufffd\ufffd bytes"]),
        ("right\u202eto left\u200b {{ 1 + 1 }}\n".encode(), ["rightto left {{ 1 + 1 }}"]),
        ("\u009b31mred\n".encode(), ["red"]),
        (b"x" * 1000 + b"\n", ["x" * 197 + "..."]),
        (b"\x00\x00\n\n   \n", []),
    ],
)
def test_only_text_is_left(log: Path, written: bytes, lines: list[str]) -> None:
    log.write_bytes(written)
    assert list(read_console_log(str(log)).lines) == lines


def test_no_more_than_the_last_lines(log: Path) -> None:
    log.write_text("".join(f"{number}\n" for number in range(100_000)))
    assert read_console_log(str(log)).lines == tuple(str(number) for number in range(99_988, 100_000))
    assert console_lines(str(log), 3) == ["99997", "99998", "99999"]


def test_no_log_has_no_lines(tmp_path: Path) -> None:
    assert console_lines(str(tmp_path / "none.log"), 3) == []
    assert console_lines(str(tmp_path), 3) == []


@pytest.mark.parametrize(
    ("written", "errors"),
    [
        (
            "[   21.4] cloud-init[412]: 2026 - cc_bootcmd.py[WARNING]: Failed to run bootcmd module x\n",
            ("Failed to run bootcmd module x",),
        ),
        (
            "2026 - cc_scripts_user.py[WARNING]: Failed to run module scripts-user (scripts in /var/lib/cloud)\n"
            "2026 - util.py[WARNING]: Running module scripts-user (<module ...>) failed\n",
            (
                "Failed to run module scripts-user (scripts in /var/lib/cloud)",
                "Running module scripts-user (<module ...>) failed",
            ),
        ),
        (
            "[\x1b[0;1;31mFAILED\x1b[0m] Failed to start \x1b[0;1;39mcloud-final.service\x1b[0m - Execute.\n",
            ("Failed to start cloud-final.service - Execute.",),
        ),
        (
            "[FAILED] Failed to start Execute cloud user/final scripts.\n",
            ("Failed to start Execute cloud user/final scripts.",),
        ),
        (
            "[FAILED] Failed to start Postfix.\n- util.py[DEPRECATED]: x\n- schema.py[WARNING]: Deprecated: y\n",
            (),
        ),
        ("2026 - schema.py[WARNING]: Invalid cloud-config provided: Please run 'sudo cloud-init schema'\n", ()),
        ("x - util.py[ERROR]: an earlier boot's\nLinux version 6.1.0\n", ()),
    ],
)
def test_what_cloud_init_says_is_wrong(log: Path, written: str, errors: tuple[str, ...]) -> None:
    log.write_text(written)
    assert read_console_log(str(log)).cloud_init_errors == errors


@pytest.mark.parametrize(
    "said",
    [
        "Invalid cloud-config provided: x",
        "Invalid network-config provided: x",
        "cloud-config failed schema validation! You may run 'sudo cloud-init schema --system' to check the details.",
        "network-config failed schema validation! x",
    ],
)
def test_the_check_of_its_schema_is_no_error_but_told(log: Path, said: str) -> None:
    log.write_text(f"schema.py[WARNING]: {said}\nLinux version 6.1.0\n")
    assert not read_console_log(str(log)).cloud_init_warns
    log.write_text(f"Linux version 6.1.0\nschema.py[WARNING]: {said}\n")
    found = read_console_log(str(log))
    assert found.cloud_init_warns
    assert not found.cloud_init_errors


def test_a_log_that_has_not_changed_is_not_read_again(log: Path) -> None:
    log.write_text("Linux version 6.1.0\n")
    first = read_console_log(str(log))
    assert read_console_log(str(log), first) is first
    log.write_text("Linux version 6.1.0\nlogin: \n")
    assert read_console_log(str(log), first).lines == ("Linux version 6.1.0", "login:")
    # As long as before, as after a rotation.
    about = log.stat()
    log.write_text("Linux version 6.1.1\nlogin: \n")
    os.utime(log, ns=(about.st_atime_ns, about.st_mtime_ns + 1))
    assert read_console_log(str(log), first).lines[0] == "Linux version 6.1.1"


@pytest.mark.parametrize("path", [None, "/nonexistent/log", "/"])
def test_no_log_says_nothing(path: str | None) -> None:
    assert read_console_log(path).lines == ()
