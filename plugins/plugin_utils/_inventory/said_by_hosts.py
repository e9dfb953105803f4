# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of this collection that a host sets itself.

Whatever a module answers as ``ansible_facts`` becomes a variable of its host, which outranks inventory and defaults of
roles (INJECT_FACTS_AS_VARS). A hypervisor that was taken over could so choose what the controller reads, writes or
signs for it.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleActionFail

_OURS = re.compile(r"(__)?virt_")


def require_own_word(task_vars: Mapping[str, t.Any] | None) -> None:
    """For actions that do for a host what only the user may ask for. Raises AnsibleActionFail with the variables."""
    variables = task_vars or {}
    facts = variables.get("ansible_facts") or {}
    names = sorted(str(name) for name in facts if _OURS.match(str(name)))
    if names:
        raise AnsibleActionFail(
            f"{variables.get('inventory_hostname')} answers with variables of its own, which Ansible prefers to yours: "
            f"{', '.join(names)}. Nothing was done for it. Find out what runs there; if it was a set_fact of yours, "
            "leave out cacheable"
        )
