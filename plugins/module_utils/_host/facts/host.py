# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hypervisor has and what of it is allocated already: for people and for placement."""

from __future__ import annotations

import os
import posixpath
import re
import typing as t
from collections.abc import Callable, Collection

from ansible_collections.brine.virt.plugins.module_utils._base.errors import VirtError
from ansible_collections.brine.virt.plugins.module_utils._base.files import MOUNTS, Mount, mount_of, read_mounts
from ansible_collections.brine.virt.plugins.module_utils._base.xml import MIB, attribute, etree, read_description
from ansible_collections.brine.virt.plugins.module_utils._host.connection import (
    VirConnect,
    is_local,
    libvirt,
    translate_errors,
)
from ansible_collections.brine.virt.plugins.module_utils._host.facts.cpu_baseline import observe_guest_cpu, version_text
from ansible_collections.brine.virt.plugins.module_utils._host.facts.maintenance import read_maintenance
from ansible_collections.brine.virt.plugins.module_utils._host.facts.networks import (
    observe_bridges,
    observe_networks,
)
from ansible_collections.brine.virt.plugins.module_utils._host.facts.system import (
    observe_bridge_details,
    read_release,
    read_uptime_seconds,
)
from ansible_collections.brine.virt.plugins.module_utils._host.machines.listing import observe_machines
from ansible_collections.brine.virt.plugins.module_utils._host.machines.record import ACTIVE_STATES
from ansible_collections.brine.virt.plugins.module_utils._host.storage.pool_refresh import is_started
from ansible_collections.brine.virt.plugins.module_utils._model.image.name import parse_image_volume

DEFAULT_IMAGE_POOL = "images"
# What is asked of a hypervisor beside what it is; each is calls of its own.
SUBSETS = ("capabilities", "machines", "pools", "networks", "images")
# Pools whose space is that of a mounted file system.
_FILE_SYSTEM_POOLS = frozenset({"dir", "fs", "netfs"})
# Pools whose source is some servers of one cluster, any of them, and the name that the storage has there.
_CLUSTERS = frozenset({"rbd", "gluster", "sheepdog"})
# File systems whose source is a server and what it exports, as of netfs pools; the types as the kernel names them.
_EXPORTS = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.glusterfs"})
# server:/srv/vms, [2001:db8::1]:/srv/vms, server:volume and //server/share.
_EXPORT = re.compile(r"(?://)?(\[[^]]+\]|[^:/]+)[:/]/*(.*)")

_Found = t.TypeVar("_Found")


def observe_host(
    conn: VirConnect,
    *,
    image_pool: str = DEFAULT_IMAGE_POOL,
    guest_cpu: bool = False,
    subsets: Collection[str] = SUBSETS,
    timeout_seconds: float | None = None,
) -> dict[str, t.Any]:
    """The facts of the hypervisor behind this connection; a read-only one is enough, but for guest_cpu.

    image_pool: the pool that stored images are looked for in. guest_cpu: ask what CPU machines can have as well.
    subsets: what of SUBSETS to ask for; the rest is left out. timeout_seconds: limit for reading the machines.
    What this hypervisor cannot tell is null or empty, with the reason in ``errors``. Raises VirtError when not even
    its capabilities, and its machines where they are asked for, can be read.
    """
    errors: list[str] = []

    def attempt(question: Callable[[], _Found], otherwise: _Found) -> _Found:
        try:
            return question()
        except VirtError as exc:
            errors.append(str(exc))
            return otherwise

    uri = conn.getURI()
    local = is_local(uri)
    with translate_errors("cannot read the hypervisor's capabilities"):
        capabilities = read_description("the hypervisor", conn.getCapabilities())
        _model, memory_mib, cpus, mhz, nodes, sockets, cores, threads = conn.getInfo()
        name = conn.getHostname()
    arch = capabilities.findtext("host/cpu/arch")
    kinds = _domain_types(capabilities, arch)
    host: dict[str, t.Any] = {
        "name": name,
        "uuid": capabilities.findtext("host/uuid"),
        "uri": uri,
        "libvirt_version": version_text(conn.getLibVersion()),
        "qemu_version": version_text(conn.getVersion()) if conn.getType() == "QEMU" else None,
        "release": read_release() if local else None,
        "uptime_seconds": read_uptime_seconds() if local else None,
        "arch": arch,
        "domain_types": kinds,
        "kvm": "kvm" in kinds,
        "cpu": {
            "model": capabilities.findtext("host/cpu/model"),
            "vendor": capabilities.findtext("host/cpu/vendor"),
            "mhz": mhz,
            "sockets": sockets * nodes,
            "cores": cores,
            "threads": threads,
            "numa_nodes": nodes,
        },
        "guest_cpu": attempt(lambda: observe_guest_cpu(conn, arch, kinds).as_dict(), None) if guest_cpu else None,
        "vcpus": {"total": cpus},
        "memory": {"total_mib": memory_mib},
        "maintenance": attempt(_maintenance, None) if local else None,
    }
    nothing: list[dict[str, t.Any]] = []
    if "capabilities" in subsets:
        host["machine_types"] = _machine_types(capabilities, arch)
        host["default_machine_type"] = _default_machine_type(capabilities, arch)
    if "machines" in subsets:
        records = observe_machines(conn, addresses=False, sizes=False, arriving=True, timeout_seconds=timeout_seconds)
        _add_machines(host, records, errors)
    if "pools" in subsets:
        host["pools"] = attempt(lambda: observe_pools(conn, local=local), nothing)
    if "networks" in subsets:
        host["networks"] = networks = attempt(lambda: observe_networks(conn, errors), nothing)
        host["bridges"] = bridges = attempt(lambda: observe_bridges(conn, uri, networks), None)
        details = (
            attempt(lambda: observe_bridge_details(bridges or []), None) if local and bridges is not None else None
        )
        host["bridge_details"] = details
    if "images" in subsets:
        host["images"] = attempt(lambda: _images(conn, image_pool), nothing)
    return {**host, "errors": errors}


