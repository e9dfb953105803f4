# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.misspelled."""

from __future__ import annotations

DOCUMENTATION = r"""
name: misspelled
short_description: Find misspelled variables of the role virt_provision
version_added: "0.1.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Finds variables such as C(virt_disk_profile), which no role reads, where C(virt_disk_profiles) was meant.
  - Only names that begin with C(virt_) are checked. If the similarly named variable is set as well, the variable is
    taken to be the user's own.
options:
  _input:
    description: The names of all variables.
    type: list
    elements: str
    required: true
seealso:
  - plugin: ansible.builtin.varnames
    plugin_type: lookup
"""

EXAMPLES = r"""
---
- name: Check that nothing is misspelled
  ansible.builtin.assert:
    that: query('ansible.builtin.varnames', '^virt_') | brine.virt.misspelled | length == 0
"""

RETURN = r"""
_value:
  description: A sentence for each.
  type: list
  elements: str
  sample: ["virt_disk_profile: unknown variable. Did you mean virt_disk_profiles?"]
"""

import typing as t
from collections.abc import Iterable, Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.plugin_utils._variable_names import misspelled


def misspelled_filter(names: t.Any) -> list[str]:
    """The sentences; see RETURN."""
    if not isinstance(names, Iterable) or isinstance(names, (str, Mapping)):
        raise AnsibleFilterError("brine.virt.misspelled: the input is not a list of names")
    return misspelled(names)


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {"misspelled": misspelled_filter}
