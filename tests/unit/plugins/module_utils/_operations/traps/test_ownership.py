# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a volume is the one that was created for a machine, by the mark on it, where there can be one."""

from __future__ import annotations

import dataclasses
import errno
import os
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import CreationNote, VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._operations.ownership import (
    OTHER,
    SAME,
    UNTOLD,
    identify,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import PurgeHost


def made(host: PurgeHost, image_format: str) -> tuple[Pool, VolumeNote]:
    """A volume that a guest has written to, and its note."""
    host.make(disks=[{"name": "system", "size": 64, "format": image_format}])
    (note,) = host.notes().volumes
    assert note.identity
    with (host.pool / note.name).open("ab") as content:
        content.write(b"written by the guest" * 1000)
    return Pools(host.conn).get("default"), note


@pytest.mark.parametrize("image_format", ["qcow2", "raw"])
def test_the_mark_on_it_tells(host: PurgeHost, image_format: str) -> None:
    pool, note = made(host, image_format)
    assert identify(pool, note) == SAME
    assert identify(pool, dataclasses.replace(note, identity="0f" * 16)) == OTHER


@pytest.mark.parametrize("image_format", ["qcow2", "raw"])
def test_without_a_word_in_the_notes_nothing_can_tell(host: PurgeHost, image_format: str) -> None:
    pool, note = made(host, image_format)
    assert identify(pool, dataclasses.replace(note, identity="")) == UNTOLD


def test_a_device_bears_no_mark(host: PurgeHost) -> None:
    pool, note = made(host, "raw")
    assert identify(dataclasses.replace(pool, type="logical"), note) == UNTOLD


def test_a_raw_file_bears_none_that_can_be_seen_from_afar(host: PurgeHost) -> None:
    pool, note = made(host, "raw")
    assert identify(dataclasses.replace(pool, local=False), note) == UNTOLD


def test_a_raw_file_bears_none_where_files_have_no_attributes(host: PurgeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, note = made(host, "raw")

    def refuse(*_arguments: t.Any) -> bytes:
        raise OSError(errno.ENOTSUP, "no extended attributes here")

    monkeypatch.setattr(os, "getxattr", refuse)
    assert identify(pool, note) == UNTOLD


def test_what_was_never_finished_has_to_be_proven(host: PurgeHost) -> None:
    pool, note = made(host, "qcow2")
    making = CreationNote(note.identity)
    assert identify(pool, dataclasses.replace(note, making=making)) == SAME
    assert identify(pool, dataclasses.replace(note, making=CreationNote("0f" * 16))) == OTHER
