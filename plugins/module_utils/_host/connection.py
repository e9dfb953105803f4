# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way to one hypervisor's libvirt: open, close, libvirt's errors as ours, and calls with a time limit.

libvirt has no time limit for calls, so those that need one run in daemon threads, many side by side if asked to. Not
``concurrent.futures``: its threads are joined when Python exits, so that a single call that never comes back would keep
the whole program from ending.

The only ``import libvirt`` of the collection. Whoever needs a constant takes ``connection.libvirt``.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import math
import queue
import re
import sys
import threading
import time
import traceback
import typing as t
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from .._base.errors import (
    ConflictError,
    HostError,
    InputError,
    NotFoundError,
    UnreachableError,
    UnsupportedError,
    VirtError,
    as_virt_error,
    single_line,
)

LIBVIRT_IMPORT_ERROR: str | None = None
try:
    import libvirt
except ImportError:
    libvirt = None
    LIBVIRT_IMPORT_ERROR = traceback.format_exc()

DEFAULT_URI = "qemu:///system"
# Also one with characters that should have been escaped; what is no name and password is a host and its port.
_URI_PASSWORD = re.compile(r"://[^/?#\s:@\[]*:(?!\d+[/?#])(?P<password>.+)@")
# For opening a connection. A daemon that socket activation has to start first takes a few seconds.
OPEN_SECONDS = 15.0
# A peer that has not answered this often, at this interval, is taken for gone.
_KEEPALIVE_SECONDS, _KEEPALIVE_COUNT = 5, 4
# Daemons start again, and cables are plugged in again.
_AGAIN_SECONDS = 60.0
LIBVIRT_PACKAGES = "package python3-libvirt, on SUSE python3-libvirt-python"

# How long libvirt waits for a guest agent whenever nobody has said otherwise. Its own default is without end, and some
# of its calls, as a snapshot with frozen file systems, read the limit twice: one that another call had set, and taken
# back, would let the second half wait for ever. Enough for a trim of large disks.
_AGENT_REST_SECONDS = 300

# A connection, a domain and so on as libvirt-python gives them; it has no type information.
VirConnect = t.Any
LibvirtError = t.Any
Item = t.TypeVar("Item")
Value = t.TypeVar("Value")

# Names of libvirt's error codes (https://libvirt.org/html/libvirt-virterror.html#virErrorNumber) by what they mean to
# us. By name, because an older libvirt lacks the newest codes.
_CLASSES_BY_CODE_NAME: tuple[tuple[type[VirtError], tuple[str, ...]], ...] = (
    (
        NotFoundError,
        (
            "VIR_ERR_NO_DOMAIN",
            "VIR_ERR_NO_DOMAIN_METADATA",
            "VIR_ERR_NO_DOMAIN_SNAPSHOT",
            "VIR_ERR_NO_INTERFACE",
            "VIR_ERR_NO_NETWORK",
            "VIR_ERR_NO_NODE_DEVICE",
            "VIR_ERR_NO_NWFILTER",
            "VIR_ERR_NO_SECRET",
            "VIR_ERR_NO_STORAGE_POOL",
            "VIR_ERR_NO_STORAGE_VOL",
        ),
    ),
    (
        ConflictError,
        (
            "VIR_ERR_DOM_EXIST",
            "VIR_ERR_MIGRATE_UNSAFE",
            "VIR_ERR_NETWORK_EXIST",
            "VIR_ERR_OPERATION_INVALID",
            "VIR_ERR_RESOURCE_BUSY",
            "VIR_ERR_STORAGE_POOL_BUILT",
            "VIR_ERR_STORAGE_VOL_EXIST",
        ),
    ),
    (
        UnsupportedError,
        (
            "VIR_ERR_ARGUMENT_UNSUPPORTED",
            "VIR_ERR_CONFIG_UNSUPPORTED",
            "VIR_ERR_CPU_INCOMPATIBLE",
            "VIR_ERR_NO_SUPPORT",
            "VIR_ERR_OPERATION_UNSUPPORTED",
        ),
    ),
    (
        UnreachableError,
        (
            "VIR_ERR_AUTH_CANCELLED",
            "VIR_ERR_AUTH_DENIED",
            "VIR_ERR_AUTH_FAILED",
            "VIR_ERR_AUTH_UNAVAILABLE",
            "VIR_ERR_GNUTLS_ERROR",
            "VIR_ERR_INVALID_CONN",
            "VIR_ERR_LIBSSH",
            "VIR_ERR_NO_CONNECT",
            "VIR_ERR_NO_SERVER",
            "VIR_ERR_RPC",
            "VIR_ERR_SSH",
            "VIR_ERR_SYSTEM_ERROR",
            "VIR_ERR_UNKNOWN_HOST",
        ),
    ),
)

