# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks where there is nothing to work on yet: hosts without libvirt, and inventories without hypervisors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow
PLAYBOOKS = sorted(path.stem for path in (Path(__file__).resolve().parents[3] / "playbooks").glob("*.yml"))


def play(
    directory: Path, playbook: str, inventory: dict[str, t.Any], *options: str
) -> subprocess.CompletedProcess[str]:
    """Run a playbook of the collection, or one in a file, with an inventory."""
    (directory / "hosts.yml").write_text(json.dumps(inventory))
    name = playbook if "/" in playbook else f"brine.virt.{playbook}"
    return run_ansible(directory, "-i", "hosts.yml", name, "-e", '{"ansible_become": false}', *options)


def bare_host(directory: Path) -> dict[str, t.Any]:
    """The variables of a host without libvirt: a Python without its site-packages is one as there."""
    python = directory / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o700)
    return {"ansible_connection": "local", "ansible_python_interpreter": str(python)}


@pytest.mark.parametrize("playbook", ["list", "query", "host_info", "maintenance"])
def test_a_host_without_libvirt_is_said_once_with_what_to_do(tmp_path: Path, playbook: str) -> None:
    done = play(tmp_path, playbook, {"hypervisors": {"hosts": {"hv1": bare_host(tmp_path)}}})
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "libvirt" in line]
    (sentence,) = said
    assert sentence.startswith("hv1: libvirt-python is not installed for "), done.stdout
    assert sentence.endswith(
        "(package python3-libvirt, on SUSE python3-libvirt-python): run brine.virt.hypervisors first"
    )
    assert "Failed to import" not in done.stdout + done.stderr
    assert (done.returncode == 0) is (playbook == "maintenance")


def test_provision_says_of_each_bare_host_once_what_to_do(tmp_path: Path) -> None:
    bare = bare_host(tmp_path)
    vms = {"virt_vms": [{"name": name, "vcpus": 1, "memory": 128} for name in ("web1", "web2")]}
    hosts = {"hypervisors": {"hosts": {"hv1": bare, "hv2": bare}}}
    done = play(tmp_path, "provision", hosts, "-e", json.dumps(vms))
    output = done.stdout + done.stderr
    said = [line.strip() for line in output.splitlines() if "libvirt" in line]
    assert [line.partition(" (package")[0] for line in said] == [
        f"{name} is left out: libvirt-python is not installed for {sys.executable}" for name in ("hv1", "hv2")
    ], output
    assert all(line.endswith("run brine.virt.hypervisors first") for line in said)
    assert "ignoring" not in output
    assert output.count("fatal: ") == 1
    assert '"msg": "No hypervisor answered."' in output
    assert "PLAY [Add the machines to the inventory]" not in output
    assert done.returncode == 2


def test_balance_does_not_end_well_when_it_could_look_at_no_hypervisor(tmp_path: Path) -> None:
    done = play(tmp_path, "balance", {"hypervisors": {"hosts": {"hv1": bare_host(tmp_path)}}})
    assert done.stdout.count("libvirt-python is not installed") == 1
    assert '"msg": "No hypervisor answered."' in done.stdout
    assert done.returncode == 2


def test_check_mode_says_on_a_bare_host_who_would_be_as_good_as_root(tmp_path: Path) -> None:
    """A package that no host has makes it a bare one."""
    here = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
    role = {
        "hosts": "hv1",
        "gather_facts": False,
        "vars": {"virt_hypervisor_users": ["nobody"], "virt_hypervisor_extra_packages": ["brine-virt-no-package"]},
        "roles": ["brine.virt.virt_hypervisor"],
    }
    (tmp_path / "play.yml").write_text(json.dumps([role]))
    done = play(tmp_path, str(tmp_path / "play.yml"), {"all": {"hosts": {"hv1": here}}}, "--check")
    output = " ".join((done.stdout + done.stderr).split())
    assert "Would install" in output
    assert "brine-virt-no-package" in output
    assert "Would add nobody to the group libvirt, whose members can do on hv1 what root can" in output
    assert done.returncode == 0, output


