# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a provision, where machines become hosts of the inventory: tasks_from add_hosts, and what is pinged."""

from __future__ import annotations

import json
import sys
import time
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible
from ansible_collections.brine.virt.tests.unit.roles.provision.test_provision_role import OLD_NODE

# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow
PLAYBOOK = Path(__file__).resolve().parents[4] / "playbooks" / "provision.yml"
# Where no Python is named, Ansible looks for one itself.
PYTHON = f"ansible_python_interpreter={sys.executable}"
OURS, OTHER = "7f2a4a4e-5d0b-4b0e-9f3e-0d6d8a4d2f11", "80000000-5d0b-4b0e-9f3e-0d6d8a4d2f11"


@pytest.fixture(autouse=True)
def _users_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible's own defaults, not those that ansible-test sets."""
    for name in ("CONFIG", "HOST_KEY_CHECKING", "HOST_PATTERN_MISMATCH", "PYTHON_INTERPRETER", "PIPELINING"):
        monkeypatch.delenv(f"ANSIBLE_{name}", raising=False)


def ansible(directory: Path, inventory: t.Any, plays: list[t.Any], *options: str, python: str | None = PYTHON) -> str:
    """What a playbook of these plays prints. python: a variable that outranks all others."""
    (directory / "hosts.yml").write_text(json.dumps(inventory))
    (directory / "play.yml").write_text(json.dumps(plays))
    words = ("-e", python) if python else ()
    done = run_ansible(directory, "-i", "hosts.yml", "play.yml", *words, *options)
    assert "PLAY RECAP" in done.stdout, done.stdout + done.stderr
    return done.stdout + done.stderr


def listed(name: str, uuid: str, hypervisor: str) -> dict[str, str]:
    return {"virt_name": name, "virt_uuid": uuid, "virt_hypervisor": hypervisor}


def made(name: str, **more: t.Any) -> dict[str, t.Any]:
    """What a hypervisor says of a machine that it has made."""
    return {"name": name, "uuid": OURS, "state": "running", "address": "192.0.2.7", "host_keys": [], **more}


def hypervisor(*records: dict[str, t.Any], home: str = "hv1") -> dict[str, t.Any]:
    """The variables of the hypervisor, after its part of a provision."""
    plan = {"assignments": [{"name": record["name"], "hypervisor": home} for record in records]}
    return {"virt_provision_made": list(records), "virt_provision_plan": plan}


ADD_HOSTS = {
    "hosts": "localhost",
    "connection": "local",
    "gather_facts": False,
    "tasks": [{"ansible.builtin.include_role": {"name": "brine.virt.virt_provision", "tasks_from": "add_hosts"}}],
}
SAY = {
    "hosts": "virt_provisioned",
    "gather_facts": False,
    "tasks": [{"ansible.builtin.debug": {"msg": "{{ inventory_hostname }} at {{ ansible_host | default('-') }}."}}],
}


def test_a_machine_is_addressed_as_the_inventory_lists_it(tmp_path: Path) -> None:
    inventory = {
        "hypervisors": {"hosts": {"hv1": hypervisor(made("web1"))}},
        "virt_machines": {
            "hosts": {
                "web1_hv1": {**listed("web1", OURS, "hv1"), "ansible_host": "192.0.2.7"},
                "web1_hv9": {**listed("web1", OTHER, "hv9"), "ansible_host": "192.0.2.99"},
            }
        },
    }
    output = ansible(tmp_path, inventory, [ADD_HOSTS, SAY])
    assert '"msg": "web1_hv1 at 192.0.2.7."' in output
    assert output.count('"msg"') == 1


def test_a_host_that_only_has_the_name_stays_what_it_is(tmp_path: Path) -> None:
    inventory = {
        "hypervisors": {"hosts": {"hv1": hypervisor(made("hv1", nics=[], host_keys=["ssh-ed25519 AAAA"]))}},
    }
    output = ansible(tmp_path, inventory, [ADD_HOSTS, SAY])
    assert '"msg": "hv1_hv1 at 192.0.2.7."' in output
    assert output.count('"msg"') == 1
    assert (
        f"virt-{OURS} ssh-ed25519 AAAA brine.virt:hv1 hv1"
        in (tmp_path / ".ssh" / "known_hosts.d" / "brine-virt").read_text()
    )


