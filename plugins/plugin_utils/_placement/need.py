# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine needs of a hypervisor: one shape for a machine that is to be made and for one that is to be moved."""

from __future__ import annotations

import posixpath
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...module_utils._model.spec.machine import Machine

_MIB = 1024 * 1024


@dataclass(frozen=True)
class DiskNeed:
    """Space in a pool. size_mib None: as large as its image. name: as the spec has it.

    written_mib: what of a disk that is moved is written. storage: the shared storage that it is in, and stays in where
    the pool of the target is the same.
    """

    pool: str
    size_mib: int | None
    image: str | None = None
    written_mib: int | None = None
    storage: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class Origin:
    """What a machine that is moved brings along, and what its new hypervisor must know.

    images: pool, volume and MiB of the stored images under its overlays. left_on: the hypervisor, by its own name,
    where a move of it that broke off may have left volumes.
    """

    arch: str | None
    domain_type: str | None
    machine_type: str | None
    images: tuple[tuple[str, str, int], ...] = ()
    left_on: str | None = None


@dataclass(frozen=True)
class Need:
    """What one machine needs. pools: those that have to be there, whatever space they have; groups None: as it has
    them.

    images: by the names in the spec, for a new machine. origin: where the machine is there already.
    """

    name: str
    memory_mib: int
    vcpus: int
    disks: tuple[DiskNeed, ...] = ()
    pools: tuple[str, ...] = ()
    bridges: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    origin: Origin | None = None


def images_of(machine: Machine) -> list[str]:
    """The images that back the machine's disks, each once."""
    return list(dict.fromkeys(disk.image for disk in machine.disks if disk.present and disk.image is not None))


def need_of_spec(machine: Machine, image_pool: str) -> Need:
    """What a machine needs that is to be as the spec says. image_pool: the pool of the image store."""
    disks, pools = [], []
    for disk in machine.disks:
        for pool in dict.fromkeys(disk.pools):
            if pool == disk.pool:
                disks.append(DiskNeed(pool, disk.size_mib, disk.image, name=disk.name))
            else:
                pools.append(pool)
    if machine.seed.method == "nocloud":
        pools.append(machine.seed.pool)
    images = images_of(machine)
    if images:
        pools.append(image_pool)
    return Need(
        name=machine.name,
        memory_mib=machine.memory_mib,
        vcpus=machine.vcpus,
        disks=tuple(disks),
        pools=tuple(dict.fromkeys(pools)),
        bridges=_unique(nic.source for nic in machine.nics if nic.present and nic.type == "bridge"),
        networks=_unique(nic.source for nic in machine.nics if nic.present and nic.type == "network"),
        images=tuple(images),
        labels=machine.labels or (),
        groups=machine.anti_affinity,
    )


def need_of_record(
    record: Mapping[str, t.Any],
    stored: Sequence[Mapping[str, t.Any]],
    storage_of: t.Callable[[str], str | None] = lambda _pool: None,
) -> Need:
    """What an existing machine needs on another hypervisor.

    record: as virt_info returned it. stored: the images of the hypervisor that it is on, as virt_host_info returned
    them. storage_of: the shared storage behind a pool there.
    """
    sources = [disk for disk in record.get("disks") or [] if disk.get("source")]
    disks = [
        DiskNeed(
            disk["pool"],
            _mib(disk.get("size_bytes")) or 0,
            written_mib=_mib(disk.get("allocation_bytes")),
            storage=storage_of(disk["pool"]),
        )
        for disk in _travelling(record)
    ]
    media = [disk["pool"] for disk in sources if disk.get("pool") and _only_reads(disk)]
    images = _images_below(sources, record.get("image"), stored)
    nics = record.get("nics") or []
    return Need(
        name=record["name"],
        memory_mib=record["memory_max_mib"],
        vcpus=record["vcpus_max"],
        disks=tuple(disks),
        pools=_unique([*(pool for pool, _volume, _size in images), *media]),
        bridges=_unique(nic["source"] for nic in nics if nic.get("type") == "bridge" and nic.get("source")),
        networks=_unique(nic["source"] for nic in nics if nic.get("type") == "network" and nic.get("source")),
        labels=tuple(record.get("labels") or ()),
        groups=tuple(record.get("anti_affinity") or ()),
        origin=Origin(
            arch=record.get("arch"),
            domain_type=record.get("domain_type"),
            machine_type=record.get("machine_type"),
            images=images,
            left_on=(record.get("moving") or {}).get("target"),
        ),
    )


