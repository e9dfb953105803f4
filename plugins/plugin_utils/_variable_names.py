# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of the user that are meant for the role virt_provision, and are called a little otherwise."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Those of the role's argument specification.
VARIABLES = (
    "virt_vms",
    "virt_disk_profiles",
    "virt_nic_profiles",
    "virt_images",
    "virt_seed",
    "virt_policy",
    "virt_anti_affinity",
    "virt_labels",
    "virt_memory_reserve_mib",
    "virt_memory_ratio",
    "virt_vcpu_ratio",
    "virt_unseen",
    "virt_cpu_baseline",
    "virt_hypervisors",
    "virt_answer_seconds",
    "virt_known_hosts",
    "virt_trust_guest_addresses",
    "virt_provision_concurrency",
    "virt_provision_wait",
    "virt_provision_conclude",
    "virt_provision_timeout",
)
# What the live inventory gives its machines: one of them may be a hypervisor itself.
_OF_MACHINES = frozenset({"virt_image", "virt_hypervisor"})
_OWN_PREFIX = "virt_provision_"
# One letter too many, too few or wrong in most names; more in long ones.
_CLOSE = 0.88


def misspelled(names: Iterable[str]) -> list[str]:
    """A sentence for each variable that is not known, and close to one that is known and not there.

    Whoever has both has one of their own. names: all variables that there are.
    """
    given = {str(name) for name in names}
    free = [name for name in VARIABLES if name not in given]
    sentences = []
    others = _OF_MACHINES if "virt_uuid" in given else frozenset()
    for name in sorted(given - set(VARIABLES) - others):
        if name.startswith("virt_") and not name.startswith(_OWN_PREFIX):
            near = difflib.get_close_matches(name, free, n=1, cutoff=_CLOSE)
            sentences += [f"{name}: unknown variable. Did you mean {found}?" for found in near]
    return sentences
