# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the backups of all machines are: a directory, which may be that of a storage pool.

libvirt lists what is directly in the directory of a pool. A machine's backups are a directory there, which to libvirt
is a volume of type ``dir``, and no disk to anything here; what is in it, libvirt does not see.
"""

from __future__ import annotations

from ..._base.errors import UnsupportedError
from ..connection import VirConnect
from ..storage.pools import Pools
from .directory import require_destination

_DIRECTORIES = ("dir", "fs", "netfs")


def plain_path(path: str | None) -> str:
    """The path that a task names, without slashes at its end; empty where it names none."""
    return "" if path is None else path.rstrip("/") or path[:1]


def require_place(conn: VirConnect, path: str, pool: str | None, where: str, *, mounted: str | None = None) -> str:
    """The directory that all machines' backups are in: path, or that of a pool, where one is named.

    where: the option that names a path; that for a pool has ``_pool`` after it. mounted: as of require_destination.
    Raises VirtError.
    """
    if pool is not None:
        where = f"{where}_pool"
        found = Pools(conn).get(pool, where)
        if found.type not in _DIRECTORIES:
            raise UnsupportedError(
                f"storage pool {pool!r} is of type {found.type}, and backups are files in directories",
                where=where,
                hint="Choose one of type dir, fs or netfs",
            )
        path = found.path
    require_destination(path, where, mounted=mounted)
    return path
