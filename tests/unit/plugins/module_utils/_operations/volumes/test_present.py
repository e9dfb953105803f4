# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes that are to be there: made, filled, compared and replaced, and what is refused."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import MIB
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pools, usage
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.upload import new_upload
from ansible_collections.brine.virt.plugins.module_utils._model.image.marks import HEAD_BYTES, add_qcow2_mark
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import MachineNotes, VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes import present
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import disk
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.traps.users import (
    pool_that_is_not_active,
)
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volumes.volume_host import VolumeHost

pytestmark = [pytest.mark.medium, pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")]

CONTENT = b"content!" * MIB
OTHER = b"other!!!" * MIB
ISO = bytes(32769) + b"CD001" + bytes(2048 * 64 - 32774)


def qcow2(path: Path, size: str = "16M") -> Path:
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), size], check=True)
    subprocess.run(["qemu-io", "-c", "write -P 7 0 1M", str(path)], check=True, capture_output=True)
    return path


def refused(host: VolumeHost, **params: t.Any) -> str:
    """The complaint, the same in check mode; nothing is changed."""
    before = host.purge.files()
    words = []
    for check_mode in (True, False):
        with pytest.raises(VirtError) as caught:
            host.run(check_mode, **params)
        words.append(str(caught.value))
    assert words[0] == words[1]
    assert host.purge.files() == before
    return words[0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": "a", "size": "8MiB"}, ("qcow2", 8 * MIB)),
        ({"name": "a.raw", "size": "8MiB"}, ("raw", 8 * MIB)),
        ({"name": "a", "size": "0.5G", "format": "raw"}, ("raw", 512 * MIB)),
    ],
)
def test_an_empty_volume_is_made_once(host: VolumeHost, given: dict[str, t.Any], expected: tuple[str, int]) -> None:
    result = host.one(**given)
    assert (result["changed"], result["present"], result["failed"], result["unchecked"]) == (True, True, False, None)
    assert (result["format"], result["size_bytes"]) == expected == host.info(given["name"])
    assert result["path"] == str(host.pool / given["name"])
    again = host.one(**given)
    assert (again["changed"], again["actions"], again["size_bytes"]) == (False, [], expected[1])


def test_what_the_task_does_not_name_stays(host: VolumeHost) -> None:
    host.run(name="a", size="8MiB", format="raw")
    for given in ({}, {"format": "raw"}, {"mode": "0644"}):
        assert host.one(name="a", **given)["changed"] is False


@pytest.mark.parametrize("word", ["src", "path"])
@pytest.mark.parametrize("made", ["raw", "iso", "qcow2"])
def test_a_volume_gets_the_content_of_a_file_once(host: VolumeHost, word: str, made: str) -> None:
    file = host.controller / "file"
    if made == "qcow2":
        qcow2(file)
    else:
        file.write_bytes(ISO if made == "iso" else CONTENT)
    given = {"name": "a", "format": made, word: "file" if word == "src" else str(file)}
    result = host.one(**given)
    assert result["changed"] is True
    assert (host.pool / "a").read_bytes() == file.read_bytes()
    assert result["format"] == ("qcow2" if made == "qcow2" else "raw")
    assert result["size_bytes"] == (16 * MIB if made == "qcow2" else file.stat().st_size)
    assert host.sent == (["volume0"] if word == "src" else [])
    again = host.one(**given)
    assert (again["changed"], again["unchecked"]) == (False, None)
    assert len(host.sent) <= 1


@pytest.mark.parametrize("made", ["raw", "qcow2"])
def test_it_may_be_larger_than_its_content(host: VolumeHost, made: str) -> None:
    file = host.controller / "file"
    if made == "qcow2":
        qcow2(file)
    else:
        file.write_bytes(CONTENT)
    given = {"name": "a", "src": "file", "size": 32}
    assert host.one(**given)["size_bytes"] == 32 * MIB
    assert host.info("a") == (made, 32 * MIB)
    again = host.one(**given)
    assert again["changed"] is False
    assert (again["unchecked"] is not None) == (made == "qcow2")


def test_a_file_has_to_have_its_checksum(host: VolumeHost) -> None:
    (host.controller / "file").write_bytes(CONTENT)
    digest = hashlib.sha512(CONTENT).hexdigest()
    for word, path in (("src", "file"), ("path", str(host.controller / "file"))):
        given = {"name": f"a-{word}", word: path}
        assert "has the sha512" in refused(host, **given, checksum=f"sha512:{'0' * 128}")
        assert refused(host, volumes=[{**given, "checksum": f"sha512:{'0' * 128}"}]).startswith("volumes[0].checksum")
        assert host.one(**given, checksum=f"sha512:{digest}")["changed"] is True


