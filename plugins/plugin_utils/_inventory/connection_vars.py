# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that say how an inventory's host is reached, each rendered only when somebody asks for it."""

from __future__ import annotations

import functools
import os
import shlex
import typing as t
from collections.abc import Callable, Mapping

from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.inventory.helpers import get_group_vars, sort_groups
from ansible.plugins.loader import connection_loader
from ansible.utils.vars import combine_vars, load_extra_vars
from ansible.vars.plugins import get_vars_from_inventory_sources

from ...module_utils._base.errors import VirtError
from ...module_utils._host.connection import make_uri
from .host_vars import ssh_args_with_ours_first
from .hypervisors import HypervisorEntry, InventoryHypervisor, SshSettings

if t.TYPE_CHECKING:  # pragma: no cover
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader

# What of the connection plugin's options counts for libvirt's own use of ssh.
_SSH_OPTIONS = (
    "ssh_args",
    "ssh_common_args",
    "ssh_extra_args",
    "private_key_file",
    "ssh_executable",
    "host_key_checking",
    "port",
    "remote_user",
)


class ConnectionVars:
    """What the inventory says of one host, without reading what nobody needs: that may hold undefined names."""

    def __init__(self, variables: Mapping[str, t.Any], templar: t.Any) -> None:
        self._variables = variables
        self._templar = templar

    def get(self, name: str) -> t.Any:
        """The value of a variable, None without one. Raises VirtError when it cannot be rendered."""
        if name not in self._variables:
            return None
        self._templar.available_variables = self._variables
        try:
            return self._templar.template(self._variables[name])
        except AnsibleError as exc:
            raise VirtError(f"its variable {name} cannot be read: {exc}") from exc
        finally:
            self._templar.available_variables = {}

    def some(self, names: t.Iterable[str]) -> dict[str, t.Any]:
        """Those of these variables that there are. Raises VirtError as above."""
        return {name: self.get(name) for name in names if name in self._variables}


class InventoryVars:
    """What an inventory says of its hosts, group_vars and host_vars included.

    Made anew when groups get other variables: what groups give to their hosts is put together once for each set of
    groups.
    """

    def __init__(
        self, data: InventoryData, loader: DataLoader, templar: t.Any, *, use_extra_vars: bool = False
    ) -> None:
        self._data = data
        self._loader = loader
        self._templar = templar
        self._extra_vars = load_extra_vars(loader) if use_extra_vars else {}
        self._sources = [*data.processed_sources, *([data.current_source] if data.current_source else [])]
        self._from_groups: dict[tuple[str, ...], dict[str, t.Any]] = {}

    def knows(self, name: str) -> bool:
        """Whether there is a host of this name."""
        return name in self._data.hosts

    def of(self, name: str) -> ConnectionVars:
        """The variables of a host; none for one that the inventory does not know."""
        host = self._data.hosts.get(name)
        if host is None:
            return ConnectionVars({}, self._templar)
        # New groups become children of ``all`` only when all sources are parsed.
        groups = sort_groups({self._data.groups["all"], *host.get_groups()})
        key = tuple(group.name for group in groups)
        if key not in self._from_groups:
            self._from_groups[key] = combine_vars(get_group_vars(groups), self._from_files(groups))
        variables = combine_vars(self._from_groups[key], host.get_vars())
        variables = combine_vars(variables, self._from_files([host]))
        if self._extra_vars:
            variables = combine_vars(variables, self._extra_vars)
        variables.setdefault("inventory_hostname", name)
        return ConnectionVars(variables, self._templar)

    def _from_files(self, entities: list[t.Any]) -> dict[str, t.Any]:
        return get_vars_from_inventory_sources(self._loader, self._sources, entities, "all")