def test_where_a_machine_is_stays_known_without_a_live_inventory(tmp_path: Path) -> None:
    """With host keys or not: the file is asked when its hypervisor is not in the inventory.

    The key that another hypervisor was known to have it with stays, without its name.
    """
    known_hosts = tmp_path / ".ssh" / "known_hosts.d" / "brine-virt"
    known_hosts.parent.mkdir(parents=True)
    old = f"# virt-{OTHER} brine.virt:hv1 old1\n"
    known_hosts.write_text(f"{old}virt-{OURS} ssh-ed25519 AAAA brine.virt:hv9 web1\n")
    inventory = {"hypervisors": {"hosts": {"hv1": hypervisor(made("web1", nics=[], vcpus=1))}}}
    output = ansible(tmp_path, inventory, [ADD_HOSTS], "--check")
    assert "brine.virt:hv9 web1" in known_hosts.read_text(), output
    for changed in (1, 0):
        output = ansible(tmp_path, inventory, [ADD_HOSTS])
        key = f"virt-{OURS} ssh-ed25519 AAAA brine.virt:hv9\n"
        assert known_hosts.read_text() == f"{old}{key}# virt-{OURS} brine.virt:hv1 web1\n", output
        assert f"changed={changed} " in output


def test_where_a_new_machine_was_seen_before_is_forgotten(tmp_path: Path) -> None:
    """The user has said that it is not there. Of one that was there before nothing is said."""
    known_hosts = tmp_path / "keys"
    known = [f"# virt-{OTHER} brine.virt:hv9 {name}" for name in ("web1", "web2")]
    known_hosts.write_text("".join(f"{line}\n" for line in known))
    variables = hypervisor(made("web1", nics=[], vcpus=1), made("web2", uuid=OTHER.replace("8", "9"), nics=[], vcpus=1))
    variables["virt_provision_plan"]["new_by_host"] = {"hv1": [{"name": "web1"}]}
    inventory = {"hypervisors": {"hosts": {"hv1": variables}}, "all": {"vars": {"virt_known_hosts": str(known_hosts)}}}
    output = ansible(tmp_path, inventory, [ADD_HOSTS], "--check")
    assert known_hosts.read_text().splitlines() == known, output
    output = ansible(tmp_path, inventory, [ADD_HOSTS])
    found = known_hosts.read_text().splitlines()
    assert known[0] not in found and known[1] in found, output


PROVISION = {
    "hosts": "hypervisors",
    "gather_facts": False,
    "module_defaults": {"group/brine.virt.virt": {"uri": "{{ uri }}"}},
    "tasks": [{"ansible.builtin.include_role": {"name": "brine.virt.virt_provision"}}],
}


def of_one_group(directory: Path, **variables: t.Any) -> dict[str, t.Any]:
    """Two hypervisors, the first one with a machine of ours. variables: those of their group."""
    for name, node in (("hv1", OLD_NODE), ("hv2", "<node><memory>16777216</memory></node>")):
        (directory / f"{name}.xml").write_text(node, encoding="utf-8")
    vms = [{"name": "old", "state": "present", "disk_profile": None, "nic_profile": None}]
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {name: {"uri": f"test://{directory}/{name}.xml"} for name in ("hv1", "hv2")}
    more = {"virt_vms": vms, "virt_seed": {"method": "none"}, **variables}
    return {"hypervisors": {"hosts": hosts, "vars": {**here, **more}}, "all": {"vars": {"virt_known_hosts": "other"}}}


