# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Hosts: bare Debian systems of each kind, each with a systemd, an SSH server and an address of its own."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from brine_lab.base import processes
from brine_lab.base.commands import run, tail
from brine_lab.base.lab import Lab
from brine_lab.base.say import LabError, alive, say
from brine_lab.base.state import CONTAINER, UML, VM, State
from brine_lab.hosts import containers, ssh, uml, vms
from brine_lab.images import trees

READY_SECONDS = 90
# With a kernel of its own, which may be emulated, on a machine that has other work.
OWN_KERNEL_READY_SECONDS = 400


def names(count: int) -> list[str]:
    return [f"hv{number}" for number in range(1, count + 1)]


def unpack(lab: Lab, state: State, host: str) -> None:
    """Make what the host boots from out of its release's golden one, unless it is there."""
    place = lab.trees / host
    if place.exists():
        return
    say(f"{host}: unpacking {state.hosts[host]}, address {state.address(host)}")
    new = trees.fresh_directory(lab.trees / f".new-{host}")
    {CONTAINER: containers, VM: vms, UML: uml}[state.kind(host)].unpack(lab, state, host, new)
    new.rename(place)  # what is under its own name is complete


def boot(lab: Lab, state: State, host: str, *, kvm: bool) -> None:
    """Start a host that does not run. Its console goes to a log."""
    if processes.find(lab, f"host:{host}"):
        return
    say(f"{host}: booting")
    log = console(lab, host)
    if state.kind(host) == VM:
        vms.boot(lab, state, host, kvm=kvm, log=log)
    elif state.kind(host) == UML:
        uml.boot(lab, state, host, log=log)
    else:
        containers.boot(lab, host, kvm=kvm, log=log)


def wait_ready(lab: Lab, state: State) -> None:
    """Wait until every host answers over SSH and has come to the end of its boot."""
    with alive(f"waiting for SSH: {', '.join(state.hosts)}"), ThreadPoolExecutor(len(state.hosts)) as pool:
        for _answer in pool.map(lambda host: _wait_for(lab, host, _ready_seconds(state, host)), state.hosts):
            pass


def answers(lab: Lab, host: str) -> bool:
    """Whether the host lets us in."""
    return _try(lab, host, "true").returncode == 0


def remove_trees(lab: Lab) -> None:
    """Delete all hosts' trees; nothing is mounted in them outside the containers, which are gone."""
    if lab.trees.exists():
        # Where the disk is told of each file that goes, and answers, one after the other takes minutes.
        files = f"find {shlex.quote(str(lab.trees))} -xdev -type f -print0 | xargs -0 -r -P 16 -n 200 rm -f"
        run(["sh", "-c", files], mark=lab.mark("down"))
        run(["rm", "-rf", "--one-file-system", str(lab.trees)], mark=lab.mark("down"))
    with contextlib.suppress(OSError):
        lab.trees.parent.rmdir()  # only when no other lab has trees there


def console(lab: Lab, host: str) -> Path:
    return lab.logs / f"{host}-console.log"


def _try(lab: Lab, host: str, *words: str) -> subprocess.CompletedProcess[str]:
    return run(
        ["timeout", "40", *ssh.command(lab, host, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"), *words],
        mark=lab.mark("ssh"),
        check=False,
    )


def _ready_seconds(state: State, host: str) -> int:
    return OWN_KERNEL_READY_SECONDS if host in state.hardware else READY_SECONDS


def _wait_for(lab: Lab, host: str, seconds: int) -> None:
    deadline = time.monotonic() + seconds
    while not answers(lab, host):
        if not processes.find(lab, f"host:{host}"):
            raise LabError(f"{host} ended while it booted. The end of its console:\n{tail(console(lab, host))}")
        if time.monotonic() > deadline:
            raise LabError(
                f"{host} did not answer over SSH within {seconds} s. The end of its output:\n{_last_words(lab, host)}"
            )
        time.sleep(0.5)
    # Nothing may be installed while units are still starting. "degraded" is fine: a container cannot start every unit.
    _try(lab, host, "systemctl", "is-system-running", "--wait")
    say(f"{host}: ready")


def _last_words(lab: Lab, host: str) -> str:
    journal = containers.last_words(lab, host)
    return tail(console(lab, host)) + (f"\nand its journal:\n{journal}" if journal else "")
