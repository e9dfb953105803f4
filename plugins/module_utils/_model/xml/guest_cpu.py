# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU that a hypervisor can give its machines, as plain data and as libvirt's XML."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ..._base.xml import etree


@dataclass(frozen=True)
class GuestCpu:
    """domain_type: what runs the machines, ``kvm`` or ``qemu``. features: what differs from the model, by policy."""

    arch: str
    domain_type: str
    model: str
    vendor: str | None
    features: Mapping[str, str]

    def as_dict(self) -> dict[str, t.Any]:
        """Plain data."""
        return asdict(self)

    def as_option(self) -> dict[str, t.Any]:
        """The option ``cpu`` of a machine that has this CPU."""
        vendor = {} if self.vendor is None else {"vendor": self.vendor}
        return {"mode": "custom", "match": "exact", "model": self.model, **vendor, "features": dict(self.features)}

    def as_xml(self) -> str:
        """A CPU of a machine, as baselineHypervisorCPU wants it (https://libvirt.org/formatdomain.html#cpu-model)."""
        cpu = etree.Element("cpu", mode="custom", match="exact")
        etree.SubElement(cpu, "model", fallback="forbid").text = self.model
        if self.vendor is not None:
            etree.SubElement(cpu, "vendor").text = self.vendor
        for name, policy in self.features.items():
            etree.SubElement(cpu, "feature", policy=policy, name=name)
        return etree.tostring(cpu, encoding="unicode")


def guest_cpu_from_xml(cpu: etree._Element, arch: str, domain_type: str) -> GuestCpu | None:
    """The CPU in an element with model, vendor and features; None for one without a model."""
    model = cpu.findtext("model")
    if not model:
        return None
    features = {item.get("name", ""): item.get("policy", "require") for item in cpu.iterfind("feature")}
    return GuestCpu(arch, domain_type, model, cpu.findtext("vendor"), features)
