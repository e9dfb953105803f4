# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a snapshot of a machine can be taken so that it can be reverted on this hypervisor. Asks nobody.

What libvirt can do, by its NEWS and its driver for QEMU (src/qemu/qemu_snapshot.c):

* Internal ones need qcow2 for every disk that is written to; of a running machine they always have the memory.
* UEFI: while the machine is off, since 9.3; while it runs, since 10.10, if its variables are in a qcow2 file.
* vCPUs that were added while the machine ran: internal ones are reverted since 11.0. Before, QEMU loads the memory as
  it starts, without them, and ends: «Unknown savevm section or instance 'cpu_common' 1» (9.0; 11.3 reverts it).
* External ones are reverted since 9.9, if all disks are files.
* Machines with both kinds cannot be reverted and cleared in every order.

What is on volumes of a Ceph cluster, libvirt can take none of. The cluster itself does: of all disks of a machine, and
of nothing else.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

from ..._base.errors import ConflictError, HostError, InputError, UnsupportedError
from ..._base.xml import attribute, etree
from ..._host.machines.snapshots import CEPH, EXTERNAL, INTERNAL
from ..._model.attachments import disks_by_target, read_only_disks, written_disks
from ..._model.metadata.snapshots import snapshot_file
from .view import SnapshotView, version_words

AUTO, YES, NO = "auto", "true", "false"
REVERTS_EXTERNAL = 9_009_000
_KEEPS_UEFI_OFF = 9_003_000
_KEEPS_UEFI_RUNNING = 10_010_000
_ADDS_VCPUS = 11_000_000
_QCOW2 = "qcow2"
# Of the file that an external one keeps the memory in.
MEMORY_SUFFIX = ".memory"


@dataclass(frozen=True)
class Method:
    """How a snapshot is taken.

    kind: INTERNAL, EXTERNAL or CEPH. memory, quiesce: with the memory, with the file systems of the guest frozen.
    disks: the targets of what is kept. files: for an external one, the new file of each target; memory_file: that of
    the memory. left_out: targets that are not kept, as nothing can write to them. warnings: what of the machine is not
    kept. must_quiesce: nothing is taken where nothing can be frozen; nothing_frozen: filled when it turns out so.
    """

    kind: str
    memory: bool
    quiesce: bool
    disks: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    memory_file: str | None = None
    warnings: tuple[str, ...] = ()
    must_quiesce: bool = False
    nothing_frozen: list[str] = field(default_factory=list, compare=False)

    def frozen(self, count: int) -> None:
        """So many file systems were frozen. Raises HostError where there were none, and have to be."""
        if count == 0:
            what = "the guest agent has no file system that can be frozen"
            if self.must_quiesce:
                raise HostError(what, hint="Set quiesce: auto to do without")
            self.nothing_frozen.append(what)


def choose(machine: SnapshotView, name: str, memory: str, quiesce: str) -> Method:
    """How a snapshot of this name is taken. memory, quiesce: AUTO, YES or NO.

    AUTO keeps the memory if it can. Raises InputError for what does not go together, UnsupportedError and
    ConflictError, with all reasons, where no snapshot could be reverted.
    """
    _check_wishes(machine, memory, quiesce)
    kept = written_disks(machine.xml)
    left_out = tuple(target for target in disks_by_target(machine.xml) if target not in kept)
    if not kept:
        raise UnsupportedError("it has no disk that it can write to, so there is nothing to keep")
    _require_own(kept)
    if any(_is_in_cluster(disk) for disk in kept.values()):
        return _in_cluster(machine, kept, left_out, memory, quiesce)
    with_memory = machine.active and memory != NO
    against = {INTERNAL: _against_internal(machine, kept, with_memory=with_memory)}
    if against[INTERNAL]:
        against[EXTERNAL] = _against_external(machine, with_memory=with_memory)
        if against[EXTERNAL] and with_memory and memory == AUTO:
            with_memory = False
            against[EXTERNAL] = _against_external(machine, with_memory=with_memory)
    kind = next((kind for kind, reasons in against.items() if not reasons), None)
    if kind is None:
        raise UnsupportedError(
            f"no snapshot that could be reverted can be taken of it. Internal: {'; '.join(against[INTERNAL])}. "
            f"External: {'; '.join(against[EXTERNAL])}",
            hint=_hint(machine, kept, with_memory=machine.active and memory != NO),
        )
    files = {target: _file_of(machine.name, disk, name) for target, disk in kept.items()} if kind == EXTERNAL else {}
    folder = posixpath.dirname(next(iter(files.values()), ""))
    return Method(
        kind,
        with_memory,
        quiesce=not with_memory and quiesce != NO and _can_freeze(machine),
        disks=tuple(kept),
        left_out=left_out,
        files=files,
        memory_file=f"{folder}/{machine.name}.{name}{MEMORY_SUFFIX}" if kind == EXTERNAL and with_memory else None,
        warnings=tuple(_not_kept(machine, kind)),
        must_quiesce=quiesce == YES,
    )


