# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action of a module that needs the controller for nothing but to keep its secrets out of logs and output."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._model.withheld import OPTION
from ._withhold import Withheld


class WithholdingAction(ActionBase):
    """Runs a module, in the background as well (async), with the secrets beside the options. module: its full name."""

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_check_mode = True
    _supports_async = True
    module: t.ClassVar[str]

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The result of the module."""
        super().run(tmp, task_vars)
        beside = self.beside(task_vars or {})
        for name in (OPTION, *beside):
            if name in self._task.args:
                raise AnsibleActionFail(f"{name}: not for tasks")
        withheld = Withheld(self._task.args, beside)
        result = self._execute_module(
            module_name=self.module,
            module_args=withheld.args,
            task_vars=task_vars,
            wrap_async=bool(self._task.async_val) and not self._connection.has_native_async,
        )
        return withheld.cleaned(result)

    def beside(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        """What the module gets beside the options, besides their secrets."""
        return {}
