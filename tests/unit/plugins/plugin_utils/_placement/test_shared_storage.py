# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage that several hypervisors share has its space once, and not once on each of them."""

from __future__ import annotations

import itertools
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import places_of
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machines
from ansible_collections.brine.virt.plugins.plugin_utils._placement.balance import plan_balance
from ansible_collections.brine.virt.plugins.plugin_utils._placement.fleet import read_fleet
from ansible_collections.brine.virt.plugins.plugin_utils._placement.moves import plan_moves
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import PlacementOptions
from ansible_collections.brine.virt.plugins.plugin_utils._placement.place import place
from ansible_collections.brine.virt.plugins.plugin_utils._placement.shared_storage import group_storages
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._placement.clouds import hypervisor, pool, record

CEPH = "rbd 192.0.2.1,192.0.2.2/vms"
NFS = "netfs nas.example.org:/srv/vms"
HOSTS = ("hv1", "hv2", "hv3")


def ceph(name: str = "ceph", free_mib: int | None = 10_000, storage: str | None = CEPH) -> dict[str, t.Any]:
    return pool(name, free_mib, type="rbd", shared_storage=storage)


def cloud(*pools: t.Any, **by_host: t.Any) -> dict[str, t.Any]:
    """Three hypervisors with these pools beside their own; by_host: the pools of one of them instead."""
    return {
        host: hypervisor(pools=[pool("default"), pool("images"), *by_host.get(host, pools)])["host"] for host in HOSTS
    }


def spec(name: str, size: int = 4000, where: str = "ceph", **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "memory": 512, "vcpus": 1, "disks": [{"name": "system", "size": size, "pool": where}], **more}


def run(hosts: dict[str, t.Any], *specs: dict[str, t.Any]) -> dict[str, t.Any]:
    machines = read_machines(list(specs), where="vms")
    return place(machines, specs, hosts, options=PlacementOptions(), places=places_of(len(specs), "vms"))


# Which pools are the same storage


@pytest.mark.parametrize(
    ("storages", "groups"),
    [
        (["rbd a,b/vms", "rbd a,b/vms", "rbd a,b/other"], [[0, 1], [2]]),
        # One hypervisor names two of three monitors.
        (["rbd a,b,c/vms", "rbd b,c/vms"], [[0, 1]]),
        (["rbd a,b/vms", "rbd b,c/vms", "rbd c,d/vms", "rbd x,y/vms"], [[0, 1, 2], [3]]),
        # Two clusters may have pools of one name.
        (["rbd a/vms", "rbd b/vms"], [[0], [1]]),
        # Monitors that are in no list are those of the only cluster that is known, but not of several.
        (["rbd a/vms", "rbd /vms", "rbd /vms"], [[0, 1, 2]]),
        (["rbd a/vms", "rbd b/vms", "rbd /vms", "rbd /vms"], [[0], [1], [2, 3]]),
        (["gluster a,b/vol/x", "gluster b/vol/x", "gluster b/vol", "rbd b/vol"], [[0, 1], [2], [3]]),
        (["netfs nas:/a", "netfs nas:/a", "netfs nas:/b", "netfs other:/a"], [[0, 1], [2], [3]]),
        (["rbd 2001:db8::1/vms", "rbd 2001:db8::1,2001:db8::2/vms"], [[0, 1]]),
    ],
)
def test_pools_of_the_same_storage(storages: list[str], groups: list[list[int]]) -> None:
    for order in itertools.permutations(range(len(storages))):
        found = group_storages(storages[index] for index in order)
        named = [found[storage] for storage in storages]
        assert [[i for i, name in enumerate(named) if name == one] for one in dict.fromkeys(named)] == groups


# Machines that are to be created


def test_what_one_machine_takes_is_missing_on_all_hypervisors() -> None:
    hosts = cloud(ceph())
    assert len(run(hosts, spec("a"), spec("b"))["assignments"]) == 2
    with pytest.raises(ConflictError) as caught:
        run(hosts, spec("a"), spec("b"), spec("c"))
    why = "needs 4000 MiB in pool ceph, 2000 MiB are free"
    assert f"(c): fits no hypervisor: {'; '.join(f'{host}: {why}' for host in HOSTS)}" in str(caught.value)


def test_pools_of_other_names_and_monitors_may_be_the_same_storage() -> None:
    one, two = ceph("vms"), ceph("fast", storage="rbd 192.0.2.2,192.0.2.3/vms")
    hosts = cloud(hv1=[one], hv2=[two])
    specs = [spec("a", where="vms", hypervisor="hv1"), spec("b", where="fast", hypervisor="hv2")]
    run(hosts, *specs)
    with pytest.raises(ConflictError, match="needs 4000 MiB in pool fast, 2000 MiB are free"):
        run(hosts, *specs, spec("c", where="fast", hypervisor="hv2"))


