# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file is which, and which other files an image file needs, from its own header down."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
import typing as t

from ansible_collections.brine.virt.plugins.module_utils._model.image.qcow2_references import (
    local_paths,
    referenced_names,
)

FileId = t.Hashable
# A path, and in words what is wrong with it.
Problem = tuple[str, str]
# The paths that an image needs next, and what is wrong with it.
_Below = tuple[list[str], t.Optional[str]]

# Nothing there to read: a machine with such a disk cannot be started either.
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENOMEDIUM, errno.ENODEV)
# Far more than QEMU opens: each takes file descriptors, and libvirt describes no chain of more than 200.
_DEEPEST = 1000


def file_id(path: str) -> FileId:
    """The same for all paths that lead to one file or one device, whether it is there or not."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path) if "\0" not in path else path
    if stat.S_ISBLK(found.st_mode):
        return "device", found.st_rdev
    return found.st_dev, found.st_ino


class FileChains:
    """What files of this machine need, each looked into once.

    reported: what libvirt says of files in formats that are not read here, by the file.
    """

    def __init__(self, reported: t.Mapping[FileId, str]) -> None:
        self._reported = reported
        # By the directory as well: a name in a header is relative to the path that the image was opened by.
        self._below: dict[tuple[FileId, str], _Below] = {}

    def walk(self, path: str, opaque: t.Container[FileId] = ()) -> tuple[list[FileId], list[Problem]]:
        """All files that an image leads to, itself first; and those that could not be looked into.

        opaque: files that are not looked into, as whatever is in them is a guest's.
        """
        return _walk(path, file_id, self._look, opaque)

    def _look(self, path: str, identity: FileId) -> _Below:
        home = os.path.dirname(path)
        if (identity, home) not in self._below:
            reported = [self._reported[identity]] if identity in self._reported else []
            problem = None
            try:
                reported += [local for name in _names_in(path) for local in local_paths(name)]
            except OSError as exc:
                problem = None if exc.errno in _NOTHING_THERE else f"cannot be read ({exc.strerror})"
            self._below[identity, home] = [os.path.join(home, name) for name in reported], problem
        return self._below[identity, home]


class ReportedChains:
    """The same of files on another machine, as far as libvirt tells: each volume of a pool, and what is next below it.

    known: the paths of all volumes of its pools.
    """

    def __init__(self, reported: t.Mapping[FileId, str], known: t.Container[FileId]) -> None:
        self._reported = reported
        self._known = known

    def walk(self, path: str, opaque: t.Container[FileId] = ()) -> tuple[list[FileId], list[Problem]]:
        """As FileChains.walk. A file that no pool has cannot be looked into."""
        found, problems = _walk(path, posixpath.normpath, self._look, opaque)
        outside = [place for place in found if place not in self._known and place not in opaque]
        return found, [*problems, *((str(place), "is not in an active storage pool") for place in outside)]

    def _look(self, _path: str, identity: FileId) -> _Below:
        return [self._reported[identity]] if identity in self._reported else [], None


def _walk(
    path: str,
    identify: t.Callable[[str], FileId],
    look: t.Callable[[str, FileId], _Below],
    opaque: t.Container[FileId],
) -> tuple[list[FileId], list[Problem]]:
    ahead: list[str] = [path]
    seen: dict[FileId, None] = {}
    problems: list[Problem] = []
    while ahead:
        here = ahead.pop()
        identity = identify(here)
        if identity in seen:
            continue
        if len(seen) == _DEEPEST:
            problems.append((path, f"has more than {_DEEPEST} files below it"))
            break
        seen[identity] = None
        if identity not in opaque:
            below, problem = look(here, identity)
            ahead += below
            if problem is not None:
                problems.append((here, problem))
    return list(seen), problems


def _names_in(path: str) -> list[str]:
    """What the header of a file or block device says. Others are not opened, which may wait or do something."""
    if "\0" in path:
        return []
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISBLK(mode):
        return []
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return referenced_names(lambda offset, length: os.pread(fd, length, offset))
    finally:
        os.close(fd)
