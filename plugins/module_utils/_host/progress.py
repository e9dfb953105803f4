# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of lines that says how far a module is, for the action plugin that reads it meanwhile.

A module's own output reaches the controller only when the module has ended. The lines hold names and figures, nothing
secret: the user of the connection, who need not be root, reads them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import typing as t

from .._base.errors import InputError

# What the action plugin calls the path, which it sends beside the module's options.
PROGRESS_FILE = "_progress_file"
# A host that has no room for a line has room for the work, perhaps.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE})


class ProgressFile:
    """Lines appended to a file that is made for this run. Without a path nothing is written, and nobody need ask."""

    def __init__(self, path: str | None) -> None:
        self._lock = threading.Lock()
        self._file: int | None = None
        if path is None:
            return
        try:
            # Not over anything that is there, and through no link: the folder is anybody's.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o644)
            os.fchmod(self._file, 0o644)
        except OSError as exc:
            if exc.errno in _FULL:
                return
            raise InputError(f"cannot create the file {path}: {exc.strerror}") from exc

    @property
    def is_read(self) -> bool:
        """Whether anybody may read the lines."""
        return self._file is not None

    def write_line(self, line: str) -> None:
        """Append one line. A disk that is full must not end the work itself."""
        with self._lock, contextlib.suppress(OSError):
            if self._file is not None:
                os.write(self._file, (" ".join(line.split()) + "\n").encode(errors="replace"))


@contextlib.contextmanager
def progress_file(path: str | None) -> t.Iterator[ProgressFile]:
    """The file for the block; it is removed after it."""
    file = ProgressFile(path)
    try:
        yield file
    finally:
        if path is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)
