# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_volume: files are hashed here, and sent only where a volume lacks what is in them."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.plugin_utils._sending_action import SendingAction
from ansible_collections.brine.virt.plugins.plugin_utils._volumes.files import have_volumes


class ActionModule(SendingAction):
    """Looks at each src, asks the module which of them its volumes lack, sends those, and lets the module go on."""

    module = "brine.virt.virt_volume"

    def have(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        return have_volumes(
            dict(self._task.args),
            find=self.local_path,
            ask=lambda args: self.run_module(args, task_vars),
            send=lambda path, subject, name: self.send(path, task_vars, subject, name),
            progress=lambda subject: self.progress_of(subject, task_vars),
        )
