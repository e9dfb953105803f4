# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections of a migration over which nothing comes any more, closed at this end.

QEMU copies disks over TCP without a time limit. When the network to the target breaks, it waits as long as TCP does,
which is a quarter of an hour; libvirt waits for QEMU, and a guest that writes to such a disk waits too.
"""

from __future__ import annotations

import contextlib
import re
import typing as t
from collections.abc import Iterator

from ..._base.commands import run_program
from ..._base.errors import HostError
from ..._base.qemu_conf import migration_ports

_WAIT_SECONDS = 10.0


def close_stalled_connections(machine: str) -> None:
    """Close what a machine's QEMU on this host is sending itself over. Where that cannot be done, TCP's limit stays."""
    with contextlib.suppress(OSError, ValueError, HostError):
        with open(f"/run/libvirt/qemu/{machine}.pid", encoding="ascii") as file:
            pid = int(file.read())
        answer = run_program(["ss", "-Htnp"], timeout_seconds=_WAIT_SECONDS)
        for here, there in links(answer.text, pid, migration_ports()):
            run_program(["ss", "-KHt", "src", here, "dst", there], timeout_seconds=_WAIT_SECONDS)


def links(listing: str, pid: int, ports: t.Container[int]) -> Iterator[tuple[str, str]]:
    """Both ends of a process's connections to these ports of other hosts, in what ``ss -Htnp`` writes."""
    for words in columns_of_process(listing, pid):
        port = words[4].rpartition(":")[2]
        if port.isdigit() and int(port) in ports:
            yield words[3], words[4]


def columns_of_process(listing: str, pid: int) -> Iterator[list[str]]:
    """The lines about a process's connections in what ``ss -Htnp`` writes, in six columns.

    These are the state, two queues, this end, the other end, and all that ``-p`` and further options say.
    """
    for line in listing.splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and re.search(rf"\bpid={pid}\b", words[5]):
            yield words
