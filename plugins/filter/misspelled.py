# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the variables of roles: the filters brine.virt.misspelled, resource_mistakes, resource_refusals,
type_mistakes and said_by_hosts."""

from __future__ import annotations

import difflib
import typing as t
from collections.abc import Collection, Iterable, Mapping

from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.plugin_utils._inventory.said_by_hosts import complaint, own_words
from ansible_collections.brine.virt.plugins.plugin_utils._resource_mistakes import (
    resource_mistakes,
    resource_refusals,
    type_mistakes,
)

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
    "virt_provision_stop_timeout",
    "virt_provision_timeout",
)
# What the live inventory gives its machines: one of them may be a hypervisor itself.
_OF_MACHINES = frozenset({"virt_image", "virt_hypervisor"})
# Of this role, and of the one whose name is nearly virt_hypervisors.
_ROLES = ("virt_provision_", "virt_hypervisor_")
# One letter too many, too few or wrong in most names; more in long ones.
_CLOSE = 0.88


def misspelled(names: t.Any, known: Collection[str] | None = None, everywhere: Iterable[t.Any] = ()) -> list[str]:
    """A sentence for each variable that is not known, and close to one that is known and not there.

    Whoever has both has one of their own. names: all variables that there are; or those of each host, by host, and then
    the sentence ends with the hosts that have it, unless all have. known: those that roles read. everywhere: variables
    that each host has besides, such as those of a play.
    """
    lists = names.values() if isinstance(names, Mapping) else [names]
    if not all(isinstance(one, Iterable) and not isinstance(one, (str, Mapping)) for one in lists):
        raise AnsibleFilterError("brine.virt.misspelled: the input is not a list of names")
    if not isinstance(names, Mapping):
        return _misspelled({*map(str, names), *map(str, everywhere)}, known, {})
    hosts: dict[str, list[str]] = {}
    near: dict[str, str] = {}
    for host, own in names.items():
        for sentence in _misspelled({*map(str, own), *map(str, everywhere)}, known, near):
            hosts.setdefault(sentence, []).append(str(host))
    return [
        sentence if len(having) == len(names) else f"{sentence} ({', '.join(having)})"
        for sentence, having in hosts.items()
    ]


def _misspelled(given: set[str], known: Collection[str] | None, near: dict[str, str]) -> list[str]:
    """The sentences about one host. near: what each name is close to, as far as that was worked out already."""
    others_roles = _ROLES if known is None else ()
    # Right as they are, however near virt_hypervisors is to virt_hypervisor_ksm.
    others = _OF_MACHINES if known is not None or "virt_uuid" in given else frozenset()
    others = others.union(VARIABLES)
    # The defaults of a play's own roles are among the names, so that nothing tells whether somebody has set them.
    free = [name for name in VARIABLES if name not in given] if known is None else list(known)
    known = VARIABLES if known is None else known
    sentences: list[str] = []
    for name in sorted(given - set(known) - others):
        if name.startswith("virt_") and not name.startswith(others_roles):
            if name not in near:
                near[name] = "".join(difflib.get_close_matches(name, known, n=1, cutoff=_CLOSE))
            if near[name] in free:
                sentences.append(f"{name}: unknown variable. Did you mean {near[name]}?")
    return sentences


def said_by_hosts(facts: t.Any, words: t.Any = (), variables: t.Any = None) -> list[str]:
    """A sentence for each host that answers with variables of its own; said_by_hosts.yml describes it."""
    if not isinstance(facts, Mapping) or not isinstance(variables or {}, Mapping):
        raise AnsibleFilterError("brine.virt.said_by_hosts: the input or variables is not a mapping")
    known = {host: frozenset(map(str, names)) for host, names in (variables or {}).items()}
    named = {str(host): own_words(names, list(words), known.get(host)) for host, names in facts.items()}
    return [complaint(host, names) for host, names in named.items() if names]


class FilterModule:
    """Tells Ansible the filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """The filters by name."""
        return {
            "misspelled": misspelled,
            "resource_mistakes": resource_mistakes,
            "resource_refusals": resource_refusals,
            "said_by_hosts": said_by_hosts,
            "type_mistakes": type_mistakes,
        }
