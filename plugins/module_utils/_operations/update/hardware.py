# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The description of a machine that is there already: compared line by line, changed at once or for its next boot."""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Mapping
from dataclasses import replace

from ..._base.errors import UnsupportedError, inside
from ..._base.xml import KIB, need, size_kib_in_xml
from ..._host.connection import libvirt
from ..._model.as_text import plain
from ..._model.spec.fields.table import Field, covers, drop
from ..._model.spec.fragment import merge_fragment
from ..._model.spec.hardware.amounts import MEMORY
from ..._model.spec.hardware.description import HARDWARE, VCPUS
from ..._model.spec.hardware.devices import VIDEO
from ..._model.spec.machine import Machine
from ..create.machine import fragment_digest
from ..disks.sharing import check_fragment_disks
from .draft import Draft

# libvirt writes what it makes of these modes into the running machine's XML.
_EXPANDED_MODES = ("host-model", "host-passthrough", "maximum")
_EXPANDED_KEYS = ("mode", "model", "vendor", "check", "match", "features", "fallback", "migratable")
# These say how a model is compared with the host's CPU, and the running machine's XML says how it came out.
_CHECKED_KEYS = ("check", "fallback")
# What libvirt makes of no boot order at all (virDomainDefBootPostParse in its src/conf/domain_postparse.c).
_NO_ORDER = ({"device": "hd"},)
# The target of a console that is the first serial device under another name.
_OF_SERIAL = "serial"


def compare_hardware(machine: Machine, draft: Draft, where: str) -> None:
    """All fields that the spec names. Raises UnsupportedError for what would leave a machine that cannot boot."""
    _check_platform(machine, draft, where)
    _check_tpm(machine, draft, where)
    wanted = [(field, machine.hardware[field.key]) for field in HARDWARE if machine.hardware.get(field.key) is not None]
    new = {
        field.key: want
        for field, want in wanted
        if not _is_as_requested(field, _defined_value(field, want, draft), want)
    }
    if set(new) - {"memory"}:
        # What the machine has already it may keep, whatever the hypervisor says of itself.
        asked = replace(machine, hardware=new, firmware=None)
        draft.hypervisor.guests.check(asked, need(draft.domain.xml, "os/type").get("machine", ""), where)
    for field, want in wanted:
        if field.key in new:
            _change(field, want, draft)
            if field.key == "graphics" and want:
                _add_card(machine, draft)
        elif draft.live is not None and not _is_as_requested(field, field.read(draft.live), shown_value(field, want)):
            # Changed in the definition by an earlier run, or by hand; the machine has not been started since.
            draft.pending.append(field.key)
    if "serials" in new:
        _settle_console_of_serial(draft, keep=bool(machine.hardware.get("consoles")))
    _compare_fragment(machine, draft, where)


def _is_as_requested(field: Field, have: t.Any, want: t.Any) -> bool:
    """Whether the machine has what is requested.

    The console of the first serial device is there with that device, whoever asks for no consoles, or for others
    (virDomainDefAddConsoleCompat in src/conf/domain_conf.c of libvirt). And libvirt makes an order of no order.
    """
    if field.key == "boot" and want.get("devices") == () and (have or {}).get("devices") == _NO_ORDER:
        want = {key: value for key, value in want.items() if key != "devices"}
    if field.key == "consoles" and have and all(one.get("target_type", _OF_SERIAL) != _OF_SERIAL for one in want):
        others = tuple(one for one in have if one.get("target_type", _OF_SERIAL) != _OF_SERIAL)
        return len(have) - len(others) <= 1 and covers(others, tuple(want))
    return covers(have, want)


def _settle_console_of_serial(draft: Draft, *, keep: bool) -> None:
    """libvirt makes the console of the first serial device by itself, and from that console a device that is gone.

    keep: the task asks for consoles. It has the alias of its device, which none but that device may have once they
    differ.
    """
    devices = need(draft.record("serials"), "devices")
    for console in devices.findall("console"):
        target = console.find("target")
        if target is None or target.get("type", _OF_SERIAL) == _OF_SERIAL:
            for old in console.findall("alias") if keep else [console]:
                drop(old)


def shown_value(field: Field, value: t.Any) -> t.Any:
    """The part of a field's value that the XML of a running machine shows as it is defined."""
    if field.key == "cpu":
        expanded = value.get("mode", "host-model") in _EXPANDED_MODES
        return {key: item for key, item in value.items() if key not in (_EXPANDED_KEYS if expanded else _CHECKED_KEYS)}
    if field.key == "memory":
        # The balloon is on its way, and may have to stop half-way.
        return {key: item for key, item in value.items() if key != "current"}
    return value


def _defined_value(field: Field, want: t.Any, draft: Draft) -> t.Any:
    """What is in the definition; the XML with the passwords is asked for only where one is requested."""
    has_secret = isinstance(want, Mapping) and "password" in want
    return field.read(draft.secret if has_secret else draft.domain.xml)


def _change(field: Field, want: t.Any, draft: Draft) -> None:
    have = _defined_value(field, want, draft)
    shown = {key: have.get(key) for key in want} if isinstance(want, dict) and isinstance(have, dict) else have
    draft.differ((field.key,), plain(shown), plain(want))
    xml = draft.record(field.key)
    field.write(xml, want)
    change_live = _LIVE.get(field.key)
    if draft.live is None or (change_live and change_live(have, want, draft)):
        return
    # A change that was still pending may be taken back: the machine has run as it is to be all the time.
    if not _is_as_requested(field, field.read(draft.live), shown_value(field, want)):
        draft.pending.append(field.key)


