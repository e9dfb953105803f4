# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes that become larger: under machines that are off, under one that runs, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import MIB
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt
from ansible_collections.brine.virt.plugins.module_utils._host.storage import volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes import answers
from ansible_collections.brine.virt.plugins.module_utils._operations.shared_volumes import volume as shared
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes import growth, present
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import POOL, disk
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.traps.users import add_nvram
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volumes.volume_host import VolumeHost

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")


@pytest.fixture
def resized(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int, int]]:
    """What a machine that runs with volume a was told, which the test driver cannot do."""
    told: list[tuple[str, str, int, int]] = []

    def block_resize(domain: t.Any, target: str, size: int, flags: int = 0) -> int:
        told.append((domain.name(), target, size, flags))
        return 0

    monkeypatch.setattr(libvirt.virDomain, "blockResize", block_resize)
    monkeypatch.setattr(libvirt.virDomain, "blockInfo", lambda *_args: [host.info("a")[1], 0, 0])
    return told


def refused(host: VolumeHost, **params: t.Any) -> str:
    before = host.purge.files()
    with pytest.raises(VirtError) as caught:
        host.run(**params)
    assert host.purge.files() == before
    return str(caught.value)


@pytest.mark.parametrize("image_format", ["qcow2", "raw"])
@pytest.mark.parametrize("has_machine", [True, False])
def test_one_that_nothing_runs_with_grows(host: VolumeHost, image_format: str, has_machine: bool) -> None:
    host.run(name="a", size="8MiB", format=image_format)
    given: dict[str, t.Any] = {"name": "a", "size": 16}
    if has_machine:
        host.purge.guest("other", disk(host.pool / "a", image_format=image_format))
    else:
        given["format"] = image_format
    result = host.one(**given)
    assert result["actions"] == ["grow volume a of pool default from 8.0M to 16.0M"]
    assert (result["size_bytes"], host.info("a")) == (16 * MIB, (image_format, 16 * MIB))
    assert host.one(**given)["changed"] is False


@pytest.mark.parametrize("size", ["7MiB", 16])
def test_a_header_that_nobody_vouches_for_changes_no_size(host: VolumeHost, size: str | int) -> None:
    """A guest may have written it into its raw disk, and its machine is gone."""
    host.run(name="a", size="8MiB")
    words = refused(host, name="a", size=size)
    assert words.startswith("format: volume a of pool default looks like qcow2 by its first bytes")
    assert words.endswith("so that its size is not changed. Set format: qcow2 or format: raw")
    assert host.one(name="a", size="8MiB")["changed"] is False


@pytest.mark.parametrize("given", [{"name": "a.raw"}, {"name": "a", "format": "raw"}])
def test_a_raw_one_grows_as_such_whatever_its_guest_wrote(host: VolumeHost, given: dict[str, t.Any]) -> None:
    host.run(**{**given, "size": "8MiB", "format": "raw"})
    guests = make_qcow2(host.outside / "guests", "1T")
    with (host.pool / given["name"]).open("r+b") as file:
        file.write(guests.read_bytes()[:65536])
    result = host.one(**given, size=16)
    assert (result["format"], result["size_bytes"]) == ("raw", 16 * MIB)
    assert (host.pool / given["name"]).stat().st_size == 16 * MIB
    assert host.info(given["name"]) == ("qcow2", 1 << 40)
    assert host.one(**given, size=16)["changed"] is False


def make_qcow2(path: Path, size: str, *options: str) -> Path:
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *options, str(path), size], check=True)
    return path


