# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a backup, in the words of the task."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible.module_utils.parsing.convert_bool import boolean

from ..._base.errors import InputError, shown
from ..._host.backup.place import plain_path
from ..._host.backup.quiesce import AUTO
from ..._host.backup.trust import read_owner
from ..._model.backup.retention import Keep, read_keep

PRESENT, VERIFIED = "present", "verified"
_MOST_FREEZE_SECONDS = 600
_MOST_BESIDES = 100000


@dataclass(frozen=True)
class BackupOptions:
    """destination: the directory that all machines' backups are in, empty where a pool is named. full: no incremental
    one. full_every: of so many backups that are built on each other one is full. keep: None keeps all. merge_above: how
    many backups may be there besides those, None for one less than full_every. must_be_mounted: the directory that has
    to be a mount point, empty for the destination, None for none. owner: the number of the user who may own the
    destination besides root."""

    destination: str
    full: bool = False
    quiesce: str = AUTO
    freeze_seconds: int = 10
    full_every: int = 7
    keep: Keep | None = None
    merge_above: int | None = None
    verify: bool = False
    must_be_mounted: str | None = None
    lock_seconds: int = 300
    owner: int | None = None

    @property
    def most_besides(self) -> int:
        """How many backups may be there besides those that ``keep`` asks for, before any is merged."""
        return self.full_every - 1 if self.merge_above is None else self.merge_above


def read_backup_options(params: dict[str, t.Any]) -> BackupOptions:
    """The options of the task. Raises InputError for those that make no sense."""
    for name in params["name"]:
        if not name or "/" in name or name.startswith("."):
            raise InputError(f"{name!r} is not the name of a machine", where="name")
    if not params["name"]:
        raise InputError("no machine is named", where="name", hint="Give the names of the machines to back up")
    for option, least, most in (("full_every", 1, 10000), ("freeze_timeout", 1, _MOST_FREEZE_SECONDS)):
        if not least <= params[option] <= most:
            raise InputError(f"{params[option]} is not allowed", where=option, hint=f"Give {least} to {most}")
    merge_above = params["merge_above"]
    if merge_above is not None and not 0 <= merge_above <= _MOST_BESIDES:
        raise InputError(
            f"{merge_above} is not allowed", where="merge_above", hint=f"Give 0 to {_MOST_BESIDES}, or leave it out"
        )
    if merge_above is not None and params["keep"] is None:
        raise InputError("nothing is merged without keep", where="merge_above", hint="Give keep as well")
    return BackupOptions(
        destination=plain_path(params["dest"]),
        full=params["kind"] == "full",
        quiesce=params["quiesce"],
        freeze_seconds=params["freeze_timeout"],
        full_every=params["full_every"],
        keep=read_keep(params["keep"]),
        merge_above=merge_above,
        verify=params["verify"],
        must_be_mounted=_read_mounted(params["must_be_mounted"]),
        lock_seconds=params["lock_timeout"],
        owner=read_owner(params["owner"]),
    )


def _read_mounted(value: str) -> str | None:
    """What has to be a mount point, as BackupOptions has it. Raises InputError."""
    if value.startswith("/"):
        return plain_path(value)
    try:
        return "" if boolean(value) else None
    except TypeError as exc:
        raise InputError(
            f"{shown(value)} is not allowed", where="must_be_mounted", hint="Give true, false, or an absolute path"
        ) from exc
