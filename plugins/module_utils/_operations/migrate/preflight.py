# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a hypervisor can take a machine: asked before anything is changed, and of the target itself."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from ..._base.errors import ConflictError, NotFoundError, UnsupportedError, VirtError, one_of_these
from ..._base.xml import attribute, etree, read_description
from ..._host.connection import libvirt, suppress_codes, translate_errors
from ..._host.facts.networks import check_same_network, read_network
from ..._host.machines.domains import Domain, group_members
from ..._host.storage.pools import SpaceRequest, require_free_space
from ..._host.storage.usage import why_kept
from ..._host.storage.volume_facts import find_volume
from ..._model.attachments import (
    encryption_secrets,
    network_filters,
    start_files,
    ties_of_domain,
    ties_while_off,
    written_places,
)
from ..._model.metadata.machine import BUILDING
from ..._model.metadata.migration import MigrationNote
from ..._model.metadata.snapshots import reverting_to, taking
from ..._model.xml.disk_source import RAW
from ..hypervisor_view import HypervisorView
from .endpoints.options import MigrationOptions
from .endpoints.source_and_target import MigrationTarget, SourceMachine
from .snapshots import check_snapshots
from .storage.cleanup import is_left_over
from .storage.disks import DiskMigration
from .storage.volume_identity import is_the_one


def check_source_machine(machine: SourceMachine, options: MigrationOptions, where: str) -> None:
    """Raise when something keeps the machine from going anywhere."""
    check_finished(machine, where)
    ties = ties_of_domain(machine.running_xml, machine.defined_xml)
    if ties:
        raise UnsupportedError(
            f"{machine.name} cannot be moved: it has {' and '.join(ties)}", where=where, hint="Remove it first"
        )
    saved = is_saved(machine, where)
    check_snapshots(
        machine.name, machine.handle, active=machine.active, undefine_source=options.undefine_source, where=where
    )
    if saved:
        raise UnsupportedError(
            f"{machine.name} is saved to a file of this hypervisor, which libvirt cannot move with it",
            where=where,
            hint="Start it first, and move it running",
        )
    if not machine.active:
        _check_hidden_state(machine, where)


def is_saved(machine: SourceMachine, where: str) -> bool:
    """Whether libvirt has the memory of a machine that is off in a file."""
    with translate_errors(f"cannot inspect machine {machine.name}", where):
        return not machine.active and bool(machine.handle.hasManagedSaveImage(0))


def check_finished(machine: SourceMachine, where: str) -> None:
    """Raise ConflictError for a machine that a run is making, adding a disk to, or reverting to a snapshot; and
    for one of whose files a snapshot was begun, which it may be on without libvirt's knowledge.

    What another run makes, or the next one removes, is to be found where that run began it.
    """
    notes, snapshot, begun = machine.notes, reverting_to(machine.defined_xml), taking(machine.defined_xml)
    adding = [volume.name for volume in notes.volumes if volume.building] if notes is not None else []
    if notes is not None and notes.status == BUILDING:
        words = "it is not finished: a run is creating it, or was interrupted while doing so"
        if notes.claimed:
            words = "it is only a name that a run has reserved for a new machine"
    elif adding:
        words = f"a run is adding volume {', '.join(adding)} to it, or was interrupted while doing so"
    elif snapshot is not None:
        words = f"it is being reverted to snapshot {snapshot}, or that was interrupted"
    elif begun is not None and written_places(machine.defined_xml, "file") and not _is_known(machine, begun, where):
        words = f"virt_snapshot is taking snapshot {begun} of it, or was interrupted while doing so"
    else:
        return
    raise ConflictError(
        f"{machine.name} is not moved, as {words}",
        where=where,
        hint="Wait for that run, or run it again: it finishes the machine where it is",
    )


def _is_known(machine: SourceMachine, snapshot: str, where: str) -> bool:
    """Whether libvirt has taken a snapshot: virsh snapshot-revert brings back the note that it was begun."""
    with translate_errors(f"cannot inspect machine {machine.name}", where):
        return snapshot in machine.handle.snapshotListNames()


def _check_hidden_state(machine: SourceMachine, where: str) -> None:
    """What of a machine that is off lies in files that no pool has, and travels only while it runs."""
    for words in ties_while_off(machine.defined_xml):
        raise UnsupportedError(
            f"{machine.name} is off, and {words} would stay behind",
            where=where,
            hint="Start it first, and move it running",
        )


