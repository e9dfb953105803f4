# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.numbered."""

from __future__ import annotations

DOCUMENTATION = r"""
name: numbered
short_description: Put sentences into one line
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Joins sentences for the message of a failure, which Ansible prints as one line. If there are several, they are
    numbered, so that one can see where each begins. Each ends with a full stop.
  - If there are more than eleven, only the first ten are there, and the number of the others. All of them belong in the
    output of an earlier task.
options:
  _input:
    description: The sentences.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
---
- name: Fail if there are mistakes
  ansible.builtin.fail:
    msg: "{{ mistakes | brine.virt.numbered }} Nothing was changed."
  when: mistakes | length > 0
"""

RETURN = r"""
_value:
  description: One line.
  type: str
  sample: "(1) memory is missing. (2) there is no bridge 'dmz' on this hypervisor. Known: br0."
"""

import typing as t
from collections.abc import Iterable, Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.plugin_utils._reports.numbered import numbered


def numbered_filter(sentences: t.Any) -> str:
    """One line; see RETURN."""
    if not isinstance(sentences, Iterable) or isinstance(sentences, (str, Mapping)):
        raise AnsibleFilterError("brine.virt.numbered: the input is not a list of sentences")
    return numbered(sentences)


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {"numbered": numbered_filter}
