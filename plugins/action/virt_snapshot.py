# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_snapshot: progress while it runs."""

from __future__ import annotations

from ansible_collections.brine.virt.plugins.plugin_utils._progress_action import ProgressAction


class ActionModule(ProgressAction):
    """Shows what each machine is at."""

    module = "brine.virt.virt_snapshot"
