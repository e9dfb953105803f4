# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on a device before a pool is made from it, and what is there already: volume groups and ZFS datasets.

libvirt looks for file systems itself before it makes one or a volume group, but takes a device that it cannot read for
an empty one (virStorageBackendBLKIDFindFS in its src/storage/storage_util.c, 9.0 to 11.3), and for ZFS it does not look
at all (virStorageBackendZFSBuildPool in its src/storage/storage_backend_zfs.c). What is unknown is not empty here.
"""

from __future__ import annotations

import glob
import os
import stat
import typing as t

from ...._base.commands import Answer, Program
from ...._base.errors import ConflictError, NotFoundError
from ...connection import VirConnect
from ..usage import Usage
from ..volume_facts import is_busy

_SECONDS = 60
_SYSFS = "/sys/class/block"


def require_blank(path: str, where: str) -> None:
    """Raise an error of ours unless a device is there, nothing is on it that is known, and this host does not use it.

    where: its place in the input.
    """
    try:
        found = os.stat(path)
    except OSError as exc:
        raise NotFoundError(f"{path} cannot be inspected: {exc.strerror}", where=where) from exc
    if not stat.S_ISBLK(found.st_mode):
        raise ConflictError(f"{path} is not a block device", where=where)
    if is_busy(path):
        raise ConflictError(
            f"{path} is in use on this host (mounted, swap, RAID, LVM, multipath)",
            where=where,
            hint="Nothing is made on it. lsblk shows what uses it",
        )
    signatures = signatures_on(path)
    if signatures:
        raise ConflictError(
            f"{path} is not empty: it has {', '.join(signatures)}",
            where=where,
            hint=f"Nothing is made over it. If it may go: wipefs --all {path}",
        )


def signatures_on(path: str) -> list[str]:
    """File systems, partition tables and members of RAID, LVM and ZFS that wipefs(8) sees, in its words, each once.

    Raises HostError where it cannot read the device, UnsupportedError where there is no wipefs.
    """
    answer = _run("wipefs", ["--no-act", "--noheadings", "--output", "TYPE", path], "util-linux")
    return sorted(set(answer.require(f"what is on {path} cannot be read").text.split()))


def require_unused_device(conn: VirConnect, path: str, where: str) -> None:
    """Raise ConflictError where a machine has a device, the disk that it is a part of, or a part of it; or may have."""
    require_not_used_by_machine(conn, [path], where, "Nothing is made on it")


def require_not_used_by_machine(
    conn: VirConnect,
    paths: t.Sequence[str],
    where: str,
    hint: str = "Two systems that use one file system destroy it: take the disk out of the machine first",
) -> None:
    """Raise ConflictError where a machine has one of these devices, as require_unused_device. hint: what follows."""
    if not paths:
        return
    usage = Usage(conn)
    for path in paths:
        users = sorted({user.words for same in _overlapping(path) for user in usage.users_at(same)})
        if users:
            raise ConflictError(f"{path} is used by {', '.join(users)}", where=where, hint=hint)
        # Whatever is backed by a device could be read only from a device that has something on it.
        unknown = [unknown.words for unknown in usage.unknown if unknown.writes]
        if unknown:
            raise ConflictError(
                f"it cannot be determined whether a machine uses {path}: {'; '.join(unknown)}", where=where
            )


def _overlapping(path: str) -> list[str]:
    """A device, the disk that it is a partition of, and its own partitions, as the kernel calls them."""
    name = os.path.realpath(path)
    if not name.startswith("/dev/"):
        return [path]
    # sysfs has these names without slashes.
    entry = os.path.realpath(os.path.join(_SYSFS, name[len("/dev/") :].replace("/", "!")))
    parts = sorted(found.split("/")[-2] for found in glob.glob(f"{glob.escape(entry)}/*/partition"))
    if os.path.exists(f"{entry}/partition"):
        parts.append(os.path.basename(os.path.dirname(entry)))
    return [path, *(f"/dev/{part.replace('!', '/')}" for part in parts)]


def devices_of_group(name: str) -> list[str] | None:
    """The physical volumes of a volume group; None where there is no such group. lvm(8).

    Raises HostError, and UnsupportedError where there is no LVM.
    """
    answer = _run("pvs", ["--noheadings", "--separator", "\t", "--options", "vg_name,pv_name"], "lvm2")
    lines = answer.require("the volume groups cannot be listed").text.splitlines()
    rows = (line.strip().split("\t") for line in lines)
    return [row[1] for row in rows if len(row) == 2 and row[0] == name] or None


def has_dataset(name: str) -> bool:
    """Whether there is a ZFS pool or dataset of this name (zfs-list(8)). Raises UnsupportedError without ZFS."""
    answer = _run("zfs", ["list", "-H", "-o", "name"], "zfsutils-linux")
    return name in answer.require("the ZFS datasets cannot be listed").text.splitlines()


def real_paths(paths: t.Iterable[str]) -> set[t.Hashable]:
    """The same for all names that devices have."""
    return {os.path.realpath(path) for path in paths}


def _run(program: str, arguments: list[str], package: str) -> Answer:
    found = Program(program, f"{program} is not installed on this host", f"Install the package {package}")
    return found.run(*arguments, late=f"{program} did not end within {_SECONDS} s", timeout_seconds=_SECONDS)
