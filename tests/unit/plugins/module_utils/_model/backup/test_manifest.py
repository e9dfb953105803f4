# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A manifest says what it said, and one that anybody could have written leads nowhere."""

from __future__ import annotations

import copy
import dataclasses
import json
import typing as t
from datetime import datetime, timezone

import pytest

from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import (
    DiskEntry,
    FileEntry,
    Manifest,
    ManifestError,
    MergedForm,
    SourceFile,
    backup_id,
    checkpoint_name,
    is_backup_id,
    is_own_checkpoint,
)
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest_text import (
    manifest_to_text,
    read_manifest,
)

SHA = "0" * 64
FULL, ID = "20261122T020000Z-full", "20261123T020000Z-incremental"
SERIES = "0123456789abcdef"


def manifest() -> Manifest:
    names = ("vda.qcow2", "vdz.qcow2", "domain.xml", "nvram.fd", "tpm-tpm2-00.permall")
    return Manifest(
        id=ID,
        machine="web1",
        uuid="4dea22b3-1d52-4f1f-9a1c-7b2f5a3d6e10",
        series=SERIES,
        kind="incremental",
        parent=FULL,
        checkpoint=checkpoint_name(SERIES, ID),
        reason="",
        running=True,
        quiesced=True,
        disks=(
            DiskEntry(
                *("vda", "vda.qcow2", FULL, 1 << 30, "qcow2", "default", "web1-system.qcow2", "system"),
                source_file=SourceFile((1 << 64) - 1, "0" * 32),
            ),
            DiskEntry("vdz", "vdz.qcow2", None, 1 << 20, "raw", "default", "web1-seed.iso", role="seed"),
        ),
        files={name: FileEntry(7, SHA) for name in names},
        left_out={"sda": "it is a cdrom"},
        nvram="nvram.fd",
        tpm=("tpm-tpm2-00.permall",),
        tpm_directory="tpm2",
        made_by={"libvirt": "9.0.0"},
    )


def test_what_is_written_is_read() -> None:
    found = manifest()
    assert read_manifest(manifest_to_text(found), ID) == found
    assert found.made == datetime(2026, 11, 23, 2, tzinfo=timezone.utc)
    assert found.total_bytes == 35


@pytest.mark.parametrize("target", ["hda", "sdaa1", "nvme0n1"])
def test_the_targets_that_libvirt_knows_are_read(target: str) -> None:
    assert read_manifest(set_at("disks/0/target", target), ID).disks[0].target == target


def test_what_a_later_version_adds_is_passed_over() -> None:
    text = json.dumps({**json.loads(manifest_to_text(manifest())), "more": {"of": "it"}})
    assert read_manifest(text, ID) == manifest()


def set_at(path: str, value: t.Any, found: Manifest | None = None) -> str:
    whole = json.loads(manifest_to_text(found or manifest()))
    at = whole
    *above, last = path.split("/")
    for key in above:
        at = at[int(key) if isinstance(at, list) else key]
    at[int(last) if isinstance(at, list) else last] = value
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("format", 3, "format 3"),
        ("id", "../../etc", "'../../etc' is not allowed for id"),
        ("id", "20269923T020000Z-full", "is not allowed for id"),
        ("machine/uuid", "x", "machine.uuid"),
        ("series", "", "series"),
        ("kind", "full", "a full backup with the id"),
        ("parent", None, "incremental backup"),
        ("parent", "20261124T020000Z-full", "backed by another backup"),
        ("parent", "/etc/passwd", "parent"),
        ("running", "yes", "running"),
        ("disks/0/file", "../vda.qcow2", r"disks\[0\].file"),
        ("disks/0/file", "/etc/shadow", r"disks\[0\].file"),
        ("disks/0/file", ".hidden", r"disks\[0\].file"),
        ("disks/0/file", "vdz.qcow2", "one file twice"),
        ("disks/0/file", "vdb.qcow2", "no checksum of vdb.qcow2"),
        ("disks/1/target", "vda", "one disk twice"),
        ("disks/0/role", "seed", r"it has more than one seed \(vda, vdz\)"),
        ("disks/0/target", "vda,x=y", "target"),
        ("disks/0/backing", "../../x", "backing"),
        ("disks/0/backing", "20261121T020000Z-full", "backed by another backup"),
        ("disks/0/size_bytes", -1, "size_bytes"),
        ("disks/0/size_bytes", True, "size_bytes"),
        ("disks/0/format", "vmdk", "format"),
        ("disks/0/source_file", 7, r"disks\[0\].source_file"),
        ("disks/0/source_file/inode", "7", r"disks\[0\].source_file.inode"),
        ("disks/0/source_file/inode", 1 << 64, r"disks\[0\].source_file.inode"),
        ("disks/0/source_file/mark", "/etc/passwd", r"disks\[0\].source_file.mark"),
        ("disks/0/volume", "web1\ud800.qcow2", r"disks\[0\].volume"),
        ("disks/0/pool", "\ud800", r"disks\[0\].pool"),
        ("reason", "\ud800", "reason"),
        ("disks/0/volume", "web1\x1b[31m", r"disks\[0\].volume"),
        ("disks/0/name", "\uffff", r"disks\[0\].name"),
        ("disks/0/volume", "web1\x9b31m", r"disks\[0\].volume"),
        ("disks", {}, "disks"),
        ("disks/0", "vda", "disks"),
        ("files/vda.qcow2/sha256", "abc", "sha256"),
        ("files", [], "files"),
        ("nvram", "../x", "nvram"),
        ("tpm", ["../x"], "not the name of a file"),
        ("tpm", ["manifest.json"], "not the name of a file"),
        ("tpm_directory", "", "without their directory"),
        ("tpm_directory", "../..", "tpm_directory"),
        ("left_out", {"sda": 1}, "left_out.sda"),
        ("made_at", "yesterday", "made_at"),
        ("made_at", "20261323T020000Z", "made_at"),
    ],
)
def test_what_no_manifest_says_is_refused(path: str, value: t.Any, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        read_manifest(set_at(path, value), ID)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100000, '{"format": 1}'])
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(ManifestError):
        read_manifest(text, ID)


