# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a machine is restored that no playbook was told a hypervisor for."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.brine.virt.plugins.filter.purges import FilterModule
from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import PlacementOptions
from ansible_collections.brine.virt.plugins.plugin_utils._restore_target import restore_target
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._placement.clouds import MIB, hypervisor, record

OLD, NEW = "20261122T020000Z-full", "20261123T020000Z-incremental"
NONE = {"backup": None, "msg": "there is no backup of machine web1 in /srv/backup"}
SILENT = {"unreachable": True, "msg": "ssh: no route to host"}


def sees(backup: str = NEW, **more: t.Any) -> dict[str, t.Any]:
    needs = {
        **{"memory_max_mib": 1024, "vcpus_max": 1, "arch": "x86_64", "domain_type": "kvm", "machine_type": "q35"},
        **{"labels": [], "anti_affinity": [], "nics": [{"type": "bridge", "source": "br0"}]},
        "disks": [{"target": "vda", "source": "/p/v", "pool": "default", "size_bytes": 8192 * MIB,
                   "allocation_bytes": 100 * MIB}],
        **more,
    }  # fmt: skip
    return {"backup": backup, "needs": needs, "actions": ["define machine web1"]}


def target(
    shown: dict[str, t.Any],
    clouds: dict[str, t.Any] | None = None,
    *,
    settings: t.Any = None,
    policy: str = "spread",
    **options: t.Any,
) -> dict[str, t.Any]:
    clouds = {**{host: hypervisor() for host in shown}, **(clouds or {})}
    hosts = {host: {"host": one["host"]} if "host" in one else one for host, one in clouds.items()}
    machines = {host: {"machines": one["machines"]} if "host" in one else one for host, one in clouds.items()}
    placement = PlacementOptions(policy=policy)
    return restore_target(shown, hosts, machines, placement, settings=settings, **{"name": "web1", **options})


def test_of_those_that_see_it_the_one_that_placement_chooses() -> None:
    clouds = {"hv1": hypervisor(), "hv2": hypervisor(record("a")), "hv3": hypervisor()}
    result = target({"hv1": NONE, "hv2": sees(), "hv3": sees()}, clouds)
    assert result == {
        "target": "hv3",
        "why": "lowest load: 12% of memory committed including this machine, next hv2 with 25%",
        "refused": {
            "hv1": "there is no backup of machine web1 in /srv/backup",
            "hv2": "a higher load: 25% of memory committed including this machine",
        },
        "text": "web1 goes to hv3: lowest load: 12% of memory committed including this machine, next hv2 with 25%",
    }
    assert target({"hv1": NONE, "hv2": sees(), "hv3": sees()}, clouds, policy="pack")["target"] == "hv2"


def test_what_the_machine_needs_is_looked_for() -> None:
    shown = {host: sees(labels=["ssd"], anti_affinity=["web"]) for host in ("hv1", "hv2", "hv3", "hv4")}
    clouds = {"hv2": hypervisor(record("a", anti_affinity=["web"])), "hv3": hypervisor(total_mib=1024)}
    settings = {host: {"virt_labels": ["ssd"]} for host in ("hv2", "hv3", "hv4")}
    result = target(shown, clouds, settings=settings)
    assert (result["target"], result["why"].split(":")[0]) == ("hv4", "the only hypervisor it fits on")
    assert result["refused"] == {
        "hv1": "has no label ssd (has none)",
        "hv2": "has a, of the same anti-affinity group web",
        "hv3": "needs 1024 MiB of memory, 768 MiB are free",
    }


def test_the_only_one_that_sees_it() -> None:
    result = target({"hv1": NONE, "hv2": sees()}, {"hv2": hypervisor(record("a"))})
    assert result["text"] == f"web1 goes to hv2: no other hypervisor sees the backup {NEW}"


def test_an_older_backup_is_not_taken_for_the_newest() -> None:
    shown = {"hv1": sees(OLD), "hv2": sees()}
    result = target(shown, {"hv2": hypervisor(record("a"), record("b"))})
    assert (result["target"], result["refused"]) == ("hv2", {"hv1": f"has only the older backup {OLD}"})
    shown["hv2"] = {"backup": NEW, "msg": "pool default has no room. Free some."}
    with pytest.raises(ConflictError) as caught:
        target(shown)
    assert str(caught.value) == (
        f"web1 cannot be restored from {NEW} on any hypervisor: hv1: has only the older backup {OLD}; "
        "hv2: pool default has no room. Free some"
    )


