# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that say how an inventory's host is reached, each rendered only when somebody asks for it."""

from __future__ import annotations

import os
import shlex
import typing as t
from collections.abc import Mapping

from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.plugins.loader import connection_loader

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.plugin_utils._inventory.hypervisors import SshSettings

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
    """What the inventory says of one host, without looking at what nobody needs: that may hold undefined names."""

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


def ssh_options(variables: ConnectionVars, names: t.Collection[str] = _SSH_OPTIONS) -> dict[str, t.Any]:
    """These options of Ansible's own ssh for a host: from its variables, the environment and ansible.cfg.

    Raises VirtError for a variable that cannot be rendered, or that is of the wrong type.
    """
    connection_loader.get("ssh", class_only=True)  # makes its options known to the configuration
    definitions = C.config.get_configuration_definitions("connection", "ssh")
    sources = [source["name"] for name in names for source in definitions.get(name, {}).get("vars") or []]
    found = variables.some(sources)
    try:
        options = C.config.get_plugin_options("connection", "ssh", variables=found)
    except AnsibleError as exc:
        raise VirtError(f"its variables for SSH are wrong: {exc}") from exc
    return {name: options.get(name) for name in names}


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
