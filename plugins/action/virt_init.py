# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_init: secrets go to the hypervisor beside the options, and into no log or output; what
takes long is told meanwhile."""

from __future__ import annotations

import typing as t

from ansible_collections.brine.virt.plugins.module_utils._model.withheld import HOST_NAME
from ansible_collections.brine.virt.plugins.plugin_utils._withholding_action import WithholdingAction


class ActionModule(WithholdingAction):
    """Runs the module, which is told what the inventory calls its host."""

    module = "brine.virt.virt_init"
    tells_progress = True

    def beside(self, host: str) -> dict[str, t.Any]:
        """The name that everything else in the output has."""
        return {HOST_NAME: host}
