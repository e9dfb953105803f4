# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One change of a machine's power state: asked of libvirt, then waited for."""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
import typing as t

from ..._base.errors import HostError, NotFoundError, VirtError, stopped
from ..._host.connection import libvirt, translate_error
from ..wait.log_text import console_lines, written_at
from ..wait.stopped import qemu_log_end
from .plan import STARTS, UP, Action
from .view import PowerView, view_machine
from .wait import LibvirtCall, StateWatch

# What does not depend on a guest has at least this long, whatever the task's time limit is.
_LIBVIRT_SECONDS = 60.0
# So long the hypervisor is kept from others while libvirt takes a request. A guest agent may need minutes to answer.
_ASK_SECONDS = 10.0
# A guest that is still booting does not hear of the first request.
_ASK_AGAIN_SECONDS = 20.0
_ABORT_SECONDS = 10.0
_SETTLE_SECONDS = 1.0
_LOG_LINES = 3
_FORCE_HINT = "With force=true it is done without the guest"

_POWERED_OFF = frozenset({"shutoff", "crashed"})
_REACHED: dict[Action, frozenset[str]] = {
    Action.START: UP,
    Action.RESTORE: UP,
    Action.RESUME: UP,
    Action.WAKE: UP,
    Action.PAUSE: frozenset({"paused"}),
    Action.SHUT_DOWN: _POWERED_OFF,
    Action.POWER_OFF: _POWERED_OFF,
    Action.SAVE: _POWERED_OFF,
}
BY_GUEST = frozenset({Action.SHUT_DOWN, Action.REBOOT})
_GOES_ON = STARTS | {Action.RESUME}
_LIMITED = BY_GUEST | {Action.SAVE}


class NotDoneError(HostError):
    """The machine has not come to the state in time, or its guest cannot even be asked."""


def _restore(handle: t.Any) -> None:
    handle.create()
    # One that was paused when it was saved comes back so.
    if handle.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
        handle.resume()


_CALLS: dict[Action, t.Callable[[t.Any], t.Any]] = {
    Action.START: lambda handle: handle.create(),
    Action.RESTORE: _restore,
    Action.RESUME: lambda handle: handle.resume(),
    Action.WAKE: lambda handle: handle.pMWakeup(0),
    Action.PAUSE: lambda handle: handle.suspend(),
    # Without flags, libvirt asks the guest agent, and presses the power button (ACPI) where none answers.
    Action.SHUT_DOWN: lambda handle: handle.shutdown(),
    Action.REBOOT: lambda handle: handle.reboot(0),
    Action.POWER_OFF: lambda handle: handle.destroy(),
    Action.RESET: lambda handle: handle.reset(0),
    Action.SAVE: lambda handle: handle.managedSave(0),
}


