# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of a machine's serial console: its end, and what that says of how far the machine is.

A guest writes it, so that it decides about nothing but how long that very guest is waited for.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from .log_text import CONSOLE_BYTES, read_end, shortened, visible_lines

_LOG_LINES = 12
# What a machine says first when it boots; what stands before it is an earlier boot's.
_BOOTS = re.compile(r"Linux version \d|SeaBIOS \(version ")
# After these nothing comes by itself. Sources: Linux, kernel/panic.c; SeaBIOS, src/boot.c; EDK II, BdsDxe;
# initramfs-tools and GRUB, which end in a prompt; systemd's emergency.service.
_DEAD_ENDS = (
    (re.compile(r"Kernel panic - not syncing[^\n]{0,120}"), "a kernel panic"),
    (re.compile(r"No bootable (?:device|option or device)[^\n]{0,80}"), "that there is nothing to boot from"),
    (re.compile(r"^(?:grub rescue> *|\(initramfs\) *)$", re.MULTILINE), "a boot that ended in a rescue prompt"),
    (re.compile(r"You are in emergency mode[^\n]{0,40}"), "a boot that ended in emergency mode"),
)
_CLOUD_INIT = re.compile(r"Cloud-init v\. \S+ running")
_CLOUD_INIT_OVER = re.compile(r"Cloud-init v\. \S+ finished at")
# What cloud-init logs: distributions let it write to the console from the level WARNING on. And what systemd says of
# its units, by their name or, before systemd 249, by their description.
_CLOUD_INIT_ERROR = re.compile(
    r"\w+\.py\[(?:WARNING|ERROR|CRITICAL)\]: (?P<logged>.+)"
    r"|FAILED\] (?P<unit>Failed to start .*(?:[Cc]loud-|cloud user).*)"
)
# Of these cloud-init warns where nothing is wrong: options that a later version will drop.
_HARMLESS = re.compile(r"deprecat", re.IGNORECASE)
# Its check of the whole configuration against its schema stops nothing, and is wrong at times: 22.4 of Debian 12 warns
# at each boot of what `cloud-init schema --system` then calls valid. A module that cannot use its part says so itself.
# Since 24.1 it checks the network configuration as well, of which it does not know all that netplan does; since 24.2 it
# says "failed".
_SCHEMA_WARNING = re.compile(r"Invalid (?:cloud|network)-config provided|-config failed schema validation")
_MOST_ERRORS = 3
_MOST_ERROR_COLUMNS = 160
_LOGIN = re.compile(r"\S login:\s*$")


@dataclass(frozen=True)
class ConsoleLog:
    """What a console's log says.

    size_bytes: of the whole log; lines: the last ones; dead_end: why nothing comes any more, in words; cloud_init: it
    is under way; cloud_init_over: it has come to its end; cloud_init_errors: what it logged as wrong, the first ones;
    cloud_init_warns: its schema does not like its configuration; booted: the boot has come to its end. changed_ns: the
    file's time, as stat has it.
    """

    size_bytes: int = 0
    changed_ns: int = 0
    lines: tuple[str, ...] = ()
    dead_end: str | None = None
    cloud_init: bool = False
    cloud_init_over: bool = False
    cloud_init_errors: tuple[str, ...] = ()
    cloud_init_warns: bool = False
    booted: bool = False


def read_console_log(path: str | None, before: ConsoleLog | None = None) -> ConsoleLog:
    """The end of the log; an empty one when there is none, or none that may be read.

    before: what was read last, which is the answer where the file has not changed since.
    """
    if path is None:
        return ConsoleLog()
    try:
        about = os.stat(path)
        if before is not None and (before.size_bytes, before.changed_ns) == (about.st_size, about.st_mtime_ns):
            return before
        text = read_end(path, CONSOLE_BYTES)
    except OSError:
        return ConsoleLog()
    return _judged(about.st_size, about.st_mtime_ns, visible_lines(text))


def _judged(size_bytes: int, changed_ns: int, lines: list[str]) -> ConsoleLog:
    starts = [number for number, line in enumerate(lines) if _BOOTS.search(line)]
    of_this_boot = lines[starts[-1] :] if starts else lines
    this_boot = "\n".join(of_this_boot)
    found = next((words for pattern, words in _DEAD_ENDS if pattern.search(this_boot)), None)
    over = bool(_CLOUD_INIT_OVER.search(this_boot))
    # It may still bring what tells the address, such as a guest agent, when there is a login prompt already.
    cloud_init = not over and bool(_CLOUD_INIT.search(this_boot))
    return ConsoleLog(
        size_bytes=size_bytes,
        changed_ns=changed_ns,
        lines=tuple(lines[-_LOG_LINES:]),
        dead_end=found,
        cloud_init=cloud_init,
        cloud_init_over=over,
        cloud_init_errors=_cloud_init_errors(of_this_boot),
        cloud_init_warns=bool(_SCHEMA_WARNING.search(this_boot)),
        booted=over or (not cloud_init and bool(_LOGIN.search(this_boot))),
    )


def _cloud_init_errors(lines: list[str]) -> tuple[str, ...]:
    found = []
    for line in lines:
        match = _CLOUD_INIT_ERROR.search(line)
        words = match and (match.group("logged") or match.group("unit"))
        if words and not _HARMLESS.search(words) and not _SCHEMA_WARNING.search(words):
            found.append(shortened(words, _MOST_ERROR_COLUMNS))
    return tuple(dict.fromkeys(found))[:_MOST_ERRORS]
