# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of single machines only for those who want it: snapshots, jobs, backing chains, guest system and more.

Every question here is at least one call for each machine, and so nobody asks it unasked.

No disk of a guest is opened to learn what it is backed by: of a running machine the live XML has what QEMU uses. Of one
that is off the descriptions of the volumes have it, which libvirt reads when it looks through their pool; each layer
counts only under the format that the layer above it names, as the bytes of a raw disk are the guest's to write.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import typing as t
from collections.abc import Collection, Mapping, Sequence

from ..._base.errors import HostError, NotFoundError, visible
from ..._base.xml import attribute, etree, read_description
from ..._model.attachments import agent_is_connected, disk_source
from ..._model.image.name import PROVENANCE_ATTRIBUTE, ImageName, newest_first, parse_image_volume, time_noted
from ..connection import (
    ItemResult,
    VirConnect,
    agent_limit,
    by_name,
    is_local,
    libvirt,
    map_in_threads,
    suppress_codes,
    translate_errors,
)
from ..machines.listing import noted
from ..machines.record import ACTIVE_STATES
from ..machines.snapshots import snapshot_records

SNAPSHOTS, JOBS, CHAINS, IMAGES, OS, UPTIME = "snapshots", "jobs", "backing_chains", "images", "os", "uptime"
DETAILS = (SNAPSHOTS, JOBS, CHAINS, IMAGES, OS, UPTIME)
# Under which key of a record each stands; a chain stands in its disk.
DETAIL_KEYS = {SNAPSHOTS: "snapshots", JOBS: "jobs", IMAGES: "newer_images", OS: "os", UPTIME: "uptime_seconds"}
_THREADS = 8
# virDomainJobOperation and virDomainBlockJobType, by their numbers from 1 on.
# https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainJobOperation
_JOBS = (
    *("start", "save", "restore", "migration_in", "migration_out"),
    *("snapshot", "snapshot_revert", "dump", "backup", "snapshot_delete"),
)
_BLOCK_JOBS = ("pull", "copy", "commit", "active_commit", "backup")
# virDomainJobType: a job that goes on now, with or without a known end.
_GOING_ON = (1, 2)
_BACKUP_WITHOUT_DATA = "backup job data missing"
# Of what a guest says of itself, as much as anybody needs.
_LONGEST_TEXT = 200
_OS_KEYS = {"id": "os.id", "name": "os.pretty-name", "version": "os.version-id", "kernel": "os.kernel-release"}

# A chain that is longer leads in a circle.
_MOST_LAYERS = 64
# Formats that have nothing behind them.
_WITHOUT_BACKING = frozenset({None, "raw", "iso", "dir", "luks"})

VirDomain = t.Any
Record = dict[str, t.Any]
Layer = dict[str, t.Any]


def add_details(
    conn: VirConnect,
    records: Sequence[Record],
    wanted: Collection[str],
    *,
    agent_timeout_seconds: int,
    timeout_seconds: float | None = None,
) -> None:
    """Fill the wanted ones of DETAILS into the records of machines, in place; null is what cannot be known.

    For CHAINS the records have their disks. OS needs a connection that is not read-only. A machine that does not answer
    in time gets the reason in its ``errors``. Raises VirtError only when the machines cannot be listed.
    """
    asked = [detail for detail in wanted if detail in DETAILS]
    if not asked or not records:
        return
    with translate_errors("cannot list the machines"):
        domains = {domain.UUIDString(): domain for domain in conn.listAllDomains()}
    end = timeout_seconds and time.monotonic() + timeout_seconds
    there = [record for record in records if record["uuid"] in domains]
    # Guests last, which may be slow or busy: they keep nothing of this from other machines then.
    for part in ([detail for detail in asked if detail != OS], [detail for detail in asked if detail == OS]):
        if not part:
            continue
        questions = _Questions(conn, part, agent_timeout_seconds)
        ask = functools.partial(_ask_one, questions, domains)
        left = end and max(0.1, end - time.monotonic())
        outcomes = map_in_threads(ask, there, threads=_THREADS, timeout_seconds=left)
        answers = {record["uuid"]: outcome for record, outcome in zip(there, outcomes)}
        for record in records:
            record.update(questions.nothing_known)
            _fill_in(record, part, answers.get(record["uuid"]))


def _ask_one(questions: _Questions, domains: Mapping[str, VirDomain], record: Record) -> tuple[Record, list[str]]:
    return questions.answer(domains[record["uuid"]], record)


