# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom the role lets in through a host's firewall; its own tasks, in check mode, in a network of their own."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.brine.virt.tests.unit.plugins.module_utils._network.firewall.own_network import (
    own_network,
    require_nft,
)
from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import ssh_to_here

ROLE = Path(__file__).resolve().parents[3] / "roles/virt_hypervisor"
# Each starts whole runs of Ansible.
pytestmark = pytest.mark.slow
CLOSED = "table inet f { chain in { type filter hook input priority 0; policy drop; tcp dport 22 accept; }; }\n"
# So that what is missing can be seen: nothing loads these rules when the host boots.
REFUSED = "nftables refuses the cloud's hosts in inet f in"
NO_FIREWALL = "has no firewall in front of libvirt and the migration ports. Nothing was installed or changed."
SEEN = "__virt_hypervisor_firewall_seen"
OPEN_TO_HV5 = "insert rule inet f in ip saddr 192.0.2.15 tcp dport { 16514, 49152-49215 } accept\n"
HV5 = {SEEN: {"changed": False, "firewalls": [], "addresses": ["192.0.2.15", "2001:db8::15"]}}
OTHERS = {
    "hv2": {SEEN: {"changed": False, "firewalls": [], "addresses": ["192.0.2.12", "2001:db8::12"]}},
    # Not of this run, or not reached: no address that it has said.
    "hv3": {"ansible_host": "192.0.2.13"},
    "hv4": {"ansible_host": "hv4.invalid", SEEN: {"changed": False, "failed": True, "msg": "no nft"}},
}


