# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a restore, in the words of the task."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..._base.errors import InputError
from ..._host.backup.place import plain_path
from ..._host.backup.trust import read_owner
from ..._host.storage.usage import AskElsewhere
from ..._model.backup.manifest import is_backup_id
from ..._model.spec.names import machine_name
from ..shared_volumes.answers import read_used_elsewhere

LATEST = "latest"


@dataclass(frozen=True)
class RestoreOptions:
    """source: the directory that all machines' backups are in, empty where a pool is named. machine: the name that the
    machine had. backup: an id, None for the newest. name: that of the restored machine. pool: for all volumes, None for
    the pool that each disk was in. disk: the only one that is restored, into a volume (volume) beside the machine.
    trust: take the definition as it is. owner: the number of the user who may own the source besides root. elsewhere:
    what all other hypervisors say of the volumes of a machine that is replaced, as in Usage."""

    source: str
    machine: str
    backup: str | None
    name: str
    pool: str | None
    disk: str | None
    volume: str | None
    replace: bool
    started: bool
    trust: bool
    lock_seconds: int
    owner: int | None = None
    elsewhere: AskElsewhere | None = None


def read_restore_options(params: dict[str, t.Any]) -> RestoreOptions:
    """The options of the task. Raises InputError for those that do not go together."""
    machine = params["machine"]
    if not machine or "/" in machine or machine.startswith("."):
        raise InputError(f"{machine!r} is not the name of a machine", where="machine")
    backup = params["backup"]
    if backup != LATEST and not is_backup_id(backup):
        raise InputError(
            f"{backup!r} is not the id of a backup",
            where="backup",
            hint="It is like 20261123T020000Z-full; or leave it out for the newest one",
        )
    name = machine if params["name"] is None else machine_name(params["name"], "name")
    volume = params["volume"]
    if volume is not None and (not volume or "/" in volume or volume.startswith(".")):
        raise InputError(f"{volume!r} is not the name of a volume", where="volume")
    if params["disk"] is None and volume is not None:
        raise InputError("it names the volume of one disk", where="volume", hint="Name the disk with disk")
    if params["disk"] is not None:
        for option in ("name", "replace", "started", "trust_definition"):
            if params[option]:
                raise InputError("a single disk is restored into a volume, and no machine is made", where=option)
    if params["replace"] and name != machine:
        raise InputError(
            "a machine is replaced only by a backup of its own", where="replace", hint="Leave out the new name"
        )
    return RestoreOptions(
        source=plain_path(params["src"]),
        machine=machine,
        backup=None if backup == LATEST else backup,
        name=name,
        pool=params["pool"],
        disk=params["disk"],
        volume=volume,
        replace=params["replace"],
        started=params["started"],
        trust=params["trust_definition"],
        lock_seconds=params["lock_timeout"],
        owner=read_owner(params["owner"]),
        elsewhere=read_used_elsewhere(params["used_elsewhere"], "used_elsewhere"),
    )
