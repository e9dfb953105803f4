# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rule for the name of a machine."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.reserved_names import reserved_meaning
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import validators


def machine_name(value: t.Any, where: str) -> str:
    """The rule for the name of a machine. Raises InputError."""
    clean = validators.name(value, where)
    meaning = reserved_meaning(clean)
    if meaning is not None:
        raise InputError(f"{clean!r} is {meaning}", where=where, hint="Choose another name for the machine")
    return clean
