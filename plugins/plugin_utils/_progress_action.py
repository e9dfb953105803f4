# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action of a module that takes long and needs nothing of the controller but to be watched."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ._progress import progress_shown


class ProgressAction(ActionBase):
    """Runs a module, and shows how far it is, unless it goes on in the background. module: its full name."""

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_check_mode = True
    _supports_async = True
    module: t.ClassVar[str]

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The result of the module."""
        super().run(tmp, task_vars)
        host = str((task_vars or {}).get("inventory_hostname") or "")
        in_background = bool(self._task.async_val) and not self._connection.has_native_async
        # Nobody reads on for a task that goes on in the background.
        shown = not (self._task.check_mode or self._task.async_val)
        with progress_shown(self._connection, dict(self._task.args), host, wanted=shown) as args:
            return dict(
                self._execute_module(
                    module_name=self.module, module_args=args, task_vars=task_vars, wrap_async=in_background
                )
            )
