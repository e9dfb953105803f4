# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Opening and closing libvirt, and its errors as ours, on libvirt's own test driver."""

from __future__ import annotations

import gc
import inspect
import socket
import threading
import time
import typing as t
import weakref
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    InputError,
    NotFoundError,
    UnreachableError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._host import connection
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    _AGENT_REST_SECONDS,
    agent_limit,
    make_uri,
    open_connection,
    require_local,
    translate_errors,
)

TEST_URI = "test:///default"


def test_the_connection_is_open_inside_the_block_and_closed_after_it() -> None:
    with open_connection(TEST_URI) as conn:
        assert conn.isAlive()
        assert conn.getURI() == TEST_URI
    with pytest.raises(connection.libvirt.libvirtError):
        conn.getURI()


def test_a_read_only_connection_is_refused_changes() -> None:
    with open_connection(TEST_URI, read_only=True, timeout_seconds=600) as conn:
        domain = conn.lookupByName("test")
        with (
            pytest.raises(HostError, match="cannot stop machine test: .*read only"),
            translate_errors("cannot stop machine test"),
        ):
            domain.destroy()


def test_a_libvirt_that_is_not_there_is_unreachable() -> None:
    uri = "qemu+unix:///system?socket=/nonexistent/libvirt-sock"
    with pytest.raises(UnreachableError) as caught, open_connection(uri):
        pass
    assert str(caught.value).startswith(f"cannot connect to {uri}: ")
    assert "/nonexistent/libvirt-sock" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_daemon_that_ends_just_then_is_asked_again(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as ending:
        ending.bind(str(tmp_path / "socket"))
        ending.listen()
        ending.settimeout(60)
        taken = []

        def end_twice() -> None:
            for _time in range(2):
                client, _address = ending.accept()
                taken.append(client.recv(4))
                client.close()

        thread = threading.Thread(target=end_twice)
        thread.start()
        with (
            pytest.raises(UnreachableError, match="Connection reset by peer"),
            open_connection(f"qemu+unix:///system?socket={tmp_path}/socket"),
        ):
            pass
        thread.join()
    assert len(taken) == 2


def test_a_libvirt_that_never_answers_costs_its_time_limit_and_no_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never says a word
        uri = f"test+tcp://127.0.0.1:{silent.getsockname()[1]}/default"
        started = time.monotonic()
        with (
            pytest.raises(UnreachableError, match="did not answer within 0.3 s"),
            open_connection(uri, timeout_seconds=0.3),
        ):
            pass
        assert time.monotonic() - started < 300


def test_a_connection_that_comes_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[weakref.ref[t.Any]] = []
    real = connection.libvirt.open
    given_up = threading.Event()

    def open_late(uri: str) -> t.Any:
        given_up.wait(60)
        conn = real(uri)
        opened.append(weakref.ref(conn))
        return conn

    monkeypatch.setattr(connection.libvirt, "open", open_late)
    with pytest.raises(UnreachableError), open_connection(TEST_URI, timeout_seconds=0.1):
        pass
    given_up.set()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and (not opened or opened[0]() is not None):
        time.sleep(0.05)
    # Nobody holds it any more: libvirt-python has closed it with that.
    assert opened[0]() is None


def test_nobody_opens_a_connection_without_a_limit() -> None:
    limit = inspect.signature(open_connection).parameters["timeout_seconds"].default
    assert 0 < limit <= 15


def test_libvirt_prints_nothing_itself(capfd: pytest.CaptureFixture[str]) -> None:
    with open_connection(TEST_URI) as conn, pytest.raises(NotFoundError), translate_errors("x"):
        conn.lookupByName("nobody")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("call", "error_class"),
    [
        (lambda conn: conn.lookupByName("nobody"), NotFoundError),
        (lambda conn: conn.networkLookupByName("nothing"), NotFoundError),
        (lambda conn: conn.storagePoolLookupByName("nothing"), NotFoundError),
        (lambda conn: conn.storagePoolLookupByName("default-pool").undefine(), ConflictError),
        (lambda conn: conn.getDomainCapabilities(), UnsupportedError),
        (lambda conn: conn.defineXML("<domain"), HostError),
    ],
)
def test_the_code_of_an_error_decides_its_class(call: object, error_class: type[VirtError]) -> None:
    assert callable(call)
    with (
        open_connection(TEST_URI) as conn,
        pytest.raises(error_class) as caught,
        translate_errors("doing this", "here"),
    ):
        call(conn)
    assert caught.value.__class__ is error_class  # and not a class below it
    assert str(caught.value).startswith("here: doing this: ")
    assert isinstance(caught.value.__cause__, connection.libvirt.libvirtError)


@pytest.mark.parametrize("said", ["\x1b]0;title\x07\x1b[2J", "\x9b31m", "\u202egnp.exe", "two\nlines\r"])
def test_what_libvirt_repeats_cannot_draw_on_a_terminal(said: str) -> None:
    """A guest agent chooses the words of its errors, which libvirt hands on."""
    with open_connection(TEST_URI) as conn, pytest.raises(NotFoundError) as caught, translate_errors("cannot look"):
        conn.storagePoolLookupByName(said)
    assert str(caught.value).isprintable()


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(ValueError, match="mine"), translate_errors("anything"):
        raise ValueError("mine")