def test_what_is_said_for_the_hypervisors_counts_on_the_controller(tmp_path: Path) -> None:
    """Which is in none of their groups, and has what is said for all hosts."""
    keys = tmp_path / "keys"
    inventory = of_one_group(tmp_path, virt_known_hosts=str(keys), virt_provision_wait=False)
    output = ansible(tmp_path, inventory, [PROVISION, ADD_HOSTS, SAY])
    assert keys.read_text() == "# virt-00000000-0000-4000-8000-000000000002 brine.virt:hv1 old\n", output
    assert not (tmp_path / "other").exists() and not (tmp_path / ".ssh").exists()
    assert '"msg": "old at ' not in output, output


@pytest.mark.parametrize("trusted", [False, True])
def test_so_does_whether_addresses_that_guests_claim_are_trusted(tmp_path: Path, trusted: bool) -> None:
    claims = made("web1", address_source="agent", nics=[], vcpus=1)
    said = {"virt_provision_for_machines": {"trust_guest_addresses": trusted, "wait": True}}
    inventory = {"hypervisors": {"hosts": {"hv1": {**hypervisor(claims), **said}}}}
    output = ansible(tmp_path, inventory, [ADD_HOSTS, SAY])
    assert f'"msg": "web1 at {"192.0.2.7" if trusted else "web1"}."' in output, output


def test_two_files_of_host_keys_are_refused(tmp_path: Path) -> None:
    inventory = of_one_group(tmp_path, virt_known_hosts="keys")
    inventory["hypervisors"]["hosts"]["hv2"]["virt_known_hosts"] = "others"
    output = ansible(tmp_path, inventory, [PROVISION])
    assert "virt_known_hosts: not the same on all hypervisors: hv2 has another value than hv1. Set it in one" in output


@pytest.mark.parametrize("source", ["ansible.cfg", "variable"])
def test_ssh_finds_the_host_keys_whatever_the_users_arguments_are(tmp_path: Path, source: str) -> None:
    users = "-o UserKnownHostsFile=/dev/null"
    inventory: dict[str, t.Any] = {
        "hypervisors": {"hosts": {"hv1": hypervisor(made("web1", nics=[], host_keys=["ssh-ed25519 AAAA"]))}},
    }
    if source == "variable":
        inventory["all"] = {"vars": {"ansible_ssh_args": users}}
    else:
        (tmp_path / "ansible.cfg").write_text(f"[ssh_connection]\nssh_args = {users}\n")
    write_line = {**SAY, "tasks": [{"ansible.builtin.debug": {"msg": "{{ ansible_ssh_args | default('-') }}."}}]}
    output = ansible(tmp_path, inventory, [ADD_HOSTS, write_line])
    known_hosts = tmp_path / ".ssh" / "known_hosts.d" / "brine-virt"
    assert f"UserKnownHostsFile={known_hosts} -o StrictHostKeyChecking=yes {users}." in output


def one_cloud() -> dict[str, t.Any]:
    """Two machines that Ansible reaches without SSH, one of them failed."""
    here = {"ansible_connection": "local"}
    machine = made("web1")
    failed = [{"name": "late1", "ready": False}]
    return {
        "hypervisors": {
            "hosts": {
                "hv1": {
                    **hypervisor(machine, made("late1", uuid=OTHER)),
                    "virt_provision_failed": failed,
                    "virt_provision_failure": "late1 was not reachable",
                },
                "hv2": {},
            }
        },
        "virt_machines": {
            "hosts": {
                "web1_hv1": {**listed("web1", OURS, "hv1"), **here},
                "late1": {**listed("late1", OTHER, "hv1"), **here},
            }
        },
    }


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_the_good_ones_are_pinged_and_the_failed_one_is_named_last(tmp_path: Path, check: tuple[str, ...]) -> None:
    plays = yaml.safe_load(PLAYBOOK.read_text())[2:]
    output = ansible(tmp_path, one_cloud(), plays, *check)
    assert "web1_hv1                   : ok=1 " in output
    assert "skipping: [web1_hv1]" not in output
    assert "late1    " not in output
    assert output.rindex("late1 was not reachable") > output.rindex("PLAY [Report what became of the machines]")
    assert "hv1                        : ok=2    changed=0    unreachable=0    failed=1 " in output
    assert "hv2                        : ok=1    changed=0    unreachable=0    failed=0 " in output
    assert "Not pinged" not in output


