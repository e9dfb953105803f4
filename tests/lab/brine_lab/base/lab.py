# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""Names and places of one lab. Everything it makes carries the lab's id, so two labs never collide."""

from __future__ import annotations

import hashlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

FILES = Path(__file__).resolve().parents[2] / "files"
TREES = Path("/var/lib/brine-virt-lab")


@dataclass(frozen=True)
class Lab:
    """A lab of a checkout: the one that has no name, or one beside it that has."""

    checkout: Path
    name: str = ""

    @property
    def id(self) -> str:
        """Six hex digits from path and name: short, because interface names have at most 15 characters."""
        # No path has a NUL in it, so no other checkout's lab is called the same.
        words = [str(self.checkout), *filter(None, [self.name])]
        return hashlib.sha256("\0".join(words).encode()).hexdigest()[:6]

    @property
    def command(self) -> str:
        """How this lab is called on the command line, for messages."""
        return "tests/lab/lab" + (f" --name {self.name}" if self.name else "")

    @property
    def state(self) -> Path:
        """Small files: keys, inventory, logs, choices made. Removed by `down`."""
        return self.checkout / ".build" / (f"lab-{self.name}" if self.name else "lab")

    @property
    def inventory(self) -> Path:
        return self.state / "inventory"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def trees(self) -> Path:
        """The hosts' root file systems. Removed by `down`."""
        return TREES / self.id

    @property
    def bridge(self) -> str:
        return f"bv{self.id}"

    @property
    def table(self) -> str:
        """The nftables table, and the comment on any rule put elsewhere."""
        return f"brine_virt_lab_{self.id}"

    def machine(self, host: str) -> str:
        """The container's name; systemd-nspawn calls its veth `vb-` + this, which must stay within 15 characters."""
        return f"{self.id}-{host}"

    def mark(self, role: str) -> str:
        return f"{self.id}:{role}"


def cache() -> Path:
    """Golden trees, guest images and packages, shared by all checkouts. `down` keeps it, `clean` removes it."""
    home = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    return Path(base) / "brine-virt-lab"


def this_lab(name: str = "") -> Lab:
    """The lab of this name in the checkout that this file stands in."""
    return Lab(Path(__file__).resolve().parents[4], name)


def recipe_hash(*parts: str | Path) -> str:
    """Twelve hex digits over texts and files (directories with all they hold): the key of a cached build."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode() + b"\0")
            continue
        files = sorted(p for p in part.rglob("*") if p.is_file()) if part.is_dir() else [part]
        for file in files:
            digest.update(str(file.relative_to(part)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
