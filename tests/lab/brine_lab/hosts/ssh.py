# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Keys and known hosts: every connection to the lab's hosts is verified from the first on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from brine_lab.base.commands import run
from brine_lab.base.lab import Lab
from brine_lab.base.state import State, write


def key(lab: Lab) -> Path:
    """The lab's private key, made when missing."""
    path = lab.state / "id_ed25519"
    if not path.exists():
        lab.state.mkdir(parents=True, exist_ok=True)
        run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"brine-virt-lab-{lab.id}", "-f", str(path)],
            mark=lab.mark("ssh"),
        )
    return path


def public_key(lab: Lab) -> str:
    """The public half of the lab's key."""
    return key(lab).with_suffix(".pub").read_text(encoding="utf-8").strip()


def known_hosts(lab: Lab) -> Path:
    return lab.state / "known_hosts"


def options(lab: Lab) -> str:
    """What ssh has to be told, as one line for Ansible's ansible_ssh_common_args."""
    files = f"-o UserKnownHostsFile={known_hosts(lab)} -o GlobalKnownHostsFile=/dev/null"
    return f"{files} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"


def write_files(lab: Lab, state: State) -> None:
    """Write known_hosts and an ssh_config with the hosts' names in it."""
    known, config = [], []
    for host in state.hosts:
        address = state.address(host)
        public = (lab.trees / host / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()
        known.append(f"{host},{address} {public[0]} {public[1]}")
        config += [f"Host {host} {address}", f"  HostName {address}"]
    config += [
        "Host *",
        "  User root",
        f"  IdentityFile {key(lab)}",
        "  IdentitiesOnly yes",
        f"  UserKnownHostsFile {known_hosts(lab)}",
        "  GlobalKnownHostsFile /dev/null",
        "  StrictHostKeyChecking yes",
        "  LogLevel ERROR",
    ]
    write(known_hosts(lab), "".join(line + "\n" for line in known))
    write(lab.state / "ssh_config", "".join(line + "\n" for line in config))


def command(lab: Lab, host: str, *words: str) -> list[str]:
    return ["ssh", "-F", str(lab.state / "ssh_config"), host, *words]


def log_in(lab: Lab, host: str, words: list[str]) -> NoReturn:
    """Become ssh to a host."""
    os.execvp("ssh", command(lab, host, *words))
