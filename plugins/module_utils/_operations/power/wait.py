# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for the power state that a machine is to be in.

The state itself is asked once a second. libvirt's events only wake the wait up before that, so that one that got lost,
as when the daemon restarts, costs a second and not the whole time. A reboot is the exception: the machine is
``running`` before and after it, and only the event tells of it.
"""

from __future__ import annotations

import contextlib
import threading
import typing as t

from ..._host.connection import VirConnect, libvirt, run_events, translate_errors
from ..._host.machines.record import state_name
from ..wait.stopped import state_words

_LOOK_SECONDS = 1.0
# The driver that has an event for each reset of a machine, whoever resets it. Of others, the call is all there is.
_TELLS_OF_REBOOTS = "QEMU"


class StateWatch:
    """One machine's state, and whether it was reset, from the beginning of the block to its end."""

    def __init__(self, conn: VirConnect, handle: t.Any) -> None:
        self.conn = conn
        self._handle = handle
        self._news = threading.Event()
        self._ids: list[int] = []
        self.reset = False
        with translate_errors("cannot ask libvirt for its driver"):
            self.tells_of_reboots = conn.getType() == _TELLS_OF_REBOOTS

    def __enter__(self) -> StateWatch:
        run_events()
        self._register(libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, lambda *_event: self._news.set())
        reboots = self._register(libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, self._note_reset)
        self.tells_of_reboots = self.tells_of_reboots and reboots
        return self

    def __exit__(self, *_exc: object) -> None:
        for number in self._ids:
            with contextlib.suppress(libvirt.libvirtError):
                self.conn.domainEventDeregisterAny(number)

    def _register(self, event: int, note: t.Callable[..., None]) -> bool:
        """Whether the driver has such events; without them the state is asked."""
        with contextlib.suppress(libvirt.libvirtError):
            self._ids.append(self.conn.domainEventRegisterAny(self._handle, event, note, None))
            return True
        return False

    def _note_reset(self, *_event: object) -> None:
        self.reset = True
        self._news.set()

    def state(self) -> str:
        """The state now, as a machine's record has it. Raises NotFoundError when the machine is gone."""
        with translate_errors(f"cannot read the state of machine {self._handle.name()}"):
            return state_name(self._handle.state()[0])

    def state_words(self) -> str:
        """The state now, with the reason that libvirt gives for it. Raises NotFoundError when the machine is gone."""
        with translate_errors(f"cannot read the state of machine {self._handle.name()}"):
            return state_words(*self._handle.state()[:2])

    def wait_for_news(self, seconds: float) -> None:
        """Come back when something has happened to the machine, or soon."""
        self._news.wait(max(0.0, min(seconds, _LOOK_SECONDS)))
        self._news.clear()

    def wake(self) -> None:
        """End the wait that is under way."""
        self._news.set()


class LibvirtCall:
    """One call to libvirt in a thread of its own, so that one that hangs holds nobody up.

    done: takes no argument, and is called when it has ended.
    """

    def __init__(self, call: t.Callable[[], t.Any], done: t.Callable[[], None]) -> None:
        self._ended = threading.Event()
        self.error: Exception | None = None

        def run() -> None:
            try:
                call()
            except Exception as exc:  # carried over to the thread that waits
                self.error = exc
            self._ended.set()
            done()

        threading.Thread(target=run, name="power", daemon=True).start()

    @property
    def ended(self) -> bool:
        """Whether it has come back, with an error or without."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Whether it comes back within this time."""
        return self._ended.wait(seconds)
