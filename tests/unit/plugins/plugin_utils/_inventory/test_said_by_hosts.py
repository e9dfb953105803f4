# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host sets itself does not choose what the controller does for it."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleActionFail, AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.misspelled import said_by_hosts
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.said_by_hosts import require_own_word
from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_ansible

# What any module may answer where somebody else has become root.
LIAR = """
from ansible.module_utils.basic import AnsibleModule
AnsibleModule({}, supports_check_mode=True).exit_json(ansible_facts=FACTS)
"""


@pytest.mark.parametrize("facts", [None, {}, {"virtualization_type": "kvm", "distribution": "Debian", "virtual": 1}])
def test_facts_are_facts(facts: t.Any) -> None:
    require_own_word({"ansible_facts": facts})
    require_own_word(None)


def test_variables_of_ours_are_named() -> None:
    facts = {"virt_tls_names": ["hv2"], "distribution": "Debian", "__virt_tls_x": 1}
    with pytest.raises(AnsibleActionFail) as caught:
        require_own_word({"inventory_hostname": "hv1", "ansible_facts": facts, **facts})
    assert caught.value.message.startswith(
        "hv1 answers with variables of its own, which Ansible prefers to yours: __virt_tls_x, virt_tls_names. Nothing "
    )


def test_an_interface_is_none_of_them() -> None:
    """Its fact is a variable by the name ansible_virt_br0 alone."""
    facts = {"interfaces": ["virt-br0", "vm"], "virt_br0": {"device": "virt-br0"}, "vm": {"device": "vm"}}
    variables = ["inventory_hostname", "ansible_virt_br0", "ansible_vm", "virt_vms"]
    require_own_word({"ansible_facts": facts, **dict.fromkeys(variables)})
    assert said_by_hosts({"hv1": facts}, ["vm"], {"hv1": variables}) == []
    # Whoever says both is not believed, nor is one whose variables are not known.
    for known in ({"hv1": [*variables, "vm", "virt_br0"]}, {}):
        (sentence,) = said_by_hosts({"hv1": facts}, ["vm"], known)
        assert "which Ansible prefers to yours: virt_br0, vm. " in sentence


@pytest.mark.parametrize("name", ["inventory_hostname", "omit", "lookup", "search_path", "role_path"])
def test_so_is_what_only_ansible_sets(name: str) -> None:
    """By inventory_hostname it would get another one's certificate, and omit is a path where no option was given."""
    with pytest.raises(AnsibleActionFail) as caught:
        require_own_word({"inventory_hostname": "hv2", "ansible_facts": {name: "hv2"}})
    who = "this host" if name == "inventory_hostname" else "hv2"
    assert caught.value.message.startswith(f"{who} answers with variables of its own, which Ansible prefers to yours: ")


def test_the_filter_names_the_hosts() -> None:
    facts = {"hv1": {"distribution": "Debian", "environment": "lab"}, "hv2": {"vm": 1, "state": 2, "cpu": 3}, "hv3": {}}
    assert said_by_hosts(facts, ["vm", "state"]) == [
        "hv2 answers with variables of its own, which Ansible prefers to yours: state, vm. Find out what runs there; "
        "if it was a set_fact of yours, leave out cacheable."
    ]
    with pytest.raises(AnsibleFilterError, match="is not a mapping"):
        said_by_hosts([])


TASKS: dict[str, dict[str, t.Any]] = {
    "virt_known_hosts": {"path": "keys", "arriving": {}},
    "virt_volume": {"pool": "default-pool", "name": "x", "src": "secret"},
    "virt_image": {"pool": "default-pool", "name": "x", "src": "secret"},
    "virt_keys": {"kinds": ["server"], "folder": "/nowhere", "authority": "ca"},
}


@pytest.mark.slow
def test_a_host_that_takes_the_name_of_another_one_gets_nothing(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library/liar.py").write_text(LIAR.replace("FACTS", repr({"inventory_hostname": "hv2"})))
    keys = {"brine.virt.virt_keys": TASKS["virt_keys"]}
    tasks = [{"liar": {}}, {"ansible.builtin.debug": {"msg": "I am {{ inventory_hostname }}"}}, keys]
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{"hosts": "hv1", "gather_facts": False, "tasks": tasks}]))
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"hv1": here, "hv2": here}}}))
    done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml")
    # That is how Ansible is.
    assert "I am hv2" in done.stdout, done.stdout
    assert "this host answers with variables of its own" in done.stdout and done.returncode == 2, done.stdout


@pytest.mark.slow
def test_what_setup_says_of_an_interface_is_no_variable(tmp_path: Path) -> None:
    """As setup answers, which cannot be asked here for an interface of that name."""
    (tmp_path / "library").mkdir()
    facts = {"ansible_interfaces": ["virt-seed"], "ansible_virt_seed": {"device": "virt-seed"}}
    (tmp_path / "library/liar.py").write_text(LIAR.replace("FACTS", repr(facts)))
    hosts = "{{ {'hv1': ansible_facts} | brine.virt.said_by_hosts([], {'hv1': hostvars.hv1 | list}) }}"
    tasks = [
        {"liar": {}},
        {"ansible.builtin.debug": {"msg": "{{ ansible_facts.virt_seed.device }} " + hosts}},
        {"brine.virt.virt_known_hosts": {**TASKS["virt_known_hosts"], "path": str(tmp_path / "keys")}},
    ]
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"hv1": here}}}))
    done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml")
    assert '"msg": "virt-seed []"' in done.stdout, done.stdout
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("module", TASKS)
def test_what_works_on_the_controller_refuses_such_a_host(tmp_path: Path, module: str) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library/liar.py").write_text(LIAR.replace("FACTS", repr({"virt_site": "x"})))
    (tmp_path / "secret").write_bytes(bytes(4096))
    tasks = [
        {"liar": {}},
        {"ansible.builtin.debug": {"msg": "{{ virt_site }}"}},
        {f"brine.virt.{module}": TASKS[module]},
    ]
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "virt_site": "ours"}
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"hv1": here}}}))
    done = run_ansible(tmp_path, "-i", "hosts.yml", "play.yml")
    # That is how Ansible is.
    assert '"msg": "x"' in done.stdout, done.stdout
    assert "hv1 answers with variables of its own, which Ansible prefers to yours: virt_site" in done.stdout, (
        done.stdout
    )
    assert done.returncode == 2
