# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_bridge_switch: confirms the change where the task says so."""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.plugin_utils._switch.action import SwitchAction


class ActionModule(SwitchAction):
    """Begins the change of a bridge, and confirms it."""

    module = "brine.virt.virt_bridge_switch"

    def lacking(self) -> str:
        return f"has not got the bridge {self._task.args.get('name')} as it should be"
