# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""What must be there before anything is changed, and the Debian packages that the lab itself uses."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

from brine_lab.base.commands import run_long
from brine_lab.base.lab import TREES, Lab, cache
from brine_lab.base.lock import locked
from brine_lab.base.say import LabError

# package -> the program that shows it is there
PACKAGES = {
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "dnsmasq-base": "dnsmasq",
    "e2fsprogs": "mke2fs",
    "extlinux": "extlinux",
    "iproute2": "ip",
    "mmdebstrap": "mmdebstrap",
    "nftables": "nft",
    "openssh-client": "ssh",
    "qemu-utils": "qemu-img",
    "systemd-container": "systemd-nspawn",
    "zstd": "zstd",
}
FREE_GIB = 6


def check_machine() -> None:
    """Raise LabError (exit code 2) with one sentence for the first thing that is missing; change nothing."""
    if platform.system() != "Linux":
        raise LabError("The lab runs on Linux only.", 2)
    if platform.machine() != "x86_64":
        raise LabError(f"The lab's guest images are made for x86_64; this machine is {platform.machine()}.", 2)
    if os.geteuid() != 0:
        raise LabError("The lab makes bridges and containers and must run as root: try `sudo tests/lab/lab ...`.", 2)
    if not shutil.which("apt-get"):
        raise LabError(
            "The lab installs what it uses with apt-get, which is not here: use Debian 12 or newer, or Ubuntu.", 2
        )
    if not Path("/dev/net/tun").is_char_device():
        raise LabError("There is no /dev/net/tun, which guests' network cards need: try `modprobe tun`.", 2)
    for place in (cache(), TREES):
        existing = next(p for p in (place, *place.parents) if p.exists())
        free_gib = shutil.disk_usage(existing).free / 2**30
        if free_gib < FREE_GIB:
            raise LabError(f"{place} has {free_gib:.1f} GiB of free space; the lab needs {FREE_GIB} GiB.", 2)


def install_packages(lab: Lab, extra: Mapping[str, str] | None = None) -> None:
    """Install the Debian packages whose programs are missing; do nothing when all are there."""
    packages = {**PACKAGES, **(extra or {})}
    if not _missing(packages):
        return
    # Another lab may begin just now, and apt-get waits for nobody who reads the package lists.
    with locked("packages"):
        missing = _missing(packages)
        if not missing:
            return
        apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]
        log = cache() / "logs" / "apt-get.log"
        run_long([*apt, "update"], doing="updating the package lists of this machine", mark=lab.mark("build"), log=log)
        run_long(
            [*apt, "install", "--no-install-recommends", *missing],
            doing=f"installing on this machine: {' '.join(missing)}", mark=lab.mark("build"), log=log,
        )  # fmt: skip


def _missing(packages: Mapping[str, str]) -> list[str]:
    return [package for package, shows in packages.items() if not _is_there(shows)]


def _is_there(shows: str) -> bool:
    return Path(shows).exists() if shows.startswith("/") else shutil.which(shows) is not None
