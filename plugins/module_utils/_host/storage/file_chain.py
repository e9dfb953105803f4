# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which file is which, and which other files an image file needs, from its own header down."""

from __future__ import annotations

import errno
import json
import os
import posixpath
import queue
import re
import shlex
import stat
import threading
import typing as t
from urllib.parse import unquote

from ..._base.errors import ConflictError
from ..._model.image.header import referenced_by_qed, referenced_by_vmdk
from ..._model.image.qcow2 import BrokenQcow2Error, Header, read_header, referenced_names
from ..._model.xml.disk_source import QCOW2

# What reads the names of other files in an image, each in its own format.
_FINDERS = (referenced_names, referenced_by_qed, referenced_by_vmdk)

FileId = t.Hashable
# A path, and in words what is wrong with it.
Problem = tuple[str, str]
# The paths that an image needs next, and what is wrong with it.
_Below = tuple[list[str], t.Optional[str]]

# Nothing there to read: a machine with such a disk cannot be started either.
_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENOMEDIUM, errno.ENODEV)
# A server of files that is gone lets whoever asks for one wait for ever.
_ANSWER_SECONDS = 30
# Far more than QEMU opens: each takes file descriptors, and libvirt describes no chain of more than 200.
_DEEPEST = 1000
_OTHER_PROTOCOL = re.compile(r"^[A-Za-z0-9+.-]+:")
_LOCAL_PREFIXES = ("file:", "host_device:")
# QEMU's options for what a volume of network storage is called there, in the order of libvirt's name for it.
# https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html (BlockdevOptions)
_NETWORK_NAMES = {"rbd": ("pool", "namespace", "image"), "gluster": ("volume", "path"), "iscsi": ("target", "lun")}
# "rbd:pool/image@snapshot:option=value"; what is part of a name has a backslash before it.
_RBD = re.compile(r"^rbd:((?:[^\\@:]|\\.)+)")
_URL = re.compile(r"^(gluster|iscsi)(?:\+[a-z]+)?://[^/]*/([^?]+)")


def file_id(path: str) -> FileId:
    """The same for all paths that lead to one file or one device, whether it is there or not; a place of network
    storage (DiskSource.place) is its own."""
    if _OTHER_PROTOCOL.match(path):
        return path
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return os.path.realpath(path) if "\0" not in path else path
    if stat.S_ISBLK(found.st_mode):
        return "device", found.st_rdev
    return found.st_dev, found.st_ino


class Watch:
    """Calls that may never return, such as those for files of a server that is gone.

    Each is made in a thread, which is left behind when it takes too long; then the whole directory gives no answer any
    more. seconds: how long one call may take.
    """

    def __init__(self, seconds: float = _ANSWER_SECONDS) -> None:
        self._seconds = seconds
        self._silent: set[str] = set()
        self._jobs: queue.SimpleQueue[t.Any] | None = None
        self._thread: threading.Thread | None = None
        self._ended = False

    def call(self, path: str, work: t.Callable[..., t.Any], *arguments: t.Any) -> t.Any:
        """What work returns or raises. path: the file that it is about. TimeoutError where there is no answer."""
        if any(path == silent or path.startswith(f"{silent}/") for silent in self._silent):
            raise self._timeout()
        if self._ended:
            return work(*arguments)
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            self._thread = threading.Thread(target=_work_off, args=(self._jobs,), daemon=True)
            self._thread.start()
        answer: queue.SimpleQueue[tuple[bool, t.Any]] = queue.SimpleQueue()
        self._jobs.put((work, arguments, answer))
        try:
            done, value = answer.get(timeout=self._seconds)
        except queue.Empty:
            self.silence(os.path.dirname(path))
            self._jobs = self._thread = None
            raise self._timeout() from None
        if not done:
            raise value
        return value

    def silence(self, directory: str) -> None:
        """From now on, nothing in this directory is asked for. The root would be everything."""
        if directory.strip("/"):
            self._silent.add(directory)

    def end(self) -> None:
        """The thread ends, and later calls are made without one: a process may be forked only without threads."""
        self._ended = True
        if self._jobs is not None and self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._jobs = self._thread = None

    def _timeout(self) -> TimeoutError:
        return TimeoutError(errno.ETIMEDOUT, f"no answer within {self._seconds:g} s")


def _work_off(jobs: queue.SimpleQueue[t.Any]) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        work, arguments, answer = job
        try:
            answer.put((True, work(*arguments)))
        except BaseException as exc:  # whoever waits raises it
            answer.put((False, exc))


class FileChains:
    """What files of this machine need, each looked into once.

    reported: what libvirt says of files in formats that are not read here, by the file. identify: file_id, or what
    does more with each path. watch: what keeps files that never answer from stopping everything.
    """

    def __init__(
        self,
        reported: t.Mapping[FileId, str],
        identify: t.Callable[[str], FileId] = file_id,
        watch: Watch | None = None,
    ) -> None:
        self._reported = reported
        self._watch = watch
        self._identify = identify
        # By the directory as well: a name in a header is relative to the path that the image was opened by.
        self._below: dict[tuple[FileId, str], _Below] = {}

    def walk(self, path: str, opaque: t.Container[FileId] = ()) -> tuple[list[FileId], list[Problem]]:
        """All files and places of network storage that an image leads to, itself first; and the files that could not be
        looked into.

        opaque: files that are not looked into, as whatever is in them is a guest's.
        """
        return _walk(path, self._identify, self._look, opaque)

    def _look(self, path: str, identity: FileId) -> _Below:
        if _OTHER_PROTOCOL.match(path):
            return [], None
        home = os.path.dirname(path)
        if (identity, home) not in self._below:
            names = [self._reported[identity]] if identity in self._reported else []
            problem = None
            try:
                names += _names_in(path) if self._watch is None else self._watch.call(path, _names_in, path)
            except OSError as exc:
                problem = None if exc.errno in _NOTHING_THERE else f"cannot be read ({exc.strerror})"
            self._below[identity, home] = [place for name in names for place in _places_of(name, home)], problem
        return self._below[identity, home]


