# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of who may change a hypervisor, and from where (module_utils/_host/locks.py, is_local)."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
notes:
  - With the default O(uri) the task has to run as root on the hypervisor, so with C(become=true) unless Ansible logs in
    as root.
"""

    OWN_HOST = r"""
options: {}
notes:
  - It works on the host that it runs on. A O(uri) that leads to another host is refused.
"""
