# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine's record as variables and groups of an inventory host. Pure: for the inventory plugin and the filter."""

from __future__ import annotations

import ipaddress
import itertools
import os
import re
import shlex
import typing as t
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ...module_utils._model.reserved_names import reserved_meaning

DEFAULT_KNOWN_HOSTS = "~/.ssh/known_hosts.d/brine-virt"
MACHINES_GROUP = "virt_machines"

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Arguments for SSH, such as a ProxyCommand, may put the user into a line for the controller's shell; so whatever stands
# in a hypervisor's metadata, it is a plain name, as all those that seeds create.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\$?")
# Ansible gives these their values itself; a machine must not be able to pose as another host.
MAGIC_VARIABLES = frozenset(
    {
        "environment",
        "group_names",
        "groups",
        "hostvars",
        "inventory_dir",
        "inventory_file",
        "inventory_hostname",
        "inventory_hostname_short",
        "omit",
        "play_hosts",
        "playbook_dir",
        "role_name",
        "role_names",
        "role_path",
        "vars",
        # What templates call, which a variable of the name would hide.
        "cycler",
        "dict",
        "joiner",
        "lipsum",
        "lookup",
        "namespace",
        "now",
        "q",
        "query",
        "range",
        "undef",
    }
)
# Ansible reads what host_vars has under the name of a host, be that a path: with a slash or of dots alone it leads
# elsewhere, and with the end of a file to the variables of another host (find_vars_files in its DataLoader). To ssh,
# what begins with a dash is an option.
_FOREIGN = re.compile(r"[/\0\r\n]|^-")
_FILE_NAME = re.compile(r"\.*|.*(\.(ya?ml|json)|~)", re.DOTALL | re.IGNORECASE)
# Where an address comes from that no guest can choose: the machine's own seed, and the leases of the hypervisor's DHCP
# servers, which are theirs to give. What its agent says and what it answers to ARP are the guest's own claims.
_ORIGINS_BEYOND_THE_GUEST = frozenset({"static", "lease"})
# By these ssh finds a machine's host keys, and checks them; their names count in any case.
_SSH_OPTIONS = re.compile("HostKeyAlias|UserKnownHostsFile|StrictHostKeyChecking", re.IGNORECASE)
# Host variables that are fields of the record under the collection's prefix: those of every machine, and those of each
# item of the inventory's option ``facts``.
_FIELDS = ("name", "uuid", "state", "managed", "errors")
FACTS: dict[str, tuple[str, ...]] = {
    "address": ("addresses",),
    "hardware": ("vcpus", "memory_mib", "autostart"),
    "disks": ("disks",),
    "nics": ("nics",),
    "graphics": ("graphics",),
    "image": ("image",),
    "tags": ("tags",),
    "description": ("title", "description"),
}
# What else of a record makes an inventory: names, groups, known_hosts, connection.
_FOR_ALL = ("vcpus", "tags", "building", "claimed", "user", "host_keys", "variables")


def host_key_alias(uuid: str) -> str:
    """The name that the machine has in known_hosts: stays the same when its addresses change."""
    return f"virt-{uuid}"


def needed_of(record: Mapping[str, t.Any], facts: Collection[str]) -> dict[str, t.Any]:
    """What of a machine's record an inventory with these facts has a use for."""
    fields = {*_FIELDS, *_FOR_ALL, *(field for fact in facts for field in FACTS[fact])}
    if "address" in facts:
        fields |= {"address", "nics"}
    return {name: value for name, value in record.items() if name in fields}


def host_vars(
    record: Mapping[str, t.Any],
    *,
    hypervisor: str,
    uri: str,
    known_hosts: str | None = None,
    trust_guest_addresses: bool = False,
    facts: Collection[str] = tuple(FACTS),
) -> dict[str, t.Any]:
    """The variables of a machine's inventory host.

    hypervisor, uri: where it runs; known_hosts: absolute path of the file that its host keys are written to.
    With host keys and that file, SSH checks strictly, by the alias. A machine that is still being made has no address.
    trust_guest_addresses: let an address count that only the guest claims although SSH cannot check who answers there.
    facts: what of FACTS becomes variables.
    Its own variables never set what Ansible or this collection sets: connection, magic variables, ``virt_...``.
    """
    variables = {
        name: value for name, value in (record.get("variables") or {}).items() if is_allowed_variable(str(name))
    }
    user = login_user(record)
    if user:
        variables["ansible_user"] = user
    verified = bool(record.get("host_keys") and known_hosts)
    address = counting_address(record, verified=verified or trust_guest_addresses)
    if address and not record.get("building"):
        variables["ansible_host"] = address
    if known_hosts and (record.get("host_keys") or is_unread(record)):
        # Whether one that could not be read has keys is not known: what answers to its name is not believed unchecked.
        variables["ansible_ssh_common_args"] = ssh_arguments(record["uuid"], known_hosts)
    fields = (*_FIELDS, *(field for fact in facts for field in FACTS[fact]))
    variables.update({f"virt_{field}": record.get(field) for field in fields})
    variables.update(virt_hypervisor=hypervisor, virt_uri=uri)
    return variables


