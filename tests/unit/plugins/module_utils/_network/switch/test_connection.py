# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By which SSH connection a module was called, told by the process of the server."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._network.switch import connection

TICKS = os.sysconf("SC_CLK_TCK")
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
# 192.0.2.10:22 from 198.51.100.7 (established), and what else there is: a listening socket, a forwarded connection.
TCP = (
    f"{HEAD}   0: 00000000:0016 00000000:0000 0A 0:0 0:0 0 0 0 11 1\n"
    "   1: 0A0200C0:0016 076433C6:D431 01 0:0 0:0 0 0 0 12 1\n"
    "   2: 0A0200C0:D000 010200C0:1F90 01 0:0 0:0 0 0 0 13 1\n"
)
# 2001:db8::7.
TCP6 = (
    f"{HEAD}   0: B80D0120000000000000000001000000:0016 B80D0120000000000000000007000000:D431 01 0:0 0:0 0 0 0 14 1\n"
)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., None]:
    """Processes, each the child of the one after it: (name, ticks at its start, inodes of its files)."""
    monkeypatch.setattr(connection, "_PROC", str(tmp_path))
    answer = '[{"addr_info": [{"local": "192.0.2.10"}, {"local": "2001:db8::10"}]}]'
    monkeypatch.setattr(connection, "run", lambda *_command: answer)

    def make(*processes: tuple[str, int, tuple[int, ...]]) -> None:
        number = os.getpid()
        for position, (name, ticks, inodes) in enumerate(processes):
            parent = 1 if position == len(processes) - 1 else number + 1
            folder = tmp_path / str(number)
            (folder / "fd").mkdir(parents=True)
            (folder / "net").mkdir()
            (folder / "net/tcp").write_text(TCP)
            (folder / "net/tcp6").write_text(TCP6)
            (folder / "stat").write_text(f"{number} ({name}) S {parent} {'0 ' * 17}{ticks} 0 0\n")
            (folder / "fd/0").symlink_to("/dev/null")
            for file, inode in enumerate(inodes):
                (folder / "fd" / str(3 + file)).symlink_to(f"socket:[{inode}]")
            number += 1

    return make


@pytest.mark.parametrize("server", ["sshd", "sshd-session", "dropbear"])
@pytest.mark.parametrize(("inodes", "peer"), [((12, 13), "198.51.100.7"), ((11, 14), "2001:db8::7"), ((), None)])
def test_the_server_of_the_connection_is_the_nearest_one(
    proc: t.Callable[..., None], server: str, inodes: tuple[int, ...], peer: str | None
) -> None:
    proc(
        *(("python3 (x) y", 900, ()), ("sudo", 890, ())),
        *((server, 50 * TICKS, inodes), (server, 40 * TICKS, ())),
    )
    assert connection.ssh_connection() == connection.SshConnection(50.0, peer)


def test_below_no_server_nothing_is_known(proc: t.Callable[..., None]) -> None:
    proc(("python3", 900, ()), ("systemd-run", 800, (12,)))
    assert connection.ssh_connection() is None
    connection.check_newer(1e9)
    connection.check_proves(None)


def test_a_connection_has_to_be_newer(proc: t.Callable[..., None]) -> None:
    proc(("python3", 0, ()), ("sshd", 50 * TICKS, (12,)))
    connection.check_newer(49.9)
    connection.check_newer(50.01)
    with pytest.raises(HostError, match="over a connection that is older than the change, and so proves nothing"):
        connection.check_newer(50.1)


@pytest.mark.parametrize(
    ("own", "proves"), [("192.0.2.10", False), ("198.51.100.7", True), ("127.0.0.1", False), ("2001:db8::10", False)]
)
def test_a_call_of_the_host_itself_proves_nothing(
    proc: t.Callable[..., None], monkeypatch: pytest.MonkeyPatch, own: str, proves: bool
) -> None:
    proc(("python3", 0, ()))
    monkeypatch.setattr(connection, "ssh_connection", lambda: connection.SshConnection(1, own))
    if proves:
        connection.check_proves("ssh")
    else:
        with pytest.raises(UnsupportedError, match=f"this call comes from the host itself .{own}., so nobody"):
            connection.check_proves("ssh")


@pytest.mark.parametrize("name", ["local", "ansible.builtin.local", "community.docker.docker", "chroot"])
def test_a_connection_without_the_network_proves_nothing(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"by the connection {name}, which works without the network"):
        connection.check_proves(name)
