# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seed of a machine that is there: what the new one must not lack, and when there is nothing to refresh."""

from __future__ import annotations

import typing as t
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, UnsupportedError
from ansible_collections.brine.virt.plugins.module_utils._host.machines.domains import list_domains, write_notes
from ansible_collections.brine.virt.plugins.module_utils._model.metadata.machine import (
    MachineNotes,
    SeedNote,
    VolumeNote,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.existing import Existing, read_values
from ansible_collections.brine.virt.plugins.module_utils._model.spec.reading.machines import read_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.hypervisor import Hypervisor
from ansible_collections.brine.virt.plugins.module_utils._operations.machine_plan import MachinePlan
from ansible_collections.brine.virt.plugins.module_utils._operations.machines import make_plans, run_plans
from ansible_collections.brine.virt.plugins.module_utils._seeding.nocloud import seed_digest
from ansible_collections.brine.virt.tests.unit.plugins.module_utils._operations.shared_hosts import Host

WAN = {"name": "wan", "network": "n1", "addresses": ["192.0.2.9/24"], "gateway": "192.0.2.1"}
SPEC: dict[str, t.Any] = {
    "name": "a",
    "vcpus": 1,
    "memory": 64,
    "disk_profile": "none",
    "nic_profile": "none",
    "start": False,
    "seed": {"user": "admin"},
    "seed_policy": "refresh",
    "nics": [WAN],
}


@pytest.fixture
def networked(host: Host) -> Host:
    host.conn.networkCreateXML("<network><name>n1</name><bridge name='vb1'/></network>")
    return host


def plan(host: Host, spec: dict[str, t.Any], **options: t.Any) -> MachinePlan:
    hypervisor = Hypervisor(host.conn, image_pool="images")
    domain = hypervisor.domains.get("a")
    there = Existing(read_values(domain.xml, domain.notes)) if domain else None
    return make_plans(read_machines([spec], existing=lambda _name: there, **options), hypervisor, "machines")[0]


def make(host: Host, spec: dict[str, t.Any], **options: t.Any) -> None:
    """The machine as its first run leaves it. The test driver takes no seed, so it is written here."""
    outcome = run_plans([plan(host, {**spec, "seed": {"method": "none"}})], concurrency=1)[0]
    assert outcome.error is None, str(outcome.error)
    (machine,) = read_machines([spec], **options)
    # What goes into its seed then, see steps_to_build.
    machine = replace(machine, nics=tuple(nic for nic in machine.nics if nic.present))
    handle, path = host.conn.lookupByName("a"), host.add_volume("a-seed.iso")
    seed = f"<disk type='file' device='cdrom'><source file='{path}'/><target dev='sdz' bus='sata'/></disk>"
    host.conn.defineXML(handle.XMLDesc(2).replace("</devices>", f"{seed}</devices>"))
    known = list_domains(host.conn)["a"].notes or MachineNotes()
    notes = replace(
        known,
        volumes=(*known.volumes, VolumeNote("default", path.name, "seed", format="raw")),
        seed=SeedNote("nocloud", seed_digest(machine), machine.seed.user),
    )
    write_notes(handle, notes)


LEAVES = {"name": "lan", "network": "n1", "state": "absent"}


@pytest.mark.parametrize("nics", [[WAN], [WAN, LEAVES]])
def test_a_seed_that_is_as_requested_is_left_alone(networked: Host, nics: list[dict[str, t.Any]]) -> None:
    """A nic that is to be taken out is in no seed, neither of a new machine nor of one that is there."""
    make(networked, {**SPEC, "nics": nics})
    for policy in ("refresh", "keep"):
        todo = plan(networked, {**SPEC, "nics": nics, "seed_policy": policy})
        assert (list(todo.steps), list(todo.outdated)) == ([], [])


def test_a_seed_is_refreshed(networked: Host) -> None:
    make(networked, SPEC)
    for change in ({"seed": {"user": "other"}}, {"nics": [{**WAN, "addresses": ["192.0.2.10/24"]}]}):
        assert any("write the new seed" in step.description for step in plan(networked, {**SPEC, **change}).steps)


def test_what_a_new_seed_is_built_with_has_to_be_there(
    networked: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(networked, SPEC)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match=r"^machines\[0\].seed_policy: the hypervisor has no bsdtar"):
        plan(networked, {**SPEC, "seed": {"user": "other"}})
    assert not plan(networked, SPEC).steps


ALICE, BOB = (f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{name} {name}@example" for name in ("alice", "bob"))


def test_another_person_who_runs_the_task_changes_no_seed(networked: Host) -> None:
    make(networked, SPEC, default_keys=[ALICE])
    for policy, keys in (("keep", [BOB]), ("refresh", [BOB]), ("refresh", [ALICE]), ("refresh", [])):
        todo = plan(networked, {**SPEC, "seed_policy": policy}, default_keys=keys)
        assert (list(todo.steps), list(todo.outdated)) == ([], [])
    # What somebody asks for is another thing, in the seed of the machine or in that for all.
    asked = {**SPEC, "seed": {**SPEC["seed"], "authorized_keys": [BOB]}}
    assert plan(networked, asked, default_keys=[ALICE]).steps
    assert plan(networked, SPEC, seed_defaults={"authorized_keys": [BOB]}, default_keys=[ALICE]).steps


def test_keys_that_an_earlier_version_has_in_its_hash_are_no_change(networked: Host) -> None:
    make(networked, {**SPEC, "seed": {**SPEC["seed"], "authorized_keys": [ALICE]}})
    assert not plan(networked, SPEC, default_keys=[ALICE]).steps
    assert plan(networked, SPEC, default_keys=[BOB]).steps


def test_a_new_seed_does_not_take_the_network_away(networked: Host) -> None:
    """The notes do not know what the old seed says of a nic that the task does not name."""
    make(networked, SPEC)
    spec = {key: value for key, value in SPEC.items() if key != "nics"}
    with pytest.raises(ConflictError) as caught:
        plan(networked, {**spec, "seed": {"user": "other"}})
    assert str(caught.value).startswith(
        "machines[0].seed_policy: the new seed would have no network configuration for wan, as the task does not name"
    )
    assert plan(networked, {**spec, "seed": {"user": "other", "network": {"version": 2}}}).steps


def test_a_new_seed_does_not_take_the_user_away(networked: Host) -> None:
    make(networked, SPEC)
    with pytest.raises(ConflictError, match=r"^machines\[0\].seed_policy: the task names no seed, and that of a has"):
        plan(networked, {key: value for key, value in SPEC.items() if key != "seed"})


def _addresses(host: Host) -> list[tuple[str, tuple[str, ...]]]:
    notes = list_domains(host.conn)["a"].notes or MachineNotes()
    return [(note.name, note.addresses) for note in notes.nics]


STATIC = {"name": "eth0", "network": "n1", "addresses": ["192.0.2.9/24"]}
DEFAULTS = {key: value for key, value in SPEC.items() if key not in ("nic_profile", "seed_policy")}


def test_addresses_that_nobody_names_are_remembered(networked: Host) -> None:
    """The inventory goes by them, and the guest still has them. The built-in profile has an eth0 without any."""
    make(networked, {**DEFAULTS, "nics": [STATIC]})
    bare = {key: value for key, value in DEFAULTS.items() if key not in ("nics", "seed")}
    for change in ({"memory": 64}, {"nics": [{"name": "eth0", "network": "n1"}]}):
        assert not plan(networked, {**bare, **change}).steps
    assert _addresses(networked) == [("eth0", ("192.0.2.9/24",))]
    todo = plan(networked, {**bare, "nics": [{**STATIC, "addresses": None}]})
    assert (todo.before, todo.after) == (
        {"nics": {"eth0": {"addresses": ["192.0.2.9/24"]}}},
        {"nics": {"eth0": {"addresses": []}}},
    )
    run_plans([todo], concurrency=1)
    assert _addresses(networked) == [("eth0", ())]


def test_a_new_seed_does_not_take_addresses_away(networked: Host) -> None:
    make(networked, {**DEFAULTS, "nics": [STATIC]})
    spec = {**DEFAULTS, "seed": {"user": "other"}, "seed_policy": "refresh"}
    with pytest.raises(ConflictError, match="would have no network configuration for eth0"):
        plan(networked, {key: value for key, value in spec.items() if key != "nics"})
    todo = plan(networked, {**spec, "nics": [{"name": "eth0", "network": "n1"}]})
    assert todo.before["nics"] == {"eth0": {"addresses": ["192.0.2.9/24"]}}
    assert todo.after["nics"] == {"eth0": {"addresses": []}}