def login_user(record: Mapping[str, t.Any]) -> str | None:
    """The user that the machine was seeded with, None where nobody knows one."""
    user = str(record.get("user") or "")
    return user if _USER.fullmatch(user) else None


def is_unread(record: Mapping[str, t.Any]) -> bool:
    """Whether a machine was listed, but could not be read."""
    return record.get("vcpus") is None and not record.get("claimed")


def counting_address(record: Mapping[str, t.Any], *, verified: bool | None = None) -> str | None:
    """The address that is taken to be the machine's, None without one.

    verified: whether what only the guest claims counts as well; by default where SSH could check who answers there.
    """
    if record.get("host_keys") if verified is None else verified:
        return _plain_address(record.get("address"))
    return _plain_address(_address_beyond_the_guest(record))


def _plain_address(text: t.Any) -> str | None:
    """An address, if it is one: it becomes an argument of ssh, and a record may be what a hypervisor has said."""
    # A zone may be any text, and a number is one, too.
    if not isinstance(text, str) or "%" in text:
        return None
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return None
    return text


def _address_beyond_the_guest(record: Mapping[str, t.Any]) -> str | None:
    """The best address of a machine that not only the guest itself claims, None without one."""
    sure = {
        address["address"]
        for nic in record.get("nics") or []
        for address in nic.get("addresses") or []
        if address["origin"] in _ORIGINS_BEYOND_THE_GUEST
    }
    return next((address for address in record.get("addresses") or [] if address in sure), None)


def is_allowed_variable(name: str) -> bool:
    """Whether a machine may bring a variable of this name into the inventory."""
    return (
        bool(_IDENTIFIER.fullmatch(name)) and not name.startswith(("ansible_", "virt_")) and name not in MAGIC_VARIABLES
    )


def ssh_arguments(uuid: str, known_hosts: str) -> str:
    """What makes ssh know the machine by its own name, in one file, strictly."""
    # ssh takes % as the start of a token, and a blank as the end of the file's name.
    path = known_hosts.replace("%", "%%")
    if re.search(r"\s", path):
        path = f'"{path}"'
    options = (f"HostKeyAlias={host_key_alias(uuid)}", f"UserKnownHostsFile={path}", "StrictHostKeyChecking=yes")
    return " ".join(f"-o {shlex.quote(option)}" for option in options)


def ssh_args_with_ours_first(own: str, ssh_args: str | None, host_key_checking: t.Any = True) -> str | None:
    """What ``ansible_ssh_args`` has to be, that SSH may find the machine's host keys; None where it may stay as it is.

    own: what ssh_arguments() says; ssh_args, host_key_checking: Ansible's settings for the machine without us. Ansible
    puts both before ``ansible_ssh_common_args``, and ssh takes the first value that it sees of an option.
    """
    other = (ssh_args or "").strip()
    if own in other or not (_SSH_OPTIONS.search(other) or host_key_checking is False):
        return None
    return f"{own} {other}".strip()


def group_names(record: Mapping[str, t.Any], hypervisor: str) -> list[str]:
    """The machine's groups, before sanitising: all machines, by state, by hypervisor, by tag, and those being made."""
    names = [MACHINES_GROUP, f"virt_{record['state']}", f"virt_on_{hypervisor}"]
    names.extend(f"virt_tag_{tag}" for tag in record.get("tags") or [])
    if record.get("building"):
        names.append("virt_building")
    return names


def known_hosts_path(text: str | None, basedir: str | None = None) -> str | None:
    """The absolute path of a known_hosts option, None when it is empty; relative ones start at ``basedir``."""
    if not text:
        return None
    path = os.path.expanduser(text)
    return os.path.normpath(os.path.join(basedir or os.getcwd(), path))


@dataclass(frozen=True)
class NamedHost:
    """A machine and the name of its inventory host; warning says why the name is not the one that was wanted."""

    host: str
    hypervisor: str
    uri: str
    record: Mapping[str, t.Any]
    warning: str | None = None


class ListedMachine(t.NamedTuple):
    """The record of a machine, and where it is."""

    hypervisor: str
    uri: str
    record: Mapping[str, t.Any]


