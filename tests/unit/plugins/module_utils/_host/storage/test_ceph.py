# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import HostError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.storage import ceph as client
from ansible_collections.brine.virt.plugins.module_utils._host.storage.ceph import (
    KEY_ID,
    ceph_errors,
    rbd_node,
    require_bindings,
)
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pool
from ansible_collections.brine.virt.plugins.module_utils._host.storage.proof import has_marks, mark_volume
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import VolumeNote
from ansible_collections.brine.virt.plugins.module_utils._model.xml.disk_source import DiskSource
from ansible_collections.brine.virt.plugins.module_utils._operations.disks.new_volume import mark_for
from ansible_collections.brine.virt.plugins.module_utils._operations.ownership import UNTOLD, identify

CLUSTER = DiskSource(
    "network",
    protocol="rbd",
    name="vms/a,b",
    hosts=(("127.0.0.1", 1), ("::1", None)),
    auth_user="libvirt",
    auth_type="ceph",
    secret_usage="the key",
)


def test_a_cluster_in_the_words_of_qemu() -> None:
    bare = dataclasses.replace(CLUSTER, auth_user=None, auth_type=None, secret_usage=None)
    servers = [{"host": "127.0.0.1", "port": "1"}, {"host": "::1", "port": "6789"}]
    assert rbd_node(bare) == {"driver": "rbd", "pool": "vms", "image": "a,b", "server": servers}
    assert rbd_node(CLUSTER)["user"] == "libvirt" and rbd_node(CLUSTER)["key-secret"] == KEY_ID


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
def test_qemu_knows_all_these_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes as far as reading the key, which is none."""
    (tmp_path / "image").write_bytes(bytes(1 << 20))
    monkeypatch.setattr(client, "cluster_key", lambda _pool, _source: b"QUJD")
    pool = Pool("ceph", "", 0, None, type="rbd", network=dataclasses.replace(CLUSTER, name="vms/"))
    target = client.qemu_name(pool, "a,b")
    command = [
        "qemu-img",
        "convert",
        *target.options,
        "-n",
        "-f",
        "raw",
        "-O",
        "raw",
        str(tmp_path / "image"),
        target.name,
    ]
    tried = subprocess.run(command, input=target.data, stderr=subprocess.PIPE, check=False, timeout=300)
    if b"Unknown driver" in tried.stderr or b"block-rbd" in tried.stderr:
        pytest.skip("QEMU's driver for Ceph is not installed (package qemu-block-extra)")
    assert b"error connecting: Invalid argument" in tried.stderr


def test_without_the_bindings_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> t.Any:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(client.importlib, "import_module", missing)
    pool = Pool("ceph", "", 0, None, type="rbd", network=CLUSTER)
    with pytest.raises(UnsupportedError, match="No module named 'rados'") as error:
        require_bindings(pool, "disks[0].pool")
    assert error.value.where == "disks[0].pool" and "python3-rbd" in (error.value.hint or "")


def test_without_the_bindings_volumes_have_no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made by libvirt as in any pool, and nothing is noted that nobody could read."""

    def missing(name: str) -> t.Any:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(client.importlib, "import_module", missing)
    pool = Pool("ceph", "", 0, None, type="rbd", network=CLUSTER, local=True)
    assert not has_marks(pool) and not mark_for(pool, "web1-system", [])
    mark_volume(pool, None, "raw", "a mark")
    note = VolumeNote("ceph", "web1-system", "disk", identity="of another hypervisor")
    assert identify(pool, note) == UNTOLD


def test_an_address_of_a_monitor() -> None:
    assert [client._monitor(*host) for host in CLUSTER.hosts] == ["127.0.0.1:1", "[::1]"]


class _Bindings:
    class Error(Exception):
        pass


def test_errors_of_ceph_are_ours() -> None:
    words = r"^cannot reach it: no monitor$"
    with pytest.raises(HostError, match=words), ceph_errors(_Bindings, _Bindings, "cannot reach it"):
        raise _Bindings.Error("no monitor")
    with pytest.raises(HostError, match=r"^another run$"), ceph_errors(_Bindings, _Bindings, "cannot reach it"):
        raise HostError("another run")
