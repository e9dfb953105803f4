# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of a machine that did not come up, from what was seen of it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.console_log import ConsoleLog
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.diagnosis import diagnose
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.state import WaitState

RUNNING = (libvirt.VIR_DOMAIN_RUNNING, 1)
CONSOLE = "To log in without a network, on the hypervisor: virsh console web1"
UNREAD = "cannot read the DHCP leases: x"


def nic(kind: str = "network", source: str = "default", **addresses: str) -> dict[str, t.Any]:
    """A nic as a record has it; addresses: by their origin."""
    found = [{"address": address, "origin": origin} for origin, address in addresses.items()]
    return {"type": kind, "source": source, "mac": "52:54:00:00:00:01", "addresses": found}


def diagnosed(port: int | None = 22, **seen: t.Any) -> WaitState:
    wait_state = WaitState("web1", **{"power": RUNNING, "nics": [nic()], "agent": False, "asked_at": 0.0, **seen})
    with open_connection("test:///default") as conn:
        wait_state.domain = conn.lookupByName("test")
        diagnose(conn, [wait_state], port)
        wait_state.domain = None
    return wait_state


@pytest.mark.parametrize(
    ("seen", "failed", "words", "step"),
    [
        ({}, "lease", "no DHCP lease on network default", CONSOLE),
        ({"nics": [nic("bridge", "br0")]}, "address", "none known for 52:54:00:00:00:01", CONSOLE),
        ({"nics": []}, "address", "none: it has no nic", "Give it a nic, or do not wait for it"),
        ({"errors": [UNREAD]}, "address", "none known for 52:54:00:00:00:01", CONSOLE),
        (
            {"agent": True, "errors": ["the guest agent did not report its addresses: x"]},
            "lease",
            "no DHCP lease on network default",
            CONSOLE,
        ),
        (
            {"console": ConsoleLog(lines=("x",), dead_end="a kernel panic"), "serial_log": "/logs/a b"},
            "boot",
            "the serial console shows a kernel panic",
            "To see all of it, on the hypervisor: less '/logs/a b'",
        ),
        (
            {"power": (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED)},
            "running",
            "shutoff (it crashed)",
            "To start it: ansible-playbook brine.virt.power -e vm=web1 -e state=running",
        ),
        (
            {"power": (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR)},
            "running",
            "paused (an I/O error of a disk)",
            "To resume it: ansible-playbook brine.virt.power -e vm=web1 -e state=running",
        ),
        (
            {"nics": [nic(lease="192.0.2.9")], "address": "192.0.2.9", "ssh_answers": False, "seen": "x, but refused"},
            "SSH",
            "refused",
            CONSOLE,
        ),
        (
            {"console": ConsoleLog(cloud_init_errors=("Failed to run x",)), "nics": [nic(lease="192.0.2.9")]}
            | {"address": "192.0.2.9"},
            "cloud-init",
            "Failed to run x",
            CONSOLE,
        ),
    ],
)
def test_the_first_stage_that_failed(seen: dict[str, t.Any], failed: str, words: str, step: str) -> None:
    wait_state = diagnosed(**seen)
    found = wait_state.failed_stage
    assert found is not None
    assert (found.name, found.seen, wait_state.next_step) == (failed, words, step)
    names = [stage.name for stage in wait_state.stages]
    assert names == ["defined", "running", "boot", "lease", "agent", "address", "SSH", "cloud-init"]


@pytest.mark.parametrize(
    ("seen", "name", "ok", "words"),
    [
        ({"nics": [nic(static="192.0.2.9")]}, "lease", None, "not needed: it has a static address"),
        ({"nics": [nic("bridge", "br0")]}, "lease", None, "not known: libvirt has no DHCP server on br0"),
        ({"errors": [UNREAD]}, "lease", None, f"not known: {UNREAD}"),
        ({"nics": [nic(lease="192.0.2.9")]}, "lease", True, "192.0.2.9"),
        ({"power": (libvirt.VIR_DOMAIN_SHUTOFF, 1)}, "lease", None, "no DHCP lease on network default"),
        ({"agent": None}, "agent", None, "its definition has no channel for the guest agent"),
        ({}, "agent", None, "not connected"),
        ({"power": (libvirt.VIR_DOMAIN_SHUTOFF, 1), "agent": True}, "agent", True, "connected"),
        ({"agent": True, "errors": ["the guest agent did not x"]}, "agent", False, "the guest agent did not x"),
        ({"power": (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_SNAPSHOT)}, "running", True, None),
        ({"serial_log": "/x"}, "boot", None, "the serial console shows nothing"),
        ({"console": ConsoleLog(lines=("x",), booted=True)}, "boot", True, None),
        ({"console": ConsoleLog(cloud_init=True)}, "cloud-init", None, "running, according to the serial console"),
        ({"console": ConsoleLog(cloud_init_over=True)}, "cloud-init", True, "ended, according to the serial console"),
        (
            {"console": ConsoleLog(cloud_init_over=True, cloud_init_warns=True)},
            "cloud-init",
            True,
            "ended, according to the serial console; it warns of its configuration, to be checked in the guest: "
            "cloud-init schema --system",
        ),
        ({}, "cloud-init", None, "not known: nothing of it is in the serial console's log"),
    ],
)
def test_a_stage(seen: dict[str, t.Any], name: str, ok: bool | None, words: str | None) -> None:
    (stage,) = [stage for stage in diagnosed(**seen).stages if stage.name == name]
    assert stage.ok is ok
    assert words in (None, stage.seen)


def test_an_agent_that_may_not_be_asked_is_said() -> None:
    """The test driver has no agents."""
    (*_others, last) = diagnosed(agent=True, console=ConsoleLog(cloud_init_over=True)).stages
    assert last.ok is True
    assert last.seen.startswith("ended, according to the serial console; by the guest agent: the guest agent did not ")


def test_a_network_without_a_dhcp_server_of_libvirt_has_no_leases() -> None:
    """Such as one that is a bridge of the hypervisor."""
    with open_connection("test:///default") as conn:
        conn.networkCreateXML("<network><name>lan</name><forward mode='bridge'/><bridge name='br0'/></network>")
        wait_state = WaitState("web1", power=RUNNING, nics=[nic(source="lan")], asked_at=0.0)
        diagnose(conn, [wait_state], 22)
    (lease,) = [stage for stage in wait_state.stages if stage.name == "lease"]
    assert (lease.ok, lease.seen) == (None, "not known: libvirt has no DHCP server on lan")


def test_one_that_could_not_be_read_lacks_nothing_for_sure() -> None:
    wait_state = diagnosed(asked_at=None, nics=[], agent=None, seen="it cannot be inspected (x)")
    assert [stage.ok for stage in wait_state.stages] == [True, True] + [None] * 6
    assert {stage.seen for stage in wait_state.stages[3:7]} == {"not known"}
    assert wait_state.next_step == CONSOLE


def test_without_a_port_ssh_is_no_stage() -> None:
    assert "SSH" not in [stage.name for stage in diagnosed(port=None).stages]