class Change:
    """One action on one machine, begun by the constructor.

    machine: as it was seen a moment ago. timeout_seconds: the task's. stop: set when nobody waits for the end any more.
    """

    def __init__(
        self, action: Action, machine: PowerView, watch: StateWatch, timeout_seconds: float, stop: threading.Event
    ) -> None:
        self._action = action
        self._machine = machine
        self._watch = watch
        self._stop = stop
        self._seconds = timeout_seconds if action in _LIMITED else max(timeout_seconds, _LIBVIRT_SECONDS)
        self._deadline = time.monotonic() + self._seconds
        self._began = time.time()
        watch.reset = False
        self._times_asked = 0
        self._call = self._ask()
        # What libvirt says against asking again does not count: the guest may be on its way by then.
        self._first = self._call

    def _ask(self) -> LibvirtCall:
        call, handle = _CALLS[self._action], self._machine.handle
        self._asked_at = time.monotonic()
        self._times_asked += 1
        return LibvirtCall(lambda: call(handle), self._watch.wake)

    def wait_until_taken(self) -> None:
        """Wait until libvirt has taken the request. One that starts opens its volumes, so that it is waited for."""
        left = self._deadline - time.monotonic()
        self._call.wait(left if self._action in STARTS else min(left, _ASK_SECONDS))

    def finish(self) -> None:
        """Wait until the machine is in the state. Raises NotDoneError, or what libvirt said against it."""
        while True:
            left = self._deadline - time.monotonic()
            # Before the state is read: a machine that is off by now cannot be asked any more, and has done it.
            error = self._first.error
            if self._reached():
                self._settle()
                return
            if error is not None:
                self._raise(error)
            self._require_not_stopped()
            self._require_not_paused()
            if self._stop.is_set():
                self._abort()
                raise stopped()
            if left <= 0:
                self._abort()
                # It may have come to an end in the meantime.
                if self._reached():
                    return
                raise self._too_late()
            if self._asks_again():
                self._call = self._ask()
            self._watch.wait_for_news(left)

    def _asks_again(self) -> bool:
        return self._action in BY_GUEST and self._call.ended and time.monotonic() - self._asked_at >= _ASK_AGAIN_SECONDS

    def _reached(self) -> bool:
        if self._action is Action.RESET:
            return self._call.ended and self._call.error is None
        state = self._watch.state()
        if self._action is Action.REBOOT:
            return self._rebooted(state)
        # A call that still runs has more to do, such as to write what it saved; a guest agent may never answer.
        return state in _REACHED[self._action] and (self._call.ended or self._action in BY_GUEST)

    def _rebooted(self, state: str) -> bool:
        if state in _POWERED_OFF:
            raise HostError(
                f"it has stopped instead of rebooting, and is {state}",
                hint="Its definition may say so (events: {reboot: destroy})",
            )
        if self._watch.tells_of_reboots:
            return self._watch.reset and state in UP
        return self._call.ended and self._call.error is None

    def _require_not_stopped(self) -> None:
        """Raise HostError when it has started, and has stopped again before it was seen running."""
        if self._action not in STARTS or not self._call.ended or self._watch.state() not in _POWERED_OFF:
            return
        lines, why_none = qemu_log_end(self._watch.conn, self._machine.name)
        log = f"QEMU's log ends with: {' | '.join(lines)}" if lines else why_none
        raise HostError(f"it has started and stopped again: it is {self._watch.state_words()}; {log}")

    def _require_not_paused(self) -> None:
        """Raise HostError when it goes on, and an error pauses it, as before or for the first time."""
        if self._action not in _GOES_ON or not self._call.ended or self._watch.state() != "paused":
            return
        trouble = view_machine(self._machine.handle).paused_by
        if trouble is not None:
            raise HostError(
                f"it is paused{' again' if self._action is Action.RESUME else ''} {trouble}",
                hint=f"Remove the cause first. virsh domblkerror {shlex.quote(self._machine.name)} names disks with an "
                "I/O error, as when their storage is full",
            )

    def _settle(self) -> None:
        """A machine that was paused by an error runs for a moment, also where that is still there."""
        end = time.monotonic() + _SETTLE_SECONDS
        while self._machine.paused_by is not None and self._action is Action.RESUME and time.monotonic() < end:
            self._require_not_paused()
            self._watch.wait_for_news(end - time.monotonic())

    def _raise(self, error: Exception) -> t.NoReturn:
        if not isinstance(error, libvirt.libvirtError):
            raise error
        translated = translate_error(error, f"it could not {self._action.value}")
        if self._action in BY_GUEST and not isinstance(translated, NotFoundError):
            raise NotDoneError(f"{translated.what}; {self._guest_words()}", hint=_FORCE_HINT) from error
        if self._action is Action.RESTORE and translated.hint is None:
            # As with a definition that has changed since, or a file that is gone.
            translated.hint = (
                "Its saved state is kept. To start it without, as after a power cut: "
                f"virsh managedsave-remove {shlex.quote(self._machine.name)}"
            )
        snapshot = self._machine.deleting
        if self._action in STARTS and snapshot is not None:
            # Its definition may name a file that is gone, of which libvirt says no more than that.
            raise HostError(
                f"{translated.what}; the deletion of its snapshot {snapshot} has not ended",
                hint=f"Run virt_snapshot with state: absent and name: {snapshot} again, which finishes it",
            ) from error
        raise translated from error

    def _abort(self) -> None:
        """Saving goes on for as long as there is memory to write, unless it is told not to."""
        if self._action is Action.SAVE and not self._call.ended:
            with contextlib.suppress(libvirt.libvirtError):
                self._machine.handle.abortJob()
            self._call.wait(_ABORT_SECONDS)

    def _too_late(self) -> VirtError:
        what = f"it did not {self._action.value} within {self._seconds:g} s: it is {self._watch.state()}"
        if self._action in BY_GUEST:
            what += f", {self._guest_words()}"
            hint = f"It may still do so. Give it a longer timeout. {_FORCE_HINT}"
        elif self._action is Action.SAVE:
            what += ", and saving was cancelled"
            hint = "Give it a longer timeout"
        else:
            hint = f"See virsh domstate --reason {self._machine.name} and libvirt's log"
        return NotDoneError(what, hint=hint)

    def _guest_words(self) -> str:
        """What was seen of the guest while it was waited for."""
        words = (
            "its guest agent is connected, so it was asked by that, and by ACPI if the agent refused"
            if self._machine.agent
            else "its guest agent is not connected, so it was asked by ACPI"
        )
        if self._times_asked > 1:
            words += f", {self._times_asked} times"
        if self._watch.reset and self._action is Action.SHUT_DOWN:
            words += "; it has rebooted meanwhile"
        if self._machine.serial_log is None:
            return words
        lines = console_lines(self._machine.serial_log, _LOG_LINES)
        if not lines:
            return f"{words}; its serial console showed nothing"
        silent = written_at(self._machine.serial_log) < self._began
        shown = "has shown nothing since, and ends with" if silent else "ends with"
        return f"{words}; its serial console {shown}: {' | '.join(lines)}"