def test_one_that_says_nothing_may_have_a_newer_one() -> None:
    shown = {"hv1": sees(), "hv2": SILENT, "hv3": {"msg": "/srv/backup belongs to backup.\nName it"}}
    with pytest.raises(ConflictError) as caught:
        target(shown)
    assert str(caught.value) == (
        f"there may be a newer backup than {NEW} on hv2: ssh: no route to host; hv3: /srv/backup belongs to backup. "
        f"Name it. Name the hypervisor with on, or the backup with backup={NEW}"
    )
    result = target(shown, {"hv2": SILENT}, backup=NEW)
    assert (result["target"], result["refused"]["hv2"]) == ("hv1", "ssh: no route to host")


def test_nobody_sees_it() -> None:
    with pytest.raises(ConflictError) as caught:
        target({"hv1": NONE, "hv3": NONE, "hv2": SILENT})
    assert str(caught.value) == (
        "no hypervisor sees a backup of web1: hv1, hv3: there is no backup of machine web1 in /srv/backup; "
        "hv2: ssh: no route to host"
    )


def test_it_stays_where_it_is() -> None:
    """To be replaced, to be finished, or to be refused: whatever else has room."""
    shown = {"hv1": NONE, "hv2": {"backup": NEW, "msg": "name: there is a machine web1 already"}, "hv3": sees()}
    clouds = {"hv2": hypervisor(record("web1"), record("b"))}
    result = target(shown, clouds)
    assert (result["target"], result["text"]) == ("hv2", "web1 goes to hv2: web1 is there")
    assert target(shown, clouds, disk="data")["text"] == "disk data of web1 goes to hv2: web1 is there"
    assert target(shown, clouds, name="web2")["target"] == "hv3"


def test_where_it_is_nobody_sees_the_backup_that_another_one_has() -> None:
    """As after a move, of backups in a directory of one host."""
    clouds = {"hv2": hypervisor(record("web1"))}
    with pytest.raises(ConflictError) as caught:
        target({"hv1": sees(OLD), "hv2": NONE, "hv3": sees()}, clouds)
    assert str(caught.value) == (
        f"web1 is on hv2, which sees no backup of it; the newest, {NEW}, is on hv3. Bring that directory to hv2, or "
        "move the machine to where its backups are, and run it again"
    )
    # What it says itself is said instead.
    assert target({"hv1": sees(), "hv2": SILENT}, clouds)["target"] == "hv2"


def test_a_disk_alone_needs_space_alone() -> None:
    needs: dict[str, t.Any] = {"memory_max_mib": 0, "vcpus_max": 0, "labels": None, "anti_affinity": None, "nics": None}
    shown = {"hv1": sees(**needs), "hv2": sees(**needs)}
    result = target(shown, {"hv1": hypervisor(total_mib=0), "hv2": SILENT}, disk="vda")
    assert (result["target"], result["refused"]) == ("hv1", {"hv2": "did not answer: ssh: no route to host"})


def test_one_in_maintenance_is_not_chosen() -> None:
    with pytest.raises(ConflictError, match="hv1: is in maintenance. It would fit on hv1 after its maintenance"):
        target({"hv1": sees()}, {"hv1": hypervisor(maintenance={"since": None, "reason": None})})


def test_the_filter() -> None:
    restore = FilterModule().filters()["restore_target"]
    with pytest.raises(InputError, match="not a mapping"):
        restore_target({}, {}, [], PlacementOptions(), name="web1")  # type: ignore[arg-type]
    assert restore({"hv1": NONE}, {}, {}, "web1", errors="return")["errors"][0].startswith("no hypervisor sees")
    found = restore({"hv1": sees()}, {"hv1": {"host": hypervisor()["host"]}}, {}, "web1", backup="latest")
    assert (found["target"], found["errors"]) == ("hv1", [])