def test_maintenance_has_no_heading_that_its_lines_contradict(tmp_path: Path) -> None:
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    done = play(tmp_path, "maintenance", {"hypervisors": {"hosts": {"hv1": here}}})
    assert "\nMaintenance:\n  hv1: " in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_tags_that_no_task_has_are_refused(tmp_path: Path, playbook: str) -> None:
    done = play(tmp_path, playbook, {"hypervisors": {"hosts": {"hv1": {}}}}, "--tags", "tls,bridges")
    output = " ".join((done.stdout + done.stderr).split())
    assert "With --tags bridges,tls nothing of this playbook would run: its tasks have no tags." in output
    assert done.returncode == 2


def test_the_tag_of_an_imported_playbook_is_one_of_its_tasks(tmp_path: Path) -> None:
    site = [{"import_playbook": "brine.virt.list", "tags": ["vms"]}]
    (tmp_path / "site.yml").write_text(json.dumps(site))
    hosts = {"hypervisors": {"hosts": {"hv1": bare_host(tmp_path)}}}
    done = play(tmp_path, str(tmp_path / "site.yml"), hosts, "--tags", "vms")
    assert "libvirt-python is not installed" in done.stdout + done.stderr
    assert "nothing of this playbook" not in done.stdout + done.stderr


MACHINE = {"ansible_connection": "local"}
NOBODY = (
    "The inventory has no hosts in the group hypervisors. Name them there (-i hosts.yml), or say which hosts they are "
    "with -e virt_hypervisors=PATTERN"
)


@pytest.mark.parametrize(
    ("playbook", "inventory", "options", "sentence"),
    [
        *((playbook, {}, (), NOBODY) for playbook in PLAYBOOKS),
        ("list", {"hypervisors": {"hosts": {}}, "others": {"hosts": {"web1": MACHINE}}}, (), NOBODY),
        ("list", {"others": {"hosts": {"web1": MACHINE}}}, ("--limit", "web1"), NOBODY),
        (
            "list",
            {"others": {"hosts": {"web1": MACHINE}}},
            ("-e", "virt_hypervisors=rack1"),
            NOBODY.replace("the group hypervisors", "rack1"),
        ),
        *(
            (
                playbook,
                {"hypervisors": {"hosts": {"hv1": MACHINE}}, "others": {"hosts": {"web1": MACHINE}}},
                ("--limit", "web1"),
                "--limit web1 leaves out all hosts in the group hypervisors (hv1)",
            )
            for playbook in ("list", "provision")
        ),
    ],
)
def test_no_hypervisors_are_an_error(
    tmp_path: Path, playbook: str, inventory: dict[str, t.Any], options: tuple[str, ...], sentence: str
) -> None:
    done = play(tmp_path, playbook, inventory, *options)
    output = " ".join((done.stdout + done.stderr).split())
    assert sentence in output, output
    assert done.returncode != 0


def test_a_strategy_by_which_nobody_waits_for_the_others_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_STRATEGY", "free")
    done = play(tmp_path, "list", {"hypervisors": {"hosts": {"hv1": MACHINE, "hv2": MACHINE}}})
    assert "strategy: with free (ansible.cfg or ANSIBLE_STRATEGY) each hypervisor goes on" in done.stdout, done.stdout
    assert done.returncode != 0


@pytest.mark.parametrize("group", ["kvm", "hypervisors"])
def test_a_pattern_in_the_inventory_is_not_silently_another_one(tmp_path: Path, group: str) -> None:
    """Ansible chooses the hosts of a play without variables of the inventory, and its tasks would see it."""
    inventory = {group: {"hosts": {"hv1": MACHINE, "hv2": MACHINE}}, "all": {"vars": {"virt_hypervisors": "kvm:hv1"}}}
    done = play(tmp_path, "list", inventory)
    output = " ".join((done.stdout + done.stderr).split())
    assert "virt_hypervisors: a variable of the inventory, which Ansible does not read when" in output, output
    assert done.returncode != 0
    # Where a play reads it, too, it counts; and the command line outranks the inventory.
    (tmp_path / "site.yml").write_text(
        json.dumps([{"import_playbook": "brine.virt.list", "vars": {"virt_hypervisors": "rack1"}}])
    )
    for playbook, options in ((str(tmp_path / "site.yml"), ()), ("list", ("-e", "virt_hypervisors=rack1"))):
        done = play(tmp_path, playbook, {group: inventory[group]}, *options)
        assert "The inventory has no hosts in rack1." in " ".join((done.stdout + done.stderr).split())