@pytest.mark.parametrize("storage", [None, "rbd 198.51.100.1/vms"])
def test_storage_of_another_cluster_and_of_one_hypervisor_has_its_own_space(storage: str | None) -> None:
    hosts = cloud(ceph(storage=None), hv1=[ceph(storage=storage)], hv2=[ceph()])
    assert len(run(hosts, *(spec(f"m{number}") for number in range(6)))["assignments"]) == 6


def test_two_pools_of_one_storage_have_its_space_together() -> None:
    hosts = {"hv1": cloud(ceph("one"), ceph("two"))["hv1"]}
    disks = [{"name": "system", "size": 6000, "pool": "one"}, {"name": "b", "size": 4001, "pool": "two"}]
    with pytest.raises(ConflictError, match="needs 10001 MiB in pool one and pool two, 10000 MiB are free"):
        run(hosts, spec("a", disks=disks))
    with pytest.raises(ConflictError, match="needs 6000 MiB in pool two, 5999 MiB are free"):
        run(hosts, spec("a", 4001, where="one"), spec("b", 6000, where="two"))
    assert len(run(hosts, spec("a", 4000, where="one"), spec("b", 6000, where="two"))["assignments"]) == 2


def test_a_machine_that_is_there_takes_nothing_of_the_storage() -> None:
    hosts = cloud(ceph())
    hosts["hv1"]["machines"] = [{"name": "a", "uuid": "of a", "memory_mib": 512, "vcpus": 1, "anti_affinity": []}]
    result = run(hosts, spec("a"), spec("b"), spec("c"))
    assert len(result["assignments"]) == 3


# What is checked again where they are created


def test_a_hypervisor_knows_what_it_needs_itself_and_what_all_need() -> None:
    hosts = cloud(ceph("ceph", 20_000))
    specs = [spec(name, hypervisor=host) for name, host in (("a", "hv1"), ("b", "hv1"), ("c", "hv2"))]
    decisions = run(hosts, *specs, spec("d", 100, where="default", hypervisor="hv2"))["decisions"]
    assert [decisions[host]["pools_mib"] for host in HOSTS] == [{"ceph": 8000}, {"ceph": 4000, "default": 100}, {}]
    assert [decisions[host].get("shared_pools_mib") for host in HOSTS] == [{"ceph": 12000}, {"ceph": 12000}, None]


def test_what_one_hypervisor_takes_alone_is_said_once() -> None:
    decisions = run(cloud(ceph()), spec("a", hypervisor="hv1"))["decisions"]
    assert decisions["hv1"]["pools_mib"] == {"ceph": 4000}
    assert not any("shared_pools_mib" in decision for decision in decisions.values())


def test_what_is_taken_of_storage_whose_space_is_not_known_is_not_checked() -> None:
    decisions = run(cloud(ceph(free_mib=None)), spec("a", hypervisor="hv1"), spec("b", hypervisor="hv2"))["decisions"]
    assert [decisions[host]["pools_mib"] for host in HOSTS] == [{}, {}, {}]
    assert not any("shared_pools_mib" in decision for decision in decisions.values())


# Machines that move


def disk_in(name: str, where: str, allocation_mib: int = 100) -> dict[str, t.Any]:
    mib = 1024 * 1024
    sizes = {"size_bytes": 4000 * mib, "allocation_bytes": allocation_mib * mib}
    return {"target": "vda", "source": f"vms/{name}", "pool": where, **sizes}


def machine(name: str, where: str = "ceph", memory_mib: int = 1024, **more: t.Any) -> dict[str, t.Any]:
    return record(name, memory_mib, disks=[disk_in(name, where, **more)], image=None)


def fleet(**hosts: t.Any) -> t.Any:
    return read_fleet(hosts, None, PlacementOptions())


def test_a_disk_in_shared_storage_stays_where_it_is() -> None:
    full = [ceph(free_mib=0)]
    hosts = {"hv1": hypervisor(machine("web1"), machine("web2"), pools=full), "hv2": hypervisor(pools=full)}
    assert len(plan_moves(fleet(**hosts), PlacementOptions(), source="hv1")["moves"]) == 2


def test_a_disk_goes_into_the_storage_of_another_cluster_whole() -> None:
    other = [ceph(free_mib=3999, storage="rbd 198.51.100.1/vms")]
    hosts = {"hv1": hypervisor(machine("web1"), pools=[ceph()]), "hv2": hypervisor(pools=other)}
    (stays,) = plan_moves(fleet(**hosts), PlacementOptions(), names=["web1"])["stay"]
    assert stays["why"] == "fits on no other hypervisor: hv2: needs 4000 MiB in pool ceph, 3999 MiB are free"


