# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes made, found, grown and copied, on libvirt's test driver. It has no files; where they matter, the test has."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    NotFoundError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import pool_refresh, volumes
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool, Pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer import copy
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.copy import (
    create_copy,
    shares_blocks,
)
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volume_facts import Volume, find_volume
from ansible_collections.brine.virt.plugins.module_utils._host.storage.volumes import (
    VolumeExistsError,
    create_empty,
    create_overlay,
    delete_volume,
    grow_running_disk,
    grow_volume,
    guest_bytes_of,
    new_volume_element,
    require_no_file,
    space_request,
    volume_names,
)
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource

MIB = 1024 * 1024
XML = "<pool type='{}'><name>{}</name>{}<target><path>{}</path></target></pool>"

needs_qemu_img = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


@pytest.fixture
def conn(tmp_path: Path) -> t.Iterator[VirConnect]:
    """A hypervisor with pools of files, of logical volumes, of a cluster and of LUNs."""
    (tmp_path / "node.xml").write_text("<node/>")
    (tmp_path / "files").mkdir()
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        for kind, name, source, path in (
            ("dir", "files", "", str(tmp_path / "files")),
            ("logical", "vg", "<source><name>vg</name></source>", "/dev/vg"),
            ("rbd", "ceph", "<source><host name='mon'/><name>vms</name></source>", "/"),
            ("mpath", "luns", "", "/dev/mapper"),
            ("zfs", "tank", "<source><name>tank/vms</name></source>", "/dev/zvol/tank/vms"),
        ):
            conn.storagePoolCreateXML(XML.format(kind, name, source, path), 0)
        yield conn


@pytest.fixture
def files(conn: VirConnect) -> Pool:
    return Pools(conn).get("files")


def local(pool: Pool) -> Pool:
    """The pool as if its path was that of a real libvirt on this machine."""
    return dataclasses.replace(pool, local=True)


def seen(pool: Pool, name: str, image_format: str = "raw") -> Volume:
    found = find_volume(pool, name, image_format=image_format)
    assert found is not None
    return found


