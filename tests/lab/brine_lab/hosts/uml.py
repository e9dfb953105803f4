# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Hosts that are User Mode Linux: a kernel of their own as a process of this machine, without emulation."""

from __future__ import annotations

import subprocess
from pathlib import Path

from brine_lab.base.commands import start
from brine_lab.base.lab import FILES, Lab
from brine_lab.base.state import UML, State
from brine_lab.hosts import own_kernel
from brine_lab.images import system
from brine_lab.network import network

MEMORY_MIB = 1400
# Which disk has the host's own files: the last that there can be (ubdp).
OWN_DISK = 15


def unpack(lab: Lab, state: State, host: str, place: Path) -> None:
    """Make all that a host boots from in an empty directory, the host's own files beside it."""
    built = system.system(lab, state.hosts[host], UML, prepared=state.hardware[host].prepared)
    files, finish = own_kernel.unpack(lab, state, host, place, built)
    # A whole copy: an overlay of User Mode Linux is bound to the time at which what is below it was changed last.
    own_kernel.copy(lab, built.disk, files / "system.raw")
    own_kernel.copy(lab, FILES / "boot/uml", files / "start")
    (place / "root/finish").write_text(finish)
    own_kernel.pack(lab, place, files / "own.tar")


def boot(lab: Lab, state: State, host: str, *, log: Path) -> subprocess.Popen[bytes]:
    """Start the kernel, with its cables in the lab's bridge. Its console goes to the log."""
    files, hardware = own_kernel.files(lab, host), state.hardware[host]
    argv = [
        # In a process namespace of its own: all that it runs ends with it, however it ends.
        "unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "--",
        str(files / "start"), f"mem={MEMORY_MIB}M", f"uml_dir={files}", "umid=uml",
        "root=/dev/ubda", "rw", "init=/usr/local/sbin/lab-init", "security=apparmor", "quiet",
        "con=null", "con0=null,fd:1", "ssl=null",
        f"ubd0={files / 'system.raw'}", f"ubd{OWN_DISK}r={files / 'own.tar'}",
        *(f"ubd{disk}={files / f'disk{disk}.raw'}" for disk in range(1, hardware.disks + 1)),
    ]  # fmt: skip
    for nic, link in enumerate(network.cables(lab, host)[: hardware.nics]):
        network.add_tap(lab, link, state.mtu, segments=False)
        mac = own_kernel.mac(lab, state.address(host), nic)
        argv.append(f"vec{nic}:transport=tap,ifname={link},mac={mac},depth=128,gro=0")
    return start(argv, mark=lab.mark(f"host:{host}"), log=log)
