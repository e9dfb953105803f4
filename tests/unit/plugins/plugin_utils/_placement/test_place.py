# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement: who goes where, why, and when nothing goes anywhere."""

from __future__ import annotations

import copy
import json
import re
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._model.spec.machine import places_of
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machines
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import PlacementOptions
from ansible_collections.brine.virt.plugins.plugin_utils._placement.place import place

Facts = dict[str, t.Any]


def facts(
    *,
    total_mib: int = 8448,
    committed_mib: int = 0,
    cpus: int = 4,
    vcpus_committed: int = 0,
    pools: dict[str, dict[str, t.Any]] | None = None,
    bridges: t.Sequence[str] | None = ("br0",),
    networks: list[dict[str, t.Any]] | None = None,
    machines: dict[str, tuple[int, int]] | None = None,
    groups: dict[str, list[str]] | None = None,
    images: list[dict[str, t.Any]] | None = None,
    maintenance: dict[str, t.Any] | None = None,
) -> Facts:
    """A hypervisor with 8192 MiB for machines beside the reserve.

    pools: what differs; machines: memory and vCPUs; groups: the anti-affinity groups of its machines.
    """
    known = {"default": {}, "images": {}, **(pools or {})}
    return {
        "memory": {"total_mib": total_mib, "committed_mib": committed_mib, "running_mib": 0, "free_mib": 0},
        "vcpus": {"total": cpus, "committed": vcpus_committed, "running": 0},
        "pools": [{"name": name, "active": True, "available_mib": 100_000, **pool} for name, pool in known.items()],
        "bridges": None if bridges is None else list(bridges),
        "networks": networks or [],
        "machines": [
            {"name": n, "uuid": f"of {n}", "memory_mib": m, "vcpus": v, "anti_affinity": (groups or {}).get(n, [])}
            for n, (m, v) in (machines or {}).items()
        ],
        "images": images or [],
        "maintenance": maintenance,
    }


def stored(name: str, digest: str = "0123456789abcdef", virtual_size_mib: int | None = 2048) -> dict[str, t.Any]:
    return {"name": name, "volume": f"{name}-{digest}.qcow2", "virtual_size_mib": virtual_size_mib}


def spec(name: str, memory: int | str = 1024, vcpus: int = 1, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "memory": memory, "vcpus": vcpus, **more}


def run(
    specs: list[t.Any],
    hosts: dict[str, t.Any],
    *,
    images: t.Any = None,
    settings: t.Any = None,
    taken: t.Container[str] = (),
    last_seen: t.Any = None,
    homes: t.Any = None,
    **options: t.Any,
) -> dict[str, t.Any]:
    places = places_of(len(specs), "vms")
    machines = read_machines(specs, where="vms")
    return place(
        machines,
        specs,
        hosts,
        images=images,
        settings=settings,
        options=PlacementOptions(**options),
        places=places,
        taken=taken,
        last_seen=last_seen,
        homes=homes,
    )


def where(result: dict[str, t.Any]) -> dict[str, str]:
    return {item["name"]: item["hypervisor"] for item in result["assignments"]}


def complaint(specs: list[t.Any], hosts: dict[str, t.Any], **more: t.Any) -> str:
    with pytest.raises(VirtError) as caught:
        run(specs, hosts, **more)
    return str(caught.value)


# The choice


def test_spread_takes_the_lowest_load_and_counts_earlier_picks() -> None:
    hosts = {"hv1": facts(total_mib=8448), "hv2": facts(total_mib=6448)}
    result = run([spec("a", 3000), spec("b", 1000), spec("c", 1000)], hosts)
    # After a, hv1 is at 37% and hv2 at 0%; with c, hv1 would be at 49% and hv2 at 32%.
    assert where(result) == {"a": "hv1", "b": "hv2", "c": "hv2"}
    assert result["assignments"][0] == {
        "name": "a",
        "hypervisor": "hv1",
        "existing": False,
        "why": "lowest load: 37% of memory committed including this machine, next hv2 with 48%",
        "refused": {"hv2": "a higher load: 48% of memory committed including this machine"},
    }


def test_small_machines_do_not_all_go_to_the_one_that_is_a_little_emptier() -> None:
    hosts = {"hv1": facts(), "hv2": facts(committed_mib=700, machines={"db1": (700, 1)})}
    result = run([spec(f"web{number}", 128) for number in range(1, 7)], hosts)
    # Without a margin, all of them would go to hv1.
    assert list(where(result).values()) == ["hv1", "hv1", "hv2", "hv1", "hv2", "hv1"]
    third = result["assignments"][2]
    assert third["why"] == (
        "fewest machines (1) of those within 10 points of the lowest load: "
        "10% of memory committed including this machine"
    )
    assert third["refused"] == {"hv1": "more machines (2): 5% of memory committed including this machine"}


def test_a_hypervisor_that_is_much_fuller_gets_nothing_though_it_has_fewer_machines() -> None:
    small = {f"m{number}": (64, 1) for number in range(9)}
    hosts = {
        "hv1": facts(committed_mib=576, machines=small),
        "hv2": facts(committed_mib=4096, machines={"db1": (4096, 1)}),
    }
    assert where(run([spec("web1", 128)], hosts)) == {"web1": "hv1"}


def test_a_large_hypervisor_takes_its_share_and_no_more() -> None:
    hosts = {"large": facts(total_mib=64 * 1024 + 256), "small": facts(total_mib=16 * 1024 + 256)}
    # The large one has more free memory to the end; its load is what counts.
    assert list(where(run([spec(f"m{n}", 8192) for n in range(5)], hosts)).values()).count("small") == 1


def test_pack_takes_the_least_that_still_fits() -> None:
    hosts = {"hv1": facts(total_mib=8448), "hv2": facts(total_mib=2448), "hv3": facts(total_mib=1000)}
    result = run([spec("a", 1500), spec("b", 1500)], hosts, policy="pack")
    assert where(result) == {"a": "hv2", "b": "hv1"}
    assert result["assignments"][0]["why"] == "least free memory: 692 MiB after this machine, next hv1 with 6692 MiB"
    assert result["assignments"][0]["refused"] == {
        "hv1": "more free memory: 6692 MiB after this machine",
        "hv3": "needs 1500 MiB of memory, 744 MiB are free",
    }
    assert result["assignments"][1]["why"] == (
        "the only hypervisor it fits on: 6692 MiB of free memory after this machine "
        "(hv2: needs 1500 MiB of memory, 692 MiB are free; hv3: needs 1500 MiB of memory, 744 MiB are free)"
    )


