# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of new snapshots."""

from __future__ import annotations

import datetime
import re

from .._base.errors import InputError

# libvirt makes the name that of a file, and qemu-img takes it as a word of its command line.
_NAME = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.:+@-]*\Z")
_LONGEST_NAME = 100


def default_name(machine: str, seconds: float) -> str:
    """The name of a snapshot of a machine that is taken at this time without another name."""
    when = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    # A machine may have other characters in its name, and a name as long as a snapshot's may be.
    word = re.sub(r"[^A-Za-z0-9_.:+@-]", "_", machine).lstrip(".-+@:") or "snapshot"
    return f"{word[: _LONGEST_NAME - 16]}-{when:%Y%m%d-%H%M%S}"


def check_name(name: str, where: str) -> None:
    """Raise InputError for what cannot be the name of a new snapshot."""
    if not _NAME.match(name) or len(name) > _LONGEST_NAME:
        raise InputError(
            f"{name!r} cannot be the name of a snapshot",
            where=where,
            hint=f"Use up to {_LONGEST_NAME} letters, digits and the characters _ . : + @ -, beginning with one of the "
            "first three",
        )
    if name.isdigit():
        # In a qcow2 file each snapshot has a number too, and QEMU takes such a name for that of another one.
        raise InputError(
            f"{name!r} has no letter, and QEMU would take it for the number of another snapshot",
            where=where,
            hint=f"Choose another name, such as s{name}",
        )
