# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that may use volumes of a hypervisor, collected at one time.

Of every machine: its permanent and its running description (with mirrors of block jobs), its saved state, snapshots,
checkpoints, a backup that is being made, and our notes in its metadata. Of every pool: what its volumes are backed by.
Of the host itself: files that it has as devices.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import typing as t
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from ..._base.errors import HostError, VirtError, single_line
from ..._base.xml import read_description
from ..._model.metadata.machine import BUILDING, read_notes
from ..._model.metadata.snapshots import NAMESPACE as SNAPSHOTS_NAMESPACE
from ..._model.metadata.snapshots import read_set_aside
from ..._model.xml.used_sources import Reference, references_in
from ..connection import VirConnect, by_name, libvirt, suppress_codes, translate_errors
from .file_chain import FileChains, FileId, Problem, ReportedChains, Watch, file_id
from .pool_refresh import refresh_pool
from .volume_facts import devices_on_files

# Types of pools whose volumes are devices that others serve, and hold no overlay on a local file by themselves.
# https://libvirt.org/storage.html
_POOLS_WITHOUT_OVERLAYS = ("disk", "iscsi", "iscsi-direct", "mpath", "rbd", "scsi", "sheepdog", "zfs")
# Pools whose volumes are the files of one directory, which can be listed without libvirt.
_POOLS_OF_FILES = ("dir", "fs", "netfs", "vstorage")
_REFRESH_WAIT_SECONDS = 15

VolumeName = tuple[str, str]


@dataclass(frozen=True)
class VolumeUser:
    """Something that uses a volume, in words.

    machine: the one that it belongs to; None for a volume, and for the host itself. noted: only that machine's metadata
    say so. volume: pool and name, when it is a volume itself. below: it is only backed by it. top: the file that is,
    where that was looked into. writes: it may write to it. moving: it has it noted for a move. checkpoint: the machine
    had it when a checkpoint was made, which remembers what changes from then on, and nothing else.
    """

    words: str
    machine: str | None = None
    noted: bool = False
    volume: VolumeName | None = None
    below: bool = False
    writes: bool = False
    moving: bool = False
    top: FileId | None = None
    checkpoint: bool = False

    @property
    def is_host(self) -> bool:
        """Whether it is the host itself, which has a file as a device."""
        return self.machine is None and self.volume is None


@dataclass(frozen=True)
class UnknownUser:
    """What could not be checked, in words; machine: the one that it belongs to. writes: it may write to any volume,
    where others could only be backed by one."""

    words: str
    machine: str | None = None
    writes: bool = False


class VolumeUsers:
    """Who uses what: by the file, by the place of network storage (DiskSource.place), by pool and volume name.

    by_path: who names a path, as it is written there. ways: all paths that led to a file. paths: where the volumes of
    pools are. kinds: the types of the pools, by their names.
    """

    def __init__(self, local: bool) -> None:
        self._local = local
        self.watch = Watch()
        self.by_file: dict[FileId, set[VolumeUser]] = {}
        self.by_place: dict[str, set[VolumeUser]] = {}
        self.by_volume: dict[VolumeName, set[VolumeUser]] = {}
        self.by_path: dict[str, set[VolumeUser]] = {}
        self.unknown: list[UnknownUser] = []
        self.ways: dict[FileId, set[str]] = {}
        self.paths: dict[VolumeName, str] = {}
        self.kinds: dict[str, str] = {}

    def identify(self, path: str) -> FileId:
        """The same for all paths that lead to one file, as far as that can be told."""
        identity: FileId = posixpath.normpath(path)
        if self._local:
            try:
                identity = self.watch.call(path, file_id, path)
            except TimeoutError as exc:
                # Another path may lead to it as well: who uses it cannot be known now.
                self.note_unknown(f"{posixpath.dirname(path)} cannot be read ({exc.strerror})")
        self.ways.setdefault(identity, set()).add(path)
        return identity

    def note_unknown(self, words: str, machine: str | None = None, *, writes: bool = False) -> None:
        """Remember once what could not be checked."""
        unknown = UnknownUser(words, machine, writes)
        if unknown not in self.unknown:
            self.unknown.append(unknown)


def collect_users(conn: VirConnect, *, local: bool | None = None) -> VolumeUsers:
    """All that uses anything on this hypervisor. Raises VirtError when libvirt cannot be asked.

    local: whether its files can be read here; by default, its URI says so.
    """
    with translate_errors("cannot ask libvirt for its host name"):
        uri = conn.getURI()
        # libvirt's test driver has volumes and no files.
        misses = not uri.startswith("test:") if local is None else local
        collector = _Collector(_reads_files(uri) if local is None else local, conn.getHostname(), misses=misses)
    try:
        with translate_errors("cannot list the storage pools"):
            pools = collector.list_pools(conn)
        for handle in pools:
            with unless_gone("STORAGE_POOL", "cannot inspect the storage pools"):
                collector.look_into_pool(handle)
        with translate_errors("cannot list the machines"):
            domains = conn.listAllDomains(0)
        for domain in domains:
            with unless_gone("DOMAIN", "cannot inspect a machine"):
                collector.look_at_machine(domain)
        return collector.users()
    finally:
        collector.watch.end()


