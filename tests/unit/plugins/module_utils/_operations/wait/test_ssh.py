# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking for host keys, with ssh-keyscan's own format of answers."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._operations.wait import ssh
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.ssh import compare_host_keys

ED, ECDSA = "ssh-ed25519 AAAAC3Nz", "ecdsa-sha2-nistp256 AAAAE2Vj"


@pytest.fixture
def keyscan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The answer of a program that is called ssh-keyscan; its arguments are beside it, in C(asked)."""
    program, answer = tmp_path / "ssh-keyscan", tmp_path / "answer"
    program.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/asked\ncat {answer}\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return answer


@pytest.mark.parametrize("port", [22, 2222])
def test_each_address_by_itself(keyscan: Path, port: int) -> None:
    def place(address: str) -> str:
        return address if port == 22 else f"[{address}]:{port}"

    keyscan.write_text(
        f"# comment\n{place('192.0.2.1')} {ED}\n{place('192.0.2.2')} {ED}x\n{place('2001:db8::1')} {ECDSA}\n"
        f"{place('192.0.2.5')} {ECDSA}\n{place('192.0.2.7')} {ECDSA}\n{place('192.0.2.8')} \n"
    )
    known = {
        "192.0.2.1": [f"{ED} root@web1"],
        "192.0.2.2": [ED, ECDSA],
        "2001:db8::1": [ED, ECDSA],
        "192.0.2.4": [ED],
        "192.0.2.5": [ECDSA],
        "192.0.2.6": ["no key"],
        # It has shown another type of key, or none.
        "192.0.2.7": [ED],
        "192.0.2.8": [ED],
    }
    same: dict[str, bool | None] = {
        "192.0.2.1": True,
        "192.0.2.2": False,
        "2001:db8::1": True,
        "192.0.2.4": None,
        "192.0.2.5": True,
        "192.0.2.6": None,
    }
    same.update(dict.fromkeys(("192.0.2.7", "192.0.2.8")))
    assert compare_host_keys(list(known.items()), port) == [same[address] for address in known]
    asked = (keyscan.parent / "asked").read_text().split()
    assert asked[asked.index("-t") + 1] == "ecdsa,ed25519"
    assert asked[asked.index("-p") + 1] == str(port)
    assert "192.0.2.6" not in asked


def test_without_the_program_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert compare_host_keys([("192.0.2.1", [ED])], 22) == [None]


def test_nothing_known_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert compare_host_keys([], 22) == []


def test_a_server_that_only_greets_has_shown_no_key() -> None:
    """The real ssh-keyscan, where there is one; without it the answer is the same."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _address = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"SSH-2.0-x\r\n")

        threading.Thread(target=serve, daemon=True).start()
        assert compare_host_keys([("127.0.0.1", [ED])], server.getsockname()[1]) == [None]


def test_two_machines_that_claim_one_address(keyscan: Path) -> None:
    """Each is compared with its own keys."""
    keyscan.write_text(f"192.0.2.1 {ED}\n")
    known = [("192.0.2.1", [ED]), ("192.0.2.1", [f"{ED}x"])]
    assert compare_host_keys(known, 22) == [True, False]
    assert compare_host_keys(known[::-1], 22) == [False, True]


def test_a_server_that_makes_the_program_wait_keeps_nobody_from_being_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "ssh-keyscan"
    program.write_text(f'#!/bin/sh\ncase "$*" in *192.0.2.66*) exec sleep 20;; esac\necho "192.0.2.1 {ED}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(ssh, "_KEYSCAN_SECONDS", -4)
    assert compare_host_keys([("192.0.2.66", [ED]), ("192.0.2.1", [f"{ED}x"])], 22) == [None, False]


def test_half_a_first_line_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "_GREETING_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        for said, answers in ((b"SSH-2.0-x", False), (b"SSH-2.0-x\r\n", True), (b"HTTP/1.1\r\n", False)):
            guest = threading.Thread(target=_say, args=(server, said), daemon=True)
            guest.start()
            assert ssh.greeting("127.0.0.1", number)[0] is answers
            guest.join()


def _say(server: socket.socket, said: bytes) -> None:
    connection, _address = server.accept()
    with connection:
        connection.sendall(said)
        # Until the other one has had enough.
        connection.recv(1)
