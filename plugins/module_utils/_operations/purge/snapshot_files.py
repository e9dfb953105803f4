# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a machine's external snapshots: its memory, and what its disks wrote to between them.

Those of this collection are in the machine's metadata, unless a run was killed before it could note them. Others were
made by hand, and nothing of libvirt's goes with them: undefining a machine leaves the files of its snapshots.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import typing as t
from dataclasses import dataclass

from ..._base.errors import VirtError
from ..._base.xml import read_description
from ..._host.machines.domains import Domain
from ..._host.machines.snapshots import EXTERNAL, Snapshot, list_snapshots, read_snapshot
from ..._model.metadata.snapshots import read_set_aside

# The head of what libvirt saves of a machine's memory, in the byte order of its host: a magic word, and numbers, of
# which the second is the length of the description that follows. _virQEMUSaveHeader in src/qemu/qemu_saveimage.h
_MAGIC = b"LibvirtQemudSave"
_HEAD = struct.Struct("=16s19I")
# The longest text that libvirt sends itself.
_LONGEST = 4 * 1024 * 1024


@dataclass(frozen=True)
class SnapshotFile:
    """A file that a snapshot needs. memory: it is the machine's memory. own: this collection has taken the snapshot."""

    path: str
    snapshot: str
    memory: bool
    own: bool

    @property
    def words(self) -> str:
        """What it is of, in words."""
        return f"snapshot {self.snapshot} of the machine has {'its memory in it' if self.memory else 'it as a disk'}"


def files_of_snapshots(domain: Domain) -> list[SnapshotFile]:
    """All of them, each once. Of snapshots that cannot be read there are none: who uses what is unknown then."""
    found: dict[str, SnapshotFile] = {}
    for one in _snapshots(domain):
        if one.kind != EXTERNAL:
            continue
        for path, memory in [*((path, False) for _target, path in one.disks), (one.memory_file, True)]:
            if path:
                found.setdefault(path, SnapshotFile(path, one.name, memory, one.own))
    return list(found.values())


def _snapshots(domain: Domain) -> t.Iterator[Snapshot]:
    with contextlib.suppress(VirtError):
        yield from (one.facts for one in list_snapshots(domain.handle))
    for aside in read_set_aside(domain.xml):
        with contextlib.suppress(VirtError):
            yield read_snapshot(read_description(f"snapshot {aside.name}", aside.xml))


def is_memory_of(path: str, uuid: str) -> bool:
    """Whether libvirt has written this file of this machine as the memory of the machine with this UUID.

    It has the machine's description before the memory. False where that cannot be told.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        head = os.pread(descriptor, _HEAD.size, 0)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or len(head) < _HEAD.size:
            return False
        magic, _version, length, *_others = _HEAD.unpack(head)
        if magic != _MAGIC or length > _LONGEST:
            return False
        text = os.pread(descriptor, length, _HEAD.size).partition(b"\0")[0]
        return read_description("the machine", text.decode()).findtext("uuid") == uuid
    except (OSError, UnicodeDecodeError, VirtError):
        return False
    finally:
        os.close(descriptor)
