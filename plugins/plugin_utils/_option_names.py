# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of the command line that are meant for an option of a playbook, and are called or filled in otherwise."""

from __future__ import annotations

import difflib
import functools
import re
import typing as t
from collections.abc import Collection, Mapping, Sequence

from ..module_utils._base.errors import one_of_these

# What modules, Salt, virsh and other tools call the same thing.
_OTHER_WORDS = {
    "vm": ("name", "names", "machine", "machines", "domain", "guest", "vms"),
    "from": ("source", "src", "host", "hypervisor"),
    "to": ("target", "destination", "dest", "dst", "host", "hypervisor"),
    "on": ("host", "hypervisor", "node"),
    "tag": ("label",),
    "state": ("power", "action"),
    "only_pending": ("pending",),
    "keep_disks": ("keep", "keep_volumes", "keep_storage"),
    "hypervisor": ("on", "target", "to", "host", "node"),
    "stop_timeout": ("timeout",),
    "timeout": ("stop_timeout",),
    "begin": ("start",),
    "end": ("stop",),
    "new_name": ("name",),
    "snapshot": ("snap", "snapshot_name"),
    "reason": ("why", "comment"),
    "file": ("dest", "destination", "filename", "output_file"),
    "vcpus": ("cpus", "vcpu"),
    "memory": ("mem", "ram"),
    "disk_profile": ("disk",),
    "nic_profile": ("nic",),
    "nics": ("interfaces",),
    "features": ("hypervisor_features",),
}
# Those whose other words are refused wherever they are: passed over, the disks of a machine are deleted, or machines
# are switched off that have nothing pending. What the others are called may be the user's own variables, such as host.
_PROTECTING = {option: _OTHER_WORDS[option] for option in ("keep_disks", "only_pending")}
# What people say for a word of ours. «deleted» is nearest to «reverted», which loses what a machine does.
_MEANT = dict.fromkeys(("delete", "deleted", "remove", "removed"), "absent")
# Not the user's words for anything of ours, or checked elsewhere.
_OTHERS = ("virt_", "ansible_")
# What Ansible calls the words of the command line that are no NAME=VALUE.
_LONE = "_raw_params"
# The options of all playbooks. One that is not this playbook's own was meant for it all the same: passed over, it would
# have more done than was asked for, or something else.
# fmt: off
_OF_PLAYBOOKS = frozenset((
    "adopt", "all", "anti_affinity", "autostart", "backup", "begin", "boot", "boot_dev", "checksum", "clock", "clone",
    "consoles", "cpu", "cpu_mode", "delay_seconds", "description", "dest", "dest_pool", "disk", "disk_profile",
    "disks", "enable_qcow", "enable_vnc", "end", "events", "features", "file", "firmware", "force", "from", "full",
    "graphics", "host_devices", "hypervisor", "image", "in_state", "keep_disks", "labels", "limit", "lost",
    "machine_type", "memory", "new_name", "nic_profile", "nics", "numatune", "on", "only_pending", "order", "output",
    "pool", "quiesce", "reason", "replace", "rng", "secure_boot", "seed", "seed_policy", "serials", "shared_folders",
    "snapshot", "src", "src_pool", "start", "started", "state", "stop", "stop_on_reboot", "stop_timeout", "tag",
    "tags", "timeout", "title", "to", "tpm", "trust_definition", "variables", "vcpus", "verify", "video", "vm",
    "volume", "watchdog", "xml",
))
# fmt: on
# The ends of variables that are options of playbooks. The playbooks have other variables with the same beginnings, but
# nobody sets those: what is spelt nearly like one of these is meant for it. Those of the role virt_hypervisor are
# compared by its playbook.
_VARIABLES: dict[str, list[str]] = {
    "virt_migrate_": [
        "bandwidth",
        "concurrency",
        "copy_storage",
        "live",
        "postcopy",
        "source_volumes",
        "timeout",
        "tls",
    ],
    "virt_backup_": ["dest", "dest_pool", "full_every", "keep", "merge_above", "must_be_mounted", "owner", "quiesce"],
    "virt_power_": ["concurrency"],
    "virt_snapshot_": ["concurrency", "keep"],
    "virt_provision_": ["concurrency", "conclude", "stop_timeout", "timeout", "wait"],
    "virt_hypervisor_": [],
}
# Those of several playbooks, and the above for whoever writes virt_backups_keep.
_VARIABLES["virt_"] = [
    "answer_seconds",
    "anti_affinity",
    "cpu_baseline",
    "hypervisors",
    "known_hosts",
    "labels",
    "memory_ratio",
    "memory_reserve_mib",
    "policy",
    "trust_guest_addresses",
    "unseen",
    "vcpu_ratio",
    *(f"{family}{ending}"[len("virt_") :] for family, endings in _VARIABLES.items() for ending in endings),
]
_KNOWN = {family + ending for family, endings in _VARIABLES.items() for ending in endings}
# What the live inventory says of a machine, which may be a hypervisor itself.
_OF_MACHINES = {"virt_hypervisor"}
# One letter too many or too few in a word of four.
_CLOSE = 0.85


