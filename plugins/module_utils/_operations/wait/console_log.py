# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of a machine's serial console: its end, and what that says of how far the machine is.

A guest writes it, so that it decides about nothing but how long that very guest is waited for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LOG_LINES = 12
_LOG_BYTES = 16 * 1024
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
_LOGIN = re.compile(r"\S login:\s*$")


@dataclass(frozen=True)
class ConsoleLog:
    """What a console's log says. size_bytes: of the whole log; lines: the last ones; dead_end: why nothing comes any
    more, in words; cloud_init: it is under way; booted: the boot has come to its end."""

    size_bytes: int = 0
    lines: tuple[str, ...] = ()
    dead_end: str | None = None
    cloud_init: bool = False
    booted: bool = False


def read_console_log(path: str | None) -> ConsoleLog:
    """The end of the log; an empty one when there is none, or none that may be read."""
    if path is None:
        return ConsoleLog()
    try:
        with open(path, "rb") as log:
            size_bytes = log.seek(0, 2)
            log.seek(max(0, size_bytes - _LOG_BYTES))
            text = log.read().decode("utf-8", errors="replace")
    except OSError:
        return ConsoleLog()
    return _judged(size_bytes, _visible_lines(text))


def _visible_lines(text: str) -> list[str]:
    """The lines that have something in them, without what a guest could do to a terminal."""
    lines = ["".join(c for c in line if c.isprintable()) for line in text.splitlines()]
    return [line for line in lines if line.strip()]


def _judged(size_bytes: int, lines: list[str]) -> ConsoleLog:
    starts = [number for number, line in enumerate(lines) if _BOOTS.search(line)]
    this_boot = "\n".join(lines[starts[-1] :] if starts else lines)
    found = next((words for pattern, words in _DEAD_ENDS if pattern.search(this_boot)), None)
    over = bool(_CLOUD_INIT_OVER.search(this_boot))
    # It may still bring what tells the address, such as a guest agent, when there is a login prompt already.
    cloud_init = not over and bool(_CLOUD_INIT.search(this_boot))
    return ConsoleLog(
        size_bytes=size_bytes,
        lines=tuple(lines[-_LOG_LINES:]),
        dead_end=found,
        cloud_init=cloud_init,
        booted=over or (not cloud_init and bool(_LOGIN.search(this_boot))),
    )
