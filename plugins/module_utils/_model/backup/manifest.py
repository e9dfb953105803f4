# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a backup says of itself: its file ``manifest.json``. Described on the page of formats.

Whoever can write to the directory of a backup can write this, so that nothing in it is taken without a look: names of
files are plain names, and there is no path in it.
"""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError

FORMAT = 1
MANIFEST = "manifest.json"
DOMAIN_XML = "domain.xml"
FULL, INCREMENTAL = "full", "incremental"
DISK, SEED = "disk", "seed"
# As much as no manifest needs.
MOST_BYTES = 4 * 1024 * 1024
# Prefix of the names of our checkpoints in libvirt.
_CHECKPOINT = "brine-backup-"

_ID = re.compile(r"^(\d{8}T\d{6}Z)-(full|incremental)\Z", re.ASCII)
_TIME = "%Y%m%dT%H%M%SZ"
_MOMENT = re.compile(r"^\d{8}T\d{6}Z\Z", re.ASCII)
_FILE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z", re.ASCII)
_TARGET = re.compile(r"^[a-z]{2,5}[0-9]{0,3}\Z", re.ASCII)
_SERIES = re.compile(r"^[0-9a-f]{16}\Z", re.ASCII)
_SHA256 = re.compile(r"^[0-9a-f]{64}\Z", re.ASCII)
_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.ASCII)
_TPM_DIRECTORY = re.compile(r"^tpm[0-9.]{1,4}\Z", re.ASCII)
_FORMATS = ("qcow2", "raw")
# Far more than any disk.
_MOST_SIZE_BYTES = 1 << 60


class ManifestError(InputError):
    """A manifest that says something that no manifest of ours says."""


@dataclass(frozen=True)
class FileEntry:
    """A file of the backup: its length, and the checksum of its content."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class DiskEntry:
    """A disk of the machine and its qcow2 file.

    target: the device in the domain (``vda``). file: its file in this backup. backing: the backup whose file of the
    same name is next below it, None for one that stands alone. size_bytes: its size for the guest. format: the one that
    the machine's disk had. pool, volume: where that one was, empty for a disk in no pool. name: ours of the disk, empty
    where it has none. role: ``disk`` or ``seed``.
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


@dataclass(frozen=True)
class Manifest:
    """All that the file says.

    id: also the name of its directory. series: what the backups of one machine in one directory have in common.
    checkpoint: the name of libvirt's checkpoint that was made together with it, empty where there is none. reason: why
    it is a full one, empty for an incremental one. left_out: the disks that are not in it, by target, with the reason.
    nvram: the file with the UEFI variables, empty where there is none. tpm: the files of the TPM's state, and
    tpm_directory the directory that they were in. made_by: the programs, by name, with their versions. made_at: when it
    was begun by the clock (UTC); by its id it is later where an earlier one was made while the clock was ahead.
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


def backup_id(made: datetime, kind: str) -> str:
    """The name of a backup. made: in UTC."""
    return f"{time_text(made)}-{kind}"


def time_text(moment: datetime) -> str:
    """A time as it stands in such a name. moment: in UTC."""
    return moment.strftime(_TIME)


def is_backup_id(text: str) -> bool:
    """Whether a text has the form of such a name."""
    try:
        return bool(_ID.match(text)) and bool(time_of(text))
    except ValueError:
        return False


def time_of(name: str) -> datetime:
    """When a backup of this name was begun. Raises ValueError for what is no such name."""
    return datetime.strptime(name.partition("-")[0], _TIME).replace(tzinfo=timezone.utc)


def is_file_name(text: t.Any) -> bool:
    """Whether a text can be the name of a file of a backup: it leads to no other directory."""
    return isinstance(text, str) and bool(_FILE.match(text))


def checkpoint_name(series: str, name: str) -> str:
    """The name of the checkpoint that belongs to a backup."""
    return f"{_CHECKPOINT}{series}-{name.partition('-')[0]}"


def checkpoint_words(name: str, path: str) -> str:
    """The description of a checkpoint. name: of the backup, in this directory."""
    return f"for the backup {name} in {path} (brine.virt)"


def is_own_checkpoint(name: str, series: str | None = None) -> bool:
    """Whether a checkpoint was made for a backup, of this series."""
    return name.startswith(_CHECKPOINT if series is None else f"{_CHECKPOINT}{series}-")


def manifest_to_text(manifest: Manifest) -> str:
    """The text of the file."""
    flat = asdict(manifest)
    machine = {"name": flat.pop("machine"), "uuid": flat.pop("uuid")}
    if not manifest.made_at:
        del flat["made_at"]
    return json.dumps({"format": FORMAT, "machine": machine, **flat}, indent=2, sort_keys=True) + "\n"


