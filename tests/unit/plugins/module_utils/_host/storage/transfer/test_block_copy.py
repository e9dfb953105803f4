# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of libvirt for a copy of a running machine's disk, and what it answers, as XML and on its test driver.

The copy itself needs QEMU: tests/scenario/scenarios/migrate/disk_moves.py.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import parse_xml
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.block_copy import (
    BlockCopy,
    Mirror,
    begin_block_copy,
    cancel_block_copies,
    mirrors_in,
    read_mirrors,
    wait_for_pivot,
    wait_until_mirrored,
)
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource

COPY = BlockCopy("vda", DiskSource("file", "/b/v.qcow2"), "qcow2", shallow=True)


@pytest.fixture
def domain() -> t.Iterator[t.Any]:
    with open_connection("test:///default") as conn:
        yield conn.lookupByName("test")


def test_the_new_volume_is_described_as_a_disk() -> None:
    root = parse_xml(COPY.xml)
    assert (root.tag, root.get("type")) == ("disk", "file")
    assert [(part.tag, dict(part.attrib)) for part in root] == [
        ("driver", {"type": "qcow2"}),
        ("source", {"file": "/b/v.qcow2"}),
    ]


DISK = (
    "<domain><devices><disk type='file'><source file='/a/v'/>"
    "<mirror type='file' job='{job}'{ready}><format type='raw'/><source file='/b/v'/></mirror>"
    "<target dev='vda'/></disk>"
    "<disk type='file'><source file='/a/w'/><target dev='vdb'/></disk></devices></domain>"
)


@pytest.mark.parametrize(
    ("ready", "mirror"),
    [
        ("", Mirror("/b/v", ready=False)),
        (" ready='yes'", Mirror("/b/v", ready=True)),
        (" ready='pivot'", Mirror("/b/v", ready=False, ending=True)),
        (" ready='abort'", Mirror("/b/v", ready=False, ending=True)),
    ],
)
def test_a_copy_that_is_under_way(ready: str, mirror: Mirror) -> None:
    assert mirrors_in(parse_xml(DISK.format(job="copy", ready=ready))) == {"vda": mirror}


def test_a_driver_that_cannot_copy_says_so(domain: t.Any) -> None:
    with pytest.raises(UnsupportedError, match="cannot copy disk vda of machine test"):
        begin_block_copy(domain, COPY)


def test_a_machine_without_copies(domain: t.Any) -> None:
    assert read_mirrors(domain) == {}
    cancel_block_copies(domain, {"/b/v.qcow2"})
    wait_for_pivot(domain)


def test_a_machine_that_has_stopped_is_no_failed_copy(domain: t.Any) -> None:
    domain.destroy()
    with pytest.raises(ConflictError, match="machine test has stopped while its disks were being copied"):
        wait_until_mirrored(domain, [COPY], lambda *_progress: None)
    cancel_block_copies(domain, {"/b/v.qcow2"})