def test_other_content_is_replaced_only_if_it_may_be(host: VolumeHost) -> None:
    (host.controller / "old").write_bytes(CONTENT)
    (host.controller / "new").write_bytes(OTHER[: 4 * MIB])
    host.run(name="a", src="old")
    words = refused(host, name="a", src="new")
    assert words.startswith("src: volume a of pool default has other content than new. Set replace: true")
    host.sent.clear()
    assert host.one(name="a", src="old", replace=True)["changed"] is False
    assert host.sent == []
    result = host.one(name="a", src="new", replace=True)
    assert result["actions"] == ["delete volume a of pool default", "create volume a in pool default from new"]
    assert (host.pool / "a").read_bytes() == OTHER[: 4 * MIB]


def test_zeros_after_the_content_are_no_other_content_and_data_is(host: VolumeHost) -> None:
    (host.controller / "file").write_bytes(CONTENT)
    host.run(name="a", src="file", size=32)
    assert host.one(name="a", src="file")["changed"] is False
    with (host.pool / "a").open("r+b") as file:
        file.seek(31 * MIB)
        file.write(b"!")
    assert "has other content" in refused(host, name="a", src="file")


def test_what_a_machine_may_have_written_to_is_not_compared(host: VolumeHost) -> None:
    (host.controller / "file").write_bytes(CONTENT)
    host.run(name="a", src="file")
    (host.pool / "a").write_bytes(OTHER)
    host.purge.guest("other", disk(host.pool / "a", image_format="raw"))
    for replace in (True, False):
        result = host.one(name="a", src="file", replace=replace)
        assert (result["changed"], result["unchecked"]) == (False, "machine other may have written to it")
    assert (host.pool / "a").read_bytes() == OTHER


def test_what_a_machine_only_reads_is_compared_and_not_replaced(host: VolumeHost) -> None:
    (host.controller / "file").write_bytes(CONTENT)
    host.run(name="a", src="file")
    cdrom = disk(host.pool / "a", "sda", device="cdrom", image_format="raw")
    host.purge.guest("other", cdrom.replace("</disk>", "<readonly/></disk>"))
    assert host.one(name="a", src="file", replace=True)["unchecked"] is None
    (host.controller / "file").write_bytes(OTHER)
    assert "Set replace: true" in refused(host, name="a", src="file")
    assert "volume a of pool default is kept: it is used by machine other" in refused(
        host, name="a", src="file", replace=True
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "size: there is no volume 'a' in pool 'default', and nothing says how large it is to be"),
        ({"format": "iso"}, "format: there is no volume 'a' in pool 'default', and nothing says what is to be in it"),
        ({"size": "1MiB", "pool": "defalt"}, "pool: there is no storage pool 'defalt'"),
        ({"src": "raw", "size": "1MiB"}, "size: raw has 8.0M, the task asks for 1.0M"),
        ({"src": "raw", "format": "qcow2"}, "format: raw is of format raw, the task asks for qcow2. Convert it"),
        ({"src": "raw", "format": "iso"}, "format: raw is not an ISO file"),
        ({"src": "packed"}, "src: .* is compressed with gzip"),
        ({"src": "none"}, "src: there is no file .*none"),
        ({"path": "/nowhere/x"}, "path: there is no file /nowhere/x"),
        ({"size": "1MiB", "owner": "nobody-of-that-name"}, "owner: there is no user 'nobody-of-that-name'"),
        ({"size": "1MiB", "group": "nobody-of-that-name"}, "group: there is no group 'nobody-of-that-name'"),
        (
            {"size": "900TiB", "format": "raw", "src": "raw", "name": "debian-0123456789abcdef.raw"},
            "name: .* is the name",
        ),
    ],
)
def test_what_cannot_be_made_is_refused(host: VolumeHost, given: dict[str, t.Any], words: str) -> None:
    (host.controller / "raw").write_bytes(CONTENT)
    (host.controller / "packed").write_bytes(b"\x1f\x8b" + CONTENT)
    assert re.match(words, refused(host, **{"name": "a", **given}))
    assert host.volumes() == set()


def test_neither_smaller_nor_of_another_format(host: VolumeHost) -> None:
    host.run(name="a", size="8MiB")
    host.run(name="b", size="8MiB", format="raw")
    for given in ({"name": "a", "format": "qcow2"}, {"name": "b"}):
        words = refused(host, **given, size="7MiB")
        assert words.startswith(f"size: volume {given['name']} of pool default has 8.0M, the task asks for 7.0M. ")
        assert "Volumes are never shrunk" in words
    assert refused(host, name="b", format="qcow2").startswith("format: volume b of pool default is of format raw")
    (host.controller / "raw").write_bytes(CONTENT)
    assert refused(host, name="a", src="raw").startswith("src: volume a of pool default has other content than raw")