def _reads_files(uri: str) -> bool:
    """Whether the paths that this libvirt speaks of are those of the machine that this code runs on."""
    parts = urlsplit(uri)
    return not parts.hostname and parts.scheme.partition("+")[2] in ("", "unix")


@contextlib.contextmanager
def unless_gone(kind: str, what: str) -> t.Iterator[None]:
    """What goes while it is checked is passed over, and so is what goes with its machine.

    kind: as in libvirt's VIR_ERR_NO_DOMAIN. what: the clause for other errors, see translate_errors.
    """
    # An older libvirt lacks some of the names; an error without a code is none of them.
    gone = {getattr(libvirt, f"VIR_ERR_NO_{name}", None) for name in (kind, "DOMAIN")} - {None}
    with translate_errors(what), suppress_codes(*gone):
        yield


def descriptions_of(domain: t.Any) -> t.Iterator[tuple[str, str | None]]:
    """What each description is of, in words, and its XML, None for one that cannot be read.

    The permanent and the running one, those of snapshots, checkpoints, the saved state, and of a backup that is being
    made. Raises libvirt's errors, and VirtError.
    """
    name, active = domain.name(), domain.isActive()
    machine = f"machine {name}"
    permanent = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    yield machine, permanent
    if active:
        yield machine, domain.XMLDesc(0)
    if SNAPSHOTS_NAMESPACE in permanent:
        # A move that was interrupted has put them into the machine's notes.
        with contextlib.suppress(HostError):
            for one in read_set_aside(read_description(machine, permanent)):
                yield f"snapshot {one.name} of {machine}", one.xml
    for snapshot in _all(domain.listAllSnapshots):
        with unless_gone("DOMAIN_SNAPSHOT", "cannot inspect a snapshot"):
            yield f"snapshot {snapshot.getName()} of {machine}", snapshot.getXMLDesc(0)
    for checkpoint in _all(getattr(domain, "listAllCheckpoints", None)):
        with unless_gone("DOMAIN_CHECKPOINT", "cannot inspect a checkpoint"):
            yield f"checkpoint {checkpoint.getName()} of {machine}", checkpoint.getXMLDesc(0)
    saved, _seen = _ask(domain.hasManagedSaveImage, 0)
    if saved:
        xml, seen = _ask(domain.managedSaveGetXMLDesc, 0)
        yield f"the saved state of {machine}", xml if seen else None
    if active and hasattr(domain, "backupGetXMLDesc"):
        with unless_gone("DOMAIN_BACKUP", "cannot inspect a backup"):
            xml, seen = _ask(domain.backupGetXMLDesc, 0)
            if seen:
                yield f"a running backup of {machine}", xml


