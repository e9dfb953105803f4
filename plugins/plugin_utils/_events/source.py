# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The events of many hypervisors, into the queue of ansible-rulebook."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import typing as t
from collections.abc import Mapping

from ...module_utils._host.connection import require_libvirt
from .crashes import CrashCounter
from .harmless import without_templates
from .hypervisor import HypervisorEvents
from .machines import Event
from .request import read_request

# How often a thread that waits for room in the queue looks whether it is still wanted.
_LOOK_SECONDS = 1.0
_LOG = logging.getLogger(__name__)


async def tell_events(queue: t.Any, arguments: Mapping[str, t.Any]) -> None:
    """Put the events of the hypervisors into a queue, until the task is cancelled.

    queue: asyncio's, or what has its put(). arguments: of the source in the rulebook. Raises InputError for what is
    wrong with them, UnsupportedError when Python has no libvirt.
    """
    request = read_request(arguments)
    require_libvirt()
    loop = asyncio.get_running_loop()
    ended = threading.Event()
    crashes = CrashCounter()

    def deliver(event: Event) -> None:
        """Wait until the queue takes it: that is how many events wait in the buffer, and not in memory without end."""
        event = crashes.counted(without_templates(event))
        putting = queue.put(event)
        try:
            answer = asyncio.run_coroutine_threadsafe(putting, loop)
        except RuntimeError:
            # The loop has ended.
            putting.close()
            return
        while not concurrent.futures.wait([answer], _LOOK_SECONDS).done:
            if ended.is_set():
                answer.cancel()
                return
        error = None
        with contextlib.suppress(concurrent.futures.CancelledError):
            error = answer.exception()
        if error is not None:
            # Of an event filter, which runs in here. It takes this event, and no other, and no hypervisor.
            _LOG.error("an event of hypervisor %s was not taken: %r", event.get("hypervisor"), error)

    hypervisors = [HypervisorEvents(name, request, deliver) for name in request.hypervisors]
    # Daemons: one that waits for a hypervisor out of reach must not keep the program from its end.
    threads = [
        threading.Thread(target=hypervisor.run, name=f"events of {name}", daemon=True)
        for name, hypervisor in zip(request.hypervisors, hypervisors)
    ]
    for thread in threads:
        thread.start()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        ended.set()
        for hypervisor in hypervisors:
            hypervisor.stop()
