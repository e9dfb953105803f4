# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wish for a seed: what a machine is to find at its first boot."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model import rules

DEFAULT_POOL = "default"
DEFAULT_USER = "ansible"


@dataclass(frozen=True)
class Seed:
    """What a machine finds at its first boot."""

    method: str = "nocloud"
    hostname: str = ""
    user: str = DEFAULT_USER
    authorized_keys: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    run_commands: tuple[t.Any, ...] = ()
    user_data: str | dict[str, t.Any] | None = None
    pool: str = DEFAULT_POOL


def _list(value: t.Any, where: str) -> Sequence[t.Any]:
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{value!r} is not a list", where=where)
    return value


def _command(value: t.Any, where: str) -> t.Any:
    """A command as cloud-init's runcmd takes it: a line for the shell, or a list of words."""
    if isinstance(value, (list, tuple)):
        return [rules.text(word, f"{where}[{index}]") for index, word in enumerate(value)]
    return rules.text(value, where)


_SEED_RULES: dict[str, rules.Rule] = {
    "method": rules.choice("nocloud", "none"),
    "hostname": rules.name,
    "user": rules.name,
    "authorized_keys": rules.list_of(rules.text),
    "packages": rules.list_of(rules.text),
    "run_commands": lambda value, where: tuple(_command(v, f"{where}[{i}]") for i, v in enumerate(_list(value, where))),
    "user_data": rules.text_or_mapping,
    "pool": rules.name,
}


def read_seed(value: t.Any, where: str) -> dict[str, t.Any]:
    """The keys of a seed that were given, checked, by the fields of Seed. Raises InputError with the place."""
    return rules.read_mapping(value, where, _SEED_RULES)