# Of libvirt's words for an error.
_MOST_CHARACTERS = 2000

_reported = threading.local()


def _take_error_report(_context: t.Any, error: t.Any) -> None:
    """libvirt prints every error to standard error unless somebody takes it; all of them reach us as exceptions.

    It is kept for the exception that this thread raises next, see _keep_reports.
    """
    _reported.error = error
    # libvirt calls this from the function of libvirt-python that raises a moment later.
    _reported.function = sys._getframe(1).f_code


def _keep_reports(error_class: t.Any) -> None:
    """Have libvirt's exceptions know their error even when the garbage collector ran just before they were made.

    libvirt-python makes an exception from libvirt's last error of the thread, and a handle that is freed resets that
    one. When the collector frees one between the two, the exception has no code: what is merely not there looks like
    a failure. Seen with libvirt-python 12.8 on Python 3.11 and 3.12.
    """
    make = error_class.__init__

    def make_whole(self: t.Any, *words: t.Any, **named: t.Any) -> None:
        make(self, *words, **named)
        reported = getattr(_reported, "error", None)
        _reported.error = None
        # A report that no exception followed is not the next one's: it may say that something is merely not there.
        if self.err is None and reported is not None and _reported.function is sys._getframe(1).f_code:
            self.err = reported
            self.args = (reported[2],)

    error_class.__init__ = make_whole


if libvirt is not None:
    libvirt.registerErrorHandler(_take_error_report, None)
    _keep_reports(libvirt.libvirtError)


def _class_of(exc: LibvirtError) -> type[VirtError]:
    code = exc.get_error_code()
    for error_class, names in _CLASSES_BY_CODE_NAME:
        # An error without a code is none of those that this libvirt lacks.
        if code is not None and code in {getattr(libvirt, name, None) for name in names}:
            # A failed system call is the connection's only when the remote protocol reports it: a full disk is not.
            if code == libvirt.VIR_ERR_SYSTEM_ERROR and exc.get_error_domain() not in (
                libvirt.VIR_FROM_RPC,
                libvirt.VIR_FROM_REMOTE,
            ):
                return HostError
            return error_class
    return HostError


def translate_error(exc: LibvirtError, what: str, where: str | None = None) -> VirtError:
    """libvirt's error as the class of ours that its code stands for.

    what: the clause that says what was being done (``cannot start machine web1``); libvirt's own words follow it.
    where: path in the user's input. Raise the result ``from exc``.
    """
    words = single_line(exc.get_error_message() or exc)
    # Some are a guest agent's own, as long as the guest likes.
    words = words if len(words) <= _MOST_CHARACTERS else f"{words[:_MOST_CHARACTERS]}..."
    return _class_of(exc)(f"{what}: {words}", where=where)


def host_name(conn: VirConnect) -> str:
    """The hypervisor's name, as its libvirt says it. Raises an error of ours."""
    with translate_errors("cannot ask libvirt for its host name"):
        return str(conn.getHostname())


@contextlib.contextmanager
def translate_errors(what: str, where: str | None = None) -> t.Iterator[None]:
    """Inside the block, a libvirt error is raised as one of ours; everything else passes.

    So is an answer that is no text: libvirt hands on bytes that a guest has said, such as a DHCP host name, and its
    bindings cannot decode them.
    """
    # Without the module nothing in the block can raise its error.
    caught: t.Any = libvirt.libvirtError if libvirt is not None else ()
    try:
        yield
    except caught as exc:
        raise translate_error(exc, what, where) from exc
    except UnicodeDecodeError as exc:
        raise HostError(f"{what}: libvirt's answer has bytes in it that are not UTF-8", where=where) from exc


