# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only Ceph's bindings can write a seed in a cluster: without them, the plan says so, and not the run."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.storage import ceph, volumes
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.create.seed import plan_seed
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans, run_plans

POOL = "<pool type='rbd'><name>ceph</name><source><host name='mon'/><name>vms</name></source></pool>"
SPEC: dict[str, t.Any] = {
    "name": "web1",
    "vcpus": 1,
    "memory": 128,
    "disks": [{"name": "data", "size": 64, "pool": "ceph"}],
    "nic_profile": "none",
    "start": False,
}
SEED = {"pool": "ceph", "method": "nocloud"}


class Ceph(t.NamedTuple):
    """hypervisor: makes one each time. bindings: those of Ceph, by the names that can be imported."""

    hypervisor: t.Callable[..., Hypervisor]
    bindings: list[str]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Ceph]:
    bindings: list[str] = []

    def load(name: str) -> t.Any:
        if name in ("rados", "rbd") and name not in bindings:
            raise ImportError(f"No module named '{name}'")
        return None

    monkeypatch.setattr(ceph.importlib, "import_module", load)
    (tmp_path / "node.xml").write_text("<node/>")
    with open_connection(f"test://{tmp_path}/node.xml") as conn:
        conn.storagePoolCreateXML(POOL, 0)

        def hypervisor(*, local: bool = True) -> Hypervisor:
            made = Hypervisor(conn, image_pool="images")
            pool = dataclasses.replace(made.pools.get("ceph"), local=local)
            monkeypatch.setattr(made.pools, "get", lambda _name, _where=None: pool)
            return made

        yield Ceph(hypervisor, bindings)


def test_a_seed_needs_the_bindings(cluster: Ceph) -> None:
    machine = read_machine({**SPEC, "seed": SEED})
    with pytest.raises(UnsupportedError) as error:
        plan_seed(machine, (), cluster.hypervisor(), "")
    assert error.value.where == "seed.pool"
    assert error.value.hint == (
        "Install python3-rados and python3-rbd on the hypervisor, or choose another pool for the seed"
    )
    cluster.bindings.extend(["rados", "rbd"])
    planned = plan_seed(machine, (), cluster.hypervisor(), "")
    assert planned is not None and planned.volume == "web1-seed"


def test_a_disk_called_seed_has_the_name_of_the_seeds_volume(cluster: Ceph) -> None:
    """In a pool whose volumes have no endings: the run would find its own disk there and take it for another's."""
    cluster.bindings.extend(["rados", "rbd"])
    disk = {"name": "seed", "size": 64, "pool": "ceph"}
    with pytest.raises(ConflictError) as error:
        make_plans([read_machine({**SPEC, "disks": [disk], "seed": SEED})], cluster.hypervisor(), "")
    assert str(error.value).startswith(
        "disks[0]: disk seed has volume web1-seed of pool ceph, which is what the seed's volume is called"
    )


def test_so_does_another_seed_in_its_place(cluster: Ceph, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the seed was made on the hypervisor itself, into which the test driver cannot write.
    monkeypatch.setattr(volumes, "write_start", lambda *_: None)
    run_plans(make_plans([read_machine({**SPEC, "seed": SEED})], cluster.hypervisor(local=False), ""), concurrency=1)
    other = read_machine({**SPEC, "seed": {**SEED, "user": "other"}, "seed_policy": "refresh"})
    with pytest.raises(UnsupportedError) as error:
        make_plans([other], cluster.hypervisor(), "")
    assert error.value.where == "seed_policy"
