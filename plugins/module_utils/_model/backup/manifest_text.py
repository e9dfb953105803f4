# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a manifest, written and read.

Whoever can write to the directory of a backup can write one, so that nothing in it is taken without a look.
"""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Mapping
from dataclasses import asdict

from .manifest import (
    BACKUP_ID,
    DISK,
    DOMAIN_XML,
    FILE_NAME,
    FULL,
    INCREMENTAL,
    MANIFEST,
    MARK,
    SEED,
    DiskEntry,
    FileEntry,
    Manifest,
    ManifestError,
    MergedForm,
    SourceFile,
    is_backup_id,
    is_file_name,
    time_of,
    time_text,
)

# The second one is that of a backup that is being merged, or has become a full one by that. The others have the first,
# which earlier versions of the collection read.
FIRST_FORMAT, MERGED_FORMAT = 1, 2
_MOMENT = re.compile(r"^\d{8}T\d{6}Z\Z", re.ASCII)
_TARGET = re.compile(r"^[a-z][a-z0-9]{1,15}\Z", re.ASCII)
_SERIES = re.compile(r"^[0-9a-f]{16}\Z", re.ASCII)
_SHA256 = re.compile(r"^[0-9a-f]{64}\Z", re.ASCII)
_UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.ASCII)
_TPM_DIRECTORY = re.compile(r"^tpm[0-9.]{1,4}\Z", re.ASCII)
# JSON can write half of a character, which file systems cannot be given, what no XML can have, nor libvirt, and what
# draws on a terminal.
_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_FORMATS = ("qcow2", "raw")
# Far more than any disk.
_MOST_SIZE_BYTES = 1 << 60
# As large as the kernel's numbers of inodes, all of which some file systems use.
_MOST_INODE = (1 << 64) - 1


def manifest_to_text(manifest: Manifest) -> str:
    """The text of the file."""
    flat = asdict(manifest)
    machine = {"name": flat.pop("machine"), "uuid": flat.pop("uuid")}
    if not manifest.made_at:
        del flat["made_at"]
    for disk in flat["disks"]:
        merged = disk.pop("merged")
        if merged is not None:
            disk["merged"] = {"backing": merged["backing"], **merged["entry"]}
        if disk["source_file"] is None:
            del disk["source_file"]
    number = MERGED_FORMAT if manifest.merging or not manifest.id.endswith(manifest.kind) else FIRST_FORMAT
    return json.dumps({"format": number, "machine": machine, **flat}, indent=2, sort_keys=True) + "\n"


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
    if found.get("format") not in (FIRST_FORMAT, MERGED_FORMAT):
        raise ManifestError(
            f"it has format {found.get('format')!r}, and this version of brine.virt knows {FIRST_FORMAT} and "
            f"{MERGED_FORMAT}",
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
            nvram=self._like("nvram", FILE_NAME, optional=True),
            tpm=tuple(_file(name, "tpm") for name in self._list("tpm")),
            tpm_directory=self._like("tpm_directory", _TPM_DIRECTORY, optional=True),
            made_by=self._texts("made_by"),
            made_at=self._time("made_at"),
        )
        _check_whole(manifest, int(self._values["format"]))
        return manifest

    def _disk(self) -> DiskEntry:
        target = self._like("target", _TARGET)
        return DiskEntry(
            target=target,
            file=self._like("file", FILE_NAME),
            backing=self._id("backing", optional=True) or None,
            size_bytes=self._number("size_bytes"),
            format=self._one_of("format", _FORMATS),
            pool=self._text("pool", 255),
            volume=self._text("volume", 255),
            name=self._text("name", 255),
            role=self._one_of("role", (DISK, SEED)),
            merged=self._below("merged")._merged() if self._values.get("merged") is not None else None,
            source_file=self._below("source_file")._source_file()
            if self._values.get("source_file") is not None
            else None,
        )

    def _source_file(self) -> SourceFile:
        return SourceFile(self._number("inode", _MOST_INODE), self._like("mark", MARK, optional=True))

    def _merged(self) -> MergedForm:
        return MergedForm(self._id("backing", optional=True) or None, self._file_entry())

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
        if not isinstance(value, str) or len(value) > most or _NO_TEXT.search(value):
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
        value = self._like(key, BACKUP_ID, optional=optional)
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

    def _number(self, key: str, most: int = _MOST_SIZE_BYTES) -> int:
        value = self._values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise self._wrong(key)
        return value


def _file(name: t.Any, where: str) -> str:
    if not is_file_name(name) or name == MANIFEST:
        raise ManifestError(f"{name!r:.80} is not allowed for {where:.80}: it is not the name of a file of a backup")
    return str(name)


def _check_whole(manifest: Manifest, number: int) -> None:
    """Raise ManifestError for one whose parts do not fit together. number: that of the format."""
    named = [*(disk.file for disk in manifest.disks), *manifest.tpm, DOMAIN_XML]
    named += [manifest.nvram] if manifest.nvram else []
    for name in named:
        if name not in manifest.files:
            raise ManifestError(f"there is no checksum of {name} in it")
    if len(set(named)) != len(named):
        raise ManifestError("it names one file twice")
    if len({disk.target for disk in manifest.disks}) != len(manifest.disks):
        raise ManifestError("it names one disk twice")
    seeds = [disk.target for disk in manifest.disks if disk.role == SEED]
    if len(seeds) > 1:
        raise ManifestError(f"it has more than one seed ({', '.join(seeds)})")
    _check_form(manifest, number)
    if any(disk.backing not in (None, manifest.parent) for disk in manifest.disks):
        raise ManifestError(f"a disk is backed by another backup than its parent {manifest.parent}")
    if manifest.parent is not None and manifest.parent >= manifest.id:
        raise ManifestError(f"its parent {manifest.parent} is later than itself")
    merged = {disk.merged.backing for disk in manifest.disks if disk.merged is not None}
    if len(merged) > 1 or any(
        (disk.merged is not None) != (bool(merged) and disk.backing is not None) for disk in manifest.disks
    ):
        raise ManifestError("some of its disks are being merged, and others are not, or with something else")
    if any(backing is not None and backing >= str(manifest.parent) for backing in merged):
        raise ManifestError(f"it is being merged with its parent {manifest.parent}, and to be built on a later one")
    if bool(manifest.tpm) != bool(manifest.tpm_directory):
        raise ManifestError("it names files of a TPM without their directory, or the other way round")


def _check_form(manifest: Manifest, number: int) -> None:
    """Raise ManifestError for a kind that does not go with the id or the parent. number: that of the format.

    What was merged until it stands alone is a full one with the id that it has always had.
    """
    named = manifest.id.endswith(manifest.kind) or (number == MERGED_FORMAT and manifest.kind == FULL)
    if not named or (manifest.kind == INCREMENTAL) != (manifest.parent is not None):
        raise ManifestError(
            f"it is a {manifest.kind} backup with the id {manifest.id} and the parent {manifest.parent}"
        )
    if manifest.merging and number != MERGED_FORMAT:
        raise ManifestError(f"it is being merged, which format {number} does not have")
