# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a pool: what may be mounted there, and its owner and mode."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    InputError,
    NotFoundError,
)
from ansible_collections.brine.virt.plugins.module_utils._host.storage import shared_pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.setup.directory import (
    group_number,
    permissions_of,
    require_mount_point,
    require_own_directory,
    resolved_directory,
    set_permissions,
    user_number,
)

MOUNTED = "36 35 98:0 / {place} rw,noatime master:1 - nfs4 nas:/srv/vms rw,addr=192.0.2.1\n"


def test_an_empty_directory_may_be_mounted_on(tmp_path: Path) -> None:
    require_mount_point(str(tmp_path), "nas:/srv/vms", "path")
    require_mount_point(str(tmp_path / "missing"), "nas:/srv/vms", "path")


def test_files_are_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "web1.qcow2").touch()
    with pytest.raises(ConflictError, match=r"path: .* is not empty, and what is mounted there would hide its files"):
        require_mount_point(str(tmp_path), "nas:/srv/vms", "path")
    with pytest.raises(ConflictError, match=r"path: .*web1.qcow2 is not a directory"):
        require_mount_point(str(tmp_path / "web1.qcow2"), "nas:/srv/vms", "path")


def test_what_is_mounted_already_is_fine_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "a b"
    place.mkdir()
    (place / "web1.qcow2").touch()
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTED.format(place=str(place).replace(" ", "\\040")), encoding="utf-8")
    monkeypatch.setattr(shared_pools, "MOUNTS", str(mounts))
    require_mount_point(str(place), "nas:/srv/vms", "path")
    require_mount_point(str(place), "nas:/srv/vms/", "path")
    with pytest.raises(ConflictError, match=r"path: nas:/srv/vms is mounted on .*Unmount it first"):
        require_mount_point(str(place), "nas:/srv/other", "path")
    assert shared_pools.mounted_at(str(tmp_path)) is None


@pytest.mark.parametrize(
    "path", ["/", "/etc", "/etc/ssh", "/root", "/root/vms", "/usr/lib/x", "/home", "/var/lib", "/dev/shm"]
)
def test_what_belongs_to_the_host_is_no_pool(path: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="path: .* belongs to the host's own system. Give the pool a directory of its"):
        require_own_directory(path, "path")
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(InputError, match=r"path: .*/link \(which is .*\) belongs to the host's own system"):
        require_own_directory(str(link), "path")


def test_the_home_of_a_user_is_no_pool(tmp_path: Path) -> None:
    (tmp_path / ".ssh" / "deep").mkdir(parents=True)
    for path in (tmp_path, tmp_path / ".ssh", tmp_path / ".ssh" / "deep"):
        with pytest.raises(InputError, match="path: .* belongs to a user who logs in over SSH"):
            require_own_directory(str(path), "path")


def test_a_directory_of_its_own_may_be_a_pool(tmp_path: Path) -> None:
    for path in ("/srv/vms", "/var/lib/libvirt/images", "/home/vms", "/dev/shm/vms", "/usr/local/vms", "/mnt", "/data"):
        require_own_directory(path, "path")
    require_own_directory(str(tmp_path), "path")
    (tmp_path / "file").touch()
    with pytest.raises(ConflictError, match="path: .*/file is not a directory"):
        require_own_directory(str(tmp_path / "file"), "path")


def test_owner_group_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    path.mkdir(mode=0o700)
    assert permissions_of(str(path)) == {"owner": os.getuid(), "group": os.getgid(), "mode": "0700"}
    set_permissions(str(path), {"mode": "0751"})
    assert permissions_of(str(path)) == {"owner": os.getuid(), "group": os.getgid(), "mode": "0751"}
    set_permissions(str(path), {"owner": os.getuid(), "group": os.getgid()})
    assert permissions_of(str(tmp_path / "missing")) is None
    with pytest.raises(HostError, match="owner and mode of .* cannot be set: No such file"):
        set_permissions(str(tmp_path / "missing"), {"mode": "0751"})


@pytest.mark.parametrize("replaced", ["home", "home/pool"])
@pytest.mark.parametrize("by", ["link", "file"])
def test_no_link_is_followed_that_somebody_has_set_since(tmp_path: Path, replaced: str, by: str) -> None:
    """Whoever owns the directory above could have root give him another one."""
    path, other = tmp_path / "home/pool", tmp_path / "etc/pool"
    for each in (path, other):
        each.mkdir(parents=True)
        each.chmod(0o755)
    real = resolved_directory(str(path), "path")
    (tmp_path / replaced).rename(tmp_path / "aside")
    if by == "link":
        (tmp_path / replaced).symlink_to(tmp_path / replaced.replace("home", "etc"))
    else:
        (tmp_path / replaced).touch()
    with pytest.raises(ConflictError, match=f"owner and mode of {path} cannot be set: .*/{replaced} is no directory"):
        set_permissions(real, {"mode": "0700", "owner": os.getuid()})
    assert stat.S_IMODE(other.stat().st_mode) == 0o755


def test_a_link_that_was_there_before_leads_to_the_directory(tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to("pool")
    set_permissions(resolved_directory(str(tmp_path / "link"), "path"), {"mode": "0700"})
    assert stat.S_IMODE((tmp_path / "pool").stat().st_mode) == 0o700
    (tmp_path / "host").symlink_to("/etc")
    with pytest.raises(InputError, match="path: /etc belongs to the host's own system"):
        resolved_directory(str(tmp_path / "host"), "path")


def test_accounts_by_name() -> None:
    assert (user_number("root", "owner"), group_number("root", "group"), user_number(64055, "owner")) == (0, 0, 64055)
    with pytest.raises(NotFoundError, match="owner: this host has no user 'nobody-at-all'"):
        user_number("nobody-at-all", "owner")
