# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumes of a restored machine in a pool of a Ceph cluster."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import ceph
from ansible_collections.brine.virt.plugins.module_utils._model.backup.manifest import DiskEntry
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.restore import volumes
from ansible_collections.brine.virt.plugins.module_utils._operations.restore.volumes import RestoredVolume, plan_volume

POOL = "<pool type='rbd'><name>ceph</name><source><host name='mon'/><name>vms</name></source></pool>"
VOLUME = "<volume><name>{}</name><capacity>1048576</capacity></volume>"


@pytest.fixture
def hypervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Hypervisor]:
    """Its pool is that of a real libvirt on this machine."""
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        conn.storagePoolCreateXML(POOL, 0)
        made = Hypervisor(conn, image_pool="images")
        pool = dataclasses.replace(made.pools.get("ceph"), local=True, path="")
        monkeypatch.setattr(made.pools, "get", lambda _name, _where=None: pool)
        yield made


def plan(hypervisor: Hypervisor, name: str = "web1-system") -> RestoredVolume:
    entry = DiskEntry("vda", "vda.qcow2", None, 1 << 20, "qcow2", pool="default")
    return plan_volume(entry, hypervisor, pool="ceph", name=name, machine="web1", where="")


def test_without_the_bindings_no_mark_is_noted_that_nobody_writes(
    hypervisor: Hypervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once they are installed, the volume would be taken for another's, and stay when its machine is purged."""

    def missing(name: str) -> t.Any:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(ceph.importlib, "import_module", missing)
    assert not plan(hypervisor).mark


def test_with_them_it_has_one(hypervisor: Hypervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceph.importlib, "import_module", lambda _name: None)
    planned = plan(hypervisor)
    assert planned.mark and (planned.volume, planned.format) == ("web1-system", "raw")


def test_a_file_of_the_hypervisor_is_no_volume_of_the_cluster(hypervisor: Hypervisor) -> None:
    hypervisor.pools.get("ceph").handle.createXML(VOLUME.format("there"), 0)
    assert plan(hypervisor, "tmp").volume == "tmp"
    with pytest.raises(ConflictError, match="pool 'ceph' has a volume 'there' already"):
        plan(hypervisor, "there")


DELETE = "Only if nobody needs what is in it: virsh vol-delete there --pool ceph"


@pytest.mark.parametrize(
    ("machine", "was_in", "definition", "hint"),
    [
        (
            "web1",
            "ceph",
            "/srv/my backup/domain.xml",
            "It may be the machine's own disk, with newer data than the backup. To keep it, restore into another pool "
            "(pool) or under another name (new_name). If no hypervisor has the machine any more, read its "
            "definition, which nothing checks then (see trust_definition), and define it on its own disks again: virsh "
            f"define '/srv/my backup/domain.xml'. {DELETE}",
        ),
        # The definition in the backup has another name than the machine that is restored.
        (
            "web1",
            "ceph",
            "",
            "It may be the machine's own disk, with newer data than the backup. To keep it, restore into another pool "
            f"(pool) or under another name (new_name). {DELETE}",
        ),
        (
            "web1",
            "default",
            "/srv/my backup/domain.xml",
            "A machine of another hypervisor may have it, as storage pool ceph is of type rbd. Choose another pool "
            f"(pool) or another name (new_name). {DELETE}",
        ),
        (
            "",
            "ceph",
            "",
            "A machine of another hypervisor may have it, as storage pool ceph is of type rbd. Choose another name "
            f"(volume). {DELETE}",
        ),
    ],
)
def test_the_newest_data_are_not_offered_to_be_deleted_first(
    hypervisor: Hypervisor, monkeypatch: pytest.MonkeyPatch, machine: str, was_in: str, definition: str, hint: str
) -> None:
    """As of a machine whose hypervisor is lost: what it has written last is there, and the backup is older."""
    monkeypatch.setattr(ceph.importlib, "import_module", lambda _name: None)
    monkeypatch.setattr(volumes, "find_leftover", lambda *_what: None)
    hypervisor.pools.get("ceph").handle.createXML(VOLUME.format("there"), 0)
    entry = DiskEntry("vda", "vda.qcow2", None, 1 << 20, "raw", pool=was_in, volume="there")
    with pytest.raises(ConflictError) as caught:
        plan_volume(entry, hypervisor, pool="ceph", name="there", machine=machine, where="", definition=definition)
    assert caught.value.hint == hint