def test_a_tie_is_said_as_one_and_why_a_better_one_lost() -> None:
    group: dict[str, t.Any] = {"anti_affinity": "web"}
    hosts = {
        "hv1": facts(total_mib=6448),
        "hv2": facts(total_mib=6448),
        "hv3": facts(total_mib=9448, machines={"web1": (512, 1)}, groups={"web1": ["web"]}),
        "hv4": facts(total_mib=1000),
    }
    (choice,) = run([spec("web2", 1000, **group)], hosts)["assignments"]
    assert choice["why"] == (
        "lowest load: 16% of memory committed including this machine, tie with hv2 broken by name; "
        "hv3 has a lower load but has web1, of the same anti-affinity group web"
    )
    (choice,) = run([spec("web2", 1000, **group)], {name: hosts[name] for name in ("hv1", "hv3", "hv4")})["assignments"]
    assert choice["why"] == (
        "the only hypervisor it fits on: 5192 MiB of free memory after this machine "
        "(hv3: has web1, of the same anti-affinity group web; hv4: needs 1000 MiB of memory, 744 MiB are free)"
    )
    small = {"hv1": facts(total_mib=4256), "hv2": facts(total_mib=3256, bridges=[]), "hv3": facts(total_mib=5256)}
    (choice,) = run([spec("a", 1000)], small, policy="pack")["assignments"]
    assert choice["why"] == (
        "least free memory: 3000 MiB after this machine, next hv3 with 4000 MiB; "
        "hv2 has less but has no bridge br0 (has none)"
    )


def test_a_machine_that_lives_somewhere_stays_even_where_nothing_is_left() -> None:
    hosts = {"hv1": facts(committed_mib=8448, machines={"a": (4096, 2)}), "hv2": facts()}
    result = run([spec("a", 4096)], hosts)
    assert result["assignments"] == [
        {
            "name": "a",
            "hypervisor": "hv1",
            "existing": True,
            "why": "it lives there",
            "refused": {"hv2": "it is on hv1"},
        }
    ]


def test_what_a_running_machine_grows_by_is_taken() -> None:
    hosts = {"hv1": facts(committed_mib=1024, machines={"a": (1024, 1)}), "hv2": facts(committed_mib=2000)}
    assert where(run([spec("a", 1024), spec("b")], hosts))["b"] == "hv1"
    assert where(run([spec("a", 3072), spec("b")], hosts))["b"] == "hv2"


def test_a_machine_grows_only_where_there_is_room() -> None:
    hosts = {"hv1": facts(committed_mib=7168, vcpus_committed=31, machines={"a": (1024, 1)}), "hv2": facts()}
    assert where(run([spec("a", 2048, 2)], hosts)) == {"a": "hv1"}
    assert complaint([spec("a", 2049, 1)], hosts) == (
        "vms[0] (a): does not fit on hv1, where it is, as it is described: needs 1025 MiB more memory, 1024 MiB are "
        "free. Make room there, or move it first: brine.virt.migrate -e vm=a"
    )
    assert "needs 2 more vCPUs, 1 are free (8 for each of its 4 CPUs)" in complaint([spec("a", 1024, 3)], hosts)
    assert "needs 5 CPUs, it has 4" in complaint([spec("a", 1024, 5)], hosts)
    assert complaint([spec("a", 2048), spec("b", hypervisor="hv1")], hosts).startswith("vms[1] (b): does not fit on")
    # What leaves in the same run has left by then.
    hosts["hv1"]["machines"].append({"name": "old", "uuid": "of old", "memory_mib": 4096, "vcpus": 1})
    gone = {"name": "old", "state": "absent"}
    assert where(run([spec("a", 4096), gone], hosts)) == {"a": "hv1"}
    # One that nobody can read cannot be said to grow.
    hosts["hv1"]["machines"][0].update(memory_mib=None, vcpus=None)
    assert where(run([spec("a", 8000, 9)], hosts)) == {"a": "hv1"}


def test_a_disk_that_a_machine_gets_takes_its_space() -> None:
    system, data = {"name": "system", "size": 90_000}, {"name": "data", "size": 90_000}
    hosts = {"hv1": facts(machines={"a": (1024, 1)}), "hv2": facts(total_mib=2000)}
    new = spec("b", disks=[system])
    for known, home in ((["system"], "hv2"), (["system", "data"], "hv1"), (None, "hv1")):
        hosts["hv1"]["machines"][0]["disks"] = known
        assert where(run([spec("a", disks=[system, data]), new], hosts))["b"] == home
    hosts["hv1"]["machines"][0]["disks"] = ["system"]
    assert (
        "does not fit on hv1, where it is, as it is described: needs 200000 MiB in pool default, 100000"
        in complaint([spec("a", disks=[system, {"name": "data", "size": 200_000}])], hosts)
    )


@pytest.mark.parametrize("kind", ["dir", "logical"])
@pytest.mark.parametrize("claimed", [True, False])
def test_what_an_interrupted_run_has_left_takes_the_space_of_its_disks(kind: str, claimed: bool) -> None:
    """Of a half-built one they are defined already. Where they take all of their space at once, it is taken."""
    disks = [{"name": "system", "size": 90_000}]
    hosts = {"hv1": facts(machines={"a": (1024, 1)}, pools={"default": {"type": kind}}), "hv2": facts(total_mib=2000)}
    hosts["hv1"]["machines"][0].update(building=True, claimed=claimed, disks=[] if claimed else ["system"])
    result = run([spec("a", disks=disks), spec("b", disks=disks)], hosts)
    counted = claimed or kind == "dir"
    assert where(result) == {"a": "hv1", "b": "hv2" if counted else "hv1"}
    assert result["decisions"]["hv1"]["pools_mib"] == {"default": 90_000}


def test_a_new_machine_does_not_get_the_address_of_a_hypervisor() -> None:
    hosts = {"hv1": facts(), "192.0.2.12": facts()}
    settings = {"hv1": {"ansible_host": "192.0.2.11"}, "192.0.2.12": {}}
    nic = {"name": "eth0", "bridge": "br0"}
    for address, host in (("192.0.2.11/24", "hv1"), ("192.0.2.12/24", "192.0.2.12")):
        words = complaint([spec("a", nics=[{**nic, "addresses": [address]}])], hosts, settings=settings)
        assert words == f"vms[0].nics[0].addresses: {address} is the address of hypervisor {host}. Give another one"
    run([spec("a", nics=[{**nic, "addresses": ["192.0.2.13/24"]}])], hosts, settings=settings)


def test_two_loads_that_differ_are_not_said_to_be_equal() -> None:
    hosts = {"hv1": facts(committed_mib=400), "hv2": facts(committed_mib=410)}
    why = run([spec("a")], hosts)["assignments"][0]["why"]
    best, following = re.findall(r"([0-9.]+)%", why)
    assert float(best) < float(following)


def test_the_spec_names_the_hypervisor() -> None:
    result = run([spec("a", hypervisor="hv2")], {"hv1": facts(), "hv2": facts(total_mib=2000)})
    assert where(result) == {"a": "hv2"}
    assert result["assignments"][0]["why"] == "the task names it: 720 MiB of free memory after this machine"
    assert result["assignments"][0]["refused"] == {"hv1": "the task names hv2"}