def read_manifest(text: str, name: str) -> Manifest:
    """A manifest from its text. name: that of the directory that it is in, which it has to have itself.

    What a later version of the collection may have added is passed over. Raises ManifestError.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ManifestError(f"it is not JSON ({exc})") from exc
    if not isinstance(found, dict):
        raise ManifestError("it is not a mapping")
    if found.get("format") != FORMAT:
        raise ManifestError(
            f"it has format {found.get('format')!r}, and this version of brine.virt knows {FORMAT}",
            hint="Use the version of brine.virt that made it, or a later one",
        )
    manifest = _Reader(found).manifest()
    if manifest.id != name:
        raise ManifestError(f"it belongs to backup {manifest.id}")
    return manifest


class _Reader:
    """Takes values out of a mapping, each of the kind that it has to be. where: the path to the mapping."""

    def __init__(self, values: Mapping[str, t.Any], where: str = "") -> None:
        self._values = values
        self._where = where

    def manifest(self) -> Manifest:
        machine = self._below("machine")
        files = self._below("files")
        manifest = Manifest(
            id=self._id("id"),
            machine=machine._text("name", 255),
            uuid=machine._like("uuid", _UUID),
            series=self._like("series", _SERIES),
            kind=self._one_of("kind", (FULL, INCREMENTAL)),
            parent=self._id("parent", optional=True) or None,
            checkpoint=self._text("checkpoint", 255),
            reason=self._text("reason", 10000),
            running=self._flag("running"),
            quiesced=self._flag("quiesced"),
            disks=tuple(entry._disk() for entry in self._items("disks")),
            files={_file(name, f"files.{name}"): files._below(name)._file_entry() for name in files._values},
            left_out=self._texts("left_out"),
            nvram=self._like("nvram", _FILE, optional=True),
            tpm=tuple(_file(name, "tpm") for name in self._list("tpm")),
            tpm_directory=self._like("tpm_directory", _TPM_DIRECTORY, optional=True),
            made_by=self._texts("made_by"),
            made_at=self._time("made_at"),
        )
        _check_whole(manifest)
        return manifest

    def _disk(self) -> DiskEntry:
        target = self._like("target", _TARGET)
        return DiskEntry(
            target=target,
            file=self._like("file", _FILE),
            backing=self._id("backing", optional=True) or None,
            size_bytes=self._number("size_bytes"),
            format=self._one_of("format", _FORMATS),
            pool=self._text("pool", 255),
            volume=self._text("volume", 255),
            name=self._text("name", 255),
            role=self._one_of("role", (DISK, SEED)),
        )

    def _file_entry(self) -> FileEntry:
        return FileEntry(self._number("bytes"), self._like("sha256", _SHA256))

    def _wrong(self, key: str) -> ManifestError:
        value = self._values.get(key)
        return ManifestError(f"{value!r:.80} is not allowed for {self._where}{key}")

    def _below(self, key: str) -> _Reader:
        value = self._values.get(key)
        if not isinstance(value, Mapping):
            raise self._wrong(key)
        return _Reader(value, f"{self._where}{key}.")

    def _list(self, key: str) -> list[t.Any]:
        value = self._values.get(key)
        if not isinstance(value, list):
            raise self._wrong(key)
        return value

    def _items(self, key: str) -> t.Iterator[_Reader]:
        for index, value in enumerate(self._list(key)):
            if not isinstance(value, Mapping):
                raise self._wrong(key)
            yield _Reader(value, f"{self._where}{key}[{index}].")

    def _text(self, key: str, most: int) -> str:
        value = self._values.get(key)
        if not isinstance(value, str) or len(value) > most or "\0" in value:
            raise self._wrong(key)
        return value

    def _texts(self, key: str) -> dict[str, str]:
        below = self._below(key)
        return {str(name): below._text(name, 1000) for name in below._values}

    def _like(self, key: str, pattern: re.Pattern[str], *, optional: bool = False) -> str:
        value = self._values.get(key)
        if optional and value in (None, ""):
            return ""
        if not isinstance(value, str) or not pattern.match(value):
            raise self._wrong(key)
        return value

    def _id(self, key: str, *, optional: bool = False) -> str:
        value = self._like(key, _ID, optional=optional)
        if value and not is_backup_id(value):
            raise self._wrong(key)
        return value

    def _time(self, key: str) -> str:
        value = self._like(key, _MOMENT, optional=True)
        try:
            return value and time_text(time_of(value))
        except ValueError as exc:
            raise self._wrong(key) from exc

    def _one_of(self, key: str, words: tuple[str, ...]) -> str:
        value = self._values.get(key)
        if value not in words:
            raise self._wrong(key)
        return str(value)

    def _flag(self, key: str) -> bool:
        value = self._values.get(key)
        if not isinstance(value, bool):
            raise self._wrong(key)
        return value

    def _number(self, key: str) -> int:
        value = self._values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_SIZE_BYTES:
            raise self._wrong(key)
        return value


def _file(name: t.Any, where: str) -> str:
    if not is_file_name(name) or name == MANIFEST:
        raise ManifestError(f"{name!r:.80} is not allowed for {where:.80}: it is not the name of a file of a backup")
    return str(name)


def _check_whole(manifest: Manifest) -> None:
    """Raise ManifestError for one whose parts do not fit together."""
    named = [*(disk.file for disk in manifest.disks), *manifest.tpm, DOMAIN_XML]
    named += [manifest.nvram] if manifest.nvram else []
    for name in named:
        if name not in manifest.files:
            raise ManifestError(f"there is no checksum of {name} in it")
    if len(set(named)) != len(named):
        raise ManifestError("it names one file twice")
    if len({disk.target for disk in manifest.disks}) != len(manifest.disks):
        raise ManifestError("it names one disk twice")
    if not manifest.id.endswith(manifest.kind) or (manifest.kind == INCREMENTAL) != (manifest.parent is not None):
        raise ManifestError(
            f"it is a {manifest.kind} backup with the id {manifest.id} and the parent {manifest.parent}"
        )
    if any(disk.backing not in (None, manifest.parent) for disk in manifest.disks):
        raise ManifestError(f"a disk is backed by another backup than its parent {manifest.parent}")
    if manifest.parent is not None and manifest.parent >= manifest.id:
        raise ManifestError(f"its parent {manifest.parent} is later than itself")
    if bool(manifest.tpm) != bool(manifest.tpm_directory):
        raise ManifestError("it names files of a TPM without their directory, or the other way round")
