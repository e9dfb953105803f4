# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of many hypervisors as one file of variables, from what virt_spec_info says of them. Pure.

Titles and the like are somebody else's words. In a file of variables, Ansible takes what looks like a template for one;
so these are marked with ``!unsafe``.
"""

from __future__ import annotations

import hashlib
import re
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from ...module_utils._base.errors import InputError, Mistakes, one_of_these
from .table import printable_line
from .text import split_answers

_MARK = "# Written by brine.virt.export; as long as nobody changes this file, the next export replaces it. sha256: "
_TEMPLATE = re.compile(r"\{[{%#]|#jinja2:")
# YAML folds these like line feeds, unless they are escaped in double quotes.
_OTHER_BREAKS = re.compile("[\x85\u2028\u2029]")
_WIDTH = 120


class _Dumper(yaml.SafeDumper):
    """Writes YAML with lists indented, and with what looks like a template marked as none."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists in mappings as well, as ansible-lint wants it."""
        super().increase_indent(flow, False)

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """A text; one that looks like a template with the tag that makes it a plain text to Ansible."""
        if _TEMPLATE.search(data):
            return self.represent_scalar("!unsafe", data, style='"')
        if _OTHER_BREAKS.search(data):
            return self.represent_scalar("tag:yaml.org,2002:str", data, style='"')
        return super().represent_str(data)


_Dumper.add_representer(str, _Dumper.represent_str)


@dataclass
class _Found:
    """What the hypervisors said. machines: with their hypervisors, in order."""

    machines: list[tuple[str, Mapping[str, t.Any]]] = field(default_factory=list)
    silent: dict[str, str] = field(default_factory=dict)


def export_file(
    results: t.Any,
    names: Sequence[str] = (),
    *,
    file: str = "vms.yml",
    old: str | None = None,
    force: bool = False,
) -> dict[str, t.Any]:
    """The file of a cloud, as the filter brine.virt.export returns it.

    results: registered results of virt_spec_info by the hypervisors' names. names: the machines that are asked for, all
    if empty. file: how the file is called; old: what is in it now, None where there is none; force: replace it in any
    case. Raises InputError with a line for each mistake.
    """
    found = _Found()
    answered, found.silent = split_answers(results, "machines")
    for hypervisor, machines in answered.items():
        found.machines += [
            (hypervisor, _own_entry(machine)) for machine in machines if not names or machine["name"] in names
        ]
    mistakes = Mistakes()
    if not answered:
        with mistakes.noted():
            raise InputError("no hypervisor answered: " + "; ".join(_sentences(found.silent)))
    for check in (_check_names, _check_homes):
        with mistakes.noted():
            check(found, names, answered)
    with mistakes.noted():
        _check_old(file, old, found.silent, force=force)
    mistakes.conclude()
    entries = [
        _with_hypervisor(machine["entry"], hypervisor) for hypervisor, machine in found.machines if machine.get("entry")
    ]
    return {
        "text": _text(found, entries),
        "entries": entries,
        "report": "\n".join(map(printable_line, [*_report(found), f"{_count(len(entries))} in {file}"])),
        "silent": _sentences(found.silent),
    }


def _sentences(silent: Mapping[str, str]) -> list[str]:
    return [f"{hypervisor} {reason}" for hypervisor, reason in silent.items()]


def _check_names(found: _Found, names: Sequence[str], answered: Mapping[str, t.Any]) -> None:
    there = {machine["name"] for machines in answered.values() for machine in machines}
    for name in names:
        if name not in there:
            raise InputError(
                f"there is no machine {name!r} on {', '.join(answered)}",
                where="vm",
                hint="; ".join(_sentences(found.silent)) or one_of_these(name, there),
            )


def _check_homes(found: _Found, _names: Sequence[str], _answered: Mapping[str, t.Any]) -> None:
    homes: dict[str, list[str]] = {}
    for hypervisor, machine in found.machines:
        if machine.get("entry"):
            homes.setdefault(machine["name"], []).append(hypervisor)
    twice = [f"{name} on each of {', '.join(hosts)}" for name, hosts in homes.items() if len(hosts) > 1]
    if twice:
        raise InputError(
            f"there are several machines of one name, of which virt_vms can have only one: {'; '.join(twice)}",
            hint="Rename one of them (virsh domrename), or name the others with -e vm=NAME,NAME",
        )


