# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""A control group of its own for every host.

Without one, all containers on a machine that has no systemd as process 1 share the group `payload`: every host's
systemd would see the other hosts' services as its own, and one host's `systemctl stop` could end another's daemon.
"""

from __future__ import annotations

from pathlib import Path

from brine_lab.base.lab import Lab

ROOT = Path("/sys/fs/cgroup")
# The hierarchies that systemd itself uses: cgroup v2, or v1's named one with v2 beside it.
HIERARCHIES = (ROOT, ROOT / "unified", ROOT / "systemd")


def into_own(lab: Lab, host: str) -> list[str]:
    """Words to put before a host's command that start it in its own group.

    The machine's systemd makes the group where there is one; otherwise it is made by hand.
    """
    if Path("/run/systemd/system").is_dir():
        unit = f"--unit=brine-virt-lab-{lab.machine(host)}"
        return ["systemd-run", "--quiet", "--scope", "--collect", "--property=Delegate=yes", unit]
    directories = [hierarchy / f"brine-virt-lab-{lab.id}" / host for hierarchy in _hierarchies()]
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
    enter = 'until [ "$1" = -- ]; do echo $$ > "$1/cgroup.procs" || exit; shift; done; shift; exec "$@"'
    return ["sh", "-c", enter, "sh", *map(str, directories), "--"]


def remove(lab: Lab) -> None:
    """Remove the groups made by hand, from the innermost out; a group has no files to be deleted first."""
    for hierarchy in _hierarchies():
        top = hierarchy / f"brine-virt-lab-{lab.id}"
        for directory in sorted((p for p in top.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
            directory.rmdir()
        if top.exists():
            top.rmdir()


def _hierarchies() -> list[Path]:
    return [hierarchy for hierarchy in HIERARCHIES if (hierarchy / "cgroup.procs").exists()]
