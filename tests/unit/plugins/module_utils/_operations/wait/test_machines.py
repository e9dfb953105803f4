# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a machine that does not answer."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.machines import wait_for_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.state import WaitState

NIC = "<interface type='network'><source network='default'/><target dev='testnet0'/></interface>"
CLOUD_INIT = "Cloud-init v. 22.4.2 running 'modules:final' at Sat\n"


@dataclass
class Guest:
    """A machine that runs and has no address, and the log of its console, on a clock that only the wait moves."""

    log: Path
    now: float = 0.0
    last_line: list[str] = field(default_factory=list)
    # What its console says, by the second.
    script: dict[float, str] = field(default_factory=dict)
    # What is done to it, by the second.
    acts: dict[float, t.Callable[[t.Any], t.Any]] = field(default_factory=dict)
    domain: t.Any = None

    def pause(self, seconds: float) -> None:
        for at in sorted(self.script):
            if self.now < at <= self.now + seconds:
                with self.log.open("a", encoding="utf-8") as file:
                    file.write(self.script[at])
        for at, act in self.acts.items():
            if self.now < at <= self.now + seconds:
                act(self.domain)
        self.now += seconds

    def wait(self, timeout_seconds: float, devices: str = "") -> WaitState:
        with open_connection("test:///default") as conn:
            domain = f"""<domain type='test'><name>web1</name><memory>1024</memory><os><type>hvm</type></os>
                <devices>{devices}<serial type='pty'><log file='{self.log}'/></serial></devices></domain>"""
            conn.createXML(domain)
            self.domain = conn.lookupByName("web1")
            try:
                (wait_state,) = wait_for_machines(
                    conn,
                    ["web1"],
                    port=22,
                    timeout_seconds=timeout_seconds,
                    on_progress=self.last_line.append,
                    clock=lambda: self.now,
                    pause=self.pause,
                )
            finally:
                with contextlib.suppress(Exception):
                    self.domain.destroy()
        return wait_state


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    log = tmp_path / "serial.log"
    log.write_text("[    0.000000] Linux version 6.1.0\n", encoding="utf-8")
    return Guest(log)


@pytest.mark.parametrize(
    ("console", "words"),
    [
        ("[ 3.1] Kernel panic - not syncing: VFS: Unable to mount root fs\n[ 3.2] ---[ end ]---\n", "a kernel panic"),
        ("Booting from Hard Disk...\nBoot failed\nNo bootable device.\n", "nothing to boot from"),
        ("BdsDxe: No bootable option or device was found.\n", "nothing to boot from"),
        ("ALERT! does not exist. Dropping to a shell!\n(initramfs) ", "rescue prompt"),
        ("You are in emergency mode. After logging in, type\n", "emergency mode"),
    ],
)
def test_nobody_waits_for_a_machine_that_has_come_to_a_dead_end(guest: Guest, console: str, words: str) -> None:
    guest.script = {5: console}
    wait_state = guest.wait(600)
    assert (wait_state.ready, wait_state.hopeless) == (False, True)
    assert wait_state.waited_seconds < 20
    assert words in wait_state.seen
    assert "no address" in wait_state.seen
    assert wait_state.console.lines


def test_what_lasts_is_told_less_often(guest: Guest) -> None:
    guest.wait(200)
    seconds = [int(line.partition(" ")[0]) for line in guest.last_line]
    assert seconds[:8] == [0, 10, 20, 30, 40, 50, 80, 110]


def test_a_guest_that_restarts_after_a_panic_is_waited_for(guest: Guest) -> None:
    guest.script = {5: "Kernel panic - not syncing: x\nRebooting in 5 seconds..\n", 10: "Linux version 6.1.0\n"}
    wait_state = guest.wait(50)
    assert not wait_state.hopeless
    assert wait_state.stage == "booting"


@pytest.mark.parametrize("end", [f"{CLOUD_INIT}Cloud-init v. 22.4.2 finished at Sat. Up 40 s\n", "\nweb1 login: "])
def test_a_machine_that_has_booted_has_a_minute_for_an_address(guest: Guest, end: str) -> None:
    guest.script = {40: end}
    wait_state = guest.wait(600)
    assert wait_state.hopeless
    assert 95 <= wait_state.waited_seconds <= 110
    assert (
        "according to its serial console it booted 60 s ago or more, but no address was found for it" in wait_state.seen
    )


def test_a_login_prompt_is_no_end_while_cloud_init_runs(guest: Guest) -> None:
    guest.script = {5: CLOUD_INIT, 10: "\nweb1 login: "}
    assert not guest.wait(120).hopeless


def test_an_earlier_boot_on_the_console_says_nothing_of_this_one(guest: Guest) -> None:
    text = "Cloud-init v. 22.4.2 finished at Sat\nweb1 login: \nLinux version 6.1.0\n"
    guest.log.write_text(text, encoding="utf-8")
    assert not guest.wait(120).hopeless


def test_the_stage_is_told_when_it_changes_and_every_ten_seconds(guest: Guest) -> None:
    guest.script = {21: CLOUD_INIT, 31: "Cloud-init v. 22.4.2 finished at Sat\n"}
    guest.wait(39)
    assert guest.last_line == [
        "0 s: booting: web1",
        "10 s: booting: web1",
        "20 s: booting: web1",
        "21 s: cloud-init, no address yet: web1",
        "31 s: booted, no address yet: web1",
    ]


def test_an_address_is_told_with_its_origin(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    # The driver's address is nobody's.
    monkeypatch.setattr("socket.create_connection", _refused)
    guest.wait(1, NIC)
    assert guest.last_line == ["0 s: DHCP lease, no SSH yet: web1"]


def test_one_that_somebody_powers_off_is_given_up_at_once_with_the_reason(guest: Guest) -> None:
    guest.acts = {5: lambda domain: domain.suspend()}
    wait_state = guest.wait(600)
    assert (wait_state.hopeless, wait_state.waited_seconds) == (True, 5.0)
    assert wait_state.seen == "it is paused (somebody paused it)"
    assert (wait_state.failed_stage and wait_state.failed_stage.name) == "running"
    assert "brine.virt.power -e vm=web1 -e state=running" in wait_state.next_step


def test_one_that_is_undefined_meanwhile_is_given_up_and_does_not_end_the_wait(guest: Guest) -> None:
    guest.acts = {5: lambda domain: domain.destroy()}
    wait_state = guest.wait(600)
    assert (wait_state.hopeless, wait_state.waited_seconds) == (True, 5.0)
    assert wait_state.seen == "it is no longer defined on this hypervisor"
    assert [(stage.name, stage.ok) for stage in wait_state.stages] == [("defined", False), ("cloud-init", None)]
    assert "provision again" in wait_state.next_step


def test_cloud_inits_error_is_said_with_what_was_seen(guest: Guest) -> None:
    guest.script = {5: f"{CLOUD_INIT}[   9.1] cloud-init[412]: 2026 - util.py[WARNING]: Failed to run bootcmd\n"}
    wait_state = guest.wait(20)
    assert wait_state.seen.endswith("; cloud-init reports: Failed to run bootcmd")
    assert wait_state.stages[-1].ok is False


def _refused(*_args: t.Any, **_options: t.Any) -> t.Any:
    raise ConnectionRefusedError(111, "Connection refused")