@pytest.mark.parametrize("source", ["<source file='{outside}/link'/>", "<source pool='again' volume='a'/>"])
def test_the_machine_is_found_by_whatever_name_it_has_the_file(host: VolumeHost, source: str) -> None:
    host.run(name="a", size="8MiB", format="raw")
    (host.outside / "link").symlink_to(host.pool / "a")
    (host.outside.parent / "folder").symlink_to(host.pool)
    host.purge.conn.storagePoolCreateXML(POOL.format("again", host.outside.parent / "folder"), 0)
    kind = "file" if "file=" in source else "volume"
    driver = f"<driver type='raw'/>{source.format(outside=host.outside)}<target dev='vda'/>"
    host.purge.guest("other", f"<disk type='{kind}'>{driver}</disk>")
    (host.pool / "a").write_bytes(make_qcow2(host.outside / "guests", "8M").read_bytes().ljust(8 * MIB, b"\0"))
    assert "is of format raw, the task asks for qcow2" in refused(host, name="a", format="qcow2", size=16)
    assert host.one(name="a", size=16)["format"] == "raw"
    assert (host.pool / "a").stat().st_size == 16 * MIB


def test_what_another_machine_has_it_in_since_the_plan_counts(
    host: VolumeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.run(name="a", size="8MiB")
    real = growth.growth_step

    def late(*args: t.Any, **settings: t.Any) -> t.Any:
        step = real(*args, **settings)
        host.purge.guest("other", disk(host.pool / "a", image_format="raw"))
        return step

    monkeypatch.setattr(present, "growth_step", late)
    answer = host.run(name="a", size=16, format="qcow2")
    assert "it has changed since this run looked" in answer["msg"]
    assert host.info("a") == ("qcow2", 8 * MIB)


def test_an_overlay_that_only_its_name_vouches_for_is_not_opened(host: VolumeHost) -> None:
    base = make_qcow2(host.outside / "base", "8M")
    host.run(name="a.qcow2", size="8MiB")
    (host.pool / "a.qcow2").unlink()
    make_qcow2(host.pool / "a.qcow2", "8M", "-b", str(base), "-F", "qcow2")
    words = refused(host, name="a.qcow2", size=16)
    assert "its header says that it is an overlay, and no machine has it. Set format: qcow2" in words
    assert host.one(name="a.qcow2", size=16, format="qcow2")["changed"] is True
    assert host.info("a.qcow2") == ("qcow2", 16 * MIB)


def test_content_that_is_that_of_the_tasks_file_tells_the_format(host: VolumeHost) -> None:
    make_qcow2(host.controller / "file", "8M")
    host.run(name="a", src="file")
    assert host.one(name="a", src="file", size=16)["changed"] is True
    assert host.info("a") == ("qcow2", 16 * MIB)
    # It has grown, and is no longer the file.
    assert "Set format: qcow2 or format: raw" in refused(host, name="a", src="file", size=24)
    assert host.one(name="a", src="file", size=24, format="qcow2")["changed"] is True


def test_the_machine_that_runs_grows_its_own_disk(host: VolumeHost, resized: list[t.Any]) -> None:
    host.run(name="a", size="8MiB")
    host.purge.guest("other", disk(host.pool / "a", "vdb")).create()
    before = host.purge.files()
    assert host.one(name="a", size=16)["changed"] is True
    assert resized == [("other", "vdb", 16 * MIB, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)]
    # The file is its own to write to.
    assert host.purge.files() == before


def test_it_is_found_by_its_pool_as_well(host: VolumeHost, resized: list[t.Any]) -> None:
    host.run(name="a", size="8MiB")
    source = "<source pool='default' volume='a'/>"
    host.purge.guest("other", f"<disk type='volume'><driver type='qcow2'/>{source}<target dev='vdc'/></disk>").create()
    assert host.one(name="a", size=16)["changed"] is True
    assert [each[:2] for each in resized] == [("other", "vdc")]


@pytest.mark.parametrize("extra", ["<readonly/>", "<shareable/>"])
def test_what_runs_and_is_not_one_machines_alone_does_not_grow(
    host: VolumeHost, resized: list[t.Any], extra: str
) -> None:
    host.run(name="a", size="8MiB", format="raw")
    shared = disk(host.pool / "a", image_format="raw").replace("</disk>", f"{extra}</disk>")
    host.purge.guest("other", shared).create()
    if "shareable" in extra:
        host.purge.guest("third", shared)
    words = refused(host, name="a", size=16)
    assert words.startswith("size: volume a of pool default is not grown while other runs with it: ")
    assert words.endswith("Stop other first")
    assert resized == []


def test_what_backs_another_does_not_grow(host: VolumeHost) -> None:
    host.run(name="a", size="8MiB")
    host.purge.image(host.pool / "clone.qcow2", below=host.pool / "a")
    words = refused(host, name="a", size=16, format="qcow2")
    assert "it backs volume default/clone.qcow2. Grow the overlay instead" in words


def test_what_a_snapshot_has_does_not_grow(host: VolumeHost) -> None:
    host.run(name="a", size="8MiB")
    guest = host.purge.guest("other", disk(host.pool / "a"))
    guest.snapshotCreateXML("<domainsnapshot><name>s1</name></domainsnapshot>", 0)
    assert "it is used by snapshot s1 of machine other" in refused(host, name="a", size=16)


def test_what_is_no_disk_of_its_machine_does_not_grow(host: VolumeHost) -> None:
    """The variables of UEFI have to be as large as their flash chip."""
    host.run(name="a", size="8MiB", format="raw")
    host.purge.guest("other")
    add_nvram(host.purge, "other", host.pool / "a")
    assert "machine other has it as something else than a disk" in refused(host, name="a", size=16)


def test_a_machines_own_disk_and_an_image_grow_elsewhere(host: VolumeHost) -> None:
    host.purge.make()
    words = refused(host, name="web1-system.qcow2", size="1GiB")
    assert "belongs to machine web1. Set the size of the disk in virt_init of web1" in words
    host.purge.image(host.pool / "tiny-0123456789abcdef.qcow2")
    assert "it is a stored image" in refused(host, name="tiny-0123456789abcdef.qcow2", size="1GiB")


def test_a_header_that_leads_to_another_file_does_not_grow(host: VolumeHost) -> None:
    """A guest may have made it, while it had the volume as a raw disk."""
    host.run(name="a", size="8MiB")
    (host.pool / "a").unlink()
    victim = host.outside / "victim"
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-o", f"data_file={victim}", str(host.pool / "a"), "8M"]
    subprocess.run(command, check=True)
    assert "has its data in another file. Set format: raw if it is a raw disk" in refused(
        host, name="a", size=16, format="qcow2"
    )
    assert host.one(name="a", size=16, format="raw")["size_bytes"] == 16 * MIB
    assert not victim.stat().st_size > 8 * MIB


def test_it_is_looked_at_again(host: VolumeHost, resized: list[t.Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has been started since the plan grows it itself."""
    host.run(name="a", size="8MiB")
    guest = host.purge.guest("other", disk(host.pool / "a"))
    real = growth.growth_step

    def late(*args: t.Any, **settings: t.Any) -> t.Any:
        step = real(*args, **settings)
        guest.create()
        return step

    monkeypatch.setattr(present, "growth_step", late)
    assert host.run(name="a", size=16)["volumes"][0]["changed"] is True
    assert [each[0] for each in resized] == ["other"]
    assert host.info("a") == ("qcow2", 8 * MIB)


@pytest.mark.parametrize("runs", [True, False])
def test_what_another_run_has_grown_more_is_not_made_smaller(
    host: VolumeHost, resized: list[t.Any], monkeypatch: pytest.MonkeyPatch, runs: bool
) -> None:
    """QEMU cuts off the end of a disk that it is given a smaller size for, with what the guest has put there."""
    host.run(name="a", size="8MiB")
    guest = host.purge.guest("other", disk(host.pool / "a"))
    if runs:
        guest.create()
    real = growth.growth_step

    def late(*args: t.Any, **settings: t.Any) -> t.Any:
        step = real(*args, **settings)
        subprocess.run(["qemu-img", "resize", "-q", "-f", "qcow2", str(host.pool / "a"), "32M"], check=True)
        return step

    monkeypatch.setattr(present, "growth_step", late)
    answer = host.run(name="a", size=16)
    assert (answer["failed"], answer["changed"], resized) == (True, False, [])
    assert "has 32.0M, and is never shrunk" in answer["msg"]
    assert answer["volumes"][0]["size_bytes"] == 32 * MIB


@pytest.mark.parametrize("runs_here", [True, False])
def test_what_others_may_use_does_not_grow_before_they_are_asked(
    host: VolumeHost, monkeypatch: pytest.MonkeyPatch, resized: list[t.Any], runs_here: bool
) -> None:
    monkeypatch.setattr(growth, "seen_elsewhere", lambda _pool: "it is shared")
    monkeypatch.setattr(shared, "shared_because", lambda _pool: "it is shared")
    host.run(name="a", size="8MiB")
    if runs_here:
        host.purge.guest("other", disk(host.pool / "a")).create()
    before = host.purge.files()
    for check_mode in (True, False):
        answer = host.run(
            check_mode, volumes=[{"name": "a", "size": 16, "format": "qcow2"}, {"name": "b", "size": "1MiB"}]
        )
        assert (answer["failed"], answer["changed"], answer["diff"]) == (True, False, [])
        assert "volumes[0].size: volume a of pool default is not grown: it is shared. Ask them" in answer["msg"]
        assert answer["volumes"][0]["shared"]["volume"] == "a"
        assert answer["volumes"][0]["size_bytes"] == 8 * MIB
        assert (host.purge.files(), resized) == (before, [])
    # Nothing is to be done, and nobody has to be asked.
    assert host.one(name="a", size="8MiB", format="qcow2")["shared"] is None


def test_what_others_run_with_does_not_grow(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "seen_elsewhere", lambda _pool: "it is shared")
    for module in (shared, answers):
        monkeypatch.setattr(module, "shared_because", lambda _pool: "it is shared")
    host.run(name="a", size="8MiB")
    given: dict[str, t.Any] = {"name": "a", "size": 16, "format": "qcow2"}
    said = {"volumes": [{"pool": "default", "volume": "a", "users": ["machine far"], "unknown": []}]}
    words = refused(host, **given, used_elsewhere={"hv2": said})
    assert "it is used by machine far on hv2" in words
    words = refused(host, **given, used_elsewhere={"hv2": "it is off"})
    assert "it cannot be determined whether something uses it: it is shared, and hv2, which may use it too" in words
    said["volumes"][0]["users"] = []
    assert host.run(**given, used_elsewhere={"hv2": said})["changed"] is True


def test_a_device_that_has_grown_without_its_machine_knowing_is_finished(
    host: VolumeHost, resized: list[tuple[str, str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run was killed between the two. The file here stands for a device."""
    for module in (growth, volumes):
        monkeypatch.setattr(module, "BLOCK", "file")
    host.run(name="a", size="8MiB", format="raw")
    host.purge.guest("other", disk(host.pool / "a", image_format="raw")).create()
    known = [4 * MIB]
    monkeypatch.setattr(libvirt.virDomain, "blockInfo", lambda *_args: [known[0], 0, 0])
    real, told = volumes.grow_volume, []

    def grow(*arguments: t.Any, guest_bytes: int | None = None, **settings: t.Any) -> bool:
        told.append(guest_bytes)
        return real(*arguments, guest_bytes=guest_bytes, **settings)

    monkeypatch.setattr(volumes, "grow_volume", grow)
    assert host.one(name="a", size="8MiB")["changed"] is True
    assert [(machine, size) for machine, _target, size, _flags in resized] == [("other", 8 * MIB)]
    # What is behind that is wiped before the machine is told.
    assert told == known
    known[0] = 8 * MIB
    assert host.one(name="a", size="8MiB")["changed"] is False
