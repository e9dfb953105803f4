#!/usr/bin/python
# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of virt_show; the work is done by the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: virt_show
short_description: Print text, or data as JSON
version_added: "1.0.0"
description:
  - Prints a text on the controller, line by line. A space stands for each character that cannot be printed, as a
    terminal would take some of these for commands. With C(no_log) it prints nothing.
  - The playbooks of this collection show their results with it.
  - It can end with an error after it has printed, for a report that is to be seen although something went wrong.
author:
  - brine.virt maintainers (@brine-virt)
extends_documentation_fragment:
  - brine.virt._attributes.no_async
  - brine.virt._attributes.no_group
  - brine.virt._attributes
  - brine.virt._attributes.info_module
options:
  text:
    description: The text. An empty one prints nothing. Required without O(report).
    type: str
  facts:
    description: The same as data, for programs that read the result instead of the text.
    type: raw
  report:
    description:
      - Show, instead of O(text) and O(facts), what all hosts of the play have answered to one task. Needs
        O(registered).
      - V(hypervisors) is the table of P(brine.virt.hypervisors_table#filter) for M(brine.virt.virt_host_info),
        V(machines) that of P(brine.virt.machines_table#filter) for M(brine.virt.virt_info), and V(query) is what
        P(brine.virt.query#filter) says of each machine. The task fails afterwards where the data has C(failures).
      - With thousands of machines this takes a fraction of the time of the filters, as the answers are taken as they
        are, and not looked through for templates.
    type: str
    choices: [hypervisors, machines, query]
  registered:
    description: The name of the variable in which the task has registered its result on each host.
    type: str
  names:
    description: With O(report), the machines that were asked for. One that nobody has is a failure.
    type: list
    elements: str
  output:
    description:
      - Whether to print O(text), or O(facts) as one JSON document. Both are in the result in either case, unless the
        task ends with O(failure).
    type: str
    choices: [text, json]
    default: text
  failure:
    description: The message to fail with afterwards. With an empty one, which is the default, the task succeeds.
    type: str
    default: ""
"""

EXAMPLES = r"""
---
- name: Show a haiku
  brine.virt.virt_show:
    text: |-
      Two hosts, one small bridge
      the machine wakes and answers
      its key known before

- name: Ask the hypervisors of the play
  brine.virt.virt_info:
  register: machines

- name: Show a table of the machines of all of them
  brine.virt.virt_show:
    report: machines
    registered: machines
  run_once: true
"""

RETURN = r"""
text:
  description: The text.
  returned: success
  type: str
  sample: web1 runs on hv1
facts:
  description: The same as data.
  returned: success
  type: raw
  sample: {hv1: {running: [web1]}}
"""