def run(directory: Path, rules: str, others: dict[str, t.Any] | None = None, **options: t.Any) -> str:
    """All output for hv1, where these rules are, beside these other hypervisors, and ``strangers`` in the same play.

    The firewall is the role's to open.
    """
    require_nft()
    strangers = options.pop("strangers", {})
    tasks = yaml.safe_load((ROLE / "tasks/main.yml").read_text(encoding="utf-8"))
    first = next(number for number, task in enumerate(tasks) if task["name"].startswith("Look for a firewall"))
    wanted = tasks[first : first + 2]
    include = {
        "name": "brine.virt.virt_hypervisor",
        "tasks_from": wanted[1].pop("ansible.builtin.include_tasks")["file"],
    }
    wanted[1]["ansible.builtin.include_role"] = include
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))
    mine = {name: value for name, value in defaults.items() if "firewall" in name}
    known = {**mine, "virt_hypervisor_firewall": "auto", **options}
    # The condition of the second task is the play's here.
    files = [str(ROLE / "vars/main.yml")]
    play = {"hosts": "hv1:web", "gather_facts": False, "vars": known, "vars_files": files, "tasks": wanted}
    (directory / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    me = {"ansible_connection": "local", **options.pop("me", {})}
    hosts = {"hv1": {**me, "ansible_python_interpreter": sys.executable}, **(others or {})}
    inventory = {"hypervisors": {"hosts": hosts}, "web": {"hosts": strangers}}
    (directory / "hosts.yml").write_text(json.dumps(inventory))
    ansible = [sys.executable, "-m", "ansible.cli.playbook", "-i", f"{directory}/hosts.yml", f"{directory}/play.yml"]
    script = 'nft --file - && ip link set lo up && exec env ANSIBLE_NOCOLOR=1 "HOME=$0" "$@" --check --diff'
    answer = own_network("sh", "-c", script, str(directory), *ansible, data=rules)
    return answer.stdout + answer.stderr


def sources(output: str) -> dict[str, str]:
    """Who is let in, and where, in the lines that would have to be written."""
    lines = [line for line in output.replace("\\n", "\n").splitlines() if line.startswith("add rule")]
    return {line.split(" saddr ")[1].split()[0]: line.split("{ ")[1].split(" }")[0] for line in lines}


ALL = "16514, 49152-49215"


def test_a_host_without_a_firewall_gets_one_line(tmp_path: Path) -> None:
    output = run(tmp_path, "", OTHERS)
    assert output.count(f"hv1 {NO_FIREWALL}") == 1
    assert "ok=3 " in output and "changed=0" in output and "failed=0" in output


def test_the_other_hypervisors_are_let_in_by_the_addresses_that_they_have_said(tmp_path: Path) -> None:
    output = run(tmp_path, CLOSED, OTHERS)
    assert REFUSED in output
    assert sources(output) == {"192.0.2.12": ALL, "2001:db8::12": ALL}
    assert NO_FIREWALL not in output


def test_whoever_has_said_no_address_is_named(tmp_path: Path) -> None:
    rules = CLOSED + "insert rule inet f in tcp dport 1-65535 ip saddr 192.0.2.0/24 accept\n"
    output = run(tmp_path, rules, {"hv3": OTHERS["hv3"], "hv4": OTHERS["hv4"]})
    assert "The firewall is not opened to hv3, hv4: this run has not asked for the addresses" in output
    assert "changed=0" in output and "failed=0" in output


def test_whom_a_narrower_pattern_leaves_out_keeps_the_rules_of_earlier_runs(tmp_path: Path) -> None:
    output = run(tmp_path, CLOSED, {"hv2": OTHERS["hv2"], "hv3": OTHERS["hv3"]}, virt_hypervisors="hv1,hv2")
    assert "The firewall is not opened to hv3: this run has not asked for the addresses" in output
    assert sources(output) == {"192.0.2.12": ALL, "2001:db8::12": ALL}


def test_hosts_of_the_play_that_are_no_hypervisors_are_not_let_in(tmp_path: Path) -> None:
    others = {"hv2": OTHERS["hv2"]}
    web = {"web1": {SEEN: {"addresses": ["192.0.2.80"]}}, "web2": {"ansible_host": "192.0.2.81"}}
    output = run(tmp_path, CLOSED, others, strangers=web)
    assert sources(output) == {"192.0.2.12": ALL, "2001:db8::12": ALL}


def test_networks_stand_for_everybody_who_may_join(tmp_path: Path) -> None:
    options = {
        "virt_hypervisor_firewall_sources": ["192.0.2.0/24"],
        "virt_hypervisor_firewall_operators": ["198.51.100.7"],
    }
    output = run(tmp_path, CLOSED, OTHERS, **options)
    assert sources(output) == {"192.0.2.0/24": ALL, "198.51.100.7": "16514"}
    without = run(tmp_path, CLOSED, OTHERS, **options, virt_tls_enabled="no")
    assert sources(without) == {"192.0.2.0/24": "49152-49215"}


@pytest.mark.parametrize(
    ("rules", "others", "sentence"),
    [
        # Of hv4 no address is known, and hv5 can do without the one that is closed.
        (CLOSED + OPEN_TO_HV5, {**OTHERS, "hv5": HV5}, "keeps hv2 out of port 16514 or of the migration ports"),
        (CLOSED, {**OTHERS, "hv5": HV5}, "keeps hv2, hv5 out of port 16514 or of the migration ports"),
        (CLOSED + OPEN_TO_HV5, {"hv5": HV5}, None),
        (CLOSED, {"hv4": OTHERS["hv4"]}, None),
        ("", OTHERS, None),
    ],
)
def test_a_firewall_is_left_unless_it_is_the_roles_to_open_and_who_is_kept_out_is_said(
    tmp_path: Path, rules: str, others: dict[str, t.Any], sentence: str | None
) -> None:
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text(encoding="utf-8"))
    output = run(tmp_path, rules, others, virt_hypervisor_firewall=defaults["virt_hypervisor_firewall"])
    assert REFUSED not in output and NO_FIREWALL not in output
    assert "changed=0" in output and "failed=0" in output
    warnings = [line for line in output.splitlines() if "WARNING: " in line]
    if sentence is None:
        assert warnings == []
    else:
        (warning,) = warnings
        assert f"the firewall of hv1 (nftables) {sentence}" in warning
        assert "virt_hypervisor_firewall: auto" in warning


def test_all_rules_of_the_role_can_be_taken_away(tmp_path: Path) -> None:
    ours = "add chain inet f brine_virt_in\nadd rule inet f brine_virt_in ip saddr 192.0.2.12 tcp dport 16514 accept\n"
    rules = f"{CLOSED}{ours}insert rule inet f in jump brine_virt_in\n"
    # Ansible says of what it is told here that it goes by SSH.
    output = run(tmp_path, rules, OTHERS, __virt_hypervisor_firewall_state="absent", me=ssh_to_here(tmp_path))
    assert "-ip saddr 192.0.2.12 tcp dport { 16514 } accept" in output
    assert "changed=1" in output and "failed=0" in output


def test_a_change_is_refused_where_nobody_would_notice_that_the_host_is_cut_off(tmp_path: Path) -> None:
    ours = "add chain inet f brine_virt_in\nadd rule inet f brine_virt_in ip saddr 192.0.2.12 tcp dport 16514 accept\n"
    rules = f"{CLOSED}{ours}insert rule inet f in jump brine_virt_in\n"
    output = run(tmp_path, rules, OTHERS, __virt_hypervisor_firewall_state="absent")
    assert "Ansible reaches this host by the connection local, which works without the network" in output
    assert "changed=0" in output and "failed=1" in output
