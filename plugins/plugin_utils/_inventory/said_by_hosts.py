# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that are the user's or Ansible's, and that a host sets itself.

Whatever a module answers as ``ansible_facts`` becomes a variable of its host, which outranks inventory and defaults of
roles (INJECT_FACTS_AS_VARS). A hypervisor that was taken over could so choose what the controller reads, writes or
signs for it, or whose name it goes by.

A fact whose name begins with ``ansible_`` is among the facts without that, and a variable with it: what the module
setup says of an interface virt-br0 is the fact virt_br0, and no variable of that name.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Collection, Container, Mapping

from ansible.errors import AnsibleActionFail

from .host_vars import MAGIC_VARIABLES

_OURS = re.compile(r"(__)?virt_")
# A site may well have a fact "environment", and nobody reads it as a variable. Of the others Ansible leaves out
# "ansible_" among the facts; those that it sets after them are not listed.
_MAGIC = (MAGIC_VARIABLES - {"environment"}) | {
    *("collection_name", "dependent_role_names", "parent_role_names", "parent_role_paths", "run_tags", "search_path"),
    "skip_tags",
}


def own_words(facts: t.Any, words: Collection[str] = (), variables: Container[str] | None = None) -> list[str]:
    """The names among a host's facts that no host has to say: variables of this collection and of Ansible, and words.

    words: names of other variables that the user sets. variables: the names of all that the host has; None if unknown.
    """
    ours = {name for name in map(str, facts or {}) if _OURS.match(name) or name in words}
    # Those of Ansible it may set later, so that a variable of the name proves nothing.
    magic = {name for name in map(str, facts or {}) if name in _MAGIC}
    return sorted(magic | {name for name in ours if variables is None or name in variables})


def complaint(host: str, names: Collection[str], more: str = "") -> str:
    """The sentence about a host that has said these. more: what became of it, a sentence."""
    return (
        f"{host} answers with variables of its own, which Ansible prefers to yours: {', '.join(names)}. "
        f"{more}Find out what runs there; if it was a set_fact of yours, leave out cacheable."
    )


def require_own_word(task_vars: Mapping[str, t.Any] | None) -> None:
    """For actions that do for a host what only the user may ask for. Raises AnsibleActionFail with the variables."""
    variables = task_vars or {}
    names = own_words(variables.get("ansible_facts"), variables=variables)
    if names:
        # Ansible itself says which one it is.
        host = "this host" if "inventory_hostname" in names else str(variables.get("inventory_hostname"))
        raise AnsibleActionFail(complaint(host, names, "Nothing was done for it. "))
