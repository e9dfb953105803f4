# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of virt_known_hosts: changes the file of host keys. Everything happens on the controller."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.known_hosts import (
    add_arriving,
    add_lines,
    last_seen,
    merge_lines,
    read_lines,
    rewrite,
    without_hypervisors,
    without_machines,
)
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.said_by_hosts import require_own_word

_NOT_KEPT = "Where machines are now is not kept there, and not known while their hypervisors do not answer"


class ActionModule(ActionBase):
    """Works with one file of the controller; sends nothing anywhere."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """See the module's documentation."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        require_own_word(task_vars)
        _spec, arguments = self.validate_argument_spec(
            {
                "path": {"type": "path", "default": "~/.ssh/known_hosts.d/brine-virt"},
                "hypervisors": {"type": "dict", "default": {}},
                "complete": {"type": "bool", "default": True},
                "silent": {"type": "list", "elements": "str", "default": []},
                "left": {"type": "list", "elements": "str", "default": []},
                "arriving": {"type": "dict", "default": {}},
                "gone": {"type": "dict", "default": {}},
                "unwritable": {"type": "str", "choices": ["fail", "warn"], "default": "fail"},
            }
        )
        path = arguments["path"]
        try:
            answers = read_answers(arguments["hypervisors"], "hypervisors")
            arriving = read_answers(arguments["arriving"], "arriving")
            gone = read_gone(arguments["gone"])
            silent = [{"hypervisor": name, "machines": None} for name in arguments["silent"]]

            def change(lines: list[str]) -> list[str]:
                kept = without_hypervisors(lines, arguments["left"])
                # Who says only where machines are now says that these have gone there.
                kept = without_machines(kept, gone, keep_keys=not arguments["complete"])
                if arguments["complete"]:
                    merged = merge_lines(kept, [*answers, *silent], drop_gone=True)
                else:
                    merged = add_lines(kept, answers)
                return add_arriving(merged, arriving)

            old = read_lines(path)
            new = change(old)
            if new != old and not self._task.check_mode:
                rewrite(path, change)
        except InputError as exc:
            raise AnsibleActionFail(str(exc)) from None
        except OSError as exc:
            what = f"{path} cannot be written: {exc.strerror or exc}"
            if arguments["unwritable"] == "fail":
                raise AnsibleActionFail(what) from None
            result.update(changed=False, path=path, forgotten={}, warnings=[f"{what}. {_NOT_KEPT}"])
            return result
        result.update(changed=new != old, path=path, forgotten=forgotten(old, new))
        if self._task.diff:
            texts = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
            result["diff"] = dict(zip(("before", "after"), texts, strict=True), before_header=path, after_header=path)
        return result


def read_answers(hypervisors: Mapping[str, t.Any], option: str) -> list[dict[str, t.Any]]:
    """An option with the machines of hypervisors as answers of theirs. Raises InputError."""
    answers = []
    for name, machines in hypervisors.items():
        where = f"{option}.{name}"
        if not isinstance(machines, Sequence) or isinstance(machines, str):
            raise InputError("the machines of this hypervisor are missing", where=where, hint="Give a list of them")
        for index, record in enumerate(machines):
            if not isinstance(record, Mapping) or "uuid" not in record:
                raise InputError(
                    "this is not a machine as virt_info returns it", where=f"{where}[{index}]", hint="It has a uuid"
                )
        answers.append({"hypervisor": str(name), "machines": list(machines)})
    return answers


def read_gone(gone: Mapping[str, t.Any]) -> dict[str, set[str]]:
    """The option gone: names by hypervisor. Raises InputError."""
    for name, machines in gone.items():
        if not isinstance(machines, Sequence) or isinstance(machines, str):
            raise InputError("the names of machines are missing", where=f"gone.{name}", hint="Give a list of them")
    return {str(name): {str(machine) for machine in machines} for name, machines in gone.items()}


def forgotten(old: Sequence[str], new: Sequence[str]) -> dict[str, list[str]]:
    """By hypervisor, the machines that the old lines know to be there, and the new ones do not."""
    before, after = last_seen(old), last_seen(new)
    found: dict[str, list[str]] = {}
    for name, hypervisors in sorted(before.items()):
        for hypervisor in hypervisors:
            if hypervisor not in after.get(name, ()):
                found.setdefault(hypervisor, []).append(name)
    return found