def names_meant(typed: set[str], files: Sequence[set[str]], options: Sequence[str], *, site: bool) -> set[str]:
    """The names that are given together with an option of this playbook, and so are probably meant for it.

    typed: names on the command line itself, which are together with those in files, too. files: the names in each.
    options: those of the playbook. site: the run is a playbook of the user's own, where options of other playbooks may
    be meant for another import.
    """
    together = [names for names in files if not names.isdisjoint(options)]
    if together or not typed.isdisjoint(options):
        together.append(typed)
    meant = {name for names in together for name in names}
    return meant - _OF_PLAYBOOKS if site else meant


def mistaken_options(
    given: Collection[t.Any],
    options: Sequence[str],
    meant_for_it: Collection[str] | None = None,
    probably: Collection[str] = (),
) -> tuple[list[str], list[str]]:
    """A sentence for each name that is meant for an option which is not given, and the other names that are no option.

    given: names of all variables on the command line, where on may be true; options: those of the playbook.
    meant_for_it: the names that can be meant for this playbook alone, all by default. probably: those of names_meant.
    The others may be the user's own, or for another playbook, so that of them only what is spelt nearly like an option
    gets a sentence, and other words for _PROTECTING.
    """
    names = {str(name) for name in given if name is not True}
    free = [option for option in options if option not in names]
    sentences, others = [], []
    own = _own(options)
    if any(name is True for name in given):
        sentences.append(f"true: unknown option, as YAML reads on and yes without quotes. {own}")
    for name in sorted(names - set(options)):
        if not name.startswith(_OTHERS) and name != _LONE:
            sure = meant_for_it is None or name in meant_for_it
            likely = sure or name in probably
            meant = _meant(name, free, _OTHER_WORDS if likely else _PROTECTING)
            hint = "" if sure else " If it is a variable of your own, give it another name."
            if meant is not None:
                sentences.append(f"{name}: unknown option. Did you mean {meant}?{hint}")
            elif likely and name in _OF_PLAYBOOKS:
                sentences.append(f"{name}: this playbook does not have this option. {own}{hint}")
            else:
                others.append(name)
    return sentences, others


def unknown_words(others: Sequence[str], typed: Collection[str], options: Sequence[str]) -> list[str]:
    """A sentence for each name that is no option (mistaken_options) and stands as NAME=VALUE on the command line."""
    hint = "A variable of your own goes into a file: -e @FILE."
    return [f"{name}: unknown option. {_own(options)} {hint}" for name in others if name in typed]


def _own(options: Sequence[str]) -> str:
    return f"Its options: {', '.join(sorted(options))}." if options else "It has none."


def mistaken_variables(given: Collection[t.Any]) -> list[str]:
    """A sentence for each variable that is spelt nearly like one of _VARIABLES, which is not given itself.

    given: names of all variables on the command line.
    """
    return [_unknown_variable(name, near) for name, near in _nearly(given)]


def mistaken_host_variables(
    hosts: Mapping[str, Collection[t.Any]], everywhere: Collection[t.Any], given: Collection[t.Any]
) -> list[str]:
    """The same of what hypervisors have: a sentence names those that have the variable, unless all have it.

    hosts: the names of the variables of each, with those on the command line; everywhere: of variables that each has
    besides; given: those on the command line.
    """
    # What is wrong there is said of the command line.
    left_out = _OF_MACHINES | (set(map(str, given)) - _KNOWN)
    having: dict[tuple[str, str], list[str]] = {}
    for host, names in hosts.items():
        for found in _nearly({*names, *everywhere} - left_out):
            having.setdefault(found, []).append(str(host))
    return [
        _unknown_variable(name if len(those) == len(hosts) else f"{name} ({', '.join(those)})", near)
        for (name, near), those in having.items()
    ]


