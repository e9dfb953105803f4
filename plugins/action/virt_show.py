# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of virt_show: print a text as it stands, or its data. Everything happens on the controller."""

from __future__ import annotations

import json
import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.brine.virt.plugins.plugin_utils._reports.table import printable_text


class ActionModule(ActionBase):
    """Prints; changes nothing, sends nothing anywhere."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the module's documentation."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _spec, arguments = self.validate_argument_spec(
            {
                "text": {"type": "str", "required": True},
                "facts": {"type": "raw"},
                "output": {"type": "str", "choices": ["text", "json"], "default": "text"},
                "failure": {"type": "str", "default": ""},
            }
        )
        text, facts = arguments["text"], arguments["facts"]
        # YAML has values that JSON has not, such as a date.
        shown = json.dumps(facts, indent=2, default=str) if arguments["output"] == "json" else printable_text(text)
        if shown and not self._task.no_log:
            Display().display(shown)
        if arguments["failure"]:
            # Ansible prints all of a failure; what there is to see has been printed.
            result.update(changed=False, failed=True, msg=arguments["failure"])
        else:
            result.update(changed=False, text=text, facts=facts)
        return result
