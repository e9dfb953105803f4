# SPDX-License-Identifier: GPL-3.0-or-later
"""The tiny guest, seen and driven from its host by its serial console, also where no network leads to it."""

from __future__ import annotations

import re
import shlex
import typing as t

from ..cloud import Cloud, must

# What the guest says when it has an address.
ADDRESS = "tiny guest has"
# On a host that is emulated itself.
_BOOT_SECONDS = 300
_COMMAND_SECONDS = 120
# QEMU looks once a second whether somebody has opened its terminal (chardev/char-pty.c), and reads it from then on.
_OPENED_SECONDS = 1.5


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
    ((status, said),) = tell_all(cloud, host, name, [command])
    return status, said


def tell_all(cloud: Cloud, host: str, name: str, commands: t.Sequence[str]) -> list[tuple[int, str]]:
    """The same with several commands, one after the other."""
    # The guest echoes what is typed: the marks around the answer are in that only in pieces.
    lines = [shlex.quote(f"echo BEG''IN; {command}; echo EN''D:$?:") for command in commands]
    script = f"""
: > {_log(name)}
tty=$(virsh ttyconsole {name})
count=0
{{ sleep {_OPENED_SECONDS}
   for line in {" ".join(lines)}; do
       printf '\n%s\n' "$line"
       count=$((count + 1))
       for i in $(seq {5 * _COMMAND_SECONDS}); do
           [ $(grep -c 'END:[0-9]*:' {_log(name)}) -lt $count ] || break
           sleep 0.2
       done
   done; }} > "$tty"
tr -d '\r' < {_log(name)}
"""
    text = cloud.on(host, script)
    *answers, _rest = re.split(r"END:(\d+):", text)
    must(len(answers) == 2 * len(lines), f"{name}: {'; '.join(commands)}: {text}")
    return [
        (int(status), said.partition("BEGIN\n")[2]) for said, status in zip(answers[::2], answers[1::2], strict=True)
    ]
