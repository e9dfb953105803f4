# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait for machines that are being moved here: for those that come, and not for what nothing comes of."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines import arriving
from ansible_collections.brine.virt.plugins.module_utils._host.machines.arriving import (
    QUIET_SECONDS,
    Progress,
    arriving_machines,
    received_bytes,
    wait_for_arriving,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    NAMESPACE,
    PREFIX,
    MigrationNote,
    migration_note_to_xml,
)

# As ss of Debian 12 writes it, without most of what it says of TCP.
LISTING = """\
ESTAB 0 0 10.0.0.12:49152 10.0.0.11:56082 users:(("qemu-system-x86",pid=16298,fd=29)) bytes_received:5000 segs_in:3
ESTAB 0 0 [2001:db8::2]:49153 [2001:db8::1]:56090 users:(("qemu-system-x86",pid=16298,fd=30)) bytes_received:70
ESTAB 0 0 10.0.0.12:49154 10.0.0.11:56092 users:(("qemu-system-x86",pid=1629,fd=30)) cubic bytes_received:1 segs_in:3
ESTAB 0 0 10.0.0.12:5900 10.0.0.1:56092 users:(("qemu-system-x86",pid=16298,fd=31)) cubic bytes_received:1 segs_in:3
ESTAB 0 0 10.0.0.12:40000 10.0.0.11:49153 users:(("qemu-system-x86",pid=16298,fd=31)) cubic bytes_received:1 segs_in:3
ESTAB 0 0 10.0.0.12:49155 10.0.0.11:56098 users:(("qemu-system-x86",pid=16298,fd=32)) cubic wscale:10,10
ESTAB 0 0 10.0.0.12:22 10.0.0.1:51152
"""


def test_only_what_a_machine_is_sent_counts() -> None:
    assert received_bytes(LISTING, 16298, range(49152, 49216)) == 5070
    assert received_bytes(LISTING, 298, range(49152, 49216)) == 0


def test_a_machine_is_awaited_as_long_as_something_of_it_comes() -> None:
    progress = Progress()
    assert progress.awaited({"comes": 10, "left": 10, "unseen": None}, 0) == {"comes", "left", "unseen"}
    assert progress.awaited({"comes": 20, "left": 10, "unseen": None}, QUIET_SECONDS - 1) == {"comes", "left", "unseen"}
    assert progress.awaited({"comes": 20, "left": 10, "unseen": None}, QUIET_SECONDS) == {"comes"}
    # Disks have come, their connections are closed, and memory begins.
    assert progress.awaited({"comes": 5}, 2 * QUIET_SECONDS - 2) == {"comes"}
    assert progress.awaited({"comes": 5}, 3 * QUIET_SECONDS) == set()


def test_where_nothing_is_moved_nobody_waits_longer_than_for_a_move_that_is_not_seen_yet(node_uri: str) -> None:
    with open_connection(node_uri) as conn:
        # One that somebody has paused is none that arrives.
        conn.lookupByName("web1").suspend()
        assert arriving_machines(conn) == []
        began = time.monotonic()
        assert wait_for_arriving(conn, wait_seconds=600) == {}
        assert time.monotonic() - began < 300
        assert wait_for_arriving(conn, wait_seconds=600, settle_seconds=0.1) == {}
        assert 0.1 <= time.monotonic() - began < 300


@pytest.fixture
def arrivals(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., list[list[str]]]:
    """Have these machines be on their way, one list for each look; the last one stays. The test driver moves none."""

    def set_looks(*looks: list[str], received: t.Callable[[str], int | None] = lambda _name: None) -> list[list[str]]:
        left = list(looks)
        monkeypatch.setattr(arriving, "arriving_machines", lambda _conn: left.pop(0) if len(left) > 1 else left[0])
        monkeypatch.setattr(arriving, "_bytes_received", received)
        monkeypatch.setattr(arriving, "_LOOK_SECONDS", 0.01)
        monkeypatch.setattr(arriving, "QUIET_SECONDS", 0.3)
        return left

    return set_looks


def test_what_arrives_is_waited_for(node_uri: str, arrivals: t.Callable[..., list[list[str]]]) -> None:
    left = arrivals(["db1", "web1"], ["db1", "web1"], ["web1"], [])
    with open_connection(node_uri) as conn:
        assert wait_for_arriving(conn, wait_seconds=600) == {}
    assert left == [[]]


def test_a_left_over_is_named_and_not_waited_for(node_uri: str, arrivals: t.Callable[..., list[list[str]]]) -> None:
    arrivals(["web1"], received=lambda _name: 7)
    with open_connection(node_uri) as conn:
        began = time.monotonic()
        assert wait_for_arriving(conn, wait_seconds=600) == {"web1": False}
        assert time.monotonic() - began < 300


def test_the_time_limit_counts_while_something_comes(node_uri: str, arrivals: t.Callable[..., list[list[str]]]) -> None:
    arrivals(["web1"], received=lambda _name: time.monotonic_ns())
    with open_connection(node_uri) as conn:
        began = time.monotonic()
        assert wait_for_arriving(conn, wait_seconds=1) == {"web1": True}
        assert time.monotonic() - began >= 1


def test_the_run_that_moved_it_is_waited_for_until_its_note_has_gone(
    node_uri: str, arrivals: t.Callable[..., list[list[str]]]
) -> None:
    note = migration_note_to_xml(MigrationNote("hv2", "hv1", "test:///default"))
    with open_connection(node_uri) as conn:
        web1 = conn.lookupByName("web1")
        assert not arriving._is_being_finished(conn, "web1")
        assert not arriving._is_being_finished(conn, "gone")
        web1.setMetadata(2, note, PREFIX, NAMESPACE, 1)
        assert arriving._is_being_finished(conn, "web1")
        arrivals(["web1"], [])
        began = time.monotonic()
        # It has arrived, whatever is still to be done at its source.
        assert wait_for_arriving(conn, wait_seconds=600) == {}
        assert time.monotonic() - began >= 0.3
