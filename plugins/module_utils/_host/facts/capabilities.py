# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a hypervisor can run a machine like this, by what libvirt says of itself, before anything is made."""

from __future__ import annotations

import typing as t

from ..._base.errors import UnsupportedError, inside, one_of_these
from ..._base.xml import attribute, etree
from ..._model.spec.fields.table import Values
from ..._model.spec.machine import Machine

# What an option needs, as <enum> of the domain capabilities; and the package that usually is what is missing.
_ENUMS: tuple[tuple[str, str, str, str, str | None], ...] = (
    ("graphics", "type", "devices/graphics", "type", "SPICE is a separate package in some distributions"),
    ("video", "model", "devices/video", "modelType", None),
    ("tpm", "model", "devices/tpm", "model", "Install swtpm (packages swtpm and swtpm-tools)"),
    ("tpm", "version", "devices/tpm", "backendVersion", "Install swtpm (packages swtpm and swtpm-tools)"),
    ("rng", "model", "devices/rng", "model", None),
)


def check_capabilities(machine: Machine, capabilities: etree._Element, where: str) -> None:
    """Raises UnsupportedError for the first thing that the hypervisor cannot do."""
    _check_firmware(machine, capabilities, where)
    _check_vcpus(machine, capabilities, where)
    check_cpu(machine.hardware.get("cpu", {}), capabilities, inside(where, "cpu"))
    for option, key, path, enum, hint in _ENUMS:
        requested = machine.hardware.get(option)
        if requested is None or requested is False:
            continue
        device = capabilities.find(path)
        if device is None:
            # A libvirt that does not say it yet.
            continue
        place = inside(where, option)
        if device.get("supported") == "no":
            raise UnsupportedError(f"this hypervisor has no {option}", where=place, hint=hint)
        _check_enum(device, enum, requested.get(key), f"{place}.{key}", hint)
    if machine.hardware.get("shared_folders"):
        device = capabilities.find("devices/filesystem")
        if device is not None:
            _check_enum(
                device,
                "driverType",
                "virtiofs",
                inside(where, "shared_folders"),
                "Install virtiofsd (a separate package, or part of qemu-system-common)",
            )


def _check_enum(device: etree._Element, enum: str, value: t.Any, place: str, hint: str | None) -> None:
    known = {v.text or "" for v in device.iterfind(f"enum[@name='{enum}']/value")}
    if value is not None and known and value not in known:
        raise UnsupportedError(
            f"this hypervisor does not support {value!r}", where=place, hint=hint or one_of_these(str(value), known)
        )


def _check_vcpus(machine: Machine, capabilities: etree._Element, where: str) -> None:
    """What QEMU's machine type has room for."""
    most = attribute(capabilities, "vcpu", "max")
    if "vcpus" in machine.hardware and most and most.isdigit() and machine.vcpus > int(most):
        kind = capabilities.findtext("machine") or "the machine type"
        raise UnsupportedError(
            f"{machine.vcpus} vCPUs are more than {kind} can have on this hypervisor",
            where=inside(where, "vcpus"),
            hint=f"Set at most {most}, or another machine_type",
        )


def _check_firmware(machine: Machine, capabilities: etree._Element, where: str) -> None:
    if machine.firmware != "efi":
        return
    known = {v.text for v in capabilities.iterfind("os/enum[@name='firmware']/value")}
    place = inside(where, "firmware")
    if "efi" not in known:
        raise UnsupportedError(
            "this hypervisor has no UEFI", where=place, hint="Install OVMF (package ovmf or edk2-ovmf)"
        )
    secure = {v.text for v in capabilities.iterfind("os/loader/enum[@name='secure']/value")}
    if machine.secure_boot and secure and "yes" not in secure:
        raise UnsupportedError(
            "this hypervisor's UEFI has no secure boot",
            where=inside(where, "secure_boot"),
            hint="Install OVMF (package ovmf or edk2-ovmf), and use machine type q35",
        )


def check_cpu(cpu: Values, capabilities: etree._Element, where: str) -> None:
    """Raises UnsupportedError when the hypervisor does not know this mode or model of a CPU, or cannot be it."""
    mode, model = cpu.get("mode"), cpu.get("model")
    modes = {m.get("name") or "" for m in capabilities.iterfind("cpu/mode[@supported='yes']")}
    if mode and modes and mode not in modes:
        raise UnsupportedError(
            f"this hypervisor has no CPU mode {mode!r}",
            where=inside(where, "mode"),
            hint=one_of_these(mode, modes),
        )
    models = {m.text or "": m.get("usable") for m in capabilities.iterfind("cpu/mode[@name='custom']/model")}
    if not model or not models:
        return
    if model not in models:
        raise UnsupportedError(
            f"there is no CPU model {model!r}", where=inside(where, "model"), hint=one_of_these(model, models)
        )
    # What a model has more than this CPU may be switched off, one feature after the other.
    less = any(feature.get("policy") in ("disable", "forbid") for feature in cpu.get("features", {}).values())
    if models[model] == "no" and cpu.get("check") != "none" and not less:
        usable = [name for name, answer in models.items() if answer != "no"]
        raise UnsupportedError(
            f"this hypervisor's CPU lacks features of the model {model}",
            where=inside(where, "model"),
            hint=f"Usable: {', '.join(sorted(usable))}",
        )