def version_text(number: int) -> str:
    """A version as people read it; libvirt writes 9.0.0 as 9000000."""
    return f"{number // 1_000_000}.{number // 1_000 % 1_000}.{number % 1_000}"


def by_name(volumes: t.Iterable[t.Any]) -> dict[str, t.Any]:
    """Volumes of one pool by their names. Left out is one whose name is not UTF-8, such as a file unpacked from another
    system's archive: libvirt's bindings cannot decode it, nobody can ask for it, and it is not to hide the others."""
    found = {}
    for volume in volumes:
        with contextlib.suppress(UnicodeDecodeError):
            found[volume.name()] = volume
    return found


class suppress_codes:  # noqa: N801 - used like contextlib.suppress
    """As contextlib.suppress, for libvirt's errors with one of these codes: such an error only ends the block."""

    def __init__(self, *codes: int | None) -> None:
        self._codes = codes

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: t.Any, exc: BaseException | None, _trace: t.Any) -> bool:
        return isinstance(exc, libvirt.libvirtError) and exc.get_error_code() in self._codes


def of_those_there(things: t.Iterable[Item], ask: t.Callable[[Item], Value]) -> list[Value]:
    """``ask(thing)`` of each, such as its XML, without those that have gone since they were listed."""
    gone = [
        libvirt.VIR_ERR_NO_INTERFACE,
        libvirt.VIR_ERR_NO_NETWORK,
        libvirt.VIR_ERR_NO_STORAGE_POOL,
        libvirt.VIR_ERR_NO_STORAGE_VOL,
    ]
    found = []
    for thing in things:
        with suppress_codes(*gone):
            found.append(ask(thing))
    return found


@dataclass(frozen=True)
class ItemResult(t.Generic[Value]):
    """What became of one item: its value, or the error instead."""

    value: Value | None = None
    error: VirtError | None = None


def run_in_time(work: t.Callable[[], Value], timeout_seconds: float, late: str = "no answer") -> Value:
    """What ``work()`` returns. Raises UnreachableError when that takes longer, and leaves its thread behind.

    late: what the error says then, before the time. What the work returns after all is dropped.
    """
    (outcome,) = map_in_threads(lambda _nothing: work(), [None], threads=1, timeout_seconds=timeout_seconds, late=late)
    if outcome.error is not None:
        raise outcome.error
    return t.cast("Value", outcome.value)


