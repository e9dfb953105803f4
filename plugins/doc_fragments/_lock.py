# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the wait for the hypervisor's lock (module_utils/_host/locks.py)."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  lock_timeout:
    description:
      - How many seconds to wait for another run that holds this hypervisor's lock.
      - A run holds it while it looks whether something is used and changes it, so that no other run of this collection
        creates or changes a machine with it meanwhile.
    type: int
    default: 300
"""
