# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a volume begins with while something is sent to it: whose it is. Its real first bytes come last.

So a volume that is not whole is never taken for a whole one, and whoever finds one can ask for its sender. Where QEMU
writes the content, first bytes included, the same words are the volume's building mark until it is whole.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

# So much of the real content is sent last. It is written in one go, and every mark of a format begins in it.
MARK_BYTES = 512
# Nothing takes this for an image: what stores images knows one that is on its way by the zeros.
_BEGINNING = b"\0\0\0\0brine.virt upload\n"
# Other building marks are hex digits.
_UNFINISHED = "unfinished "
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Upload:
    """A transfer and the process that does it.

    token: what only this transfer has. host, boot: the name of the sender's host, and the id of its last start. pid,
    started: the process there, with the time of its start in ticks, since numbers of processes are used again. machine:
    what tells the host from others of its name; empty where that is not known, as in marks of earlier versions.
    """

    token: str
    host: str
    boot: str
    pid: int
    started: int
    machine: str = ""

    def to_bytes(self) -> bytes:
        """MARK_BYTES for the beginning of the volume."""
        return (_BEGINNING + self._words().encode() + b"\n").ljust(MARK_BYTES, b"\0")[:MARK_BYTES]

    def to_mark(self) -> str:
        """The building mark of a volume that QEMU fills."""
        return _UNFINISHED + self._words()

    def _words(self) -> str:
        return json.dumps({**asdict(self), "host": self.host[:_LONGEST_NAME]})


def read_upload(head: bytes) -> Upload | None:
    """The transfer that a volume with these first bytes belongs to; None for a volume without such a mark."""
    if not head.startswith(_BEGINNING):
        return None
    return _read(head[len(_BEGINNING) : MARK_BYTES].split(b"\n", 1)[0])


def read_mark(mark: str | None) -> Upload | None:
    """The transfer that a volume with this building mark belongs to; None for one that is whole, or without a mark."""
    if mark is None or not mark.startswith(_UNFINISHED):
        return None
    return _read(mark[len(_UNFINISHED) :])


def _read(text: str | bytes) -> Upload | None:
    try:
        words = json.loads(text)
        return Upload(
            str(words["token"]),
            str(words["host"]),
            str(words["boot"]),
            int(words["pid"]),
            int(words["started"]),
            str(words.get("machine", "")),
        )
    except (ValueError, KeyError, TypeError):
        return None
