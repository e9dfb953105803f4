# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a filter that decides something takes in, and what it answers when it cannot.

An exception in a template comes out as several lines of Ansible's own about the task that holds the template, with the
sentence in each of them. A playbook therefore has the mistakes given back, and shows them with a task of its own.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Mapping

from ansible._internal._templating._utils import Omit
from ansible.errors import AnsibleFilterError

from ..module_utils._base.errors import VirtError

CHOICES = ("raise", "return")


def answer(
    work: t.Callable[[], dict[str, t.Any]], errors: str, prefix: str = "", clean: t.Callable[[str], str] = str
) -> dict[str, t.Any]:
    """What work gives, with an empty list ``errors``; or, with errors "return", the mistakes alone as that list.

    prefix: what stands before the sentence of an exception. clean: takes out of a sentence what is secret.
    Raises AnsibleFilterError with errors "raise".
    """
    if errors not in CHOICES:
        raise AnsibleFilterError(f"{prefix}errors: {errors!r} is not a choice. Choose {' or '.join(CHOICES)}")
    try:
        return {**work(), "errors": []}
    except VirtError as exc:
        if errors == "return":
            return {"errors": clean(str(exc)).splitlines()}
        # Ansible shows the cause of an exception too, which has the sentence as it was.
        raise AnsibleFilterError(f"{prefix}{clean(str(exc))}") from None


def without_omitted(value: t.Any) -> t.Any:
    """Data without what a playbook leaves out with ``default(omit)``.

    Ansible takes it out of the options of tasks, and leaves that to filters themselves (docstring of its _OmitType).
    """
    if isinstance(value, Mapping):
        return {key: without_omitted(item) for key, item in value.items() if item is not Omit}
    if isinstance(value, (list, tuple)):
        return [without_omitted(item) for item in value if item is not Omit]
    return value


def with_names(filters: t.Mapping[str, t.Callable[..., t.Any]]) -> dict[str, t.Callable[..., t.Any]]:
    """The filters by name, with our errors as Ansible's, which say whose they are."""

    def named(name: str, work: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
        @functools.wraps(work)
        def wrapped(*arguments: t.Any, **options: t.Any) -> t.Any:
            try:
                return work(*arguments, **options)
            except VirtError as exc:
                raise AnsibleFilterError(f"brine.virt.{name}: {exc}") from None

        return wrapped

    return {name: named(name, work) for name, work in filters.items()}
