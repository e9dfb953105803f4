# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""What hosts with a kernel of their own have in common, whatever runs that kernel: their disks, names and cards."""

from __future__ import annotations

import os
from pathlib import Path

from brine_lab.base.commands import run
from brine_lab.base.lab import Lab
from brine_lab.base.state import State
from brine_lab.hosts import contents
from brine_lab.images.system import System

DISK_GIB = 8
MOST_DISKS = 8
# Network cards are called by the places that QEMU gives them: enp0s3, enp0s4 and so on.
FIRST_NIC_SLOT = 3


def files(lab: Lab, host: str) -> Path:
    """The directory of what a host boots from."""
    return lab.trees / host / "boot-files"


def unpack(lab: Lab, state: State, host: str, place: Path, built: System) -> tuple[Path, str]:
    """Put the kernel, empty disks and the host's own files into an empty directory.

    The own files are unpacked inside, before the first boot: few machines could mount the disk. Returns the directory
    of what the host boots from, and what a shell has to do there when they are unpacked.
    """
    boot_files = place / files(lab, host).name
    boot_files.mkdir()
    link_or_copy(lab, built.kernel, boot_files / "vmlinuz")
    for number in range(1, state.hardware[host].disks + 1):
        run(["truncate", f"--size={DISK_GIB}G", str(boot_files / f"disk{number}.raw")], mark=lab.mark("build"))
    finish = contents.write_own(lab, state, host, place, link=f"enp0s{FIRST_NIC_SLOT}")
    # The name comes last: by it the next boot sees that all is there.
    return boot_files, f"{finish}echo {host} > /etc/hostname\n"


def pack(lab: Lab, place: Path, target: Path) -> None:
    """Make a tar of the host's own files, for the host to unpack."""
    own = ["--exclude=etc/hostname", f"--directory={place}", "etc", "root"]
    run(["tar", "--create", "--numeric-owner", f"--file={target}", *own], mark=lab.mark("build"))


def mac(lab: Lab, address: str, nic: int) -> str:
    """The same at every boot, and in no other lab: a locally administered address."""
    return ":".join(["02", *(lab.id[i : i + 2] for i in (0, 2, 4)), f"{int(address.split('.')[-1]):02x}", f"{nic:02x}"])


def link_or_copy(lab: Lab, source: Path, target: Path) -> None:
    """Have a file of the cache, which nobody writes to, under a name of the lab's own: it stays when the cache goes."""
    try:
        os.link(source, target)
    except OSError:  # on another file system
        copy(lab, source, target)


def copy(lab: Lab, source: Path, target: Path) -> None:
    """Copy a file, with its mode, and no more blocks than are written."""
    run(
        ["cp", "--preserve=mode", "--sparse=always", "--reflink=auto", str(source), str(target)], mark=lab.mark("build")
    )
