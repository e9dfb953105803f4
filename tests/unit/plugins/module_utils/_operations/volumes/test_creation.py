# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a volume whose making fails: only what this run has made goes."""

from __future__ import annotations

import shutil
import subprocess
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import MIB
from ansible_collections.brine.virt.plugins.module_utils._host.storage import volumes
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer import fill
from ansible_collections.brine.virt.plugins.module_utils._host.storage.transfer.fill import FilledVolume
from ansible_collections.brine.virt.plugins.module_utils._model.image.marks import MARK_BYTES, read_upload
from ansible_collections.brine.virt.plugins.module_utils._operations.volumes import absent, creation, present
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.purge.purge_host import disk
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.volumes.volume_host import VolumeHost

pytestmark = pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")

CONTENT = b"content!" * MIB


def fail(*_args: t.Any, **_settings: t.Any) -> t.NoReturn:
    raise HostError("the disk has caught fire")


def failed(host: VolumeHost, *, stays: bool = False, **params: t.Any) -> str:
    answer = host.run(**params)
    assert (answer["failed"], answer["changed"], answer["volumes"][0]["present"]) == (True, stays, stays)
    return str(answer["msg"])


def test_an_empty_one_is_taken_back(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "mark_volume", fail)
    assert "caught fire" in failed(host, name="a", size="8MiB")
    assert host.purge.files() == {}


def test_a_link_that_leads_nowhere_is_refused_in_check_mode_too(host: VolumeHost) -> None:
    """libvirt leaves it out when it looks into the pool."""
    (host.pool / "a").symlink_to("/nowhere/disk")
    words = f"there is a link {host.pool}/a already, to /nowhere/disk, which is not there"
    for check in (True, False):
        with pytest.raises(volumes.VolumeExistsError, match=words):
            host.run(check, name="a", size="8MiB")
    assert (host.pool / "a").is_symlink()