def as_inventory_reaches(
    entry: HypervisorEntry, inventory: InventoryVars, default_transport: str
) -> InventoryHypervisor:
    """An entry without a URI, with the one that the variables of the host of its name give it.

    default_transport: for an entry that has none. Raises VirtError when a variable that this needs cannot be read.
    """
    variables = inventory.of(entry.name)
    own_uri = variables.get("virt_uri")
    if own_uri:
        uri = str(own_uri)
        is_ssh = uri.partition("://")[0].endswith("+ssh") and inventory.knows(entry.name)
        return InventoryHypervisor(entry.name, uri, ssh_settings(variables)[0] if is_ssh else None)
    transport = entry.transport or default_transport
    if variables.get("ansible_connection") in ("local", "ansible.builtin.local"):
        transport = "local"
    if transport == "local":
        return InventoryHypervisor(entry.name, make_uri(host=entry.name, transport=transport))
    address = str(variables.get("ansible_host") or entry.name)
    if transport != "ssh":
        return InventoryHypervisor(entry.name, make_uri(host=address, transport=transport))
    settings, user, port = ssh_settings(variables)
    return InventoryHypervisor(entry.name, make_uri(host=address, transport="ssh", user=user, port=port), settings)


def ssh_options(variables: ConnectionVars, names: t.Collection[str] = _SSH_OPTIONS) -> dict[str, t.Any]:
    """These options of Ansible's own ssh for a host: from its variables, the environment and ansible.cfg.

    Raises VirtError for a variable that cannot be rendered, or that is of the wrong type.
    """
    found = variables.some(_sources(tuple(names)))
    try:
        options = C.config.get_plugin_options("connection", "ssh", variables=found) if found else _unvaried()
    except AnsibleError as exc:
        raise VirtError(f"its variables for SSH are wrong: {exc}") from exc
    return {name: options.get(name) for name in names}


@functools.cache
def _sources(names: tuple[str, ...]) -> tuple[str, ...]:
    """The variables that these options of ssh may come from."""
    connection_loader.get("ssh", class_only=True)  # makes its options known to the configuration
    definitions = C.config.get_configuration_definitions("connection", "ssh")
    return tuple(source["name"] for name in names for source in definitions.get(name, {}).get("vars") or [])


@functools.cache
def _unvaried() -> Mapping[str, t.Any]:
    """The options of ssh where no variable says otherwise: they are the same for all hosts."""
    return dict(C.config.get_plugin_options("connection", "ssh", variables={}))


def ssh_settings(variables: ConnectionVars) -> tuple[SshSettings, str | None, int | None]:
    """How Ansible would call ssh for a host, with user and port. Raises VirtError as above."""
    options = ssh_options(variables)
    arguments: list[str] = []
    for option in ("ssh_args", "ssh_common_args", "ssh_extra_args"):
        try:
            arguments += [word.strip() for word in shlex.split(options[option] or "") if word.strip()]
        except ValueError as exc:
            raise VirtError(f"the arguments for SSH in {option} cannot be split into words: {exc}") from exc
    key, port = options["private_key_file"], options["port"]
    checking = options["host_key_checking"]
    settings = SshSettings(
        executable=options["ssh_executable"] or "ssh",
        arguments=tuple(arguments),
        private_key_file=os.path.expanduser(key) if key else None,
        host_key_checking=True if checking is None else bool(checking),
    )
    return settings, options["remote_user"] or None, int(port) if port else None


def arguments_beside_ours(
    host: str, variables: ConnectionVars, firsts: tuple[str, str], warn: Callable[[str], t.Any]
) -> tuple[str, str | None]:
    """The arguments for SSH of one machine: those of the option, ours, then what it would have without us.

    The first are ``ansible_ssh_common_args``, the second ``ansible_ssh_args``, None where these may stay as they are.
    variables: what the inventory says of the host. firsts: the arguments of the option, and ours. warn: takes what is
    to be said of a variable that cannot be read.
    """
    option, own = firsts
    other = _without_us(host, variables, "ssh_common_args", warn) or ""
    # ``compose`` may have put the two together already.
    parts = (option, "" if own in other else own, other)
    common = " ".join(str(part).strip() for part in parts if part and str(part).strip())
    first = ssh_args_with_ours_first(
        own,
        _without_us(host, variables, "ssh_args", warn),
        _without_us(host, variables, "host_key_checking", warn),
    )
    return common, first


def _without_us(host: str, variables: ConnectionVars, option: str, warn: Callable[[str], t.Any]) -> t.Any:
    """What an option of Ansible's ssh is for a machine by the inventory's variables and Ansible's configuration."""
    try:
        return ssh_options(variables, (option,))[option]
    except VirtError as exc:
        warn(f"ansible_{option} of {host} cannot be read here and is left out: {exc}")
        return ssh_options(ConnectionVars({}, None), (option,))[option]
