# SPDX-License-Identifier: GPL-3.0-or-later
"""libvirt's daemon of the benchmark's own: no driver but the test driver, on one TCP port of 127.0.0.1.

It runs without privileges, with a configuration and directories of its own. Any other libvirt here stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ...scenario.cloud import Failure

PACKAGE = "libvirt-daemon"
_NOBODY = "65534"
_START_SECONDS = 20.0


def find_libvirtd(build: Path) -> Path:
    """The daemon of this machine, or else that of the distribution's package, unpacked in ``build`` and not installed.

    Raises Failure when there is neither.
    """
    here = shutil.which("libvirtd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if here:
        return Path(here)
    unpacked = build / PACKAGE
    daemon = unpacked / "usr/sbin/libvirtd"
    if not daemon.exists():
        unpacked.mkdir(parents=True, exist_ok=True)
        for command in (["apt-get", "download", PACKAGE], ["sh", "-c", "dpkg -x ./*.deb ."]):
            done = subprocess.run(command, cwd=unpacked, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Failure(f"there is no libvirtd, and {PACKAGE} cannot be had: {done.stderr[-1000:]}")
    return daemon


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody has just now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def running_daemon(libvirtd: Path, place: Path) -> Iterator[int]:
    """The daemon for the block, and the port where it answers. place: an empty directory, gone after it."""
    place.chmod(0o755)
    port = free_port()
    shutil.copy(libvirtd, place / "libvirtd")
    (place / "drivers").mkdir()
    own = place / "own"
    own.mkdir()
    own.chmod(0o777)
    settings = {
        "listen_tls": 0,
        "listen_tcp": 1,
        "listen_addr": '"127.0.0.1"',
        "tcp_port": f'"{port}"',
        "auth_tcp": '"none"',
    }
    configuration = place / "libvirtd.conf"
    configuration.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()), encoding="utf-8")
    user = [] if os.geteuid() else ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    directories = ("HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
    with (
        (place / "log").open("wb") as log,
        subprocess.Popen(
            [*user, place / "libvirtd", "--listen", "--config", configuration],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **dict.fromkeys(directories, str(own)), "LIBVIRT_DRIVER_DIR": str(place / "drivers")},
            start_new_session=True,  # Ctrl-C ends the benchmark, which ends the daemon
        ) as process,
    ):
        try:
            _await_port(process, port, place / "log")
            yield port
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _await_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise Failure(f"libvirtd does not answer: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}")


@contextlib.contextmanager
def running_line(target: int, milliseconds: float) -> Iterator[int]:
    """A line with this round trip to a port, for the block; the port where it begins."""
    if not milliseconds:
        yield target
        return
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("delay.py")), str(target), str(milliseconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says anything, for the block."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])
