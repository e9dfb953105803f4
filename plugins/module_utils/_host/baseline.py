# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU that machines can have on several hypervisors, by libvirt's own reckoning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._errors import (
    ConflictError,
    HostError,
    InputError,
    UnsupportedError,
)
from ansible_collections.brine.virt.plugins.module_utils._host.connection import VirConnect, errors_as_ours, libvirt
from ansible_collections.brine.virt.plugins.module_utils._model.guest_cpu import GuestCpu, guest_cpu_from_xml
from ansible_collections.brine.virt.plugins.module_utils._xml import parse_xml


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
        raise UnsupportedError("this hypervisor runs no machines of its own architecture")
    with errors_as_ours("cannot read what CPU machines can have"):
        abilities = parse_xml(conn.getDomainCapabilities(None, arch, None, domain_types[0], 0))
    mode = abilities.find("cpu/mode[@name='host-model'][@supported='yes']")
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
    common = _reckon(conn, list(cpus.values()), flags)
    features = {host: _all_features(conn, cpu, expanded) for host, cpu in cpus.items()}
    everything = frozenset().union(*features.values())
    return Baseline(common, {host: tuple(sorted(everything - features[host])) for host in sorted(features)})


def _reckon(conn: VirConnect, cpus: list[GuestCpu], flags: int) -> GuestCpu:
    first = cpus[0]
    with errors_as_ours("libvirt finds no common CPU", "cpus"):
        text = conn.baselineHypervisorCPU(
            None, first.arch, None, first.domain_type, [cpu.as_xml() for cpu in cpus], flags
        )
    cpu = guest_cpu_from_xml(parse_xml(text), first.arch, first.domain_type)
    if cpu is None:
        raise HostError("libvirt's common CPU has no model", where="cpus")
    return cpu


def _all_features(conn: VirConnect, cpu: GuestCpu, flags: int) -> frozenset[str]:
    """Every feature of a CPU, those of its model too."""
    found = _reckon(conn, [cpu], flags).features
    return frozenset(name for name, policy in found.items() if policy in ("force", "require"))