def test_what_nobody_knows_is_what_the_task_says(host: VolumeHost) -> None:
    """Its first bytes may be those of its former guest."""
    host.run(name="a", size="8MiB")
    result = host.one(name="a", format="raw")
    assert (result["changed"], result["format"]) == (False, "raw")
    assert result["size_bytes"] == (host.pool / "a").stat().st_size


@pytest.mark.parametrize("name", ["a", "a.qcow2"])
def test_what_looks_like_neither_is_not_what_the_task_says(host: VolumeHost, name: str) -> None:
    host.run(name=name, size="8MiB", format="raw")
    subprocess.run(["qemu-img", "create", "-q", "-f", "vmdk", str(host.pool / name), "8M"], check=True)
    assert "is of format vmdk, the task asks for qcow2" in refused(host, name=name, format="qcow2")
    assert "Set format: qcow2 or format: raw" in refused(host, name=name, size=16)
    assert host.one(name=name, format="raw")["size_bytes"] == (host.pool / name).stat().st_size


@pytest.mark.parametrize("name", ["a.raw", "a.qcow2", "a.img", "a"])
@pytest.mark.parametrize("made", ["raw", "qcow2"])
def test_the_ending_of_a_name_says_nothing_against_the_content(host: VolumeHost, name: str, made: str) -> None:
    file = host.controller / "file"
    if made == "qcow2":
        qcow2(file)
    else:
        file.write_bytes(CONTENT)
    assert host.one(name=name, src="file")["format"] == made
    again = host.one(name=name, src="file")
    assert (again["changed"], again["format"], again["unchecked"]) == (False, made, None)


def test_the_format_is_the_one_that_a_machine_has_it_in(host: VolumeHost) -> None:
    """A guest may have written another header into its raw disk."""
    host.run(name="a", size="8MiB")
    host.purge.guest("other", disk(host.pool / "a", image_format="raw"))
    assert host.one(name="a")["format"] == "raw"
    assert "is of format raw" in refused(host, name="a", format="qcow2")


def test_what_a_machine_has_lost_is_not_made_for_it(host: VolumeHost) -> None:
    host.purge.make()
    host.purge.detach("web1", "web1-system.qcow2")
    host.purge.handle.storageVolLookupByName("web1-system.qcow2").delete()
    assert "belongs to machine web1, which has lost it" in refused(host, name="web1-system.qcow2", size="8MiB")


def half_sent(host: VolumeHost, content: bytes, **changes: t.Any) -> None:
    """What a killed run has left."""
    (host.controller / "file").write_bytes(CONTENT)
    host.run(name="a", src="file")
    upload = new_upload(host.purge.conn.getHostname())
    words = {**vars(upload), "pid": 2**22 + 1, **changes}
    (host.pool / "a").write_bytes(type(upload)(**words).to_bytes() + content[512:])


@pytest.mark.parametrize("given", [{"src": "file"}, {"size": "3MiB", "format": "raw"}])
def test_what_a_killed_run_has_left_is_cleared_and_made_again(host: VolumeHost, given: dict[str, t.Any]) -> None:
    half_sent(host, OTHER)
    result = host.one(name="a", **given)
    assert result["actions"][0] == "delete the unfinished volume a of pool default"
    assert (host.pool / "a").read_bytes() == (CONTENT if "src" in given else bytes(3 * MIB))


def half_restored(host: VolumeHost) -> None:
    """What a killed restore of a disk has left."""
    host.run(name="a.qcow2", size="8MiB")
    upload = new_upload(host.purge.conn.getHostname())
    with (host.pool / "a.qcow2").open("r+b") as file:
        head = add_qcow2_mark(file.read(HEAD_BYTES), upload.to_mark())
        assert head is not None
        file.seek(0)
        file.write(head)


