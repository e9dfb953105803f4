# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of modules that have one thing or a list of them as data (module_utils/_operations/resources.py).

What they return is written in each of them: fragments of RETURN need ansible-core 2.21.
"""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
notes:
  - Everything that a task names is checked before the first of it is changed. If something stands in the way of one,
    none is changed.
  - If changing one fails, what was done to it is rolled back as far as that is possible, the others are changed, and
    the task fails at the end. The result says of each what is there then, and what was done and not rolled back.
"""
