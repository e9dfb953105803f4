# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that sends something to a volume, and whether it is still alive."""

from __future__ import annotations

import enum
import os
import uuid

from ansible_collections.brine.virt.plugins.module_utils._model.upload_mark import Upload

# The 22nd word of /proc/PID/stat; the second one is the name, in brackets, and may have blanks. See proc_pid_stat(5).
_START_AFTER_NAME = 19


class Sender(enum.Enum):
    """What is known of a transfer's sender. UNKNOWN: it is a process of another host, which nobody here can ask."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


def new_upload(host: str) -> Upload:
    """A transfer of this process. host: the name of this host, as its libvirt says it."""
    return Upload(uuid.uuid4().hex, host, _boot_id(), os.getpid(), _started(os.getpid()) or 0)


def ask_sender(upload: Upload, host: str) -> Sender:
    """Whether the transfer's process still runs. host: the name of this host.

    A transfer of this very process counts as gone: whoever asks holds the lock that it would have.
    """
    if upload.host != host:
        return Sender.UNKNOWN
    if upload.boot != _boot_id() or upload.pid == os.getpid():
        return Sender.GONE
    return Sender.ALIVE if _started(upload.pid) == upload.started else Sender.GONE


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    """When a process has started, in ticks since the host did; None for one that is not there."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
        return int(words[_START_AFTER_NAME])
    except (OSError, ValueError, IndexError):
        return None