def qemu_img(*arguments: t.Any) -> None:
    subprocess.run(["qemu-img", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def test_what_was_made_is_found(files: Pool) -> None:
    create_empty(files, "data.qcow2", size_bytes=64 * MIB, image_format="qcow2")
    create_overlay(files, "web.qcow2", size_bytes=64 * MIB, image_path="/i/debian.raw", image_format="raw")
    data, web = seen(files, "data.qcow2", "qcow2"), seen(files, "web.qcow2", "qcow2")
    assert (data.format, data.capacity_bytes, data.backing_path, data.backing_format) == ("qcow2", 64 * MIB, None, None)
    assert data.source == DiskSource("file", f"{files.path}/data.qcow2") == files.source_of("data.qcow2")
    assert (web.backing_path, web.backing_format) == ("/i/debian.raw", "raw")
    assert find_volume(files, "dta.qcow2", image_format="raw") is None
    assert volume_names(files) == {"data.qcow2", "web.qcow2"}
    assert delete_volume(files, "data.qcow2")
    assert not delete_volume(files, "data.qcow2")
    assert volume_names(files) == {"web.qcow2"}


class Busy:
    """A pool and its volume, which cannot be deleted the first times. said: what libvirt says then."""

    def __init__(self, said: str, times: int) -> None:
        self.said = said
        self.times = times

    def storageVolLookupByName(self, _name: str) -> Busy:  # noqa: N802 - libvirt's own name
        return self

    def delete(self, _flags: int) -> None:
        self.times -= 1
        if self.times >= 0:
            error = libvirt.libvirtError(self.said)
            error.err = (libvirt.VIR_ERR_INTERNAL_ERROR, 0, self.said, 2, None, None, None, 0, 0)
            raise error


@pytest.mark.parametrize("said", ["cannot destroy 'tank/vms/web1': dataset is busy", "Logical volume vg/web1 in use."])
def test_a_device_that_udev_still_looks_at_is_deleted_a_moment_later(
    conn: VirConnect, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setattr("ansible_collections.brine.virt.plugins.module_utils._host.storage.volumes._UDEV_SECONDS", 0.5)
    pool, files = (Pools(conn).get(name) for name in ("tank", "files"))
    assert delete_volume(dataclasses.replace(pool, handle=Busy(said, 1)), "web1")
    with pytest.raises(VirtError, match=f"cannot delete volume web1 of pool tank: .*{re.escape(said.rstrip('.'))}"):
        delete_volume(dataclasses.replace(pool, handle=Busy(said, 1000)), "web1")
    # What somebody has said of a file does not pass.
    file = Busy(said, 1)
    with pytest.raises(VirtError, match="cannot delete volume web1 of pool files"):
        delete_volume(dataclasses.replace(files, handle=file), "web1")


def test_a_file_that_is_no_volume_is_said_to_be_there(files: Pool, tmp_path: Path) -> None:
    here = dataclasses.replace(files, local=True, path=str(tmp_path))
    (tmp_path / "link.qcow2").symlink_to("/nowhere/disk.qcow2")
    (tmp_path / "file.qcow2").write_bytes(b"x")
    words = r"there is a link .*/link.qcow2 already, to /nowhere/disk.qcow2, which is not there. Remove the link"
    with pytest.raises(VolumeExistsError, match=words):
        create_empty(here, "link.qcow2", size_bytes=MIB, image_format="qcow2")
    words = rf"there is .*/file.qcow2 already, of which libvirt knows no volume. .*pool-refresh {files.name}"
    with pytest.raises(VolumeExistsError, match=words):
        create_empty(here, "file.qcow2", size_bytes=MIB, image_format="qcow2")
    require_no_file(here, "none.qcow2")


def test_a_volume_that_is_there_is_never_touched(files: Pool) -> None:
    create_empty(files, "data", size_bytes=64 * MIB, image_format="raw")
    with pytest.raises(VolumeExistsError):
        create_empty(files, "data", size_bytes=MIB, image_format="raw")
    with pytest.raises(VolumeExistsError):
        create_copy(
            files,
            "data",
            size_bytes=MIB,
            image_format="raw",
            source=files.handle.storageVolLookupByName("data"),
            source_format="raw",
        )
    found = seen(files, "data")
    assert found.capacity_bytes == 64 * MIB


@pytest.mark.parametrize(
    ("pool", "image_format", "words"),
    [
        ("vg", "qcow2", "'vg' is of type logical, and cannot hold qcow2 volumes. Choose raw"),
        ("ceph", "qcow2", "'ceph' is of type rbd, and cannot hold qcow2 volumes"),
        (
            "luns",
            "raw",
            "'luns' is of type mpath, where volumes cannot be created by name. Name a volume that already exists",
        ),
        ("files", "vmdk", "cannot hold vmdk volumes. Choose qcow2 or raw"),
    ],
)
def test_what_a_pool_cannot_hold_is_not_made(conn: VirConnect, pool: str, image_format: str, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        create_empty(Pools(conn).get(pool), "new", size_bytes=MIB, image_format=image_format)
    assert not volume_names(Pools(conn).get(pool))


def test_an_overlay_is_a_file(conn: VirConnect) -> None:
    with pytest.raises(UnsupportedError, match="clone: copy"):
        create_overlay(Pools(conn).get("vg"), "new", size_bytes=MIB, image_path="/i", image_format="raw")


@pytest.mark.parametrize(("pool", "allocation"), [("files", 0), ("ceph", 0), ("vg", MIB)])
def test_a_logical_volume_has_all_of_its_space_at_once(conn: VirConnect, pool: str, allocation: int) -> None:
    """libvirt makes a logical volume that lacks some of it as a snapshot, which breaks when it is full."""
    element = new_volume_element(Pools(conn).get(pool), "new", MIB, "raw")
    assert int(element.findtext("allocation") or -1) == allocation


@pytest.mark.parametrize(
    ("pool", "copied", "needed"), [("files", 0, 0), ("files", 5, 5), ("ceph", 5, 5), ("vg", 0, 9), ("vg", 5, 9)]
)
def test_space_is_counted_as_it_is_taken(conn: VirConnect, pool: str, copied: int, needed: int) -> None:
    spec = space_request(Pools(conn).get(pool), size_bytes=9, copied_bytes=copied)
    assert (spec.pool, spec.needed_bytes) == (pool, needed)
    assert spec.available_bytes > 0
    assert spec.shared != space_request(Pools(conn).get("luns"), size_bytes=9).shared


@pytest.mark.parametrize(
    ("pool", "source"),
    [
        ("vg", DiskSource("block", "/dev/vg/data")),
        ("ceph", DiskSource("network", protocol="rbd", name="vms/data", hosts=(("mon", None),))),
    ],
)
def test_volumes_that_are_no_files_are_found(conn: VirConnect, pool: str, source: DiskSource) -> None:
    create_empty(Pools(conn).get(pool), "data", size_bytes=MIB, image_format="raw")
    found = seen(Pools(conn).get(pool), "data")
    assert (found.format, found.source) == ("raw", source)


@needs_qemu_img
@pytest.mark.parametrize(("made", "named"), [("raw", "x.qcow2"), ("qcow2", "x.raw"), ("vmdk", "x.qcow2"), ("vpc", "x")])
def test_the_format_is_what_was_told_and_not_what_stands_in_the_file(files: Pool, made: str, named: str) -> None:
    create_empty(files, named, size_bytes=MIB, image_format="raw" if made == "qcow2" else "qcow2")
    qemu_img("create", "-f", made, f"{files.path}/{named}", "1M")
    found = seen(local(files), named)
    assert (found.format, found.looks_like) == ("raw", made)
    assert found.capacity_bytes == os.stat(f"{files.path}/{named}").st_size


def test_nothing_is_made_smaller(files: Pool) -> None:
    create_empty(files, "data", size_bytes=64 * MIB, image_format="raw")
    assert not grow_volume(files, "data", 64 * MIB, image_format="raw")
    with pytest.raises(ConflictError, match=r"volume data of pool files has 64.0M, and is never shrunk"):
        grow_volume(files, "data", 64 * MIB - 1, image_format="raw")
    with pytest.raises(NotFoundError, match="there is no volume 'dta' in pool files"):
        grow_volume(files, "dta", 128 * MIB, image_format="raw")
    with pytest.raises(ConflictError, match="looks like raw, not like qcow2"):
        grow_volume(files, "data", 128 * MIB, image_format="qcow2")


@needs_qemu_img
@pytest.mark.parametrize("size", ["1T", "1M"])
def test_a_raw_disk_is_as_large_as_its_file_whatever_stands_in_it(files: Pool, size: str) -> None:
    """libvirt takes the disk for what its guest wrote into it, as soon as it refreshes the pool."""
    create_empty(files, "data", size_bytes=1 << 40, image_format="qcow2")
    disk = Path(files.path, "data")
    qemu_img("create", "-f", "qcow2", disk, size)
    header = disk.read_bytes()
    os.truncate(disk, 64 * MIB)
    assert seen(local(files), "data").capacity_bytes == 64 * MIB
    assert not grow_volume(local(files), "data", 64 * MIB, image_format="raw")
    with pytest.raises(ConflictError, match="never shrunk"):
        grow_volume(local(files), "data", 32 * MIB, image_format="raw")
    assert grow_volume(local(files), "data", 128 * MIB, image_format="raw")
    assert disk.stat().st_size == 128 * MIB
    assert disk.read_bytes()[: len(header)] == header


def test_a_disk_of_another_machine_is_grown_by_libvirt_only_if_that_takes_it_for_raw(files: Pool) -> None:
    create_empty(files, "data", size_bytes=MIB, image_format="qcow2")
    with pytest.raises(
        ConflictError, match=r"looks like qcow2, not like raw\. Run the task on its hypervisor, as root"
    ):
        grow_volume(files, "data", 2 * MIB, image_format="raw")


def test_a_copy_is_made_of_what_the_image_is_known_to_be(files: Pool) -> None:
    create_empty(files, "image", size_bytes=MIB, image_format="qcow2")
    image = files.handle.storageVolLookupByName("image")
    with pytest.raises(
        ConflictError, match="volume image of pool files is of format raw, but libvirt treats it as qcow"
    ):
        create_copy(files, "copy", size_bytes=MIB, image_format="raw", source=image, source_format="raw")
    assert volume_names(files) == {"image"}


def test_a_logical_volume_may_have_been_rounded_up(conn: VirConnect) -> None:
    vg = Pools(conn).get("vg")
    create_empty(vg, "data", size_bytes=64 * MIB, image_format="raw")
    assert not grow_volume(vg, "data", 61 * MIB, image_format="raw")
    with pytest.raises(ConflictError, match="never shrunk"):
        grow_volume(vg, "data", 32 * MIB, image_format="raw")


@pytest.fixture
def zeroed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Which volumes are filled with zeros, and from where on: the test driver has no bytes for it."""
    found: list[tuple[str, int]] = []
    for module in (volumes, copy):
        monkeypatch.setattr(module, "zero_logical", lambda _pool, made, start: found.append((made.name(), start)))
    return found


def test_a_new_logical_volume_has_nothing_of_a_deleted_one(conn: VirConnect, zeroed: list[tuple[str, int]]) -> None:
    vg = Pools(conn).get("vg")
    create_empty(vg, "data", size_bytes=64 * MIB, image_format="raw")
    create_empty(vg, "whole", size_bytes=64 * MIB, image_format="raw", wipe=False)
    assert zeroed == [("data", 0), ("whole", 64 * MIB)]


def test_what_a_copy_does_not_fill_has_nothing_of_a_deleted_one(
    conn: VirConnect, zeroed: list[tuple[str, int]]
) -> None:
    vg = Pools(conn).get("vg")
    create_empty(vg, "image", size_bytes=8 * MIB, image_format="raw", wipe=False)
    zeroed.clear()
    source = vg.handle.storageVolLookupByName("image")
    for wipe in (True, False):
        create_copy(
            vg, f"c{wipe}", size_bytes=64 * MIB, image_format="raw", source=source, source_format="raw", wipe=wipe
        )
    assert zeroed == [("cTrue", 8 * MIB)]


def test_what_is_added_to_a_logical_volume_has_nothing_of_a_deleted_one(
    conn: VirConnect, zeroed: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vg = local(Pools(conn).get("vg"))
    create_empty(vg, "data", size_bytes=8 * MIB, image_format="raw")
    zeroed.clear()
    monkeypatch.setattr(volumes, "_extend_device", lambda *_arguments: None)
    # Somebody has grown it by hand, and a guest writes there already: libvirt still has the old size.
    monkeypatch.setattr(volumes, "device_bytes", lambda _path: 16 * MIB)
    for kind, expected in (("linear", [("data", 16 * MIB)]), ("thin", [])):
        lvm_says(kind, tmp_path, monkeypatch)
        grow_volume(vg, "data", 64 * MIB, image_format="raw")
        assert zeroed == expected
        zeroed.clear()


def lvm_says(kind: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    have_program("lvs", f"echo '  {kind}  '", directory, monkeypatch)


def have_program(name: str, script: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = directory / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_a_volume_of_zfs_grows_by_the_tool_of_zfs(
    conn: VirConnect, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In whole blocks, of which it takes no other number; libvirt has no way to it."""
    tank = local(Pools(conn).get("tank"))
    create_empty(tank, "data", size_bytes=8 * MIB, image_format="raw")
    have_program("zfs", f'echo "$@" > {tmp_path}/said', tmp_path, monkeypatch)
    assert grow_volume(tank, "data", 16 * MIB + 1, image_format="raw")
    assert (tmp_path / "said").read_text() == f"set volsize={16 * MIB + MIB // 8} tank/vms/data\n"
    # What ZFS has rounded up when the volume was created is not grown.
    create_empty(tank, "odd", size_bytes=8 * MIB + 8192, image_format="raw")
    assert not grow_volume(tank, "odd", 8 * MIB + 1, image_format="raw")
    have_program("zfs", "echo 'cannot set property: permission denied' >&2; exit 1", tmp_path, monkeypatch)
    with pytest.raises(HostError, match="cannot grow /dev/zvol/tank/vms/data: cannot set property: permission denied"):
        grow_volume(tank, "data", 32 * MIB, image_format="raw")


@pytest.mark.parametrize(
    ("kind", "size", "words"),
    [("", 8 * MIB, "LVM does not say of what kind"), ("linear", None, "its device /dev/vg/data cannot be read")],
)
def test_a_volume_of_which_nobody_could_tell_what_to_wipe_is_not_grown(
    conn: VirConnect,
    zeroed: list[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kind: str,
    size: int | None,
    words: str,
) -> None:
    """Its machine would read what deleted volumes had. Later nobody could tell what the machine has written itself."""
    vg, extended = local(Pools(conn).get("vg")), []
    create_empty(vg, "data", size_bytes=8 * MIB, image_format="raw")
    zeroed.clear()
    monkeypatch.setattr(volumes, "_extend_device", lambda *_arguments: extended.append(True))
    monkeypatch.setattr(volumes, "device_bytes", lambda _path: size)
    lvm_says(kind, tmp_path, monkeypatch)
    with pytest.raises(HostError, match=words):
        grow_volume(vg, "data", 64 * MIB, image_format="raw")
    assert (zeroed, extended) == ([], [])


def test_what_lvm_has_added_in_spite_of_its_error_is_wiped(
    conn: VirConnect, zeroed: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It took too long to answer, for example. Nobody asks again for a volume that has the size that it is to have."""
    vg = local(Pools(conn).get("vg"))
    create_empty(vg, "data", size_bytes=8 * MIB, image_format="raw")
    zeroed.clear()

    def late(*_arguments: t.Any) -> None:
        raise HostError("lvextend took longer than 120 s")

    monkeypatch.setattr(volumes, "_extend_device", late)
    monkeypatch.setattr(volumes, "device_bytes", lambda _path: 8 * MIB)
    lvm_says("linear", tmp_path, monkeypatch)
    with pytest.raises(HostError, match="lvextend took longer"):
        grow_volume(vg, "data", 64 * MIB, image_format="raw")
    assert zeroed == [("data", 8 * MIB)]


@pytest.mark.parametrize(("kind", "expected"), [("linear", [("data", 2 * MIB)]), ("thin", [])])
@pytest.mark.parametrize("size", [8 * MIB, 64 * MIB])
def test_what_the_machine_does_not_know_of_yet_is_wiped_also_if_a_killed_run_has_added_it(
    conn: VirConnect,
    zeroed: list[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kind: str,
    expected: list[tuple[str, int]],
    size: int,
) -> None:
    vg = local(Pools(conn).get("vg"))
    create_empty(vg, "data", size_bytes=8 * MIB, image_format="raw")
    zeroed.clear()
    monkeypatch.setattr(volumes, "_extend_device", lambda *_arguments: None)
    monkeypatch.setattr(volumes, "device_bytes", lambda _path: 8 * MIB)
    lvm_says(kind, tmp_path, monkeypatch)
    grow_volume(vg, "data", size, image_format="raw", guest_bytes=2 * MIB)
    assert zeroed == expected


def test_what_libvirt_cannot_resize_is_said_with_what_can(conn: VirConnect) -> None:
    """The test driver resizes nothing, as libvirt does not with a logical volume."""
    vg = Pools(conn).get("vg")
    create_empty(vg, "data", size_bytes=MIB, image_format="raw")
    with pytest.raises(UnsupportedError, match="lvextend --size 2097152b /dev/vg/data && virsh pool-refresh vg"):
        grow_volume(vg, "data", 2 * MIB, image_format="raw")


@pytest.mark.parametrize("name", ["files", "vg"])
def test_a_copy_by_libvirt(conn: VirConnect, name: str) -> None:
    """The test driver refuses to share blocks, as libvirt does on many file systems: then it copies."""
    pool = Pools(conn).get(name)
    create_empty(pool, "image", size_bytes=MIB, image_format="raw")
    image = pool.handle.storageVolLookupByName("image")
    create_copy(pool, "copy", size_bytes=2 * MIB, image_format="raw", source=image, source_format="raw")
    found = seen(pool, "copy")
    assert found.capacity_bytes == 2 * MIB


def test_libvirt_copies_nothing_in_a_cluster(conn: VirConnect, files: Pool) -> None:
    """It would look for the source in the cluster, by its name alone, and delete what has the copy's name."""
    ceph = Pools(conn).get("ceph")
    for pool, words in ((ceph, "the disk is a clone of the image"), (files, "Store the image in pool ceph first")):
        create_empty(pool, "image", size_bytes=MIB, image_format="raw")
        source = pool.handle.storageVolLookupByName("image")
        with pytest.raises(UnsupportedError, match=words):
            create_copy(ceph, "copy", size_bytes=MIB, image_format="raw", source=source, source_format="raw")
    assert volume_names(ceph) == {"image"}


@needs_qemu_img
@pytest.mark.parametrize("image_format", ["raw", "qcow2"])
def test_sharing_blocks_is_possible_where_cp_can(files: Pool, tmp_path: Path, image_format: str) -> None:
    image = tmp_path / "image"
    qemu_img("create", "-f", image_format, image, "1M")
    cp = subprocess.run(["cp", "--reflink=always", image, f"{files.path}/copy"], check=False, capture_output=True)
    os.unlink(f"{files.path}/copy")
    assert shares_blocks(local(files), str(image), image_format) == (cp.returncode == 0)
    assert not os.listdir(files.path)


@needs_qemu_img
def test_blocks_are_not_shared_with_another_format_or_another_machine(files: Pool, tmp_path: Path) -> None:
    image = tmp_path / "image"
    qemu_img("create", "-f", "raw", image, "1M")
    assert not shares_blocks(local(files), str(image), "qcow2")
    assert not shares_blocks(files, str(image), "raw")
    assert not shares_blocks(local(files), str(tmp_path / "nothing"), "raw")


def test_a_pool_that_went_to_sleep_is_no_missing_volume(files: Pool) -> None:
    files.handle.destroy()
    with pytest.raises(NotFoundError, match="cannot inspect volume data of pool files: Storage pool not found"):
        find_volume(files, "data", image_format="raw")


def test_a_file_that_libvirt_has_not_seen_yet_is_somebody_elses_too(conn: VirConnect, tmp_path: Path) -> None:
    """As from another hypervisor that shares the pool: an undo must not delete it once libvirt has seen it."""
    pool = dataclasses.replace(Pools(conn).get("files"), local=True)
    (tmp_path / "files" / "theirs").write_bytes(b"x")
    with pytest.raises(VolumeExistsError):
        create_empty(pool, "theirs", size_bytes=MIB, image_format="raw")
    assert volume_names(pool) == set()


def test_what_libvirt_did_not_know_of_in_a_cluster_is_somebody_elses(
    conn: VirConnect,
) -> None:
    """Another hypervisor has made it; the error that comes of that has no code of its own."""
    ceph = Pools(conn).get("ceph")

    class Stale:
        """The pool, as libvirt knew it before it looks again."""

        looked = False

        def __getattr__(self, name: str) -> t.Any:
            return getattr(ceph.handle, name)

        def createXML(self, xml: str, flags: int) -> t.Any:  # noqa: N802 - libvirt's own name
            ceph.handle.createXML(xml, flags)
            # An error of another code.
            return conn.storagePoolLookupByName("none")

        def refresh(self, _flags: int) -> None:
            self.looked = True

    stale = Stale()
    with pytest.raises(VolumeExistsError, match="has had a volume web1-system since"):
        create_empty(dataclasses.replace(ceph, handle=stale), "web1-system", size_bytes=MIB, image_format="raw")
    assert stale.looked


def test_what_a_cluster_has_that_cannot_be_looked_at_is_not_this_runs(
    conn: VirConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not reached when the volume was to be made, and is again when this run takes back what it has made."""
    ceph = Pools(conn).get("ceph")

    class Gone:
        """The pool of a cluster that does not answer any more."""

        def __getattr__(self, name: str) -> t.Any:
            return getattr(ceph.handle, name)

        def createXML(self, _xml: str, _flags: int) -> t.Any:  # noqa: N802 - libvirt's own name
            return conn.storagePoolLookupByName("none")

        def refresh(self, _flags: int) -> None:
            conn.storagePoolLookupByName("none")

    passed = iter(range(0, 10000, 100))
    monkeypatch.setattr(pool_refresh.time, "monotonic", lambda: next(passed))
    monkeypatch.setattr(pool_refresh.time, "sleep", lambda _seconds: None)
    with pytest.raises(VolumeExistsError, match="whether somebody else has created it meanwhile cannot be seen"):
        create_empty(dataclasses.replace(ceph, handle=Gone()), "web1-system", size_bytes=MIB, image_format="raw")


def told(kind: str, have_bytes: int, wanted_bytes: int) -> list[tuple[str, int]]:
    calls: list[tuple[str, int]] = []
    handle = types.SimpleNamespace(
        blockInfo=lambda _target: [have_bytes, 0, 0],
        blockResize=lambda target, size, _flags: calls.append((target, size)),
    )
    pool = Pool(name="p", path="/p", available_bytes=0, handle=None, type=kind)
    grow_running_disk(handle, "vda", pool, wanted_bytes, "cannot grow disk vda of machine a")
    return calls


@pytest.mark.parametrize(("kind", "have"), [("dir", 8 * MIB), ("dir", 16 * MIB), ("logical", 20 * MIB)])
def test_a_larger_one_and_one_that_is_as_large_already(kind: str, have: int) -> None:
    """LVM has rounded the device up, and QEMU has yet to look at it."""
    assert told(kind, have, 16 * MIB) == [("vda", 16 * MIB)]


@pytest.mark.parametrize("kind", ["dir", "logical"])
def test_one_that_somebody_has_made_larger_meanwhile_keeps_its_end(kind: str) -> None:
    with pytest.raises(ConflictError, match=r"^cannot grow disk vda of machine a: it has 1.0G, and is never shrunk"):
        told(kind, 1024 * MIB, 16 * MIB)


@pytest.mark.parametrize(
    ("driver", "more", "known"),
    [
        ("raw", "", 5 * MIB),
        # Its size is not that of the device, and what is behind it is its own.
        ("qcow2", "", None),
        ("raw", "<encryption format='luks'><secret type='passphrase' usage='x'/></encryption>", None),
        ("raw", "<slices><slice type='storage' offset='0' size='5242880'/></slices>", None),
    ],
)
def test_what_a_machine_knows_of_its_device(conn: VirConnect, driver: str, more: str, known: int | None) -> None:
    xml = f"""<domain><devices><disk type='block'><driver type='{driver}'/><source dev='/dev/vg/a'>{more}</source>
      <target dev='vda'/></disk><disk type='file'><driver type='qcow2'/><target dev='vdb'/></disk></devices></domain>"""
    handle = types.SimpleNamespace(XMLDesc=lambda _flags: xml, blockInfo=lambda _target: [5 * MIB, 0, 0])
    assert guest_bytes_of(handle, "vda", Pools(conn).get("vg")) == known
    assert guest_bytes_of(handle, "vdc", Pools(conn).get("vg")) is None
    assert guest_bytes_of(handle, "vda", Pools(conn).get("files")) is None
