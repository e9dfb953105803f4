# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup brine.virt.unknown_options."""

from __future__ import annotations

DOCUMENTATION = r"""
name: unknown_options
short_description: Find misspelled options on the command line
version_added: "1.0.0"
author:
  - brine.virt maintainers (@brine-virt)
description:
  - Of the variables on the command line of the run (C(-e), also C(-e @FILE)), finds those that are probably meant for
    one of a playbook's options, as they are spelt nearly like it. If the option is given as well, the variable is taken
    to be the user's own. Returns a sentence for each.
  - Where the run is one of the collection's own playbooks, what stands on the command line itself and not in a file
    gets a sentence also if it is another word for an option, such as C(target) for C(to), or an option of another
    playbook of the collection, because the playbook would do more than it was told to, or something else. So does any
    other C(-e NAME=VALUE) that is not an option. What is in a file gets one as well, if an option of the playbook is
    in the same file.
  - For a playbook of the site, which may import several playbooks with different options, another word gets a sentence
    if an option of the playbook is given with it, on the command line or in the same file. An option of another
    playbook of the collection does not. On the command line, it is enough that an option is in a file.
  - Other words for C(keep_disks) and C(only_pending), such as C(keep), get a sentence wherever they are. Passed over,
    they could have C(purge) delete what it was meant to keep.
  - Other variables that are not options, in a file, as JSON or for a playbook of the site, are named in a warning, as
    sites have their own. Names that begin with C(ansible_) are not checked, and of those with C(virt_) only what is
    spelt nearly like a variable of the playbooks, such as C(virt_migrate_bandwith).
  - Profiles in Salt's form that stand alone, as in C(virt.disk), get a sentence where the playbook makes machines.
  - With O(host_variables), variables of the inventory are compared with those of the playbooks, too.
  - Words that belong to no name, as the second one in C(-e title=SOME WORDS), get a sentence as well.
  - The playbooks of the collection use it.
options:
  _terms:
    description: The options of the playbook.
    type: list
    elements: str
    required: true
  choices:
    description:
      - By option, the words that it may hold on the command line; a text is split at commas. There is a sentence for
        each word that is none of them, and for an option that is null. If the list of an option is empty, it may hold
        any words, and there is a sentence if it holds none.
    type: dict
    default: {}
  host_variables:
    description:
      - By the name of each hypervisor, the names of its variables. There is a sentence for each that is spelt nearly
        like a variable of the playbooks and is not on the command line. It names the hypervisors that have it, unless
        all have.
    type: dict
    default: {}
  play_variables:
    description: The names of variables that each of these hypervisors has besides, such as those of the play.
    type: list
    elements: str
    default: []
seealso:
  - plugin: brine.virt.extra_vars
    plugin_type: lookup
  - plugin: brine.virt.site_playbooks
    plugin_type: lookup
  - plugin: brine.virt.misspelled
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Check that no option is misspelled
  ansible.builtin.assert:
    that: "query('brine.virt.unknown_options', 'vm', 'to', choices={'output': ['text', 'json']}) | length == 0"
"""

RETURN = r"""
_raw:
  description: A sentence for each.
  type: list
  elements: str
  sample: ["target: unknown option. Did you mean to?"]
"""

import typing as t

from ansible.plugins.lookup import LookupBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars

from ansible_collections.brine.virt.plugins.plugin_utils._command_line import (
    names_in_files,
    site_playbooks,
    written_names,
)
from ansible_collections.brine.virt.plugins.plugin_utils._option_names import (
    bare_profiles,
    lone_words,
    mistaken_choices,
    mistaken_host_variables,
    mistaken_options,
    mistaken_variables,
    names_meant,
    unknown_words,
)


class LookupModule(LookupBase):
    """Reads the command line alone."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """The sentences; see RETURN."""
        self.set_options(var_options=variables, direct=kwargs)
        # Ansible has read them once for the whole run, and gives them back from there.
        loader: t.Any = self._loader
        given = load_extra_vars(loader)
        options = [str(name) for name in terms]
        words, mappings = written_names(loader.load)
        site = bool(site_playbooks())
        meant = names_meant(words | mappings, names_in_files(loader.load_from_file), options, site=site)
        if site:
            words, mappings = set(), set()
        sentences, others = mistaken_options(given, options, words | mappings, meant)
        sentences += mistaken_variables(given)
        sentences += mistaken_host_variables(
            self.get_option("host_variables"), self.get_option("play_variables"), given
        )
        sentences += lone_words(given) + bare_profiles(given, terms)
        sentences += mistaken_choices(given, self.get_option("choices"))
        sentences += unknown_words(others, words, options)
        others = [name for name in others if name not in words]
        if others:
            Display().warning(f"Not an option of this playbook: {', '.join(others)}")
        return sentences
