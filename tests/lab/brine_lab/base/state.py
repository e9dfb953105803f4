# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""The choices of a running lab, written down: its subnet and its hosts. What runs is asked, never read here."""

from __future__ import annotations

import ipaddress
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from brine_lab.base.lab import Lab

FIRST_HOST = 11
LAST_HOST = 30
FIRST_LEASE = 100
LAST_LEASE = 250
SUDO_USER = "ops"
CONTAINER, VM, UML = "container", "vm", "uml"
# The kinds of hosts that have a kernel of their own.
OWN_KERNEL = (VM, UML)
DOMAIN = "virt.internal"  # .internal is reserved for private use by ICANN


@dataclass(frozen=True)
class Hardware:
    """What a host with a kernel of its own has: network cards, disks besides the one of its system, and on that one
    the packages of a hypervisor, and ZFS. `kind`: what runs that kernel, of OWN_KERNEL."""

    nics: int = 1
    disks: int = 0
    prepared: bool = False
    kind: str = VM
    zfs: bool = False


@dataclass(frozen=True)
class State:
    """`hosts` maps a host's name to the Debian release it was unpacked from; `sudo`: those that Ansible reaches as a
    user with sudo and not as root; `hardware`: those with a kernel of their own, all others are containers; `managers`:
    the network managers of those that have another one than networkd; `dhcp`: those that ask for their address;
    `modular`: those whose packages of libvirt have modular daemons; `ceph`: whether there is a Ceph cluster."""

    subnet: str
    mtu: int
    hosts: dict[str, str] = field(default_factory=dict)
    sudo: list[str] = field(default_factory=list)
    hardware: dict[str, Hardware] = field(default_factory=dict)
    managers: dict[str, str] = field(default_factory=dict)
    dhcp: list[str] = field(default_factory=list)
    modular: list[str] = field(default_factory=list)
    ceph: bool = False

    def kind(self, host: str) -> str:
        """What a host is: CONTAINER, or one of OWN_KERNEL."""
        return self.hardware[host].kind if host in self.hardware else CONTAINER

    @property
    def network(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(self.subnet)

    @property
    def gateway(self) -> str:
        """The bridge's own address: gateway, DNS and DHCP server of the lab."""
        return str(self.network[1])

    def address(self, host: str) -> str:
        """A host's address: hv1 has .11."""
        return str(self.network[FIRST_HOST - 1 + int(host.removeprefix("hv"))])


def load(lab: Lab) -> State | None:
    """What was written down, or None when the lab is down."""
    try:
        noted = json.loads(_path(lab).read_text())
    except FileNotFoundError:
        return None
    return State(**{**noted, "hardware": {host: Hardware(**its) for host, its in noted.get("hardware", {}).items()}})


def save(lab: Lab, state: State) -> None:
    write(_path(lab), json.dumps(asdict(state), indent=2) + "\n")


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a small file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def _path(lab: Lab) -> Path:
    return lab.state / "state.json"
