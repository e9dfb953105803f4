# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup brine.virt.site_playbooks."""

from __future__ import annotations

DOCUMENTATION = r"""
name: site_playbooks
short_description: Find which playbooks on the command line are your own
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Returns the playbooks on the command line of the run that do not belong to the collection.
  - A playbook of the collection uses it to tell whether it was called itself or is imported by one of yours. Called
    itself, it refuses C(--tags) and C(--limit) that leave nothing of it to do. Imported, it is passed over then, for
    they may be meant for another part.
  - A file that has nothing but one C(import_playbook) of the collection, without C(vars) or C(tags), counts as that
    playbook called itself.
options: {}
seealso:
  - plugin: brine.virt.unknown_options
    plugin_type: lookup
"""

EXAMPLES = r"""
---
- name: Show whether a playbook of the collection was called itself
  ansible.builtin.debug:
    msg: "{{ query('brine.virt.site_playbooks') | length == 0 }}"
"""

RETURN = r"""
_raw:
  description: The playbooks, as they are written on the command line.
  type: list
  elements: str
  sample: [site.yml]
"""

import typing as t

from ansible.plugins.lookup import LookupBase

from ansible_collections.brine.virt.plugins.plugin_utils._command_line import site_playbooks


class LookupModule(LookupBase):
    """Reads the command line alone."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """The playbooks; see RETURN."""
        self.set_options(var_options=variables, direct=kwargs)
        return site_playbooks()
