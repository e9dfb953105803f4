#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of virt_known_hosts; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_known_hosts
short_description: Keep the controller's file of machines' host keys up to date
version_added: "1.0.0"
description:
  - Changes the file in which ssh finds the host keys of machines, on the controller. P(brine.virt.domains#inventory)
    writes it at each listing; this module does so without one, after machines have been moved or removed or a
    hypervisor has been taken out.
  - The file also tells P(brine.virt.last_seen#lookup), and so the playbooks that create and start machines, on which
    hypervisor a machine was last seen, so that it is not created or started a second time elsewhere. Whoever moves
    machines with M(brine.virt.virt_migrate) in a play of their own should say it here. What is no longer there has to
    go from the file.
  - Only lines of this collection change. The file is not created if there is nothing to write.
  - The playbooks of the collection use it.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes.no_async
  - brine.virt._attributes.no_group
  - brine.virt._attributes
  - brine.virt._attributes.full
options:
  path:
    description: The file, on the controller.
    type: path
    default: ~/.ssh/known_hosts.d/brine-virt
  hypervisors:
    description:
      - By the name of a hypervisor, all machines that it has now, as M(brine.virt.virt_info) returns them. Machines of
        the file that it does not have are removed, unless another one has them or one of O(silent) may; with an empty
        list all of its machines are.
      - Lines of hypervisors that are not named here stay. Of machines that are on one of these now only the key does,
        so that no hypervisor gives another one's machine other keys.
    type: dict
    default: {}
  complete:
    description:
      - Whether O(hypervisors) has all machines of each of them. With V(false) nothing is known to be gone, only that
        these machines are on these hypervisors now. One that does not run stays known on others as well, unless
        O(gone) says that it has left them.
    type: bool
    default: true
  silent:
    description:
      - Hypervisors that did not answer. What O(hypervisors) no longer has may have been moved to one of them, so it
        stays known until another one has it. Has no effect with O(complete=false).
    type: list
    elements: str
    default: []
  left:
    description: Hypervisors that have left the cloud. All that is known to be there is removed.
    type: list
    elements: str
    default: []
  arriving:
    description:
      - By the name of a hypervisor, machines that are about to be moved to it, as M(brine.virt.virt_info) returns them.
        They are known to be on either of two hypervisors until O(hypervisors) says more.
    type: dict
    default: {}
  gone:
    description:
      - By the name of a hypervisor, the names of machines that are no longer there. With O(complete=false) their keys
        stay, as they are somewhere else.
    type: dict
    default: {}
  unwritable:
    description:
      - What is done if the file cannot be written. V(fail) fails. V(warn) only warns, for who has something to do that
        must not depend on it, such as to move machines.
    type: str
    choices: [fail, warn]
    default: fail
seealso:
  - plugin: brine.virt.domains
    plugin_type: inventory
  - plugin: brine.virt.last_seen
    plugin_type: lookup
"""

EXAMPLES = r"""
---
- name: Forget the machines of a hypervisor that will not come back
  brine.virt.virt_known_hosts:
    left: [hv3]
  run_once: true
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /home/alice/.ssh/known_hosts.d/brine-virt
forgotten:
  description: By the name of a hypervisor, the machines that are no longer known to be there.
  returned: success
  type: dict
  sample: {hv3: [web1]}
"""
