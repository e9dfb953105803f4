# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines made, changed, refused and rolled back, on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import time
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import (
    ConflictError,
    HostError,
    InputError,
    NotFoundError,
    UnsupportedError,
    VirtError,
)
from ansible_collections.brine.virt.plugins.module_utils._base.xml import etree
from ansible_collections.brine.virt.plugins.module_utils._host import locks
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.guest_platform import GuestPlatforms
from ansible_collections.brine.virt.plugins.module_utils._host.identity import host_identity
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains, write_notes
from ansible_collections.brine.virt.plugins.module_utils._host.machines.listing import observe_machines
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    BUILDING,
    CreationNote,
    MachineNotes,
    VolumeNote,
    notes_to_element,
)
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.migration import (
    NAMESPACE,
    PREFIX,
    MigrationNote,
    migration_note_to_xml,
    read_migration_note,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine, read_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.create.decision import read_decision
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import (
    check_still_chosen,
    left_running,
    machines_taken,
    make_plans,
    run_plans,
    unbootable,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step

pytestmark = pytest.mark.medium

# The test driver cannot be written to, so there is no seed.
SPEC: dict[str, t.Any] = {
    "name": "new1",
    "vcpus": 2,
    "memory": 512,
    "image": "debian",
    "disks": [{"name": "system", "size": "20GiB"}, {"name": "data", "size": 64}],
    "seed": {"method": "none"},
    "tags": ["one"],
}


@pytest.fixture
def conn(node_uri: str) -> Iterator[t.Any]:
    with open_connection(node_uri) as connection:
        yield connection


def plan(conn: t.Any, **changes: t.Any) -> MachinePlan:
    """A plan from what is true now."""
    return make_plans([read_machine({**SPEC, **changes})], Hypervisor(conn, image_pool="images"), "")[0]


def make(conn: t.Any, **changes: t.Any) -> MachinePlan:
    return run_plans([plan(conn, **changes)], concurrency=1)[0]


def volumes(conn: t.Any) -> set[str]:
    return {f"{pool.name()}/{name}" for pool in conn.listAllStoragePools() for name in pool.listVolumes()}


def notes_of(conn: t.Any, name: str) -> MachineNotes:
    notes = list_domains(conn)[name].notes
    assert notes is not None
    return notes


def test_a_new_machine(conn: t.Any) -> None:
    before = volumes(conn)
    outcome = make(conn, autostart=True)
    assert outcome.error is None
    assert volumes(conn) - before == {"default/new1-system.qcow2", "default/new1-data.qcow2"}
    domain = conn.lookupByName("new1")
    assert (bool(domain.isActive()), bool(domain.autostart())) == (True, True)
    notes = notes_of(conn, "new1")
    assert (notes.status, notes.tags, [disk.target for disk in notes.disks]) == ("ready", ("one",), ["vda", "vdb"])
    assert notes.image is not None
    assert notes.image.volume == "debian-0123456789abcdef.qcow2"


def test_previewing_changes_nothing_and_says_the_same(conn: t.Any) -> None:
    before = (volumes(conn), sorted(list_domains(conn)))
    ahead = plan(conn).as_result()
    assert (volumes(conn), sorted(list_domains(conn))) == before
    assert {**make(conn).as_result(), "seconds": 0.0} == ahead


def test_a_second_time_there_is_nothing_to_do(conn: t.Any) -> None:
    make(conn)
    again = plan(conn)
    assert (again.created, list(again.steps), list(again.outdated)) == (False, [], [])


def test_what_placement_keeps_to_is_noted_and_changes_like_tags(conn: t.Any) -> None:
    make(conn, labels={"zone": "a"}, anti_affinity="web")
    notes = notes_of(conn, "new1")
    assert (notes.labels, notes.anti_affinity) == (("zone=a",), ("web",))
    assert list(plan(conn).steps) == []
    changed = plan(conn, labels=["ssd"], anti_affinity=[])
    assert changed.after == {"labels": ["ssd"], "anti_affinity": []}
    assert list(changed.pending) == []
    assert run_plans([changed], concurrency=1)[0].error is None
    notes = notes_of(conn, "new1")
    assert (notes.labels, notes.anti_affinity, notes.tags) == (("ssd",), (), ("one",))


def test_the_start_order_is_noted_and_changes_while_the_machine_runs(conn: t.Any) -> None:
    made = make(conn, order=10, delay_seconds=30)
    assert (made.after["order"], made.after["delay_seconds"]) == (10, 30)
    assert (notes_of(conn, "new1").order, notes_of(conn, "new1").delay_seconds) == (10, 30)
    assert list(plan(conn).steps) == list(plan(conn, order=10, delay_seconds=30).steps) == []
    (record,) = observe_machines(conn, addresses=False, names=["new1"])
    assert (record["order"], record["delay_seconds"]) == (10, 30)
    # What was read changes nothing.
    assert list(plan(conn, **{key: record[key] for key in ("order", "delay_seconds")}).steps) == []
    changed = plan(conn, order=5, delay_seconds=0)
    assert (changed.before, changed.after) == (
        {"order": 10, "delay_seconds": 30},
        {"order": 5, "delay_seconds": 0},
    )
    assert list(changed.pending) == []
    assert run_plans([changed], concurrency=1)[0].actions == ["set delay_seconds, order of new1"]
    assert conn.lookupByName("new1").isActive()
    assert make(conn, order="none").error is None
    assert (notes_of(conn, "new1").order, notes_of(conn, "new1").delay_seconds) == (None, 0)
    assert list(plan(conn, order="none").steps) == []


def test_the_result_says_in_which_order_a_machine_starts(conn: t.Any) -> None:
    def turn(todo: MachinePlan) -> tuple[t.Any, t.Any]:
        result = todo.as_result()
        return result.get("order", "-"), result.get("delay_seconds", "-")

    assert turn(plan(conn)) == (None, 0)
    assert turn(plan(conn, order=10, start=False)) == ("-", "-")
    assert turn(make(conn, order=10, delay_seconds=30)) == (10, 30)
    assert turn(plan(conn, order=10)) == ("-", "-")
    conn.lookupByName("new1").destroy()
    # What the machine remembers counts where the task does not say.
    assert turn(plan(conn, order=5)) == (5, 30)
    assert turn(plan(conn)) == (10, 30)
    assert turn(dataclasses.replace(plan(conn), error=HostError("no"))) == ("-", "-")


def started(conn: t.Any, *specs: dict[str, t.Any], concurrency: int = 8) -> list[str]:
    """Make these machines side by side; the order in which they were started, which is that of their numbers."""
    machines = [read_machine({**SPEC, "disks": None, "image": None, "disk_profile": None, **spec}) for spec in specs]
    outcomes = run_plans(
        make_plans(machines, Hypervisor(conn, image_pool="images"), "machines"), concurrency=concurrency
    )
    assert [outcome.machine.name for outcome in outcomes] == [spec["name"] for spec in specs]
    up = [conn.lookupByName(spec["name"]) for spec in specs if spec["name"] in list_domains(conn)]
    return [domain.name() for domain in sorted(up, key=lambda domain: domain.ID()) if domain.isActive()]


@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_machines_start_in_their_order(conn: t.Any, concurrency: int) -> None:
    specs = ({"name": "any"}, {"name": "web", "order": 20}, {"name": "off", "order": 1, "start": False})
    assert started(conn, *specs, {"name": "db", "order": 3}, concurrency=concurrency) == ["db", "web", "any"]
    # Their own orders count as well where the task does not name them.
    for name in ("any", "web", "db"):
        conn.lookupByName(name).destroy()
    specs = ({"name": "any"}, {"name": "web"}, {"name": "db"})
    assert started(conn, *specs, concurrency=concurrency) == ["db", "web", "any"]


def test_those_behind_wait_for_the_longest_delay_of_those_that_started(conn: t.Any) -> None:
    began = time.monotonic()
    assert started(conn, {"name": "db", "order": 1}, {"name": "web", "delay_seconds": 600}) == ["db", "web"]
    assert time.monotonic() - began < 300
    specs = ({"name": "db2", "order": 1, "delay_seconds": 2}, {"name": "db3", "order": 1, "delay_seconds": 1})
    assert started(conn, *specs, {"name": "web2"})[-1] == "web2"
    assert 2 <= time.monotonic() - began < 300


def test_one_that_fails_holds_nobody_up(conn: t.Any) -> None:
    def fail() -> None:
        raise HostError("no")

    specs = ({"name": "db", "order": 1, "delay_seconds": 600}, {"name": "web", "order": 2})
    machines = [read_machine({**SPEC, **spec}) for spec in specs]
    plans = make_plans(machines, Hypervisor(conn, image_pool="images"), "machines")
    broken = [dataclasses.replace(step, apply=fail) if step.turn else step for step in plans[0].steps]
    outcomes = run_plans([dataclasses.replace(plans[0], steps=broken), plans[1]], concurrency=8)
    assert [str(outcome.error) for outcome in outcomes] == ["no", "None"]
    assert "db" not in list_domains(conn)
    assert conn.lookupByName("web").isActive()


def test_the_default_cpu_is_for_new_machines_that_do_not_say_it(conn: t.Any) -> None:
    fleet_cpu = {"mode": "custom", "match": "exact", "model": "EPYC", "features": {"svm": {"policy": "disable"}}}

    def made(name: str, **changes: t.Any) -> MachinePlan:
        hypervisor = Hypervisor(conn, image_pool="images", default_cpu=fleet_cpu)
        return make_plans([read_machine({**SPEC, **changes, "name": name})], hypervisor, "")[0]

    def cpu_of(name: str) -> t.Any:
        return list_domains(conn)[name].xml.find("cpu")

    for name, changes in (("plain", {}), ("own", {"cpu": {"model": "Haswell"}}), ("sized", {"cpu": {"iothreads": 1}})):
        assert run_plans([made(name, **changes)], concurrency=1)[0].error is None
    assert cpu_of("plain").findtext("model") == cpu_of("sized").findtext("model") == "EPYC"
    assert cpu_of("plain").find("feature").attrib == {"policy": "disable", "name": "svm"}
    assert cpu_of("own").findtext("model") == "Haswell"
    make(conn)
    assert list(made("new1").steps) == []


def test_the_default_machine_type_is_for_new_machines_that_do_not_say_it(conn: t.Any) -> None:
    hypervisor = Hypervisor(conn, image_pool="images", default_machine_type="pc-q35-7.2")
    with pytest.raises(
        UnsupportedError, match="^default_machine_type: this hypervisor has no machine type 'pc-q35-7.2'"
    ):
        make_plans([read_machine(SPEC)], hypervisor, "vms")
    # The test driver has no machine types.
    hypervisor.guests.machine_types |= {"q35", "pc-q35-7.2", "pc-q35-10.0"}

    def chosen(**changes: t.Any) -> str | None:
        return hypervisor.guests.platform(read_machine({**SPEC, **changes})).machine_type

    assert (chosen(), chosen(machine_type="pc-q35-10.0")) == ("pc-q35-7.2", "pc-q35-10.0")
    make(conn)
    again = Hypervisor(conn, image_pool="images", default_machine_type="pc-q35-7.2")
    (found,) = make_plans([read_machine(SPEC)], again, "")
    assert (list(found.steps), list(found.outdated)) == ([], [])


STEPS = ["define", "system", "data", "ready", "autostart", "start"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("index", range(len(STEPS)), ids=STEPS)
def test_whatever_step_fails_nothing_is_left(conn: t.Any, index: int, after: bool) -> None:
    before = (volumes(conn), sorted(list_domains(conn)))
    todo = plan(conn, autostart=True)
    assert len(todo.steps) == len(STEPS)

    def fail() -> None:
        if after:
            todo.steps[index].apply()
        raise HostError("the disk has caught fire")

    steps = list(todo.steps)
    steps[index] = dataclasses.replace(steps[index], apply=fail)
    outcome = run_plans([dataclasses.replace(todo, steps=steps)], concurrency=1)[0]
    assert str(outcome.error) == "the disk has caught fire"
    assert (volumes(conn), sorted(list_domains(conn))) == before


@pytest.mark.parametrize("reached", range(1, len(STEPS)), ids=STEPS[1:])
def test_what_a_killed_run_left_is_finished_by_the_next(conn: t.Any, reached: int) -> None:
    """Steps up to one are done and nobody takes them back, as after SIGKILL."""
    for step in plan(conn, autostart=True).steps[:reached]:
        step.apply()
    assert make(conn, autostart=True).error is None
    assert notes_of(conn, "new1").status == "ready"
    assert {name for name in volumes(conn) if "new1" in name} == {
        "default/new1-system.qcow2",
        "default/new1-data.qcow2",
    }
    assert list(plan(conn, autostart=True).steps) == []


@pytest.mark.parametrize("ahead", [True, False], ids=["already", "since-planned"])
@pytest.mark.parametrize("ready", [False, True], ids=["new", "ready"])
def test_what_a_run_is_still_making_is_no_leftover(conn: t.Any, ready: bool, ahead: bool) -> None:
    """A restore holds the machine's lock for the hours that it fills volumes, and no other. It leaves on a disk what a
    killed run leaves."""
    if ready:
        make(conn)
        notes = notes_of(conn, "new1")
        xml = "<volume><name>new1-more.qcow2</name><capacity>1048576</capacity></volume>"
        conn.storagePoolLookupByName("default").createXML(xml, 0)
        more = VolumeNote("default", "new1-more.qcow2", "disk", building=True, making=CreationNote("0" * 32, 1 << 20))
        write_notes(conn.lookupByName("new1"), dataclasses.replace(notes, volumes=(*notes.volumes, more)))
    else:
        for step in plan(conn).steps[:3]:
            step.apply()
    specs = read_machines([SPEC, {**SPEC, "name": "other"}])
    before, noted = volumes(conn), notes_of(conn, "new1")
    identity = conn.lookupByName("new1").UUIDString()
    todo = [] if ahead else make_plans(specs, Hypervisor(conn, image_pool="images"), "machines")
    with locks.machine_lock("new1", wait_seconds=0):
        todo = todo or make_plans(specs, Hypervisor(conn, image_pool="images"), "machines")
        held, other = run_plans(todo, concurrency=2)
    assert str(held.error).startswith("another run is moving, backing up, restoring or removing machine new1"), held
    assert not held.as_result()["changed"]
    assert other.error is None
    assert before <= volumes(conn)
    assert (conn.lookupByName("new1").UUIDString(), notes_of(conn, "new1")) == (identity, noted)


@pytest.mark.parametrize("fails", [False, True])
def test_the_step_that_a_machine_is_at_is_known_meanwhile(conn: t.Any, fails: bool) -> None:
    at_work: dict[str, Step] = {}
    seen = []

    def seeing(step: Step, last: bool) -> Step:
        def apply() -> None:
            seen.append({name: step.description for name, step in at_work.items()})
            if last and fails:
                raise HostError("nothing of it")
            step.apply()

        return dataclasses.replace(step, apply=apply)

    made = plan(conn)
    steps = tuple(seeing(step, step is made.steps[-1]) for step in made.steps)
    (outcome,) = run_plans([dataclasses.replace(made, steps=steps)], concurrency=1, at_work=at_work)
    assert (outcome.error is not None) == fails
    assert len(seen) > 2 and seen == [{"new1": step.description} for step in made.steps]
    assert not at_work


def test_one_of_many_fails_and_the_others_are_kept(conn: t.Any) -> None:
    specs = read_machines([{**SPEC, "name": name} for name in ("a1", "a2", "a3")])
    plans = make_plans(specs, Hypervisor(conn, image_pool="images"), "machines")

    def fail() -> None:
        raise HostError("no")

    bad = [dataclasses.replace(step, apply=fail) if step.description == "start a2" else step for step in plans[1].steps]
    outcomes = run_plans([plans[0], dataclasses.replace(plans[1], steps=bad), plans[2]], concurrency=2)
    assert [outcome.error is None for outcome in outcomes] == [True, False, True], outcomes
    assert {"a1", "a3"} <= set(list_domains(conn))
    assert "a2" not in list_domains(conn)
    assert not [name for name in volumes(conn) if "a2" in name]


@pytest.mark.parametrize("fault", [KeyError("x"), RuntimeError("a defect"), FileNotFoundError(2, "gone", "guestfish")])
def test_an_error_that_nobody_expected_is_that_machines_alone(conn: t.Any, fault: Exception) -> None:
    specs = read_machines([{**SPEC, "name": name} for name in ("a1", "a2", "a3")])
    plans = make_plans(specs, Hypervisor(conn, image_pool="images"), "machines")

    def fail() -> None:
        raise fault

    bad = [dataclasses.replace(step, apply=fail) if step.description == "start a2" else step for step in plans[1].steps]
    outcomes = run_plans([plans[0], dataclasses.replace(plans[1], steps=bad), plans[2]], concurrency=2)
    assert [outcome.error is None for outcome in outcomes] == [True, False, True], outcomes
    assert outcomes[1].as_result()["msg"].startswith(f"unexpected {type(fault).__name__} in test_machines.py, line ")
    assert {"a1", "a3"} <= set(list_domains(conn))
    assert not [name for name in volumes(conn) if "a2" in name]


@pytest.mark.parametrize("check_mode", [False, True])
def test_an_error_that_nobody_expected_while_planning_is_that_machines_alone(
    conn: t.Any, monkeypatch: pytest.MonkeyPatch, check_mode: bool
) -> None:
    def platform(_self: t.Any, machine: t.Any, where: str) -> t.Any:
        if machine.name == "a2":
            raise KeyError("vendor")
        return original(_self, machine, where)

    original = GuestPlatforms.platform
    monkeypatch.setattr(GuestPlatforms, "platform", platform)
    specs = read_machines([{**SPEC, "name": name, "start": False} for name in ("a1", "a2", "a3")])
    hypervisor = Hypervisor(conn, image_pool="images")
    plans = make_plans(specs, hypervisor, "machines")
    assert left_running(plans, hypervisor) == []
    outcomes = plans if check_mode else run_plans(plans, concurrency=2)
    assert [outcome.error is None for outcome in outcomes] == [True, False, True], outcomes
    result = outcomes[1].as_result()
    assert (result["failed"], result["changed"], result["created"]) == (True, False, False)
    assert result["msg"].startswith("unexpected KeyError in test_machines.py, line ")
    # What is wrong in the task itself still keeps all of it from being done.
    with pytest.raises(InputError, match="size: 1 MiB is less than"):
        make_plans(
            [*specs[:2], read_machine({**SPEC, "name": "a4", "disks": [{"name": "system", "size": "1MiB"}]})],
            Hypervisor(conn, image_pool="images"),
            "machines",
        )


def test_the_mistakes_of_all_machines_are_named_at_once_and_nothing_is_made(conn: t.Any) -> None:
    before = volumes(conn)
    places = ["vms[0]", "vms[4]", "vms[5]"]
    specs = read_machines(
        [{**SPEC, "name": "a1"}, {**SPEC, "name": "a2", "memory": "9TiB"}, {**SPEC, "name": "a3"}], places=places
    )
    specs[2] = dataclasses.replace(specs[2], machine_type="q36")
    with pytest.raises(VirtError) as caught:
        make_plans(specs, Hypervisor(conn, image_pool="images"), "machines", places)
    first, second = str(caught.value).splitlines()
    assert first.startswith("vms[4].memory: a2 needs") and second.startswith("vms[5].machine_type: ")
    assert volumes(conn) == before


REFUSED: list[tuple[dict[str, t.Any], type[VirtError], str]] = [
    ({"memory": "9TiB"}, ConflictError, "memory: new1 needs"),
    ({"image": "debain"}, NotFoundError, r"image: there is no image 'debain'.*debian"),
    ({"nics": [{"name": "eth0", "bridge": "br7"}]}, NotFoundError, r"^nics\[0\]\.bridge: there is no bridge 'br7'"),
    ({"nics": [{"name": "eth0", "network": "defualt"}]}, NotFoundError, "'defualt'.*Did you mean default"),
    ({"nics": [{"name": "eth0", "mac": "52:54:00:00:00:01"}]}, ConflictError, "belongs to machine web1"),
    ({"disks": [{"name": "system", "pool": "fast"}]}, NotFoundError, r"^disks\[0\]\.pool: .*'fast'"),
    ({"disks": [{"name": "system", "size": "1MiB"}]}, InputError, r"^disks\[0\]\.size: 1 MiB is less than"),
    ({"machine_type": "q36"}, UnsupportedError, "'q36'"),
]


@pytest.mark.parametrize(("change", "error", "words"), REFUSED, ids=[words for _change, _error, words in REFUSED])
def test_what_the_hypervisor_cannot_have_is_refused_with_its_place(
    conn: t.Any, change: dict[str, t.Any], error: type[VirtError], words: str
) -> None:
    with pytest.raises(error, match=words):
        plan(conn, **change)


def test_a_volume_of_somebody_else_is_in_the_way(conn: t.Any) -> None:
    xml = "<volume><name>new1-system.qcow2</name><capacity>1</capacity></volume>"
    conn.storagePoolLookupByName("default").createXML(xml)
    with pytest.raises(ConflictError, match=r"new1-system\.qcow2.*vol-delete"):
        plan(conn)


def test_a_machine_of_somebody_else_is_in_the_way(conn: t.Any) -> None:
    with pytest.raises(ConflictError, match="did not create"):
        plan(conn, name="db1")


CANNOT: list[tuple[dict[str, t.Any], type[VirtError], str]] = [
    ({"disks": [{"name": "system", "size": "20GiB"}, {"name": "data", "size": 63}]}, InputError, "never shrunk"),
    (
        {"disks": [*SPEC["disks"], {"name": "more", "size": "1MiB", "pool": "none"}]},
        NotFoundError,
        r"^disks\[2\]\.pool",
    ),
    ({"disks": [{"name": "system", "size": "20GiB", "model": "sata"}]}, UnsupportedError, "model is virtio"),
    ({"image": None, "disks": [{"name": "system", "source": "debian.raw"}]}, NotFoundError, "has no volume"),
    ({"nics": [{"name": "eth0", "mac": "52:54:00:aa:aa:aa"}]}, UnsupportedError, "52:54:00:aa:aa:aa"),
    ({"nics": [{"name": "eth0", "bridge": "br1"}]}, NotFoundError, "no bridge 'br1'"),
    ({"nics": [{"name": "eth1", "mac": "52:54:00:00:00:01"}]}, ConflictError, "belongs to machine web1"),
    ({"firmware": "efi"}, UnsupportedError, "has firmware bios"),
    ({"secure_boot": True}, UnsupportedError, "has firmware bios"),
    ({"seed": {"user": "other"}, "seed_policy": "refresh"}, UnsupportedError, "no seed volume"),
]


@pytest.mark.parametrize(("change", "error", "words"), CANNOT, ids=[words for _change, _error, words in CANNOT])
def test_what_cannot_be_changed_is_said(
    conn: t.Any, change: dict[str, t.Any], error: type[VirtError], words: str
) -> None:
    make(conn)
    with pytest.raises(error, match=words):
        plan(conn, **change)


CHANGES: list[tuple[dict[str, t.Any], list[str]]] = [
    ({"memory": 1024}, ["memory"]),
    ({"vcpus": 1}, ["vcpus"]),
    ({"cpu": {"mode": "custom", "model": "core2duo", "topology": {"cores": 2}}}, ["cpu"]),
    ({"clock": {"offset": "localtime", "timers": {"rtc": {"tickpolicy": "catchup"}}}}, ["clock"]),
    ({"events": {"reboot": "destroy"}}, ["events"]),
    ({"graphics": {"type": "vnc", "password": "secret12"}}, ["graphics"]),
    ({"rng": False}, ["rng"]),
    ({"xml": "<devices><sound model='ich6'/></devices>"}, ["xml"]),
    ({"tags": ["two", "three"]}, []),
    ({"variables": {"a": [1]}}, []),
    ({"title": "T", "description": "D"}, []),
    ({"autostart": True}, []),
]


@pytest.mark.parametrize(("change", "pending"), CHANGES, ids=[",".join(change) for change, _pending in CHANGES])
def test_what_can_be_changed_is_changed_once(conn: t.Any, change: dict[str, t.Any], pending: list[str]) -> None:
    make(conn)
    todo = plan(conn, **change)
    assert todo.steps
    assert list(todo.pending) == pending
    assert run_plans([todo], concurrency=1)[0].error is None
    assert list(plan(conn, **change).steps) == []
    # What the spec does not name stays.
    rest = {key: value for key, value in change.items() if key in ("memory", "vcpus", "tags")}
    assert list(plan(conn, **rest).steps) == []


def test_a_stopped_machine_is_started_and_nothing_waits(conn: t.Any) -> None:
    make(conn, start=False)
    todo = plan(conn, memory=1024)
    assert (todo.before["state"], todo.after["state"], list(todo.pending)) == ("stopped", "running", [])
    assert list(plan(conn, start=False).steps) == []


def test_a_machine_that_runs_against_the_request_is_said(conn: t.Any) -> None:
    def left(**changes: t.Any) -> list[str]:
        hypervisor = Hypervisor(conn, image_pool="images")
        plans = make_plans([read_machine({**SPEC, **changes})], hypervisor, "")
        return left_running(plans, hypervisor)

    assert left(start=False) == []
    make(conn)
    assert (left(start=False), left()) == (["new1"], [])
    conn.lookupByName("new1").destroy()
    assert left(start=False) == []


def test_a_machine_that_has_gone_since_the_plan_is_not_defined_again(conn: t.Any) -> None:
    """virt_migrate has moved it meanwhile, and it would exist on two hypervisors."""
    make(conn, start=False)
    todo = plan(conn, start=False, memory=256)
    conn.lookupByName("new1").undefine()
    assert "machine new1 is no longer on this hypervisor" in str(run_plans([todo], concurrency=1)[0].error)
    assert "new1" not in list_domains(conn)


def test_what_somebody_has_changed_since_the_plan_is_not_written_over(conn: t.Any) -> None:
    make(conn)
    todo = plan(conn, memory=256)
    note = MigrationNote("hv1", "hv2", "qemu+tls://hv2/system")
    conn.lookupByName("new1").setMetadata(2, migration_note_to_xml(note), PREFIX, NAMESPACE, 2)
    error = str(run_plans([todo], concurrency=1)[0].error)
    assert error == "machine new1 has been changed by something else since this was planned. Run it again"
    assert read_migration_note(list_domains(conn)["new1"].xml) == note
    assert list_domains(conn)["new1"].xml.findtext("memory") == str(512 * 1024)
    assert run_plans([plan(conn, memory=256)], concurrency=1)[0].error is None
    assert read_migration_note(list_domains(conn)["new1"].xml) == note


@pytest.mark.parametrize("there", [True, False])
def test_more_memory_than_the_hypervisor_has_is_refused(conn: t.Any, there: bool) -> None:
    """It would not start again."""
    if there:
        make(conn)
    with pytest.raises(ConflictError, match=r"memory: new1 needs 1048576 MiB of memory, but this hypervisor has \d+ M"):
        plan(conn, memory=1024 * 1024)
    if there:
        # It came so from a larger one, or by hand, and everything else of it can be changed.
        xml = conn.lookupByName("new1").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        conn.defineXML(xml.replace(f">{512 * 1024}</memory>", f">{1024**3}</memory>"))
        assert plan(conn, title="Web", memory=1024 * 1024).actions


def test_a_machine_that_is_being_moved_is_not_changed(conn: t.Any) -> None:
    """The target would get the old one, and the source delete what was new. What is as requested may be said."""
    make(conn)
    note = MigrationNote("hv1", "hv2", "qemu+tls://hv2/system", source_id=host_identity())
    conn.lookupByName("new1").setMetadata(2, migration_note_to_xml(note), PREFIX, NAMESPACE, 2)
    assert list(plan(conn).steps) == []
    for changes in ({"memory": 256}, {"disks": [*SPEC["disks"], {"name": "more", "size": 16}]}):
        with pytest.raises(ConflictError, match="new1 is being moved to hv2, or its move was interrupted"):
            plan(conn, **changes)
    with pytest.raises(ConflictError, match="run virt_migrate to hv2 again"):
        plan(conn, tags=["two"])


def test_a_machine_that_has_come_here_is_changed_though_its_move_is_not_finished(conn: t.Any) -> None:
    make(conn)
    note = MigrationNote("hv1", "hv2", "qemu+tls://hv2/system", source_id="another host")
    conn.lookupByName("new1").setMetadata(2, migration_note_to_xml(note), PREFIX, NAMESPACE, 2)
    assert make(conn, tags=["two"]).error is None
    assert notes_of(conn, "new1").tags == ("two",)


def test_the_same_content_under_another_name_is_the_same_image(conn: t.Any) -> None:
    make(conn)
    pool = conn.storagePoolLookupByName("images")
    twin = notes_of(conn, "new1").image
    assert twin is not None
    volume = twin.volume.replace("debian", "twin", 1)
    pool.createXML(f"<volume><name>{volume}</name><capacity>512</capacity></volume>", 0)
    assert list(plan(conn, image="twin").outdated) == []
    assert list(plan(conn, image=volume).outdated) == []


def test_another_image_is_only_said(conn: t.Any) -> None:
    make(conn)
    assert list(plan(conn, image="ubuntu").outdated) == ["image"]
    assert list(plan(conn, image="debian-0123456789abcdef.qcow2").outdated) == []


def test_another_image_of_a_disk_is_said_too(conn: t.Any) -> None:
    """The machine's own option is not the only place where its image is named."""
    make(conn)
    for image, said in (("debian", []), ("ubuntu", ["image"]), ("debain", ["image"])):
        disks = [{"name": "system", "size": "20GiB", "image": image}]
        assert list(plan(conn, image=None, disks=disks).outdated) == said


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2p2p2p2p2p2p2p2p2p2p2p2p2p2p2p2p2p2p2p2p2p"


@pytest.mark.parametrize(
    ("own", "common", "told"),
    [
        ({}, {}, False),
        # What the role gives to all machines says nothing of this one.
        ({}, {"authorized_keys": [KEY]}, False),
        ({}, {"authorized_keys": [KEY], "packages": ["vim"]}, True),
        ({"seed": {"user": "other"}}, {}, True),
    ],
)
def test_another_seed_is_said_only_where_one_is_asked_for(
    conn: t.Any, own: dict[str, t.Any], common: dict[str, t.Any], told: bool
) -> None:
    make(conn)
    spec = {key: value for key, value in SPEC.items() if key != "seed"}
    (machine,) = read_machines([{**spec, **own}], seed_defaults=common)
    (todo,) = make_plans([machine], Hypervisor(conn, image_pool="images"), "")
    assert (list(todo.steps), list(todo.outdated)) == ([], ["seed"] if told else [])


def test_another_pool_and_another_format_are_only_said(conn: t.Any) -> None:
    make(conn)
    todo = plan(conn, disks=[{"name": "system", "size": "20GiB"}, {"name": "data", "size": 64, "pool": "images"}])
    assert (list(todo.steps), list(todo.outdated)) == ([], ["disks.data.pool"])
    todo = plan(conn, disks=[{"name": "system", "size": "20GiB"}, {"name": "data", "size": 64, "format": "raw"}])
    assert (list(todo.steps), list(todo.outdated)) == ([], ["disks.data.format"])


def test_what_somebody_makes_between_plan_and_act_is_never_rolled_back(conn: t.Any) -> None:
    todo = plan(conn)
    conn.storagePoolLookupByName("default").createXML(
        "<volume><name>new1-data.qcow2</name><capacity>1</capacity></volume>"
    )
    outcome = run_plans([todo], concurrency=1)[0]
    assert "new1-data.qcow2" in str(outcome.error)
    assert {name for name in volumes(conn) if "new1" in name} == {"default/new1-data.qcow2"}
    assert "new1" not in list_domains(conn)

    todo = plan(conn, name="new2")
    conn.defineXML("<domain type='test'><name>new2</name><memory>1</memory><os><type>hvm</type></os></domain>")
    outcome = run_plans([todo], concurrency=1)[0]
    assert outcome.error is not None
    assert "new2" in list_domains(conn)
    assert not [name for name in volumes(conn) if "new2" in name]


def test_a_machine_of_ours_that_comes_between_plan_and_act_is_never_rolled_back(conn: t.Any) -> None:
    """Moved here by another run, say. Neither of the two has volumes of its own, by which they could be told apart."""
    conn.storagePoolLookupByName("default").createXML("<volume><name>live.raw</name><capacity>1</capacity></volume>")
    disk = {"name": "system", "source": "live.raw", "readonly": True}
    spec = {"disks": [disk], "image": None, "start": False}
    todo = plan(conn, **spec)
    assert make(conn, **spec, tags=["theirs"]).error is None
    theirs = conn.lookupByName("new1").UUIDString()
    assert notes_of(conn, "new1").volumes == ()
    error = str(run_plans([todo], concurrency=1)[0].error)
    assert "already exists with uuid" in error
    assert "could not be rolled back" not in error
    assert conn.lookupByName("new1").UUIDString() == theirs
    assert notes_of(conn, "new1").tags == ("theirs",)


EMPTY: dict[str, t.Any] = {"name": "new1", "vcpus": 1, "memory": 512, "seed": {"method": "none"}}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["new1"]),
        ({"disks": [{"name": "cd", "device": "cdrom"}], "boot": {"devices": ["hd", "cdrom"]}}, ["new1"]),
        ({"image": "debian"}, []),
        ({"disks": [{"name": "cd", "device": "cdrom", "source": "https://example.org/install.iso"}]}, []),
        ({"disk_profile": "none"}, []),
        ({"boot": {"devices": ["network"]}}, []),
        ({"boot": {"kernel": "/boot/vmlinuz"}}, []),
        ({"nics": [{"name": "eth0", "boot_order": 1}]}, []),
    ],
)
def test_a_new_machine_with_nothing_to_boot_from_is_named(
    conn: t.Any, options: dict[str, t.Any], expected: list[str]
) -> None:
    hypervisor = Hypervisor(conn, image_pool="images")
    assert unbootable(make_plans([read_machine({**EMPTY, **options})], hypervisor, "")) == expected
    existing = read_machine({"name": "web1", "vcpus": 1, "memory": 512})
    assert not unbootable([MachinePlan(existing, False, (), {}, {})])


