# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virt_wait says of machines that do not answer, on libvirt's test driver."""

from __future__ import annotations

import contextlib
import types
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.state import WaitState
from ansible_collections.brine.virt.plugins.modules import virt_wait


@pytest.fixture
def conn(monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    with open_connection("test:///default") as connection:
        monkeypatch.setattr(virt_wait, "open_connection", lambda _uri: contextlib.nullcontext(connection))
        # All connections of one process have the same machine, and a test before may have left one open.
        machine = connection.lookupByName("test")
        if not machine.isActive():
            machine.create()
        yield connection


def failure(**params: t.Any) -> dict[str, t.Any]:
    """The result of the failure."""
    results: list[dict[str, t.Any]] = []
    module = types.SimpleNamespace(
        params={"uri": "", "names": ["test"], "port": 1, "timeout": 300, PROGRESS_FILE: None, **params},
        check_mode=False,
        fail_json=lambda **result: results.append(result),
    )
    virt_wait.work(t.cast("t.Any", module))
    return results[0]


def said(**params: t.Any) -> str:
    """The message of the failure."""
    return str(failure(**params)["msg"])


def test_a_machine_that_is_off_is_not_waited_for(conn: t.Any) -> None:
    """No limit has passed, so none is named."""
    conn.lookupByName("test").destroy()
    result = failure()
    assert result["msg"] == (
        "test is not reachable (failed at: running): it is shutoff (somebody powered it off). "
        "To start it: ansible-playbook brine.virt.power -e vm=test -e state=running"
    )
    assert result["report"].startswith(result["msg"])
    (machine,) = result["machines"]
    assert machine["failed_stage"] == "running"
    assert machine["stages"][1] == {"stage": "running", "ok": False, "seen": "shutoff (somebody powered it off)"}
    assert machine["qemu_log_end"] == ["QEMU's log is not on this host"]


def test_the_limit_is_named_as_it_was_given(conn: t.Any) -> None:
    assert said(timeout=1).startswith("test was not reachable within 1 s (failed at: SSH): it has the address ")


def test_what_a_guest_says_cannot_draw_on_the_terminal(conn: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever way it came; Ansible prints the message of a failure as it stands."""
    seen = WaitState("test", hopeless=True, seen="its guest agent said \x1b]0;title\x07\x9b2J")
    monkeypatch.setattr(virt_wait, "wait_for_machines", lambda *_args, **_options: [seen])
    assert said().isprintable()