class _Collector:
    """misses: whether a file that is not there is missing."""

    def __init__(self, local: bool, host: str, *, misses: bool) -> None:
        self._users = VolumeUsers(local)
        self.watch = self._users.watch
        self._local = local
        self._misses = local and misses
        self._host = host
        self._references: list[tuple[VolumeUser, Reference]] = []
        # Machines that a run is creating, or was killed while it did: of their disks, some are not there yet.
        self._unfinished: set[str] = set()
        # Of all volumes of pools: where they are, and what libvirt says that each is backed by.
        self._paths = self._users.paths
        # By pool, where the volumes of clusters are: two pools of libvirt may be one of a cluster.
        self._clusters: dict[str, str] = {}
        self._reported: dict[FileId, str] = {}

    def list_pools(self, conn: VirConnect) -> list[t.Any]:
        """libvirt's pools. HostError where it does not answer: it waits for whoever looks into one, which may be
        for ever."""
        try:
            return list(self.watch.call("", conn.listAllStoragePools, 0))
        except TimeoutError as exc:
            raise HostError(
                f"libvirt does not list the storage pools: {exc.strerror}",
                hint="One of them may wait for a server that is gone. findmnt -t nfs,nfs4,ceph shows the mounts; "
                "libvirt goes on when that one answers, or after umount --force",
            ) from exc

    def look_into_pool(self, handle: t.Any) -> None:
        """All volumes of a pool."""
        name, text = handle.name(), handle.XMLDesc(0)
        try:
            root = read_description(f"storage pool {name}", text)
        except HostError as exc:
            self._users.note_unknown(exc.what)
            return
        kind = self._users.kinds[name] = root.get("type", "")
        if kind == "rbd":
            self._clusters[name] = f"rbd:{root.findtext('source/name')}"
        if kind in _POOLS_WITHOUT_OVERLAYS:
            return
        if not handle.isActive():
            self._users.note_unknown(f"storage pool {name} is not active")
            return
        listed_here = self._local and kind in _POOLS_OF_FILES
        if not listed_here:
            try:
                # Volumes may have been made behind libvirt's back.
                refresh_pool(handle, name, _REFRESH_WAIT_SECONDS)
            except VirtError as exc:
                self._users.note_unknown(exc.what)
                return
        place = root.findtext("target/path", "")
        try:
            # First: libvirt looks into each file that it is asked for, and would wait as well.
            if listed_here:
                self._list_directory(name, place)
            volumes = self._look_at_volumes(handle, name, place, listed_here)
            if listed_here:
                there = self._list_directory(name, place)
                if self._misses and volumes and not volumes & there:
                    self._users.note_unknown(
                        f"of the volumes of storage pool {name}, none is in {place}: mount what belongs there, or if "
                        f"they were deleted, run virsh pool-refresh {name}"
                    )
        except TimeoutError as exc:
            self.watch.silence(place)
            self._users.note_unknown(f"storage pool {name} does not answer: {place}: {exc.strerror}")

    def _look_at_volumes(self, handle: t.Any, name: str, place: str, listed_here: bool) -> set[str]:
        """The names of all that libvirt has."""
        names = set()
        ask = self.watch.call if listed_here else _at_once
        listed = ask(f"{place}/", handle.listAllVolumes, 0)
        volumes = by_name(listed)
        if len(volumes) < len(listed) and not listed_here:
            self._users.note_unknown(f"storage pool {name} has a volume whose name is not UTF-8")
        for volume_name, volume in volumes.items():
            with unless_gone("STORAGE_VOL", f"cannot inspect a volume of pool {name}"):
                path = self._paths[name, volume_name] = volume.path()
                names.add(volume_name)
                words = f"volume {name}/{volume_name}"
                backing = ask(path, self._ask_what_is_below, volume, words, listed_here)
                if backing:
                    self._reported[self._users.identify(path)] = backing
        return names

    def _ask_what_is_below(self, volume: t.Any, words: str, readable: bool) -> str | None:
        """libvirt's word for it. readable: its header is read as well, so that a broken one need not be known here.

        What a raw disk says there, its guest has written, whatever bytes these are.
        """
        try:
            return read_description(words, volume.XMLDesc(0)).findtext("backingStore/path")
        except libvirt.libvirtError as exc:
            if exc.get_error_code() == libvirt.VIR_ERR_NO_STORAGE_VOL:
                raise
            if not readable:
                self._users.note_unknown(f"{words} cannot be inspected ({single_line(exc.get_error_message())})")
            return None
        except (HostError, UnicodeDecodeError) as exc:
            if not readable:
                why = exc.what if isinstance(exc, HostError) else f"what {words} is backed by is not UTF-8"
                self._users.note_unknown(why)
            return None

    def _list_directory(self, pool: str, path: str) -> set[str]:
        """The names of all files, also those that libvirt has not seen yet. A refresh would have to wait for every job
        in the pool. TimeoutError where the directory does not answer."""
        try:
            names = self.watch.call(f"{path}/", os.listdir, path)
        except TimeoutError:
            raise
        except FileNotFoundError:
            return set()
        except OSError as exc:
            self._users.note_unknown(f"{path} of storage pool {pool} cannot be read ({exc.strerror})")
            return set()
        for name in names:
            self._paths.setdefault((pool, name), os.path.join(path, name))
        return set(names)

    def look_at_machine(self, domain: t.Any) -> None:
        """All that libvirt says of a machine, now, at its next start, and when it goes back to an earlier state."""
        name = domain.name()
        for words, text in descriptions_of(domain):
            if text is None:
                self._users.note_unknown(f"{words} cannot be read", name, writes=True)
            else:
                self._read(text, words, name)

    def _read(self, xml: str, words: str, machine: str) -> None:
        try:
            root = read_description(words, xml)
        except HostError as exc:
            self._users.note_unknown(exc.what, machine, writes=True)
            return
        notes = read_notes(root)
        if notes is not None and notes.status == BUILDING:
            self._unfinished.add(machine)
        for reference in references_in(root, self._host):
            user = VolumeUser(
                words,
                machine,
                reference.noted,
                below=reference.below,
                writes=reference.writes,
                moving=reference.moving,
                checkpoint=root.tag == "domaincheckpoint",
            )
            self._references.append((user, reference))

    def users(self) -> VolumeUsers:
        """All of it, with what lies below everything that was named."""
        identify = self._users.identify
        files = {identify(path) for path in self._paths.values()}
        chains: FileChains | ReportedChains = (
            FileChains(self._reported, identify, self.watch)
            if self._local
            else ReportedChains(self._reported, files, identify)
        )
        opaque = self._guests_own()
        for volume, volume_path in self._paths.items():
            found, problems = chains.walk(volume_path, opaque)
            # The first is the volume itself, which is no user of itself, nor of another name of its own file.
            self._add(VolumeUser(f"volume {'/'.join(volume)}", volume=volume, below=True), found[1:], problems)
        for user, reference in self._references:
            if reference.volume is not None:
                self._users.by_volume.setdefault(reference.volume, set()).add(user)
            path, place = self._path_of(reference), self._place_of(reference)
            if place is not None:
                self._users.by_place.setdefault(place, set()).add(user)
            if path is None:
                self._note_lost(user, reference)
                continue
            self._users.by_path.setdefault(posixpath.normpath(path), set()).add(user)
            if reference.chained:
                found, problems = chains.walk(path, opaque)
                self._add(user, found[:1], problems)
                if _is_own_disk(user, reference):
                    self._note_missing(user, found)
                self._add(replace(user, below=True, writes=False, top=found[0]), found[1:], ())
            else:
                self._add(user, [identify(path)], [])
        for device in devices_on_files() if self._local else ():
            user = VolumeUser(f"the host itself (/dev/{device.name})", writes=device.writes)
            self._add(user, [identify(device.path)], [])
        return self._users

    def _note_missing(self, user: VolumeUser, files: t.Iterable[FileId]) -> None:
        """Where a file system is not mounted, what backs the disks on it is not known. It may be any volume."""
        for file in files if self._misses else ():
            # A file that is there has a number, and network storage no path.
            if isinstance(file, str) and file.startswith("/"):
                self._note_unbacked(user, file)

    def _note_lost(self, user: VolumeUser, reference: Reference) -> None:
        """The same of a disk that is named by a volume which no active pool has."""
        if self._misses and reference.volume is not None and _is_own_disk(user, reference):
            self._note_unbacked(user, f"volume {'/'.join(reference.volume)}")

    def _note_unbacked(self, user: VolumeUser, what: str) -> None:
        if user.machine in self._unfinished:
            return
        self._users.note_unknown(
            f"{what} of {user.words} is missing, and what it is backed by is not known: mount what belongs there, or "
            "undefine the machine if it is lost",
            user.machine,
        )

    def _place_of(self, reference: Reference) -> str | None:
        if reference.volume is None or reference.volume[0] not in self._clusters:
            return reference.place
        return f"{self._clusters[reference.volume[0]]}/{reference.volume[1]}"

    def _path_of(self, reference: Reference) -> str | None:
        return reference.path if reference.volume is None else self._paths.get(reference.volume)

    def _guests_own(self) -> set[FileId]:
        """Files that we have made as raw disks, or that a guest may write to as one, and that machines have in no other
        format: a header in there is a guest's work. What no guest may write to is what it looks like."""
        raw: set[FileId] = set()
        other: set[FileId] = set()
        for _user, reference in self._references:
            path = self._path_of(reference)
            if path is None or not (reference.noted or reference.chained):
                continue
            if reference.raw and not reference.readonly:
                raw.add(self._users.identify(path))
            elif reference.chained and not reference.raw:
                other.add(self._users.identify(path))
        return raw - other

    def _add(self, user: VolumeUser, files: t.Iterable[FileId], problems: t.Iterable[Problem]) -> None:
        for file in files:
            self._users.by_file.setdefault(file, set()).add(user)
        for path, words in problems:
            self._users.note_unknown(f"{path} of {user.words} {words}", user.machine)


def _is_own_disk(user: VolumeUser, reference: Reference) -> bool:
    """Whether it is a disk that may be backed by something, and that the machine has now or at its next start."""
    return reference.chained and not (reference.raw or reference.below) and user.words == f"machine {user.machine}"


def _at_once(_path: str, work: t.Callable[..., t.Any], *arguments: t.Any) -> t.Any:
    """As Watch.call, for what is not on this machine."""
    return work(*arguments)


def _ask(call: t.Callable[..., t.Any], *arguments: t.Any) -> tuple[t.Any, bool]:
    """What libvirt answers, and whether its driver knows the question at all."""
    try:
        return call(*arguments), True
    except libvirt.libvirtError as exc:
        if exc.get_error_code() not in (libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_OPERATION_UNSUPPORTED):
            raise
        return None, False


def _all(call: t.Callable[[int], list[t.Any]] | None) -> list[t.Any]:
    """A list of libvirt's; empty where its driver or this version has no such things."""
    found = _ask(call, 0)[0] if call is not None else None
    return found or []
