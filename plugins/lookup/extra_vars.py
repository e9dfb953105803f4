# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup brine.virt.extra_vars."""

from __future__ import annotations

DOCUMENTATION = r"""
name: extra_vars
short_description: Find which variables are set on the command line
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Returns those of the given names that are set on the command line of the run (C(-e), also C(-e @FILE)). A variable
    of the same name in the inventory, a play or a role is ignored.
  - The role P(brine.virt.virt_provision#role) uses it to tell C(-e vm=web1) from a variable C(vm) of the inventory.
options:
  _terms:
    description: Names of variables.
    type: list
    elements: str
    required: true
seealso:
  - plugin: ansible.builtin.varnames
    plugin_type: lookup
"""

EXAMPLES = r"""
---
- name: Check that the machine is named on the command line
  ansible.builtin.assert:
    that: query('brine.virt.extra_vars', 'vm') | length == 1
    fail_msg: Name the machine with -e vm=NAME.
"""

RETURN = r"""
_raw:
  description: The names that are set on the command line, in the order given.
  type: list
  elements: str
  sample: [vm]
"""

import typing as t

from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars


class LookupModule(LookupBase):
    """Reads the command line alone."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """The names; see RETURN."""
        self.set_options(var_options=variables, direct=kwargs)
        # Ansible has read them once for the whole run, and gives them back from there.
        loader: t.Any = self._loader
        given = load_extra_vars(loader)
        return [str(name) for name in terms if name in given]