def _check_old(file: str, old: str | None, silent: Mapping[str, str], *, force: bool) -> None:
    if old is None or force:
        return
    if not _is_own(old):
        raise InputError(
            f"{file} was not written by an export, or has been changed since, so it is kept",
            where="file",
            hint="Name another file with -e file=FILE, or replace it with -e force=true",
        )
    if silent:
        raise InputError(
            f"{'; '.join(_sentences(silent))}, so {file}, which an earlier export has written, is kept",
            where="file",
            hint="Name another file with -e file=FILE, or replace it with -e force=true",
        )


def _is_own(text: str) -> bool:
    first, _line_feed, rest = text.partition("\n")
    return first == f"{_MARK}{_digest(rest)}"


def _digest(text: str) -> str:
    # A lookup of Ansible may take line feeds away at the end.
    return hashlib.sha256(text.rstrip("\n").encode()).hexdigest()


def _own_entry(machine: Mapping[str, t.Any]) -> Mapping[str, t.Any]:
    """A machine with its entry, or with why it has none. Whatever its hypervisor says, that is of no other machine."""
    entry = machine.get("entry")
    if not entry or (isinstance(entry, Mapping) and entry.get("name") == machine["name"]):
        return machine
    return {**machine, "entry": None, "msg": "its hypervisor gives the entry of another machine for it"}


def _with_hypervisor(entry: Mapping[str, t.Any], hypervisor: str) -> dict[str, t.Any]:
    plain = _plain(entry)
    own = {"name": plain["name"], "hypervisor": str.__str__(hypervisor)}
    return {**own, **{key: value for key, value in plain.items() if key not in own}}


def _plain(value: t.Any) -> t.Any:
    """Data without the types that Ansible has for its own, which no YAML is written of."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool) or value is None:
        return value
    return float(value) if isinstance(value, float) else int(value)


def _text(found: _Found, entries: Sequence[Mapping[str, t.Any]]) -> str:
    lines = [f"{sentence}. Its machines are missing here." for sentence in _sentences(found.silent)]
    lines += [f"{m['name']} on {host} is left out: {m.get('msg')}" for host, m in found.machines if not m.get("entry")]
    lines += _to_adopt(found)
    text = "".join(f"# {printable_line(line)}\n" for line in lines) + "---\n"
    if not entries:
        text += "virt_vms: []\n"
    else:
        missing = {m["name"]: m.get("not_exported") or [] for _host, m in found.machines if m.get("entry")}
        text += "virt_vms:\n" + "".join(_entry_text(entry, missing[entry["name"]]) for entry in entries)
    return f"{_MARK}{_digest(text)}\n{text}"


def _entry_text(entry: Mapping[str, t.Any], missing: Sequence[str]) -> str:
    dumped = yaml.dump([dict(entry)], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    comments = "".join(f"    # Not exported: {printable_line(text)}\n" for text in missing)
    return "".join(f"  {line}\n" if line else "\n" for line in dumped.splitlines()) + comments


def _report(found: _Found) -> list[str]:
    lines = []
    for hypervisor, machine in found.machines:
        place, missing = f"{machine['name']} on {hypervisor}", machine.get("not_exported") or []
        if not machine.get("entry"):
            lines.append(f"{place} is left out: {machine.get('msg')}")
        elif missing:
            lines += [f"Left out of {place}:", *(f"  {text}" for text in missing)]
    return [*lines, *_to_adopt(found), *_sentences(found.silent)]


def _to_adopt(found: _Found) -> list[str]:
    """What has to be done before the file can be provisioned, which is refused as a whole."""
    return [
        f"{machine['name']} on {hypervisor} was not created by this collection: before this file can be provisioned, "
        f"brine.virt.adopt -e vm={machine['name']}, or leave it out"
        for hypervisor, machine in found.machines
        if machine.get("entry") and machine.get("managed") is False
    ]


def _count(number: int) -> str:
    return "1 machine" if number == 1 else f"{number} machines"
