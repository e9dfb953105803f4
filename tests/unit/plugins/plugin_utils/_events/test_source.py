# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source as ansible-rulebook runs it, on libvirt's test driver."""

from __future__ import annotations

import asyncio
import runpy
import shutil
import threading
import time
import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._events import hypervisor
from ansible_collections.brine.virt.plugins.plugin_utils._events.source import tell_events
from ansible_collections.brine.virt.tests.unit.conftest import ROOT
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._events.conftest import SHARED

PLUGIN = ROOT / "ansible_collections/brine/virt/extensions/eda/plugins/event_source/domains.py"
_SECONDS = 600
Event = dict[str, t.Any]


class Listener:
    """Takes events out of the queue, one at a time."""

    def __init__(self, **arguments: t.Any) -> None:
        self.queue: asyncio.Queue[Event] = asyncio.Queue(maxsize=1)
        self._arguments = arguments

    async def __aenter__(self) -> Listener:
        main = runpy.run_path(str(PLUGIN))["main"]
        self._task = asyncio.create_task(main(self.queue, self._arguments))
        return self

    async def __aexit__(self, *_exc: t.Any) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        # All connections of one process share this driver's queue of events. One that is put into it in the moment in
        # which the last callback goes (virObjectEventStateQueueRemote asks for that before it locks) stays there, and
        # no later one is told of any more. So nobody changes a machine before the threads have ended.
        for thread in threading.enumerate():
            if thread.name.startswith("events of "):
                await asyncio.to_thread(thread.join, _SECONDS)

    async def next(self) -> Event:
        """The next event."""
        taken = asyncio.create_task(self.queue.get())
        await asyncio.wait({taken, self._task}, timeout=_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not taken.done():
            taken.cancel()
            # What has gone wrong, if that is why there is none.
            await asyncio.wait_for(self._task, 1)
        return taken.result()

    async def until(self, fits: Callable[[Event], bool]) -> Event:
        """The next event that fits."""
        while not fits(event := await self.next()):
            pass
        return event


def listening(proof: Callable[[Listener], t.Coroutine[t.Any, t.Any, None]], **arguments: t.Any) -> None:
    async def run() -> None:
        async with Listener(**arguments) as listener:
            await proof(listener)

    asyncio.run(run())


def test_what_happens_is_told_in_its_order(machine: t.Any) -> None:
    async def proof(listener: Listener) -> None:
        first = await listener.next()
        assert {key: first[key] for key in ("hypervisor", "uri", "type", "change")} == {
            "hypervisor": "hv1",
            "uri": SHARED,
            "type": "hypervisor",
            "change": "connected",
        }
        for change in (machine.suspend, machine.resume, machine.destroy, machine.create):
            change()
        told = [await listener.next() for _number in range(4)]
        assert [(event["change"], event["reason"]) for event in told] == [
            ("suspended", "paused"),
            ("resumed", "unpaused"),
            ("stopped", "destroyed"),
            ("started", "booted"),
        ]
        assert {(event["machine"], event["uuid"], event["type"], event["missed"]) for event in told} == {
            ("test", machine.UUIDString(), "lifecycle", False)
        }
        assert all(event["at"].endswith("Z") for event in told)

    listening(proof, hypervisors={"hv1": SHARED})


def test_only_what_is_asked_for_is_told(machine: t.Any) -> None:
    async def proof(listener: Listener) -> None:
        await listener.next()
        machine.destroy()
        machine.create()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(listener.queue.get(), 0.5)

    listening(proof, hypervisors={"hv1": SHARED}, types=["hypervisor"])


def test_a_hypervisor_that_cannot_be_reached_is_told_whatever_is_asked_for(tmp_path: Path) -> None:
    """A wrong URI or a key that is missing would look as if nothing happened there, for ever."""

    async def proof(listener: Listener) -> None:
        silent = await listener.next()
        assert (silent["type"], silent["hypervisor"], silent["change"]) == ("hypervisor", "hv1", "silent")

    listening(proof, hypervisors={"hv1": f"test://{tmp_path}/none.xml"}, types=["lifecycle"])


def test_what_a_filter_fails_at_is_said_and_nothing_else_is_lost(
    machine: t.Any, caplog: pytest.LogCaptureFixture
) -> None:
    """ansible-rulebook runs the rulebook's filters as it takes an event."""

    class Filtered(asyncio.Queue[Event]):
        async def put(self, event: Event) -> None:
            if event["change"] in ("connected", "suspended"):
                raise TimeoutError(event["change"])
            await super().put(event)

    async def proof(listener: Listener) -> None:
        end = time.monotonic() + _SECONDS
        while not caplog.records:
            assert time.monotonic() < end
            await asyncio.sleep(0.01)
        machine.suspend()
        machine.resume()
        assert (await listener.next())["change"] == "resumed"

    async def run() -> None:
        listener = Listener(hypervisors={"hv1": SHARED})
        listener.queue = Filtered()
        async with listener:
            await proof(listener)

    asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == [
        f"an event of hypervisor hv1 was not taken: TimeoutError('{change}')" for change in ("connected", "suspended")
    ]


def test_machines_have_their_tags(machine: t.Any) -> None:
    notes = "<brine:machine xmlns:brine='urn:brine:virt:1' status='ready'><brine:tag>web</brine:tag></brine:machine>"
    conn = machine.connect()
    conn.defineXML(
        f"<domain type='test'><name>tagged</name><metadata>{notes}</metadata><memory>1024</memory>"
        "<os><type>hvm</type></os></domain>"
    )

    async def proof(listener: Listener) -> None:
        await listener.next()
        conn.lookupByName("tagged").create()
        event = await listener.next()
        assert (event["machine"], event["change"], event["tags"], event["managed"]) == (
            "tagged",
            "started",
            ["web"],
            True,
        )
        machine.suspend()
        machine.resume()
        assert (await listener.until(lambda event: event["machine"] == "test"))["managed"] is False

    try:
        listening(proof, hypervisors={"hv1": SHARED})
    finally:
        conn.lookupByName("tagged").destroy()
        conn.lookupByName("tagged").undefine()


def test_a_hypervisor_that_is_silent_is_named_once_and_found_when_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hypervisor, "_FIRST_RETRY_SECONDS", 0.05)
    node = tmp_path / "node.xml"

    async def proof(listener: Listener) -> None:
        silent = await listener.next()
        assert (silent["hypervisor"], silent["change"]) == ("late", "silent")
        assert silent["error"].startswith(f"cannot connect to test://{node}: ")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(listener.queue.get(), 0.5)
        ready = tmp_path / "ready.xml"
        ready.write_text(
            "<node><domain type='test'><name>a</name><memory>1024</memory><os><type>hvm</type></os></domain></node>"
        )
        shutil.move(ready, node)
        found = await listener.next()
        assert (found["change"], found["machines"]) == ("connected", 1)
        assert found["silent_seconds"] >= 0.5

    listening(proof, hypervisors={"late": f"test://{node}"}, retry_seconds=1)


def test_many_hypervisors_at_once(tmp_path: Path) -> None:
    (tmp_path / "node.xml").write_text("<node/>")
    hypervisors = {f"hv{number}": f"test://{tmp_path / 'node.xml'}" for number in range(50)}

    async def proof(listener: Listener) -> None:
        told = [await listener.next() for _name in hypervisors]
        assert {event["hypervisor"] for event in told} == set(hypervisors)
        assert {event["change"] for event in told} == {"connected"}

    listening(proof, hypervisors=hypervisors)


def test_mistakes_end_the_source_with_a_sentence() -> None:
    with pytest.raises(InputError, match="unknown option 'hypervisor'"):
        asyncio.run(tell_events(asyncio.Queue(), {"hypervisor": {"hv1": SHARED}}))


def test_elsewhere_it_says_where_it_belongs(tmp_path: Path) -> None:
    shutil.copy(PLUGIN, tmp_path / "domains.py")
    with pytest.raises(ImportError, match="is not where ansible-galaxy puts it"):
        runpy.run_path(str(tmp_path / "domains.py"))
