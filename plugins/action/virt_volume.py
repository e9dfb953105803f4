# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_volume: files are hashed here, and sent only where a volume lacks what is in them."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._host.images.stream import no_progress
from ansible_collections.brine.virt.plugins.module_utils._host.progress import ProgressMeter
from ansible_collections.brine.virt.plugins.plugin_utils._progress import show_of
from ansible_collections.brine.virt.plugins.plugin_utils._sending_action import SendingAction, host_of
from ansible_collections.brine.virt.plugins.plugin_utils._volume_files import have_volumes


class ActionModule(SendingAction):
    """Looks at each src, asks the module which of them its volumes lack, sends those, and lets the module go on."""

    module = "brine.virt.virt_volume"

    def have(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        check_mode = bool(self._task.check_mode)
        show = show_of(host_of(task_vars))
        return have_volumes(
            dict(self._task.args),
            find=self.local_path,
            ask=lambda args: self.run_module(args, task_vars),
            send=lambda path, subject, name: self.send(path, task_vars, subject, name),
            progress=lambda subject: no_progress if check_mode else ProgressMeter(show, subject).at,
        )
