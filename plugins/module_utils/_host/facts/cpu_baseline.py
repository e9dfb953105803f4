# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU that machines can have on several hypervisors, by libvirt's own reckoning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..._base.errors import ConflictError, HostError, InputError, UnsupportedError
from ..._base.xml import parse_xml, read_description
from ..._model.xml.guest_cpu import GuestCpu, guest_cpu_from_xml
from ..connection import VirConnect, libvirt, translate_error, translate_errors, version_text


@dataclass(frozen=True)
class Baseline:
    """cpu: what all of them can give. missing: by hypervisor, the features that others have and it has not."""

    cpu: GuestCpu
    missing: Mapping[str, tuple[str, ...]]


def observe_guest_cpu(conn: VirConnect, arch: str | None, domain_types: list[str]) -> GuestCpu:
    """The best CPU that this hypervisor can give machines that are to be able to move.

    It needs a connection that is not read-only. Raises UnsupportedError where libvirt does not tell it.
    """
    if arch is None or not domain_types:
        raise UnsupportedError("this hypervisor cannot run machines of its own architecture")
    with translate_errors("cannot read which CPUs machines can have"):
        capabilities = read_description(
            "what the hypervisor can do", conn.getDomainCapabilities(None, arch, None, domain_types[0], 0)
        )
    mode = capabilities.find("cpu/mode[@name='host-model'][@supported='yes']")
    cpu = None if mode is None else guest_cpu_from_xml(mode, arch, domain_types[0])
    if cpu is None:
        raise UnsupportedError("libvirt has no CPU model for this hypervisor")
    return cpu


def find_baseline(conn: VirConnect, cpus: Mapping[str, GuestCpu]) -> Baseline:
    """The common CPU of hypervisors, by name. Raises an error of ours where they have none.

    libvirt on one of them reckons for all; it asks nobody else.
    https://libvirt.org/html/libvirt-libvirt-host.html#virConnectBaselineHypervisorCPU
    """
    if not cpus:
        raise InputError("there is no CPU to compare", where="cpus", hint="Name at least one hypervisor")
    for what, words in (("arch", "architectures"), ("domain_type", "kinds of virtualisation"), ("vendor", "makers")):
        found = {host: getattr(cpu, what) for host, cpu in cpus.items()}
        if len(set(found.values())) > 1:
            listed = ", ".join(f"{host}: {value}" for host, value in sorted(found.items()))
            raise ConflictError(
                f"these hypervisors have CPUs of different {words} ({listed})",
                where="cpus",
                hint="Running machines cannot move between them. Make a baseline for each kind",
            )
    flags = libvirt.VIR_CONNECT_BASELINE_CPU_MIGRATABLE
    expanded = flags | libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
    known = {host: _known_part(conn, cpu) for host, cpu in cpus.items()}
    common = _reckon(conn, list(known.values()), flags)
    features = {
        # What this libvirt does not know it cannot expand; that the hypervisor has it is known all the same.
        host: _required(_reckon(conn, [known[host]], expanded)) | (_required(cpu) - known[host].features.keys())
        for host, cpu in cpus.items()
    }
    everything = frozenset().union(*features.values())
    return Baseline(common, {host: tuple(sorted(everything - features[host])) for host in sorted(features)})


def _known_part(conn: VirConnect, cpu: GuestCpu) -> GuestCpu:
    """A CPU of another hypervisor without the features that this libvirt does not know.

    A newer libvirt names features that an older one refuses, and with them the whole CPU. A feature that one of them
    does not know cannot be in the CPU that all have in common. Raises UnsupportedError for a model that is not known.
    """
    if _is_known(conn, cpu):
        return cpu
    bare = replace(cpu, features={})
    if not _is_known(conn, bare):
        with translate_errors("cannot read the version of libvirt"):
            version = version_text(conn.getLibVersion())
        raise UnsupportedError(
            f"libvirt {version} on this hypervisor does not know the CPU model {cpu.model}",
            where="cpus",
            hint="Give its machines a CPU that all hypervisors know, with the option cpu",
        )
    known = {
        name: policy for name, policy in cpu.features.items() if _is_known(conn, replace(bare, features={name: policy}))
    }
    return replace(cpu, features=known)


def _is_known(conn: VirConnect, cpu: GuestCpu) -> bool:
    """Whether libvirt understands a description: it is asked, as no call lists the features that it knows."""
    try:
        conn.baselineHypervisorCPU(None, cpu.arch, None, cpu.domain_type, [cpu.as_xml()], 0)
    except libvirt.libvirtError as exc:
        if exc.get_error_code() in (libvirt.VIR_ERR_INTERNAL_ERROR, libvirt.VIR_ERR_CONFIG_UNSUPPORTED):
            return False
        raise translate_error(exc, "libvirt finds no common CPU", "cpus") from exc
    return True


def _required(cpu: GuestCpu) -> frozenset[str]:
    return frozenset(name for name, policy in cpu.features.items() if policy in ("force", "require"))


def _reckon(conn: VirConnect, cpus: list[GuestCpu], flags: int) -> GuestCpu:
    first = cpus[0]
    with translate_errors("libvirt finds no common CPU", "cpus"):
        text = conn.baselineHypervisorCPU(
            None, first.arch, None, first.domain_type, [cpu.as_xml() for cpu in cpus], flags
        )
    cpu = guest_cpu_from_xml(parse_xml(text), first.arch, first.domain_type)
    if cpu is None:
        raise HostError("libvirt's common CPU has no model", where="cpus")
    return cpu
