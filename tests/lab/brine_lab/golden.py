# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Golden trees: the file system of a freshly installed Debian, as a tar, built once for all hosts of a release."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from brine_lab import package_cache
from brine_lab.commands import run_long
from brine_lab.lab import FILES, Lab, cache, recipe_hash
from brine_lab.lock import locked
from brine_lab.say import say

RELEASES = ("bookworm", "trixie")
# What a fresh install with an SSH server has. Whatever a hypervisor needs beyond it is the roles' work.
PACKAGES = (
    "ca-certificates", "dbus", "iproute2", "iputils-ping", "kmod", "less", "libpam-systemd", "locales", "openssh-server", "procps",
    "python3", "python3-apt", "sudo", "systemd-sysv",
)  # fmt: skip
FINISH = """\
cp -rT --no-preserve=ownership "{files}" "$1"
chroot "$1" systemctl enable systemd-networkd.service
rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname "$1"/etc/apt/apt.conf.d/99mmdebstrap
: > "$1"/etc/machine-id
"""


def sources(release: str) -> list[str]:
    """The lines of /etc/apt/sources.list of a release."""
    return [
        f"deb http://deb.debian.org/debian {release} main",
        f"deb http://deb.debian.org/debian {release}-updates main",
        f"deb http://deb.debian.org/debian-security {release}-security main",
    ]


def tree(lab: Lab, release: str) -> Path:
    """The tar of a release's golden tree, built when it is not in the cache."""
    key = recipe_hash(release, FILES / "host", FINISH, *PACKAGES, *sources(release))
    golden = cache() / "golden" / f"{release}-{key}.tar"
    if golden.exists():
        return golden
    with locked(f"golden-{release}"):
        if golden.exists():
            return golden
        building = fresh_directory(cache() / "tmp" / f"golden-{release}")
        with package_cache.serving() as proxy:
            mmdebstrap(
                lab, release, building / "tree.tar", PACKAGES, finish=FINISH.format(files=FILES / "host"), scratch=building,
                doing=f"golden tree {release}: building with mmdebstrap", env=proxy,
            )  # fmt: skip
        golden.parent.mkdir(parents=True, exist_ok=True)
        for old in golden.parent.glob(f"{release}-*.tar"):
            old.unlink()
        (building / "tree.tar").rename(golden)
        shutil.rmtree(building)
        say(f"golden tree {release}: {golden.stat().st_size >> 20} MiB in {golden}")
    return golden


def mmdebstrap(
    lab: Lab, release: str, target: Path, packages: tuple[str, ...], *, finish: str, scratch: Path, doing: str, env: dict[str, str],
    variant: str = "minbase",
) -> None:  # fmt: skip
    """Build a Debian tree at `target` (a tar or a directory); `finish` is shell that sees the tree as $1."""
    argv = [
        "mmdebstrap", "--mode=root", f"--variant={variant}", "--architectures=amd64", f"--include={','.join(packages)}",
        "--keyring=/usr/share/keyrings/debian-archive-keyring.gpg", "--aptopt=APT::Install-Recommends false",
        f"--customize-hook=set -e; {finish}", release, str(target), *sources(release),
    ]  # fmt: skip
    log = cache() / "logs" / f"{target.parent.name}.log"
    run_long(argv, doing=doing, mark=lab.mark("build"), log=log, extra_env={**env, "TMPDIR": str(scratch)})


def fresh_directory(path: Path) -> Path:
    """An empty directory at `path`, without what a killed build left there."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    os.chmod(path, 0o755)  # apt drops its privileges and must still get in
    return path
