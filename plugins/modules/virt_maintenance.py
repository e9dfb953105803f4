#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module: put a hypervisor into maintenance, or out of it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_maintenance
short_description: Begin or end the maintenance of a hypervisor
version_added: "1.0.0"
description:
  - A hypervisor in maintenance gets no new machine, neither from P(brine.virt.place#filter) nor by a migration that
    P(brine.virt.moves#filter) plans. The machines that it has stay and keep running.
  - The mark is a file on the hypervisor, C(/var/lib/brine-virt/maintenance.json). It survives a reboot, until it is
    removed with O(state=absent). M(brine.virt.virt_host_info) shows it.
  - The hypervisor's libvirt shows it as well, as the description of a secret without a value, so that
    M(brine.virt.virt_migrate) on other hypervisors sees it. A move that is still copying the disks of a machine that
    is off, or that libvirt has not begun yet, ends with an error then, and the machine stays where it was. If libvirt
    cannot be reached, only the file is written, with a warning.
  - The mark is written first. Then the module waits for any run that is at work here, as it may be creating machines
    and not have seen the mark, and for the machines that libvirt is already moving here. Such a move is not cancelled,
    as it may be nearly done. After that the maintenance has begun. Machines that are still on their way at the end of
    the wait are in RV(arriving), with a warning; they will run here when their moves end.
  - A machine of which nothing has come for half a minute is not waited for any longer. It may be what a source that
    has crashed has left here.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes.no_group
  - brine.virt._attributes
  - brine.virt._attributes.full
options:
  state:
    description: V(present) begins a maintenance, V(absent) ends it.
    type: str
    choices: [present, absent]
    default: present
  reason:
    description:
      - The reason, in one line. It is shown when a machine is refused.
      - A maintenance that has already begun keeps its reason, unless another one is given.
      - Not with O(state=absent).
    type: str
  lock_timeout:
    description:
      - With O(state=present), how many seconds to wait in all, for a run that holds this hypervisor's lock and for
        machines that are being moved here.
      - If the lock is still held then, the task fails. If machines are still on their way, it does not. The maintenance
        remains in both cases.
    type: int
    default: 300
notes:
  - The task has to run as root on the hypervisor, so with C(become=true) unless Ansible logs in as root.
seealso:
  - module: brine.virt.virt_host_info
  - plugin: brine.virt.place
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: No new machines here, for the time being
  brine.virt.virt_maintenance:
    reason: new disks
  become: true

- name: Back to normal
  brine.virt.virt_maintenance:
    state: absent
  become: true
"""

RETURN = r"""
maintenance:
  description: The maintenance as it is now, in check mode as it would be; null when there is none.
  returned: success
  type: dict
  sample: {since: "2026-11-21T10:00:00Z", reason: new disks}
arriving:
  description:
    - With O(state=present), the machines that other hypervisors are still moving here, at the end of the wait; in check
      mode now. Null when libvirt cannot be asked.
  returned: success
  type: list
  elements: str
  sample: []
"""

import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError, VirtError
from ansible_collections.brine.virt.plugins.module_utils._host.connection import DEFAULT_URI, open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.facts.maintenance import (
    Maintenance,
    begin,
    read_maintenance,
    show_maintenance,
    write_maintenance,
)
from ansible_collections.brine.virt.plugins.module_utils._host.locks import hypervisor_lock
from ansible_collections.brine.virt.plugins.module_utils._host.machines.arriving import (
    QUIET_SECONDS,
    arriving_machines,
    wait_for_arriving,
)
from ansible_collections.brine.virt.plugins.module_utils._model.spec.fields import validators
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_plain_module, require_root

# From a move's last look at its target to the moment when libvirt there knows of the machine.
SETTLE_SECONDS = 5.0


def wanted(params: dict[str, t.Any], now: Maintenance | None) -> Maintenance | None:
    """The maintenance that the task asks for."""
    reason = None if params["reason"] is None else validators.line(params["reason"], "reason")
    if params["state"] == "absent":
        if reason is not None:
            raise InputError("the end of a maintenance has no reason", where="reason", hint="Leave it out")
        return None
    if now is None:
        return begin(reason)
    return Maintenance(now.since, now.reason if reason is None else reason)


def show_to_others(module: AnsibleModule, maintenance: Maintenance | None) -> None:
    """Have libvirt show it. A host whose libvirt is down can be in maintenance too, so that is only a warning."""
    try:
        with open_connection(DEFAULT_URI) as conn:
            show_maintenance(conn, maintenance)
    except VirtError as exc:
        module.warn(f"Moves from other hypervisors do not see this change: {exc}. Run it again when libvirt answers")


def wait_for_runs(wait_seconds: float) -> None:
    """Come back when no run makes machines here that may have looked before the maintenance began.

    What a run with the lock does is not known: it may also be at a snapshot, a disk or a network.
    Raises ConflictError when one does not end, HostError when that cannot be known.
    """
    try:
        with hypervisor_lock("init", wait_seconds=wait_seconds):
            pass
    except ConflictError as exc:
        raise ConflictError(
            "this hypervisor is in maintenance now, but a run that began earlier is still at work here, and may be "
            f"creating machines, or changing or snapshotting those that are here: {exc.what}",
            hint=exc.hint,
        ) from exc


def wait_for_moves(module: AnsibleModule, wait_seconds: float, settle_seconds: float) -> list[str] | None:
    """Come back when no machine is being moved here any more, or the time is up; those that still are.

    None, with a warning, when libvirt cannot be asked.
    """
    try:
        with open_connection(DEFAULT_URI) as conn:
            left = wait_for_arriving(conn, wait_seconds=wait_seconds, settle_seconds=settle_seconds)
    except VirtError as exc:
        module.warn(f"Machines that are being moved here cannot be seen: {exc}")
        return None
    for name, comes in left.items():
        why = "" if comes else f" Nothing of it has come for {QUIET_SECONDS:g} s: check at its source what it does."
        module.warn(f"{name} is still being moved here, and will run here when its move ends.{why}")
    return list(left)


def moves_now(module: AnsibleModule) -> list[str] | None:
    """The machines that are being moved here now; None, with a warning, when libvirt cannot be asked."""
    try:
        with open_connection(DEFAULT_URI, read_only=True) as conn:
            return arriving_machines(conn)
    except VirtError as exc:
        module.warn(f"Machines that are being moved here cannot be seen: {exc}")
        return None


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Compare, and write unless in check mode."""
    require_root("virt_maintenance", DEFAULT_URI, "maintenance")
    now = read_maintenance()
    then = wanted(module.params, now)
    arriving: list[str] | None = []
    if module.check_mode:
        if then is not None:
            arriving = moves_now(module)
    else:
        if then != now:
            write_maintenance(then)
        # Also when nothing has changed: the last run may not have reached libvirt.
        show_to_others(module, then)
        if then is not None:
            until = time.monotonic() + module.params["lock_timeout"]
            wait_for_runs(module.params["lock_timeout"])
            # A move looks at the mark for the last time just before libvirt begins it.
            settle_seconds = 0.0 if then == now else SETTLE_SECONDS
            arriving = wait_for_moves(module, max(0.0, until - time.monotonic()), settle_seconds)
    before, after = ({"maintenance": None if state is None else state.as_dict()} for state in (now, then))
    return {"changed": then != now, **after, "arriving": arriving, "diff": {"before": before, "after": after}}


def main() -> None:
    module = make_plain_module(
        {
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "reason": {"type": "str"},
            "lock_timeout": {"type": "int", "default": 300},
        }
    )
    finish(module, work)


if __name__ == "__main__":
    main()
