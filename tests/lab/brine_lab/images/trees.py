# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Build Debian file trees with mmdebstrap, in memory where there is enough of it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from brine_lab.base.commands import run_long
from brine_lab.base.lab import FILES, Lab, cache
from brine_lab.network import package_cache

KEEP_DAYS = 14
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def sources(release: str, *, contrib: bool = False) -> list[str]:
    """The lines of /etc/apt/sources.list of a release; contrib: with Debian's component of that name."""
    components = "main contrib" if contrib else "main"
    return [
        f"deb http://deb.debian.org/debian {release} {components}",
        f"deb http://deb.debian.org/debian {release}-updates {components}",
        f"deb http://deb.debian.org/debian-security {release}-security {components}",
    ]


def mmdebstrap(
    release: str, target: Path, packages: Sequence[str], *, variant: str, finish: str, lines: Sequence[str] = ()
) -> list[str]:
    """The command that builds a tree at `target` (a tar or a directory); `finish` is shell that sees the tree as $1.

    lines: those of its sources.list, if they are others than a release has.
    """
    hook = "extract" if variant == "extract" else "customize"  # the last one that the variant comes to
    return [
        "mmdebstrap",
        "--mode=root",
        f"--variant={variant}",
        "--architectures=amd64",
        f"--include={','.join(packages)}",
        f"--keyring={KEYRING}",
        "--aptopt=APT::Install-Recommends false",
        f"--{hook}-hook=set -e; {finish}",
        release,
        str(target),
        *(lines or sources(release)),
    ]


def scratch(name: str) -> Path:
    """The scratch directory of a build, empty: what a killed build left there is deleted."""
    return fresh_directory(cache() / "tmp" / name)


def build(lab: Lab, directory: Path, argv: Sequence[str], *, doing: str) -> None:
    """Run a build with its scratch directory in memory, its packages through the package cache, its output in a log."""
    in_memory = ["unshare", "--mount", "--propagation=private", "--", str(FILES / "build/scratch.sh"), str(directory)]
    log = cache() / "logs" / f"{directory.name}.log"
    with package_cache.serving() as proxy:
        run_long(
            [*in_memory, *argv],
            doing=doing,
            mark=lab.mark("build"),
            log=log,
            extra_env={**proxy, "TMPDIR": str(directory)},
        )
    shutil.rmtree(directory)


def note_use(*files: Path) -> None:
    """Note that cached files are in use, where they exist."""
    for file in files:
        if file.exists():
            os.utime(file)


def delete_unused(directory: Path) -> None:
    """Delete what no checkout has used for a while; checkouts with other recipes share the cache."""
    for file in directory.iterdir():
        if time.time() - file.stat().st_mtime > KEEP_DAYS * 86400:
            file.unlink()


def fresh_directory(path: Path) -> Path:
    """An empty directory that apt, which drops its privileges, can look into."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    path.chmod(0o755)
    return path
