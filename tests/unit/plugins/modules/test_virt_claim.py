# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""virt_claim and what virt_init does with claims, on libvirt's test driver."""

from __future__ import annotations

import contextlib
import types
import typing as t
from collections.abc import Iterator

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.maintenance import Maintenance
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE
from ansible_collections.brine.virt.plugins.module_utils._operations.create import decision
from ansible_collections.brine.virt.plugins.modules import virt_claim, virt_init

NEW = {"name": "new1", "memory_mib": 512, "vcpus": 2}
UUID = "4a5e8c3e-6ad5-4c39-9d3b-9f1c8f3d1c55"
SPEC = {"name": "new1", "vcpus": 2, "memory": 512, "image": "debian", "disk_profile": "default"}


@pytest.fixture
def conn(node_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[t.Any]:
    """One connection for all calls: the driver forgets all when it is closed."""
    with open_connection(node_uri) as connection:
        for module in (virt_claim, virt_init):
            monkeypatch.setattr(module, "open_connection", lambda _uri: contextlib.nullcontext(connection))
            monkeypatch.setattr(module, "hypervisor_lock", lambda _purpose, **_settings: contextlib.nullcontext())
        yield connection


@pytest.fixture
def maintenance(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hypervisor is in maintenance now."""
    monkeypatch.setattr(decision, "is_local", lambda _uri: True)
    monkeypatch.setattr(decision, "read_maintenance", lambda: Maintenance("2026-11-21T10:00:00Z", "disks"))


def claim(check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    empty = {"uri": "", "machines": [], "decision": {}, "withdraw": {}, "look_for": [], "lock_timeout": 1}
    return virt_claim.work(t.cast("t.Any", types.SimpleNamespace(params={**empty, **params}, check_mode=check_mode)))


def fail(**result: t.Any) -> t.NoReturn:
    raise SystemExit(result)


def init(check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    empty = {name: argument.get("default") for name, argument in virt_init.ARGUMENTS.items()}
    module = types.SimpleNamespace(
        params={"uri": "", PROGRESS_FILE: None, **empty, **SPEC, "seed": {"method": "none"}, **params},
        check_mode=check_mode,
        warn=lambda _text: None,
        fail_json=fail,
    )
    return virt_init.work(t.cast("t.Any", module))


def test_claim_look_withdraw(conn: t.Any) -> None:
    made = claim(machines=[NEW], look_for=["new1"])
    assert (made["changed"], made["machines"]) == (True, {"new1": {"uuid": made["claims"]["new1"], "claimed": True}})
    again = claim(machines=[NEW], look_for=["new1"])
    assert again == {**made, "changed": False}
    assert claim(withdraw=made["claims"], look_for=["new1"]) == {"changed": True, "claims": {}, "machines": {}}


def test_a_claim_with_a_uuid(conn: t.Any) -> None:
    """Of a machine that is restored, which somebody else may have named."""
    old = {**NEW, "name": "old one", "uuid": UUID.upper()}
    assert claim(True, machines=[old]) == {"changed": True, "claims": {}, "machines": {}}
    made = claim(machines=[old], look_for=["old one"])
    assert (made["claims"], made["machines"]) == ({"old one": UUID}, {"old one": {"uuid": UUID, "claimed": True}})
    with pytest.raises(InputError, match=r"machines\[0\]\.uuid: 'x' is not a UUID"):
        claim(machines=[{**NEW, "uuid": "x"}])
    with pytest.raises(InputError, match=r"machines\[0\]\.name"):
        claim(machines=[{**NEW, "name": "old one"}])


def test_check_mode_claims_nothing(conn: t.Any) -> None:
    assert claim(True, machines=[NEW], look_for=["new1"]) == {"changed": True, "claims": {}, "machines": {}}
    made = claim(machines=[NEW])
    looked = claim(True, withdraw=made["claims"], look_for=["new1"])
    assert looked["machines"]["new1"]["claimed"] is True
    assert looked["changed"] is True
    assert claim(True, withdraw={"new1": "another"})["changed"] is False


def test_a_claim_becomes_the_machine(conn: t.Any) -> None:
    claims = claim(machines=[NEW])["claims"]
    assert init(claims=claims)["changed"] is True
    assert claim(look_for=["new1"])["machines"] == {"new1": {"uuid": claims["new1"], "claimed": False}}


@pytest.mark.parametrize("check_mode", [True, False])
def test_what_keeps_the_machine_from_being_made_withdraws_its_claim(conn: t.Any, check_mode: bool) -> None:
    claims = claim(machines=[NEW])["claims"]
    with pytest.raises(InputError, match="less than"):
        init(check_mode, claims=claims, disks=[{"name": "system", "size": "1MiB"}])
    assert ("new1" in list_domains(conn)) is check_mode


@pytest.mark.usefixtures("maintenance")
def test_maintenance_since_the_choice(conn: t.Any) -> None:
    with pytest.raises(ConflictError, match=r"in maintenance since 2026-11-21T10:00:00Z \(disks\).*new1"):
        claim(machines=[NEW])
    with pytest.raises(ConflictError, match="in maintenance"):
        init()
    assert "new1" not in list_domains(conn)
    # What is there already is none of maintenance's business.
    assert claim(machines=[{**NEW, "name": "web1"}])["claims"] == {}


def test_maintenance_since_the_claim(conn: t.Any, request: pytest.FixtureRequest) -> None:
    claims = claim(machines=[NEW])["claims"]
    request.getfixturevalue("maintenance")
    with pytest.raises(ConflictError, match="in maintenance"):
        init(claims=claims)
    assert "new1" not in list_domains(conn)


def test_what_the_choice_was_made_by_has_gone(conn: t.Any) -> None:
    with pytest.raises(ConflictError, match="512 MiB of memory are needed, 0 are free"):
        claim(machines=[NEW], decision={"memory_mib": 1})
    with pytest.raises(ConflictError, match="2 vCPUs are needed, 0 are free"):
        init(decision={"vcpus": 1})
    assert "new1" not in list_domains(conn)


def test_two_runs_put_no_two_of_a_group_on_one_hypervisor(conn: t.Any) -> None:
    claim(machines=[{**NEW, "anti_affinity": ["web"]}], decision={"apart": {"new1": ["web"]}})
    other, apart = {**NEW, "name": "new2", "anti_affinity": ["web"]}, {"apart": {"new2": ["web"]}}
    with pytest.raises(ConflictError, match="it has new1, of the same anti-affinity group web as new2"):
        claim(machines=[other], decision=apart)
    # A single task with one hypervisor claims nothing.
    with pytest.raises(ConflictError, match="it has new1, of the same anti-affinity group web as new2"):
        init(name="new2", anti_affinity=["web"], decision=apart)
    assert claim(look_for=["new2"])["machines"] == {}
    assert list(claim(machines=[other], decision={})["claims"]) == ["new2"]


def test_a_shared_pool_has_space_for_all_hypervisors_of_the_run_before_any_of_them_creates_machines(
    conn: t.Any,
) -> None:
    """Afterwards some of it may be taken by what the run has created on the others meanwhile."""
    decision = {"pools_mib": {"default": 1}, "shared_pools_mib": {"default": 9_000_000_000}}
    for ask in (lambda: claim(machines=[NEW], decision=decision), lambda: init(True, decision=decision)):
        with pytest.raises(ConflictError, match="9000000000 MiB are needed in pool default by this run, on all"):
            ask()
    assert "new1" not in list_domains(conn)
    assert init(decision=decision)["changed"] is True


WEB1 = {"name": "web1", "vcpus": 4, "memory": 4096, "image": None, "disk_profile": None, "nic_profile": None}
WEB1_UUID = "7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11"


def init_two(check_mode: bool, found: dict[str, t.Any]) -> tuple[str, list[dict[str, t.Any]]]:
    """A new machine and one that was found when the run looked: how the task fails, and what became of each."""
    machines = [WEB1, SPEC]
    with pytest.raises(SystemExit) as caught:
        init(check_mode, name=None, machines=machines, places=["vms[1]", "vms[4]"], decision={"machines": found})
    failure = t.cast("dict[str, t.Any]", caught.value.code)
    return failure["msg"], failure["machines"]


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_machine_that_was_moved_since_the_run_looked_is_not_made_again(conn: t.Any, check_mode: bool) -> None:
    moved = conn.lookupByName("web1")
    moved.destroy()
    moved.undefine()
    said, (web1, new1) = init_two(check_mode, {"web1": WEB1_UUID})
    assert said.startswith(
        "web1: vms[1]: it was on this hypervisor when this run checked, and has since been moved or undefined. "
        "Run it again, to check again. Succeeded: new1"
    )
    assert (web1["failed"], web1["changed"], web1["created"], web1["actions"]) == (True, False, False, [])
    # What is asked of an existing machine is no mistake in a request for a new one: the others go on.
    assert (new1["failed"], new1["created"]) == (False, True)
    assert set(list_domains(conn)) == {"db1", "half"} | (set() if check_mode else {"new1"})


def test_another_machine_of_its_name_is_not_the_one_that_was_found(conn: t.Any) -> None:
    other = "00000000-0000-4000-8000-00000000abcd"
    before = conn.lookupByName("web1").XMLDesc()
    said, (web1, _new1) = init_two(False, {"web1": other})
    assert said.startswith(
        f"web1: vms[1]: since this run checked, another machine has this name here: its UUID is {WEB1_UUID}, it was "
        f"{other}. Run it again, to check again"
    )
    assert web1["failed"] is True
    assert conn.lookupByName("web1").XMLDesc() == before


def test_a_machine_that_is_where_it_was_found_goes_on(conn: t.Any) -> None:
    for found in (WEB1_UUID, None):
        decision = {"machines": {"web1": found}}
        assert init(False, **WEB1, decision=decision)["machines"][0]["created"] is False


@pytest.mark.parametrize(
    ("machines", "message"),
    [
        ([NEW, NEW], "machines[1].name: 'new1' is given twice. Name each machine once"),
        (
            [{**NEW, "memory_mib": -5}],
            "machines[0].memory_mib: -5 is not allowed. Give a whole number from 1 to 9007199254740992",
        ),
        ([NEW, {**NEW, "name": "b", "vcpus": 0}], "machines[1].vcpus: 0 is not allowed. Give a whole number from 1 "),
    ],
)
def test_what_cannot_be_claimed(conn: t.Any, machines: list[dict[str, t.Any]], message: str) -> None:
    with pytest.raises(InputError) as caught:
        claim(machines=machines)
    assert str(caught.value).startswith(message)
    assert "new1" not in list_domains(conn)


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "127.0.0.1", "all"])
def test_names_that_mean_something_else(conn: t.Any, name: str) -> None:
    with pytest.raises(InputError, match=r"machines\[0\].name: .* Choose another name"):
        claim(machines=[{**NEW, "name": name}])
    with pytest.raises(InputError, match=r"^name: .* Choose another name"):
        init(name=name)
