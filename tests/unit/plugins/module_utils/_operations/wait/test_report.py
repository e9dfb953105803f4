# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The block about a machine that did not come up."""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.module_utils._operations.wait.console_log import ConsoleLog
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.state import (
    Stage,
    WaitState,
    block,
    headline,
    report,
)

LATE = WaitState(
    "web1",
    seen="no address",
    serial_log="/var/log/libvirt/qemu/web1-serial.log",
    console=ConsoleLog(lines=("{{ 1 }}", "web1 login:")),
    stages=[Stage("running", True, "yes"), Stage("lease", False, "none"), Stage("cloud-init", None, "not known")],
    next_step="To log in: virsh console web1",
)


def test_a_block() -> None:
    assert block(LATE, 300).splitlines() == [
        "web1 was not reachable within 300 s (failed at: lease): no address. To log in: virsh console web1",
        "  running     ok      yes",
        "  lease       FAILED  none",
        "  cloud-init  -       not known",
        "  The end of its serial console, as the guest wrote it, /var/log/libvirt/qemu/web1-serial.log:",
        "    | {{ 1 }}",
        "    | web1 login:",
    ]


def test_one_that_crashed() -> None:
    crashed = WaitState("web2", hopeless=True, seen="it is crashed", serial_log="/x", qemu_log=["a", "b"])
    assert block(crashed, 300).splitlines() == [
        "web2 is not reachable: it is crashed",
        "  The end of QEMU's log:",
        "    | a",
        "    | b",
        "  Its serial console showed nothing (/x).",
    ]
    assert report([LATE, WaitState("web3", ready=True), crashed], 300).count(" reachable") == 2


def test_a_guest_cannot_end_its_line_or_draw_on_the_terminal() -> None:
    bad = WaitState("web1", seen="a\n\x1b[2Jweb2 is ready", stages=[Stage("agent", False, "b\nweb2 is ready")])
    assert headline(bad, 1).isprintable()
    assert len(block(bad, 1).splitlines()) == 2
    assert block(bad, 1).replace("\n", "").isprintable()
