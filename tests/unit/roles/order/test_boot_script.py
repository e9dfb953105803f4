# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that starts machines in their order when a hypervisor boots, on libvirt's test driver."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    MachineNotes,
    notes_from_element,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.start_order import in_start_order
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._model.metadata.notes_text import notes_to_xml

pytestmark = pytest.mark.medium

FILE = Path(__file__).resolve().parents[4] / "roles/virt_hypervisor/files/start_order.py"
DOMAIN = """
<domain type='test' xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>
  <test:runstate>{state}</test:runstate><name>{name}</name><metadata>{notes}</metadata>
  <memory unit='MiB'>64</memory><os><type>hvm</type></os>{more}
</domain>
"""
OFF, RUNNING = 5, 1
# Name: order, delay. An order of None and no metadata at all are the same.
MACHINES: dict[str, MachineNotes | None] = {
    "any": None,
    "db": MachineNotes(order=3, delay_seconds=1),
    "dns": MachineNotes(order=0),
    "late": MachineNotes(delay_seconds=600),
    "web": MachineNotes(order=20),
}


@pytest.fixture
def script() -> t.Any:
    spec = importlib.util.spec_from_file_location("start_order", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def domain(name: str, notes: MachineNotes | None, state: int = OFF, more: str = "") -> str:
    return DOMAIN.format(name=name, state=state, notes="" if notes is None else notes_to_xml(notes), more=more)


@pytest.fixture
def conn(tmp_path: Path, request: pytest.FixtureRequest) -> t.Iterator[t.Any]:
    """Machines that start with their host, and one that does not."""
    state = getattr(request, "param", OFF)
    domains = "".join(domain(name, notes, state) for name, notes in MACHINES.items())
    domains += domain("manual", MachineNotes(order=1), state)
    (tmp_path / "node.xml").write_text(f"<node>{domains}</node>")
    with open_connection(f"test://{tmp_path / 'node.xml'}") as connection:
        for name in MACHINES:
            connection.lookupByName(name).setAutostart(1)
        yield connection


def up(conn: t.Any) -> list[str]:
    """Who runs, in the order in which they were started."""
    handles = conn.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
    return [handle.name() for handle in sorted(handles, key=lambda handle: handle.ID())]


def test_machines_with_autostart_start_in_their_order(
    conn: t.Any, script: t.Any, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    script.start_machines(conn)
    assert 1 <= time.monotonic() - began < 300
    assert up(conn)[:3] == ["dns", "db", "web"]
    assert sorted(up(conn)[3:]) == ["any", "late"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "<6>started dns (order 0)",
        "<6>started db (order 3)",
        "<6>waiting 1 s before the next ones",
        "<6>started web (order 20)",
    ]
    script.start_machines(conn)
    assert capsys.readouterr().out == ""


def test_it_groups_like_the_modules(conn: t.Any, script: t.Any) -> None:
    machines = [script.Machine(handle) for handle in conn.listAllDomains(0)]
    expected = in_start_order(machines, lambda machine: machine.order)
    assert script.in_order(machines) == expected
    assert len(expected) == 5
    assert {machine.name: (machine.order, machine.delay_seconds) for machine in machines} == {
        "manual": (1, 0),
        **{name: (notes.order, notes.delay_seconds) if notes else (None, 0) for name, notes in MACHINES.items()},
    }


def test_one_that_does_not_start_is_said_and_the_others_go_on(
    tmp_path: Path, script: t.Any, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = {
        "dns": MachineNotes(order=0, delay_seconds=1),
        "db": MachineNotes(order=1, delay_seconds=600),
        "web": None,
    }
    (tmp_path / "node.xml").write_text(f"<node>{''.join(domain(name, notes) for name, notes in orders.items())}</node>")
    with open_connection(f"test://{tmp_path / 'node.xml'}") as conn:
        for name in orders:
            conn.lookupByName(name).setAutostart(1)
        # It is undefined when its turn comes.
        threading.Timer(0.5, conn.lookupByName("db").undefine).start()
        began = time.monotonic()
        script.start_machines(conn)
        assert up(conn) == ["dns", "web"]
        # Nobody waits for what did not start.
        assert time.monotonic() - began < 300
    assert "<3>db could not be started: Domain not found" in capsys.readouterr().out


@pytest.mark.parametrize("conn", [RUNNING], indirect=True)
def test_machines_shut_down_in_the_reverse_order(
    conn: t.Any, script: t.Any, capsys: pytest.CaptureFixture[str]
) -> None:
    script.stop_machines(conn, 300, 2)
    assert up(conn) == []
    said = [line.removeprefix("<6>") for line in capsys.readouterr().out.splitlines()]
    assert sorted(said[:2]) == ["any has shut down", "late has shut down"]
    assert said[2:] == [f"{name} has shut down" for name in ("web", "db", "manual", "dns")]


def test_without_an_order_stopping_is_left_to_libvirt_guests(tmp_path: Path, script: t.Any) -> None:
    (tmp_path / "node.xml").write_text(f"<node>{domain('any', None, RUNNING)}</node>")
    with open_connection(f"test://{tmp_path / 'node.xml'}") as conn:
        script.stop_machines(conn, 300, 2)
        assert up(conn) == ["any"]


def test_a_guest_that_does_not_shut_down_takes_no_time_from_those_before_it(
    tmp_path: Path, script: t.Any, capsys: pytest.CaptureFixture[str]
) -> None:
    deaf = "<on_poweroff>restart</on_poweroff>"
    order = [domain("db", MachineNotes(order=1), RUNNING), domain("web", MachineNotes(order=2), RUNNING)]
    domains = "".join([*order, *(domain(name, None, RUNNING, deaf) for name in ("deaf", "mute"))])
    (tmp_path / "node.xml").write_text(f"<node>{domains}</node>")
    with open_connection(f"test://{tmp_path / 'node.xml'}") as conn:
        began = time.monotonic()
        # One at a time: the first of them takes all that the two have.
        script.stop_machines(conn, 3, 1)
        assert 1 <= time.monotonic() - began < 300
        first, second, *others = capsys.readouterr().out.splitlines()
        assert first in ("<3>deaf has not shut down in time", "<3>mute has not shut down in time")
        assert second.endswith(" was not asked to shut down: there was no time left for it")
        assert others == ["<6>web has shut down", "<6>db has shut down"]
        assert up(conn) == ["deaf", "mute"]


@pytest.fixture
def host(tmp_path: Path) -> t.Callable[..., tuple[Path, Path]]:
    """Definitions as libvirt keeps them, those with autostart linked; the paths of the mark and of the flag."""

    def make(**machines: str) -> tuple[Path, Path]:
        (tmp_path / "autostart").mkdir(exist_ok=True)
        for name, text in machines.items():
            (tmp_path / f"{name}.xml").write_text(f"<!--\nWARNING: THIS IS AN AUTO-GENERATED FILE.\n-->\n{text}")
            (tmp_path / "autostart" / f"{name}.xml").symlink_to(tmp_path / f"{name}.xml")
        return tmp_path / "run/libvirt/qemu/autostarted", tmp_path / "run/brine-virt/start-order"

    return make


@pytest.mark.parametrize("encoding", ["unheard-of", "utf-7"])
def test_a_definition_in_an_unknown_encoding_has_no_order(
    tmp_path: Path, script: t.Any, capsys: pytest.CaptureFixture[str], encoding: str
) -> None:
    (tmp_path / "odd.xml").write_text(f'<?xml version="1.0" encoding="{encoding}"?><domain/>')
    assert script.order_in_file(str(tmp_path / "odd.xml")) is None
    assert "odd.xml cannot be read: " in capsys.readouterr().out


def test_libvirt_is_kept_from_starting_them_where_one_has_an_order(tmp_path: Path, host: t.Any, script: t.Any) -> None:
    mark, flag = host(any=domain("any", None), db=domain("db", MachineNotes(order=0)), broken="<domain>")
    script.prepare(str(tmp_path / "autostart"), str(mark), str(flag))
    assert (mark.exists(), flag.exists()) == (True, True)


@pytest.mark.parametrize("started", [True, False])
def test_else_libvirt_starts_them_as_always(tmp_path: Path, host: t.Any, script: t.Any, started: bool) -> None:
    """Where no machine has an order; and where libvirt has started them since the host booted."""
    order = MachineNotes(order=0) if started else MachineNotes(delay_seconds=5)
    mark, flag = host(any=domain("any", None), late=domain("late", order), broken="<domain>")
    if started:
        mark.parent.mkdir(parents=True)
        mark.write_text("")
    script.prepare(str(tmp_path / "autostart"), str(mark), str(flag))
    assert (mark.exists(), flag.exists()) == (started, False)


def test_a_host_where_nothing_starts(tmp_path: Path, script: t.Any) -> None:
    mark, flag = tmp_path / "mark", tmp_path / "flag"
    script.prepare(str(tmp_path / "none"), str(mark), str(flag))
    assert (mark.exists(), flag.exists()) == (False, False)


def test_without_libvirts_bindings_nothing_is_taken_over(tmp_path: Path, host: t.Any) -> None:
    mark, flag = host(db=domain("db", MachineNotes(order=0)))
    code = "import runpy, sys; runpy.run_path(sys.argv[1])['prepare'](*sys.argv[2:])"
    words = [str(FILE), str(tmp_path / "autostart"), str(mark), str(flag)]
    done = subprocess.run([sys.executable, "-S", "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "libvirt" in done.stderr
    assert (mark.exists(), flag.exists()) == (False, False)


def test_on_a_running_host_nothing_is_started_or_stopped(script: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts, restarts or stops the unit there."""
    monkeypatch.setattr(script, "FLAG", "/nonexistent/flag")
    monkeypatch.setattr(script, "connect", lambda *_words: pytest.fail("it has asked libvirt"))
    monkeypatch.setattr(script, "host_stops", lambda: False)
    script.main(["start"])
    script.main(["stop", "--timeout", "1"])


def test_the_flag_goes_when_all_were_started(
    conn: t.Any, script: t.Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "flag"
    monkeypatch.setattr(script, "FLAG", str(flag))
    monkeypatch.setattr(script, "connect", lambda: conn)
    flag.write_text("")
    script.main(["start"])
    assert not flag.exists()
    assert len(up(conn)) == 5


def test_the_metadata_are_read_as_libvirt_gives_them(script: t.Any) -> None:
    with_namespace = etree.fromstring(notes_to_xml(MachineNotes(order=7, delay_seconds=9)))
    assert script.read_turn(with_namespace) == (7, 9)
    assert script.read_turn(etree.fromstring("<machine><start order='7' delay='9'/></machine>")) == (7, 9)
    assert script.read_turn(etree.fromstring("<machine><start order='first' delay='-1'/></machine>")) == (None, 0)
    endless = f"<machine><start order='1' delay='{'9' * 30}'/></machine>"
    assert script.read_turn(etree.fromstring(endless)) == (1, 0)
    for order, read in (("9999", 9999), ("10000", None), ("9" * 30, None)):
        xml = f"<b:machine xmlns:b='urn:brine:virt:1'><b:start order='{order}' delay='9'/></b:machine>"
        notes = notes_from_element(etree.fromstring(xml))
        assert script.read_turn(etree.fromstring(xml)) == (read, 9) == (notes.order, notes.delay_seconds)
    assert script.read_turn(etree.fromstring("<machine/>")) == (None, 0)