def test_in_check_mode_a_machine_that_leaves_takes_no_memory(conn: t.Any) -> None:
    make(conn, start=False)
    hypervisor = Hypervisor(conn, image_pool="images")
    others = sum(int(d.xml.findtext("memory") or 0) // 1024 for n, d in hypervisor.domains.items() if n != "new1")
    decision = read_decision({"memory_mib": others + 512, "leaving": ["new1"]}, "decision")
    wanted = [read_machine({**SPEC, "name": "new2"})]
    check_still_chosen(wanted, hypervisor, decision, leaving=decision.leaving)
    with pytest.raises(ConflictError, match="512 MiB of memory are needed, 0 are free"):
        check_still_chosen(wanted, hypervisor, decision)


def test_what_a_machine_grows_by_is_counted_again(conn: t.Any) -> None:
    """Another run has taken the rest since this one was decided."""
    make(conn, start=False)
    hypervisor = Hypervisor(conn, image_pool="images")
    committed_mib = sum(int(d.xml.findtext("memory") or 0) // 1024 for d in hypervisor.domains.values())
    decision = read_decision({"memory_mib": committed_mib + 100}, "decision")
    check_still_chosen([read_machine({**SPEC, "memory": 612})], hypervisor, decision)
    check_still_chosen([read_machine({**SPEC, "memory": 300})], hypervisor, read_decision({"memory_mib": 1}, ""))
    with pytest.raises(ConflictError, match="chosen for new1: 101 MiB of memory are needed, 100 are free"):
        check_still_chosen([read_machine({**SPEC, "memory": 613})], hypervisor, decision)
    vcpus = sum(int(d.xml.findtext("vcpu") or 0) for d in hypervisor.domains.values())
    with pytest.raises(ConflictError, match="chosen for new1: 2 vCPUs are needed, 1 are free"):
        more = read_machine({**SPEC, "vcpus": SPEC["vcpus"] + 2})
        check_still_chosen([more], hypervisor, read_decision({"vcpus": vcpus + 1}, ""))


def test_a_machine_of_a_name_that_was_free_is_another_runs(conn: t.Any) -> None:
    """What is left of an unfinished run is not: the next run makes the machine of it."""
    decision = read_decision({"new": ["new1"]}, "decision")

    def taken() -> dict[str, str]:
        return machines_taken(decision, Hypervisor(conn, image_pool="images").domains)

    assert taken() == {}
    building = notes_to_element(MachineNotes(status=BUILDING))
    xml = (
        f"<domain type='test'><name>new1</name><metadata>{etree.tostring(building, encoding='unicode')}</metadata>"
        "<memory>1024</memory><os><type>hvm</type></os></domain>"
    )
    conn.defineXML(xml)
    assert taken() == {}
    conn.lookupByName("new1").undefine()
    make(conn, start=False)
    uuid = conn.lookupByName("new1").UUIDString()
    sentence = f"since this run checked, another one has created a machine of this name here: its UUID is {uuid}"
    assert taken() == {"new1": sentence}
    hypervisor = Hypervisor(conn, image_pool="images")
    (todo,) = make_plans([read_machine({**SPEC, "memory": 256})], hypervisor, "machines", gone=taken())
    assert not todo.steps and str(todo.error) == f"machines[0]: {sentence}. Run it again, to check again"
