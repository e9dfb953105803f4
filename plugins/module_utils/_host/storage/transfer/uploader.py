# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that sends something to a volume, and whether it is still alive."""

from __future__ import annotations

import contextlib
import enum
import os
import threading
import typing as t
import uuid

from ...._model.image.marks import Upload
from ...identity import boot_identity, host_identity, process_start_ticks

_sending: set[str] = set()
_sending_lock = threading.Lock()


class Sender(enum.Enum):
    """What is known of a transfer's sender. UNKNOWN: it is a process of another host, which nobody here can ask."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


def new_upload(host: str) -> Upload:
    """A transfer of this process. host: the name of this host, as its libvirt says it."""
    return Upload(
        uuid.uuid4().hex, host, boot_identity(), os.getpid(), process_start_ticks(os.getpid()) or 0, host_identity()
    )


@contextlib.contextmanager
def sending(upload: Upload) -> t.Iterator[None]:
    """For the block, a transfer of this process counts as alive."""
    with _sending_lock:
        _sending.add(upload.token)
    try:
        yield
    finally:
        with _sending_lock:
            _sending.discard(upload.token)


def ask_sender(upload: Upload, host: str) -> Sender:
    """Whether the transfer's process still runs. host: the name of this host.

    Only a process of this very host can be asked, and many hosts have one name. Where it is not certain that the host
    is the same, the answer is UNKNOWN. A transfer of this very process is alive while it is ``sending``.
    """
    if upload.host != host or upload.machine != host_identity():
        return Sender.UNKNOWN
    if upload.boot != boot_identity():
        # Without an id, this may be another host as well as another start of this one.
        return Sender.GONE if upload.machine else Sender.UNKNOWN
    if upload.pid == os.getpid():
        with _sending_lock:
            return Sender.ALIVE if upload.token in _sending else Sender.GONE
    return Sender.ALIVE if process_start_ticks(upload.pid) == upload.started else Sender.GONE
