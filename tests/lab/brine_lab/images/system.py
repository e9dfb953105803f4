# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""What hosts with a kernel of their own boot from: a golden tree with that kernel, on a disk, built once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from brine_lab.base.commands import run
from brine_lab.base.lab import FILES, Lab, cache, recipe_hash
from brine_lab.base.lock import locked
from brine_lab.base.say import say
from brine_lab.base.state import UML, VM
from brine_lab.images import golden, trees

# Besides what every host has. AppArmor comes with the kernel of every Debian installation, as a recommendation.
PACKAGES = ("apparmor", "e2fsprogs", "udev")
# Not the kernel for clouds: that one has no bonding, NFS server or iSCSI. User Mode Linux is copied from this machine.
KERNELS = {VM: ("initramfs-tools", "linux-image-amd64", "lz4"), UML: ()}
UML_PACKAGES = {"user-mode-linux": "linux.uml"}
# Of what the role virt_hypervisor installs, all that takes minutes under emulation, and what its storage is tried with.
PREPARED = (
    "dmidecode", "dnsmasq-base", "libarchive-tools", "libvirt-clients", "libvirt-daemon-system", "libxml2-utils",
    "lvm2", "netcat-openbsd", "nfs-common", "nfs-kernel-server", "open-iscsi", "ovmf", "python3-cryptography",
    "python3-libvirt", "python3-lxml", "python3-yaml", "qemu-system-x86", "qemu-utils", "swtpm", "swtpm-tools", "tgt",
    "zstd",
)  # fmt: skip
# Of Debian's contrib: the kernel module is built from its source, for each kernel that is there.
ZFS = ("dkms", "libvirt-daemon-driver-storage-zfs", "linux-headers-amd64", "zfs-dkms", "zfsutils-linux")
# The disk has no more blocks than are written.
SIZE_MIB = 16 * 1024


@dataclass(frozen=True)
class System:
    """Files that many hosts share and none writes to: a raw disk with one file system, kernel and initramfs.

    User Mode Linux has no initramfs: there is no such file.
    """

    disk: Path
    kernel: Path
    initramfs: Path


def system(lab: Lab, release: str, kind: str, *, prepared: bool, zfs: bool = False) -> System:
    """The system of a release for hosts of a kind, built when it is not in the cache.

    prepared: with libvirt and QEMU on it. zfs: with ZFS too.
    """
    packages = (*golden.PACKAGES, *PACKAGES, *KERNELS[kind], *(PREPARED if prepared else ()), *(ZFS if zfs else ()))
    name = f"{kind}-{release}{'-prepared' if prepared else ''}{'-zfs' if zfs else ''}"
    sources = trees.sources(release, contrib=zfs)
    folders = [FILES / kind, FILES / "own_kernel", *([FILES / "host"] if kind == UML else [])]
    given = [_version_of_uml(lab)] if kind == UML else []
    key = recipe_hash(release, *folders, *given, str(SIZE_MIB), *packages, *sources)
    stem = cache() / "golden" / f"{name}-{key}"
    disk, linux, initramfs = (stem.with_name(f"{stem.name}.{what}") for what in ("raw", "vmlinuz", "initrd"))
    built = System(disk, linux, initramfs)
    trees.note_use(disk, linux, initramfs)
    if built.disk.exists():
        return built
    with locked(f"golden-{name}"):
        if not built.disk.exists():
            stem.parent.mkdir(parents=True, exist_ok=True)
            trees.delete_unused(stem.parent)
            directory = trees.scratch(f"golden-{name}")
            finish = f"""'{FILES / kind / "finish.sh"}' "$1\""""
            tree = trees.mmdebstrap(
                release, directory / "tree", packages, variant="minbase", finish=finish, lines=sources
            )
            making = [str(FILES / "own_kernel/disk.sh"), str(directory), str(SIZE_MIB), str(stem), *tree]
            trees.build(lab, directory, making, doing=f"disk {name}: building with mmdebstrap")
            say(f"disk {name}: {built.disk.stat().st_blocks >> 11} MiB in {built.disk}")
    return built


def _version_of_uml(lab: Lab) -> str:
    """The version of this machine's package, which kernel and modules come from."""
    asking = ["dpkg-query", "--show", "--showformat=${Version}", *UML_PACKAGES]
    return run(asking, mark=lab.mark("build")).stdout
