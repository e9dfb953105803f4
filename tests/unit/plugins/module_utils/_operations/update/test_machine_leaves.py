# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is moved away while a task changes it is not defined here again; on libvirt's test driver."""

from __future__ import annotations

import dataclasses
import threading
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, HostError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import libvirt, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.machines import redefine
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machine
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans, run_plans
from ansible_collections.brine.virt.plugins.module_utils._operations.plan import Step

SPEC: dict[str, t.Any] = {
    "name": "new1",
    "vcpus": 2,
    "memory": 512,
    "disks": [{"name": "system", "size": 64}],
    "seed": {"method": "none"},
}
CHANGE: dict[str, t.Any] = {
    "memory": 256,
    "tags": ["moved"],
    "disks": [*SPEC["disks"], {"name": "more", "size": "1MiB"}],
}
LEFT = (
    "machine new1 is no longer on this hypervisor: it was moved or undefined in the meantime. It was not defined "
    "here again. Look for it on the other hypervisors, and run this again there"
)


class Leaving:
    """A connection on which the machine leaves right before it is defined, when nobody can ask any more."""

    def __init__(self, conn: t.Any, leaves_at: int) -> None:
        self._conn = conn
        self._left = leaves_at

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._conn, name)

    def defineXMLFlags(self, xml: str, flags: int) -> t.Any:  # noqa: N802 - libvirt's own name
        self._left -= 1
        if self._left == 0:
            leave(self._conn)
        return self._conn.defineXMLFlags(xml, flags)


class Refusing:
    """A connection on which nothing can be defined."""

    def __init__(self, conn: t.Any) -> None:
        self._conn = conn
        self.defined = 0

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._conn, name)

    def defineXMLFlags(self, _xml: str, _flags: int) -> t.Any:  # noqa: N802 - libvirt's own name
        self.defined += 1
        error = libvirt.libvirtError("no")
        error.err = (libvirt.VIR_ERR_INTERNAL_ERROR, 0, "no", 2, "", "", "", 0, 0)
        raise error


class Silent:
    """A connection over which no event comes, and on which the machine leaves right before it is defined."""

    def __init__(self, conn: t.Any) -> None:
        self._conn = conn

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._conn, name)

    def domainEventRegisterAny(self, *_words: t.Any) -> int:  # noqa: N802 - libvirt's own name
        return 1

    def domainEventDeregisterAny(self, _number: int) -> None:  # noqa: N802 - libvirt's own name
        pass

    def defineXMLFlags(self, xml: str, flags: int) -> t.Any:  # noqa: N802 - libvirt's own name
        leave(self._conn)
        return self._conn.defineXMLFlags(xml, flags)


class Together:
    """A connection on which two machines are defined at the same time."""

    def __init__(self, conn: t.Any) -> None:
        self._conn = conn
        self._meeting = threading.Barrier(2)

    def __getattr__(self, name: str) -> t.Any:
        return getattr(self._conn, name)

    def defineXMLFlags(self, xml: str, flags: int) -> t.Any:  # noqa: N802 - libvirt's own name
        self._meeting.wait(timeout=300)
        return self._conn.defineXMLFlags(xml, flags)


@pytest.fixture
def conn(node_uri: str) -> Iterator[t.Any]:
    """A hypervisor with the machine new1, which is off."""
    with open_connection(node_uri) as connection:
        assert run_plans([plan(connection)], concurrency=1)[0].error is None
        yield connection


def plan(conn: t.Any, **changes: t.Any) -> MachinePlan:
    """A plan from what is true now."""
    spec = {**SPEC, "start": False, **changes}
    return make_plans([read_machine(spec)], Hypervisor(conn, image_pool="images"), "")[0]


def leave(conn: t.Any) -> None:
    """What a move does at its end."""
    machine = conn.lookupByName("new1")
    if machine.isActive():
        machine.destroy()
    machine.undefine()


def carried_out(todo: MachinePlan, steps: list[Step]) -> str:
    return str(run_plans([dataclasses.replace(todo, steps=steps)], concurrency=1)[0].error)


def index_of(todo: MachinePlan, words: str) -> int:
    return next(index for index, step in enumerate(todo.steps) if words in step.description)


def volumes(conn: t.Any) -> set[str]:
    return {name for name in conn.storagePoolLookupByName("default").listVolumes() if name.startswith("new1")}


@pytest.mark.parametrize("running", [False, True])
def test_taking_back_does_not_define_it_again(conn: t.Any, running: bool) -> None:
    """The move has ended while the task waited to attach a device, which then fails."""
    if running:
        conn.lookupByName("new1").create()
    todo = plan(conn, memory=256)
    at = index_of(todo, "change the definition") + 1

    def fail() -> None:
        leave(conn)
        raise HostError("cannot attach nic eth1: Domain not found")

    error = carried_out(todo, [*todo.steps[:at], Step("attach nic eth1", fail)])
    assert "new1" not in list_domains(conn)
    assert "could not be rolled back: change the definition of new1: memory" in error
    assert LEFT in error


def test_it_is_said_in_one_sentence_whatever_fails(conn: t.Any) -> None:
    todo = plan(conn, memory=256, tags=["moved"])
    at = index_of(todo, "set tags")
    steps = [*todo.steps[:at], Step("the machine leaves", lambda: leave(conn)), *todo.steps[at:]]
    assert carried_out(todo, steps) == LEFT
    assert "new1" not in list_domains(conn)


def test_the_change_itself_does_not_define_it_again(conn: t.Any) -> None:
    todo = plan(conn, memory=256)
    leave(conn)
    assert carried_out(todo, list(todo.steps)) == LEFT
    assert "new1" not in list_domains(conn)


