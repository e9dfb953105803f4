# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's half of virt_migrate: hosts of the inventory as targets, and progress while it runs."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._host.connection import make_uri
from ansible_collections.brine.virt.plugins.plugin_utils._progress import is_watched, show
from ansible_collections.brine.virt.plugins.plugin_utils._progress_action import ProgressAction


class ActionModule(ProgressAction):
    """Gives the module addresses instead of names that only this inventory knows, and shows how far it is."""

    module = "brine.virt.virt_migrate"
    # They name both hypervisors.
    begins_with_host = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """The result of the module."""
        result = super().run(tmp, task_vars)
        if is_watched(self._task):
            for machine in result.get("machines") or ():
                # The result itself says it too, and it stands whatever is said of it here.
                with contextlib.suppress(Exception):
                    show(outcome(machine))
        return result

    def options(self, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Those of the task, with addresses."""
        args = super().options(task_vars)
        known = (task_vars or {}).get("hostvars") or {}
        if args.get("target"):
            args["target"] = resolve(args["target"], known)
        if isinstance(args.get("machines"), list):
            args["machines"] = [
                {**machine, "target": resolve(machine["target"], known)}
                if isinstance(machine, dict) and machine.get("target")
                else machine
                for machine in args["machines"]
            ]
        return args


def outcome(machine: t.Mapping[str, t.Any]) -> str:
    """What became of one machine, in a line."""
    name, source, target = machine["name"], machine["source"], machine["target"]
    if machine["failed"]:
        return str(machine["msg"]) if machine["msg"].startswith(f"{name} ") else f"{name}: {machine['msg']}"
    if source == target:
        disks = ", ".join(f"{disk['device']} to pool {disk['pool']}" for disk in machine["disks"])
        if not machine["changed"]:
            return f"{name}: is where it is to be already"
        return f"{name}: moved {disks}" if disks else f"{name}: finished what an interrupted run has left"
    if not machine["changed"]:
        return f"{name}: is on {target} already"
    if "duration_ms" not in machine:
        return f"{name}: moved from {source} to {target}"
    time = f"moved from {source} to {target} in {machine['duration_ms'] / 1000:.1f} s"
    return f"{name}: {time}, paused for {machine['downtime_ms']} ms" if "downtime_ms" in machine else f"{name}: {time}"


def resolve(target: t.Any, known: t.Mapping[str, t.Any]) -> t.Any:
    """A host of the inventory as libvirt's URI, with the address that it is reached at; anything else as it is.

    The host variable virt_tls_address has precedence: the hypervisors may reach each other by another network than the
    controller reaches them.
    """
    if not isinstance(target, str) or target not in known:
        return target
    variables = known[target]
    address = variables.get("virt_tls_address") or variables.get("ansible_host") or target
    return make_uri(host=str(address), transport="tls")