def _add_card(machine: Machine, draft: Draft) -> None:
    """What a console shows, or that it shows nothing: libvirt chooses a card for a machine that says neither."""
    xml = draft.record("graphics")
    if xml.find(VIDEO.path) is None:
        VIDEO.write(xml, machine.hardware.get("video") is not False and {})


def _only(have: t.Any, want: t.Any, key: str) -> bool:
    """Whether this key is all that differs."""
    return (
        isinstance(have, Mapping)
        and isinstance(want, Mapping)
        and covers(have, {k: v for k, v in want.items() if k != key})
    )


def _live_vcpus(have: t.Any, want: t.Any, draft: Draft) -> bool:
    """More vCPUs, up to the maximum that the machine was started with, are plugged in; guests rarely give one back."""
    live = None if draft.live is None else VCPUS.read(draft.live)
    if live is None or not _only(have, want, "current") or not live["current"] <= want["current"] <= live["maximum"]:
        return False
    handle, flag = draft.domain.handle, libvirt.VIR_DOMAIN_AFFECT_LIVE
    draft.live_step(f"set {draft.name} to {want['current']} vCPUs", lambda: handle.setVcpusFlags(want["current"], flag))
    return True


def _live_memory(have: t.Any, want: t.Any, draft: Draft) -> bool:
    live = None if draft.live is None else MEMORY.read(draft.live)
    # What was given to it in its definition as its maximum, it has at its next boot.
    if live is None or not _only(have, want, "current") or want["current"] > live["maximum"]:
        return False
    handle, flag = draft.domain.handle, libvirt.VIR_DOMAIN_AFFECT_LIVE
    # What others set need not be a whole number of MiB, and a part of one more could be more than there is.
    old_kib = size_kib_in_xml(draft.domain.xml.findtext("currentMemory", ""), "KiB") or have["current"] * KIB
    draft.live_step(
        f"set {draft.name} to {want['current']} MiB of memory",
        lambda: handle.setMemoryFlags(want["current"] * KIB, flag),
        lambda: handle.setMemoryFlags(old_kib, flag),
    )
    return True


def _live_graphics(have: t.Any, want: t.Any, draft: Draft) -> bool:
    """A console's password, and nothing else of it, changes in the running machine."""
    element = None if draft.live is None else draft.live.find("devices/graphics")
    if element is None or not _only(have, want, "password"):
        return False
    changed = copy.deepcopy(element)
    changed.set("passwd", want["password"])
    draft.live_update(f"change the console's password of {draft.name}", element, changed)
    return True


_LIVE: dict[str, t.Callable[[t.Any, t.Any, Draft], bool]] = {
    "vcpus": _live_vcpus,
    "memory": _live_memory,
    "graphics": _live_graphics,
}


def _check_platform(machine: Machine, draft: Draft, where: str) -> None:
    """Machine type and firmware: the installed system would not find itself again on another one."""
    xml = draft.domain.xml
    who, have = f"machine {machine.name}", need(xml, "os/type").get("machine", "")
    other_type = machine.machine_type and not draft.hypervisor.guests.same_machine_type(have, machine.machine_type)
    loader = xml.find("os/loader")
    efi = need(xml, "os").get("firmware") == "efi" or (loader is not None and loader.get("type") == "pflash")
    feature = xml.find("os/firmware/feature[@name='secure-boot']")
    secure = loader is not None and loader.get("secure") == "yes"
    secure = secure or (feature is not None and feature.get("enabled") == "yes")
    for option, differs, what in (
        ("machine_type", other_type, f"{who} is of type {have}, the task asks for {machine.machine_type}"),
        (
            "firmware",
            machine.firmware and (machine.firmware == "efi") != efi,
            f"{who} has firmware {'efi' if efi else 'bios'}, the task asks for {machine.firmware}",
        ),
        (
            "secure_boot",
            machine.secure_boot not in (None, secure),
            f"secure boot of {who} is {'on' if secure else 'off'}",
        ),
    ):
        if differs:
            raise UnsupportedError(
                what,
                where=inside(where, option),
                hint="It cannot be changed for an installed system; create a new machine",
            )


def _check_tpm(machine: Machine, draft: Draft, where: str) -> None:
    """A TPM of the hypervisor has its version, and an emulated one would not hold what the guest has put into it."""
    asked, backend = machine.hardware.get("tpm"), draft.domain.xml.find("devices/tpm/backend")
    version = asked.get("version") if isinstance(asked, Mapping) else None
    if version is None or backend is None or backend.get("version") == version:
        return
    kind = backend.get("type", "emulator")
    if kind != "emulator":
        raise UnsupportedError(
            f"the TPM of machine {machine.name} is not emulated but of type {kind}, and its version cannot be chosen",
            where=inside(where, "tpm"),
            hint="Leave the version out (tpm: true)",
        )


def _compare_fragment(machine: Machine, draft: Draft, where: str) -> None:
    """A fragment is merged in once; what an earlier one brought stays."""
    digest = fragment_digest(machine)
    if machine.xml is None or digest == draft.notes.fragment:
        return
    check_fragment_disks(machine, draft.hypervisor, where)
    draft.differ(("xml",), None, machine.xml)
    draft.replace_record(merge_fragment(draft.record("xml"), machine.xml))
    draft.notes = replace(draft.notes, fragment=digest)
    if draft.live is not None:
        draft.pending.append("xml")
