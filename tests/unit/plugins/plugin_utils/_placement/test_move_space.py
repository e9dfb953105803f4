# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much room a machine that moves needs in the pools of its target: what travels, once, and nothing else."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.plugin_utils._placement.fleet import read_fleet
from ansible_collections.brine.virt.plugins.plugin_utils._placement.moves import plan_moves
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import PlacementOptions
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._placement.clouds import (
    MIB,
    hypervisor,
    pool,
    record,
)

GIB = 1024


def disk(target: str, where: str, gib: int, **more: t.Any) -> dict[str, t.Any]:
    size = {"size_bytes": gib * GIB * MIB, "allocation_bytes": gib * GIB * MIB}
    return {"target": target, "source": f"/{where}/{target}", "pool": where, "volume": target, **size, **more}


def machine(*disks: dict[str, t.Any], name: str = "web1", **more: t.Any) -> dict[str, t.Any]:
    return record(name, disks=list(disks), image=None, **more)


def refused(there: dict[str, t.Any], *machines: dict[str, t.Any], **spec: t.Any) -> str:
    """Why the machines do not go to the other hypervisor; nothing when they do. spec: the filter's options."""
    hosts = {"hv1": hypervisor(*machines, name="node1"), "hv2": {**there, "host": {**there["host"], "name": "node2"}}}
    fleet, options = read_fleet(hosts, None, PlacementOptions()), PlacementOptions()
    names = [one["name"] for one in machines]
    return "; ".join(item["why"] for item in plan_moves(fleet, options, names=names, target="hv2", **spec)["stay"])


# What is only read is where it is on every hypervisor

CD = disk("sda", "isos", 9, device="cdrom", readonly=True, own=False)
SEED = disk("sda", "default", 1, device="cdrom", readonly=True, own=True)


def test_a_cd_takes_no_room_as_nothing_copies_it() -> None:
    assert refused(hypervisor(pools=[pool("isos", 5 * GIB)]), machine(CD)) == ""


def test_the_disks_go_to_another_pool_and_the_cd_does_not() -> None:
    there = [pool("fast", 5 * GIB), pool("isos", 100)]
    assert refused(hypervisor(pools=there), machine(disk("vda", "default", 1), CD), pool="fast") == ""
    assert "has no pool isos" in refused(hypervisor(pools=there[:1]), machine(CD), pool="fast")


def test_what_was_created_for_the_machine_goes_along_though_it_is_only_read() -> None:
    there = hypervisor(pools=[pool("default", 1023), pool("fast", 1025)])
    assert "needs 1024 MiB in pool default" in refused(there, machine(SEED))
    assert refused(there, machine(SEED), pool="fast") == ""


# Pools on one file system have its room together


def on_one(*names: str, free_mib: int = 10 * GIB, system: str | None = "8:1") -> list[dict[str, t.Any]]:
    return [pool(name, free_mib, file_system=system) for name in names]


def test_two_disks_need_the_room_of_a_file_system_together() -> None:
    db1 = machine(disk("vda", "default", 7), disk("vdb", "fast", 7))
    assert refused(hypervisor(pools=on_one("default", "fast")), db1) == (
        "does not fit on hv2: needs 14336 MiB in pool default and pool fast, 10240 MiB are free"
    )
    apart = [*on_one("default"), *on_one("fast", system="8:17")]
    assert refused(hypervisor(pools=apart), db1) == ""
    # As of pools that are not looked at on the hypervisor itself.
    assert refused(hypervisor(pools=on_one("default", "fast", system=None)), db1) == ""


def test_an_image_needs_it_together_with_the_disk_on_it() -> None:
    web1 = machine(disk("vda", "default", 7, backing="/images/debian-0123456789abcdef.qcow2"))
    store = [{"name": "debian", "volume": "debian-0123456789abcdef.qcow2", "pool": "images", "size_mib": 5 * GIB}]
    there = hypervisor(pools=on_one("default", "images"), images=[])
    fleet = read_fleet(
        {"hv1": hypervisor(web1, images=store), "hv2": there},
        None,
        PlacementOptions(),
    )
    (stays,) = plan_moves(fleet, PlacementOptions(), names=["web1"], target="hv2")["stay"]
    assert "needs 12288 MiB in pool default and pool images, 10240 MiB are free" in stays["why"]


def test_what_one_machine_takes_in_one_pool_is_missing_in_the_other() -> None:
    machines = [machine(disk("vda", where, 6), name=where) for where in ("default", "fast")]
    said = refused(hypervisor(pools=on_one("default", "fast")), *machines)
    assert said == "does not fit on hv2: needs 6144 MiB in pool fast, 4096 MiB are free"
    assert refused(hypervisor(pools=on_one("default", "fast", free_mib=12 * GIB)), *machines) == ""


def test_folders_of_one_export_are_of_one_file_system_though_they_are_two_storages() -> None:
    exports = [
        pool(name, 10 * GIB, file_system="0:50", shared_storage=f"netfs nas:/srv/{name}") for name in ("one", "two")
    ]
    db1 = machine(disk("vda", "one", 7), disk("vdb", "two", 7))
    assert "needs 14336 MiB in pool one and pool two" in refused(hypervisor(pools=exports), db1)


# What a move that broke off has left on the target goes before the machine comes again

BROKEN_OFF = {"source": "node1", "target": "node2"}


def test_what_it_has_left_there_itself_does_not_keep_it_away() -> None:
    web1 = machine(disk("vda", "default", 60), moving=BROKEN_OFF)
    there = hypervisor(pools=[pool("default", 40 * GIB)])
    assert refused(there, web1) == ""
    assert refused(there, {**web1, "moving": None}).endswith("needs 61440 MiB in pool default, 40960 MiB are free")
    # It has left nothing on any other, and no pool.
    assert "needs 61440 MiB" in refused(there, {**web1, "moving": {**BROKEN_OFF, "target": "node3"}})
    assert "has no pool default" in refused(hypervisor(pools=[pool("images")]), web1)


def test_it_is_said_that_the_room_shows_later() -> None:
    web1 = machine(disk("vda", "default", 60), moving=BROKEN_OFF)
    hosts = {"hv1": hypervisor(web1, name="node1"), "hv2": hypervisor(pools=[pool("default", 40 * GIB)], name="node2")}
    (move,) = plan_moves(read_fleet(hosts, None, PlacementOptions()), PlacementOptions(), names=["web1"])["moves"]
    assert move["why"].endswith(
        "; whether there is room in its pools shows when what a move that broke off has left there is removed"
    )
    hosts["hv2"] = hypervisor(pools=[pool("default", 61 * GIB)], name="node2")
    (move,) = plan_moves(read_fleet(hosts, None, PlacementOptions()), PlacementOptions(), names=["web1"])["moves"]
    assert "shows when" not in move["why"]