def test_hypervisors_says_what_to_do_where_sudo_asks_for_a_password(tmp_path: Path) -> None:
    """Of the playbook only these tasks, which change nothing: the host is this machine."""
    sudo = tmp_path / "sudo"
    sudo.write_text("#!/bin/sh\necho sudo: a password is required >&2\nexit 1\n")
    sudo.chmod(0o700)
    play_of_hosts = yaml.safe_load((Path(__file__).resolve().parents[3] / "playbooks/hypervisors.yml").read_text())[1]
    block = next(task for task in play_of_hosts["pre_tasks"] if task["name"] == "Get the facts of the host")
    head = {"hosts": "all", "gather_facts": False, "become": True, "become_user": "nobody"}
    (tmp_path / "facts.yml").write_text(yaml.safe_dump([{**head, "tasks": [block]}]))
    host = {"ansible_connection": "local", "ansible_become_exe": str(sudo)}
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"hv1": host}}}))
    done = run_ansible(tmp_path, "-i", "hosts.yml", "facts.yml")
    assert "sudo asks for a password on hv1: add --ask-become-pass (-K), or log in as root" in done.stdout
    assert done.returncode == 2


def check_options(directory: Path, hosts: dict[str, t.Any], **play_vars: t.Any) -> str:
    """What the check of the options says: of the playbook hypervisors only this, which changes nothing. It refuses."""
    shutil.copytree(Path(__file__).resolve().parents[3] / "roles", directory / "roles")
    shutil.copytree(Path(__file__).resolve().parents[3] / "playbooks", directory / "playbooks")
    task = {
        "ansible.builtin.import_tasks": "tasks/options.yml",
        "vars": {"virt_roles": ["virt_hypervisor", "virt_bridge", "virt_tls"]},
    }
    play_of_hosts = {"hosts": "all", "gather_facts": False, "vars": play_vars, "tasks": [task]}
    (directory / "playbooks/check.yml").write_text(yaml.safe_dump([play_of_hosts]))
    here = {"ansible_connection": "local"}
    inventory = {"all": {"hosts": {name: {**here, **own} for name, own in hosts.items()}}}
    (directory / "hosts.yml").write_text(json.dumps(inventory))
    done = run_ansible(directory, "-i", "hosts.yml", "playbooks/check.yml")
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stdout


def test_a_time_that_a_role_would_refuse_late_is_refused_first(tmp_path: Path) -> None:
    times = {"virt_bridge_confirm_seconds": 0, "virt_hypervisor_firewall_confirm_seconds": 3601}
    assert (
        "(1) virt_bridge_confirm_seconds: 0 is not allowed. Give a whole number from 1 to 3600 (hv1). "
        "(2) virt_hypervisor_firewall_confirm_seconds: 3601 is not allowed. Give a whole number from 1 to 3600 (hv1). "
        "Nothing was changed."
    ) in check_options(tmp_path, {"hv1": times, "hv2": {}})


def test_what_is_misspelled_for_another_host_than_the_first_is_refused_with_it(tmp_path: Path) -> None:
    users: dict[str, t.Any] = {"virt_hypervisor_user": []}
    hosts = {"hv1": {}, "hv2": {"virt_bridge_bridge": [], **users}, "hv3": users}
    assert (
        "(1) virt_tls_name: unknown variable. Did you mean virt_tls_names? "
        "(2) virt_bridge_bridge: unknown variable. Did you mean virt_bridge_bridges? (hv2). "
        "(3) virt_hypervisor_user: unknown variable. Did you mean virt_hypervisor_users? (hv2, hv3). "
        "Nothing was changed."
    ) in check_options(tmp_path, hosts, virt_tls_name=[])