def name_hosts(
    machines: Sequence[ListedMachine],
    taken: Collection[str] = (),
    name_of: Callable[[ListedMachine], str | None] = lambda _machine: None,
    described: Mapping[tuple[str, str], str] | None = None,
    elsewhere: Mapping[str, Collection[str]] | None = None,
) -> list[NamedHost]:
    """An inventory name for every one of these machines; no two share one.

    machines: as listed_machines() has them. taken: names that mean something else already, beside those that no machine
    can have. name_of: what a machine is to be called, None for its own name. One whose name is taken, or is also that
    of another machine, is listed as ``<name>_<hypervisor>``. described: by hypervisor and UUID, the hosts that another
    configuration file has made: a machine is one host, whoever lists it. elsewhere: by name, the UUIDs of machines that
    are known to be where nobody answers: no other machine takes their names.
    """
    described, elsewhere = described or {}, elsewhere or {}
    known = [(one, host) for one in machines if (host := described.get((one.hypervisor, one.record["uuid"])))]
    if known:
        others = [one for one in machines if (one.hypervisor, one.record["uuid"]) not in described]
        again = [NamedHost(host, one.hypervisor, one.uri, one.record) for one, host in known]
        return [*again, *name_hosts(others, taken, name_of, elsewhere=elsewhere)]
    names = [name_of(machine) or machine.record["name"] for machine in machines]
    homes: dict[str, list[str]] = {}
    for name, (hypervisor, _uri, _record) in zip(names, machines, strict=True):
        homes.setdefault(name, []).append(hypervisor)
    meanings = {name: _other_meaning(name) for name in homes}
    taken = {*taken, *(name for name, meaning in meanings.items() if meaning)}
    # Names that nobody disputes come first: a qualified name gives way to them.
    used = {name for name, where in homes.items() if len(where) == 1 and name not in taken} | taken
    named = []
    for name, (hypervisor, uri, record) in zip(names, machines, strict=True):
        uuids = {one for word in (name, record["name"]) for one in elsewhere.get(word, ())}
        another = bool(uuids) and record["uuid"] not in uuids
        if name not in taken and len(homes[name]) == 1 and not another:
            named.append(NamedHost(name, hypervisor, uri, record))
            continue
        host = f"{_FOREIGN.sub('_', name)}_{hypervisor}"
        if host in used:
            host = f"{host}_{_FOREIGN.sub('_', record['uuid'])}"
        # Only a hypervisor that was taken over has two machines of one UUID.
        same = host
        for number in itertools.count(2):
            if host not in used:
                break
            host = f"{same}_{number}"
        used.add(host)
        if homes[name].count(hypervisor) > 1:
            reason = f"{homes[name].count(hypervisor)} machines on {hypervisor} are to be called {name}"
        elif len(homes[name]) > 1:
            reason = f"There is a machine {name} on each of {', '.join(homes[name])}"
        elif meanings[name]:
            reason = f"The name of machine {name} on {hypervisor} is {meanings[name]}"
        elif another:
            reason = f"Another machine {record['name']} is known, and a hypervisor does not answer that may have it"
        else:
            reason = f"The name of machine {name} on {hypervisor} is that of another host or group of the inventory"
        named.append(
            NamedHost(host, hypervisor, uri, record, f"{reason}; the one on {hypervisor} is listed as {host}.")
        )
    return named


def _other_meaning(name: str) -> str | None:
    """What a name means already, as of reserved_meaning, to an inventory too."""
    meaning = reserved_meaning(name)
    if meaning is None and (_FOREIGN.search(name) or _FILE_NAME.fullmatch(name)):
        return "that of a file or an option"
    return meaning


def without_path(name: str) -> str:
    """A name that leads to no file but its own, where Ansible looks for variables by it."""
    name = _FOREIGN.sub("_", name)
    return re.sub("[.~]", "_", name) if _FILE_NAME.fullmatch(name) else name


def listed_machines(answers: Sequence[Mapping[str, t.Any]]) -> list[ListedMachine]:
    """The machines of all answers, each with where it is: hypervisor and URI.

    A name that is only claimed on a hypervisor is listed as a machine where there is no other of that name.
    """
    machines = [
        ListedMachine(answer["hypervisor"], answer["uri"], record)
        for answer in answers
        for record in answer.get("machines") or []
    ]
    made = {machine.record["name"] for machine in machines if not machine.record.get("claimed")}
    kept = []
    for machine in machines:
        if machine.record.get("claimed"):
            if machine.record["name"] in made:
                continue
            made.add(machine.record["name"])
        kept.append(machine)
    return kept