def test_one_that_somebody_has_made_meanwhile_stays(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    (host.controller / "file").write_bytes(CONTENT)
    real = creation.NewVolume.element

    def late(new: t.Any, *args: t.Any) -> t.Any:
        (host.pool / new.name).write_bytes(b"somebody's")
        return real(new, *args)

    monkeypatch.setattr(creation.NewVolume, "element", late)
    several: list[dict[str, t.Any]] = [{"size": "8MiB"}, {"src": "file"}]
    for given in several:
        assert f"there is {host.pool}/a already, of which libvirt knows no volume" in failed(host, name="a", **given)
        assert (host.pool / "a").read_bytes() == b"somebody's"
        (host.pool / "a").unlink()


def test_a_half_one_is_taken_back(host: VolumeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    (host.controller / "file").write_bytes(CONTENT)
    for name in ("send_mark", "_on_disk"):
        with monkeypatch.context() as patched:
            patched.setattr(fill, name, fail)
            assert "caught fire" in failed(host, name="a", src="file")
        assert host.purge.files() == {}


def test_a_file_that_has_changed_since_it_was_looked_at_is_no_content(
    host: VolumeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = host.controller / "file"
    file.write_bytes(CONTENT)
    real = fill.send_file

    def late(*args: t.Any, **settings: t.Any) -> None:
        file.write_bytes(b"CONTENT!" * MIB)
        real(*args, **settings)

    monkeypatch.setattr(fill, "send_file", late)
    assert "does not match its name: its sha256 begins with" in failed(host, name="a", path=str(file))
    assert host.purge.files() == {}


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("fate", ["gone", "another", "rewritten"])
def test_nothing_is_deleted_or_made_for_a_file_that_has_gone_since_the_plan(
    host: VolumeHost, monkeypatch: pytest.MonkeyPatch, replace: bool, fate: str
) -> None:
    file = host.controller / "file"
    file.write_bytes(CONTENT)
    if replace:
        (host.controller / "old").write_bytes(b"oldest!!" * MIB)
        host.run(name="a", src="old")
    real = present.creation_step

    def late(*args: t.Any) -> t.Any:
        step = real(*args)
        if fate == "rewritten":
            file.write_bytes(b"CONTENT!" * MIB)
        else:
            file.unlink()
        if fate == "another":
            file.write_bytes(b"CONTENT!" * MIB)
        return step

    monkeypatch.setattr(present, "creation_step", late)
    before = host.purge.files()
    answer = host.run(name="a", path=str(file), replace=replace)
    assert (answer["failed"], answer["changed"], answer["volumes"][0]["actions"]) == (True, False, [])
    words = "has gone" if fate == "gone" else "has changed"
    assert f"path: {file} {words} since this run looked at it. Run the task again" in answer["msg"]
    assert host.purge.files() == before


def test_a_file_that_goes_after_the_old_content_is_still_sent(
    host: VolumeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host.controller / "old").write_bytes(b"oldest!!" * MIB)
    host.run(name="a", src="old")
    file = host.controller / "file"
    file.write_bytes(CONTENT)
    real = absent.delete_unused

    def late(*args: t.Any, **settings: t.Any) -> t.Any:
        file.unlink()
        return real(*args, **settings)

    monkeypatch.setattr(absent, "delete_unused", late)
    answer = host.run(name="a", path=str(file), replace=True)
    assert answer["changed"] is True
    assert (host.pool / "a").read_bytes() == CONTENT


@pytest.mark.parametrize("used", [True, False])
def test_a_whole_one_is_taken_back_unless_somebody_uses_it(
    host: VolumeHost, monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    path = host.controller / "file"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "8M"], check=True)

    def grow(*_args: t.Any, **_settings: t.Any) -> None:
        if used:
            host.purge.guest("other", disk(host.pool / "a"))
        fail()

    monkeypatch.setattr(volumes, "grow_volume", grow)
    words = failed(host, stays=used, name="a", src="file", size=16)
    assert "caught fire" in words
    assert ("a" in host.purge.files()) == used == ("it is used by machine other" in words)


class Killed(BaseException):
    pass


def test_a_logical_volume_is_not_whole_while_it_has_what_a_deleted_one_had(
    host: VolumeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wiping takes long and no lock is held: nobody is to write to it meanwhile, nor to read it when that is cut
    off."""
    folder = host.controller.parent / "vg"
    folder.mkdir()
    # The test driver has the volumes of a group below /dev.
    source = f"<source><name>..{folder}</name></source>"
    host.purge.conn.storagePoolCreateXML(f"<pool type='logical'><name>vg</name>{source}</pool>", 0)
    volume = folder / "a"
    real, heads = fill.zero_logical, []

    def old(pool: t.Any, made: t.Any, start: int) -> None:
        heads.append(read_upload(volume.read_bytes()[:MARK_BYTES]))
        with volume.open("r+b") as file:
            file.seek(MARK_BYTES)
            file.write(b"secret!!" * 1000)
        if len(heads) == 1:
            raise Killed
        real(pool, made, start)

    monkeypatch.setattr(fill, "zero_logical", old)
    with monkeypatch.context() as killed, pytest.raises(Killed):
        # Who is killed takes nothing back.
        killed.setattr(FilledVolume, "clear", lambda _self: False)
        host.run(name="a", pool="vg", size="8MiB")
    answer = host.run(name="a", pool="vg", size="8MiB")
    assert answer["volumes"][0]["actions"] == [
        "delete the unfinished volume a of pool vg",
        "create volume a in pool vg, 8.0M",
    ]
    assert None not in heads and len(heads) == 2
    assert volume.read_bytes() == bytes(8 * MIB)
    assert host.run(name="a", pool="vg", size="8MiB")["changed"] is False


def test_what_a_file_does_not_fill_has_nothing_of_a_deleted_volume(
    host: VolumeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On LVM: the volumes of this host, which are files, have nothing anyway."""
    wiped: list[tuple[str, int]] = []
    monkeypatch.setattr(fill, "zero_logical", lambda _pool, made, start: wiped.append((made.name(), start)))
    (host.controller / "file").write_bytes(CONTENT[: 3 * MIB])
    host.run(name="a", size="8MiB", format="raw", src="file")
    assert wiped == [("a", 3 * MIB)]
