# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What libvirt's description of a snapshot says."""

from __future__ import annotations

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.machines.snapshots import (
    EXTERNAL,
    INTERNAL,
    Snapshot,
    read_snapshot,
    split_mark,
    with_mark,
)


def read(inner: str) -> Snapshot:
    return read_snapshot(parse_xml(f"<domainsnapshot><name>s</name>{inner}</domainsnapshot>"))


def test_an_external_one_without_memory() -> None:
    found = read(
        "<description>before\nbrine.virt:1</description><state>disk-snapshot</state><parent><name>p</name></parent>"
        "<creationTime>86400</creationTime><memory snapshot='no'/><disks><disk name='vda' snapshot='external'>"
        "<source file='/p/a.s'/></disk><disk name='vdb' snapshot='no'/></disks>"
    )
    assert (found.kind, found.memory, found.own, found.parent) == (EXTERNAL, False, True, "p")
    assert (found.description, found.time, found.disks) == ("before", "1970-01-02T00:00:00Z", (("vda", "/p/a.s"),))


@pytest.mark.parametrize(
    ("inner", "kind", "memory"),
    [
        ("<memory snapshot='internal'/><disks><disk name='vda' snapshot='internal'/></disks>", INTERNAL, True),
        ("<memory snapshot='external' file='/m'/><disks><disk name='vda' snapshot='no'/></disks>", EXTERNAL, True),
        ("<memory snapshot='no'/><disks><disk name='vda' snapshot='no'/></disks>", None, False),
        ("<state>running</state>", INTERNAL, True),
        ("<state>shutoff</state>", INTERNAL, False),
    ],
)
def test_kinds(inner: str, kind: str | None, memory: bool) -> None:
    found = read(inner)
    assert (found.kind, found.memory) == (kind, memory)


@pytest.mark.parametrize("time", ["", "soon", "-1", "9" * 30, "9" * 200])
def test_a_time_that_is_none_is_no_error(time: str) -> None:
    assert read(f"<creationTime>{time}</creationTime>").time in ("", "1970-01-01T00:00:00Z")


@pytest.mark.parametrize("text", ["", "one line", "two\nlines"])
def test_the_mark_comes_off_again(text: str) -> None:
    assert split_mark(with_mark(text)) == (text, True)


@pytest.mark.parametrize("text", ["", "brine.virt:1 was here", "brine.virt:1\nand more", "no"])
def test_what_is_not_marked_is_not_ours(text: str) -> None:
    assert split_mark(text) == (text, False)
