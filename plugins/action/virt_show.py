# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of virt_show: print a text as it stands, or its data, or a report of what hypervisors have answered.

Everything happens on the controller.
"""

from __future__ import annotations

import json
import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.plugin_utils._reports.answers import REPORTS, Report, report_of
from ansible_collections.brine.virt.plugins.plugin_utils._reports.numbered import numbered
from ansible_collections.brine.virt.plugins.plugin_utils._reports.printing import print_text
from ansible_collections.brine.virt.plugins.plugin_utils._reports.table import printable_text

_NOT_ASKED = {"failed": True, "msg": "it was not asked"}


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
                "text": {"type": "str"},
                "facts": {"type": "raw"},
                "report": {"type": "str", "choices": list(REPORTS)},
                "registered": {"type": "str"},
                "names": {"type": "list", "elements": "str"},
                "output": {"type": "str", "choices": ["text", "json"], "default": "text"},
                "failure": {"type": "str", "default": ""},
            },
            mutually_exclusive=[("text", "report"), ("facts", "report"), ("failure", "report")],
            required_one_of=[("text", "report")],
            required_together=[("report", "registered")],
            required_by={"names": ["report"]},
        )
        text, facts, failure = arguments["text"], arguments["facts"], arguments["failure"]
        if arguments["report"]:
            try:
                report = self._report(arguments, task_vars or {})
            except VirtError as exc:
                result.update(changed=False, failed=True, msg=str(exc))
                return result
            text, facts, failure = report.text, report.facts, numbered(report.failures)
        # YAML has values that JSON has not, such as a date.
        shown = json.dumps(facts, indent=2, default=str) if arguments["output"] == "json" else printable_text(text)
        if shown and not self._task.no_log:
            print_text(shown)
        if failure:
            # Ansible prints all of a failure; what there is to see has been printed.
            result.update(changed=False, failed=True, msg=failure)
        else:
            result.update(changed=False, text=text, facts=facts)
        return result

    @staticmethod
    def _report(arguments: dict[str, t.Any], task_vars: dict[str, t.Any]) -> Report:
        """The report of what the hosts of the play have in a registered variable.

        As it stands there: an expression would look for templates in each value of each machine, and in each again for
        every option that it is given to, which takes most of the time of a playbook that lists thousands of machines.
        """
        hosts = task_vars["hostvars"]
        results = {
            host: hosts.raw_get(host).get(arguments["registered"], _NOT_ASKED)
            for host in task_vars["ansible_play_hosts_all"]
        }
        return report_of(arguments["report"], results, hosts, arguments["names"] or ())
