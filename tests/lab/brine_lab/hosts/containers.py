# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Hosts that are system containers: their trees, and how they boot."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from brine_lab.base import processes
from brine_lab.base.commands import run, start
from brine_lab.base.lab import Lab
from brine_lab.base.state import State
from brine_lab.hosts import cgroups, contents
from brine_lab.images import golden, modular


def unpack(lab: Lab, state: State, host: str, tree: Path) -> None:
    """Make a host's tree, in an empty directory, from its release's golden tree."""
    source = golden.tree(lab, state.hosts[host], state.managers.get(host, golden.NETWORKD))
    unpacking = ["tar", "--extract", "--preserve-permissions", "--numeric-owner", "--xattrs", "--xattrs-include=*"]
    run([*unpacking, "--file", str(source), "--directory", str(tree)], mark=lab.mark("build"))
    if host in state.modular:
        modular.offer(lab, tree)
    finish = contents.write_own(lab, state, host, tree, link="host0")
    run(["chroot", str(tree), "sh", "-e", "-s"], stdin=finish, mark=lab.mark("build"))


def boot(lab: Lab, host: str, *, kvm: bool, log: Path) -> subprocess.Popen[bytes]:
    """Start a container. Its console goes to the log."""
    argv = [
        "systemd-nspawn", "--quiet", f"--directory={lab.trees / host}", "--boot",
        f"--machine={lab.machine(host)}", f"--hostname={host}", "--register=no", "--keep-unit",
        f"--network-bridge={lab.bridge}", "--bind=/dev/net/tun", *(["--bind=/dev/kvm"] if kvm else []),
        "--capability=all", "--console=pipe", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
    ]  # fmt: skip
    return start([*cgroups.into_own(lab, host), *argv], mark=lab.mark(f"host:{host}"), log=log)


def remove_leftovers(lab: Lab) -> None:
    """Delete what a killed systemd-nspawn leaves under /run."""
    for left in Path("/run/systemd/nspawn").glob(f"*/{lab.id}-*"):
        shutil.rmtree(left, ignore_errors=True)


def last_words(lab: Lab, host: str) -> str:
    """The end of the journal of a container that runs; empty when it does not."""
    init = processes.container_init(lab, host)
    if init is None:
        return ""
    journal = ["nsenter", "--target", str(init), "--all", "journalctl", "--no-pager", "--lines=20", "--output=cat"]
    return run(journal, mark=lab.mark("ssh"), check=False).stdout
