# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words that Salt Virt had for what is called otherwise here, so that a Salt user's data can be pasted in."""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Mapping

from ...._base.errors import InputError
from ..fields import validators
from ..fields.given import GivenOptions
from ..hardware.description import BOOT_DEVICES

# Another name for the same thing.
SALT_WORDS = {
    "mem": "memory",
    "interfaces": "nics",
    "disk": "disk_profile",
    "nic": "nic_profile",
    "hypervisor_features": "features",
}
# Keys of Salt's ``cpu`` that are ours in ``vcpus``.
_VCPU_KEYS = ("current", "maximum", "cpuset", "placement")


# What can be there or not is a mapping, true or false. On the command line (-e seed=false) these are texts.
_SWITCHES = ("seed", "tpm", "rng", "watchdog")


def switched(value: t.Any) -> t.Any:
    """A text that says true or false as that, anything else as it is."""
    if isinstance(value, str):
        with contextlib.suppress(InputError):
            return validators.yes_or_no(value, "")
    return value


def translate_salt_words(spec: Mapping[t.Any, t.Any], where: str) -> GivenOptions:
    """The options of a machine in the words of this collection. Raises InputError where both words are there.

    ``cpu`` as a number is the number of vCPUs, and as a mapping may have those keys of ``vcpus`` that Salt had in it.
    ``enable_vnc`` is graphics; ``enable_qcow`` says whether disks are overlays on their images or full copies;
    ``boot_dev`` and ``stop_on_reboot`` are parts of boot and events; ``seed: false`` is no seed.
    """
    given = GivenOptions.of(spec, where)
    for key in _SWITCHES:
        if key in given.values:
            given = given.with_value(key, switched(given.values[key]))
    for salt, ours in SALT_WORDS.items():
        given = _move(given, salt, ours, lambda value, _place: value)
    given = _take_cpu(given)
    given = _move(given, "enable_vnc", "graphics", _vnc)
    given = _move(given, "enable_qcow", "clone", lambda v, at: "overlay" if validators.yes_or_no(v, at) else "copy")
    given = _move(given, "boot_dev", "boot", _boot_devices)
    given = _move(given, "stop_on_reboot", "events", _stop_on_reboot)
    if isinstance(given.values.get("seed"), bool):
        given = given.with_value("seed", {} if given.values["seed"] else {"method": "none"})
    return given


def _move(given: GivenOptions, salt: str, ours: str, translate: t.Callable[[t.Any, str], t.Any]) -> GivenOptions:
    """Salt's word as ours; translate: the value, which may come to nothing."""
    if salt not in given.values:
        return given
    value = given.values[salt]
    if value is None:
        return given.renamed(salt, ours, None)
    if given.values.get(ours) is not None:
        raise InputError(
            f"{salt} and {given.word(ours)} are given together",
            where=given.place or None,
            hint="Give only one of the two",
        )
    return given.renamed(salt, ours, translate(value, given.at(salt)))


def _take_cpu(given: GivenOptions) -> GivenOptions:
    cpu = given.values.get("cpu")
    if isinstance(cpu, Mapping):
        vcpus = {key: cpu[key] for key in _VCPU_KEYS if cpu.get(key) is not None}
        if not vcpus:
            return given
        if given.values.get("vcpus") is not None:
            raise InputError(
                "cpu's number of vCPUs and vcpus are given together",
                where=given.place or None,
                hint="Give only one of the two",
            )
        rest = {key: value for key, value in cpu.items() if key not in _VCPU_KEYS}
        return given.with_value("cpu", rest).with_value("vcpus", vcpus, given.places["cpu"])
    if isinstance(cpu, int) or (isinstance(cpu, str) and cpu.strip().isdecimal()):
        return _move(given, "cpu", "vcpus", lambda value, _at: value)
    return given


def _boot_devices(value: t.Any, where: str) -> dict[str, list[str]]:
    words = validators.text(value, where).split()
    for word in words:
        if word not in BOOT_DEVICES:
            raise InputError(
                f"{word!r} is not a boot device",
                where=where,
                hint="Give some of hd, cdrom, network and fd, separated by spaces, as in 'network hd'",
            )
    return {"devices": words}


def _vnc(value: t.Any, where: str) -> str | None:
    return "vnc" if validators.yes_or_no(value, where) else None


def _stop_on_reboot(value: t.Any, where: str) -> dict[str, str]:
    return {"reboot": "destroy" if validators.yes_or_no(value, where) else "restart"}
