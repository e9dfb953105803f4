# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of keeping secrets: they leave the options of a task before a module is sent, and its result.

The other half is module_utils/_module.py. No module that is called like this needs Ansible's help to keep a secret
but for one option with ``no_log``.
"""

from __future__ import annotations

import secrets
import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleActionFail

from ..module_utils._model.withheld import OPTION, all_masked, as_option, masked, masks_of, placeholder
from ..module_utils._seeding.secret_values import without_secrets


def require_options(args: Mapping[t.Any, t.Any]) -> None:
    """Refuse in a task what only an action sends, beside the options of its module: it all begins with _, as no option
    does. A module cannot tell who has sent it."""
    for name in map(str, args):
        if name.startswith("_") and not name.startswith("_ansible_"):
            raise AnsibleActionFail(f"{name}: not for tasks")


class Withheld:
    """What is secret in the options of one task.

    beside: what else goes to the module and is no option of the task.
    args: the options as a module may have them, with placeholders, and with the values in an option of their own.
    """

    def __init__(self, options: Mapping[str, t.Any], beside: Mapping[str, t.Any] | None = None) -> None:
        self._nonce = secrets.token_hex(8)
        self._values: dict[str, t.Any] = {}
        self._found: set[str] = set()
        args = without_secrets(options, self._take_out)
        self._masks = masks_of(self._found)
        self.args = {**args, **(beside or {}), OPTION: as_option(self._values, self._masks)}

    def _take_out(self, value: t.Any, found: t.Collection[str]) -> str:
        self._found.update(found)
        mark = placeholder(self._nonce, len(self._values))
        # Ansible marks texts with where they come from, which JSON need not carry.
        self._values[mark] = str(value) if isinstance(value, str) else value
        return mark

    def cleaned(self, result: Mapping[str, t.Any]) -> dict[str, t.Any]:
        """The result of a module without what is secret; asterisks stand in its place."""
        return t.cast("dict[str, t.Any]", all_masked(dict(result), self._masks))

    def cleaned_text(self, text: str) -> str:
        """The same of a text, such as a complaint about the options."""
        return masked(text, self._masks)
