# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest without an agent, as all of libvirt's test driver: it is frozen only where nobody insists."""

from __future__ import annotations

import contextlib
import time
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    UnreachableError,
    UnsupportedError,
)
from ansible_collections.brine.virt.plugins.module_utils._host.backup import quiesce
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection


@pytest.fixture
def domain() -> t.Iterator[t.Any]:
    with open_connection("test:///default") as connection:
        yield connection.lookupByName("test")


def test_without_an_agent_it_depends_on_who_asks(domain: t.Any) -> None:
    assert quiesce.freeze(domain, quiesce.AUTO, 10) is None
    assert quiesce.freeze(domain, quiesce.NO, 10) is None
    with pytest.raises(UnsupportedError, match="the guest agent of machine test does not answer"):
        quiesce.freeze(domain, quiesce.YES, 10)
    assert not quiesce.thawed(None, quiesce.AUTO, "test")


def test_a_paused_guest_is_said_to_be_paused(domain: t.Any) -> None:
    """There is nothing to be mended in the guest."""
    domain.suspend()
    assert quiesce.freeze(domain, quiesce.AUTO, 10) is None
    with pytest.raises(UnsupportedError) as error:
        quiesce.freeze(domain, quiesce.YES, 10)
    assert str(error.value) == (
        "machine test is paused, so its file systems cannot be frozen. Resume it first, or set quiesce: auto"
    )


def test_a_frozen_guest_goes_on_in_time(domain: t.Any) -> None:
    frozen = quiesce.Frozen(domain, 60)
    frozen.freeze()
    assert quiesce.thawed(frozen, quiesce.YES, "test")
    frozen.release()
    late = quiesce.Frozen(domain, 0.05)
    late.freeze()
    time.sleep(0.5)
    with pytest.raises(HostError, match="has not begun within the time"):
        quiesce.thawed(late, quiesce.YES, "test")
    assert not late.held


class Lost:
    """The connection of a machine whose daemon was restarted meanwhile."""

    def __init__(self, domain: t.Any) -> None:
        self._domain = domain

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._domain, name)

    def connect(self) -> t.Any:
        return self

    def isAlive(self) -> int:  # noqa: N802 - libvirt's name
        return 0

    def getURI(self) -> str:  # noqa: N802 - libvirt's name
        return str(self._domain.connect().getURI())

    def fsThaw(self) -> int:  # noqa: N802 - libvirt's name
        raise libvirt.libvirtError("client socket is closed")


def test_a_frozen_guest_goes_on_though_the_connection_is_lost(domain: t.Any) -> None:
    frozen = quiesce.Frozen(Lost(domain), 60)
    frozen.freeze()
    frozen.release()
    assert frozen.held
    # All of them went on.
    assert domain.fsFreeze() > 0


class Stuck:
    """A machine whose agent takes commands and does not do them. limits: what was set for its answers."""

    def __init__(self, domain: t.Any, *broken: str) -> None:
        self._domain, self._broken = domain, broken
        self.limits: list[int] = []

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._domain, name)

    def agentSetResponseTimeout(self, limit: int) -> None:  # noqa: N802 - libvirt's name
        self.limits.append(limit)

    def _does(self, what: str) -> None:
        if what in self._broken:
            raise libvirt.libvirtError(f"{what}: the guest agent does not answer")

    def fsFreeze(self) -> int:  # noqa: N802 - libvirt's name
        self._does("freeze")
        return 1

    def fsThaw(self) -> int:  # noqa: N802 - libvirt's name
        self._does("thaw")
        return 1


