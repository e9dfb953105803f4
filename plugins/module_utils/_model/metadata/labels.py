# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels, ``ssd`` or ``zone=a``: what a hypervisor is, and what a machine asks of the one that it is on."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..._base.errors import InputError, inside
from ..spec.fields import validators

_LABEL = validators.pattern(
    r"[A-Za-z0-9][A-Za-z0-9._/-]{0,62}(=[A-Za-z0-9._/-]{1,63})?", "a label", "ssd, or zone=a, or as a mapping zone: a"
)


def read_labels(value: t.Any, where: str) -> tuple[str, ...]:
    """The labels that a hypervisor has: from a list of texts, or a mapping, in which true is the bare word.

    false and null in the mapping say that the hypervisor does not have the label. Raises InputError.
    """
    if isinstance(value, Mapping):
        return _sorted(_pair(key, item, where) for key, item in value.items() if not _is_no(item))
    return _sorted(validators.list_of(_LABEL)(value, where))


def read_wanted_labels(value: t.Any, where: str) -> tuple[str, ...]:
    """The labels that a machine asks for, in the same shapes. Raises InputError, also for one that is not wanted."""
    for key, item in value.items() if isinstance(value, Mapping) else ():
        if _is_no(item):
            raise InputError(
                "a machine can only ask for labels that its hypervisor has",
                where=inside(where, validators.written(key)),
                hint="Leave it out, or give the other hypervisors a label to ask for",
            )
    return read_labels(value, where)


def _is_no(item: t.Any) -> bool:
    return item is None or item is False


def _pair(key: t.Any, item: t.Any, where: str) -> str:
    word = validators.written(key)
    text = word if item is True else f"{word}={validators.text(item, inside(where, word))}"
    return str(_LABEL(text, where))


def _sorted(labels: t.Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(labels)))