def _is_in_cluster(disk: etree._Element) -> bool:
    return disk.get("type") == "network" and attribute(disk, "source", "protocol") == "rbd"


def _in_cluster(
    machine: SnapshotView, kept: dict[str, etree._Element], left_out: tuple[str, ...], memory: str, quiesce: str
) -> Method:
    """How one is taken of a machine that has disks in a Ceph cluster. Raises UnsupportedError."""
    outside = [f"{target} ({disk.get('type')})" for target, disk in kept.items() if not _is_in_cluster(disk)]
    if outside:
        inside = [target for target, disk in kept.items() if _is_in_cluster(disk)]
        raise UnsupportedError(
            f"some of its disks are in a Ceph cluster ({', '.join(inside)}) and others are not ({', '.join(outside)}), "
            "and there is no snapshot of both",
            hint="Move all its disks into one kind of storage: virt_migrate with pool",
        )
    other = [f"{target} ({_format_of(disk)})" for target, disk in kept.items() if _format_of(disk) != "raw"]
    if other:
        raise UnsupportedError(
            f"in a Ceph cluster only raw disks have snapshots, and these are not: {', '.join(other)}"
        )
    if memory == YES:
        raise UnsupportedError(
            "its disks are in a Ceph cluster, whose snapshots never have the memory",
            where="memory",
            hint="Set memory=false or auto",
        )
    taken = [one.facts.name for one in machine.snapshots if one.facts.kind != CEPH]
    if taken:
        raise UnsupportedError(
            f"it has snapshots of another kind ({', '.join(taken)}), which know nothing of its disks in a Ceph cluster",
            hint="Delete those first: virt_snapshot with state: absent",
        )
    return Method(
        CEPH,
        memory=False,
        quiesce=quiesce != NO and _can_freeze(machine),
        disks=tuple(kept),
        left_out=left_out,
        warnings=tuple(_not_kept(machine, CEPH)),
        must_quiesce=quiesce == YES,
    )


def _check_wishes(machine: SnapshotView, memory: str, quiesce: str) -> None:
    if quiesce == YES and memory == YES:
        raise InputError(
            "it is for snapshots without memory: what a guest has in its memory is kept as it is",
            where="quiesce",
            hint="Set memory=false",
        )
    if not machine.active:
        if memory == YES:
            raise ConflictError("it is off, so it has no memory to keep", hint="Start it first, or set memory: auto")
        return
    if quiesce != YES:
        return
    if memory == AUTO:
        raise InputError("it is for snapshots without memory", where="quiesce", hint="Set memory=false")
    if not machine.agent:
        raise ConflictError(
            "its guest agent has not connected, so nobody can freeze its file systems",
            hint="Install and start qemu-guest-agent in the guest, or set quiesce: auto",
        )
    if not _can_freeze(machine):
        raise ConflictError(
            f"it is {machine.power.state}, so nobody can freeze its file systems",
            hint="Resume it first, or set quiesce: auto",
        )


def _can_freeze(machine: SnapshotView) -> bool:
    # The agent of a paused guest answers nobody.
    return machine.power.state == "running" and machine.agent


def _require_own(kept: dict[str, etree._Element]) -> None:
    for target, disk in kept.items():
        if disk.find("shareable") is not None:
            raise UnsupportedError(
                f"its disk {target} is shared with other machines, whose data a revert would change as well",
                hint="Detach the disk first",
            )


def _format_of(disk: etree._Element) -> str:
    return attribute(disk, "driver", "type") or "raw"


def _against_internal(machine: SnapshotView, kept: dict[str, etree._Element], *, with_memory: bool) -> list[str]:
    reasons = []
    if machine.active and not with_memory:
        reasons.append("while a machine runs, they always have its memory")
    other = [f"{target} ({_format_of(disk)})" for target, disk in kept.items() if _format_of(disk) != _QCOW2]
    if other:
        reasons.append(f"they need disks of format qcow2, and these are not: {', '.join(other)}")
    reasons += [
        f"disk {target} is of type {disk.get('type')}"
        for target, disk in kept.items()
        if disk.get("type") not in ("file", "block")
    ]
    reasons += _against_firmware(machine)
    if with_memory and has_added_vcpus(machine.xml, machine.version):
        reasons.append(f"it has vCPUs that were added while it runs, {unable_to_add(machine.version)}")
    external = [one.facts.name for one in machine.snapshots if one.facts.kind == EXTERNAL]
    if external:
        reasons.append(f"it has external ones ({', '.join(external)}), and libvirt cannot handle both kinds together")
    return [*reasons, *_against_those_in_cluster(machine)]


