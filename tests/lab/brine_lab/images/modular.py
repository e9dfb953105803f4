# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Packages of libvirt with modular daemons, which Debian has none of: built once, from Debian's source package."""

from __future__ import annotations

from pathlib import Path

from brine_lab.base.commands import run
from brine_lab.base.lab import FILES, Lab, cache, recipe_hash
from brine_lab.base.lock import locked
from brine_lab.base.say import say
from brine_lab.base.state import write
from brine_lab.images import trees

RELEASE = "bookworm"
PACKAGES = ("ca-certificates", "dpkg-dev")
# Where the packages are on a host, for its apt.
PLACE = "usr/local/share/libvirt-modular"
FINISH = """\
sed -n 's/^deb /deb-src /p' "$1"/etc/apt/sources.list > "$1"/etc/apt/sources.list.d/deb-src.list
cp '{folder}/build.sh' '{folder}/rules' "$1"/root/
chroot "$1" /root/build.sh /root/rules
tar --create --file '{target}' --directory "$1"/repository .
"""


def packages(lab: Lab) -> Path:
    """A tar with the packages and their index, built when it is not in the cache."""
    key = recipe_hash(RELEASE, FILES / "modular", FINISH, *PACKAGES, *trees.sources(RELEASE))
    built = cache() / "golden" / f"libvirt-modular-{RELEASE}-{key}.tar"
    trees.note_use(built)
    if built.exists():
        return built
    with locked("libvirt-modular"):
        if not built.exists():
            built.parent.mkdir(parents=True, exist_ok=True)
            trees.delete_unused(built.parent)
            # Written beside its place, and given its name when it is whole.
            unfinished = built.with_suffix(".new.tar")
            directory = trees.scratch("libvirt-modular")
            finish = FINISH.format(folder=FILES / "modular", target=unfinished)
            making = trees.mmdebstrap(RELEASE, directory / "tree", PACKAGES, variant="minbase", finish=finish)
            trees.build(lab, directory, making, doing="libvirt with modular daemons: building its packages")
            unfinished.rename(built)
            say(f"libvirt with modular daemons: {built.stat().st_size >> 20} MiB of packages in {built}")
    return built


def offer(lab: Lab, tree: Path) -> None:
    """Have the apt of a host, given its tree, take libvirt from these packages."""
    place = tree / PLACE
    place.mkdir(parents=True)
    run(["tar", "--extract", "--file", str(packages(lab)), "--directory", str(place)], mark=lab.mark("build"))
    write(tree / "etc/apt/sources.list.d/libvirt-modular.list", f"deb [trusted=yes] file:/{PLACE} ./\n")
    # Debian may have a later version by the time that these are used.
    write(
        tree / "etc/apt/preferences.d/libvirt-modular",
        "Package: libvirt*\nPin: version *+modular\nPin-Priority: 1001\n",
    )