def test_machines_with_a_named_hypervisor_are_counted_before_the_free_ones() -> None:
    hosts = {"hv1": facts(total_mib=4352), "hv2": facts(total_mib=4000)}
    result = run([spec("free", 3000), spec("named", 4000, hypervisor="hv1")], hosts)
    assert where(result) == {"free": "hv2", "named": "hv1"}
    assert [item["name"] for item in result["assignments"]] == ["free", "named"]


def test_machines_of_a_hypervisor_are_named_in_the_users_order() -> None:
    specs = [spec("a", hypervisor="hv1"), spec("b", memory="1GiB"), spec("c", hypervisor="hv1")]
    result = run(specs, {"hv1": facts(), "hv2": facts(), "hv3": facts(total_mib=300)})
    assert result["by_host"] == {"hv1": ["a", "c"], "hv2": ["b"], "hv3": []}


def test_images_are_named_for_the_hypervisors_that_need_them() -> None:
    hosts = {"hv1": facts(images=[stored("local")]), "hv2": facts(machines={"c": (1024, 1)})}
    specs = [
        spec("a", image="debian", hypervisor="hv1"),
        spec("b", image="local", hypervisor="hv1", disks=[{"name": "data", "image": "debian"}]),
        spec("c", image="fedora"),
    ]
    result = run(specs, hosts, images={"debian": {}, "fedora": {}, "unused": {}})
    assert result["images_by_host"] == {"hv1": ["debian"], "hv2": ["fedora"]}


# What speaks against a hypervisor

NET = {"name": "lan", "active": True}
CONSTRAINTS: list[tuple[str, Facts, dict[str, t.Any], str]] = [
    ("memory", facts(), spec("a", 8193), "needs 8193 MiB of memory, 8192 MiB are free"),
    ("memory over-committed", facts(committed_mib=9999), spec("a", 16), "needs 16 MiB of memory, 0 MiB are free"),
    ("cpus", facts(cpus=2), spec("a", vcpus=3), "needs 3 CPUs, it has 2"),
    (
        "vcpus",
        facts(cpus=2, vcpus_committed=15),
        spec("a", vcpus=2),
        "needs 2 vCPUs, 1 are free (8 for each of its 2 CPUs)",
    ),
    ("pool", facts(), spec("a", disks=[{"name": "d", "size": "1MiB", "pool": "ssd"}]), "has no pool ssd (has default"),
    ("pool asleep", facts(pools={"default": {"active": False}}), spec("a"), "pool default is not active"),
    (
        "pool full",
        facts(pools={"default": {"available_mib": 8191}}),
        spec("a"),
        "needs 8192 MiB in pool default, 8191 MiB are free",
    ),
    (
        "pool full by two disks",
        facts(pools={"default": {"available_mib": 9000}}),
        spec("a", disks=[{"name": "data", "size": 1000}]),
        "needs 9192 MiB in pool default, 9000 MiB are free",
    ),
    (
        "pool full by an image's size",
        facts(pools={"default": {"available_mib": 2047}}, images=[stored("debian")]),
        spec("a", image="debian", disk_profile="none", disks=[{"name": "system"}]),
        "needs 2048 MiB in pool default, 2047 MiB are free",
    ),
    ("seed pool", facts(), spec("a", seed={"pool": "seeds"}), "has no pool seeds"),
    (
        "image pool",
        facts(pools={"images": {"active": False}}, images=[stored("debian")]),
        spec("a", image="debian"),
        "pool images is not active",
    ),
    ("bridge", facts(), spec("a", nics=[{"name": "eth1", "bridge": "dmz"}]), "has no bridge dmz (has br0)"),
    ("no bridge", facts(bridges=[]), spec("a"), "has no bridge br0 (has none)"),
    (
        "network",
        facts(networks=[NET]),
        spec("a", nics=[{"name": "eth1", "network": "wan"}]),
        "has no network wan (has lan)",
    ),
    (
        "network asleep",
        facts(networks=[{**NET, "active": False}]),
        spec("a", nics=[{"name": "eth1", "network": "lan"}]),
        "network lan is not active",
    ),
    (
        "image of two contents",
        facts(images=[stored("debian"), stored("debian", "f" * 16)]),
        spec("a", image="debian"),
        "has 2 images called debian in its store (debian-0123456789abcdef.qcow2, debian-ffffffffffffffff.qcow2; "
        "name one of them in full, or remove those that nothing uses with virt_image, state: pruned)",
    ),
]


@pytest.mark.parametrize(
    ("host", "machine", "reason"), [case[1:] for case in CONSTRAINTS], ids=[case[0] for case in CONSTRAINTS]
)
def test_a_hypervisor_that_lacks_something_is_refused_with_the_reason(
    host: Facts, machine: dict[str, t.Any], reason: str
) -> None:
    assert complaint([machine], {"hv1": host}).startswith(f"vms[0] (a): fits no hypervisor: hv1: {reason}")
    assert complaint([{**machine, "hypervisor": "hv1"}], {"hv1": host}).startswith(
        f"vms[0] (a): does not fit on hv1: {reason}"
    )


def test_the_image_may_be_in_the_store_of_one_hypervisor_only() -> None:
    hosts = {"hv1": facts(), "hv2": facts(total_mib=2000, images=[stored("debian")])}
    result = run([spec("a", image="debian"), spec("b", 256, image="debian-0123456789abcdef.qcow2")], hosts)
    assert where(result) == {"a": "hv2", "b": "hv2"}
    assert result["assignments"][0]["refused"] == {"hv1": "has no image debian in its store"}
    assert result["images_by_host"] == {"hv1": [], "hv2": []}


DISKS: list[tuple[dict[str, t.Any], bool]] = [
    ({"name": "cd", "device": "cdrom", "pool": "iso"}, True),
    ({"name": "cd", "device": "cdrom", "source": "https://example.org/a.iso", "pool": "iso"}, True),
    ({"name": "x", "source": "/srv/a.raw", "pool": "iso"}, True),
    ({"name": "x", "state": "absent", "pool": "iso"}, True),
    ({"name": "cd", "device": "cdrom", "source": "a.iso", "pool": "iso"}, False),
    ({"name": "x", "size": "1MiB", "pool": "iso"}, False),
    ({"name": "x", "size": "1MiB", "backing": {"volume": "b", "pool": "iso"}}, False),
]


@pytest.mark.parametrize(("disk", "placed"), DISKS)
def test_a_pool_is_needed_by_the_disks_that_lie_in_it(disk: dict[str, t.Any], placed: bool) -> None:
    specs, hosts = [spec("a", disks=[disk])], {"hv1": facts()}
    if placed:
        assert where(run(specs, hosts)) == {"a": "hv1"}
    else:
        assert "has no pool iso" in complaint(specs, hosts)


