# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the attributes that modules have; each module states its own support for them."""

from __future__ import annotations


class ModuleDocFragment:
    # Every module: says what the attributes mean; `support` of check_mode, diff_mode and idempotent is the module's.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
  diff_mode:
    description: Will return details on what has changed, or would change in C(check_mode), when in diff mode.
  idempotent:
    description:
      - When run twice in a row outside check mode with the same arguments, the second run reports no change.
  async:
    description: Can go on in the background with C(async).
    support: full
  platform:
    description: The system that the module works on.
    platforms: linux
    support: full
  action_group:
    description: Use C(group/brine.virt.virt) in C(module_defaults) to set defaults for the modules of this collection.
    support: full
    membership:
      - brine.virt.virt
"""

    # Modules that change something, all of it as check mode says.
    FULL = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""

    # Modules without the option uri. It stands before that of every module: of what two say of an attribute,
    # the first counts.
    NO_GROUP = r"""
options: {}
attributes:
  action_group:
    support: none
    membership: []
"""

    # Modules that send files, or work on the controller. It stands before that of every module, as above.
    NO_ASYNC = r"""
options: {}
attributes:
  async:
    support: none
"""

    # Modules that only read.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This module only reads, so it does the same in check mode.
  diff_mode:
    support: N/A
    details:
      - This module only reads, so there is no difference to show.
  idempotent:
    support: full
    details:
      - This module only reads.
"""