class ReportedChains:
    """The same of files on another machine, as far as libvirt tells: each volume of a pool, and what is next below it.

    known: the paths of all volumes of its pools. identify: posixpath.normpath, or what does more with each path.
    """

    def __init__(
        self,
        reported: t.Mapping[FileId, str],
        known: t.Container[FileId],
        identify: t.Callable[[str], FileId] = posixpath.normpath,
    ) -> None:
        self._reported = reported
        self._known = known
        self._identify = identify

    def walk(self, path: str, opaque: t.Container[FileId] = ()) -> tuple[list[FileId], list[Problem]]:
        """As FileChains.walk. A file that no pool has cannot be looked into."""
        found, problems = _walk(path, self._identify, self._look, opaque)
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
        names = [find(lambda offset, length: os.pread(fd, length, offset)) for find in _FINDERS]
        return [name for found in names for name in found]
    finally:
        os.close(fd)


def _places_of(name: str, home: str) -> list[str]:
    """The files, and the places of network storage, that such a name means, in the ways that QEMU reads one: a path,
    relative to the directory of the file that has the name in it, ``file:`` and a path, ``json:`` and options, or a
    protocol. None for what no storage pool can have."""
    if name.startswith("json:"):
        try:
            options = json.loads(name[len("json:") :])
            named = [*_filenames(options)]
            found = [*_network_places(options)]
        except (ValueError, RecursionError):
            return []
        return [*found, *(place for one in named for place in (os.path.join(home, one), *_place_on_network(one)))]
    for prefix in _LOCAL_PREFIXES:
        if name.startswith(prefix):
            return [os.path.join(home, name[len(prefix) :])]
    return _place_on_network(name) if _OTHER_PROTOCOL.match(name) else [os.path.join(home, name)]


def _place_on_network(name: str) -> list[str]:
    rbd, url = _RBD.match(name), _URL.match(name)
    if rbd is not None:
        return ["rbd:" + re.sub(r"\\(.)", r"\1", rbd[1])]
    return [] if url is None else [f"{url[1]}:{unquote(url[2])}"]


def _network_places(options: t.Any) -> t.Iterator[str]:
    """As _filenames, of network storage."""
    if isinstance(options, list):
        for one in options:
            yield from _network_places(one)
    if not isinstance(options, dict):
        return
    for key, value in options.items():
        if isinstance(value, (dict, list)):
            yield from _network_places(value)
        elif key.split(".")[-1] == "driver" and str(value) in _NETWORK_NAMES:
            before = key[: -len("driver")]
            parts = [options.get(f"{before}{part}") for part in _NETWORK_NAMES[str(value)]]
            yield f"{value}:" + "/".join(str(part).lstrip("/") for part in parts if part not in (None, ""))


def _filenames(options: t.Any) -> t.Iterator[str]:
    # Such as the children of a quorum.
    if isinstance(options, list):
        for one in options:
            yield from _filenames(one)
    if isinstance(options, dict):
        for key, value in options.items():
            # Nested, or flat as in "file.filename".
            if isinstance(value, str) and key.split(".")[-1] == "filename":
                yield value
            else:
                yield from _filenames(value)


def require_known_formats(path: str, image_format: str, where: str | None = None) -> None:
    """Raise ConflictError for an overlay that does not record the format of what it is backed by.

    qemu-img would go by the bytes there, and if that is a raw disk, its guest has written them: the header of an
    overlay on a file of the hypervisor, which it would copy then. OSError where a file cannot be read.
    """
    for _link in range(_DEEPEST):
        header = _header(path) if image_format == QCOW2 else None
        backing = header.backing_file if header is not None else None
        if backing is not None and backing.startswith("file:"):
            backing = backing[len("file:") :]
        # json: says itself what is where.
        if header is None or backing is None or ":" in backing.partition("/")[0]:
            return
        if not header.backing_format:
            raise ConflictError(
                f"{path} does not record the format of {backing}, which it is backed by",
                where=where,
                hint=f"If you know it: qemu-img rebase -u -f qcow2 -F FORMAT -b {shlex.join([backing, path])}",
            )
        path, image_format = os.path.join(os.path.dirname(path), backing), header.backing_format


def _header(path: str) -> Header | None:
    """The qcow2 header of a file or device; None for what has none, of which qemu-img says what is wrong."""
    if not os.path.isfile(path) and not stat.S_ISBLK(os.stat(path).st_mode):
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return read_header(lambda offset, length: os.pread(descriptor, length, offset))
    except BrokenQcow2Error:
        return None
    finally:
        os.close(descriptor)
