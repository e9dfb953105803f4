# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What libvirt fills in by itself: values that a machine has though nobody asked for them.

They are left out of an export, as they come again by themselves. A machine that has them keeps them, since what is not
named stays. Sources: virDomainDefPostParse and qemuDomainDefPostParse of libvirt (src/conf/domain_postparse.c,
src/qemu/qemu_postparse.c), and https://libvirt.org/formatdomain.html.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ..spec.fields.table import Values

# What the first serial device of a machine is, by architecture.
_SERIAL_TARGETS = ("isa-serial", "system-serial", "sclp-serial", "spapr-vio-serial")
_RAW = ("protocol", "raw")
_FULL_MODES = ("host-passthrough", "maximum")


def without_filled_in(values: Values, *, emulated: bool = False) -> Values:
    """The hardware of a machine, as read_table reads it by HARDWARE, without what libvirt has filled in.

    emulated: whether the machine runs without KVM (``<domain type='qemu'>``).
    """
    found = dict(values)
    cpu = found.get("cpu")
    if isinstance(cpu, Mapping) and cpu.get("mode") == "custom":
        found["cpu"] = without_usual(cpu, {"check": "none" if emulated else "partial"})
    for key, clean in _CLEANERS.items():
        if isinstance(found.get(key), (Mapping, tuple)):
            found[key] = clean(found[key])
    if _is_mirror(found.get("consoles", ()), found.get("serials", ())):
        # libvirt makes a console of the first serial device.
        found["consoles"] = ()
    return found


def _is_mirror(consoles: t.Any, serials: t.Any) -> bool:
    if not isinstance(consoles, tuple) or not isinstance(serials, tuple) or len(consoles) != 1 or not serials:
        return False
    return dict(consoles[0]) in ({"type": "pty"}, dict(serials[0]))


def _vcpus(values: Values) -> Values:
    return without_usual(values, {"placement": "static"})


def _cpu(values: Values) -> Values:
    mode = values.get("mode")
    usual: Values = {"fallback": "allow"}
    if mode == "host-model":
        usual["check"] = "partial"
    if mode in _FULL_MODES:
        usual.update(check="none", migratable=True)
    if mode == "custom":
        usual["match"] = "exact"
    clean = without_usual(values, usual)
    if isinstance(clean.get("topology"), Mapping):
        clean["topology"] = without_usual(clean["topology"], {"dies": 1})
    return clean


def _serials(rows: Sequence[Values]) -> tuple[Values, ...]:
    return _without_places(rows, lambda _index, target: target in _SERIAL_TARGETS)


def _consoles(rows: Sequence[Values]) -> tuple[Values, ...]:
    # libvirt counts those on no serial device by their places, which may have changed since it wrote that down.
    told = [{k: v for k, v in row.items() if k != "target_port" or row.get("target_type") == "serial"} for row in rows]
    return _without_places(told, lambda index, target: index == 0 and target == "serial")


def _without_places(rows: Sequence[Values], is_usual: t.Callable[[int, t.Any], bool]) -> tuple[Values, ...]:
    """Rows without the port that each has by its place, and a type of target that it would have anyway."""
    return tuple(
        {
            key: value
            for key, value in row.items()
            if (key, value) not in (("target_port", index), _RAW)
            and not (key == "target_type" and is_usual(index, value))
        }
        for index, row in enumerate(rows)
    )


def _video(values: Values) -> Values:
    # The memory that each model has by itself (virDomainVideoDefaultRAM, in KiB), and one screen.
    memory = {"qxl": 65536, "vga": 16384, "cirrus": 16384, "bochs": 16384, "vmvga": 16384}
    return without_usual(values, {"heads": 1, "vram": memory.get(str(values.get("model")))})


def without_usual(values: Mapping[str, t.Any], usual: Values) -> Values:
    """Options without those that have their usual value."""
    return {key: value for key, value in values.items() if key not in usual or usual[key] != value}


_CLEANERS: dict[str, t.Callable[[t.Any], t.Any]] = {
    "vcpus": _vcpus,
    "cpu": _cpu,
    "serials": _serials,
    "consoles": _consoles,
    "video": _video,
}
