# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a machine does not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.stopped import (
    is_passing,
    qemu_log_end,
    read_qemu_log,
    state_words,
)

STARTED = """2026-03-01 09:00:00.000+0000: starting up libvirt version: 9.0.0, package: 4, hostname: hv1
LC_ALL=C \\
/usr/bin/qemu-system-x86_64 \\
-name guest=web1,debug-threads=on \\
-blockdev '{"driver":"file","filename":"/var/lib/libvirt/images/%s"}' \\
-msg timestamp=on
""" % ("x" * 300)
CRASHED = """2026-03-01T09:00:03.1Z qemu-system-x86_64: error: kvm run failed Bad address
2026-03-01 09:00:03.999+0000: shutting down, reason=crashed
"""


@pytest.mark.parametrize(
    ("state", "reason", "words", "passing"),
    [
        (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED, "shutoff (it crashed)", False),
        (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED, "shutoff (somebody powered it off)", False),
        (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN, "shutoff", False),
        (libvirt.VIR_DOMAIN_CRASHED, libvirt.VIR_DOMAIN_CRASHED_PANICKED, "crashed (its guest panicked)", False),
        (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR, "paused (an I/O error of a disk)", False),
        (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP, "paused (it is starting)", True),
        # The same number means something else in another state.
        (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP, "shutoff", False),
        (libvirt.VIR_DOMAIN_RUNNING, 1, "running", False),
        (None, None, "nostate", False),
    ],
)
def test_a_state_with_its_reason(state: int | None, reason: int | None, words: str, passing: bool) -> None:
    assert state_words(state, reason) == words
    assert is_passing(state, reason) is passing


def test_the_end_of_qemus_log_without_its_command_line(tmp_path: Path) -> None:
    log = tmp_path / "web1.log"
    log.write_text(STARTED.replace("debug", "x") + "an earlier start\n" + STARTED + CRASHED)
    assert read_qemu_log(str(log)) == (CRASHED.splitlines(), None)
    log.write_text(STARTED)
    assert read_qemu_log(str(log)) == ([], f"QEMU's log {log} says nothing of it")
    log.write_bytes(b"\x1b[31mred\xff\n" * 10_000)
    assert read_qemu_log(str(log)) == (["red\ufffd"] * 5, None)


def test_a_log_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    path = str(tmp_path / "none.log")
    assert read_qemu_log(path) == ([], f"QEMU's log {path} cannot be read (No such file or directory)")


def test_another_hosts_log_is_not_looked_for() -> None:
    with open_connection("test:///default") as conn:
        assert qemu_log_end(conn, "test") == ([], "QEMU's log is not on this host")
