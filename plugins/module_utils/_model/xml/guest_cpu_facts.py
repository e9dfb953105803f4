# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU that another hypervisor can give its machines, from the facts that it has given of itself."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError
from ..spec.fields import validators
from .guest_cpu import GuestCpu

_RULES: dict[str, validators.Rule] = {
    "arch": validators.word,
    "domain_type": validators.word,
    "model": validators.word,
    "vendor": validators.word,
    "features": validators.any_mapping,
}
_POLICY = validators.choice("force", "require", "optional", "disable", "forbid")


def read_guest_cpu(value: t.Any, where: str) -> GuestCpu:
    """The plain data of a CPU, as another hypervisor's facts have it. Raises InputError."""
    if value is None:
        raise InputError(
            "the CPU of this hypervisor is not known",
            where=where,
            hint="Run virt_host_info with guest_cpu: true, and check its errors",
        )
    needed = ("arch", "domain_type", "model")
    given = validators.read_mapping(value, where, _RULES, needed, "Give what virt_host_info returned as guest_cpu")
    features = {
        str(validators.word(name, f"{where}.features")): str(_POLICY(policy, f"{where}.features.{name}"))
        for name, policy in given.get("features", {}).items()
    }
    return GuestCpu(given["arch"], given["domain_type"], given["model"], given.get("vendor"), features)
