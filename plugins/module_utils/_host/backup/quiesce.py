# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest whose file systems hold still while its backup begins, by its agent (guest-fsfreeze-freeze)."""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
import typing as t

from ..._base.errors import HostError, NotFoundError, UnreachableError, UnsupportedError, VirtError
from ..._base.xml import read_description
from ..._model.attachments import agent_is_connected
from ..connection import agent_limit, libvirt, nothing_frozen, reconnected_domain, translate_errors

AUTO, YES, NO = "auto", "true", "false"
# How long a guest is asked again to thaw: one with much to write freezes long after its answer was given up.
_THAW_SECONDS, _THAW_AGAIN_SECONDS = 180.0, 2.0


class Frozen:
    """Freezes the guest's file systems, and has them go on: at release(), at the latest after a time.

    held: whether they were still frozen at release().
    """

    def __init__(self, domain: t.Any, seconds: float) -> None:
        self._domain = domain
        self._lock = threading.Lock()
        self._is_frozen = False
        self._seconds = seconds
        self._timer = threading.Timer(seconds, self._late)
        self._timer.daemon = True
        self._was_late = False
        self._end: float | None = None
        # From the freeze on until they go on: an end in between would be that of a thaw that has begun meanwhile.
        self._limits = contextlib.ExitStack()
        self.held = False

    def freeze(self) -> None:
        """Raises VirtError when the guest does not do it; then nothing is frozen, as far as it can be known."""
        try:
            with translate_errors("the guest agent could not freeze the file systems"):
                self._limits.enter_context(agent_limit(self._domain, self._seconds))
                # From here on: a freeze whose answer does not come may have frozen something, or do so later.
                self._is_frozen = True
                self._timer.start()
                try:
                    frozen = self._domain.fsFreeze()
                except libvirt.libvirtError as exc:
                    self._is_frozen = not nothing_frozen(self._domain, exc)
                    raise
            if frozen == 0:
                raise HostError("the guest agent has no file system that can be frozen")
        except BaseException:
            with contextlib.suppress(Exception):
                self.release()
            raise

    def _late(self) -> None:
        self._was_late = True
        with contextlib.suppress(Exception):
            self._thaw()

    def _thaw(self) -> None:
        """An agent does one thing after the other: one that is still freezing thaws only then, and until then libvirt
        does not even send that on. One end for all that ask: who comes after it asks once."""
        with self._lock:
            self._end = self._end or time.monotonic() + _THAW_SECONDS
            while self._is_frozen:
                try:
                    self._ask_to_thaw(max(0.0, self._end - time.monotonic()))
                except VirtError:
                    if self._is_off():
                        self._is_frozen = False
                    if not self._is_frozen or time.monotonic() > self._end:
                        raise
                    time.sleep(_THAW_AGAIN_SECONDS)

    def _is_off(self) -> bool:
        """Whether there is nothing left to thaw. Where nobody can say, as libvirt is away, there may be."""
        try:
            with reconnected_domain(self._domain, wait_seconds=0) as domain, translate_errors("cannot inspect it"):
                return not domain.isActive()
        except NotFoundError:
            return True
        except VirtError:
            return False

    def _ask_to_thaw(self, wait_seconds: float) -> None:
        """wait_seconds: for libvirt. A guest that is frozen has nobody else when that is restarted."""
        what = "the guest agent could not thaw the file systems"
        again = reconnected_domain(self._domain, wait_seconds)
        with again as domain, translate_errors(what), agent_limit(domain, self._seconds):
            thawed = domain.fsThaw()
        self._is_frozen = False
        if thawed == 0:
            # They went on by themselves, as Windows has them after some seconds.
            self._was_late = True

    def release(self) -> None:
        """Have them go on; may be called twice. Raises VirtError when the guest does not do it for minutes."""
        was_frozen = self._is_frozen
        self._timer.cancel()
        try:
            self._thaw()
        finally:
            self.held = was_frozen and not self._was_late
            self._limits.close()

    @property
    def stays(self) -> bool:
        """Whether they may be frozen still."""
        return self._is_frozen


def can_freeze(domain: t.Any) -> bool:
    """Whether the guest's agent is there. Raises VirtError."""
    name = domain.name()
    with translate_errors(f"cannot inspect machine {name}"):
        if domain.state()[0] != libvirt.VIR_DOMAIN_RUNNING:
            return False
        return agent_is_connected(read_description(f"machine {name}", domain.XMLDesc(0)))


def freeze(domain: t.Any, choice: str, seconds: float) -> Frozen | None:
    """Freeze as the option ``quiesce`` has it; None where nothing was frozen. Raises VirtError where it has to be."""
    if choice == NO:
        return None
    if not can_freeze(domain):
        if choice == YES and domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
            raise UnsupportedError(
                f"machine {domain.name()} is paused, so its file systems cannot be frozen",
                hint="Resume it first, or set quiesce: auto",
            )
        if choice == YES:
            raise UnsupportedError(
                f"the guest agent of machine {domain.name()} does not answer, so its file systems cannot be frozen",
                hint="Start qemu-guest-agent in the guest, or set quiesce: auto",
            )
        return None
    frozen = Frozen(domain, seconds)
    try:
        frozen.freeze()
    except Exception as exc:
        if frozen.stays:
            raise HostError(
                f"the guest agent of machine {domain.name()} was asked to freeze its file systems, and does not thaw "
                f"them: {exc}",
                hint=_by_hand(domain.name()),
            ) from exc
        if choice == YES:
            raise
        return None
    return frozen


def _by_hand(name: str) -> str:
    return f"See whether the guest is frozen, and have it go on: virsh domfsthaw {shlex.quote(name)}"


@contextlib.contextmanager
def thawed_on_error(frozen: Frozen | None, name: str) -> t.Iterator[None]:
    """Whatever the block raises, the guest's file systems go on; where they may not, the UnreachableError that is
    raised instead says so. frozen: as freeze returns it."""
    try:
        yield
    except BaseException as exc:
        if frozen is not None:
            with contextlib.suppress(VirtError):
                frozen.release()
            if frozen.stays and isinstance(exc, VirtError):
                what = f"{exc.what}; and the file systems of machine {name} may still be frozen"
                hint = ". ".join(filter(None, (exc.hint, _by_hand(name))))
                raise UnreachableError(what, hint=hint) from exc
        raise


def thawed(frozen: Frozen | None, choice: str, name: str) -> bool:
    """Release; whether everything was frozen until now. Raises HostError where it was not and has to be."""
    if frozen is None:
        return False
    frozen.release()
    if not frozen.held and choice == YES:
        raise HostError(
            f"the backup of machine {name} has not begun within the time that its file systems may be frozen",
            hint="Set freeze_timeout higher, or quiesce: auto",
        )
    return frozen.held
