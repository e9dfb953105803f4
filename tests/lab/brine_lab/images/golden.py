# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Golden trees: the file system of a freshly installed Debian, as a tar, built once for all hosts of a release."""

from __future__ import annotations

from pathlib import Path

from brine_lab.base.lab import FILES, Lab, cache, recipe_hash
from brine_lab.base.lock import locked
from brine_lab.base.say import say
from brine_lab.images import trees

NETWORKD = "networkd"

RELEASES = ("bookworm", "trixie")
# What a fresh install with an SSH server has. Whatever a hypervisor needs beyond it is the roles' work.
PACKAGES = (
    "ca-certificates", "dbus", "iproute2", "iputils-ping", "kmod", "less", "libpam-systemd", "openssh-server",
    "procps", "python3", "python3-apt", "sudo", "systemd-sysv",
)  # fmt: skip
# What an installation with another network manager has besides.
MANAGERS: dict[str, dict[str, tuple[str, ...]]] = {
    NETWORKD: {},
    "ifupdown": {"bookworm": ("ifupdown", "isc-dhcp-client"), "trixie": ("ifupdown", "dhcpcd-base")},
    "networkmanager": dict.fromkeys(RELEASES, ("network-manager",)),
    # netplan has networkd configure what its files say.
    "netplan": dict.fromkeys(RELEASES, ("netplan.io", "udev")),
}
WITHOUT_NETWORKD = ("ifupdown", "networkmanager")
COPY = """\
cp -rT --no-preserve=ownership '{folder}' "$1"
"""
FINISH = """\
chroot "$1" systemctl enable systemd-networkd.service
rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname "$1"/etc/apt/apt.conf.d/99mmdebstrap
: > "$1"/etc/machine-id
"""
# All of it: in later releases each unit is enabled by itself.
DISABLE_NETWORKD = """\
chroot "$1" systemctl disable systemd-networkd.service systemd-networkd.socket systemd-networkd-wait-online.service
"""


def tree(lab: Lab, release: str, manager: str = NETWORKD) -> Path:
    """The tar of a release's golden tree with a network manager, built when it is not in the cache."""
    packages = (*PACKAGES, *MANAGERS[manager].get(release, ()))
    finish = FINISH + (DISABLE_NETWORKD if manager in WITHOUT_NETWORKD else "")
    folders = [FILES / name for name in ("host", manager) if (FILES / name).is_dir()]
    name = release if manager == NETWORKD else f"{release}-{manager}"
    key = recipe_hash(release, *folders, finish, *packages, *trees.sources(release))
    golden = cache() / "golden" / f"{name}-{key}.tar"
    trees.note_use(golden)
    if golden.exists():
        return golden
    with locked(f"golden-{name}"):
        if golden.exists():
            return golden
        golden.parent.mkdir(parents=True, exist_ok=True)
        trees.delete_unused(golden.parent)
        # Written beside its place, on a disk, and given its name when it is whole.
        unfinished = golden.with_suffix(".new.tar")
        directory = trees.scratch(f"golden-{name}")
        copying = "".join(COPY.format(folder=folder) for folder in folders)
        making = trees.mmdebstrap(release, unfinished, packages, variant="minbase", finish=copying + finish)
        trees.build(lab, directory, making, doing=f"golden tree {name}: building with mmdebstrap")
        unfinished.rename(golden)
        say(f"golden tree {name}: {golden.stat().st_size >> 20} MiB in {golden}")
    return golden
