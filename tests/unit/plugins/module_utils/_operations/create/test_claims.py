# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims of names, and what is checked again under the lock, on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError
from ansible_collections.brine.virt.plugins.module_utils._base.xml import MIB
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.maintenance import Maintenance
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._host.machines.listing import observe_machines
from ansible_collections.brine.virt.plugins.module_utils._host.machines.schema import check_schema
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pools import Pools
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.create.claims import (
    Claim,
    look_for,
    make_claims,
    new_claims,
    withdraw_claims,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.create.decision import (
    check_decision,
    check_maintenance,
    read_decision,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import (
    check_still_chosen,
    make_plans,
    run_plans,
)

SPEC: dict[str, t.Any] = {"name": "new1", "vcpus": 2, "memory": 512, "image": "debian", "seed": {"method": "none"}}
NEW = Claim("new1", 512, 2)


@pytest.fixture
def conn(node_uri: str) -> Iterator[t.Any]:
    with open_connection(node_uri) as connection:
        yield connection


def claim(conn: t.Any, *wanted: Claim) -> dict[str, str]:
    return make_claims(conn, wanted or (NEW,), list_domains(conn))


def make(conn: t.Any, claims: dict[str, str]) -> t.Any:
    hypervisor = Hypervisor(conn, image_pool="images", claims=claims)
    return run_plans(make_plans([read_machine(SPEC)], hypervisor, ""), concurrency=1)[0]


def volumes(conn: t.Any) -> set[str]:
    return {f"{pool.name()}/{name}" for pool in conn.listAllStoragePools() for name in pool.listVolumes()}


def test_a_claim_counts_as_a_machine_that_is_being_made(conn: t.Any) -> None:
    before = volumes(conn)
    claims = claim(conn)
    (record,) = observe_machines(conn, addresses=False, names=["new1"])
    assert (record["building"], record["claimed"], record["memory_max_mib"], record["vcpus_max"]) == (
        True,
        True,
        512,
        2,
    )
    assert record["anti_affinity"] == []
    (other,) = claim(conn, Claim("new3", 512, 2, groups=("web",)))
    assert observe_machines(conn, addresses=False, names=[other])[0]["anti_affinity"] == ["web"]
    assert volumes(conn) == before
    assert look_for(conn, ["new1", "web1", "none"]) == {
        "new1": {"uuid": claims["new1"], "claimed": True},
        "web1": {"uuid": "7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11", "claimed": False},
    }


def test_a_claim_becomes_the_machine_under_its_uuid(conn: t.Any) -> None:
    claims = claim(conn)
    steps = [
        s.description for s in make_plans([read_machine(SPEC)], Hypervisor(conn, image_pool="images"), "")[0].steps
    ]
    assert not [step for step in steps if "remove" in step]
    assert make(conn, claims).error is None
    assert look_for(conn, ["new1"]) == {"new1": {"uuid": claims["new1"], "claimed": False}}
    notes = list_domains(conn)["new1"].notes
    assert notes is not None
    assert (notes.status, notes.claimed) == ("ready", False)


def test_who_is_created_first_and_started_later_is_checked_once(conn: t.Any) -> None:
    """The role starts machines of several hypervisors in their order: the same task again, for some of the machines."""
    hypervisor = Hypervisor(conn, image_pool="images", claims=claim(conn, NEW, Claim("new2", 512, 2)))
    specs = [read_machine({**SPEC, "name": name, "state": "present"}) for name in ("new1", "new2")]
    assert [one.error for one in run_plans(make_plans(specs, hypervisor, "machines"), concurrency=2)] == [None, None]
    hypervisor = Hypervisor(conn, image_pool="images", claims=hypervisor.claims)
    later = [read_machine({**SPEC, "name": "new2"})]
    full = read_decision({"memory_mib": 0, "vcpus": 0, "pools_mib": {"default": 9_000_000_000}}, "decision")
    check_still_chosen(later, hypervisor, full)
    (started,) = run_plans(make_plans(later, hypervisor, "machines"), concurrency=1)
    assert (started.error, started.actions) == (None, ["start new2"])
    assert not conn.lookupByName("new1").isActive()


def test_the_name_is_never_free_while_a_claim_becomes_the_machine(conn: t.Any) -> None:
    claims = claim(conn)
    hypervisor = Hypervisor(conn, image_pool="images", claims=claims)
    for step in make_plans([read_machine(SPEC)], hypervisor, "")[0].steps:
        step.apply()
        assert look_for(conn, ["new1"])["new1"]["uuid"] == claims["new1"]


def test_a_claim_that_a_killed_run_left_is_the_next_runs(conn: t.Any) -> None:
    assert claim(conn) == claim(conn)
    # Also of one that does not claim, because it is a single task.
    assert make(conn, {}).error is None


def test_what_is_there_already_is_not_claimed(conn: t.Any) -> None:
    assert claim(conn, Claim("web1", 512, 1), Claim("half", 512, 1)) == {}
    assert look_for(conn, ["half"])["half"]["claimed"] is False


def test_only_claims_are_withdrawn(conn: t.Any) -> None:
    claims = claim(conn)
    web1 = look_for(conn, ["web1"])["web1"]["uuid"]
    other = "00000000-0000-4000-8000-00000000abcd"
    assert withdraw_claims(conn, {"new1": other, "web1": web1, "none": other}) == []
    assert withdraw_claims(conn, {**claims, "web1": web1}) == ["new1"]
    assert look_for(conn, ["new1"]) == {}
    claims = claim(conn)
    assert make(conn, claims).error is None
    assert withdraw_claims(conn, claims) == []


class Defining:
    """The test driver, which notes the flags and the XML of what it defines."""

    def __init__(self, conn: t.Any) -> None:
        self._conn = conn
        self.defined: list[tuple[int, str]] = []

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._conn, name)

    def defineXMLFlags(self, xml: str, flags: int) -> t.Any:  # noqa: N802 - libvirt's name
        self.defined.append((flags, xml))
        return self._conn.defineXMLFlags(xml, flags)


@pytest.mark.parametrize(
    ("more", "validated"), [({}, False), ({"title": "One"}, False), ({"cpu": {"mode": "host-model"}}, True)]
)
def test_libvirt_reads_its_schema_only_for_what_could_break_it(
    conn: t.Any, more: dict[str, t.Any], validated: bool
) -> None:
    """It does so for each machine anew; of hundreds that is most of what defining them takes."""
    seen = Defining(conn)
    claims = make_claims(seen, [dataclasses.replace(NEW, groups=("db",))], list_domains(conn))
    hypervisor = Hypervisor(seen, image_pool="images", claims=claims)
    plans = make_plans([read_machine({**SPEC, **more})], hypervisor, "")
    assert [made.error for made in run_plans(plans, concurrency=1)] == [None]
    assert [bool(flags) for flags, _xml in seen.defined] == [False, validated]
    for _flags, xml in seen.defined:
        check_schema(xml, "")


def test_when_one_cannot_be_claimed_none_is(conn: t.Any) -> None:
    with pytest.raises(Exception, match="cannot define machine"):
        claim(conn, NEW, Claim("bad/name\n", 512, 1))
    assert look_for(conn, ["new1"]) == {}


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_claim_that_is_gone_is_an_error_and_nothing_is_made(conn: t.Any, taken_over: bool) -> None:
    claims, before = claim(conn), volumes(conn)
    withdraw_claims(conn, claims)
    if taken_over:
        claim(conn)
    with pytest.raises(ConflictError, match="another run has taken the name new1"):
        make(conn, claims)
    assert volumes(conn) == before


def test_a_machine_whose_making_fails_leaves_no_claim(conn: t.Any) -> None:
    claims = claim(conn)
    (todo,) = make_plans([read_machine(SPEC)], Hypervisor(conn, image_pool="images", claims=claims), "")
    assert todo.steps[0].undo is not None
    todo.steps[0].undo()  # the definition itself has failed: the claim is there still
    assert look_for(conn, ["new1"]) == {}


def check(conn: t.Any, decision: dict[str, t.Any], new: t.Sequence[Claim] = (NEW,), *, ahead: bool = False) -> None:
    domains, read = list_domains(conn), read_decision(decision, "decision")
    check_decision(new_claims(new, domains), read, domains, Pools(conn), [one.name for one in new], ahead=ahead)


def committed_mib(conn: t.Any) -> int:
    return sum(record["memory_max_mib"] for record in observe_machines(conn, addresses=False))


def test_memory_is_counted_again(conn: t.Any) -> None:
    limit = committed_mib(conn) + 512
    check(conn, {"memory_mib": limit})
    claim(conn)  # counts once, whether it is defined or yet to be
    check(conn, {"memory_mib": limit})
    with pytest.raises(
        ConflictError, match="has changed since it was chosen for new2: 1 MiB of memory are needed, 0 are"
    ):
        check(conn, {"memory_mib": limit}, [Claim("new2", 1, 1)])


def test_who_is_to_be_apart_is_looked_at_again(conn: t.Any) -> None:
    """Two runs that begin at once see nobody of the group, and choose the same hypervisor."""
    wanted = {"apart": {"new2": ["db", "web"]}}
    new2 = Claim("new2", 1, 1, groups=("db", "web"))
    check(conn, wanted, [new2])
    claim(conn, dataclasses.replace(NEW, groups=("web",)))
    with pytest.raises(ConflictError) as caught:
        check(conn, wanted, [new2])
    assert str(caught.value).startswith(
        "this hypervisor has changed since it was chosen for new2: it has new1, of the same anti-affinity group web as"
        " new2. Nothing was created"
    )
    # Where they may share one, and of the run itself, placement has seen to it.
    check(conn, {}, [new2])
    check(conn, {**wanted, "machines": {"new1": None}}, [new2])
    check(conn, wanted, [new2, NEW])


def test_cpus_and_pools_are_counted_again(conn: t.Any) -> None:
    with pytest.raises(ConflictError, match=r"2 vCPUs are needed, 0 are free"):
        check(conn, {"vcpus": 1})
    check(conn, {"pools_mib": {"default": 1}})
    with pytest.raises(ConflictError, match=r"9000000000 MiB are needed in pool default, \d+ are free"):
        check(conn, {"pools_mib": {"default": 9_000_000_000}})
    check(conn, {"pools_mib": {"default": 9_000_000_000}}, [])


def test_a_shared_pool_has_space_for_all_hypervisors_before_anything_is_created(conn: t.Any) -> None:
    free_mib = Pools(conn).get("default").available_bytes // MIB
    shared = {"pools_mib": {"default": 1}, "shared_pools_mib": {"default": free_mib}}
    check(conn, shared, ahead=True)
    full = {"pools_mib": {"default": 1}, "shared_pools_mib": {"default": free_mib + 1}}
    words = (
        rf"chosen for new1: {free_mib + 1} MiB are needed in pool default by this run, on all .*, {free_mib} are free"
    )
    with pytest.raises(ConflictError, match=words):
        check(conn, full, ahead=True)
    # By now some of it may be what the run has created on another one, and it has space for what comes here.
    check(conn, full)
    with pytest.raises(ConflictError, match=rf"{free_mib + 2} MiB are needed in pool default, {free_mib} are free"):
        check(conn, {**full, "pools_mib": {"default": free_mib + 2}}, ahead=True)
    check(conn, full, [], ahead=True)


def test_maintenance_keeps_new_machines_out() -> None:
    check_maintenance([], Maintenance("2026-11-21T10:00:00Z", "new disks"))
    check_maintenance(["new1"], None)
    with pytest.raises(
        ConflictError, match=r"in maintenance since 2026-11-21T10:00:00Z \(new disks\) and gets no new .*new1"
    ):
        check_maintenance(["new1"], Maintenance("2026-11-21T10:00:00Z", "new disks"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"memory": "1MiB"}, "decision: unknown option 'memory'"),
        ({"memory_mib": "much"}, "decision.memory_mib: 'much' is not allowed"),
        ({"pools_mib": {"default": -1}}, "decision.pools_mib.default: -1 is not allowed"),
        ({"shared_pools_mib": {"default": "all"}}, "decision.shared_pools_mib.default: 'all' is not allowed"),
        ({"machines": {"web1": "the first"}}, "decision.machines.web1: 'the first' is not a UUID"),
        ({"machines": ["web1"]}, "decision.machines: a list is not a mapping"),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused(value: t.Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_decision(value, "decision")
    assert str(caught.value).startswith(words)
