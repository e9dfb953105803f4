# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hypervisor has and what of it is allocated already: for people and for placement."""

from __future__ import annotations

import contextlib
import os
import typing as t
from collections.abc import Callable, Collection

from ..._base.errors import VirtError
from ..._base.xml import MIB, etree, read_description
from ..._model.image.name import PROVENANCE_ATTRIBUTE, parse_image_volume
from ..connection import (
    VirConnect,
    by_name,
    is_local,
    map_in_threads,
    of_those_there,
    translate_errors,
    version_text,
)
from ..machines.listing import observe_machines
from ..machines.record import ACTIVE_STATES
from .cpu_baseline import observe_guest_cpu
from .maintenance import read_maintenance
from .networks import observe_bridges, observe_networks
from .pools import observe_pools
from .system import observe_bridge_details, read_release, read_uptime_seconds

DEFAULT_IMAGE_POOL = "images"
# So long all files of images together have to say what they are, and so many are asked at once.
_ANSWER_SECONDS = 5
_FILES_AT_ONCE = 16
# What is asked of a hypervisor beside what it is; each is calls of its own.
SUBSETS = ("capabilities", "machines", "pools", "networks", "images")

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
        records = observe_machines(conn, addresses=False, sizes=False, placement=True, timeout_seconds=timeout_seconds)
        _add_machines(host, records, errors)
    if "pools" in subsets:
        host["pools"] = attempt(lambda: observe_pools(conn, errors, local=local), nothing)
    if "networks" in subsets:
        host["networks"] = networks = attempt(lambda: observe_networks(conn, errors), nothing)
        host["bridges"] = bridges = attempt(lambda: observe_bridges(conn, uri, networks), None)
        details = (
            attempt(lambda: observe_bridge_details(bridges or []), None) if local and bridges is not None else None
        )
        host["bridge_details"] = details
    if "images" in subsets:
        host["images"] = attempt(lambda: _images(conn, image_pool, errors, local=local), nothing)
    return {**host, "errors": errors}


def _add_machines(host: dict[str, t.Any], records: list[dict[str, t.Any]], errors: list[str]) -> None:
    """Add the machines, and what they take of the hypervisor; those that are still arriving take it already."""
    machines = [_machine(record) for record in records]
    here = [_machine(record) for record in records if "arriving" not in record]
    errors += [f"machine {machine['name']}: {reason}" for machine in here for reason in machine.pop("errors")]
    active = [record for record in records if record["state"] in ACTIVE_STATES]
    committed_mib = sum(machine["memory_mib"] or 0 for machine in machines)
    host["vcpus"].update(
        committed=sum(machine["vcpus"] or 0 for machine in machines),
        running=sum(record["vcpus_max"] or 0 for record in active),
    )
    host["memory"].update(
        committed_mib=committed_mib,
        running_mib=sum(record["memory_max_mib"] or 0 for record in active),
        free_mib=max(0, host["memory"]["total_mib"] - committed_mib),
    )
    host["machines"] = here
    coming = [record for record in records if "arriving" in record]
    host["arriving"] = [record["name"] for record in coming]
    host["arriving_anti_affinity"] = {record["name"]: record["anti_affinity"] for record in coming}


def _maintenance() -> dict[str, t.Any] | None:
    found = read_maintenance()
    return None if found is None else found.as_dict()


def _machine(record: dict[str, t.Any]) -> dict[str, t.Any]:
    """What placement counts: the most that the machine may take, now or after its next start, not what it takes now."""

    def most(key: str) -> int | None:
        return max(filter(None, (record[key], record.get("next_start", {}).get(key))), default=None)

    return {
        "name": record["name"],
        "uuid": record["uuid"],
        "state": record["state"],
        "vcpus": most("vcpus_max"),
        "memory_mib": most("memory_max_mib"),
        "building": record["building"],
        "claimed": record["claimed"],
        "moving": record["moving"],
        "anti_affinity": record["anti_affinity"],
        "disks": record.get("noted_disks"),
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


def _images(conn: VirConnect, image_pool: str, errors: list[str], *, local: bool) -> list[dict[str, t.Any]]:
    """The stored images: volumes whose name says name and content. local: their files are on this host.

    errors: gets a line for each whose file gives no answer; what it notes is not known then. Raises VirtError.
    """
    with translate_errors(f"cannot list the images in pool {image_pool}"):
        pool = next((p for p in conn.listAllStoragePools() if p.name() == image_pool), None)
        if pool is None or not pool.isActive():
            return []
        volumes = [(parse_image_volume(name), v) for name, v in by_name(pool.listAllVolumes()).items()]
        described = of_those_there(
            [(parsed, v) for parsed, v in volumes if parsed],
            lambda image: (image[0], read_description(f"volume {image[0].volume}", image[1].XMLDesc())),
        )
    described.sort(key=lambda entry: entry[0].volume)
    paths = [root.findtext("target/path") or "" for _parsed, root in described] if local else []
    # As with pools: libvirt answers of its own memory, and a server that is gone lets whoever asks wait for ever.
    answers = map_in_threads(_file_facts, paths, threads=_FILES_AT_ONCE, timeout_seconds=_ANSWER_SECONDS)
    facts = dict(zip(paths, answers))  # noqa: B905 - not in Python 3.9
    errors += [f"image file {path}: {answer.error}" for path, answer in facts.items() if answer.error is not None]
    images = []
    for parsed, root in described:
        virtual_size = int(root.findtext("capacity") or 0)
        path = root.findtext("target/path") or ""
        answer = facts.get(path)
        size_bytes, provenance = (None, None) if answer is None or answer.value is None else answer.value
        images.append(
            {
                "name": parsed.name,
                "volume": parsed.volume,
                "pool": image_pool,
                "format": parsed.format,
                "size_mib": _mib_rounded_up(int(root.findtext("allocation") or 0)),
                "virtual_size_mib": _mib_rounded_up(virtual_size) if virtual_size else None,
                "path": path,
                "size_bytes": size_bytes,
                "virtual_size_bytes": virtual_size or None,
                "provenance": provenance,
            }
        )
    return images


def _file_facts(path: str) -> tuple[int | None, str | None]:
    """The size of an image's file and what it notes of itself, None where that cannot be read.

    What one notes that is still arriving from another hypervisor, its first bytes last, is not told.
    """
    size_bytes = provenance = None
    with contextlib.suppress(OSError):
        size_bytes = os.stat(path).st_size
        # As images/provenance.py and images/listing.py read it, which would bring more files along.
        with open(path, "rb") as file:
            if any(file.read(4)) or path.endswith(".raw"):
                provenance = os.getxattr(path, PROVENANCE_ATTRIBUTE).decode(errors="replace")
    return size_bytes, provenance


def _mib_rounded_up(size_bytes: int) -> int:
    return -(-size_bytes // MIB)
