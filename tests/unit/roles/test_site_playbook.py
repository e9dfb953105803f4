# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A playbook of the user's own imports playbooks of the collection, and --tags, --limit or -e mean one part of it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.test_bare_hosts import MACHINE, NOBODY, bare_host, play

# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow
SITE: list[dict[str, t.Any]] = [
    {"import_playbook": "brine.virt.host_info", "tags": ["hosts"]},
    {"import_playbook": "brine.virt.list", "tags": ["vms"]},
    {"import_playbook": "brine.virt.provision"},
    *(
        {
            "hosts": host,
            "gather_facts": False,
            "tasks": [{"ansible.builtin.debug": {"msg": f"nginx on {host}"}, "tags": ["nginx"]}],
        }
        for host in ("web1", "localhost")
    ),
]

HYPERVISORS = {"import_playbook": "brine.virt.hypervisors"}


def site(directory: Path, *options: str, imported: list[dict[str, t.Any]] = SITE, hypervisor: bool = True) -> str:
    """The status of a run of the user's own playbook, and all that it says."""
    (directory / "site.yml").write_text(json.dumps(imported))
    hosts = {"hypervisors": {"hosts": {"hv1": bare_host(directory)} if hypervisor else {}}}
    others = {"hosts": {"web1": MACHINE, "localhost": MACHINE}}
    done = play(directory, "./site.yml", {**hosts, "others": others}, *options)
    return f"{done.returncode} " + " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        (("--tags", "nginx"), ["web1", "localhost"]),
        (("--limit", "web1"), ["web1"]),
        (("--limit", "web1", "--tags", "nginx"), ["web1"]),
        (("--limit", "localhost"), ["localhost"]),
        (("--limit", "web1", "-e", "vm=web1"), ["web1"]),
    ],
)
def test_what_is_not_meant_for_it_does_nothing_and_is_no_error(
    tmp_path: Path, options: tuple[str, ...], runs: list[str]
) -> None:
    said = site(tmp_path, *options)
    assert said.startswith("0 "), said
    assert [host for host in ("web1", "localhost") if f'"msg": "nginx on {host}"' in said] == runs, said
    assert "libvirt" not in said and "fatal" not in said
    assert "hv1 : ok=0 changed=0" in said or "hv1 :" not in said, said
    assert "Ask the live inventory again" not in said
    left_out = f"--limit {options[1]} leaves out all hosts in the group hypervisors (hv1). This playbook does nothing"
    # host_info, list and provision; where --tags is given, too, they are not asked.
    assert said.count(left_out) == (3 if options[0] == "--limit" and "--tags" not in options else 0), said


def test_roles_that_tags_leave_out_do_not_look_at_their_options(tmp_path: Path) -> None:
    """These may be made of facts, which nobody has gathered then."""
    names = ["-e", '{"virt_tls_names": ["{{ ansible_facts.fqdn }}"]}']
    said = site(tmp_path, "--check", "--tags", "nginx", *names, imported=[HYPERVISORS, *SITE[3:]])
    assert said.startswith("0 "), said
    assert "Validating" not in said and "nginx on web1" in said


def test_the_tag_of_one_import_runs_this_one_alone(tmp_path: Path) -> None:
    said = site(tmp_path, "--tags", "vms", "-v")
    assert said.startswith("2 "), said
    assert "libvirt-python is not installed" in said
    assert "TASK [Ask the hypervisors]" in said
    assert said.count("TASK [Check that the inventory names hypervisors]") == 1
    assert "This playbook does nothing" not in said
    assert "nothing of this playbook" not in said


@pytest.mark.parametrize("options", [(), ("--limit", "web1")])
def test_a_group_without_hosts_stays_an_error(tmp_path: Path, options: tuple[str, ...]) -> None:
    said = site(tmp_path, *options, hypervisor=False)
    assert said.startswith("2 "), said
    assert NOBODY in said


def test_a_limit_that_names_nobody_stays_an_error(tmp_path: Path) -> None:
    said = site(tmp_path, "--limit", "hv9")
    assert not said.startswith("0 "), said
    assert "hv9" in said and "no hosts to target" in said


def test_an_option_of_one_import_is_no_mistake_for_another(tmp_path: Path) -> None:
    """The first playbook has no option vm, and stop is another word for one of the second."""
    imported = [{"import_playbook": f"brine.virt.{name}"} for name in ("balance", "maintenance")]
    imported[0]["tags"] = "never"
    imported += [{"import_playbook": "brine.virt.host_info"}]
    said = site(tmp_path, "-e", "vm=web1 stop=true target=prod", imported=imported)
    assert "unknown option" not in said and "does not have this option" not in said, said
    assert "Not an option of this playbook: stop, target, vm" in said
    assert "libvirt-python is not installed" in said
    said = site(tmp_path, "-e", "vm=web1 ednd=hv1", imported=imported)
    assert "ednd: unknown option. Did you mean end? If it is a variable of your own, give it another name." in said
    assert said.startswith("2 "), said


@pytest.mark.parametrize(
    ("playbook", "words", "meant"),
    [
        ("purge", "vm=web1 keep=true", {"keep": "keep_disks"}),
        ("migrate", "vm=web1 target=hv2", {"target": "to"}),
        ("power", "tag=web state=stopped pending=true host=hv1", {"host": "on", "pending": "only_pending"}),
    ],
)
def test_another_word_for_an_option_is_a_mistake_where_the_playbook_gets_options(
    tmp_path: Path, playbook: str, words: str, meant: dict[str, str]
) -> None:
    """As one that is only named, it would have the disks of web1 deleted."""
    imported = [{"import_playbook": f"brine.virt.{playbook}"}, SITE[-1]]
    said = site(tmp_path, *(option for word in words.split() for option in ("-e", word)), imported=imported)
    own = "If it is a variable of your own, give it another name."
    for name, option in meant.items():
        assert f"{name}: unknown option. Did you mean {option}? {own}" in said, said
    assert said.startswith("2 ") and said.count("TASK [") == 1, said


def test_where_one_import_is_all_nothing_is_meant_for_another(tmp_path: Path) -> None:
    """All machines would leave hv1."""
    said = site(tmp_path, "-e", "from=hv1 vm=web1", imported=[{"import_playbook": "brine.virt.evacuate"}])
    assert "vm: this playbook does not have this option. Its options: " in said
    assert said.startswith("2 ") and said.count("TASK [") == 1, said


def test_what_only_the_inventory_can_say_of_hypervisors_is_refused_in_the_vars_of_an_import(tmp_path: Path) -> None:
    imported = [{"import_playbook": "brine.virt.balance", "vars": {"virt_memory_ratio": 2, "virt_policy": "pack"}}]
    said = site(tmp_path, imported=imported)
    assert "virt_memory_ratio: set in the vars of an import_playbook, where nothing reads it. Set it in" in said
    assert said.startswith("2 ") and "TASK [Get the facts of the hypervisors]" not in said, said
    imported = [{"import_playbook": "brine.virt.host_info"}]
    assert "import_playbook" not in site(tmp_path, "-e", "virt_memory_ratio=2", imported=imported)