def test_what_a_killed_restore_has_left_is_cleared_unless_it_may_be_in_use(
    host: VolumeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_restored(host)
    with monkeypatch.context() as patch:
        patch.setattr(usage, "seen_elsewhere", lambda pool: f"pool {pool.name} is shared")
        answer = host.run(name="a.qcow2", size="8MiB")
        assert "cannot be determined whether something uses it: pool default is shared" in answer["msg"]
        assert (host.pool / "a.qcow2").exists()
    result = host.one(name="a.qcow2", size="8MiB")
    assert result["actions"][0] == "delete the unfinished volume a.qcow2 of pool default"
    assert host.one(name="a.qcow2", size="8MiB")["changed"] is False


def test_what_has_become_whole_meanwhile_stays(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    half_sent(host, OTHER)
    real = present.clear_step

    def late(*args: t.Any, **settings: t.Any) -> t.Any:
        (host.pool / "a").write_bytes(OTHER)
        return real(*args, **settings)

    monkeypatch.setattr(present, "clear_step", late)
    answer = host.run(name="a", path=str(host.controller / "file"))
    assert "has had a volume a since this run was planned" in answer["msg"]
    assert (host.pool / "a").read_bytes() == OTHER


def test_what_was_never_written_to_is_filled(host: VolumeHost) -> None:
    """A run that is killed before it could put its mark there."""
    (host.controller / "file").write_bytes(CONTENT)
    host.run(name="a", size="8MiB", format="raw")
    # libvirt makes a raw file without qemu-img, which writes zeros to its first block.
    os.truncate(host.pool / "a", 0)
    os.truncate(host.pool / "a", 8 * MIB)
    assert host.one(name="a", src="file")["actions"][0] == "delete the unfinished volume a of pool default"
    assert (host.pool / "a").read_bytes() == CONTENT


@pytest.mark.parametrize("what", ["shared", "asleep"])
def test_what_was_never_written_to_and_may_be_in_use_stays(
    host: VolumeHost, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A machine of another hypervisor may have it as an empty disk."""
    (host.controller / "file").write_bytes(CONTENT)
    host.run(name="a", size="8MiB", format="raw")
    os.truncate(host.pool / "a", 0)
    os.truncate(host.pool / "a", 8 * MIB)
    if what == "shared":
        monkeypatch.setattr(usage, "seen_elsewhere", lambda pool: f"pool {pool.name} is shared")
    else:
        pool_that_is_not_active(host.purge, host.pool)
    assert "has other content than file" in refused(host, name="a", src="file")


def test_what_another_host_may_be_sending_stays(host: VolumeHost) -> None:
    half_sent(host, OTHER, machine="another")
    assert "whether process 4194305 of host" in refused(host, name="a", src="file")
    assert "whether process 4194305 of host" in refused(host, name="a", state="absent")


def test_what_is_unfinished_and_in_use_stays(host: VolumeHost) -> None:
    half_sent(host, OTHER)
    host.purge.guest("other", disk(host.pool / "a", image_format="raw"))
    before = host.purge.files()
    answer = host.run(name="a", src="file")
    assert "it is used by machine other" in answer["msg"]
    assert host.purge.files() == before


def test_owner_and_group_are_numbers_to_libvirt(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[t.Any] = []
    real = present.creation_step

    def noting(new: t.Any, task: t.Any) -> t.Any:
        made.append(new)
        return real(new, task)

    monkeypatch.setattr(present, "creation_step", noting)
    host.run(name="a", size="1MiB", mode="0640", owner="root", group="7")
    permissions = made[0].element(1, "raw").find("target/permissions")
    assert {child.tag: child.text for child in permissions} == {"mode": "0640", "owner": "0", "group": "7"}


def test_what_only_some_pools_can_is_refused_for_others(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a cluster and of devices; the test driver makes neither."""
    (host.controller / "raw").write_bytes(CONTENT)
    for kind, given, words in (
        ("rbd", {"src": "raw"}, "src: libvirt sends no content to volumes of a pool of type rbd. Create it with size"),
        (
            "logical",
            {"size": "1MiB", "mode": "0600"},
            "mode: storage pool 'default' is of type logical, and only files have",
        ),
        (
            "logical",
            {"size": "1MiB", "format": "qcow2"},
            "format: storage pool 'default' is of type logical, and cannot hold",
        ),
        (
            "iscsi",
            {"size": "1MiB"},
            "format: storage pool 'default' is of type iscsi, where volumes cannot be created by name",
        ),
    ):
        monkeypatch.setattr(pools.Pools, "get", lambda _pools, _name, _where=None, kind=kind: pool_of(host, kind))
        assert refused(host, name="a", **given).startswith(words)


def pool_of(host: VolumeHost, kind: str) -> pools.Pool:
    network = DiskSource("network", protocol="rbd", name="ceph/") if kind == "rbd" else None
    return pools.Pool("default", str(host.pool), 1 << 40, host.purge.handle, type=kind, network=network)


def test_a_lost_volume_of_notes_is_told_from_others(host: VolumeHost) -> None:
    host.purge.guest("other")
    host.purge.write(MachineNotes(volumes=(VolumeNote("default", "b", "disk"),)), "other")
    assert host.one(name="a", size="1MiB")["changed"] is True
    assert "belongs to machine other" in refused(host, name="b", size="1MiB")
