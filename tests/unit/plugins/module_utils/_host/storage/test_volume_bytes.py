# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes of volumes through libvirt: what cannot be read is not taken for the end of the volume."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_bytes import read_start, read_volume
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_facts import Volume
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource


class Stream:
    """One that ends before anything came, and says at its end that reading failed."""

    def recv(self, _length: int) -> bytes:
        return b""

    def finish(self) -> None:
        raise libvirt.libvirtError("virStreamFinish() failed")


class Handle:
    """A pool, its connection and its volume in one."""

    def storageVolLookupByName(self, _name: str) -> t.Any:
        return self

    def connect(self) -> t.Any:
        return self

    def name(self) -> str:
        return "web1.qcow2"

    def newStream(self, _flags: int) -> Stream:
        return Stream()

    def download(self, *_arguments: t.Any) -> None:
        return None


def test_a_read_that_failed_at_its_end_is_no_empty_volume() -> None:
    pool = Pool("default", "/srv/pool", 0, Handle())
    path = "/srv/pool/web1.qcow2"
    volume = Volume("web1.qcow2", "default", path, 1, 1, "qcow2", DiskSource("file", path))
    # Its header would not be read: an empty volume is backed by nothing.
    with pytest.raises(HostError, match=r"^cannot read volume web1.qcow2 of pool default: virStreamFinish\(\) failed"):
        read_volume(pool, volume)


def test_the_start_of_a_shorter_volume_is_all_of_it() -> None:
    assert read_start(Handle(), Handle(), 65536) == b""
