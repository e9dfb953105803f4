# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The profile that nobody named: it makes new machines, and asks nothing of those that are there."""

from __future__ import annotations

import functools
import typing as t

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing, read_values
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import (
    make_plans,
    read_specs_here,
    run_plans,
)
from ansible_collections.brine.virt.plugins.module_utils._seeding.nocloud import seed_digest
from ansible_collections.brine.virt.plugins.modules import virt_init

BARE = {"name": "new1", "vcpus": 1, "memory": 512, "seed": {"method": "none"}, "start": False}
GROWN = [{"name": "system", "size": "10GiB"}, {"name": "extra", "size": "1GiB"}]
PROFILES: dict[str, t.Any] = {
    "disk_profiles": {"big": [{"system": {"size": "20GiB"}}], "other": [{"root": {"size": 4096}}]},
    "nic_profiles": {"inner": {"eth0": {"network": "default"}}},
}
# The user's own default profiles, which say something else by now than when the machine was made.
CHANGED: dict[str, t.Any] = {
    "disk_profiles": {"default": [{"system": {"size": "20GiB", "cache": "none"}}, {"more": {"size": 64}}]},
    "nic_profiles": {"default": {"eth0": {"network": "default", "mtu": 9000}, "eth9": {"bridge": "br0"}}},
}


@pytest.fixture
def conn(node_uri: str) -> t.Iterator[t.Any]:
    with open_connection(node_uri) as connection:
        yield connection


def plan(conn: t.Any, *, listed: bool = True, places: t.Sequence[str] = ("vms[3]",), **options: t.Any) -> MachinePlan:
    """What virt_init would do for this machine, asked for in a list or by the task's own options."""
    profiles = {key: options.pop(key) for key in list(options) if key in PROFILES}
    spec = {**BARE, **options}
    task = {"machines": [spec], "places": list(places)} if listed else spec
    found = ArgumentSpecValidator(virt_init.ARGUMENTS).validate({**PROFILES, **profiles, **task})
    assert found.error_messages == []
    params = found.validated_parameters
    hypervisor = Hypervisor(conn, image_pool="images")
    virt_init.check_ahead(params)
    machines = read_specs_here(functools.partial(virt_init.read_specs, params), hypervisor)
    return make_plans(machines, hypervisor, "machines" if listed else "", params["places"])[0]


def make(conn: t.Any, **options: t.Any) -> None:
    (outcome,) = run_plans([plan(conn, **options)], concurrency=1)
    assert outcome.error is None


def asked(plan: MachinePlan) -> tuple[t.Any, ...]:
    return plan.created, plan.before, plan.after, list(plan.outdated)


NOTHING: tuple[t.Any, ...] = (False, {}, {}, [])


@pytest.mark.parametrize("listed", [True, False])
def test_a_disk_that_has_grown_is_not_asked_to_shrink(conn: t.Any, listed: bool) -> None:
    make(conn, image="debian", disks=GROWN)
    found = plan(conn, listed=listed, image="debian", disks=[{"name": "extra", "state": "absent"}])
    assert list(found.before) == ["disks"]
    assert list(found.before["disks"]) == ["extra"]
    assert (found.after, list(found.outdated)) == ({"disks": {}}, [])


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("image", [{}, {"image": "debian"}])
def test_what_is_in_the_default_profiles_now_is_for_new_machines(
    conn: t.Any, listed: bool, image: dict[str, t.Any]
) -> None:
    make(conn, **image, disks=GROWN)
    assert asked(plan(conn, listed=listed, **image, **CHANGED)) == NOTHING
    new = plan(conn, listed=listed, **image, **CHANGED, name="new2").after
    assert (list(new["disks"]), list(new["nics"])) == (["system", "more"], ["eth0", "eth9"])


def test_a_machine_of_other_profiles_gets_nothing_from_the_default_ones(conn: t.Any) -> None:
    make(conn, image="debian", disk_profile="other", nic_profile="none")
    assert asked(plan(conn)) == asked(plan(conn, image="debian")) == NOTHING
    assert list(plan(conn, image="debian-0000000000000000.qcow2").outdated) == ["image"]
    # The image is for the disk that the machine was made with, not for one that comes now.
    found = plan(conn, image="debian", disks=[{"name": "data", "size": 64}])
    assert (list(found.after["disks"]), "image" in found.after["disks"]["data"]) == (["data"], False)


def test_a_nic_that_was_taken_out_stays_out(conn: t.Any) -> None:
    make(conn)
    make(conn, nics=[{"name": "eth0", "state": "absent"}])
    assert asked(plan(conn)) == NOTHING
    # Who names it asks for it, and the profile says what it is.
    assert plan(conn, nics=[{"name": "eth0", "mtu": 1400}]).after["nics"]["eth0"]["bridge"] == "br0"


@pytest.mark.parametrize("listed", [True, False])
def test_profiles_that_are_named_count(conn: t.Any, listed: bool) -> None:
    make(conn)
    found = plan(conn, listed=listed, disk_profile="big", nic_profile="inner")
    assert found.after == {
        "disks": {"system": {"size": 20480}},
        "nics": {"eth0": {"type": "network", "source": "default"}},
    }


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"disk_profile": "default"}, "virt_vms[3].disks.system.size (the profile default)"),
        ({"disk_profile": "small"}, "virt_disk_profiles.small.system.size"),
        ({"disks": [{"name": "system", "size": 100}]}, "virt_vms[3].disks[0].size"),
    ],
)
def test_the_place_of_a_size_is_where_it_comes_from(conn: t.Any, wrong: dict[str, t.Any], place: str) -> None:
    make(conn, disks=GROWN)
    small: dict[str, t.Any] = {"disk_profiles": {"small": {"system": {"size": 100}}}}
    with pytest.raises(InputError) as caught:
        plan(conn, places=["virt_vms[3]"], **wrong, **small)
    assert str(caught.value).startswith(f"{place}: the disk has 10240 MiB, the task asks for ")


def test_the_place_of_a_profile_in_a_task_of_ones_own_is_the_option(conn: t.Any) -> None:
    make(conn, disks=GROWN)
    with pytest.raises(InputError, match=r"^disk_profiles\.small\.system\.size: the disk has"):
        plan(conn, disk_profile="small", disk_profiles={"small": {"system": {"size": 100}}})


def test_the_seed_of_a_machine_is_the_same_when_it_is_there(conn: t.Any) -> None:
    nic = {"bridge": "br0", "mtu": 9000, "addresses": ["192.0.2.10/24"], "gateway": "192.0.2.1"}
    profiles: dict[str, t.Any] = {"nic_profiles": {"default": {"eth0": nic}}}
    make(conn, **profiles)
    domain = list_domains(conn)["new1"]
    values = read_values(domain.xml, domain.notes)
    request = {key: value for key, value in BARE.items() if key != "seed"}
    new = read_machine(request, **profiles)
    there = read_machine(request, **profiles, existing=lambda _name: Existing(values))
    assert seed_digest(there) == seed_digest(new)