def _fill_in(record: Record, asked: Sequence[str], outcome: ItemResult[tuple[Record, list[str]]] | None) -> None:
    chains = None
    if outcome is not None and outcome.value is not None:
        found, errors = outcome.value
        chains = found.pop(CHAINS, None)
        record.update(found)
        record["errors"] = [*record["errors"], *errors]
    elif outcome is not None:
        record["errors"] = [*record["errors"], f"{', '.join(asked)}: {outcome.error}"]
    if CHAINS in asked:
        for disk in record["disks"]:
            disk["backing_chain"] = (chains or {}).get(disk["target"])


class _Questions:
    """What is asked of each machine."""

    def __init__(self, conn: VirConnect, asked: Sequence[str], agent_timeout_seconds: int) -> None:
        self._asked = asked
        self._agent_timeout_seconds = agent_timeout_seconds
        self._local = is_local(conn.getURI())
        self._chains = BackingChains(conn)
        self._images = NewerImages(conn)
        self.nothing_known: Mapping[str, None] = dict.fromkeys(DETAIL_KEYS[one] for one in asked if one in DETAIL_KEYS)

    def answer(self, domain: VirDomain, record: Record) -> tuple[Record, list[str]]:
        """What one machine says, and sentences about what it does not."""
        found: Record = {}
        errors: list[str] = []
        running = record["state"] in ACTIVE_STATES
        if UPTIME in self._asked and running and self._local:
            found["uptime_seconds"] = process_seconds(record["name"])
        root = None
        if not {CHAINS, IMAGES}.isdisjoint(self._asked) or (running and not {JOBS, OS}.isdisjoint(self._asked)):
            with noted(errors), translate_errors("libvirt does not show its XML"):
                root = read_description(f"machine {record['name']}", domain.XMLDesc())
        if SNAPSHOTS in self._asked:
            with noted(errors):
                found["snapshots"] = snapshot_records(domain)
        if JOBS in self._asked:
            with noted(errors):
                found["jobs"] = read_jobs(domain, root) if running else []
        if not {CHAINS, IMAGES}.isdisjoint(self._asked) and root is not None:
            chains, newer = self._ask_disks(root, running, errors)
            if CHAINS in self._asked:
                found[CHAINS] = chains
            if IMAGES in self._asked:
                found[DETAIL_KEYS[IMAGES]] = newer
        if OS in self._asked and record["state"] == "running" and root is not None and agent_is_connected(root):
            with noted(errors):
                found["os"] = self._ask_os(domain)
        return found, errors

    def _ask_disks(
        self, root: etree._Element, running: bool, errors: list[str]
    ) -> tuple[dict[str | None, list[Layer]], list[Record] | None]:
        """The chains of a machine's disks, and of which stored images in them there are newer versions; None for the
        latter where one disk does not tell."""
        chains: dict[str | None, list[Layer]] = {}
        newer: list[Record] = []
        disks = root.findall("devices/disk")
        told = 0
        for disk in disks:
            name = attribute(disk, "target", "dev")
            with noted(errors, f"disk {name}: "):
                chains[name] = self._chains.of_disk(disk, running=running)
                asked = IMAGES in self._asked and disk.find("readonly") is None
                found = self._images.of_layers(chains[name]) if asked else None
                if found is not None:
                    newer.append({"disk": name, "image": found[0], "newest": found[1]})
                # What a volume there is a clone of, its cluster knows, and libvirt does not.
                told += not (asked and attribute(disk, "source", "protocol") == "rbd")
        return chains, newer if told == len(disks) else None

    def _ask_os(self, domain: VirDomain) -> dict[str, str | None]:
        what = "the guest agent did not report its operating system"
        with translate_errors(what), agent_limit(domain, self._agent_timeout_seconds, required=True):
            said = domain.guestInfo(libvirt.VIR_DOMAIN_GUEST_INFO_OS, 0)
        return {key: _short(said.get(name)) for key, name in _OS_KEYS.items()}


def _short(text: t.Any) -> str | None:
    return None if text is None else visible(str(text)[:_LONGEST_TEXT])


def read_jobs(domain: VirDomain, root: etree._Element | None) -> list[dict[str, t.Any]] | None:
    """What goes on with a running machine and its disks; None where libvirt does not tell it."""
    disks = [] if root is None else root.findall("devices/disk[source]")
    targets = [target for target in (attribute(disk, "target", "dev") for disk in disks) if target]
    # The driver for tests knows no jobs, and the target of a migration knows nothing of this one.
    unknown = suppress_codes(libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_ERR_OPERATION_UNSUPPORTED)
    with translate_errors("cannot read its jobs"), unknown:
        jobs = [job_of(_stats(domain)), *(block_job_of(one, domain.blockJobInfo(one, 0)) for one in targets)]
        return [job for job in jobs if job is not None]
    return None


