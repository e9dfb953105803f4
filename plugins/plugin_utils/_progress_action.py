# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action of a module that takes long and needs nothing of the controller but to be watched."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ._progress import host_of, is_watched, progress_shown
from ._withhold import require_options


class ProgressAction(ActionBase):
    """Runs a module, and shows how far it is, unless it goes on in the background. module: its full name.

    begins_with_host: whether the lines do.
    """

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_check_mode = True
    _supports_async = True
    module: t.ClassVar[str]
    begins_with_host: t.ClassVar[bool] = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The result of the module."""
        super().run(tmp, task_vars)
        require_options(self._task.args)
        host = host_of(self._task, task_vars) if self.begins_with_host else ""
        in_background = bool(self._task.async_val) and not self._connection.has_native_async
        with progress_shown(self._connection, self.options(task_vars), host, wanted=is_watched(self._task)) as args:
            return dict(
                self._execute_module(
                    module_name=self.module, module_args=args, task_vars=task_vars, wrap_async=in_background
                )
            )

    def options(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """The options for the module; an action may know better what those of the task mean."""
        return dict(self._task.args)