def _add_machines(host: dict[str, t.Any], records: list[dict[str, t.Any]], errors: list[str]) -> None:
    """Add the machines, and what they take of the hypervisor; those that are still arriving take it already."""
    machines = [_machine(record) for record in records]
    here = [_machine(record) for record in records if "arriving" not in record]
    errors += [f"machine {machine['name']}: {reason}" for machine in here for reason in machine.pop("errors")]
    active = [machine for machine in machines if machine["state"] in ACTIVE_STATES]
    committed_mib = sum(machine["memory_mib"] or 0 for machine in machines)
    host["vcpus"].update(
        committed=sum(machine["vcpus"] or 0 for machine in machines),
        running=sum(machine["vcpus"] or 0 for machine in active),
    )
    host["memory"].update(
        committed_mib=committed_mib,
        running_mib=sum(machine["memory_mib"] or 0 for machine in active),
        free_mib=max(0, host["memory"]["total_mib"] - committed_mib),
    )
    host["machines"] = here
    host["arriving"] = [record["name"] for record in records if "arriving" in record]


def _maintenance() -> dict[str, t.Any] | None:
    found = read_maintenance()
    return None if found is None else found.as_dict()


def _machine(record: dict[str, t.Any]) -> dict[str, t.Any]:
    """What placement counts: the most that the machine may take, not what it takes now."""
    return {
        "name": record["name"],
        "uuid": record["uuid"],
        "state": record["state"],
        "vcpus": record["vcpus_max"],
        "memory_mib": record["memory_max_mib"],
        "building": record["building"],
        "claimed": record["claimed"],
        "anti_affinity": record["anti_affinity"],
        "errors": record["errors"],
    }


def _own_guests(capabilities: etree._Element, arch: str | None) -> list[etree._Element]:
    """The ``<arch>`` elements of guests with full virtualisation on the host's own architecture."""
    return [
        element
        for guest in capabilities.iterfind("guest")
        for element in guest.iterfind("arch")
        if element.get("name") == arch and guest.findtext("os_type") == "hvm"
    ]


def _domain_types(capabilities: etree._Element, arch: str | None) -> list[str]:
    """What runs guests of the host's own architecture, KVM first."""
    found = {d.get("type") for guest in _own_guests(capabilities, arch) for d in guest.iterfind("domain")}
    return sorted((kind for kind in found if kind), key=lambda kind: (kind != "kvm", kind))


def _machine_types(capabilities: etree._Element, arch: str | None) -> list[str]:
    """Names and aliases: ``pc-q35-7.2`` and the ``q35`` that stands for it."""
    found: set[str] = set()
    for guest in _own_guests(capabilities, arch):
        for machine in guest.iter("machine"):
            found.update(name for name in (machine.text, machine.get("canonical")) if name)
    return sorted(found)


def _default_machine_type(capabilities: etree._Element, arch: str | None) -> str | None:
    """The type that ``q35`` stands for here, which a new machine gets that names none; None where there is no q35."""
    found = [m for guest in _own_guests(capabilities, arch) for m in guest.iter("machine") if m.text == "q35"]
    return found[0].get("canonical") if found else None