def map_in_threads(
    work: t.Callable[[Item], Value],
    items: Sequence[Item],
    *,
    threads: int,
    timeout_seconds: float | None = None,
    late: str = "no answer",
) -> list[ItemResult[Value]]:
    """``work(item)`` for every item, at most ``threads`` at once; outcomes stand in the order of the items.

    timeout_seconds: limit for all of them together; what has no answer by then has an UnreachableError, and its
    thread is left behind. late: what that error says, before the time. Whatever an item raises is its outcome alone;
    what is no VirtError becomes one (as_virt_error).
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Value | None, Exception | None]] = queue.SimpleQueue()
    for index in range(len(items)):
        waiting.put(index)
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((index, work(items[index]), None))
            except Exception as exc:  # carried to the thread that asked
                done.put((index, None, exc))

    for _number in range(min(threads, len(items))):
        threading.Thread(target=run, daemon=True).start()

    unanswered: ItemResult[Value] = ItemResult(error=UnreachableError(f"{late} within {timeout_seconds or 0:g} s"))
    outcomes = [unanswered] * len(items)
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    try:
        for _item in items:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            index, value, error = done.get(timeout=left)
            outcomes[index] = ItemResult(value, None if error is None else as_virt_error(error))
    except queue.Empty:
        pass  # the time is up: the rest stays unanswered
    finally:
        stop.set()
    return outcomes


@contextlib.contextmanager
def agent_limit(domain: t.Any, seconds: float, *, required: bool = False) -> t.Iterator[None]:
    """In the block, libvirt waits no longer for the agent of a machine, domain, than so many seconds for each answer.

    An agent that takes a command and never answers would block libvirt's call, and all that comes after it. The limit
    belongs to the machine, not to the call: afterwards it is _AGENT_REST_SECONDS, as a short one that stayed would cut
    off the long freeze of a backup. required: where there can be no limit, nobody is asked. Raises what libvirt raises.
    """
    with suppress_codes(*([] if required else [libvirt.VIR_ERR_NO_SUPPORT])):
        domain.agentSetResponseTimeout(max(1, math.ceil(seconds)))
    try:
        yield
    finally:
        with contextlib.suppress(libvirt.libvirtError):
            domain.agentSetResponseTimeout(_AGENT_REST_SECONDS)


def nothing_frozen(domain: t.Any, exc: LibvirtError) -> bool:
    """Whether no file system is frozen after this error of fsFreeze; the guest is told to thaw then, in any case.

    The agent has answered with it, an internal one before libvirt had one of its own for that, and thaws itself what it
    froze before one that it cannot. Or the guest is paused, and libvirt asks no agent then. Otherwise the agent may
    have frozen something, or do it later.
    """
    internal = libvirt.VIR_ERR_INTERNAL_ERROR
    answered = getattr(libvirt, "VIR_ERR_AGENT_COMMAND_FAILED", internal)
    # A connection to libvirt that ends is an internal error, too, but none of its driver for QEMU.
    of_qemu = exc.get_error_domain() == libvirt.VIR_FROM_QEMU
    if not of_qemu or exc.get_error_code() not in (internal, answered, libvirt.VIR_ERR_OPERATION_INVALID):
        return False
    with contextlib.suppress(libvirt.libvirtError):
        domain.fsThaw()
    return True


def password_in(uri: str) -> str | None:
    """The password in a URI, or in what was given as one; None where there is none."""
    found = _URI_PASSWORD.search(uri)
    return found and found["password"]


def require_no_password(uri: str, where: str | None = None) -> None:
    """Raise InputError for a URI with a password. libvirt takes none from there, and repeats the URI in its errors."""
    if password_in(uri) is not None:
        raise InputError("a password in an address is not read here, nor repeated", where=where, hint="Leave it out")


def is_local(uri: str) -> bool:
    """Whether this URI means libvirt of the machine that this code runs on; the test driver is nobody's machine."""
    parts = urlsplit(uri)
    driver, _plus, transport = parts.scheme.partition("+")
    return driver != "test" and not parts.hostname and transport in ("", "unix")


def require_local(uri: str, what: str) -> None:
    """Raise InputError where a URI means libvirt of another host. what: where the task has to run, in words."""
    if not is_local(uri):
        raise InputError(f"{uri} is another host", where="uri", hint=f"Run this on the hypervisor {what}")


def _has_ended(exc: LibvirtError) -> bool:
    """Whether a daemon that had taken the connection has closed it before it answered."""
    broken = (errno.ECONNRESET, errno.EPIPE, errno.EIO)
    return exc.get_error_domain() == libvirt.VIR_FROM_RPC and exc.get_int1() in broken


def make_uri(*, host: str, transport: str, user: str | None = None, port: int | None = None) -> str:
    """libvirt's URI of a hypervisor's system connection by this transport: ``local``, ``tls`` or ``ssh``."""
    if transport == "local":
        return DEFAULT_URI
    address = f"[{host}]" if ":" in host else host
    if transport == "tls":
        return f"qemu+tls://{address}/system"
    login = f"{user}@" if user else ""
    return f"qemu+ssh://{login}{address}{f':{port}' if port else ''}/system"


def require_libvirt() -> None:
    """Raise UnsupportedError when Python has no libvirt; modules ask earlier and say it in Ansible's own words."""
    if libvirt is None:
        raise UnsupportedError(
            "Python cannot import libvirt",
            hint=f"Install libvirt-python for the interpreter that runs this ({LIBVIRT_PACKAGES})",
        )