def _unknown_variable(name: str, near: str) -> str:
    return f"{name}: unknown variable. Did you mean {near}?"


def _nearly(names: Collection[t.Any]) -> list[tuple[str, str]]:
    """Each of the names that is spelt nearly like a variable that is not among them, and that variable."""
    ours = {str(name) for name in names if str(name).startswith("virt_")}
    taken = frozenset(ours & _KNOWN)
    return [(name, near) for name in sorted(ours) if (near := _near(name, taken))]


# Most hypervisors have the same variables.
@functools.lru_cache(maxsize=4096)
def _near(name: str, taken: frozenset[str]) -> str | None:
    """The variable that a name is spelt nearly like; None for another name. taken: those that are there themselves."""
    family = next((family for family in _VARIABLES if name.startswith(family)), None)
    if family is None or name in _KNOWN:
        return None
    ending = name[len(family) :]
    free = [item for item in _VARIABLES[family] if family + item not in taken]
    near = [item for item in free if sorted(item) == sorted(ending)]
    near = near or difflib.get_close_matches(ending, free, n=1, cutoff=_CLOSE)
    return family + near[0] if near else None


def lone_words(given: Mapping[str, t.Any]) -> list[str]:
    """A sentence if -e has words that belong to no name, most often the rest of a value that has spaces.

    given: all variables on the command line.
    """
    if _LONE not in given:
        return []
    words = str(given[_LONE])
    if re.fullmatch(r"\S+\.(ya?ml|json)", words):
        return [f"{words!r} stands alone behind -e. A file needs an @: -e @{words}."]
    return [
        f"{words!r} stands alone behind -e. A value with spaces needs quotes of its own, as in"
        " -e 'title=\"SOME WORDS\"', and names in a list no spaces."
    ]


def bare_profiles(given: Mapping[str, t.Any], options: Collection[str]) -> list[str]:
    """A sentence for each part of a Salt configuration that stands beside the variables, where no profile is read.

    given: all variables on the command line; options: those of the playbook.
    """
    if "disk_profile" not in options:
        return []
    whole = given.get("virt")
    names = [f"virt.{kind}" for kind in ("disk", "nic") if f"virt.{kind}" in given]
    names += ["virt"] if isinstance(whole, Mapping) and ("disk" in whole or "nic" in whole) else []
    return [
        f"{name}: profiles in Salt's form are read inside virt_disk_profiles and virt_nic_profiles. Put it there."
        for name in names
    ]


def mistaken_choices(given: Mapping[str, t.Any], choices: Mapping[str, Sequence[str]]) -> list[str]:
    """A sentence for each word of an option that is none of its choices.

    given: all variables on the command line; choices: the words by option; with none of them,
    any is right, and there must be one. What is a template is not known here.
    """
    sentences = []
    for name, known in choices.items():
        value = given.get(name)
        if name in given and (value is None or not (known or _has_words(value))):
            sentences.append(f"{name}: it is empty. Give a value, or leave it out.")
        if not known or value is None:
            continue
        for item in value if isinstance(value, (list, tuple)) else [value]:
            words = [word.strip() for word in str(item).split(",")]
            wrong = [word for word in words if word not in known and "{{" not in word]
            for word in wrong:
                meant = _MEANT.get(word.lower())
                hint = f"Did you mean {meant}?" if meant in known else _ended(one_of_these(word, known))
                sentences.append(f"{name}: there is no {word!r}. {hint}")
    return sentences


def _has_words(value: t.Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    values = value if isinstance(value, (list, tuple)) else [value]
    return any(str(item).strip("[](){},\"' \t\r\n") for item in values if item is not None)


def _ended(hint: str) -> str:
    return hint if hint.endswith("?") else f"{hint}."


def _meant(name: str, options: Sequence[str], other_words: Mapping[str, Sequence[str]]) -> str | None:
    word = name.lower().replace("-", "_")
    for option in options:
        # Letters that changed places count for two with difflib, too many in a short word.
        if word in (option, *other_words.get(option, ())) or sorted(word) == sorted(option):
            return option
    near = difflib.get_close_matches(word, options, n=1, cutoff=_CLOSE)
    return near[0] if near else None