def observe_pools(conn: VirConnect, *, local: bool) -> list[dict[str, t.Any]]:
    """The pools by name, as the module's documentation has them. local: their paths are those of this host.

    Raises VirtError.
    """
    with translate_errors("cannot list the storage pools"):
        active = {p.name() for p in conn.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE)}
        starting = conn.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_AUTOSTART)
        autostart = {p.name() for p in starting}
        active |= {p.name() for p in starting if p.name() not in active and is_started(p)}
        described = [
            (p.name(), read_description(f"storage pool {p.name()}", p.XMLDesc())) for p in conn.listAllStoragePools()
        ]
    pools = []
    for name, root in sorted(described, key=lambda pair: pair[0]):
        path = root.findtext("target/path")
        is_active = name in active
        on_file_system = local and is_active and root.get("type") in _FILE_SYSTEM_POOLS
        space = _live_space(path) if on_file_system else None
        if space is None and is_active:
            space = {key: int(root.findtext(key) or 0) // MIB for key in ("capacity", "allocation", "available")}
        shared = shared_storage_of(root)
        if shared is None and on_file_system and path:
            # Read now: what is only mounted when it is used is mounted since its space has been asked for.
            shared = shared_storage_at(path, read_mounts(MOUNTS))
        pools.append(
            {
                "name": name,
                "type": root.get("type"),
                "active": is_active,
                "autostart": name in autostart,
                "path": path,
                "shared_storage": shared,
                "capacity_mib": space["capacity"] if space else None,
                "allocation_mib": space["allocation"] if space else None,
                "available_mib": space["available"] if space else None,
            }
        )
    return pools


def _live_space(path: str | None) -> dict[str, int] | None:
    """The space of a file system as libvirt counts it, but now: libvirt itself only counts when a pool is refreshed,
    and sparse volumes have grown since."""
    try:
        seen = os.statvfs(path or "")
    except OSError:
        return None
    capacity, available = seen.f_blocks * seen.f_frsize, seen.f_bavail * seen.f_frsize
    return {"capacity": capacity // MIB, "allocation": (capacity - available) // MIB, "available": available // MIB}


def shared_storage_of(root: etree._Element) -> str | None:
    """The storage behind a pool, in words that are the same on every hypervisor, by the source in the pool's XML.

    ``rbd MONITORS/POOL`` with the monitors sorted, and so for other clusters; ``netfs SERVER:/EXPORT``;
    ``iscsi TARGET``. None for storage of one hypervisor alone, and for what the source does not tell (scsi, mpath).
    https://libvirt.org/formatstorage.html#source-elements
    """
    kind, source = root.get("type"), root.find("source")
    if source is None:
        return None
    servers = sorted({str(host.get("name")).lower() for host in source.iterfind("host") if host.get("name")})
    name = source.findtext("name")
    device, folder = attribute(source, "device", "path"), attribute(source, "dir", "path")
    if kind in _CLUSTERS and name:
        inner = (folder or "").strip("/")
        return f"{kind} {','.join(servers)}/{name}{f'/{inner}' if inner else ''}"
    if kind == "netfs" and servers and folder:
        return _export(servers[0], folder)
    if kind in ("iscsi", "iscsi-direct") and device:
        # The name of a target is the only one of its kind.
        return f"iscsi {device}"
    return f"vstorage {name}" if kind == "vstorage" and name else None


def shared_storage_at(path: str, mounts: t.Sequence[Mount]) -> str | None:
    """The same for a directory: what a server exports, or a CephFS, that is mounted there or above.

    None for any other file system: the name of a device says nothing on another hypervisor.
    """
    mount = mount_of(path, mounts)
    if mount is None:
        return None
    inner = posixpath.relpath(os.path.realpath(path), mount.place)
    # Bytes that are no text have no place in an answer.
    source = mount.source.encode("utf-8", "replace").decode()
    if mount.kind == "ceph":
        return f"ceph {posixpath.normpath(posixpath.join(source, inner))}"
    found = _EXPORT.fullmatch(source) if mount.kind in _EXPORTS else None
    return _export(found.group(1), posixpath.join(found.group(2), inner)) if found else None


def _export(server: str, folder: str) -> str:
    path = posixpath.normpath(f"/{folder.strip('/')}")
    return f"netfs {server.strip('[]').lower()}:{path}"


def _images(conn: VirConnect, image_pool: str) -> list[dict[str, t.Any]]:
    """The stored images: volumes whose name says name and content."""
    with translate_errors(f"cannot list the images in pool {image_pool}"):
        pool = next((p for p in conn.listAllStoragePools() if p.name() == image_pool), None)
        if pool is None or not pool.isActive():
            return []
        volumes = [(parse_image_volume(v.name()), v) for v in pool.listAllVolumes()]
        described = [
            (parsed, v.name(), read_description(f"volume {v.name()}", v.XMLDesc())) for parsed, v in volumes if parsed
        ]
    images = []
    for parsed, volume, root in sorted(described, key=lambda entry: entry[1]):
        virtual_size = int(root.findtext("capacity") or 0)
        images.append(
            {
                "name": parsed.name,
                "volume": volume,
                "pool": image_pool,
                "format": parsed.format,
                "size_mib": _mib_rounded_up(int(root.findtext("allocation") or 0)),
                "virtual_size_mib": _mib_rounded_up(virtual_size) if virtual_size else None,
            }
        )
    return images


def _mib_rounded_up(size_bytes: int) -> int:
    return -(-size_bytes // MIB)