def check_target(machine: SourceMachine, target: MigrationTarget, options: MigrationOptions, where: str) -> None:
    """Raise what speaks against this machine on this hypervisor, whatever its disks are."""
    try:
        _check_maintenance(target, where)
        _check_name_is_free(machine, target, where)
        if options.anti_affinity == "require":
            _check_apart(machine, target, where)
        _check_machine(machine, target, where)
        _check_start_files(machine, target, where)
        _check_secrets_and_filters(machine, target, where)
        _check_nics(machine, target, where)
        _check_memory(machine, target, options, where)
    except VirtError as exc:
        what = f"{machine.name} cannot go to {target.name}: {exc.what}"
        raise type(exc)(what, where=exc.where, hint=exc.hint) from exc


def _check_nics(machine: SourceMachine, target: MigrationTarget, where: str) -> None:
    """Its networks have to be there, and to be the same: a name is all that libvirt goes by."""
    for nic in machine.nics:
        target.hypervisor.check_interface(nic, where)
        name = attribute(nic, "source", "network") or ""
        there = read_network(target.hypervisor.conn, name) if name in machine.networks else None
        if there is not None:
            check_same_network(nic, machine.networks[name], there, where)


def check_free_space_on_target(disks: Sequence[DiskMigration], target: MigrationTarget, where: str) -> None:
    """Raise ConflictError when the pools there have no space for the volumes that travel."""
    require_space_on(target, space_requests(disks, target), where)


def require_space_on(target: MigrationTarget, requests: Sequence[SpaceRequest], where: str) -> None:
    """Raise ConflictError when the target's pools have less space than is asked for."""
    try:
        require_free_space(requests, where or None)
    except ConflictError as exc:
        raise ConflictError(f"on {target.name}, {exc.what}", where=exc.where, hint=exc.hint) from exc


def _check_maintenance(target: MigrationTarget, where: str) -> None:
    found = target.maintenance
    if found is not None:
        since = f" since {found.since}" if found.since else ""
        reason = f" ({found.reason})" if found.reason else ""
        raise ConflictError(
            f"it is in maintenance{since}{reason}",
            where=where,
            hint="Choose another hypervisor, or end it: virt_maintenance with state: absent",
        )


def _check_apart(machine: SourceMachine, target: MigrationTarget, where: str) -> None:
    """Nobody of its anti-affinity groups may be there, also who has come since the target was chosen."""
    here = [domain for domain in target.hypervisor.domains.values() if domain.name != machine.name]
    words = [
        f"it has {member}, of the same anti-affinity group {group}"
        for member, group in group_members(machine.groups, here).items()
    ]
    words += [
        f"{name}, of the same anti-affinity group {group}, is going there too"
        for name, own in target.groups.items()
        for group in machine.groups
        if name != machine.name and group in own
    ]
    if words:
        raise ConflictError(
            words[0],
            where=where,
            hint="Choose another hypervisor, or let them share one: anti_affinity: prefer, or for the playbooks "
            "virt_anti_affinity: prefer",
        )


def check_source_volumes(
    machine: SourceMachine, disks: Sequence[DiskMigration], source: HypervisorView, where: str
) -> None:
    """Raise ConflictError when a volume that is to be deleted here afterwards has to stay, and why."""
    leaving = [(disk.source_pool, disk.volume.name) for disk in disks if disk.travels and disk.own]
    for pool, volume in leaving:
        use = source.usage.of(pool, volume, besides=machine.name, together=leaving)
        kept = why_kept(use)
        if kept is not None:
            raise ConflictError(
                f"{machine.name} is not moved, as its volume {volume} of pool {pool.name} could not be deleted here "
                f"afterwards: {kept}",
                where=where,
                hint="Change that, or move it and keep its old volumes: source_volumes: none",
            )


