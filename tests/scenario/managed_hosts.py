# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of each release with each network manager, the role virt_bridge on all of them at once, and what their network
is. Those of the first release have their addresses in their configuration, those of the second ask for them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from .cloud import Answer, Cloud, must

RELEASES = ("bookworm", "trixie")
# What configures the network, and what the role is told. Beside netplan's files the role uses networkd by itself.
MANAGERS = (
    ("networkd", "auto"),
    ("ifupdown", "auto"),
    ("networkmanager", "auto"),
    ("netplan", "netplan"),
    ("netplan", "auto"),
)
BRIDGE, UPLINK = "br0", "host0"
# How long a change waits for its confirmation where none comes, and where one does or something else is done in that
# time, on a machine that has other work; and when a host is surely back, with a DHCP client that takes its time.
SHORT_SECONDS, LONG_SECONDS, BACK_SECONDS = 20, 180, 120
_BOOT_SECONDS = 240
# How long a run may take until it has begun the change on the last host.
_BEGIN_SECONDS = 300
_SWITCH = f"/run/brine-virt/bridge-{BRIDGE}"
_T = t.TypeVar("_T")
_FOLDERS = "/etc/network /etc/NetworkManager /etc/netplan /etc/systemd/network"
_TRIALS = "/run/brine-virt-interfaces /run/NetworkManager/system-connections /run/netplan /run/systemd/network"
# All files with their modes, what a trial has left, and how the host is reached. NetworkManager counts the metric of a
# bridge up from 425, in the order in which bridges come up.
_NETWORK = f"""
find {_FOLDERS} -type f -exec stat --format='%a %U %n' {{}} + -exec sha256sum {{}} + 2>/dev/null | sort
find {_TRIALS} -type f -name '*brine*' 2>/dev/null
ip -brief address show scope global | grep -v ^lo | grep '[.:]' | sed "s,@if[0-9]*,,; s,  *, ,g" | sort
grep -s . /sys/class/net/*/mtu /sys/class/net/*/bridge/stp_state
for family in -4 -6; do ip $family route show default | sed "s, metric 42[0-9],,"; done
"""


@dataclass(frozen=True)
class Host:
    """One of them. word: of the role's option `manager`."""

    name: str
    release: str
    manager: str
    word: str

    def __str__(self) -> str:
        return f"{self.name} ({self.release}, {self.manager}, manager: {self.word})"


HOSTS = tuple(
    Host(f"hv{number}", release, *manager)
    for number, (release, manager) in enumerate(((r, m) for r in RELEASES for m in MANAGERS), 1)
)


def start(cloud: Cloud) -> None:
    """Bring them up, in a lab that has no others."""
    cloud.lab_well(
        "up",
        *("--hosts", str(len(HOSTS))),
        *("--release", ",".join(host.release for host in HOSTS)),
        *("--manager", ",".join(host.manager for host in HOSTS)),
        *("--dhcp", ",".join(host.name for host in HOSTS if host.release == RELEASES[1])),
    )
    cloud.use(tuple(host.name for host in HOSTS))


def on_each(work: t.Callable[[Host], _T], hosts: t.Sequence[Host] = HOSTS) -> list[_T]:
    """Do it on all hosts at once; the first one that fails says so with its name."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        return list(pool.map(work, hosts))


def address(cloud: Cloud, host: Host) -> str:
    """What the inventory says."""
    text = (cloud.inventory / "hosts.yml").read_text(encoding="utf-8")
    found = re.search(rf"^    {host.name}:\n      ansible_host: (\S+)", text, re.MULTILINE)
    must(found is not None, f"{host} is not in the inventory")
    return found.group(1) if found else ""


def gateway(cloud: Cloud, host: Host) -> str:
    """This machine, in the lab's network."""
    return re.sub(r"\d+$", "1", address(cloud, host))


def role(cloud: Cloud, *words: str, confirm_seconds: int = LONG_SECONDS, **options: t.Any) -> Answer:
    """Run the role virt_bridge on all hosts. options: those of the bridge; one that is a function is asked for each,
    and one that is None is not named."""
    return cloud.run(*_command(cloud, options, confirm_seconds), *words)


