# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of libvirt and other programs that come from a full storage pool, said as what they are."""

from __future__ import annotations

import contextlib
import re
import typing as t

from ..._base.errors import VirtError
from ..._model.xml.disk_source import FILE
from ..connection import libvirt
from .full_disk import disk_full, no_space
from .pools import Pool

# strerror(3) of ENOSPC and EDQUOT, lvcreate(8), zfs(8): libvirt has them inside the words of what it ran.
_FULL = re.compile(
    r"no space left on device|disk quota exceeded|insufficient free (space|extents)|not enough free space|out of space",
    re.IGNORECASE,
)


@contextlib.contextmanager
def full_pool_named(pool: Pool, what: str, needed_bytes: int | None) -> t.Iterator[None]:
    """Inside the block, an error that comes from the pool being full is raised as a HostError that says so.

    what: what cannot be done then, in words. needed_bytes: what it takes at most.
    """
    try:
        yield
    except VirtError as exc:
        if not _FULL.search(exc.what):
            raise
        if pool.local and pool.source_type == FILE:
            raise disk_full(what, pool.path, needed_bytes, pool.name) from exc
        raise no_space(what, pool.path or pool.type, _free_bytes(pool), needed_bytes, pool.name) from exc


def _free_bytes(pool: Pool) -> int | None:
    """What libvirt finds now, or what it knew last; None when it does not say."""
    with contextlib.suppress(libvirt.libvirtError):
        pool.handle.refresh(0)
    try:
        return int(pool.handle.info()[3])
    except libvirt.libvirtError:
        return None