def _check_name_is_free(machine: SourceMachine, target: MigrationTarget, where: str) -> None:
    for domain in target.hypervisor.domains.values():
        same = domain.handle.UUIDString() == machine.uuid
        if same and domain.name == machine.name:
            if machine.moving is not None and is_left_over(target.hypervisor.conn, domain, machine.moving):
                continue
            raise ConflictError(
                "it is defined there too", where=where, hint=_what_to_do_with_two(machine, domain, target.name)
            )
        if domain.name == machine.name:
            raise ConflictError("another machine has its name there", where=where, hint="Rename one of the two")
        if same:
            raise ConflictError(f"machine {domain.name} there has the same UUID", where=where)
    owners = {mac: owner for mac, owner in target.hypervisor.macs.items() if owner != machine.name}
    for mac in machine.macs:
        if mac in owners:
            raise ConflictError(f"machine {owners[mac]} there has its MAC address {mac}", where=where)


def _what_to_do_with_two(machine: SourceMachine, there: Domain, target: str) -> str:
    """Nothing that is said here is against one that is up."""
    if machine.active and there.active:
        return "It is up on both, and each may have data of its own: compare the two before you stop either"
    undefine = f"virsh undefine {machine.name} --keep-nvram"
    if there.active:
        return f"Compare the two: it is up there. If it is not needed here: {undefine} here"
    return f"Compare the two. If it is not needed there: {undefine} on {target}"


def _check_machine(machine: SourceMachine, target: MigrationTarget, where: str) -> None:
    """Architecture, hypervisor type, machine type, firmware, CPU."""
    running_xml = machine.running_xml
    kind = running_xml.find("os/type")
    arch = "" if kind is None else kind.get("arch", "")
    machine_type = "" if kind is None else kind.get("machine", "")
    guests = target.guests
    if arch and arch != guests.arch:
        raise UnsupportedError(f"it is made for {arch}, but that host is {guests.arch}", where=where)
    if running_xml.get("type") == "kvm" and guests.domain_type != "kvm":
        raise UnsupportedError("it runs with KVM, which is not there", where=where)
    if machine_type and machine_type not in guests.machine_types:
        raise UnsupportedError(
            f"the machine type {machine_type} is not known there",
            where=where,
            hint=f"Another version of QEMU is needed there; it has {guests.types_like(machine_type)}",
        )
    platform = (arch, machine_type, running_xml.get("type", ""))
    _check_firmware(machine, target, platform, where)
    _check_cpu(machine, target, platform, where)


def _check_firmware(
    machine: SourceMachine, target: MigrationTarget, platform: tuple[str, str, str], where: str
) -> None:
    """The file that a machine has its firmware from. platform: architecture, machine type, type of domain."""
    loader = machine.running_xml.findtext("os/loader")
    if not loader:
        return
    with translate_errors("its capabilities cannot be read"):
        text = target.hypervisor.conn.getDomainCapabilities(None, *(word or None for word in platform), 0)
    loaders = {value.text for value in read_description("that hypervisor", text).iterfind("os/loader/value")}
    if loaders and loader not in loaders:
        raise NotFoundError(
            f"its firmware {loader} is not there", where=where, hint=one_of_these(loader, map(str, loaders))
        )


def _check_cpu(machine: SourceMachine, target: MigrationTarget, platform: tuple[str, str, str], where: str) -> None:
    """A machine that is off gets its CPU where it starts."""
    cpu, conn = machine.running_xml.find("cpu"), target.hypervisor.conn
    if cpu is None or not machine.active:
        return
    strict = libvirt.VIR_CONNECT_COMPARE_CPU_FAIL_INCOMPATIBLE
    try:
        if cpu.get("mode") == "custom":
            conn.compareHypervisorCPU(None, *platform, etree.tostring(cpu, encoding="unicode"), strict)
        elif cpu.get("mode") == "host-passthrough" and platform[2] == "kvm":
            # It has all of this hypervisor's CPU, and would crash where something of that is missing.
            host = read_description("this hypervisor", machine.handle.connect().getCapabilities()).find("host/cpu")
            if host is not None:
                conn.compareCPU(etree.tostring(host, encoding="unicode"), strict)
    except libvirt.libvirtError as exc:
        # A driver that cannot compare (emulation, older versions) leaves it to libvirt's own check.
        if exc.get_error_code() == libvirt.VIR_ERR_CPU_INCOMPATIBLE:
            raise UnsupportedError(
                f"the CPU there lacks a feature of the machine's CPU: {exc.get_error_message()}",
                where=where,
                hint="Give machines a CPU that all hypervisors have (virt_cpu_baseline)",
            ) from exc


