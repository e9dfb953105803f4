# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words that Salt Virt had for what is called otherwise here, so that a Salt user's data can be pasted in."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.brine.virt.plugins.module_utils._errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model import rules

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


def translate_salt_words(wish: t.Any, where: str) -> t.Any:
    """The wish in the words of this collection. Raises InputError where both words are there.

    ``cpu`` as a number is the number of vCPUs, and as a mapping may have those keys of ``vcpus`` that Salt had in it.
    ``enable_vnc`` is graphics; ``enable_qcow`` says whether disks are overlays on their images or full copies;
    ``boot_dev`` and ``stop_on_reboot`` are parts of boot and events; ``seed: false`` is no seed.
    """
    if not isinstance(wish, Mapping):
        return wish
    clean = {key: value for key, value in wish.items() if value is not None}
    for salt, ours in SALT_WORDS.items():
        _move(clean, salt, ours, where, lambda value, _place: value)
    _take_cpu(clean, where)
    _move(clean, "enable_vnc", "graphics", where, _vnc)
    _move(clean, "enable_qcow", "clone", where, lambda value, at: "overlay" if rules.yes_or_no(value, at) else "copy")
    _move(clean, "boot_dev", "boot", where, lambda value, at: {"devices": rules.text(value, at).split()})
    _move(clean, "stop_on_reboot", "events", where, _stop_on_reboot)
    if isinstance(clean.get("seed"), bool):
        clean["seed"] = {} if clean["seed"] else {"method": "none"}
    return clean


def _move(wish: dict[str, t.Any], salt: str, ours: str, where: str, translate: t.Callable[[t.Any, str], t.Any]) -> None:
    if salt not in wish:
        return
    if ours in wish:
        raise InputError(f"{salt} and {ours} are there at once", where=where or None, hint="Name one of the two")
    value = translate(wish.pop(salt), rules.inside(where, salt))
    if value is not None:
        wish[ours] = value


def _take_cpu(wish: dict[str, t.Any], where: str) -> None:
    cpu = wish.get("cpu")
    if isinstance(cpu, Mapping):
        vcpus = {key: cpu[key] for key in _VCPU_KEYS if cpu.get(key) is not None}
        wish["cpu"] = {key: value for key, value in cpu.items() if key not in _VCPU_KEYS}
        if vcpus:
            _move({**wish, "cpu's number of vCPUs": 0}, "cpu's number of vCPUs", "vcpus", where, lambda v, _at: v)
            wish["vcpus"] = vcpus
    elif isinstance(cpu, int) or (isinstance(cpu, str) and cpu.strip().isdecimal()):
        _move(wish, "cpu", "vcpus", where, lambda value, _at: value)


def _vnc(value: t.Any, where: str) -> str | None:
    return "vnc" if rules.yes_or_no(value, where) else None


def _stop_on_reboot(value: t.Any, where: str) -> dict[str, str]:
    return {"reboot": "destroy" if rules.yes_or_no(value, where) else "restart"}