def in_other_pools(
    need: Need, record: Mapping[str, t.Any], pool: str | None, disks: Mapping[str, Mapping[str, t.Any]]
) -> Need:
    """What need_of_record says, for a machine whose disks go to other pools as it is moved.

    pool: of all its disks; None for those that they are in. disks: of single ones, by their names or targets, as
    virt_migrate takes them.
    """
    placed = _travelling(record)

    def pool_of(disk: Mapping[str, t.Any]) -> str:
        keys = [str(disk.get(word)) for word in ("name", "target")]
        named = (disks[key].get("pool") for key in keys if key in disks)
        return str(next(named, None) or pool or disk["pool"])

    def moved(one: DiskNeed, disk: Mapping[str, t.Any]) -> DiskNeed:
        to = pool_of(disk)
        return one if to == one.pool else replace(one, pool=to, storage=None)

    return replace(need, disks=tuple(moved(one, disk) for one, disk in zip(need.disks, placed, strict=True)))


def ties_of(record: Mapping[str, t.Any]) -> list[str]:
    """Why an existing machine can be moved nowhere; empty for most.

    record: as virt_info returned it.
    """
    if record.get("memory_max_mib") is None or record.get("vcpus_max") is None:
        return ["; ".join(record.get("errors") or ["it cannot be read"])]
    reasons = [f"it has {words}" for words in record.get("tied_by") or []]
    if record.get("building"):
        reasons.append("it is being created, or that was interrupted")
    if record.get("saved"):
        reasons.append(
            "its memory is saved to a file of its hypervisor, which libvirt cannot move with it: start it first"
        )
    if record.get("persistent") is False:
        reasons.append("it is transient: libvirt forgets it when it stops, and moves only what is defined")
    disks = [disk for disk in record.get("disks") or [] if disk.get("source") and not disk.get("pool")]
    return reasons + [f"its disk {disk['target']} ({disk['source']}) is not in any storage pool" for disk in disks]


def _travelling(record: Mapping[str, t.Any]) -> list[Mapping[str, t.Any]]:
    """The disks that go along with a machine, unless they are on storage that the target shares."""
    disks = record.get("disks") or []
    return [disk for disk in disks if disk.get("source") and disk.get("pool") and not _only_reads(disk)]


def _only_reads(disk: Mapping[str, t.Any]) -> bool:
    """Whether it is a medium such as a CD that was not created for the machine: every hypervisor has its own copy."""
    return bool(disk.get("readonly")) and not disk.get("own")


def _images_below(
    disks: Sequence[Mapping[str, t.Any]], noted: Mapping[str, t.Any] | None, stored: Sequence[Mapping[str, t.Any]]
) -> tuple[tuple[str, str, int], ...]:
    """Pool, volume and MiB of the images that back the disks, by their backing files and by the machine's notes."""
    names = {posixpath.basename(disk["backing"]) for disk in disks if disk.get("backing")}
    if noted:
        names.add(noted["volume"])
    return tuple(
        (image.get("pool") or "images", image["volume"], image.get("size_mib") or 0)
        for image in stored
        if image["volume"] in names
    )


def _mib(size_bytes: int | None) -> int | None:
    return None if size_bytes is None else -(-size_bytes // _MIB)


def _unique(items: t.Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))
