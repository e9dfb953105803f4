# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.picture."""

from __future__ import annotations

DOCUMENTATION = r"""
name: picture
short_description: Show the whole cloud as one HTML page
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Turns the facts of hypervisors and their machines into one HTML page. The page contains its style and its script,
    and loads nothing, from the network or from anywhere else.
  - For each hypervisor it shows memory, vCPUs and storage as bars (used, committed, free), the days that its
    certificates have left, whether it is in maintenance, and its machines with state, addresses, tags, image, pending
    changes, moves and warnings. Hypervisors that did not answer are shown with the reason.
  - Memory and vCPUs are counted as P(brine.virt.place#filter) counts them, with the reserve and the ratios in
    O(settings), so that what is free is what a new machine can get.
  - Directories of one hypervisor with the same capacity and the same free space are taken for one file system.
    Storage that several hypervisors share is counted once in the totals.
  - What guests can write, such as the addresses that a guest agent reports, and titles are shown as plain text. Control
    characters, and those that change the direction of text, are shown as their code points.
  - It contacts no hypervisor and writes no file. The same input gives the same page.
positional: made
options:
  _input:
    description:
      - By hypervisor, its facts as C(host) and its machines as C(machines), as M(brine.virt.virt_host_info) and
        M(brine.virt.virt_info) return them; or the sentence that says why it did not answer.
    type: dict
    required: true
  made:
    description: When the hypervisors were asked, in ISO 8601 with a time zone. The page shows it in UTC.
    type: str
    required: true
  settings:
    description: The inventory variables of the hypervisors, as in P(brine.virt.place#filter); V(hostvars) will do.
    type: dict
  title:
    description: The title of the page.
    type: str
    default: Private cloud
  errors:
    description:
      - How mistakes in the input are reported.
    type: str
    choices:
      raise: the filter fails, with a line for each
      return: they are returned in C(errors), and nothing else is. For a task that shows them.
    default: raise
seealso:
  - plugin: brine.virt.query
    plugin_type: filter
  - module: brine.virt.virt_host_info
  - module: brine.virt.virt_info
"""

EXAMPLES = r"""
---
- name: Ask the hypervisor
  brine.virt.virt_host_info:
  register: hypervisor

- name: Ask for its machines
  brine.virt.virt_info:
  register: found

- name: Write the page
  ansible.builtin.copy:
    content: "{{ (cloud | brine.virt.picture(made=now(utc=true, fmt='%FT%T+00:00'), title='Test cloud')).page }}"
    dest: /srv/www/cloud.html
    mode: "0640"
  delegate_to: localhost
  vars:
    cloud:
      hv1: {host: "{{ hypervisor.host }}", machines: "{{ found.machines }}"}
      hv2: it is switched off
"""

RETURN = r"""
_value:
  description: The page, and what it shows in numbers.
  type: dict
  contains:
    page:
      description: The HTML.
      type: str
      sample: <!DOCTYPE html>...
    contents:
      description:
        - A checksum that is the same for two pages if they differ only in times and uptimes. It is also in the page, as
          the C(content) of C(<meta name="brine-virt-contents">).
      type: str
      sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    hypervisors:
      description: How many hypervisors answered.
      type: int
      sample: 2
    machines:
      description: How many machines are on them.
      type: int
      sample: 30
    silent:
      description: The hypervisors that did not answer, each with the reason.
      type: dict
      sample: {hv3: "did not answer: Connection timed out"}
    errors:
      description: With O(errors=return), the mistakes, one sentence each. If there are any, this is the only key.
      type: list
      elements: str
      sample: []
"""

import typing as t

from ansible_collections.brine.virt.plugins.plugin_utils._filter_answer import answer
from ansible_collections.brine.virt.plugins.plugin_utils._picture.contents import picture_of
from ansible_collections.brine.virt.plugins.plugin_utils._picture.page import render


def picture_filter(
    fleet: t.Any, made: str, settings: t.Any = None, title: str = "Private cloud", errors: str = "raise"
) -> dict[str, t.Any]:
    """The page; see RETURN."""

    def work() -> dict[str, t.Any]:
        picture = picture_of(fleet, settings)
        page, contents = render(picture, str(made), str(title))
        return {
            "page": page,
            "contents": contents,
            "hypervisors": len(picture.hypervisors),
            "machines": picture.machine_count,
            "silent": dict(picture.silent),
        }

    return answer(work, errors, "brine.virt.picture: ")


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {"picture": picture_filter}