def _stats(domain: VirDomain) -> Mapping[str, t.Any]:
    """What virDomainGetJobStats says. Of a backup that is just beginning or ending it says no more than that it is one
    (qemuBackupGetJobInfoStats in src/qemu/qemu_backup.c), and that as an error without a code of its own."""
    try:
        return t.cast("Mapping[str, t.Any]", domain.jobStats())
    except libvirt.libvirtError as exc:
        if _BACKUP_WITHOUT_DATA not in (exc.get_error_message() or ""):
            raise
        return {"type": libvirt.VIR_DOMAIN_JOB_UNBOUNDED, "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP}


def job_of(stats: Mapping[str, t.Any]) -> dict[str, t.Any] | None:
    """A machine's job from what virDomainGetJobStats says of it; times there are in ms, amounts in bytes."""
    if stats.get("type") not in _GOING_ON:
        return None
    elapsed_ms = stats.get("time_elapsed")
    return {
        "type": _word(_JOBS, stats.get("operation")),
        "disk": None,
        "percent": _percent(stats.get("data_processed"), stats.get("data_total")),
        "elapsed_seconds": None if elapsed_ms is None else elapsed_ms // 1000,
    }


def block_job_of(target: str, info: Mapping[str, t.Any] | None) -> dict[str, t.Any] | None:
    """A disk's job from what virDomainGetBlockJobInfo says of it; nothing where there is none."""
    if not info:
        return None
    return {
        "type": _word(_BLOCK_JOBS, info.get("type")),
        "disk": target,
        "percent": _percent(info.get("cur"), info.get("end")),
        "elapsed_seconds": None,
    }


def _word(words: Sequence[str], number: int | None) -> str:
    return words[number - 1] if number is not None and 1 <= number <= len(words) else "unknown"


def _percent(part: int | None, whole: int | None) -> int | None:
    return min(100, 100 * part // whole) if part is not None and whole else None


def process_seconds(machine: str, run: str = "/run/libvirt/qemu", proc: str = "/proc") -> int | None:
    """How long the machine's QEMU has run on this host; None where that cannot be seen.

    libvirt does not tell it. QEMU's process starts with the machine, and with its arrival from another hypervisor.
    Source: proc(5), /proc/PID/stat, field 22 (starttime, in clock ticks after the boot), and /proc/uptime.
    """
    try:
        with open(os.path.join(run, f"{os.path.basename(machine)}.pid"), encoding="ascii") as file:
            pid = int(file.read())
        with open(os.path.join(proc, str(pid), "stat"), encoding="utf-8", errors="replace") as file:
            # The name of the program, in parentheses, may have blanks in it.
            started_ticks = int(file.read().rpartition(")")[2].split()[19])
        with open(os.path.join(proc, "uptime"), encoding="ascii") as file:
            up_seconds = float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return max(0, int(up_seconds - started_ticks / os.sysconf("SC_CLK_TCK")))


class BackingChains:
    """The chains of the disks of one hypervisor. A volume that many disks are backed by is asked for once."""

    def __init__(self, conn: VirConnect) -> None:
        self._conn = conn
        self._backing: dict[str, tuple[str | None, str | None]] = {}

    def of_disk(self, disk: etree._Element, *, running: bool) -> list[Layer]:
        """What is behind a ``<disk>``, the nearest first; each layer with ``source`` and ``format``.

        Raises an error of ours where that is not known.
        """
        if disk.find("source") is None or disk.get("device", "disk") not in ("disk", "lun"):
            return []
        told = disk.find("backingStore")
        if running and told is not None:
            return _told_layers(told)
        return self._layers_of_volumes(disk)

    def _layers_of_volumes(self, disk: etree._Element) -> list[Layer]:
        layers: list[Layer] = []
        place, layer_format = disk_source(disk), attribute(disk, "driver", "type")
        while layer_format not in _WITHOUT_BACKING:
            if len(layers) >= _MOST_LAYERS:
                raise HostError("its backing chain has no end")
            if place is None:
                raise HostError("what it is backed by is unknown")
            if place not in self._backing:
                self._backing[place] = self._ask(place, disk if not layers else None)
            place, layer_format = self._backing[place]
            if place is None:
                return layers
            if layer_format is None:
                raise HostError(f"what it is backed by is unknown from {place} on: nothing names the format of that")
            layers.append({"source": place, "format": layer_format})
        return layers

    def _ask(self, place: str, disk: etree._Element | None) -> tuple[str | None, str | None]:
        """Path and format of what a volume is backed by, both None for one that is whole in itself. disk: the one that
        the volume is behind, if any is at once."""
        try:
            with translate_errors(f"what {place} is backed by is unknown"):
                if disk is not None and disk.get("type") == "volume":
                    pool = self._conn.storagePoolLookupByName(attribute(disk, "source", "pool"))
                    volume = pool.storageVolLookupByName(attribute(disk, "source", "volume"))
                else:
                    volume = self._conn.storageVolLookupByPath(place)
                root = read_description(f"volume {place}", volume.XMLDesc())
        except NotFoundError:
            raise HostError(f"what {place} is backed by is unknown: no active storage pool has it") from None
        path = root.findtext("backingStore/path")
        return (path, attribute(root, "backingStore/format", "type")) if path else (None, None)


def _told_layers(told: etree._Element) -> list[Layer]:
    """The layers that a ``<backingStore>`` of a running machine nests; an empty one is the end."""
    layers: list[Layer] = []
    node: etree._Element | None = told
    while node is not None and node.find("source") is not None:
        layers.append({"source": disk_source(node), "format": attribute(node, "format", "type")})
        node = node.find("backingStore")
    return layers


class NewerImages:
    """The stored images of one hypervisor by their age. Each pool that backs a machine is looked through once."""

    def __init__(self, conn: VirConnect) -> None:
        self._conn = conn
        uri = conn.getURI()
        # The test driver's pools are directories of this machine.
        self._reads_files = is_local(uri) or uri.startswith("test:")
        self._newest: dict[str, dict[str, str]] = {}

    def of_layers(self, layers: Sequence[Layer]) -> tuple[str, str] | None:
        """The stored image that is one of these layers, and the newest version of it, by the names of the volumes; None
        where that is the same one, and where no stored image is among them.

        Raises an error of ours where it is not known.
        """
        for layer in layers:
            path = str(layer["source"])
            image = parse_image_volume(os.path.basename(path))
            if image is None:
                continue
            folder = os.path.dirname(path)
            if folder not in self._newest:
                self._newest[folder] = self._look(path)
            newest = self._newest[folder].get(image.name, image.volume)
            return None if newest == image.volume else (image.volume, newest)
        return None

    def _look(self, path: str) -> dict[str, str]:
        """The newest volume of each image in the pool that has a volume at this path; nothing where no pool has."""
        try:
            with translate_errors(f"whether there is a newer version of {path} is unknown"):
                pool = self._conn.storageVolLookupByPath(path).storagePoolLookupByVolume()
                parsed = map(parse_image_volume, by_name(pool.listAllVolumes()))
                images = [image for image in parsed if image is not None]
                names = [image.name for image in images]
                # Of most images there is one version, and nobody need ask how old it is.
                several = [image for image in images if names.count(image.name) > 1]
                ages = {image: self._stored_at(pool, image) for image in several}
        except NotFoundError:
            return {}
        newest: dict[str, str] = {}
        for image in newest_first(images, lambda one: ages.get(one, 0)):
            newest.setdefault(image.name, image.volume)
        return newest

    def _stored_at(self, pool: t.Any, image: ImageName) -> int:
        """When it was stored, in nanoseconds, as listing.stored_at says it; of another host, when its file was written.
        0 where nobody knows, and for one that has gone meanwhile."""
        with suppress_codes(libvirt.VIR_ERR_NO_STORAGE_VOL):
            volume = pool.storageVolLookupByName(image.volume)
            if self._reads_files:
                # As _host/images/provenance.py reads it, which would bring more files along.
                with contextlib.suppress(OSError):
                    text = os.getxattr(volume.path(), PROVENANCE_ATTRIBUTE).decode(errors="replace")
                    noted = time_noted(text, image)
                    if noted is not None:
                        return noted
            root = read_description(f"volume {image.volume}", volume.XMLDesc())
            seconds, _point, nanoseconds = (root.findtext("target/timestamps/mtime") or "").partition(".")
            if seconds.isdigit():
                return int(seconds) * 1_000_000_000 + int(nanoseconds.ljust(9, "0")[:9] or 0)
            with contextlib.suppress(OSError):
                return os.stat(volume.path()).st_mtime_ns
        return 0
