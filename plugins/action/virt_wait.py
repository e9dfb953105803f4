# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_wait: shows in which stage the machines are while the module waits."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.brine.virt.plugins.plugin_utils._progress import progress_shown

_MODULE = "brine.virt.virt_wait"


class ActionModule(ActionBase):
    """Runs the module, and shows its lines meanwhile, each with the hypervisor's name."""

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_check_mode = True
    _supports_async = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The result of the module."""
        super().run(tmp, task_vars)
        in_background = bool(self._task.async_val) and not self._connection.has_native_async
        host = (task_vars or {}).get("inventory_hostname")
        # Nobody reads on for a task that goes on in the background.
        shown = not (self._task.check_mode or self._task.async_val)
        with progress_shown(self._connection, dict(self._task.args), host, wanted=shown) as args:
            return dict(
                self._execute_module(
                    module_name=_MODULE, module_args=args, task_vars=task_vars, wrap_async=in_background
                )
            )