@pytest.mark.parametrize("level", ["group", "host"])
def test_a_machine_is_pinged_as_its_variables_say(tmp_path: Path, level: str) -> None:
    """With the Python that they name, and over as many sessions."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$1" >>{tmp_path}/used\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    users = {"ansible_python_interpreter": str(python), "ansible_pipelining": False}
    machine = {**listed("web1", OURS, "hv1"), "ansible_connection": "local", **(users if level == "host" else {})}
    group = {"hosts": {"web1": machine}, "vars": users if level == "group" else {}}
    inventory = {"hypervisors": {"hosts": {"hv1": hypervisor(made("web1"))}}, "virt_machines": group}
    plays = yaml.safe_load(PLAYBOOK.read_text())[2:]
    output = ansible(tmp_path, inventory, plays, "--check", python=None)
    assert "web1                       : ok=1 " in output, output
    # Without pipelining, what it runs is a file.
    assert (tmp_path / "used").read_text().endswith("AnsiballZ_ping.py\n")


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_one_that_does_not_answer_is_named_in_the_report(tmp_path: Path, check: tuple[str, ...]) -> None:
    """Though no other one is pinged, after which Ansible would end. Check mode does not wait for it."""
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho ansible@127.0.0.1: Permission denied '(publickey)'. >&2\nexit 255\n")
    ssh.chmod(0o700)
    inventory = one_cloud()
    away = {"ansible_connection": "ssh", "ansible_ssh_executable": str(ssh)}
    inventory["virt_machines"]["hosts"]["web1_hv1"].update(away)
    # Of the hypervisors: the machine has no such variable itself.
    inventory["hypervisors"]["vars"] = {"virt_provision_timeout": 3}
    begun = time.monotonic()
    plays = yaml.safe_load(PLAYBOOK.read_text())[2:]
    output = ansible(tmp_path, inventory, plays, *check)
    assert time.monotonic() - begun < 100
    machine = "web1_hv1                   : ok=0    changed=0    unreachable=0    failed=0    skipped=0    rescued=1 "
    assert machine in output
    report = output[output.index("PLAY [Report what became of the machines]") :]
    assert "web1 does not answer Ansible: " in report and "Permission denied (publickey)" in report
    assert "hv1                        : ok=2    changed=0    unreachable=0    failed=1 " in report


def test_a_machine_of_which_no_python_is_named_is_pinged_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where no shim of a Python manager is found, which needs its own HOME.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    machine = {**listed("web1", OURS, "hv1"), "ansible_connection": "local"}
    inventory = {
        "hypervisors": {"hosts": {"hv1": hypervisor(made("web1"))}},
        "virt_machines": {"hosts": {"web1": machine}},
    }
    output = ansible(tmp_path, inventory, yaml.safe_load(PLAYBOOK.read_text())[2:], "--check", python=None)
    assert "web1                       : ok=1 " in output, output
    assert "interpreter" not in output


@pytest.mark.parametrize(
    ("limit", "check"), [("hv1", ()), ("hv1,localhost", ("--check",)), ("hv1,web1_hv1", ("--check",))]
)
def test_what_a_limit_keeps_from_being_pinged_is_said_with_what_helps(
    tmp_path: Path, limit: str, check: tuple[str, ...]
) -> None:
    plays = yaml.safe_load(PLAYBOOK.read_text())[2:]
    output = ansible(tmp_path, one_cloud(), plays, "--limit", limit, *check)
    helps = f"{limit},localhost,virt_provisioned"
    words = f"Not pinged, for --limit leaves them out: web1_hv1. To have them pinged as well: --limit {helps}\n"
    assert output.count(words) == 1, output
    output = ansible(tmp_path, one_cloud(), plays, "--limit", helps, *check)
    assert "web1_hv1                   : ok=1 " in output
    assert "Not pinged" not in output
