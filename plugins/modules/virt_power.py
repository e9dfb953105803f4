#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_power
short_description: Start, stop, pause, save, reboot and power-cycle machines
version_added: "1.0.0"
description:
  - Brings machines of a hypervisor into a power state, many of them in parallel, and waits until they are in it.
  - All machines are looked at before the first one is changed, and each is looked at again before it is changed.
  - A machine that is unfinished, whose name is only claimed, or that is being moved is refused, and so is one that is
    running but not defined, if it would be lost. One whose disks an interrupted run has been moving to another pool
    can be shut down (O(state=stopped)).
  - The module knows the machines of its own hypervisor only. A definition that is left over there from a machine which
    runs on another one is started like any other; the locks that QEMU takes on disk images, where the storage has
    them, are all that prevents two of them. The playbook C(brine.virt.power) asks all hypervisors, and does not start
    a machine that was seen on one which does not answer, unless C(-e on=HYPERVISOR) is given.
  - If a machine fails, the others go on, and the task fails in the end with all results.
  - Machines are started in their order (O(brine.virt.virt_init#module:order)), those of one order together, and those
    without one last. After the machines of an order were started, the task waits for the longest of their
    C(delay_seconds). They are stopped and saved in the reverse order, each order after the one before has stopped.
    For all other states, V(cycled) among them, the order does not count.
  - While it takes long, the play's output shows every few seconds which machines are waited for. The lines are read
    over a second connection, if Ansible's connection is V(ssh) or V(local); over other connections, in check mode and
    with C(async) or C(no_log), no progress is shown.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._root
  - brine.virt._uri
attributes:
  check_mode:
    support: full
    details:
      - Whether a guest will shut down by itself can only be seen by asking it. With O(force=true), the real run may
        power a machine off where check mode says C(shut down), and reset it where check mode says C(reboot).
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - With O(state) V(rebooted), V(reset) and V(cycled), each run does it again; with O(only_pending=true), only
        while something is pending.
options:
  state:
    description:
      - V(running) starts a machine that is off, and resumes one that is paused or saved. One that has crashed is an
        error; O(state=cycled) with O(force=true) powers it off and on.
      - V(stopped) asks the operating system to shut down, through the guest agent if it answers, else with the power
        button (ACPI). A machine that is paused is resumed first. One that is saved counts as stopped, and stays saved.
      - V(paused) stops the virtual CPUs; the machine keeps its memory.
      - V(rebooted) asks the operating system to reboot, in the same way. This does not make pending changes of the
        definition take effect.
      - V(reset) restarts a machine at once, like its reset button. What the guest has not written yet is lost.
      - V(saved) writes the memory to a file on the hypervisor and stops the machine (libvirt's managed save). The
        machine resumes from that file when it is started.
      - V(cycled) shuts a machine down as V(stopped) does, and starts it again, which makes pending changes of its
        definition take effect.
      - A machine that is off cannot be paused, rebooted, reset, saved or cycled, which is an error.
    type: str
    choices: [running, stopped, paused, rebooted, reset, saved, cycled]
    required: true
  name:
    description:
      - Names of the machines. If one of them does not exist, nothing is changed at all.
      - A text is split at commas. A name that has a comma in it must be in a list.
      - At least one of O(name), O(tag), O(in_state) and O(all=true) is required. If there are several, only machines
        that all of them select are meant.
    type: list
    elements: str
    aliases: [vm]
  tag:
    description: Selects the machines that have one of these tags.
    type: list
    elements: str
  in_state:
    description:
      - Selects the machines that are in one of these states. The states are those that M(brine.virt.virt_info)
        returns, and V(saved). A machine that is saved is not V(shutoff) here, as it is in M(brine.virt.virt_info).
    type: list
    elements: str
    choices: [running, paused, shutoff, saved, crashed, pmsuspended, blocked, shutdown, nostate]
  all:
    description: Selects all machines of the hypervisor.
    type: bool
  only_pending:
    description:
      - Selects only the machines with changes that are pending until they are powered off and on. It can only be set
        with O(state=cycled).
    type: bool
    default: false
  force:
    description:
      - Whether a machine whose operating system has not shut down or rebooted within O(timeout) is powered off or
        reset. What the guest has not written yet is lost then.
      - With O(timeout=0) the guest is not even asked.
    type: bool
    default: false
  timeout:
    description:
      - How many seconds an operating system may take to shut down or to reboot, and libvirt to save a machine. For
        everything else it is a limit as well, but of no less than 60 seconds.
      - Without O(force), it is an error if a machine takes longer. It may still shut down later.
      - 1 at least, or 0 with O(force).
    type: int
    default: 180
  concurrency:
    description: How many machines are changed at the same time.
    type: int
    default: 8
  lock_timeout:
    description:
      - How many seconds to wait for another run that is changing machines on this hypervisor.
    type: int
    default: 300
seealso:
  - module: brine.virt.virt_info
    description: The states of machines, and what is pending.
  - module: brine.virt.virt_init
  - module: brine.virt.virt_purge
    description: Removes machines, also those that run.
"""

EXAMPLES = r"""
---
- name: Stop two machines, and power them off if they have not shut down after a minute
  brine.virt.virt_power:
    name: [web1, web2]
    state: stopped
    timeout: 60
    force: true

- name: Start all machines with the tag web that are off
  brine.virt.virt_power:
    tag: web
    in_state: [shutoff, saved]
    state: running

- name: Start all machines that are off, in their order
  brine.virt.virt_power:
    in_state: [shutoff, saved]
    state: running

- name: Make pending changes take effect
  brine.virt.virt_power:
    all: true
    only_pending: true
    state: cycled
"""

RETURN = r"""
machines:
  description: The result for each selected machine, sorted by name.
  returned: when the machines could be listed, and all of O(name) exist
  type: list
  elements: dict
  contains:
    name:
      description: Name of the machine.
      returned: always
      type: str
      sample: web1
    changed:
      description: Whether its state was changed, or would be in check mode.
      returned: always
      type: bool
      sample: true
    failed:
      description: Whether it could not be done, or not in full.
      returned: always
      type: bool
      sample: false
    before:
      description: The state that it was in, as in O(in_state).
      returned: always
      type: str
      sample: running
    state:
      description: The state that it is in now; in check mode, the one that it would be in.
      returned: always
      type: str
      sample: shutoff
    actions:
      description:
        - What was done, or would be done in check mode, in order. The possible actions are V(start), V(resume),
          V(resume from its saved state), V(wake up), V(pause), V(shut down), V(power off), V(reboot), V(reset) and
          V(save).
      returned: always
      type: list
      elements: str
      sample: [shut down]
    seconds:
      description: How many seconds it took, including the wait for other runs.
      returned: always
      type: float
      sample: 7.4
    msg:
      description:
        - Why it could not be done.
        - If a guest has not done in time what it was asked for, the text says how it was asked, and has the last lines
          of its serial console. If a machine has stopped right after its start, the text has libvirt's reason and the
          last lines of QEMU's own log.
      returned: when it failed
      type: str
      sample: "it has not shut down within 180 s, though its guest agent was asked. Set force: true to power it off"
    stages:
      description:
        - How far the guest is, in this order. The stages are V(defined), V(running), V(boot), V(lease), V(agent),
          V(address), V(SSH) and V(cloud-init). A guest that is still booting, or that waits for cloud-init, often does
          not hear that it is to shut down.
      returned: when its guest has not done in time what it was asked
      type: list
      elements: dict
      contains:
        stage:
          description: Name of the stage.
          returned: always
          type: str
          sample: cloud-init
        ok:
          description: Whether it was reached. Null if that is unknown, or if it was not tried or is not needed.
          returned: always
          type: bool
          sample: false
        seen:
          description: What was seen of it, as text.
          returned: always
          type: str
          sample: running
    serial_log_end:
      description: The last lines of the serial console's log, which the guest has written.
      returned: with RV(machines[].stages)
      type: list
      elements: str
      sample: ["A stop job is running for Database (1min 3s / no limit)"]
report:
  description: A block of text for each machine with RV(machines[].stages), with these and the end of its serial log.
  returned: when there are such machines
  type: str
  sample: |-
    What was seen of web1:
      defined     ok      yes
      running     ok      yes
delay_seconds:
  description:
    - How many seconds to wait before machines of the next order are started, on other hypervisors too. It is the
      longest C(delay_seconds) of the machines that this task started last, or 0.
  returned: with RV(machines)
  type: int
  sample: 0
msg:
  description: How many machines were changed, how many were in the state already, how many failed, and why.
  returned: always
  type: str
  sample: "2 changed, 1 already so"
"""

import threading
import typing as t
from collections.abc import Sequence

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.child_process import run_guarded
from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError, visible
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE, progress_file
from ansible_collections.brine.virt.plugins.module_utils._model.yaml_text import yaml_diff
from ansible_collections.brine.virt.plugins.module_utils._module import (
    check_at_least,
    finish,
    make_module,
    require_root,
)
from ansible_collections.brine.virt.plugins.module_utils._operations.power.late import late_report, look_at_late
from ansible_collections.brine.virt.plugins.module_utils._operations.power.machines import carry_out, last_delay
from ansible_collections.brine.virt.plugins.module_utils._operations.power.plan import CYCLED, REQUESTS, PowerRequest
from ansible_collections.brine.virt.plugins.module_utils._operations.power.selected import plan_machines, preview
from ansible_collections.brine.virt.plugins.module_utils._operations.power.selection import PowerSelection
from ansible_collections.brine.virt.plugins.module_utils._operations.step_watch import StepWatch
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.state import seen_as_result

STATES = ["running", "paused", "shutoff", "saved", "crashed", "pmsuspended", "blocked", "shutdown", "nostate"]
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "state": {"type": "str", "choices": list(REQUESTS), "required": True},
    "name": {"type": "list", "elements": "str", "aliases": ["vm"]},
    "tag": {"type": "list", "elements": "str"},
    "in_state": {"type": "list", "elements": "str", "choices": STATES},
    "all": {"type": "bool"},
    "only_pending": {"type": "bool", "default": False},
    "force": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 180},
    "concurrency": {"type": "int", "default": 8},
    "lock_timeout": {"type": "int", "default": 300},
}


def read_options(params: dict[str, t.Any]) -> tuple[PowerSelection, PowerRequest]:
    """Which machines, and what for. Raises InputError for what makes no sense."""
    selection = PowerSelection(
        names=params["name"],
        tags=params["tag"],
        states=params["in_state"],
        everything=bool(params["all"]),
        only_pending=params["only_pending"],
    )
    selection.check()
    if params["only_pending"] and params["state"] != CYCLED:
        raise InputError(
            f"{params['state']} makes no pending change take effect", where="only_pending", hint="Set state: cycled"
        )
    least = 0 if params["force"] else 1
    if params["timeout"] < least:
        hint = "With force: true it may be 0" if params["timeout"] == 0 else None
        raise InputError(f"{params['timeout']} is less than {least}", where="timeout", hint=hint)
    check_at_least(params, concurrency=1, lock_timeout=0)
    return selection, PowerRequest(params["state"], params["timeout"], params["force"])


def change_power(
    module: AnsibleModule, selection: PowerSelection, request: PowerRequest, stop: threading.Event
) -> dict[str, t.Any]:
    """Change the machines, unless in check mode, and return the result for each."""
    params = module.params
    with open_connection(params["uri"]) as conn, progress_file(params[PROGRESS_FILE]) as progress:
        results = plan_machines(conn, selection, request)
        if module.check_mode:
            preview(results)
        else:
            limits = {"concurrency": params["concurrency"], "lock_seconds": params["lock_timeout"]}
            at_work: dict[str, t.Any] = {}
            with StepWatch(progress) as watch:
                watch.wait_for(f"to be {request.state}", at_work, "the delay before the next order")
                carry_out(conn, results, request, stop=stop, at_work=at_work, **limits)
        late = {} if module.check_mode or stop.is_set() else look_at_late(conn, results)
    machines = [
        {**result.as_result(), **(seen_as_result(late[result.machine.name]) if result.machine.name in late else {})}
        for result in results
    ]
    return {
        **({"report": late_report(late.values())} if late else {}),
        "changed": any(machine["changed"] for machine in machines),
        "machines": machines,
        "delay_seconds": last_delay(results, request),
        "msg": summary(machines),
        "diff": [
            yaml_diff(machine["name"], {"state": machine["before"]}, {"state": machine["state"]})
            for machine in machines
            if machine["before"] != machine["state"]
        ],
    }


def summary(machines: Sequence[dict[str, t.Any]]) -> str:
    """The results of all of them, in a line."""
    if not machines:
        return "No machine is selected"
    failed = [machine for machine in machines if machine["failed"]]
    changed = sum(machine["changed"] and not machine["failed"] for machine in machines)
    counts = [(changed, "changed"), (len(machines) - changed - len(failed), "already so"), (len(failed), "failed")]
    words = ", ".join(f"{count} {what}" for count, what in counts if count)
    return visible(words + "".join(f"; {machine['name']}: {machine['msg']}" for machine in failed))


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """The module's result; failed, with all of it, when a machine could not be changed."""
    require_root("virt_power", module.params["uri"])
    selection, request = read_options(module.params)
    if module.check_mode:
        result = change_power(module, selection, request, threading.Event())
    else:
        # One that is killed between off and on would leave machines off.
        result = run_guarded(lambda stop: change_power(module, selection, request, stop))
    if any(machine["failed"] for machine in result["machines"]):
        module.fail_json(**result)
    return result


def main() -> None:
    # That one of name, tag, in_state and all is given is checked later: who has misspelled one is told that first.
    finish(make_module(ARGUMENTS, beside=[PROGRESS_FILE]), work)


if __name__ == "__main__":
    main()
