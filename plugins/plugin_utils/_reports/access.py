# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to get into a machine: commands for the controller, ready to be run. Pure."""

from __future__ import annotations

import re
import shlex
import typing as t
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from .._inventory.host_vars import DEFAULT_KNOWN_HOSTS, counting_address, login_user, ssh_arguments

_ANY_ADDRESS = ("", "0.0.0.0", "::", None)
# As long a tunnel waits for a viewer; it stays open while one uses it.
_TUNNEL_SECONDS = 30
# Options of ssh: ProxyCommand and others that run something; and those that stand in the command already, where the
# live inventory has them among the machine's arguments.
_COMMANDS = re.compile("command", re.IGNORECASE)
_OF_HOST_KEYS = re.compile(r"^(-o)?\s*(HostKeyAlias|UserKnownHostsFile|StrictHostKeyChecking)\b", re.IGNORECASE)
_OPTION_LETTER = re.compile("-[A-Za-z0-9]*o")


def access_lines(
    record: Mapping[str, t.Any],
    hypervisor: str,
    variables: Mapping[str, t.Any],
    own: Mapping[str, t.Any] = MappingProxyType({}),
) -> Iterator[tuple[str, str]]:
    """Titles and commands for a login and for the consoles that a machine has now; none for one that is off.

    variables: the hypervisor's in the inventory, for how Ansible itself logs in there. own: those of the machine, where
    the live inventory lists it.
    """
    address = counting_address(record)
    # Without a host key that is known, nobody can tell who answers there.
    if record.get("state") == "running" and record.get("host_keys") and address and not record.get("building"):
        yield "SSH", _ssh(record, address, variables, own)
    if record.get("state") in ("running", "paused"):
        for graphics in record.get("graphics") or ():
            port, tls_port = graphics.get("port"), graphics.get("tls_port")
            if graphics.get("type") in ("vnc", "spice") and (port or tls_port):
                yield "Viewer", _viewer(graphics, hypervisor, variables)
        if record.get("serial_console") == "pty":
            yield "Console", _text_console(str(record["name"]), hypervisor, variables)
    if record.get("serial_log"):
        yield "Serial log", f"{hypervisor}:{record['serial_log']}"


def _ssh(record: Mapping[str, t.Any], address: str, variables: Mapping[str, t.Any], own: Mapping[str, t.Any]) -> str:
    user = _user(own) or login_user(record)
    place = str(own.get("ansible_host") or address)
    # ssh itself knows what ~ is.
    known_hosts = str(variables.get("virt_known_hosts") or DEFAULT_KNOWN_HOSTS)
    ours = ssh_arguments(str(record["uuid"]), known_hosts)
    login = shlex.quote(f"{user}@{place}" if user else place)
    return " ".join([f"ssh {ours}", *map(shlex.quote, _without(_OF_HOST_KEYS, _options(own))), login])


def _viewer(graphics: Mapping[str, t.Any], hypervisor: str, variables: Mapping[str, t.Any]) -> str:
    plain = graphics.get("port")
    port = plain or graphics["tls_port"]
    listen = graphics.get("listen")
    address = "127.0.0.1" if listen in _ANY_ADDRESS else str(listen)
    query = "" if plain else f"?tls-port={port}"
    place = f"[{address}]" if ":" in address else address
    if _is_here(variables):
        url = f"{graphics['type']}://{place}{f':{port}' if plain else query}"
        return shlex.join(["remote-viewer", url])
    # The first console of every hypervisor has the same port: while a tunnel to another one has it here, ssh has to
    # fail, or the viewer would show that one's machine. Without an address it would also be content with ::1 alone.
    forward = ["-o", "ExitOnForwardFailure=yes", "-L", f"127.0.0.1:{port}:{place}:{port}"]
    tunnel = ["ssh", "-f", *_options(variables), *forward, _login(hypervisor, variables)]
    url = f"{graphics['type']}://127.0.0.1{f':{port}' if plain else query}"
    return f"{shlex.join([*tunnel, 'sleep', str(_TUNNEL_SECONDS)])} && {shlex.join(['remote-viewer', url])}"


def _text_console(name: str, hypervisor: str, variables: Mapping[str, t.Any]) -> str:
    user = _user(variables)
    virsh = ["virsh", "console", name]
    if user is None:
        # Without root, virsh would go to the user's own machines.
        virsh[1:1] = ["-c", "qemu:///system"]
    elif user != "root":
        virsh.insert(0, "sudo")
    if _is_here(variables):
        return shlex.join(virsh)
    # The shell on the other side reads the words once more.
    there = [shlex.quote(word) for word in virsh]
    return shlex.join(["ssh", "-t", *_options(variables), _login(hypervisor, variables), *there])


def _is_here(variables: Mapping[str, t.Any]) -> bool:
    return variables.get("ansible_connection") == "local"


def _user(variables: Mapping[str, t.Any]) -> str | None:
    user = variables.get("ansible_user") or variables.get("ansible_ssh_user")
    return str(user) if user else None


def _login(hypervisor: str, variables: Mapping[str, t.Any]) -> str:
    host = str(variables.get("ansible_host") or variables.get("ansible_ssh_host") or hypervisor)
    user = _user(variables)
    return f"{user}@{host}" if user else host


def _options(variables: Mapping[str, t.Any]) -> list[str]:
    """What Ansible would give to ssh: the key, the port, and the arguments of variables."""
    key = variables.get("ansible_ssh_private_key_file") or variables.get("ansible_private_key_file")
    port = variables.get("ansible_port") or variables.get("ansible_ssh_port")
    return [
        *(["-i", str(key)] if key else []),
        *(["-p", str(port)] if port and str(port) != "22" else []),
        *_arguments(variables, "ansible_ssh_common_args"),
        *_arguments(variables, "ansible_ssh_extra_args"),
    ]


def _arguments(variables: Mapping[str, t.Any], name: str) -> list[str]:
    """The words of such a variable, without options that hold a command: a password could be in it."""
    try:
        return _without(_COMMANDS, shlex.split(str(variables.get(name) or "")))
    except ValueError:
        return []


def _without(pattern: re.Pattern[str], words: list[str]) -> list[str]:
    """The words of a command without the options ``-o`` that the pattern finds, in the same word or in the next one."""
    found: list[str] = []
    for word in words:
        if pattern.search(word) and _OPTION_LETTER.fullmatch(found[-1] if found else ""):
            found.pop()
        elif not (pattern.search(word) and word.startswith("-")):
            found.append(word)
    return found
