# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Golden trees: the file system of a freshly installed Debian, as a tar, built once for all hosts of a release."""

from __future__ import annotations

from pathlib import Path

from brine_lab.base.lab import FILES, Lab, cache, recipe_hash
from brine_lab.base.lock import locked
from brine_lab.base.say import say
from brine_lab.images import trees

RELEASES = ("bookworm", "trixie")
# What a fresh install with an SSH server has. Whatever a hypervisor needs beyond it is the roles' work.
PACKAGES = (
    "ca-certificates", "dbus", "iproute2", "iputils-ping", "kmod", "less", "libpam-systemd", "openssh-server",
    "procps", "python3", "python3-apt", "sudo", "systemd-sysv",
)  # fmt: skip
FINISH = """\
cp -rT --no-preserve=ownership '{files}' "$1"
chroot "$1" systemctl enable systemd-networkd.service
rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname "$1"/etc/apt/apt.conf.d/99mmdebstrap
: > "$1"/etc/machine-id
"""


def tree(lab: Lab, release: str) -> Path:
    """The tar of a release's golden tree, built when it is not in the cache."""
    key = recipe_hash(release, FILES / "host", FINISH, *PACKAGES, *trees.sources(release))
    golden = cache() / "golden" / f"{release}-{key}.tar"
    trees.note_use(golden)
    if golden.exists():
        return golden
    with locked(f"golden-{release}"):
        if golden.exists():
            return golden
        golden.parent.mkdir(parents=True, exist_ok=True)
        trees.delete_unused(golden.parent)
        # Written beside its place, on a disk, and given its name when it is whole.
        unfinished = golden.with_suffix(".new.tar")
        finish = FINISH.format(files=FILES / "host")
        directory = trees.scratch(f"golden-{release}")
        making = trees.mmdebstrap(release, unfinished, PACKAGES, variant="minbase", finish=finish)
        trees.build(lab, directory, making, doing=f"golden tree {release}: building with mmdebstrap")
        unfinished.rename(golden)
        say(f"golden tree {release}: {golden.stat().st_size >> 20} MiB in {golden}")
    return golden
