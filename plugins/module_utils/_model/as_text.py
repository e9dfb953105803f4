# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A spec and a machine in the user's own words, for diffs: the declared fields, before and after."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import asdict

from .spec.disk import Disk
from .spec.machine import Machine
from .spec.network import NETWORK_RULES
from .spec.nic import Nic
from .withheld import replace_xml_passwords

_SECRETS = ("password",)


def plain(value: t.Any) -> t.Any:
    """The value as YAML has it: lists for tuples, no secrets."""
    if isinstance(value, Mapping):
        return {key: "(hidden)" if key in _SECRETS else plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _named(values: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What was named; something empty was named too, it says that there is to be nothing."""
    return {key: plain(value) for key, value in values.items() if value is not None}


def declared(machine: Machine) -> dict[str, t.Any]:
    """A new machine, as far as its spec says. Seeds stay out: they may hold secrets."""
    hardware = {key: plain(value) for key, value in machine.hardware.items() if key not in ("vcpus", "memory")}
    return {
        "name": machine.name,
        "vcpus": short_count(machine.hardware.get("vcpus"), machine.vcpus),
        "memory": short_count(machine.hardware.get("memory"), machine.memory_mib),
        **_named({"image": machine.image, "machine_type": machine.machine_type, "firmware": machine.firmware}),
        **_named({"secure_boot": machine.secure_boot}),
        **hardware,
        "disks": {disk.name: declared_disk(disk) for disk in machine.disks if disk.present},
        "nics": {nic.name: declared_nic(nic) for nic in machine.nics if nic.present},
        **_named(
            {
                "autostart": machine.autostart,
                "title": machine.title,
                "description": machine.description,
                "tags": machine.tags,
                "labels": machine.labels,
                "anti_affinity": machine.anti_affinity,
                "order": machine.order,
                "delay_seconds": machine.delay_seconds,
                "variables": machine.variables,
                "xml": machine.xml and replace_xml_passwords(machine.xml, lambda _password: "(hidden)"),
            }
        ),
        "state": machine.state,
    }


def short_count(value: t.Any, maximum: int) -> t.Any:
    """The plain number where that says all."""
    if not isinstance(value, Mapping) or dict(value) == {"maximum": maximum, "current": maximum}:
        return maximum
    return plain(value)


def declared_disk(disk: Disk) -> dict[str, t.Any]:
    """A disk in the words of its option, all but its name: what this gives can stand in ``disks``."""
    return _named(
        {
            "size": disk.size_mib,
            "format": disk.format,
            "pool": disk.pool if disk.pools else None,
            "image": disk.image,
            "clone": disk.clone,
            "source": disk.source,
            "backing": _named(asdict(disk.backing)) if disk.backing else None,
            "device": disk.device if disk.device != "disk" else None,
            "model": disk.model,
            **disk.options,
        }
    )


def declared_nic(nic: Nic) -> dict[str, t.Any]:
    """A nic in the words of its option, all but its name: what this gives can stand in ``nics``."""
    network = {key: getattr(nic, key) for key in NETWORK_RULES if getattr(nic, key) != ()}
    return _named({nic.type: nic.source, "mac": nic.mac, "model": nic.model, **network, **nic.options})
