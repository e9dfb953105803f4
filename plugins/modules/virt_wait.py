#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_wait
short_description: Wait until machines answer, or report what was last seen of them
version_added: "1.0.0"
description:
  - Waits on the hypervisor until each machine has an address where its SSH server answers.
  - While it waits, the play's output shows every few seconds which stage each machine has reached. The stages are
    booting, cloud-init, address and SSH. They are read over a second connection, if Ansible's connection is V(ssh) or
    V(local); over other connections, and with C(async) or C(no_log), no progress is shown.
  - It stops waiting for a machine that has stopped or was undefined, for one whose serial console shows that it will
    not come up (such as a kernel panic, or no bootable device), for one that has booted according to its console but
    has had no address for 60 seconds, and for one at whose address an SSH server has shown another host key for 30
    seconds.
  - Where the host keys of a machine are known, as they are of those that M(brine.virt.virt_init) has seeded, the server
    has to show one of them. They are compared with C(ssh-keyscan) on the hypervisor; without it, and if it gets no
    answer, an SSH server that answers is enough.
  - If a machine does not come up, the task fails. It reports for each of these machines the first stage that failed,
    what was last seen of each stage, libvirt's reason if the machine has stopped, and the last lines of its serial
    console.
  - What cloud-init says about its run is taken from the serial console's log, and if there is no error in it, from the
    file C(/run/cloud-init/status.json), which is read through the guest agent where the agent allows it. libvirt may
    then mark the running machine as tainted (C(custom-ga-command)), until it is powered off.
author: brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes
  - brine.virt._uri
attributes:
  check_mode:
    support: full
    details:
      - In check mode it neither waits nor checks anything, because the machines may not exist yet.
  diff_mode:
    support: N/A
    details:
      - Changes nothing.
  idempotent:
    support: full
options:
  names:
    description: Names of the machines.
    type: list
    elements: str
    required: true
    aliases: [vm]
  port:
    description: Port of the SSH server. V(0) waits for an address only.
    type: int
    default: 22
  timeout:
    description: How many seconds to wait for all of them together.
    type: int
    default: 300
seealso:
  - module: brine.virt.virt_init
"""

EXAMPLES = r"""
---
- name: Wait for two machines
  brine.virt.virt_wait:
    names: [web1, web2]
    timeout: 120
"""

RETURN = r"""
machines:
  description: What was seen of each machine.
  returned: always, empty in check mode
  type: list
  elements: dict
  contains:
    name:
      description: Name of the machine.
      type: str
      returned: always
      sample: web1
    ready:
      description: Whether its SSH server answers, or with O(port=0) whether it has an address.
      type: bool
      returned: always
      sample: true
    address:
      description: Its address, or null.
      type: str
      returned: always
      sample: 192.0.2.10
    seen:
      description: What was last seen, as text.
      type: str
      returned: always
      sample: SSH answers at 192.0.2.10 port 22
    waited_seconds:
      description: How many seconds the module waited for it.
      type: float
      returned: always
      sample: 48.2
    failed_stage:
      description: The first of RV(machines[].stages) that failed, or null if none did.
      type: str
      returned: when it is not ready
      sample: lease
    stages:
      description:
        - The stages on the way to an SSH server that answers, in this order. They are V(defined), V(running), V(boot),
          V(lease), V(agent), V(address), V(SSH) and V(cloud-init). With O(port=0) there is no V(SSH). A machine that
          was undefined has only the first and the last.
      type: list
      elements: dict
      returned: when it is not ready
      contains:
        stage:
          description: Name of the stage.
          returned: always
          type: str
          sample: lease
        ok:
          description: Whether it was reached. Null if that is unknown, or if it was not tried or is not needed.
          returned: always
          type: bool
          sample: false
        seen:
          description: What was last seen of it, as text.
          returned: always
          type: str
          sample: no DHCP lease on network default
    next_step:
      description: What an operator can do next, as text.
      type: str
      returned: when it is not ready
      sample: "To log in without a network, on the hypervisor: virsh console web1"
    serial_log_end:
      description: The last lines of the serial console's log, which the guest has written.
      type: list
      elements: str
      returned: when it is not ready
      sample: ["Cloud-init v. 22.4.2 running 'init'"]
    qemu_log_end:
      description:
        - The last lines of QEMU's own log, without its command line, or the reason why there are none.
      type: list
      elements: str
      returned: when it is not ready and has stopped
      sample: ["2026-03-01 10:00:00.000+0000: shutting down, reason=crashed"]
report:
  description: A block of text for each machine that is not ready, with its stages and the last lines of its logs.
  returned: failure, if the machines could be inspected
  type: str
  sample: |-
    web1 was not reachable within 300 s (failed at: lease): no address was found for it
      defined     ok      yes
      running     ok      yes
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE, progress_file
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.machines import wait_for_machines
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.state import (
    WaitState,
    headline,
    report,
    seen_as_result,
)


def as_result(wait_state: WaitState) -> dict[str, t.Any]:
    """The result for one machine, in the words of the module's result."""
    result: dict[str, t.Any] = {
        key: getattr(wait_state, key) for key in ("name", "ready", "address", "seen", "waited_seconds")
    }
    if not wait_state.ready:
        failed = wait_state.failed_stage
        result.update(
            failed_stage=None if failed is None else failed.name,
            next_step=wait_state.next_step,
            **seen_as_result(wait_state),
        )
        if wait_state.qemu_log:
            result["qemu_log_end"] = list(wait_state.qemu_log)
    return result


def work(module: AnsibleModule) -> dict[str, t.Any]:
    """Wait, and fail with what was seen when that was in vain."""
    params = module.params
    if module.check_mode:
        return {"changed": False, "machines": []}
    with open_connection(params["uri"]) as conn, progress_file(params[PROGRESS_FILE]) as progress:
        wait_states = wait_for_machines(
            conn,
            params["names"],
            port=params["port"] or None,
            timeout_seconds=params["timeout"],
            on_progress=progress.write_line,
        )
    results = [as_result(wait_state) for wait_state in wait_states]
    late = [wait_state for wait_state in wait_states if not wait_state.ready]
    if late:
        words = [headline(wait_state, params["timeout"]) for wait_state in late]
        module.fail_json(msg=". ".join(words), report=report(late, params["timeout"]), machines=results)
    return {"changed": False, "machines": results}


def main() -> None:
    module = make_module(
        {
            "names": {"type": "list", "elements": "str", "required": True, "aliases": ["vm"]},
            "port": {"type": "int", "default": 22},
            "timeout": {"type": "int", "default": 300},
        },
        beside=[PROGRESS_FILE],
    )
    finish(module, work)


if __name__ == "__main__":
    main()
