# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of libvirt and of a guest's SSH port while machines are waited for."""

from __future__ import annotations

import collections
import socket
import threading
import time
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import NotFoundError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._operations.wait import machines as waiting
from ansible_collections.brine.virt.plugins.module_utils._operations.wait import ssh
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.look import why_no_address
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.machines import wait_for_machines

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDBrFyvUcnVvGB9QIWdOVxjSECyK7Q5YCPTKW6qBfFAd"
DOMAIN = """<domain type='test' xmlns:brine='urn:brine:virt:1'><name>{name}</name><metadata>
<brine:machine status='ready'>{notes}</brine:machine></metadata><memory>1024</memory><os><type>hvm</type></os>
<devices>{nic}</devices></domain>"""
NIC = "<interface type='network'><source network='default'/><target dev='testnet0'/></interface>"
TABLE = "the hypervisor's neighbour table does not know its MAC address"


class Port:
    """A TCP port of this host that begins to greet when it is told to; connections to any address lead to it."""

    def __init__(self) -> None:
        self.open_at = 0.0
        self.clock = time.monotonic
        self.greeted_at: float | None = None
        self.greeting = b"SSH-2.0-x\r\n"
        self.server = socket.create_server(("127.0.0.1", 0))
        self.connect = socket.create_connection
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _address = self.server.accept()
            except OSError:
                return
            with connection:
                connection.sendall(self.greeting)

    def lead_here(self, _address: tuple[str, int], timeout: float) -> socket.socket:
        if self.clock() < self.open_at:
            raise ConnectionRefusedError(111, "Connection refused")
        return self.connect(self.server.getsockname(), timeout=timeout)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[Port]:
    one = Port()
    monkeypatch.setattr("socket.create_connection", one.lead_here)
    yield one
    one.server.close()


class CountedDomain:
    """libvirt's own domain, and how often it was asked."""

    def __init__(self, domain: t.Any, calls: collections.Counter[str]) -> None:
        self._domain, self._calls = domain, calls

    def __getattr__(self, name: str) -> t.Any:
        if name not in ("name", "UUIDString", "c_pointer", "_o"):
            self._calls[name] += 1
        return getattr(self._domain, name)


class StrictConnection:
    """A connection that takes one that has gone for an error in the whole list."""

    def __init__(self, conn: t.Any) -> None:
        self._conn = conn

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._conn, name)

    def domainListGetStats(self, domains: list[t.Any], stats: int, flags: int) -> t.Any:  # noqa: N802
        for domain in domains:
            self._conn.lookupByUUIDString(domain.UUIDString())
        return self._conn.domainListGetStats(domains, stats, flags)


class CountedConnection(CountedDomain):
    def listAllDomains(self, flags: int = 0) -> list[CountedDomain]:  # noqa: N802 - libvirt's name
        self._calls["listAllDomains"] += 1
        return [CountedDomain(domain, self._calls) for domain in self._domain.listAllDomains(flags)]

    def domainListGetStats(self, domains: list[t.Any], stats: int, flags: int) -> t.Any:  # noqa: N802
        self._calls["domainListGetStats"] += 1
        return self._domain.domainListGetStats([domain._domain for domain in domains], stats, flags)


@pytest.mark.parametrize(
    ("agent", "errors", "end"),
    [
        (False, [], f"its guest agent is not connected, and {TABLE}"),
        (True, [], f"its guest agent reports none, and {TABLE}"),
        # Not said to lack something, and libvirt's own trouble with it is of no use to anybody.
        (
            None,
            ["cannot read the neighbour table: internal error: wrong nlmsg len"],
            ", and its guest agent is not connected",
        ),
        (False, ["x", "cannot read the neighbour table: y"], "its guest agent is not connected; besides, x"),
    ],
)
def test_what_is_said_of_a_table_that_could_not_be_read(agent: bool | None, errors: list[str], end: str) -> None:
    assert why_no_address(agent, errors).endswith(end)


def test_a_name_that_does_not_exist_is_an_error() -> None:
    with open_connection("test:///default") as conn, pytest.raises(NotFoundError, match="no machine 'gone'"):
        wait_for_machines(conn, ["test", "gone"], port=22, timeout_seconds=0)


