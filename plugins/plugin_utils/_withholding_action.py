# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action of a module that needs the controller for nothing but to keep its secrets out of logs and output, and to
be watched where it takes long."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ._progress import host_of, is_watched, progress_shown
from ._withhold import Withheld, require_options


class WithholdingAction(ActionBase):
    """Runs a module, in the background as well (async), with the secrets beside the options. module: its full name.

    tells_progress: whether the module says how far it is, which is shown unless it goes on in the background.
    """

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_check_mode = True
    _supports_async = True
    module: t.ClassVar[str]
    tells_progress: t.ClassVar[bool] = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The result of the module."""
        super().run(tmp, task_vars)
        require_options(self._task.args)
        host = host_of(self._task, task_vars)
        withheld = Withheld(self._task.args, self.beside(host))
        wanted = self.tells_progress and is_watched(self._task)
        with progress_shown(self._connection, withheld.args, host, wanted=wanted) as args:
            result = self._execute_module(
                module_name=self.module,
                module_args=args,
                task_vars=task_vars,
                wrap_async=bool(self._task.async_val) and not self._connection.has_native_async,
            )
        return withheld.cleaned(result)

    def beside(self, host: str) -> dict[str, t.Any]:  # noqa: ARG002 - one module's is
        """What the module gets beside the options, besides their secrets. host: the inventory's name of the host."""
        return {}