def test_one_that_leaves_between_the_question_and_the_definition_is_rolled_back(conn: t.Any) -> None:
    todo = plan(t.cast(t.Any, Leaving(conn, 1)), memory=256)
    assert carried_out(todo, list(todo.steps)) == LEFT
    assert "new1" not in list_domains(conn)


def test_where_libvirt_does_not_tell_whether_it_was_still_there_it_is_said(
    conn: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events do not come. Nobody knows whether the machine exists on two hypervisors now."""
    monkeypatch.setattr(redefine, "_EVENT_SECONDS", 0.1)
    todo = plan(t.cast(t.Any, Silent(conn)), memory=256)
    error = carried_out(todo, list(todo.steps))
    assert error.startswith(
        "it is unknown whether machine new1 was still on this hypervisor when it was defined here, as libvirt did "
        "not report it. Check whether another hypervisor has it too; if so: virsh undefine new1 here"
    )


def test_the_same_while_a_failure_is_rolled_back(conn: t.Any) -> None:
    todo = plan(t.cast(t.Any, Leaving(conn, 2)), memory=256)

    def fail() -> None:
        raise HostError("no")

    error = carried_out(todo, [*todo.steps[: index_of(todo, "change the definition") + 1], Step("fail", fail)])
    assert error == f"no. In addition, this could not be rolled back: change the definition of new1: memory ({LEFT})"
    assert "new1" not in list_domains(conn)


def test_a_machine_that_only_runs_until_it_stops_is_not_put_defined_again(conn: t.Any) -> None:
    todo = plan(conn, memory=256)
    machine = conn.lookupByName("new1")
    machine.create()
    machine.undefine()
    assert carried_out(todo, list(todo.steps)) == LEFT
    assert not conn.lookupByName("new1").isPersistent()


def test_a_machine_that_was_undefined_while_it_ran_is_said_before_anything_is_planned(conn: t.Any) -> None:
    machine = conn.lookupByName("new1")
    machine.create()
    machine.undefine()
    assert not plan(conn).steps
    with pytest.raises(ConflictError, match="name: new1 is running but not defined here, so it is lost when it stops"):
        plan(conn, tags=["more"])


def test_a_new_disk_stays_for_a_machine_that_may_have_taken_it_along(conn: t.Any) -> None:
    todo = plan(conn, **CHANGE)
    at = index_of(todo, "change the definition")
    steps = [*todo.steps[:at], Step("the machine leaves", lambda: leave(conn)), *todo.steps[at:]]
    error = carried_out(todo, steps)
    assert error.startswith(f"{LEFT}. In addition, this could not be rolled back: create empty disk more")
    assert "volume new1-more.qcow2 of pool default is kept, as machine new1 may still use it elsewhere" in error
    assert "If it does not: virsh vol-delete new1-more.qcow2 --pool default" in error
    assert "new1-more.qcow2" in volumes(conn)
    assert "new1" not in list_domains(conn)


def test_a_machine_that_stays_is_changed_and_rolled_back_as_ever(conn: t.Any) -> None:
    todo = plan(conn, **CHANGE)
    at = index_of(todo, "change the definition") + 1

    def fail() -> None:
        assert list_domains(conn)["new1"].xml.findtext("memory") == str(256 * 1024)
        raise HostError("no")

    assert carried_out(todo, [*todo.steps[:at], Step("fail", fail)]) == "no"
    assert list_domains(conn)["new1"].xml.findtext("memory") == str(512 * 1024)
    assert volumes(conn) == {"new1-system.qcow2"}


@pytest.mark.parametrize("whose", ["somebody", "a move"])
def test_what_others_have_changed_since_is_not_rolled_back_with_it(conn: t.Any, whose: str) -> None:
    """A snapshot has given the machine another file, say: with the former one, it would lose all that is written to it
    from then on."""
    todo = plan(conn, memory=256)
    at = index_of(todo, "change the definition") + 1

    def fail() -> None:
        machine = conn.lookupByName("new1")
        if whose == "somebody":
            conn.defineXML(machine.XMLDesc(2).replace("new1-system.qcow2", "new1-system.snapshot"))
        else:
            machine.setMetadata(2, "<move source='hv1' target='hv2'/>", "brinemove", "urn:brine:virt:move:1", 2)
        raise HostError("no")

    error = carried_out(todo, [*todo.steps[:at], Step("fail", fail)])
    assert error == (
        "no. In addition, this could not be rolled back: change the definition of new1: memory (machine new1 has "
        "been changed by "
        "something else since then, and is left as it is now. virsh dumpxml --inactive new1 shows it)"
    )
    record = list_domains(conn)["new1"].xml
    assert record.findtext("memory") == str(256 * 1024)
    if whose == "somebody":
        assert record.find("devices/disk/source").get("file").endswith("new1-system.snapshot")
    else:
        assert record.find("metadata/{urn:brine:virt:move:1}move") is not None


def test_a_description_that_was_refused_is_not_set_back(conn: t.Any) -> None:
    """Nothing was changed, and nothing is to be rolled back."""
    refusing = Refusing(conn)
    todo = plan(t.cast(t.Any, refusing), memory=256)
    assert carried_out(todo, list(todo.steps)) == "cannot define machine new1: no"
    assert refusing.defined == 1


def test_several_machines_change_at_once(conn: t.Any) -> None:
    second = {**SPEC, "name": "new2", "start": False}
    made = run_plans(make_plans([read_machine(second)], Hypervisor(conn, image_pool="images"), ""), concurrency=1)
    assert made[0].error is None
    specs = [read_machine({**SPEC, "name": name, "start": False, "memory": 256}) for name in ("new1", "new2")]
    plans = make_plans(specs, Hypervisor(Together(conn), image_pool="images"), "")
    assert [outcome.error for outcome in run_plans(plans, concurrency=2)] == [None, None]