def test_a_guest_that_answers_is_noticed_within_a_second(port: Port) -> None:
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    port.clock, port.open_at = (lambda: now[0]), 1.3
    with open_connection("test:///default") as conn:
        (found,) = wait_for_machines(conn, ["test"], port=22, timeout_seconds=20, clock=port.clock, pause=pause)
    assert found.ready
    assert 1.3 <= now[0] < 2.3


@pytest.mark.parametrize("strict", [False, True])
def test_one_that_goes_does_not_hide_the_others(port: Port, strict: bool) -> None:
    now = 0.0

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now == 2:
            conn.lookupByName("gone").destroy()
            port.open_at = 0.0

    port.open_at = time.monotonic() + 1000
    with open_connection("test:///default") as conn:
        conn.createXML(DOMAIN.format(name="gone", nic="", notes=""))
        asked = StrictConnection(conn) if strict else conn
        found = wait_for_machines(asked, ["test", "gone"], port=22, timeout_seconds=60, clock=lambda: now, pause=pause)
    assert [(one.name, one.ready, one.hopeless) for one in found] == [("test", True, False), ("gone", False, True)]
    assert found[1].seen == "it is no longer defined on this hypervisor"


def test_the_calls_of_a_wait_are_few() -> None:
    """One a look for all of them, and a few a second for each that has no address."""
    calls: collections.Counter[str] = collections.Counter()
    now = 0.0

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    with open_connection("test:///default") as conn:
        for number in range(10):
            conn.createXML(DOMAIN.format(name=f"web{number}", nic="", notes=""))
        names = [f"web{number}" for number in range(10)]
        counted = CountedConnection(conn, calls)
        wait_for_machines(counted, names, port=22, timeout_seconds=9.4, clock=lambda: now, pause=pause)
    looks = 20
    assert calls.pop("listAllDomains") == 1
    assert calls.pop("domainListGetStats") == looks
    # Each second look asks; a machine without a nic has no address to be asked for.
    assert calls == {"XMLDesc": 10 * looks / 2}


def test_a_machine_with_an_address_costs_no_call_while_ssh_is_awaited(port: Port) -> None:
    calls: collections.Counter[str] = collections.Counter()
    now = 0.0

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    port.open_at = time.monotonic() + 1000
    with open_connection("test:///default") as conn:
        counted = CountedConnection(conn, calls)
        wait_for_machines(counted, ["test"], port=22, timeout_seconds=8.4, clock=lambda: now, pause=pause)
    assert calls["domainListGetStats"] == 18
    assert calls["XMLDesc"] == 3


@pytest.mark.parametrize(
    ("offered", "ready", "stage"),
    [(KEY, True, None), (KEY.replace("DBr", "DBs"), False, "SSH"), (None, True, None)],
)
def test_another_host_key_is_not_the_machine(
    port: Port, monkeypatch: pytest.MonkeyPatch, offered: str | None, ready: bool, stage: str | None
) -> None:
    asked: list[t.Any] = []

    def compare(known: list[tuple[str, tuple[str, ...]]], _port: int) -> list[bool | None]:
        asked.append(known)
        return [None if offered is None else offered in keys for _address, keys in known]

    monkeypatch.setattr(ssh, "compare_host_keys", compare)
    monkeypatch.setattr(waiting, "_OTHER_KEY_SECONDS", 1)
    with open_connection("test:///default") as conn:
        conn.createXML(DOMAIN.format(name="web1", nic=NIC, notes=f"<brine:hostkey>{KEY}</brine:hostkey>"))
        (found,) = wait_for_machines(conn, ["web1"], port=22, timeout_seconds=20)
    assert asked and all(keys == [KEY] for known in asked for _address, keys in known)
    assert (found.ready, found.hopeless) == (ready, not ready)
    assert (found.failed_stage and found.failed_stage.name) == stage
    if not ready:
        assert "not with a host key of this machine" in found.seen
        assert found.next_step.startswith("To see whose it is, on the hypervisor: ip neigh show ")


def test_an_open_port_that_is_not_ssh(port: Port) -> None:
    port.greeting = b"220 mail\r\n"
    with open_connection("test:///default") as conn:
        (found,) = wait_for_machines(conn, ["test"], port=2222, timeout_seconds=0)
    assert not found.ready
    assert "no SSH server answers at" in found.seen
    (stage,) = [stage for stage in found.stages if stage.name == "SSH"]
    assert (stage.ok, stage.seen.startswith("no SSH server answers at ")) == (False, True)
