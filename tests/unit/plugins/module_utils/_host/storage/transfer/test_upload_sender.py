# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the process that sends something is still there."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host import identity as host_identity
from ansible_collections.brine.virt.plugins.module_utils._host.identity import process_start_ticks
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.upload import (
    Sender,
    ask_sender,
    new_upload,
    sending,
)
from ansible_collections.brine.virt.plugins.module_utils._model.image.marks import Upload


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with an id of its own, wherever the tests run."""
    (tmp_path / "machine-id").write_text("0e1d2c3b4a5968778695a4b3c2d1e0ff\n", encoding="ascii")
    monkeypatch.setattr(host_identity, "_MACHINE_ID", str(tmp_path / "machine-id"))


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of this host."""
    with subprocess.Popen(["sleep", "60"]) as child:
        yield child
        child.kill()


def upload_of(pid: int) -> Upload:
    started = process_start_ticks(pid)
    assert started is not None
    return dataclasses.replace(new_upload("hv1"), pid=pid, started=started)


def test_a_sender_that_runs_and_one_that_has_ended(process: subprocess.Popen[bytes]) -> None:
    upload = upload_of(process.pid)
    assert ask_sender(upload, "hv1") is Sender.ALIVE
    process.kill()
    process.wait()
    assert ask_sender(upload, "hv1") is Sender.GONE


def test_another_process_with_the_same_number(process: subprocess.Popen[bytes]) -> None:
    later = dataclasses.replace(upload_of(process.pid), started=1)
    assert ask_sender(later, "hv1") is Sender.GONE


def test_the_host_has_been_started_again(process: subprocess.Popen[bytes]) -> None:
    before = dataclasses.replace(upload_of(process.pid), boot="another")
    assert ask_sender(before, "hv1") is Sender.GONE


def test_a_process_of_another_host_cannot_be_asked(process: subprocess.Popen[bytes]) -> None:
    assert ask_sender(upload_of(process.pid), "hv3") is Sender.UNKNOWN


@pytest.mark.parametrize("their_id", ["0123456789abcdef0123456789abcdef", ""])
def test_a_process_of_another_host_of_the_same_name_cannot_be_asked(their_id: str) -> None:
    """Many hosts call themselves localhost, and what was started there has another boot id. Nor is anything known of
    a host without an id of its own."""
    theirs = dataclasses.replace(new_upload("localhost"), machine=their_id, boot="another", pid=1, started=1)
    assert ask_sender(theirs, "localhost") is Sender.UNKNOWN


def test_a_host_without_an_id_knows_its_own_processes_until_it_is_started_again(
    monkeypatch: pytest.MonkeyPatch, process: subprocess.Popen[bytes]
) -> None:
    monkeypatch.setattr(host_identity, "_MACHINE_ID", "/nonexistent")
    upload = upload_of(process.pid)
    assert ask_sender(upload, "hv1") is Sender.ALIVE
    assert ask_sender(dataclasses.replace(upload, boot="another"), "hv1") is Sender.UNKNOWN


def test_a_transfer_of_this_process_is_alive_as_long_as_it_sends() -> None:
    """A second thread comes to the same image when one target has two URIs."""
    upload = new_upload("hv1")
    with sending(upload):
        assert ask_sender(upload, "hv1") is Sender.ALIVE
    assert ask_sender(upload, "hv1") is Sender.GONE


def test_two_transfers_are_never_taken_for_one() -> None:
    assert new_upload("hv1").token != new_upload("hv1").token