def test_an_error_keeps_its_code_whenever_the_garbage_collector_runs() -> None:
    codes = set()
    before = gc.get_threshold()
    with open_connection(TEST_URI) as conn:
        pool = conn.storagePoolLookupByName("default-pool")
        try:
            gc.set_threshold(1)
            for _round in range(500):
                # What only the collector can free, like the frames of an error that was caught.
                ring: list[t.Any] = [conn.lookupByName("test")]
                ring.append(ring)
                del ring
                try:
                    pool.storageVolLookupByName("nothing")
                except connection.libvirt.libvirtError as exc:
                    codes.add(exc.get_error_code())
        finally:
            gc.set_threshold(*before)
    assert codes == {connection.libvirt.VIR_ERR_NO_STORAGE_VOL}


@pytest.mark.parametrize(
    ("arguments", "uri"),
    [
        ({"host": "hv1", "transport": "ssh"}, "qemu+ssh://hv1/system"),
        ({"host": "hv1", "transport": "ssh", "user": "me", "port": 2222}, "qemu+ssh://me@hv1:2222/system"),
        ({"host": "2001:db8::1", "transport": "ssh", "user": "me"}, "qemu+ssh://me@[2001:db8::1]/system"),
        ({"host": "hv1", "transport": "tls", "user": "me", "port": 2222}, "qemu+tls://hv1/system"),
        ({"host": "hv1", "transport": "local"}, "qemu:///system"),
    ],
)
def test_uris(arguments: dict[str, t.Any], uri: str) -> None:
    assert make_uri(**arguments) == uri


def test_an_error_without_a_report_gets_that_of_no_other_call() -> None:
    libvirt = connection.libvirt

    def look_up(conn: t.Any) -> t.Any:
        # libvirt's function itself, without what raises in libvirt-python: no exception follows its report.
        return libvirt.libvirtmod.virDomainLookupByName(conn._o, "nothing")

    with open_connection(TEST_URI) as conn:
        assert look_up(conn) is None
        libvirt.virResetLastError()
        error = libvirt.libvirtError("virStorageVolDelete() failed")
    assert (error.get_error_code(), str(error)) == (None, "virStorageVolDelete() failed")


def test_an_error_without_a_code_is_none_that_this_libvirt_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    # As an older libvirt.
    monkeypatch.delattr(connection.libvirt, "VIR_ERR_NO_DOMAIN_METADATA")
    error = connection.libvirt.libvirtError("virStorageVolDelete() failed")
    assert connection.translate_error(error, "cannot delete it").__class__ is HostError


def test_an_error_is_no_longer_than_somebody_reads() -> None:
    """Of a guest agent's error libvirt repeats every word."""
    error = connection.libvirt.libvirtError("a" * 100_000)
    assert len(str(connection.translate_error(error, "the guest agent did not answer"))) < 3000


@pytest.mark.parametrize("uri", ["qemu+ssh://hv2/system", "qemu+tls://hv2/system", "test:///default"])
def test_what_works_on_this_host_alone_refuses_another(uri: str) -> None:
    require_local("qemu:///system", "to restore to")
    with pytest.raises(InputError) as raised:
        require_local(uri, "to restore to")
    assert str(raised.value) == f"uri: {uri} is another host. Run this on the hypervisor to restore to"


class Machine:
    """Notes the limits that are set."""

    def __init__(self) -> None:
        self.limits: list[int] = []

    def agentSetResponseTimeout(self, limit: int) -> None:  # noqa: N802 - libvirt's name
        self.limits.append(limit)


@pytest.mark.parametrize(("seconds", "limit"), [(2.5, 3), (0.01, 1), (60, 60)])
def test_the_limit_is_a_long_one_afterwards(seconds: float, limit: int) -> None:
    machine = Machine()
    with pytest.raises(ValueError, match="inside"), agent_limit(machine, seconds):
        assert machine.limits == [limit]
        raise ValueError("inside")
    assert machine.limits == [limit, _AGENT_REST_SECONDS]


def test_a_driver_without_agents() -> None:
    with open_connection("test:///default") as connection, agent_limit(connection.lookupByName("test"), 5):
        pass


def test_an_answer_that_is_no_text_is_an_error_of_ours() -> None:
    words = r"^cannot list them: libvirt's answer has bytes in it that are not UTF-8"
    with pytest.raises(HostError, match=words), translate_errors("cannot list them"):
        b"\xed\xa0\x80".decode()


class Gone:
    """A connection whose daemon has ended."""

    def isAlive(self) -> int:  # noqa: N802 - libvirt's name
        return 0


def test_a_new_connection_only_where_the_known_one_is_lost() -> None:
    with open_connection("test:///default") as conn:
        domain = conn.lookupByName("test")
        with connection.reconnected(conn, "test:///nowhere") as same:
            assert same is conn
        with connection.reconnected_domain(domain) as handle:
            assert handle is domain
    for known in (Gone(), None):
        with connection.reconnected(known, "test:///default") as other:
            assert other.lookupByName("test").isActive()
    # One that was closed is no connection any more either.
    assert not connection.answers(conn)


def test_a_daemon_that_is_starting_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried = []

    def opener(uri: str) -> t.Any:
        tried.append(uri)
        return open_connection("test:///default" if len(tried) > 1 else f"test://{tmp_path}/nowhere.xml")

    monkeypatch.setattr(connection, "open_connection", opener)
    with connection.reconnected(Gone(), "qemu:///system") as conn:
        assert conn.isAlive()
    assert tried == ["qemu:///system"] * 2
    tried.clear()
    with pytest.raises(VirtError), connection.reconnected(None, "qemu:///system", wait_seconds=0):
        pytest.fail("connected")
    assert len(tried) == 1
