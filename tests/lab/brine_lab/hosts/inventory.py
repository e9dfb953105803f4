# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""The inventory that the lab hands to Ansible."""

from __future__ import annotations

from pathlib import Path

from brine_lab.base.lab import Lab
from brine_lab.base.state import SUDO_USER, State, write
from brine_lab.hosts import ssh


def write_files(lab: Lab, state: State) -> None:
    """Write hosts.yml (the hypervisors) and cloud.virt.yml (their machines, live)."""
    known_hosts = lab.state / "known_hosts_machines"
    head = f"# Written by {lab.command}; goes with `{lab.command} down`.\n---\n"
    hosts = head + (
        "all:\n"
        "  vars:\n"
        # Who makes machines here logs in to them with the lab's own key.
        f"    virt_seed: {{authorized_keys: ['{ssh.public_key(lab)}']}}\n"
        f"    virt_known_hosts: {known_hosts}\n"
        # The authority goes with the lab, and nothing is left in the home of who runs it.
        f"    virt_tls_authority: {lab.state / 'authority'}\n"
        "hypervisors:\n"
        "  hosts:\n"
    )
    for host in state.hosts:
        hosts += f"    {host}:\n      ansible_host: {state.address(host)}\n"
        if host in state.sudo:
            hosts += f"      ansible_user: {SUDO_USER}\n"
        if host in state.hardware:
            # Emulated, on a machine that has other work, its facts take longer than the 45 s that others are given.
            hosts += "      virt_answer_seconds: 300\n"
            # So do the three new connections that confirm a bridge, for which others have 60 s.
            hosts += "      virt_bridge_confirm_seconds: 300\n"
            # Each connection costs it seconds: half of them, that way.
            hosts += "      ansible_pipelining: true\n"
    hosts += (
        "  vars:\n"
        "    ansible_user: root\n"
        f"    ansible_ssh_private_key_file: {ssh.key(lab)}\n"
        f"    ansible_ssh_common_args: {ssh.options(lab)}\n"
        "    ansible_python_interpreter: /usr/bin/python3\n"
        "virt_machines:\n"
        "  vars:\n"
        f"    ansible_ssh_private_key_file: {ssh.key(lab)}\n"
        "    ansible_python_interpreter: auto_silent\n"
        # Provisioned without the live inventory they are in this group only.
        "virt_provisioned:\n"
        "  vars:\n"
        f"    ansible_ssh_private_key_file: {ssh.key(lab)}\n"
    )
    cloud = head + (
        "plugin: brine.virt.domains\n"
        "hypervisor_group: hypervisors\n"
        "transport: ssh\n"
        f"known_hosts: {known_hosts}\n"
    )  # fmt: skip
    write(lab.inventory / "hosts.yml", hosts)
    write(lab.inventory / "cloud.virt.yml", cloud)
    # Ansible reads a directory by name: with this one first, `-i .build/lab/inventory` works too.
    first = lab.inventory / "00-hosts.yml"
    if not first.is_symlink():
        first.symlink_to("hosts.yml")


def options(lab: Lab) -> list[str]:
    """The `-i` options in the order that works: hypervisor_group must have been parsed before it is asked for."""
    here = Path.cwd()
    files = [lab.inventory / "hosts.yml", lab.inventory / "cloud.virt.yml"]
    return [f"-i {file.relative_to(here) if file.is_relative_to(here) else file}" for file in files]