def test_the_space_of_a_pool_is_counted_over_the_run() -> None:
    hosts = {"hv1": facts(pools={"default": {"available_mib": 10_000}}), "hv2": facts(total_mib=4000)}
    assert where(run([spec("a"), spec("b")], hosts)) == {"a": "hv1", "b": "hv2"}


def test_bridges_that_cannot_be_known_do_not_count_against_a_hypervisor_and_are_said() -> None:
    result = run([spec("a")], {"hv1": facts(bridges=None)})
    assert result["assignments"][0]["why"].endswith("; whether it has bridge br0 cannot be determined")


def test_a_ratio_and_a_reserve_of_ones_own() -> None:
    hosts = {"hv1": facts(total_mib=2048, cpus=2, vcpus_committed=2)}
    assert "vCPUs, 0 are free (1 for each of its 2 CPUs)" in complaint([spec("a")], hosts, vcpu_ratio=1)
    assert "needs 1024 MiB of memory, 1023 MiB are free" in complaint([spec("a")], hosts, memory_reserve_mib=1025)
    assert run([spec("a")], hosts, memory_reserve_mib=1024, vcpu_ratio=1.5)


# Labels, groups, maintenance, and variables of single hypervisors

WEB = facts(machines={"web1": (512, 1)}, groups={"web1": ["web"]})


def test_a_label_is_asked_for() -> None:
    hosts = {"hv1": facts(), "hv2": facts(total_mib=4000)}
    settings = {"hv1": {"virt_labels": ["hdd"]}, "hv2": {"virt_labels": {"ssd": True, "zone": "a"}}, "other": {}}
    result = run([spec("a", labels=["ssd", "zone=a"])], hosts, settings=settings)
    assert where(result) == {"a": "hv2"}
    assert result["assignments"][0]["refused"] == {"hv1": "has no label ssd (has hdd), has no label zone=a (has hdd)"}
    assert "hv2: has no label gpu (has ssd, zone=a)" in complaint([spec("a", labels="gpu")], hosts, settings=settings)


def test_machines_of_a_group_go_to_different_hypervisors() -> None:
    hosts = {"hv1": facts(), "hv2": facts(total_mib=4000), "hv3": facts(total_mib=2000)}
    group = [spec(name, anti_affinity="web") for name in ("a", "b", "c")]
    assert where(run(group, hosts)) == {"a": "hv1", "b": "hv2", "c": "hv3"}
    text = complaint([*group, spec("d", anti_affinity=["db", "web"])], hosts)
    assert text.startswith(
        "vms[3] (d): fits no hypervisor: hv1: has a, of the same anti-affinity group web; hv2: has b"
    )
    assert text.endswith(
        "Only its anti-affinity keeps it away: add a hypervisor, or let machines of one group share one where they "
        "cannot be apart, with virt_anti_affinity: prefer"
    )


def test_running_machines_of_a_group_count() -> None:
    result = run([spec("web2", anti_affinity="web")], {"hv1": WEB, "hv2": facts(total_mib=2000)})
    assert where(result) == {"web2": "hv2"}
    assert result["assignments"][0]["refused"]["hv1"] == "has web1, of the same anti-affinity group web"
    # The spec for an existing machine counts, not what is noted in it.
    specs = [spec("web1", 512, anti_affinity=[]), spec("web2", anti_affinity="web")]
    assert where(run(specs, {"hv1": WEB, "hv2": facts(total_mib=2000)})) == {"web1": "hv1", "web2": "hv1"}
    silent_spec = [spec("web1", 512), spec("web2", anti_affinity="web")]
    assert where(run(silent_spec, {"hv1": WEB, "hv2": facts(total_mib=2000)}))["web2"] == "hv2"


def test_machines_of_a_group_that_are_on_their_way_count() -> None:
    """The move may take an hour, and at its end both would be there."""
    coming = {**facts(), "arriving": ["web1"], "arriving_anti_affinity": {"web1": ["web"]}}
    hosts = {"hv1": coming, "hv2": facts(machines={"other": (2048, 1)})}
    assert where(run([spec("web2", anti_affinity="web")], hosts)) == {"web2": "hv2"}
    assert where(run([spec("web2")], hosts)) == {"web2": "hv1"}


def test_a_group_that_cannot_be_apart_may_share_with_the_fewest() -> None:
    two = facts(machines={"web1": (16, 1), "web2": (16, 1)}, groups={"web1": ["web"], "web2": ["web"]})
    result = run([spec("web9", anti_affinity="web")], {"hv1": two, "hv2": WEB}, anti_affinity="prefer")
    assert result["assignments"][0] == {
        "name": "web9",
        "hypervisor": "hv2",
        "existing": False,
        "why": "it shares it with the fewest of its group: 7168 MiB of free memory after this machine; "
        "it has web1, of the same anti-affinity group web",
        "refused": {
            "hv1": "has web1, of the same anti-affinity group web, has web2, of the same anti-affinity group web"
        },
    }


def test_a_running_machine_that_should_be_elsewhere_stays_and_it_is_said() -> None:
    both = facts(machines={"web1": (16, 1), "web2": (16, 1)}, groups={"web1": ["web"], "web2": ["web"]})
    result = run([spec("web1", 16, anti_affinity="web", labels="ssd")], {"hv1": both})
    assert result["assignments"][0]["why"] == (
        "it lives there; but it has no label ssd (has none): a migration would help; "
        "but it has web2, of the same anti-affinity group web: a migration would help"
    )


def test_a_hypervisor_in_maintenance_gets_nothing_new() -> None:
    busy = facts(maintenance={"since": "2026-11-21", "reason": "fan"}, machines={"old": (16, 1)})
    result = run([spec("a"), spec("old", 16)], {"hv1": busy, "hv2": facts(total_mib=2000)})
    assert where(result) == {"a": "hv2", "old": "hv1"}
    assert result["assignments"][0]["refused"] == {"hv1": "is in maintenance since 2026-11-21 (fan)"}
    assert complaint([spec("a", hypervisor="hv1")], {"hv1": busy, "hv2": facts()}) == (
        "vms[0] (a): does not fit on hv1: is in maintenance since 2026-11-21 (fan). It would fit on hv1 after its "
        "maintenance, which ends with brine.virt.maintenance -e end=hv1"
    )
    unknown = facts(maintenance={"since": None, "reason": None})
    assert "hv1: is in maintenance. It" in complaint([spec("a")], {"hv1": unknown})


def test_memory_may_be_allocated_more_than_once() -> None:
    hosts = {"hv1": facts(total_mib=2256, committed_mib=2000)}
    assert "0 MiB are free" in complaint([spec("a", 1000)], hosts)
    settings = {"hv1": {"virt_memory_ratio": 1.5}}
    assert where(run([spec("a", 1000)], hosts, settings=settings)) == {"a": "hv1"}
    assert where(run([spec("a", 1000)], hosts, memory_ratio=1.5)) == {"a": "hv1"}
    text = complaint([spec("a", 1001)], hosts, settings=settings)
    assert text.endswith("hv1: needs 1001 MiB of memory, 1000 MiB are free (its memory counts 1.5 times)")
    large = complaint([spec("a", 3000)], {"hv1": facts(total_mib=2256)}, memory_ratio=2)
    assert large.endswith("hv1: needs 3000 MiB of memory, it has 2256 MiB")