def role_killed(cloud: Cloud, confirm_seconds: int, **options: t.Any) -> None:
    """Begin to run the role, and kill all its processes when all hosts have begun the change and none is confirmed."""
    # No host waits for another, and the last may begin when the first has been confirmed: none is asked to confirm.
    client = cloud.build / "ssh-that-confirms-nothing"
    client.write_text('#!/bin/sh\ncase "$*" in *ServerAliveInterval=3*) exec sleep 600 ;; esac\nexec ssh "$@"\n')
    client.chmod(0o755)
    process = subprocess.Popen(
        _command(cloud, options, confirm_seconds),
        cwd=cloud.root,
        env={**cloud.environment, "ANSIBLE_SSH_EXECUTABLE": str(client)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        on_each(lambda host: wait_for_state(cloud, host, "armed", "applied", seconds=_BEGIN_SECONDS))
    finally:
        # Ansible gives each of its workers a session of its own.
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=False
        )
        for group in (process.pid, *map(int, listed.stdout.split())):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        process.wait()


def _command(cloud: Cloud, options: dict[str, t.Any], confirm_seconds: int) -> list[str]:
    bridges = {}
    for host in HOSTS:
        said = {word: value(host) if callable(value) else value for word, value in options.items()}
        named = {word: value for word, value in said.items() if value is not None}
        bridges[host.name] = [{"name": BRIDGE, "manager": host.word} | named]
    play = {
        "hosts": "hypervisors",
        "gather_facts": False,
        "vars": {
            "bridges": bridges,
            "virt_bridge_bridges": "{{ bridges[inventory_hostname] }}",
            "virt_bridge_confirm_seconds": confirm_seconds,
        },
        "roles": ["brine.virt.virt_bridge"],
    }
    path = cloud.build / "managed-hosts.json"
    path.write_text(json.dumps([play]), encoding="utf-8")
    forks = ["--forks", str(len(HOSTS))]
    return [str(cloud.bin / "ansible-playbook"), *cloud.sources(live=False), *forks, str(path)]


def wait_for_state(cloud: Cloud, host: Host, *states: str, seconds: int = BACK_SECONDS) -> str:
    """Wait until the host answers at its old address, and its switch is in one of these states. Returns its log.

    Nothing of a switch outlives a boot: its state is empty then.
    """
    end = time.monotonic() + seconds
    while True:
        answer = _ask(cloud, host, f"cat {_SWITCH}/state 2>/dev/null; echo; cat {_SWITCH}/log 2>/dev/null; true")
        state, _line, log = answer.text.partition("\n")
        if answer.status == 0 and state in states:
            return log
        must(time.monotonic() < end, f"{host} is not {' or '.join(states)} after {seconds} s: {answer.text}")
        time.sleep(1)


def _ask(cloud: Cloud, host: Host, command: str) -> Answer:
    # A host that is cut off must not hold the questions to it for minutes.
    return cloud.run("timeout", "--kill-after=1", "15", *cloud.ssh(host.name, command))


def network(cloud: Cloud, host: Host) -> str:
    """The host's network: all files of its managers, its addresses, links with MTU and STP, and default routes."""
    return cloud.on(host.name, _NETWORK)


def boot_again(cloud: Cloud, how: str) -> None:
    """Boot all hosts anew: `how` is the command that ends them. They have answered again when this returns."""
    before = on_each(lambda host: _boot_id(cloud, host))
    must(all(before), "not all hosts answer")
    on_each(lambda host: _ask(cloud, host, how))
    end = time.monotonic() + _BOOT_SECONDS
    while True:
        # A container that has ended is started again by this alone.
        cloud.lab("up", "--hosts", str(len(HOSTS)))
        now = on_each(lambda host: _boot_id(cloud, host))
        waiting = [str(host) for host, old, new in zip(HOSTS, before, now, strict=True) if new in ("", old)]
        if not waiting:
            return
        must(time.monotonic() < end, f"not booted within {_BOOT_SECONDS} s: {', '.join(waiting)}")
        time.sleep(2)


def _boot_id(cloud: Cloud, host: Host) -> str:
    answer = _ask(cloud, host, "cat /proc/sys/kernel/random/boot_id")
    return answer.text.strip() if answer.status == 0 else ""