def has_added_vcpus(running: etree._Element, version: int) -> bool:
    """Whether a machine has vCPUs without which this libvirt starts it when it reverts it to its memory of now."""
    return version < _ADDS_VCPUS and running.find("vcpus/vcpu[@enabled='yes'][@hotpluggable='yes']") is not None


def unable_to_add(version: int) -> str:
    """Why those cannot be reverted, in words."""
    return f"and libvirt {version_words(version)} cannot revert one of such a machine (11.0 and later can)"


def _against_those_in_cluster(machine: SnapshotView) -> list[str]:
    """What libvirt takes is of no use beside what a cluster has: each revert knows of its own disks only."""
    others = [one.facts.name for one in machine.snapshots if one.facts.kind == CEPH]
    return [f"it has some of disks in a Ceph cluster ({', '.join(others)})"] if others else []


def _against_firmware(machine: SnapshotView) -> list[str]:
    if machine.xml.find("os/loader[@type='pflash']") is None:
        return []
    if not machine.active:
        if machine.version >= _KEEPS_UEFI_OFF:
            return []
        return [f"libvirt {version_words(machine.version)} takes none of a machine with UEFI (9.3 and later do)"]
    if attribute(machine.xml, "os/nvram", "format") != _QCOW2:
        return ["the variables of its UEFI are not in a qcow2 file"]
    if machine.version < _KEEPS_UEFI_RUNNING:
        return [f"libvirt {version_words(machine.version)} cannot revert one of a running machine with UEFI"]
    return []


def _against_external(machine: SnapshotView, *, with_memory: bool) -> list[str]:
    reasons = []
    if machine.version < REVERTS_EXTERNAL:
        reasons.append(f"libvirt {version_words(machine.version)} cannot revert them (9.9 and later can)")
    # A revert makes a new file for each disk, also for one that nobody writes to.
    reasons += [
        f"disk {attribute(disk, 'target', 'dev')} is not a file"
        for disk in machine.xml.iterfind("devices/disk")
        if disk.get("type") != "file"
    ]
    # Of a machine that is off then, they are put back; see readonly.py.
    read_only = [target for target, disk in read_only_disks(machine.xml).items() if disk.find("source") is not None]
    if with_memory and read_only:
        reasons.append(f"with memory, a revert would put a new file before what it only reads ({', '.join(read_only)})")
    internal = [one.facts.name for one in machine.snapshots if one.facts.kind == INTERNAL]
    if internal:
        reasons.append(f"it has internal ones ({', '.join(internal)}), and libvirt cannot handle both kinds together")
    if machine.checkpoints and not machine.active:
        reasons.append("it has checkpoints of a backup, and is off")
    return [*reasons, *_against_those_in_cluster(machine)]


def _hint(machine: SnapshotView, kept: dict[str, etree._Element], *, with_memory: bool) -> str | None:
    if not machine.active:
        return None
    if not with_memory and not _against_internal(machine, kept, with_memory=True):
        return "Set memory: auto to keep the memory too, or shut the machine down first"
    return None if any(_format_of(disk) != _QCOW2 for disk in kept.values()) else "Shut the machine down first"


def _file_of(machine: str, disk: etree._Element, name: str) -> str:
    return snapshot_file(machine, attribute(disk, "target", "dev") or "", attribute(disk, "source", "file") or "", name)


def _not_kept(machine: SnapshotView, kind: str) -> list[str]:
    words = []
    firmware = machine.xml.find("os/loader[@type='pflash']") is not None
    if (firmware or machine.xml.find("os[@firmware='efi']") is not None) and (
        kind in (EXTERNAL, CEPH) or attribute(machine.xml, "os/nvram", "format") != _QCOW2
    ):
        words.append("the variables of its UEFI are not kept: a revert leaves them as they are")
    if (kind == CEPH or not machine.active) and machine.xml.find("devices/tpm/backend[@type='emulator']") is not None:
        words.append("the state of its TPM is not kept: a revert leaves it as it is")
    return words