def _check_start_files(machine: SourceMachine, target: MigrationTarget, where: str) -> None:
    """Of a machine that is off nobody would notice before its next start there; a running one cannot come without."""
    if machine.active:
        return
    for words, path in start_files(machine.defined_xml):
        try:
            with translate_errors(f"its {words} {path} cannot be looked up"):
                target.hypervisor.conn.storageVolLookupByPath(path)
        except NotFoundError as exc:
            raise NotFoundError(
                f"its {words} {path} is in no storage pool there, and would stay behind",
                where=where,
                hint="Copy it into a pool that has this folder on both, and virsh pool-refresh it; or start the "
                "machine first, and move it running",
            ) from exc


def _check_secrets_and_filters(machine: SourceMachine, target: MigrationTarget, where: str) -> None:
    """What its next start, or its arrival, needs of libvirt there. Nothing is asked for a machine that names none."""
    conn, both = target.hypervisor.conn, (machine.running_xml, machine.defined_xml)
    lookups = {
        "uuid": conn.secretLookupByUUIDString,
        "usage": lambda name: conn.secretLookupByUsage(libvirt.VIR_SECRET_USAGE_TYPE_VOLUME, name),
        "filter": conn.nwfilterLookupByName,
    }
    needed = [secret for xml in both for secret in encryption_secrets(xml)]
    needed += [("filter", name) for xml in both for name in network_filters(xml)]
    for kind, name in dict.fromkeys(needed):
        what = f"the network filter {name}" if kind == "filter" else f"the secret {name}"
        try:
            # A libvirt that knows none at all says so itself.
            with translate_errors(f"{what} cannot be looked up", where), suppress_codes(libvirt.VIR_ERR_NO_SUPPORT):
                lookups[kind](name)
        except NotFoundError as exc:
            hint = f"Define it there as it is here: virsh nwfilter-dumpxml {name}"
            if kind != "filter":
                hint = "Create it there with the same UUID, name and value, as with virt_secret"
            raise NotFoundError(f"it needs {what}, which libvirt there does not have", where=where, hint=hint) from exc


def _check_memory(machine: SourceMachine, target: MigrationTarget, options: MigrationOptions, where: str) -> None:
    total_mib = target.hypervisor.memory_mib
    # What a killed move has left of it there goes before it comes.
    taken_mib = target.taken_mib(machine.name)
    free_mib = int((total_mib - options.memory_reserve_mib) * options.memory_ratio) - taken_mib
    if machine.memory_mib > free_mib:
        raise ConflictError(
            f"it needs {machine.memory_mib} MiB of memory, {max(0, free_mib)} MiB are free",
            where=where,
            hint=f"Of {total_mib} MiB there, machines have {taken_mib} MiB, "
            f"{options.memory_reserve_mib} MiB are reserved (memory_reserve_mib, memory_ratio)",
        )


def left_over_space(note: MigrationNote | None, target: MigrationTarget) -> list[SpaceRequest]:
    """What is free there once the volumes that an interrupted move has left are gone: requests for less than nothing.

    note: that of the machine whose next move removes them first.
    """
    if note is None or not target.is_of(note):
        return []
    requests = []
    for ref in note.made:
        # Without its pool, removing it is what fails, and says so.
        with contextlib.suppress(NotFoundError):
            pool = target.hypervisor.pools.get(ref.pool)
            volume = find_volume(pool, ref.name, image_format=RAW)
            if volume is not None and is_the_one(pool, ref, target.hypervisor.conn):
                requests.append(pool.request_space(-volume.allocation_bytes))
    return requests


def space_requests(disks: Sequence[DiskMigration], target: MigrationTarget) -> list[SpaceRequest]:
    """The space that the volumes take at once, with all that this run has allocated before."""
    requests = list(target.hypervisor.space_requests)
    for disk in disks:
        if not disk.travels:
            continue
        pool = disk.target_pool
        # Of an overlay only the difference travels, which is what its file takes. A flattened disk may get all.
        needed = disk.volume.allocation_bytes
        if disk.flattened or not pool.thin:
            needed = disk.capacity_bytes
        requests.append(pool.request_space(needed))
        base = disk.base
        if base is not None:
            store = target.hypervisor.pools.get(base.pool)
            if base.volume not in target.hypervisor.volumes(store) and base.volume not in target.images:
                requests.append(store.request_space(base.size_bytes))
    return requests
