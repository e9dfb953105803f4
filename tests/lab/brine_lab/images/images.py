# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Guest images, built once and cached: a real Debian with cloud-init, and a tiny system that boots in seconds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from brine_lab.base.lab import FILES, Lab, cache, recipe_hash
from brine_lab.base.lock import locked
from brine_lab.base.say import say
from brine_lab.images import trees


@dataclass(frozen=True)
class Recipe:
    """How an image is made: packages of a release, then `<files>/finish.sh`, then a disk of `size_mib`."""

    name: str
    variant: str
    packages: tuple[str, ...]
    size_mib: int
    says_when_up: str  # on its serial console
    files: str
    release: str = "bookworm"


_DEBIAN = (
    "ca-certificates", "cloud-guest-utils", "cloud-init", "dbus", "e2fsprogs", "initramfs-tools", "iproute2",
    "iputils-ping", "kmod", "less", "libpam-systemd", "linux-image-cloud-amd64", "lz4", "netbase", "openssh-server",
    "procps", "python3", "qemu-guest-agent", "sudo", "systemd-sysv", "udev",
)  # fmt: skip
# Each release has its network configured by what Debian's own cloud images have: ifupdown once, netplan now.
DEBIAN = Recipe("debian", "minbase", (*_DEBIAN, "ifupdown", "isc-dhcp-client"), 2048, "finished at", "debian")
DEBIAN_13 = Recipe(
    "debian13", "minbase", (*_DEBIAN, "netplan.io", "systemd-resolved"), 2048, "finished at", "debian", "trixie"
)
TINY = Recipe("tiny", "extract", ("busybox-static", "linux-image-cloud-amd64"), 32, "tiny guest is up", "tiny")
RECIPES = (TINY, DEBIAN, DEBIAN_13)
# Those that most tests need.
USUAL = (TINY, DEBIAN)


@dataclass(frozen=True)
class Image:
    """A finished qcow2 image."""

    path: Path
    sha256: str


def image(lab: Lab, recipe: Recipe) -> Image:
    """The image of a recipe, built when it is not in the cache."""
    values = (recipe.variant, *recipe.packages, str(recipe.size_mib), *trees.sources(recipe.release))
    key = recipe_hash(FILES / recipe.files, FILES / "build", *values)
    path = cache() / "images" / f"{recipe.name}-{key}.qcow2"
    checksum = path.with_suffix(".sha256")
    trees.note_use(path, checksum)
    if not checksum.exists():
        with locked(f"image-{recipe.name}"):
            if not checksum.exists():
                _build(lab, recipe, path, checksum)
    return Image(path, checksum.read_text().strip())


def _build(lab: Lab, recipe: Recipe, path: Path, checksum: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    trees.delete_unused(path.parent)
    directory = trees.scratch(f"image-{recipe.name}")
    finish = f"""'{FILES / recipe.files / "finish.sh"}' "$1\""""
    tree = trees.mmdebstrap(recipe.release, directory / "tree", recipe.packages, variant=recipe.variant, finish=finish)
    disk = [str(FILES / "build/disk.sh"), str(directory), str(recipe.size_mib), str(path), *tree]
    trees.build(lab, directory, disk, doing=f"guest image {recipe.name}: building")
    checksum.write_text(hashlib.sha256(path.read_bytes()).hexdigest() + "\n")  # last: it says that the image is whole
    say(f"guest image {recipe.name}: {path.stat().st_size >> 20} MiB in {path}")