def test_the_variables_of_a_hypervisor_come_before_those_of_the_run() -> None:
    hosts = {"hv1": facts(total_mib=2048, cpus=1), "hv2": facts(total_mib=2048, cpus=1)}
    settings = {"hv1": {"virt_memory_reserve_mib": "1025", "virt_vcpu_ratio": "0.5"}, "hv2": {"unrelated": 1}}
    text = complaint([spec("a", hypervisor="hv1")], hosts, settings=settings)
    assert "1023 MiB are free" in text
    assert "(0.5 for each of its 1 CPUs)" in text
    assert where(run([spec("a")], hosts, settings=settings)) == {"a": "hv2"}


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"virt_memory_ratio": 0}, "hv1: virt_memory_ratio: the ratio must be above 0"),
        ({"virt_vcpu_ratio": "many"}, "hv1: virt_vcpu_ratio: 'many' is not a number"),
        ({"virt_memory_reserve_mib": -1}, "hv1: virt_memory_reserve_mib: a reserve cannot be negative"),
        ({"virt_labels": ["a b"]}, "hv1: virt_labels[0]: 'a b' is not a label"),
        ("x", "settings['hv1']: 'x' is not a mapping of variables"),
    ],
)
def test_wrong_variables_of_a_hypervisor_are_named(variables: t.Any, text: str) -> None:
    assert complaint([spec("a")], {"hv1": facts()}, settings={"hv1": variables}).startswith(text)


# Errors


def test_all_that_do_not_fit_are_named_and_nothing_is_placed() -> None:
    hosts = {"hv1": facts(bridges=["br0", "dmz"]), "hv2": facts()}
    text = complaint([spec("ok"), spec("big", 9999), spec("wide", 8000, nics={"eth0": {"bridge": "dmz"}})], hosts)
    assert text.split("\n") == [
        "vms[1] (big): fits no hypervisor: hv1: needs 9999 MiB of memory, 7168 MiB are free; "
        "hv2: needs 9999 MiB of memory, 8192 MiB are free",
        "vms[2] (wide): fits no hypervisor: hv1: needs 8000 MiB of memory, 7168 MiB are free; "
        "hv2: has no bridge dmz (has br0)",
    ]


def test_a_name_that_lives_twice_names_both() -> None:
    both = facts(machines={"a": (1, 1)})
    with pytest.raises(ConflictError, match=r"vms\[0\] \(a\): it is on hv1 and hv2 at once"):
        run([spec("a")], {"hv1": both, "hv2": both})


@pytest.mark.parametrize("entry", [{}, {"state": "stopped"}, {"state": "absent"}])
def test_one_that_a_killed_move_has_left_on_both_is_left_out_and_the_others_go_on(entry: dict[str, t.Any]) -> None:
    """A move of a machine that is off defines it on the target before it goes at the source."""
    hosts = {name: {**facts(machines={"a": (1024, 1)}), "name": f"{name}.example.org"} for name in ("hv1", "hv2")}
    for one in hosts.values():
        one["machines"][0].update(state="shutoff", moving={"source": "hv1.example.org", "target": "hv2.example.org"})
    specs = [{"name": "a", **entry} if entry.get("state") == "absent" else spec("a", **entry), spec("b")]
    result = run(specs, hosts)
    assert where(result) == {"b": "hv1"}
    assert (result["removals"], result["not_there"]) == ({}, [])
    assert result["refused_machines"] == [
        {
            "name": "a",
            "hypervisor": "hv1",
            "why": "it is being moved from hv1 to hv2, or that was interrupted, and both have it. Wait until the move "
            "ends; if nobody is moving it any more, finish that: brine.virt.migrate -e vm=a -e to=hv2",
        }
    ]
    # Whoever names a hypervisor has said which one is to go.
    named = run([{"name": "a", "state": "absent", "hypervisor": "hv2"}], hosts)
    assert named["removals"] == {"hv2": ["a"]}
    # Two machines of one name are another matter.
    hosts["hv2"]["machines"][0]["uuid"] = "another"
    words = "on each of hv1, hv2" if entry.get("state") == "absent" else "it is on hv1 and hv2 at once"
    assert words in complaint(specs, hosts)


def test_a_hypervisor_that_the_inventory_has_twice_is_no_reason_to_purge_the_machine() -> None:
    one = facts(machines={"a": (1, 1)})
    one.update(name="node1", machines=[{**one["machines"][0], "uuid": "u1"}])
    with pytest.raises(ConflictError, match=r"hv1 and hv2 have it at once, and look like one hypervisor"):
        run([spec("a")], {"hv1": one, "hv2": one})
    with pytest.raises(ConflictError, match="it is on hv1 and hv2 at once"):
        run([spec("a")], {"hv1": one, "hv2": {**one, "name": "node2"}})


def test_a_machine_is_not_made_again_on_the_hypervisor_that_the_spec_names() -> None:
    hosts = {"hv1": facts(machines={"web1": (1024, 1)}), "hv2": facts(), "hv3": "no route"}
    for asked in ("hv2", "hv3"):
        text = complaint([spec("web1", hypervisor=asked)], hosts)
        assert text.startswith(f"vms[0] (web1): it is on hv1 already, and hypervisor says {asked}. To move it, migrate")


def test_an_unknown_hypervisor_names_the_known_ones() -> None:
    text = complaint([spec("a", hypervisor="hv9")], {"hv1": facts(), "hv2": "no route"})
    assert text == "vms[0] (a): unknown hypervisor 'hv9'. Known: hv1, hv2"


@pytest.mark.parametrize("machines", [{}, {"a": (1024, 1)}])
def test_an_unknown_image_names_the_known_ones(machines: dict[str, tuple[int, int]]) -> None:
    hosts = {"hv1": facts(images=[stored("local")], machines=machines)}
    text = complaint([spec("a", image="debain")], hosts, images={"debian": {}})
    assert text == "vms[0] (a): unknown image 'debain'. Did you mean debian? Known: debian, local"


