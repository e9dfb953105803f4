# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pools other hypervisors may see as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base import files
from ansible_collections.brine.virt.plugins.module_utils._base.files import Mount, read_mounts
from ansible_collections.brine.virt.plugins.module_utils._host.storage import shared_pools
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.shared_pools import (
    file_system_type,
    shared_because,
)

MOUNTINFO = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /srv/nfs rw shared:2 master:1 - nfs4 server:/export rw,vers=4.2
31 22 0:41 / /srv/with\040blank rw - fuse.glusterfs server:/vol rw
32 22 8:2 / /srv/nfs/local rw - xfs /dev/sdb1 rw
33 22 0:42 / /srv/twice rw - xfs /dev/sdc1 rw
34 22 0:43 / /srv/twice rw - ceph server:/ rw
35 22 0:44 / /srv/overlay rw - fuse.fuse-overlayfs fuse-overlayfs rw
broken
"""


def pool(kind: str = "dir", path: str = "/srv", local: bool = True) -> Pool:
    return Pool("p", path, 0, None, type=kind, local=local)


@pytest.fixture(autouse=True)
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTINFO)
    monkeypatch.setattr(shared_pools, "MOUNTS", str(tmp_path / "mountinfo"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/images", "ext4"),
        ("/srv/nfs", "nfs4"),
        ("/srv/nfs/deep/down", "nfs4"),
        ("/srv/nfsx", "ext4"),
        ("/srv/with blank/images", "fuse.glusterfs"),
        ("/srv/nfs/local/images", "xfs"),
        ("/srv/twice", "ceph"),
    ],
)
def test_the_file_system_that_a_path_is_on(path: str, kind: str) -> None:
    assert file_system_type(path) == kind


def test_the_kernel_says_the_same_as_this_reads() -> None:
    assert file_system_type("/proc/self", "/proc/self/mountinfo") == "proc"


def test_pools_that_other_hypervisors_may_see() -> None:
    assert shared_because(pool("netfs")) == "storage pool p is of type netfs"
    assert shared_because(pool("rbd", local=False)) == "storage pool p is of type rbd"
    assert shared_because(pool(path="/srv/nfs")) == "storage pool p lies on a file system of type nfs4"
    assert shared_because(pool("fs", path="/srv/with blank")) is not None


@pytest.mark.parametrize("kind", ["autofs", "fuse", "wekafs", "cvfs", "fuse.sshfs"])
def test_a_file_system_that_is_not_known_to_be_of_one_host_may_be_shared(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(shared_pools, "file_system_type", lambda _path: kind)
    assert shared_because(pool()) == f"storage pool p lies on a file system of type {kind}"


def test_where_the_kernel_says_nothing_it_may_be_shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shared_pools, "MOUNTS", str(tmp_path / "none"))
    assert shared_because(pool()) == "storage pool p lies on a file system of type unknown"


@pytest.mark.parametrize(
    ("path", "exported"),
    [
        ("/srv/vms", "/srv/vms"),
        ("/srv/vms/deep", "/srv/vms"),
        ("/srv/with blank/images", "/srv/with blank"),
        ("/srv/vmsx", None),
        ("/srv", None),
    ],
)
def test_what_this_host_exports_others_may_have(
    path: str, exported: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mountinfo").write_text("22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n")
    (tmp_path / "etab").write_text("/srv/vms\t10.0.0.0/24(rw,sync)\n\n/srv/with\\040blank\t*(ro)\n")
    monkeypatch.setattr(files, "EXPORTS", str(tmp_path / "etab"))
    words = f"storage pool p lies in {exported}, which this host exports by NFS"
    assert shared_because(pool(path=path)) == (words if exported else None)
    # Of another host this one's exports say nothing.
    assert shared_because(pool(path=path, local=False)) is None


def test_a_file_system_below_what_is_exported_is_not_exported_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    etab = tmp_path / "etab"
    mounts = [Mount("/", "ext4", "a", "8:1"), Mount("/srv/vms", "xfs", "b", "8:2")]
    monkeypatch.setattr(files, "read_mounts", lambda: mounts)
    etab.write_text("/srv\t10.0.0.0/24(rw,hide,nocrossmnt)\n")
    assert files.exported_directory("/srv/vms", str(etab)) is None
    assert files.exported_directory("/srv/other", str(etab)) == "/srv"
    etab.write_text("/srv\t10.0.0.0/24(rw,hide,crossmnt)\n")
    assert files.exported_directory("/srv/vms", str(etab)) == "/srv"


@pytest.mark.parametrize(
    ("exported", "options", "path", "seen"),
    [
        # A bind mount is what clients get, as with NFS 4; the pool is in what is mounted there.
        ("/export/vms", "rw", "/srv/vms/images", True),
        ("/export/vms", "rw", "/srv/images", False),
        ("/export", "rw,crossmnt", "/srv/vms/images", True),
        ("/export", "rw", "/srv/vms/images", False),
        # The pool is in a bind mount of a part of what is exported.
        ("/srv", "rw", "/export/vms/images", True),
        ("/srv/other", "rw", "/export/vms/images", False),
        # A subvolume of btrfs that is mounted by itself as well.
        ("/data/guests", "rw", "/guests", True),
        ("/data/other", "rw", "/guests", False),
    ],
)
def test_an_export_by_another_way(
    exported: str, options: str, path: str, seen: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mountinfo").write_text(
        "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
        "23 22 8:2 / /srv rw shared:2 - xfs /dev/sdb1 rw\n"
        "24 22 8:2 /vms /export/vms rw shared:2 - xfs /dev/sdb1 rw\n"
        "25 22 0:40 / /data rw shared:3 - btrfs /dev/sdc rw\n"
        "26 22 0:40 /guests /guests rw shared:4 - btrfs /dev/sdc rw\n"
    )
    monkeypatch.setattr(files, "read_mounts", lambda: read_mounts(str(tmp_path / "mountinfo")))
    (tmp_path / "etab").write_text(f"{exported}\t*({options})\n")
    assert files.exported_directory(path, str(tmp_path / "etab")) == (exported if seen else None)


def test_pools_of_this_hypervisor_alone() -> None:
    assert shared_because(pool()) is None
    assert shared_because(pool(path="/srv/overlay")) is None
    assert shared_because(pool("logical", path="/dev/vg")) is None
    # What is mounted there cannot be seen from here.
    assert shared_because(pool(path="/srv/nfs", local=False)) is None