@contextlib.contextmanager
def open_connection(
    uri: str, *, read_only: bool = False, timeout_seconds: float = OPEN_SECONDS, keepalive: bool = True
) -> t.Iterator[VirConnect]:
    """An open libvirt connection (virConnect) for the block, closed after it.

    read_only: a read-only connection is refused everything that changes something, and guest agent calls.
    timeout_seconds: limit for opening alone. libvirt has none of its own, so the opening goes on in a daemon thread
    that nobody waits for; what it may still get is closed when it is dropped, by libvirt-python (virConnect.__del__).
    keepalive: later calls fail within half a minute when the daemon is frozen or out of reach; without it a call waits
    for ever, or as long as TCP does, a quarter of an hour. It takes a thread for the rest of the process.
    Raises UnreachableError when libvirt does not answer, UnsupportedError when Python lacks libvirt, InputError for a
    password in the URI.
    """
    require_libvirt()
    require_no_password(uri)
    opener = libvirt.openReadOnly if read_only else libvirt.open

    def connect() -> VirConnect:
        with translate_errors(f"cannot connect to {uri}"):
            try:
                return opener(uri)
            except libvirt.libvirtError as exc:
                if not is_local(uri) or not _has_ended(exc):
                    raise
                # The distributions' daemons end after two minutes without a client. One that was just about to has
                # taken this connection with it; systemd starts the next one.
                return opener(uri)

    if keepalive:
        with translate_errors(f"cannot connect to {uri}"):
            run_events()
    connection = run_in_time(connect, timeout_seconds, f"{uri} did not answer")
    try:
        if keepalive:
            # A driver that has no daemon (test:///) says that it has no such thing, and has no need of it.
            with contextlib.suppress(libvirt.libvirtError):
                connection.setKeepAlive(_KEEPALIVE_SECONDS, _KEEPALIVE_COUNT)
        yield connection
    finally:
        # A connection that broke meanwhile cannot be closed properly, and the block has its own error to tell.
        with contextlib.suppress(libvirt.libvirtError):
            connection.close()


def answers(conn: VirConnect) -> bool:
    """Whether a connection is still one: when its daemon has ended, it stays lost, also when the next one runs."""
    try:
        return bool(conn.isAlive() and conn.getLibVersion())
    except libvirt.libvirtError:
        return False


@contextlib.contextmanager
def reconnected(known: VirConnect, uri: str, wait_seconds: float | None = None) -> t.Iterator[VirConnect]:
    """For the block the connection that is known, as long as it answers; otherwise, or for None, a new one to the URI,
    which is tried for so long, by default a minute, as libvirt's daemon may be starting. Raises as open_connection
    does."""
    with contextlib.ExitStack() as stack:
        if known is None or not answers(known):
            known = _open_patiently(stack, uri, _AGAIN_SECONDS if wait_seconds is None else wait_seconds)
        yield known


def _open_patiently(stack: contextlib.ExitStack, uri: str, wait_seconds: float) -> VirConnect:
    end = time.monotonic() + wait_seconds
    while True:
        try:
            return stack.enter_context(open_connection(uri))
        except VirtError:
            if time.monotonic() > end:
                raise
            time.sleep(1)


@contextlib.contextmanager
def reconnected_domain(domain: t.Any, wait_seconds: float | None = None) -> t.Iterator[t.Any]:
    """For the block libvirt's handle of a machine over a connection that answers, as of reconnected: the same one, or
    that of the machine with the same UUID. Raises VirtError."""
    known = domain.connect()
    with reconnected(known, known.getURI(), wait_seconds) as conn:
        if conn is known:
            yield domain
            return
        with translate_errors(f"cannot find machine {domain.name()}"):
            found = conn.lookupByUUIDString(domain.UUIDString())
        yield found


@functools.cache
def run_events() -> None:
    """libvirt's event loop, which is the program's to run: in it, libvirt asks the other side for signs of life, and
    tells what happens to machines. Only for connections that are opened after this."""
    libvirt.virEventRegisterDefaultImpl()

    def run() -> None:
        while True:
            libvirt.virEventRunDefaultImpl()

    threading.Thread(target=run, name="libvirt events", daemon=True).start()