def test_disks_that_go_into_shared_storage_take_space_there_once() -> None:
    pools = [pool("default"), pool("images"), ceph(free_mib=7999)]
    local = [machine(name, "default") for name in ("web1", "web2")]
    hosts = {"hv1": hypervisor(*local, pools=pools), "hv2": hypervisor(pools=pools), "hv3": hypervisor(pools=pools)}
    plan = plan_moves(fleet(**hosts), PlacementOptions(), names=["web1", "web2"], pool="ceph")
    assert [move["name"] for move in plan["moves"]] == ["web1"]
    assert "needs 4000 MiB in pool ceph, 3999 MiB are free" in plan["stay"][0]["why"]


def test_a_directory_that_is_mounted_from_a_server_is_shared_as_well() -> None:
    mounted = [pool("nfs", 0, shared_storage=NFS)]
    hosts = {"hv1": hypervisor(machine("web1", "nfs"), pools=mounted), "hv2": hypervisor(pools=mounted)}
    assert len(plan_moves(fleet(**hosts), PlacementOptions(), names=["web1"])["moves"]) == 1


def test_an_image_comes_into_a_shared_store_once() -> None:
    store = [pool("default"), pool("images", 600, type="netfs", shared_storage=NFS)]
    empty: dict[str, t.Any] = {"images": [], "pools": store}
    machines = [record(name, anti_affinity=["web"]) for name in ("web1", "web2")]
    hosts = {"hv1": hypervisor(*machines), "hv2": hypervisor(**empty), "hv3": hypervisor(**empty)}
    targets = {
        move["name"]: move["target"] for move in plan_moves(fleet(**hosts), PlacementOptions(), source="hv1")["moves"]
    }
    assert targets == {"web1": "hv2", "web2": "hv3"}
    # It takes its 500 MiB all the same.
    small = machine("db1", "images", 512, allocation_mib=101)
    hosts["hv1"] = hypervisor(*machines, small, pools=[pool("default"), pool("images")])
    (stays,) = plan_moves(fleet(**hosts), PlacementOptions(), source="hv1")["stay"]
    why = "needs 101 MiB in pool images, 100 MiB are free"
    assert (stays["name"], stays["why"]) == ("db1", f"fits on no other hypervisor: hv2: {why}; hv3: {why}")


def test_an_image_is_there_when_another_hypervisor_sees_it_in_the_same_store() -> None:
    """libvirt lists the volumes of a pool as it has last seen them."""
    store = [pool("default"), pool("images", 0, type="netfs", shared_storage=NFS)]
    hosts = {
        "hv1": hypervisor(record("web1"), pools=[pool("default"), pool("images")]),
        "hv2": hypervisor(pools=store, images=[]),
        "hv3": hypervisor(pools=store, maintenance={"since": None, "reason": None}),
    }
    (move,) = plan_moves(fleet(**hosts), PlacementOptions(), names=["web1"])["moves"]
    assert move["target"] == "hv2"


def test_balancing_takes_and_frees_nothing_in_shared_storage() -> None:
    pools = [ceph(free_mib=0), pool("images")]
    busy = hypervisor(*(machine(f"m{number}", memory_mib=2000) for number in range(4)), pools=pools)
    cloud_now = fleet(hv1=busy, hv2=hypervisor(pools=pools))
    plan = plan_balance(cloud_now, 10)
    assert len(plan["moves"]) == 2
    assert cloud_now.capacities["hv1"].decision({})["pools_mib"] == {}


def test_what_a_search_tries_is_given_back() -> None:
    """A plan of moves is tried and undone many times; an image that would come is not there afterwards."""
    store = [pool("default"), pool("images", 500, type="netfs", shared_storage=NFS)]
    own = [pool("default"), pool("images")]
    busy = hypervisor(*(record(f"m{number}", 2000) for number in range(4)), pools=own)
    hosts = {"hv1": busy, **{host: hypervisor(pools=store, images=[]) for host in ("hv2", "hv3")}}
    plan = plan_balance(fleet(**hosts), 10)
    assert (len(plan["moves"]), {move["target"] for move in plan["moves"]}) == (2, {"hv2", "hv3"})


def test_an_image_that_does_not_come_after_all_is_not_there() -> None:
    store = [pool("default"), pool("images", 499, type="netfs", shared_storage=NFS)]
    own = [pool("default"), pool("images")]
    empty: dict[str, t.Any] = {"images": [], "pools": store}
    cloud_now = fleet(hv1=hypervisor(record("web1"), pools=own), hv2=hypervisor(**empty), hv3=hypervisor(**empty))
    need = cloud_now.machines["web1"][0].need
    cloud_now.capacities["hv2"].take(need)
    assert cloud_now.capacities["hv3"].refusals(need) == []
    cloud_now.capacities["hv2"].release(need)
    assert cloud_now.capacities["hv3"].refusals(need) == ["needs 500 MiB in pool images, 499 MiB are free"]
