#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_wait
short_description: Wait until machines answer, or report what was last seen of them
version_added: "0.1.0"
description:
  - Waits on the hypervisor until each machine has an address where its SSH server answers.
  - While it waits, the play's output shows every few seconds which stage each machine has reached. The stages are
    booting, cloud-init, address and SSH. They are read over a second connection, if Ansible's connection is V(ssh) or
    V(local); over other connections no progress is shown.
  - It stops waiting for a machine that has stopped, for one whose serial console shows that it will not come up (such
    as a kernel panic, or no bootable device), and for one that has booted according to its console but has had no
    address for 60 seconds.
  - If the time runs out, the task fails and reports what was last seen of each machine that did not come up, including
    the end of its serial console's log.
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
    serial_log_end:
      description: The last lines of the serial console's log, for a machine that did not come up.
      type: list
      elements: str
      returned: when it is not ready
      sample: ["Cloud-init v. 22.4.2 running 'init'"]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.brine.virt.plugins.module_utils._base.errors import visible
from ansible_collections.brine.virt.plugins.module_utils._host.connection import open_connection
from ansible_collections.brine.virt.plugins.module_utils._host.progress import PROGRESS_FILE, progress_file
from ansible_collections.brine.virt.plugins.module_utils._module import finish, make_module
from ansible_collections.brine.virt.plugins.module_utils._operations.wait.machines import (
    WaitState,
    wait_for_machines,
)


def as_result(wait_state: WaitState) -> dict[str, t.Any]:
    """What became of one machine, in the words of the module's result."""
    result: dict[str, t.Any] = {
        key: getattr(wait_state, key) for key in ("name", "ready", "address", "seen", "waited_seconds")
    }
    if not wait_state.ready:
        result["serial_log_end"] = list(wait_state.console.lines)
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
    missing = [result for result in results if not result["ready"]]
    if missing:
        # One that nothing more is to be expected of was not waited for until the limit.
        within = f"was not reachable within {params['timeout']} s"
        late = {wait_state.name: "is not reachable" if wait_state.hopeless else within for wait_state in wait_states}
        words = []
        for result in missing:
            end = result["serial_log_end"]
            log = f" Its serial console ends with: {' | '.join(end)}" if end else " Its serial console showed nothing."
            words.append(f"{result['name']} {late[result['name']]}: {result['seen']}.{log}")
        module.fail_json(msg=visible(" ".join(words)), machines=results)
    return {"changed": False, "machines": results}


def main() -> None:
    module = make_module(
        {
            "names": {"type": "list", "elements": "str", "required": True},
            "port": {"type": "int", "default": 22},
            "timeout": {"type": "int", "default": 300},
        },
        beside=[PROGRESS_FILE],
    )
    finish(module, lambda: work(module))


if __name__ == "__main__":
    main()
