# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a backup says of itself: its file ``manifest.json``. Described on the page of formats.

Whoever can write to the directory of a backup can write this, so that nothing in it is taken without a look: names of
files are plain names, and there is no path in it.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from ..._base.errors import ConflictError, InputError

MANIFEST = "manifest.json"
DOMAIN_XML = "domain.xml"
FULL, INCREMENTAL = "full", "incremental"
DISK, SEED = "disk", "seed"
# As much as no manifest needs.
MOST_BYTES = 4 * 1024 * 1024
_SECTOR_BYTES = 512
# Prefix of the names of our checkpoints in libvirt.
_CHECKPOINT = "brine-backup-"

BACKUP_ID = re.compile(r"^(\d{8}T\d{6}Z)-(full|incremental)\Z", re.ASCII)
_TIME = "%Y%m%dT%H%M%SZ"
# Of a volume that was created here; see _model/image/marks.py.
MARK = re.compile(r"^[0-9A-Za-z-]{1,64}\Z", re.ASCII)
FILE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z", re.ASCII)


class ManifestError(InputError):
    """A manifest that says something that no manifest of ours says."""


@dataclass(frozen=True)
class FileEntry:
    """A file of the backup: its length, and the checksum of its content."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class MergedForm:
    """What the file of a disk becomes by a merge that has begun: backed by another backup or by none, with the same
    content for a guest.

    backing: as of DiskEntry. entry: its length and checksum then.
    """

    backing: str | None
    entry: FileEntry


@dataclass(frozen=True)
class SourceFile:
    """Which file a disk of the machine was. Where one of the two is another, so is the file.

    inode: its number in its file system. mark: ours in its header, empty where it has none.
    """

    inode: int
    mark: str = ""


@dataclass(frozen=True)
class DiskEntry:
    """A disk of the machine and its qcow2 file.

    target: the device in the domain (``vda``). file: its file in this backup. backing: the backup whose file of the
    same name is next below it, None for one that stands alone. size_bytes: its size for the guest. format: the one that
    the machine's disk had. pool, volume: where that one was, empty for a disk in no pool. name: ours of the disk, empty
    where it has none. role: ``disk`` or ``seed``. merged: while a merge is under way, what the file is to be: it may be
    that already, or still be as the rest of the manifest says. source_file: what tells the machine's file from others;
    None for what was no file, and in backups of earlier versions, which did not look.
    """

    target: str
    file: str
    backing: str | None
    size_bytes: int
    format: str
    pool: str = ""
    volume: str = ""
    name: str = ""
    role: str = DISK
    merged: MergedForm | None = None
    source_file: SourceFile | None = None

    @property
    def image_bytes(self) -> int:
        """The size of its qcow2 file for a guest: QEMU fills up the last sector, which a raw file may have in part."""
        return -(-self.size_bytes // _SECTOR_BYTES) * _SECTOR_BYTES

    @property
    def backings(self) -> list[str | None]:
        """All that its file may be backed by at this moment: one, or two while a merge is under way."""
        return [self.backing] if self.merged is None else [self.backing, self.merged.backing]


@dataclass(frozen=True)
class Manifest:
    """All that the file says.

    id: also the name of its directory. kind: as in the id, but for one that has become a full one. series: what the
    backups of one machine in one directory have in common. checkpoint: the name of libvirt's checkpoint that was made
    together with it, empty where there is none. reason: why it is a full one, empty for an incremental one. left_out:
    the disks that are not in it, by target, with the reason. nvram: the file with the UEFI variables, empty where there
    is none. tpm: the files of the TPM's state, and tpm_directory the directory that they were in. made_by: the
    programs, by name, with their versions. made_at: when it was begun by the clock (UTC); by its id it is later where
    an earlier one was made while the clock was ahead.
    """

    id: str
    machine: str
    uuid: str
    series: str
    kind: str
    parent: str | None
    checkpoint: str
    reason: str
    running: bool
    quiesced: bool
    disks: tuple[DiskEntry, ...]
    files: Mapping[str, FileEntry]
    left_out: Mapping[str, str] = field(default_factory=dict)
    nvram: str = ""
    tpm: tuple[str, ...] = ()
    tpm_directory: str = ""
    made_by: Mapping[str, str] = field(default_factory=dict)
    made_at: str = ""

    @property
    def made(self) -> datetime:
        """When it was begun (UTC)."""
        return time_of(self.made_at or self.id)

    @property
    def total_bytes(self) -> int:
        """The length of all its files."""
        return sum(entry.bytes for entry in self.files.values())

    def disk(self, target: str) -> DiskEntry | None:
        """The disk with this target."""
        return next((disk for disk in self.disks if disk.target == target), None)

    @property
    def merging(self) -> bool:
        """Whether a merge is under way, or was interrupted. It is what it was in either form, until this is ended."""
        return any(disk.merged is not None for disk in self.disks)

    def forms(self, name: str) -> list[FileEntry]:
        """All that a file of it may be at this moment: one, or two while a merge is under way."""
        return [self.files[name], *(disk.merged.entry for disk in self.disks if disk.merged and disk.file == name)]

    def before_merge(self) -> Manifest:
        """What it was before the merge that is under way."""
        return replace(self, disks=tuple(replace(disk, merged=None) for disk in self.disks))

    def after_merge(self) -> Manifest:
        """What it is when the merge that is under way has ended."""
        files, disks, parent = dict(self.files), [], None
        for disk in self.disks:
            if disk.merged is not None:
                files[disk.file], parent = disk.merged.entry, disk.merged.backing
                disk = replace(disk, backing=parent, merged=None)
            disks.append(disk)
        alone = parent is None
        return replace(
            self,
            kind=FULL if alone else self.kind,
            parent=parent,
            reason=f"it was merged with {self.parent}, which it was built on" if alone else self.reason,
            disks=tuple(disks),
            files=files,
        )


def backup_id(made: datetime, kind: str) -> str:
    """The name of a backup. made: in UTC."""
    return f"{time_text(made)}-{kind}"


def time_text(moment: datetime) -> str:
    """A time as it stands in such a name. moment: in UTC."""
    return moment.strftime(_TIME)


def is_backup_id(text: str) -> bool:
    """Whether a text has the form of such a name."""
    try:
        return bool(BACKUP_ID.match(text)) and bool(time_of(text))
    except ValueError:
        return False


def time_of(name: str) -> datetime:
    """When a backup of this name was begun. Raises ValueError for what is no such name."""
    return datetime.strptime(name.partition("-")[0], _TIME).replace(tzinfo=timezone.utc)


def is_file_name(text: t.Any) -> bool:
    """Whether a text can be the name of a file of a backup: it leads to no other directory."""
    return isinstance(text, str) and bool(FILE_NAME.match(text))


def checkpoint_name(series: str, name: str) -> str:
    """The name of the checkpoint that belongs to a backup."""
    return f"{_CHECKPOINT}{series}-{name.partition('-')[0]}"


def checkpoint_words(name: str, path: str) -> str:
    """The description of a checkpoint. name: of the backup, in this directory."""
    return f"for the backup {name} in {path} (brine.virt)"


def is_own_checkpoint(name: str, series: str | None = None) -> bool:
    """Whether a checkpoint was made for a backup, of this series."""
    return name.startswith(_CHECKPOINT if series is None else f"{_CHECKPOINT}{series}-")


def next_id(there: Collection[str], kind: str, now: datetime) -> str:
    """The name of a backup that is begun now (UTC).

    there: the names of those in its directory, also of such that cannot be read. A backup is built on earlier ones
    only, and what is latest is so by its name. Raises ConflictError where nothing can be later.
    """
    begun = now.replace(microsecond=0)
    latest = max(there, default="", key=lambda name: name.partition("-")[0])
    if latest and begun <= time_of(latest):
        try:
            begun = time_of(latest) + timedelta(seconds=1)
        except OverflowError as exc:
            raise ConflictError(
                f"no backup can be later than {latest}: the clock was wrong when it was made, or it is not a backup",
                hint="Check what it is, and move it away",
            ) from exc
    return backup_id(begun, kind)
