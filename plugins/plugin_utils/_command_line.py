# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command line of the run has: the playbooks, and the names of variables, there and in files."""

from __future__ import annotations

import os
import typing as t

from ansible import context
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.splitter import parse_kv

# How a playbook of the collection is called, and where its files are.
_NAMES = "brine.virt."
_FILES = "/ansible_collections/brine/virt/playbooks/"
_IMPORTS = ("import_playbook", "ansible.builtin.import_playbook")


def site_playbooks() -> list[str]:
    """The playbooks on the command line that are none of the collection's, as they are written there.

    If there is only one, a file that does nothing but import one of the collection's counts as that, as such a file is
    needed where only files can be run (AWX): no option can be meant for another part.
    """
    playbooks = [str(playbook) for playbook in context.CLIARGS.get("args", ())]
    if len(playbooks) == 1 and _only_imports_ours(playbooks[0]):
        return []
    return [playbook for playbook in playbooks if not _is_ours(playbook)]


def _is_ours(playbook: str) -> bool:
    return playbook.startswith(_NAMES) or any(_FILES in path(playbook) for path in (os.path.abspath, os.path.realpath))


def _only_imports_ours(playbook: str) -> bool:
    # A pipe has been read already, and has no more.
    if not os.path.isfile(playbook):
        return False
    try:
        plays = DataLoader().load_from_file(os.path.abspath(playbook))
    except (AnsibleError, OSError):
        # Encrypted, for one.
        return False
    if not (isinstance(plays, list) and len(plays) == 1 and isinstance(plays[0], dict)):
        return False
    # With vars or templates, what is on the command line may be variables of the user's own.
    imported = [str(value) for key, value in plays[0].items() if key in _IMPORTS]
    plain = plays[0].keys() <= {"name", *_IMPORTS} and not any("{" in str(value) for value in plays[0].values())
    return plain and len(imported) == 1 and imported[0].startswith(_NAMES)


def written_names(load: t.Callable[[str], t.Any]) -> tuple[set[str], set[str]]:
    """The names that stand as NAME=VALUE behind -e, and those in JSON or YAML there. What is in files is in neither.

    load: reads JSON or YAML. Ansible has refused before what it cannot read.
    """
    texts = [str(text).strip() for text in context.CLIARGS.get("extra_vars", ())]
    words = {str(name) for text in texts if text[:1] not in ("@", "/", ".", "[", "{") for name in parse_kv(text)}
    mappings = [load(text) for text in texts if text[:1] in ("[", "{")]
    return words, {str(name) for mapping in mappings if isinstance(mapping, dict) for name in mapping}


def names_in_files(load_file: t.Callable[[str], t.Any]) -> list[set[str]]:
    """The names in each of the files behind -e.

    load_file: gives back what is in a file by its whole path, as Ansible has read it for the run: it may be a pipe.
    """
    texts = [str(text) for text in context.CLIARGS.get("extra_vars", ())]
    # A new loader looks for a file where Ansible has: not beside the playbook.
    files = [load_file(DataLoader().path_dwim(text[1:])) for text in texts if text.startswith("@")]
    return [{str(name) for name in file} for file in files]
