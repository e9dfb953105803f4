# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fragment of domain XML of the user's own, for what no option names: checked, and merged into a domain.

Elements below ``<devices>`` are added; any other element is laid over the one of its name, attribute by attribute and
child by child.
"""

from __future__ import annotations

import copy
import typing as t

from ..._base.errors import InputError
from ..._base.xml import etree, parse_xml
from .fields import validators
from .fields.table import make

# What options or the collection itself decide; a fragment that changed it would part the domain from its notes.
_NOT_HERE = ("name", "uuid", "metadata")
_QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"


def check_fragment(value: t.Any, where: str) -> str:
    """A text with one or more elements as they stand below <domain>, or <domain> itself with them inside."""
    text = validators.text(value, where)
    for element in _parse(text, where):
        if element.tag in _NOT_HERE:
            raise InputError(
                f"<{element.tag}> cannot be set here",
                where=where,
                hint="There is an option for it, or the collection manages it",
            )
    return text


def _parse(text: str, where: str | None = None) -> list[etree._Element]:
    """The elements of a fragment. Entities are not resolved: nothing of the host's files gets in."""
    wrapped = text if text.lstrip().startswith("<domain") else f'<domain xmlns:qemu="{_QEMU}">{text}</domain>'
    if "<!DOCTYPE" in text:
        raise InputError("it has a document type", where=where, hint="Give elements only")
    try:
        root = parse_xml(wrapped, keep_comments=False)
    except etree.XMLSyntaxError as exc:
        raise InputError(f"it is not well-formed XML: {exc.msg}", where=where) from exc
    except ValueError as exc:
        raise InputError(str(exc), where=where) from exc
    children = [child for child in root if isinstance(child.tag, str)]
    if not children:
        raise InputError("it contains no element", where=where, hint="Give elements as they appear below <domain>")
    return children


def fragment_disks(text: str) -> list[etree._Element]:
    """The ``<disk>`` elements of a fragment."""
    return [disk for element in _parse(text) if element.tag == "devices" for disk in element.iterfind("disk")]


def merge_fragment(domain: etree._Element, text: str) -> etree._Element:
    """A copy of the domain with the fragment in it. A device that is there just so is not added a second time."""
    merged = etree.Element(domain.tag, nsmap={"qemu": _QEMU})
    merged.attrib.update(domain.attrib)
    merged.extend(copy.deepcopy(child) for child in domain)
    for element in _parse(text):
        if element.tag == "devices":
            _add_devices(merged, element)
        else:
            _merge_element(merged, element)
    return merged


def _add_devices(domain: etree._Element, devices: etree._Element) -> None:
    home = make(domain, "devices")
    for device in devices:
        if isinstance(device.tag, str) and not any(_within(device, there) for there in home.iterfind(device.tag)):
            home.append(copy.deepcopy(device))


def _merge_element(home: etree._Element, element: etree._Element) -> None:
    there = home.findall(element.tag)
    if len(there) != 1 or etree.QName(element).localname in _ROWS:
        if not any(_within(element, one) for one in there):
            home.append(copy.deepcopy(element))
        return
    there[0].attrib.update(dict(element.attrib))
    if (element.text or "").strip():
        there[0].text = element.text
    for child in element:
        if isinstance(child.tag, str):
            _merge_element(there[0], child)


# Elements of which there are many side by side.
_ROWS = ("arg", "env", "boot", "feature", "timer", "cell", "vcpupin", "iothreadpin", "page", "entry", "memnode")


def _within(part: etree._Element, whole: etree._Element) -> bool:
    """Whether an element has all that a fragment's has."""
    if part.tag != whole.tag or any(whole.get(name) != value for name, value in part.attrib.items()):
        return False
    if (part.text or "").strip() and (part.text or "").strip() != (whole.text or "").strip():
        return False
    children = [child for child in part if isinstance(child.tag, str)]
    return all(any(_within(child, there) for there in whole.iterfind(child.tag)) for child in children)