@pytest.mark.parametrize(
    ("hosts", "place_named"), [({}, "hosts: there is no hyper"), ({"hv1": {}}, "hosts['hv1']: "), ([], "hosts: []")]
)
def test_what_is_no_list_of_hypervisors_is_an_error(hosts: t.Any, place_named: str) -> None:
    assert complaint([spec("a")], hosts).startswith(place_named)


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "random"},
        {"unseen": "ignore"},
        {"anti_affinity": "maybe"},
        {"memory_reserve_mib": -1},
        {"memory_ratio": 0},
        {"vcpu_ratio": 0},
    ],
)
def test_impossible_options_are_an_error_that_names_them(options: dict[str, t.Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        PlacementOptions(**options)


# Hypervisors that do not answer

SILENT = "ssh: no route to host"


def test_a_machine_that_may_live_on_a_silent_hypervisor_is_refused_and_the_others_go_on() -> None:
    hosts = {"hv1": facts(machines={"old": (1024, 1)}), "hv2": SILENT}
    result = run([spec("new", image="unheard-of"), spec("old"), spec("named", hypervisor="hv1")], hosts)
    assert where(result) == {"old": "hv1", "named": "hv1"}
    assert result["silent"] == {"hv2": SILENT}
    assert result["assignments"][0]["refused"] == {"hv2": f"did not answer: {SILENT}"}
    assert [item["name"] for item in result["refused_machines"]] == ["new"]
    # The reason stands in silent, once for all machines.
    assert "it may be on hv2, which did not answer; " in result["refused_machines"][0]["why"]
    assert "exist twice" in result["refused_machines"][0]["why"]


def test_the_user_may_accept_that_risk() -> None:
    result = run([spec("new")], {"hv1": facts(), "hv2": SILENT}, unseen="place")
    assert where(result) == {"new": "hv1"}
    assert result["refused_machines"] == []
    assert complaint([spec("big", 9999)], {"hv1": facts(), "hv2": SILENT}, unseen="place").endswith(
        f"hv2: did not answer: {SILENT}"
    )


@pytest.mark.parametrize("left", [{"building": True, "claimed": True}, {"building": True}])
def test_what_an_interrupted_run_has_left_does_not_say_that_it_is_nowhere_else(left: dict[str, bool]) -> None:
    there = facts(machines={"web1": (1024, 1)})
    there["machines"][0].update(left)
    hosts = {"hv1": there, "hv2": facts()}
    assert where(run([spec("web1")], hosts)) == {"web1": "hv1"}
    (refused,) = run([spec("web1")], {**hosts, "hv3": SILENT})["refused_machines"]
    assert "it may be on hv3" in refused["why"]
    assert where(run([spec("web1", hypervisor="hv1")], {**hosts, "hv3": SILENT})) == {"web1": "hv1"}
    # It was seen on one that the inventory does not have any more.
    (refused,) = run([spec("web1")], hosts, last_seen={"web1": ["hv3"]})["refused_machines"]
    assert "hv3" in refused["why"]


@pytest.mark.parametrize("known", [{"homes": {"web1": "hv3"}}, {"last_seen": {"web1": ["hv2", "hv3"]}}])
def test_an_entry_that_is_older_than_a_move_does_not_create_the_machine_twice(known: dict[str, t.Any]) -> None:
    """It names the hypervisor that the machine was moved away from, and the other one is silent."""
    hosts = {"hv2": facts(), "hv3": SILENT}
    entry = spec("web1", hypervisor="hv2")
    (refused,) = run([entry], hosts, **known)["refused_machines"]
    assert refused["hypervisor"] == "hv3"
    assert refused["why"] == (
        "its entry says hv2, and it was seen on hv3, which did not answer: created on hv2 as well, it would exist "
        "twice, with the same addresses. Bring hv3 back. If it is lost, take it out for good: brine.virt.retire "
        "-e from=hv3 -e lost=true. If you know that the machine is not there, place it with -e virt_unseen=web1"
    )
    assert where(run([entry], hosts, unseen="place", **known)) == {"web1": "hv2"}
    assert where(run([entry], hosts)) == {"web1": "hv2"}


@pytest.mark.parametrize("seen", [["hv1", "hv2"], ["hv2", "hv1"], ["hv3", "hv2"]])
def test_a_machine_that_was_seen_on_a_silent_hypervisor_is_not_said_to_be_anywhere(seen: list[str]) -> None:
    """To name another hypervisor would be no way out: that is refused as well."""
    hosts = {"hv1": facts(), "hv2": SILENT, "hv3": facts(), "hv4": SILENT}
    for entry in (spec("web1"), spec("web1", hypervisor="hv1")):
        (refused,) = run([entry], hosts, last_seen={"web1": seen})["refused_machines"]
        # To be left out by --limit without an error, it has to be certain where it is, or named.
        assert refused["hypervisor"] == ("hv2" if "hypervisor" in entry or "it is on hv2" in refused["why"] else None)
        assert "was seen on hv2, which did not answer" in refused["why"] or "it is on hv2" in refused["why"]
        assert "name this machine's hypervisor" not in refused["why"]


def test_a_machine_for_a_silent_hypervisor_is_refused_and_the_others_go_on() -> None:
    result = run([spec("a", hypervisor="hv2"), spec("b")], {"hv1": facts(), "hv2": SILENT}, unseen="place")
    assert where(result) == {"b": "hv1"}
    assert result["refused_machines"] == [
        {"name": "a", "hypervisor": "hv2", "why": "it is meant for hv2, which did not answer"},
    ]


# What always holds

NAMES = ["hv1", "hv2", "hv3"]
host_facts = st.builds(
    facts,
    total_mib=st.integers(256, 9000),
    committed_mib=st.integers(0, 4000),
    cpus=st.integers(1, 8),
    vcpus_committed=st.integers(0, 20),
    pools=st.fixed_dictionaries({"default": st.fixed_dictionaries({"available_mib": st.integers(0, 40_000)})}),
    bridges=st.sampled_from([["br0"], ["br0", "dmz"], [], None]),
    machines=st.dictionaries(st.sampled_from(["m0", "m1"]), st.tuples(st.integers(1, 500), st.integers(1, 2))),
)
hypervisors = st.dictionaries(st.sampled_from(NAMES), st.one_of(host_facts, st.just(SILENT)), min_size=1)


@st.composite
def spec_lists(draw: st.DrawFn) -> list[dict[str, t.Any]]:
    specs = []
    for number in range(draw(st.integers(0, 6))):
        item = spec(f"m{number}", draw(st.integers(1, 3000)), draw(st.integers(1, 4)))
        item["disks"] = [{"name": "system", "size": draw(st.integers(1, 20_000))}]
        item["nics"] = [{"name": "eth0", "bridge": draw(st.sampled_from(["br0", "br0", "dmz"]))}]
        item["hypervisor"] = draw(st.sampled_from([None, None, *NAMES]))
        specs.append(item)
    return specs


settings = st.fixed_dictionaries(
    {"policy": st.sampled_from(["spread", "pack"]), "unseen": st.sampled_from(["refuse", "place"])}
)


@given(spec_lists(), hypervisors, settings)
def test_never_over_capacity_always_with_reasons_and_the_input_unchanged(
    specs: list[dict[str, t.Any]], hosts: dict[str, t.Any], options: dict[str, t.Any]
) -> None:
    before = copy.deepcopy((specs, hosts))
    try:
        result = run(specs, hosts, **options)
    except VirtError as exc:
        assert all(line.startswith("vms[") for line in str(exc).split("\n"))
        assert (specs, hosts) == before
        return
    assert (specs, hosts) == before
    assert json.loads(json.dumps(result)) == result
    assert sorted([*where(result), *(item["name"] for item in result["refused_machines"])]) == [
        item["name"] for item in specs
    ]
    by_name = {item["name"]: item for item in specs}
    for item in result["assignments"]:
        assert item["why"]
        assert set(item["refused"]) == set(hosts) - {item["hypervisor"]}
        assert all(item["refused"].values())
        asked = by_name[item["name"]]["hypervisor"]
        assert asked in (None, item["hypervisor"])
    for host, new in new_machines(result, by_name).items():
        assert_fits(hosts[host], new)


def new_machines(result: dict[str, t.Any], by_name: dict[str, t.Any]) -> dict[str, list[dict[str, t.Any]]]:
    new: dict[str, list[dict[str, t.Any]]] = {}
    for item in result["assignments"]:
        if not item["existing"]:
            new.setdefault(item["hypervisor"], []).append(by_name[item["name"]])
    return new


def assert_fits(host: Facts, new: list[dict[str, t.Any]]) -> None:
    memory, vcpus = host["memory"], host["vcpus"]
    assert memory["committed_mib"] + sum(item["memory"] for item in new) + 256 <= memory["total_mib"]
    assert vcpus["committed"] + sum(item["vcpus"] for item in new) <= vcpus["total"] * 8
    assert max(item["vcpus"] for item in new) <= vcpus["total"]
    assert sum(item["disks"][0]["size"] for item in new) <= host["pools"][0]["available_mib"]
    assert host["bridges"] is None or {item["nics"][0]["bridge"] for item in new} <= set(host["bridges"])


@given(spec_lists(), hypervisors, settings, st.randoms())
def test_the_order_of_the_hypervisors_does_not_matter(
    specs: list[dict[str, t.Any]], hosts: dict[str, t.Any], options: dict[str, t.Any], random: t.Any
) -> None:
    names = list(hosts)
    random.shuffle(names)

    def outcome(given_hosts: dict[str, t.Any]) -> str:
        try:
            return json.dumps(run(specs, given_hosts, **options))
        except VirtError as exc:
            return str(exc)

    assert outcome(hosts) == outcome({name: hosts[name] for name in names})


@given(spec_lists(), hypervisors)
def test_a_free_machine_at_the_end_of_the_list_moves_none_before_it(
    specs: list[dict[str, t.Any]], hosts: dict[str, t.Any]
) -> None:
    try:
        longer = run([*specs, spec("last", 64)], hosts, unseen="place")
    except VirtError:
        return
    shorter = run(specs, hosts, unseen="place")
    assert shorter["assignments"] == [item for item in longer["assignments"] if item["name"] != "last"]


# Names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hv1", "vms[0] (hv1): hv1 is a hypervisor. Choose another name for the machine"),
        ("HV1", "vms[0] (HV1): hv1 is a hypervisor. Choose another name for the machine"),
        ("web", "vms[0] (web): another host or a group of the inventory has this name. Choose another name, or put"),
    ],
)
def test_a_new_machine_gets_no_name_of_something_else(name: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        run([spec(name)], {"hv1": facts()}, taken=["web"])
    assert str(caught.value).startswith(words)
    # One that is there keeps its name.
    there = {"hv1": facts(machines={name: (1024, 1)})}
    assert where(run([spec(name)], there, taken=["web"])) == {name: "hv1"}


def _seen(
    specs: list[t.Any], hosts: dict[str, t.Any], last_seen: dict[str, list[str]], unseen: str = "refuse"
) -> t.Any:
    return run(specs, hosts, last_seen=last_seen, unseen=unseen)


# Of two clouds that share one file of host keys, one may have a machine of this name.
LEFT = (
    "Put that hypervisor back into the inventory. If it never comes back, take it out for good: brine.virt.retire "
    "-e from=hv3 -e lost=true. If it has another name now, or you know that the machine is not there, add "
    "-e virt_unseen=a. If it is another cloud that has a machine of this name there, give each cloud its own file "
    "of host keys: known_hosts of its live inventory, and virt_known_hosts"
)


def test_a_machine_of_a_hypervisor_that_has_left_the_inventory_is_not_made_twice() -> None:
    hosts, last_seen = {"hv1": facts()}, {"a": ["hv3"], "b": ["hv1"]}
    result = _seen([spec("a"), spec("b"), spec("c")], hosts, last_seen)
    assert where(result) == {"b": "hv1", "c": "hv1"}
    (refused,) = result["refused_machines"]
    assert refused["name"] == "a"
    assert refused["why"] == (
        "it was seen on hv3, which is not among the hypervisors now: created on another one as well, it would exist "
        f"twice, with the same addresses. {LEFT}"
    )
    assert where(_seen([spec("a")], hosts, last_seen, "place")) == {"a": "hv1"}
    assert where(_seen([spec("a")], {"hv1": facts(machines={"a": (1024, 1)})}, last_seen)) == {"a": "hv1"}


@pytest.mark.parametrize("seen", [["hv3"], ["hv1", "hv3"], ["hv2", "hv3"]])
def test_an_entry_that_is_older_than_a_move_to_a_hypervisor_that_has_left_makes_no_machine_twice(
    seen: list[str],
) -> None:
    """Who exported the entry, moved the machine and took its hypervisor out of the inventory has named another one."""
    entry, hosts, last_seen = spec("a", hypervisor="hv1"), {"hv1": facts(), "hv2": facts()}, {"a": seen}
    half = facts(machines={"a": (1024, 1)})
    half["machines"][0]["building"] = True
    for there in (hosts, {**hosts, "hv1": half}):
        (refused,) = _seen([entry, spec("b")], there, last_seen)["refused_machines"]
        assert (refused["name"], refused["hypervisor"]) == ("a", None)
        assert refused["why"] == (
            "its entry says hv1, and it was seen on hv3, which is not among the hypervisors now: created on hv1 as "
            f"well, it would exist twice, with the same addresses. {LEFT}"
        )
        assert where(_seen([entry], there, last_seen, "place")) == {"a": "hv1"}
    assert where(_seen([entry], hosts, {"a": ["hv2"]})) == {"a": "hv1"}
    assert where(_seen([entry], {**hosts, "hv3": facts()}, last_seen)) == {"a": "hv1"}


def test_a_machine_of_a_hypervisor_that_has_left_is_not_told_to_name_one_because_another_is_silent() -> None:
    """To name one would be no way out: that is refused as well."""
    hosts = {"hv1": facts(), "hv2": SILENT}
    for entry in (spec("a"), spec("a", hypervisor="hv1")):
        (refused,) = _seen([entry], hosts, {"a": ["hv3", "hv4"]})["refused_machines"]
        assert "it was seen on hv3 and hv4, which are not among the hypervisors now" in refused["why"]
        assert "name this machine's hypervisor" not in refused["why"]
    (refused,) = _seen([spec("a", hypervisor="hv2")], hosts, {"a": ["hv3"]})["refused_machines"]
    assert (refused["hypervisor"], refused["why"]) == ("hv2", "it is meant for hv2, which did not answer")


def test_a_machine_that_is_being_made_elsewhere_is_told_from_one_that_lives_there() -> None:
    hosts = {"hv1": facts(), "hv2": facts(machines={"a": (1024, 1)})}
    hosts["hv2"]["machines"][0]["building"] = True
    words = complaint([spec("a", hypervisor="hv1")], hosts)
    assert words.startswith(
        "vms[0] (a): a run that has not ended, or was interrupted, is creating it on hv2, but hypervisor says"
    )
    assert words.endswith("Set hypervisor: hv2 to finish it there; then it can be moved")


def _claimed(*hosts: str) -> dict[str, t.Any]:
    """Hypervisors with a claim of a."""
    known = {"hv1": facts(), "hv2": facts(), "hv3": facts()}
    for host in hosts:
        known[host]["machines"] = [
            {"name": "a", "memory_mib": 1024, "vcpus": 1, "building": True, "claimed": True, "uuid": f"of {host}"}
        ]
    return known


def test_a_claim_is_where_the_machine_is_made() -> None:
    assert where(run([spec("a")], _claimed("hv2"))) == {"a": "hv2"}
    result = run([spec("a")], _claimed("hv2", "hv3"))
    assert (where(result), result["withdraw"]) == ({"a": "hv2"}, {})
    assert [machine["name"] for machine in result["new_by_host"]["hv2"]] == ["a"]
    assert where(run([spec("a", hypervisor="hv3")], _claimed("hv2", "hv3"))) == {"a": "hv3"}


def test_a_claim_where_the_machine_cannot_be_made_is_to_be_withdrawn() -> None:
    """Nothing has been created under it: a hypervisor that has changed since is not the machine's fate."""
    hosts = _claimed("hv1", "hv2")
    hosts["hv1"]["maintenance"] = {"since": "2026-11-21", "reason": "fan"}
    result = run([spec("a")], hosts)
    assert (where(result), result["withdraw"]) == ({"a": "hv2"}, {"hv1": {"a": "of hv1"}})
    result = run([spec("a", labels="ssd")], hosts, settings={"hv3": {"virt_labels": ["ssd"]}})
    assert (where(result), list(result["withdraw"])) == ({"a": "hv3"}, ["hv1", "hv2"])
    assert [machine["name"] for machine in result["new_by_host"]["hv3"]] == ["a"]
    hosts["hv2"]["machines"] = []
    assert complaint([spec("a", hypervisor="hv1")], hosts) == (
        "vms[0] (a): does not fit on hv1: is in maintenance since 2026-11-21 (fan). It would fit on hv1 after its "
        "maintenance, which ends with brine.virt.maintenance -e end=hv1"
    )
    # What it has claimed is its own.
    full = _claimed("hv3")
    full["hv3"] |= {"memory": {"total_mib": 8448, "committed_mib": 8192}, "vcpus": {"total": 4, "committed": 32}}
    result = run([spec("a")], full)
    assert (where(result), result["withdraw"]) == ({"a": "hv3"}, {})
    assert where(run([spec("a", 1025)], full)) == {"a": "hv1"}


def test_what_was_begun_on_a_hypervisor_in_maintenance_is_left_out_and_the_others_go_on() -> None:
    """Its volumes are there, so it goes nowhere else."""
    hosts = _claimed("hv1")
    hosts["hv1"]["machines"][0]["claimed"] = False
    hosts["hv1"]["maintenance"] = {"since": None, "reason": None}
    result = run([spec("a"), spec("b")], hosts)
    assert (where(result), result["withdraw"]) == ({"b": "hv2"}, {})
    assert result["refused_machines"] == [
        {
            "name": "a",
            "hypervisor": "hv1",
            "why": "a run is creating it on hv1, or was interrupted there, and hv1 is in maintenance. End that with "
            "brine.virt.maintenance -e end=hv1, or remove what is there: brine.virt.purge -e vm=a",
        }
    ]


def test_a_claim_beside_the_machine_is_to_be_withdrawn() -> None:
    hosts = {**_claimed("hv2"), "hv1": facts(machines={"a": (1024, 1)})}
    result = run([spec("a")], hosts)
    assert (where(result), result["withdraw"]) == ({"a": "hv1"}, {"hv2": {"a": "of hv2"}})
    assert result["new_by_host"]["hv1"] == []


# What is checked again where the machines are created


def test_what_a_hypervisor_was_chosen_by_is_told() -> None:
    hosts = {"hv1": facts(machines={"old": (1024, 1), "half": (512, 1)}, pools={"lvm": {"available_mib": None}})}
    hosts["hv1"]["machines"][1]["building"] = True
    disks = [{"name": "system", "size": 4096}, {"name": "data", "size": 100, "pool": "lvm"}]
    result = run([spec("old"), spec("half", 512), spec("new", disks=disks)], hosts, memory_ratio=2.0)
    assert result["new_by_host"] == {
        "hv1": [{"name": "half", "memory_mib": 512, "vcpus": 1}, {"name": "new", "memory_mib": 1024, "vcpus": 1}]
    }
    # Of the machines that live there, those of this run. One that is being made is not among them: it may be again.
    assert result["decisions"] == {
        "hv1": {"memory_mib": 16384, "vcpus": 32, "pools_mib": {"default": 4096}, "machines": {"old": "of old"}}
    }


def test_who_is_to_be_alone_of_its_group_is_told() -> None:
    """Another run may choose the same hypervisor for another machine of the group at the same time."""
    group = [spec("web1", anti_affinity=["web"]), spec("a")]
    result = run(group, {"hv1": facts()})
    assert result["new_by_host"]["hv1"] == [
        {"name": "web1", "memory_mib": 1024, "vcpus": 1, "anti_affinity": ["web"]},
        {"name": "a", "memory_mib": 1024, "vcpus": 1},
    ]
    assert result["decisions"]["hv1"]["apart"] == {"web1": ["web"]}
    assert "apart" not in run(group, {"hv1": facts()}, anti_affinity="prefer")["decisions"]["hv1"]
    # One that is there already, and what was begun beside another one of its group, stays where it is.
    half = facts(machines={"web1": (1024, 1), "web2": (1024, 1)}, groups={"web2": ["web"]})
    half["machines"][0]["building"] = True
    assert "apart" not in run(group[:1], {"hv1": half})["decisions"]["hv1"]
    half["machines"][0]["building"] = False
    assert "apart" not in run(group[:1], {"hv1": half})["decisions"]["hv1"]