def test_a_frozen_guest_is_asked_again_while_libvirt_is_away(monkeypatch: pytest.MonkeyPatch, domain: t.Any) -> None:
    """Nobody can say then that it is off. Its daemon may be away for longer than one attempt waits."""
    away = [1, 1, 1]

    @contextlib.contextmanager
    def reconnected(handle: t.Any, wait_seconds: float | None = None) -> t.Iterator[t.Any]:
        assert wait_seconds == 0 or 0 < t.cast("float", wait_seconds) <= 180
        if away:
            away.pop()
            raise UnreachableError("libvirt does not answer")
        yield handle

    frozen = quiesce.Frozen(Stuck(domain), 60)
    frozen.freeze()
    monkeypatch.setattr(quiesce, "_THAW_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(quiesce, "reconnected_domain", reconnected)
    frozen.release()
    assert (away, frozen.held, frozen.stays) == ([], True, False)


def _never(_handle: t.Any, wait_seconds: float | None = None) -> t.Any:
    """In the place of reconnected_domain, when libvirt does not come back."""
    time.sleep(min(wait_seconds or 0.0, 0.1))
    raise UnreachableError("libvirt does not answer", hint="Start it")


def test_one_that_may_stay_frozen_is_named_whatever_the_error_is(
    monkeypatch: pytest.MonkeyPatch, domain: t.Any
) -> None:
    monkeypatch.setattr(quiesce, "_THAW_SECONDS", 0.3)
    monkeypatch.setattr(quiesce, "_THAW_AGAIN_SECONDS", 0.01)
    frozen = quiesce.Frozen(Stuck(domain), 60)
    frozen.freeze()
    monkeypatch.setattr(quiesce, "reconnected_domain", _never)
    with pytest.raises(UnreachableError) as error, quiesce.thawed_on_error(frozen, "test"):
        raise ConflictError("it was renamed", hint="Run it again")
    assert str(error.value) == (
        "it was renamed; and the file systems of machine test may still be frozen. Run it again. See whether the guest "
        "is frozen, and have it go on: virsh domfsthaw test"
    )
    with pytest.raises(ConflictError, match="^it was renamed$"), quiesce.thawed_on_error(None, "test"):
        raise ConflictError("it was renamed")


def test_one_that_is_thawed_in_the_end_has_the_error_as_it_was(domain: t.Any) -> None:
    frozen = quiesce.Frozen(Stuck(domain), 60)
    frozen.freeze()
    with pytest.raises(ConflictError, match="^it was renamed$"), quiesce.thawed_on_error(frozen, "test"):
        raise ConflictError("it was renamed")
    assert not frozen.stays


def test_all_that_ask_it_to_thaw_wait_for_libvirt_once(monkeypatch: pytest.MonkeyPatch, domain: t.Any) -> None:
    monkeypatch.setattr(quiesce, "_THAW_SECONDS", 0.5)
    monkeypatch.setattr(quiesce, "_THAW_AGAIN_SECONDS", 0.01)
    waits: list[float] = []

    def reconnected(handle: t.Any, wait_seconds: float | None = None) -> t.Any:
        waits.append(t.cast("float", wait_seconds))
        return _never(handle, wait_seconds)

    frozen = quiesce.Frozen(Stuck(domain), 60)
    frozen.freeze()
    monkeypatch.setattr(quiesce, "reconnected_domain", reconnected)
    with pytest.raises(UnreachableError):
        frozen.release()
    assert waits[0] > 0.4
    waits.clear()
    for _number in range(2):
        with pytest.raises(UnreachableError):
            frozen.release()
    # Once whether it goes on, and once whether it is off.
    assert waits == [0, 0, 0, 0]
    assert frozen.stays


@pytest.mark.parametrize("choice", [quiesce.AUTO, quiesce.YES])
def test_a_guest_that_may_stay_frozen_is_an_error(monkeypatch: pytest.MonkeyPatch, domain: t.Any, choice: str) -> None:
    monkeypatch.setattr(quiesce, "can_freeze", lambda _domain: True)
    monkeypatch.setattr(quiesce, "_THAW_SECONDS", 0.1)
    monkeypatch.setattr(quiesce, "_THAW_AGAIN_SECONDS", 0.01)
    with pytest.raises(HostError, match="does not thaw them.*virsh domfsthaw test"):
        quiesce.freeze(Stuck(domain, "freeze", "thaw"), choice, 60)
    if choice == quiesce.AUTO:
        # It goes on: the backup is made without.
        assert quiesce.freeze(Stuck(domain, "freeze"), choice, 60) is None


def test_a_guest_whose_agent_refuses_to_freeze_is_backed_up_without(
    monkeypatch: pytest.MonkeyPatch, domain: t.Any
) -> None:
    """As where its configuration forbids both. Nobody knows what one has done with which the connection ended."""
    monkeypatch.setattr(quiesce, "can_freeze", lambda _domain: True)
    monkeypatch.setattr(quiesce, "_THAW_SECONDS", 0.1)
    monkeypatch.setattr(quiesce, "_THAW_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(libvirt.libvirtError, "get_error_code", lambda _self: libvirt.VIR_ERR_INTERNAL_ERROR)
    monkeypatch.setattr(libvirt.libvirtError, "get_error_domain", lambda _self: libvirt.VIR_FROM_QEMU)
    assert quiesce.freeze(Stuck(domain, "freeze", "thaw"), quiesce.AUTO, 60) is None
    with pytest.raises(HostError, match="^the guest agent could not freeze the file systems: freeze: "):
        quiesce.freeze(Stuck(domain, "freeze", "thaw"), quiesce.YES, 60)
    monkeypatch.setattr(libvirt.libvirtError, "get_error_domain", lambda _self: libvirt.VIR_FROM_RPC)
    with pytest.raises(HostError, match="does not thaw them"):
        quiesce.freeze(Stuck(domain, "freeze", "thaw"), quiesce.AUTO, 60)


def test_no_answer_is_waited_for_without_end(domain: t.Any) -> None:
    machine = Stuck(domain)
    frozen = quiesce.Frozen(machine, 2.5)
    frozen.freeze()
    frozen.release()
    # Nor is there a time without a limit between the two: whoever thaws at that moment would wait for ever.
    assert machine.limits == [3, 3, 300, 300]


class Slow(Stuck):
    """A machine whose agent is still freezing when nobody waits for it any more, and thaws only afterwards."""

    def __init__(self, domain: t.Any, until: float) -> None:
        super().__init__(domain, "freeze")
        self._until = time.monotonic() + until
        self.thawed = 0

    def fsThaw(self) -> int:  # noqa: N802 - libvirt's name
        if time.monotonic() < self._until:
            raise libvirt.libvirtError("the guest agent does not answer")
        self.thawed += 1
        return 1


@pytest.mark.parametrize("choice", [quiesce.AUTO, quiesce.YES])
def test_a_guest_that_freezes_late_is_thawed_all_the_same(
    monkeypatch: pytest.MonkeyPatch, domain: t.Any, choice: str
) -> None:
    monkeypatch.setattr(quiesce, "can_freeze", lambda _domain: True)
    monkeypatch.setattr(quiesce, "_THAW_AGAIN_SECONDS", 0.05)
    machine = Slow(domain, 0.5)
    if choice == quiesce.YES:
        with pytest.raises(HostError, match="could not freeze"):
            quiesce.freeze(machine, choice, 0.1)
    else:
        assert quiesce.freeze(machine, choice, 0.1) is None
    assert machine.thawed == 1


class Empty(Stuck):
    """A machine whose agent has `frozen` file systems to freeze, and finds `thawed` of them frozen afterwards."""

    def __init__(self, domain: t.Any, frozen: int, thawed: int) -> None:
        super().__init__(domain)
        self._frozen, self._thawed = frozen, thawed

    def fsFreeze(self) -> int:  # noqa: N802 - libvirt's name
        return self._frozen

    def fsThaw(self) -> int:  # noqa: N802 - libvirt's name
        return self._thawed


def test_nothing_frozen_is_not_quiesced(monkeypatch: pytest.MonkeyPatch, domain: t.Any) -> None:
    monkeypatch.setattr(quiesce, "can_freeze", lambda _domain: True)
    assert quiesce.freeze(Empty(domain, 0, 0), quiesce.AUTO, 10) is None
    with pytest.raises(HostError, match="no file system that can be frozen"):
        quiesce.freeze(Empty(domain, 0, 0), quiesce.YES, 10)
    # It had them go on by itself.
    early = quiesce.freeze(Empty(domain, 2, 0), quiesce.AUTO, 10)
    assert early is not None
    assert not quiesce.thawed(early, quiesce.AUTO, "test")


def test_a_machine_that_has_gone_is_asked_no_more(monkeypatch: pytest.MonkeyPatch, domain: t.Any) -> None:
    """And its error is one of ours."""

    class Gone(Stuck):
        def isActive(self) -> bool:  # noqa: N802 - libvirt's name
            error = libvirt.libvirtError("Domain not found")
            error.err = (libvirt.VIR_ERR_NO_DOMAIN, 0, "Domain not found", 0, "", None, None, 0, 0)
            raise error

    monkeypatch.setattr(quiesce, "_THAW_AGAIN_SECONDS", 60)
    frozen = quiesce.Frozen(Gone(domain, "thaw"), 10)
    frozen.freeze()
    with pytest.raises(HostError, match="could not thaw"):
        frozen.release()
    assert not frozen.stays
