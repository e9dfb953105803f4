# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_wait: shows in which stage the machines are while the module waits."""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.plugin_utils._progress_action import ProgressAction


class ActionModule(ProgressAction):
    """Shows the module's lines, each with the hypervisor's name."""

    module = "brine.virt.virt_wait"
