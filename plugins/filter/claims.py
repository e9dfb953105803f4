# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.decide_claims."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.plugin_utils._placement.claims import decide_claims
from ansible_collections.brine.virt.plugins.plugin_utils._placement.options import read_unseen


def decide_claims_filter(
    plan: t.Any, claims: t.Any, seen: t.Any, last: t.Any = False, asked: t.Any = (), unseen: t.Any = "refuse"
) -> dict[str, t.Any]:
    """What happens to a run's claims; decide_claims.yml describes it."""
    for value, name in ((plan, "the input"), (claims, "claims"), (seen, "seen")):
        if not isinstance(value, Mapping):
            raise AnsibleFilterError(f"brine.virt.decide_claims: {name} is not a mapping")
    try:
        placed = read_unseen(unseen, "unseen")
    except VirtError as exc:
        raise AnsibleFilterError(f"brine.virt.decide_claims: {exc}") from exc
    return decide_claims(plan, claims, seen, last=boolean(last), asked=asked, unseen=placed)


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {"decide_claims": decide_claims_filter}
