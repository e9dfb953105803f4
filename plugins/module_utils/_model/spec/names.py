# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine and a storage pool may be called. Salt Virt let a pool be a directory as well."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..._base.errors import InputError
from ..reserved_names import reserved_meaning
from .fields import validators


def machine_name(value: t.Any, where: str) -> str:
    """The rule for the name of a machine. Raises InputError."""
    clean = validators.name(value, where)
    meaning = reserved_meaning(clean)
    if meaning is not None:
        raise InputError(f"{clean!r} is {meaning}", where=where, hint="Choose another name for the machine")
    return clean


class DirectoryAsPoolError(InputError):
    """A directory where a pool is to be named. path: the directory, without a slash at its end."""

    def __init__(self, path: str, where: str | None, hint: str) -> None:
        self.path = path.rstrip("/") or "/"
        super().__init__(f"{path!r} is a directory, not the name of a storage pool", where=where, hint=hint)


def pool_name(value: t.Any, where: str) -> str:
    """The name of a storage pool. Raises InputError, for a path DirectoryAsPoolError."""
    if isinstance(value, str) and "/" in value:
        raise DirectoryAsPoolError(value, where, "virsh pool-list --all --details lists the pools with their names")
    return validators.name(value, where)


def with_pool_named(error: DirectoryAsPoolError, names: Mapping[str, str]) -> DirectoryAsPoolError:
    """The same complaint, with the name of the pool at that path, if there is one. names: of pools, by path."""
    name = names.get(error.path)
    if name is None:
        return error
    return DirectoryAsPoolError(error.path, error.where, f"Set pool: {name}, the pool at that path")