def test_it_belongs_to_its_directory() -> None:
    with pytest.raises(ManifestError, match=f"belongs to backup {ID}"):
        read_manifest(manifest_to_text(manifest()), "20261123T020001Z-incremental")


def test_a_parent_is_earlier() -> None:
    whole = copy.deepcopy(json.loads(manifest_to_text(manifest())))
    whole["parent"] = whole["disks"][0]["backing"] = "20261124T020000Z-full"
    with pytest.raises(ManifestError, match="later than itself"):
        read_manifest(json.dumps(whole), ID)


def test_when_it_was_made() -> None:
    """By the clock, where that is known: by its id it is later than all that were there."""
    assert read_manifest(manifest_to_text(manifest()), ID).made == datetime(2026, 11, 23, 2, tzinfo=timezone.utc)
    found = read_manifest(set_at("made_at", "20261120T010203Z"), ID)
    assert found.made == datetime(2026, 11, 20, 1, 2, 3, tzinfo=timezone.utc)


def test_names() -> None:
    made = backup_id(datetime(2026, 11, 23, 2, tzinfo=timezone.utc), "full")
    assert made == "20261123T020000Z-full"
    assert is_backup_id(made)
    assert not any(is_backup_id(text) for text in ("", "x", f"{made}\n", f"{made}x", ".unfinished-" + made))
    assert is_own_checkpoint(checkpoint_name(SERIES, made), SERIES)
    assert not is_own_checkpoint(checkpoint_name(SERIES, made), "f" * 16)


def merging(onto: str | None = None) -> Manifest:
    """What it says while it is being merged with its parent."""
    form = MergedForm(onto, FileEntry(9, "1" * 64))
    disks = (dataclasses.replace(manifest().disks[0], merged=form), manifest().disks[1])
    return dataclasses.replace(manifest(), disks=disks)


def test_what_is_being_merged_is_either() -> None:
    found = merging()
    text = manifest_to_text(found)
    assert json.loads(text)["format"] == 2
    assert read_manifest(text, ID) == found
    assert found.merging
    assert found.before_merge() == manifest()
    assert found.forms("vda.qcow2") == [FileEntry(7, SHA), FileEntry(9, "1" * 64)]
    assert found.forms("vdz.qcow2") == [FileEntry(7, SHA)]
    assert [disk.backings for disk in found.disks] == [[FULL, None], [None]]


def test_what_was_merged_is_a_full_one_with_the_id_that_it_had() -> None:
    found = merging().after_merge()
    text = manifest_to_text(found)
    assert json.loads(text)["format"] == 2
    assert read_manifest(text, ID) == found
    assert (found.id, found.kind, found.parent, found.merging) == (ID, "full", None, False)
    assert found.reason == f"it was merged with {FULL}, which it was built on"
    assert (found.files["vda.qcow2"], found.files["vdz.qcow2"]) == (FileEntry(9, "1" * 64), FileEntry(7, SHA))
    assert found.checkpoint == manifest().checkpoint


def test_what_is_built_on_an_older_one_afterwards_is_what_earlier_versions_know() -> None:
    older = "20261101T020000Z-full"
    found = merging(older).after_merge()
    text = manifest_to_text(found)
    assert json.loads(text)["format"] == 1
    assert read_manifest(text, ID) == found
    assert (found.kind, found.parent, found.disks[0].backing, found.reason) == ("incremental", older, older, "")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("format", 1, "it is being merged, which format 1 does not have"),
        ("disks/0/merged", 7, "merged"),
        ("disks/0/merged/backing", "../x", "merged.backing"),
        ("disks/0/merged/backing", FULL, "to be built on a later one"),
        ("disks/0/merged/sha256", "", "merged.sha256"),
        ("disks/1/merged", {"backing": None, "bytes": 1, "sha256": SHA}, "some of its disks are being merged"),
        ("disks/1/backing", FULL, "some of its disks are being merged"),
    ],
)
def test_what_no_merge_says_is_refused(path: str, value: t.Any, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        read_manifest(set_at(path, value, merging()), ID)


def test_a_full_one_with_another_id_is_of_the_second_format() -> None:
    with pytest.raises(ManifestError, match="a full backup with the id"):
        read_manifest(set_at("format", 1, merging().after_merge()), ID)
