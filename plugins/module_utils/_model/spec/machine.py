# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spec: what a machine is to be, as checked values, and the rule of each option. reading/ makes it of a task's."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..._base.errors import InputError, inside
from ..metadata.labels import read_wanted_labels
from ..metadata.machine import can_be_noted
from .disk import NO_MEDIUM, Disk
from .fields import validators
from .fields.given import GivenOptions
from .fields.table import Values
from .fragment import check_fragment
from .hardware.cpu import CPU_MODES
from .hardware.description import HARDWARE
from .machine_state import ABSENT, RUNNING, STATES
from .names import machine_name
from .nic import Nic
from .seed import Seed, read_seed
from .start_order import DELAY_SECONDS, read_order


@dataclass(frozen=True)
class Machine:
    """One machine. Fields that are None were not named: a new machine gets the default, an existing one keeps what it
    has.

    vcpus and memory_mib: the most that it can have, which is what placement counts; zero where the task
    does not say, and the machine is to be removed or is not known here. state: one of STATES. hardware: the rest of the
    description by the fields of HARDWARE, only what was named. labels: what its hypervisor must have; anti_affinity:
    the groups of which no two machines are to be on one hypervisor. order: when it starts among others, or NO_ORDER to
    take that away; delay_seconds: the wait after it was started. xml: a fragment of domain XML to be merged in.
    seed_requested: whether the machine has a seed of its own, or that for all machines has more than authorized_keys.
    given: where all this comes from.
    """

    name: str
    vcpus: int
    memory_mib: int
    image: str | None
    disks: tuple[Disk, ...]
    nics: tuple[Nic, ...]
    seed: Seed
    hardware: Values = field(default_factory=dict)
    hypervisor: str | None = None
    state: str = RUNNING
    autostart: bool | None = None
    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    anti_affinity: tuple[str, ...] | None = None
    order: int | str | None = None
    delay_seconds: int | None = None
    variables: dict[str, t.Any] | None = None
    machine_type: str | None = None
    firmware: str | None = None
    secure_boot: bool | None = None
    xml: str | None = None
    seed_policy: str = "keep"
    seed_requested: bool = field(default=True, compare=False)
    given: GivenOptions = field(default=GivenOptions({}), compare=False, repr=False)

    @property
    def start(self) -> bool:
        """Whether it is started where it is off."""
        return self.state == RUNNING

    @property
    def absent(self) -> bool:
        """Whether it is to be removed."""
        return self.state == ABSENT

    @property
    def boots_from_nothing(self) -> bool:
        """Whether a new machine has disks, all of them empty, and nothing else that it could boot from.

        A fragment of XML and a device of the hypervisor may be anything, and count as something.
        """
        boot = self.hardware.get("boot") or {}
        disks = [disk for disk in self.disks if disk.present]
        return (
            any(disk.made for disk in disks)
            and not any(disk.image or disk.backing or disk.source not in (None, NO_MEDIUM) for disk in disks)
            and not any(nic.present and "boot_order" in nic.options for nic in self.nics)
            and {"device": "network"} not in boot.get("devices", ())
            and not (boot.get("kernel") or self.hardware.get("host_devices") or self.xml)
        )


def read_variables(value: t.Any, where: str) -> dict[str, t.Any]:
    """Variables that can be remembered; the complaint does not repeat what may be secret."""
    variables = validators.any_mapping(value, where)
    for key, variable in variables.items():
        if not can_be_noted({key: variable}):
            raise InputError(
                "this variable cannot be stored in the machine's metadata",
                where=inside(where, key),
                hint="Leave out .inf and .nan, keys that begin with __ansible_, and more than 50 levels",
            )
    return variables


MACHINE_RULES: dict[str, validators.Rule] = {
    "name": machine_name,
    **{field.key: field.check for field in HARDWARE},
    "image": validators.text,
    "clone": validators.choice("overlay", "copy"),
    "disk_profile": validators.name,
    "nic_profile": validators.name,
    "disks": lambda value, where: value,
    "nics": lambda value, where: value,
    "seed": read_seed,
    "seed_policy": validators.choice("keep", "refresh"),
    "hypervisor": validators.text,
    "state": validators.choice(*STATES),
    "start": validators.yes_or_no,
    "autostart": validators.yes_or_no,
    "title": validators.line,
    "description": validators.lines,
    "tags": validators.list_of(validators.name),
    "labels": read_wanted_labels,
    "anti_affinity": validators.list_of(validators.name),
    "order": read_order,
    "delay_seconds": DELAY_SECONDS,
    "variables": read_variables,
    "machine_type": validators.name,
    "cpu_mode": validators.choice(*(mode for mode in CPU_MODES if mode != "custom")),
    "firmware": validators.choice("bios", "efi"),
    "secure_boot": validators.yes_or_no,
    "xml": check_fragment,
}


def places_of(count: int, where: str, places: t.Sequence[str] | None = None) -> list[str]:
    """What messages call the items of a list.

    where: the list's own name in the user's input (``virt_vms``), empty for one machine that is in no list. places: the
    names of the items themselves, where these are of another list. Raises InputError when there are more or fewer.
    """
    if places is None:
        return [f"{where}[{index}]" for index in range(count)] if where or count != 1 else [""]
    if len(places) != count:
        raise InputError(f"there are {len(places)} for {count} machines", where="places", hint="Give one for each")
    return list(places)
