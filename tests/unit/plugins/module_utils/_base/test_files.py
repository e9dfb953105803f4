# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are whole or not there, with their mode before their content; and locks: one holder, a limit to the
waiting, and nothing that somebody else could have put in its place."""

from __future__ import annotations

import errno
import fcntl
import os
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError
from ansible_collections.brine.virt.plugins.module_utils._base.files import (
    LockTimeout,
    locked_file,
    missing_mount,
    read_setting,
    read_text,
    root_hint,
    write_whole,
)


def test_the_second_one_waits_no_longer_than_its_limit(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with locked_file(path, 1):
        began = time.monotonic()
        with pytest.raises(LockTimeout, match=r"more than 0\.3 s"), locked_file(path, 0.3):
            pass
        assert 0.3 <= time.monotonic() - began < 300
    with locked_file(path, 0):
        pass


def test_a_lock_that_an_smb_server_refuses_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int, _how: int) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(LockTimeout), locked_file(str(tmp_path / "lock"), 0.1):
        pass


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), locked_file(str(tmp_path / "lock"), 0):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_nobody_else_may_open_it(tmp_path: Path) -> None:
    with locked_file(str(tmp_path / "lock"), 0):
        assert os.stat(tmp_path / "lock").st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o400])
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_file_has_its_mode_whatever_was_there_and_nothing_else_stays(tmp_path: Path, mode: int, umask: int) -> None:
    path = tmp_path / "key.pem"
    path.write_text("old")
    path.chmod(0o666)
    before = os.umask(umask)
    try:
        write_whole(str(path), b"new", mode, (os.geteuid(), os.getegid()))
    finally:
        os.umask(before)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o7777 == mode
    assert list(tmp_path.iterdir()) == [path]


def test_owner_and_mode_are_there_before_the_content_and_all_of_it_is_safe_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def noted(name: str, real: t.Callable[..., t.Any]) -> None:
        def call(descriptor: t.Any, *rest: t.Any) -> t.Any:
            steps.append(f"{name} {os.fstat(descriptor).st_size}" if name != "replace" else name)
            return real(descriptor, *rest)

        monkeypatch.setattr(os, name, call)

    for name, real in (("fchown", os.fchown), ("fchmod", os.fchmod), ("fsync", os.fsync), ("replace", os.replace)):
        noted(name, real)
    write_whole(str(tmp_path / "key.pem"), b"secret", 0o640, (os.geteuid(), os.getegid()))
    assert steps[:4] == ["fchown 0", "fchmod 0", "fsync 6", "replace"]
    # And then the folder.
    assert [step.partition(" ")[0] for step in steps[4:]] == ["fsync"]


def test_a_link_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("somebody's")
    (tmp_path / "file").symlink_to(tmp_path / "elsewhere")
    write_whole(str(tmp_path / "file"), b"ours", 0o600)
    assert (tmp_path / "elsewhere").read_text() == "somebody's"
    assert not (tmp_path / "file").is_symlink()


def test_what_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError):
        write_whole(str(tmp_path / "file"), b"ours", 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("port = 49152", "49152"),
        ("  port=49152 # the first", "49152"),
        ('port = "a b"', "a b"),
        ("port = 'a'  # quoted", "a"),
        ('port = ""', ""),
        ('port = "a#b"', "a#b"),
        ("port = 1\nport = 2", "1"),
        ("#port = 1", None),
        ("other_port = 1", None),
        ("port_max = 1", None),
        ("", None),
    ],
)
def test_a_setting(tmp_path: Path, line: str, value: str | None) -> None:
    path = tmp_path / "qemu.conf"
    path.write_text(f"# port = 7\nsomething = 1\n{line}\nlast = [ 1 ]\n")
    assert read_setting(str(path), "port") == value


def test_a_file_that_is_not_there_has_no_settings(tmp_path: Path) -> None:
    assert read_setting(str(tmp_path / "missing"), "port") is None


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot be read"):
        read_setting(str(tmp_path), "port")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.ENOSPC, errno.ELOOP, errno.EISDIR, errno.EROFS])
@pytest.mark.parametrize("user", [0, 1000])
def test_to_become_root_is_said_to_who_is_not_and_may_not(
    monkeypatch: pytest.MonkeyPatch, number: int, user: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    helps = user == 1000 and number in (errno.EACCES, errno.EPERM)
    assert root_hint(OSError(number, os.strerror(number))) == ("Run as root (become: true)" if helps else None)


def test_what_root_cannot_read_either_has_no_such_hint(tmp_path: Path) -> None:
    with pytest.raises(HostError) as refused:
        read_text(str(tmp_path))
    assert str(refused.value) == f"{tmp_path} cannot be read: Is a directory"


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("/srv/vms/pool", "/srv/vms"),
        ("/srv/vms", "/srv/vms"),
        ("/srv/vms2", None),
        ("/data/pool", None),
        ("/mnt/usb/pool", None),
        ("/my disks/pool", "/my disks"),
        ("/short/pool", "/short"),
        ("/mnt/nas/pool", "/mnt/nas"),
        ("/var/lib/libvirt/images", None),
    ],
)
def test_what_the_host_is_to_mount_and_has_not(tmp_path: Path, path: str, missing: str | None) -> None:
    fstab, table = tmp_path / "fstab", tmp_path / "mountinfo"
    fstab.write_text(
        "# /dev/sdz1 /var ext4 defaults 0 2\n"
        "UUID=1 / ext4 errors=remount-ro 0 1\nUUID=2 none swap sw 0 0\n\n"
        "/dev/sdb1 /srv/vms/ xfs defaults 0 2\nserver:/x /data nfs4 _netdev 0 0\n"
        "/dev/sdc1 /mnt/usb vfat rw,noauto 0 0\nLABEL=a /my\\040disks ext4 defaults\nbroken /x\n"
        "/dev/sdd1 /short ext4\nserver:/y /mnt/nas nfs4 noauto,x-systemd.automount 0 0\n",
        encoding="utf-8",
    )
    table.write_text(
        "20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n21 20 0:3 / /data rw - nfs4 server:/x rw\n", encoding="utf-8"
    )
    assert missing_mount(path, str(table), str(fstab)) == missing


def test_a_mount_point_that_is_a_link(tmp_path: Path) -> None:
    """The kernel has the place that it leads to."""
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    fstab, table = tmp_path / "fstab", tmp_path / "mountinfo"
    fstab.write_text(f"/dev/sdb1 {tmp_path}/link ext4 defaults 0 2\n", encoding="utf-8")
    table.write_text(f"20 1 8:1 / {tmp_path}/there rw - ext4 /dev/sdb1 rw\n", encoding="utf-8")
    assert missing_mount(f"{tmp_path}/link/pool", str(table), str(fstab)) is None
    table.write_text("20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", encoding="utf-8")
    assert missing_mount(f"{tmp_path}/link/pool", str(table), str(fstab)) == f"{tmp_path}/link"


def test_a_link_to_below_a_mount_point(tmp_path: Path) -> None:
    (tmp_path / "volume/vms").mkdir(parents=True)
    (tmp_path / "pool").symlink_to("volume/vms")
    fstab, table = tmp_path / "fstab", tmp_path / "mountinfo"
    fstab.write_text(f"/dev/sdb1 {tmp_path}/volume ext4 defaults 0 2\n", encoding="utf-8")
    table.write_text("20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", encoding="utf-8")
    assert missing_mount(f"{tmp_path}/pool", str(table), str(fstab)) == f"{tmp_path}/volume"


@pytest.mark.parametrize("kind", ["mount", "automount"])
def test_a_mount_unit_that_is_enabled(tmp_path: Path, kind: str) -> None:
    units, table, fstab = tmp_path / "units", tmp_path / "mountinfo", tmp_path / "none"
    (units / "local-fs.target.wants").mkdir(parents=True)
    (units / f"srv-vms.{kind}").write_text("[Mount]\nWhat=/dev/sdb1\nWhere = /srv/vms/\n", encoding="utf-8")
    table.write_text("20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", encoding="utf-8")

    def missing() -> str | None:
        return missing_mount("/srv/vms/pool", str(table), str(fstab), str(units))

    assert missing() is None
    (units / f"local-fs.target.wants/srv-vms.{kind}").symlink_to(f"../srv-vms.{kind}")
    (units / "local-fs.target.wants/gone.mount").symlink_to("../gone.mount")
    assert missing() == "/srv/vms"
    table.write_text("20 1 8:1 / /srv/vms rw - ext4 /dev/sdb1 rw\n", encoding="utf-8")
    assert missing() is None


def test_a_mount_unit_of_a_package_that_is_enabled_and_masked(tmp_path: Path) -> None:
    """systemctl mask leaves the link of enable where it is."""
    units, table, package = tmp_path / "units", tmp_path / "mountinfo", tmp_path / "srv.mount"
    (units / "local-fs.target.wants").mkdir(parents=True)
    package.write_text("[Mount]\nWhat=/dev/sdb1\nWhere=/srv\n", encoding="utf-8")
    (units / "local-fs.target.wants/srv.mount").symlink_to(package)
    table.write_text("20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", encoding="utf-8")
    assert missing_mount("/srv/pool", str(table), str(tmp_path / "none"), str(units)) == "/srv"
    (units / "srv.mount").symlink_to("/dev/null")
    assert missing_mount("/srv/pool", str(table), str(tmp_path / "none"), str(units)) is None


def test_a_file_system_that_is_mounted_when_it_is_used(tmp_path: Path) -> None:
    """While systemd waits for that, the kernel has an autofs there."""
    units, table = tmp_path / "units", tmp_path / "mountinfo"
    (units / "remote-fs.target.wants").mkdir(parents=True)
    (units / "remote-fs.target.wants/srv.automount").write_text("[Automount]\nWhere=/srv\n", encoding="utf-8")
    table.write_text("20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", encoding="utf-8")
    assert missing_mount("/srv/pool", str(table), str(tmp_path / "none"), str(units)) == "/srv"
    table.write_text("20 1 0:9 / /srv rw - autofs systemd-1 rw\n", encoding="utf-8")
    assert missing_mount("/srv/pool", str(table), str(tmp_path / "none"), str(units)) is None


def test_what_is_mounted_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share whose server is dead never answers: no pool on another file system waits for it."""
    fstab, table = tmp_path / "fstab", tmp_path / "mountinfo"
    fstab.write_text("server:/x /mnt/dead nfs4 defaults 0 0\n/dev/sdb1 /srv ext4 defaults 0 2\n", encoding="utf-8")
    table.write_text("20 1 0:9 / /mnt/dead rw - nfs4 server:/x rw\n", encoding="utf-8")
    looked: list[str] = []
    lstat = os.lstat

    def look(path: str, **more: t.Any) -> os.stat_result:
        looked.append(str(path))
        return lstat(path, **more)

    monkeypatch.setattr(os, "lstat", look)
    assert missing_mount("/srv/pool", str(table), str(fstab), str(tmp_path / "none")) == "/srv"
    assert "/srv" in looked
    assert "/mnt/dead" not in looked


def test_without_the_tables_nothing_is_known_to_be_missing(tmp_path: Path) -> None:
    fstab = tmp_path / "fstab"
    fstab.write_text("/dev/sdb1 /srv ext4 defaults 0 2\n", encoding="utf-8")
    assert missing_mount("/srv", str(tmp_path / "none"), str(fstab)) is None
    assert missing_mount("/srv", "/proc/self/mountinfo", str(tmp_path / "none")) is None
