# SPDX-License-Identifier: GPL-3.0-or-later
"""The tiny guest, seen and driven from its host by its serial console, also where no network leads to it."""

from __future__ import annotations

import shlex

from ..cloud import Cloud, must

# On a host that is emulated itself.
_BOOT_SECONDS = 300
_COMMAND_SECONDS = 120


def _log(name: str) -> str:
    return f"/var/log/libvirt/qemu/{name}-serial.log"


def clear(cloud: Cloud, host: str, name: str) -> None:
    """Forget what it has said until now."""
    cloud.on(host, f": > {_log(name)}")


def wait_until_up(cloud: Cloud, host: str, name: str, words: str = "tiny guest is up") -> None:
    """Wait until it has said this since `clear`. "tiny guest has" comes with its address."""
    seen = f"grep -q {shlex.quote(words)} {_log(name)}"
    cloud.on(host, f"for i in $(seq {_BOOT_SECONDS}); do {seen} && exit; sleep 1; done; tail -n 5 {_log(name)}; exit 1")


def type_line(cloud: Cloud, host: str, name: str, line: str) -> None:
    """Type a line into the shell on its console, and do not wait for what becomes of it."""
    # Not at once after the console has been opened, and the line before it may be half-typed.
    cloud.on(
        host, f'tty=$(virsh ttyconsole {name}); {{ sleep 2; printf "\\n%s\\n" {shlex.quote(line)}; sleep 3; }} > "$tty"'
    )


def tell(cloud: Cloud, host: str, name: str, command: str) -> tuple[int, str]:
    """Type a command into the shell on its console: the exit status, and what was said."""
    # The guest echoes what is typed: the mark that ends the answer is in that only in pieces.
    line = f"echo BEG''IN; {command}; echo EN''D:$?:"
    script = f"""
: > {_log(name)}
tty=$(virsh ttyconsole {name})
{{ sleep 2; printf '\\n%s\\n' {shlex.quote(line)}
   for i in $(seq {_COMMAND_SECONDS}); do grep -q 'END:' {_log(name)} && break; sleep 1; done; }} > "$tty"
tr -d '\\r' < {_log(name)}
"""
    text = cloud.on(host, script)
    must("END:" in text, f"{name}: {command}: {text}")
    said, _end, status = text.rpartition("END:")
    return int(status.split(":")[0]), said.partition("BEGIN\n")[2]
