# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a definition that anybody may have written reaches nothing of the hypervisor that is not for machines.

What is known to be harmless passes, and nothing else: libvirt knows hundreds of ways to a file, a device or a socket,
chooses some of them where nothing is said, and every version has new ones.
"""

from __future__ import annotations

import posixpath
import re
import typing as t
from collections.abc import Callable

from ..._base.errors import InputError
from ..._base.xml import etree
from .harmless_elements import HARMLESS

_QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"
# libvirt keeps the first for others, and the second has been written by the restore.
_NOT_LOOKED_AT = ("metadata", "devices/disk/source")
# Firmware and kernels that packages bring; everybody can read them.
_SHIPPED = "/usr/share/"
# What a guest says is written there, as root.
_LOGS = "/var/log/libvirt/"
_ENTROPY = ("/dev/urandom", "/dev/random", "/dev/hwrng")
_CHARACTERS = ("serial", "console", "parallel", "channel")


def _is_in(folder: str, path: str) -> bool:
    return path.startswith(folder) and posixpath.normpath(path) == path


# Takes a value and the name of the machine. The C library reads a time zone from a file, from / on where it begins so;
# QEMU has a file for each keyboard.
_RULES: dict[str, Callable[[str, str], bool]] = {
    ":shipped": lambda text, _name: _is_in(_SHIPPED, text),
    ":log": lambda text, name: _is_in(_LOGS, text) and posixpath.basename(text) == f"{name}-serial.log",
    ":entropy": lambda text, _name: text in _ENTROPY,
    ":zone": lambda text, _name: bool(re.fullmatch(r"[\w+-]+(/[\w+-]+)*", text, re.ASCII)),
    ":word": lambda text, _name: bool(re.fullmatch(r"[\w-]+", text, re.ASCII)),
    ":tap": lambda text, _name: bool(re.fullmatch(r"(vnet|macvtap)[0-9]+", text)),
}


def require_harmless(domain: etree._Element, where: str) -> None:
    """Raise InputError for the definition of a restored machine with something in it that is not known to be harmless.
    where: the file that it was in."""
    found = next(_unknown(domain, "", domain.findtext("name") or ""), None)
    if found is not None:
        raise InputError(
            f"the definition in {where} {found}, which may lead to files, devices or services of this hypervisor",
            hint="Read it; with trust_definition: true it is taken as it is",
        )


def _unknown(element: etree._Element, path: str, machine: str) -> t.Iterator[str]:
    """What is not known, in words. path: that of the element below <domain>. machine: its name."""
    if path in _NOT_LOOKED_AT:
        return
    place = " of ".join(f"<{tag}>" for tag in reversed(path.replace("devices/", "", 1).split("/")))
    known = HARMLESS.get(path)
    if known is None:
        tag = str(element.tag)
        words = f"has arguments for QEMU (qemu:{tag[len(_QEMU) :]})" if tag.startswith(_QEMU) else f"has {place}"
        yield f"{words:.200}"
        return
    # libvirt takes x:type for the type: a name with a namespace is in no line.
    found = {str(name): str(value) for name, value in element.attrib.items()}
    for name, (needed, values) in known.items():
        value = (_text(element) or None) if name == "." else found.get(name)
        if value is None and needed:
            yield f"has {place} without {'a text' if name == '.' else name}"
        elif value is not None and values and not any(_fits(value, allowed, machine) for allowed in values):
            yield f"names {value:.200} in {place}" if name == "." else f"has {name}={value:.200} in {place}"
    for name, value in found.items():
        if name not in known:
            yield f"has {name:.100}={value:.200} in {place}"
    yield from _together(element, path, place)
    for child in element:
        # A comment has a function there.
        if isinstance(child.tag, str):
            yield from _unknown(child, f"{path}/{child.tag}".lstrip("/"), machine)


def _fits(value: str, allowed: str, machine: str) -> bool:
    rule = _RULES.get(allowed)
    return value == allowed if rule is None else rule(value, machine)


def _together(element: etree._Element, path: str, place: str) -> t.Iterator[str]:
    """What is harmless by itself, but not with what else the element has, or lacks."""
    parent = element.getparent()
    readonly = element.get("readonly", "no" if element.get("type") == "pflash" else "yes")
    if path == "os/loader" and readonly != "yes":
        # QEMU would let the guest write it.
        yield f"has {place} that is not readonly"
    if parent is not None and path in {f"devices/{kind}/source" for kind in _CHARACTERS}:
        if parent.get("type") == "tcp" and element.get("mode") != "bind":
            # Without a mode it connects.
            yield f"has {place} that connects to {element.get('host')}:{element.get('service')}"
        if "path" in element.attrib and parent.get("type") != "file":
            yield f"has path={element.get('path', ''):.200} in {place}"


def _text(element: etree._Element) -> str:
    """The text of an element as libvirt has it: all of it, with comments and whatever else between the pieces."""
    pieces: t.Any = element.xpath("string()")
    return str(pieces).strip()
